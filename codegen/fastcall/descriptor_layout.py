"""Descriptor tables that the fast path reads: the words that describe a compiled function, its programs, arguments, guards and results.

Every field is a word of eight bytes: a number, or the address of an object or of another descriptor. References are borrowed: the creator
of a descriptor keeps its referents alive. `List` fields hold the address of an array of `count` words.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

Descriptor = Mapping[str, int]
"""Offset of each field, by name."""


def _descriptor(*fields: str) -> Descriptor:
    return {field: 8 * place for place, field in enumerate(fields)}


FUNCTION = _descriptor(
    "programs",            # its programs: their number, then their addresses, the one used last first
    "fallback",             # the Python function that is called if no program matches: slow(self, *args, **kwargs)
    "open_traces",           # address of the number of open traces in this process
    "grad_mode_toggled",         # address of a flag: True once the recording of gradients was ever switched
    "modes", "grad",    # the object with the modes of this thread, and the attribute name of its gradient mode
    "array", "requires_grad", "gradient", "view", "hooks", "parent", "history", "root_history",      # names of attributes
    "hits", "clock",    # number of calls that found their program here; number of those that changed the program
    "last",             # the program that was called last, unless through the slow path
    "facts", "facts_count",     # what is known of the decisions of the call under way: FACT descriptors, and their number
    "held", "held_count",       # FACT descriptors of the guards that held in the program that missed last
    "array_type", "new_array", "set_base", "new_scalar",        # addresses from NumPy's C interface
)

PROGRAM = _descriptor(
    "positional", "keywords", "names",      # numbers of positional and keyword arguments, and the names of the keywords
    "bound",                                # the object that the method is bound to, or null
    "arguments",                            # a node for each
    "grad_mode", "needs_mode",              # gradient mode of the trace (True or False); whether each call has to check it
    "guard_fn",                             # a Python function that returns True if all other guards hold, or null
    "guards", "guards_count",
    "captures", "captures_count",           # pairs: a node of kind ARRAY, and the array that the function captures
    "leaves",                               # number of leaves of the arguments if there are tensors; else 0
    "contents", "contents_count",           # tensors whose content is a parameter
    "numbers", "numbers_count",             # numbers of optimisers that are parameters
    "gradient_reads", "gradient_reads_count",                 # gradients that the program reads
    "unhooked_tensors", "unhooked_tensors_count",           # references to tensors without hooks
    "tables", "tables_count",               # other content of modules and optimisers
    "finish",                               # makes the result with tensors: finish(parameters, results, leaves), or null
    "params", "donated_count", "donated",   # number of parameters; number and list of donated ones
    "ranges",                               # for each parameter: RANGE
    "rows",                                 # 1 + the number of the parameter that tells how many rows there are, or 0
    "results", "result_count", "tree",
    "run", "pool", "arena_bytes",           # adjit_run, its thread pool, the bytes of its working memory
    "release",                              # 1 + number of rows from which it runs without the GIL, or 0
    "owner", "fail",                        # object that keeps all this alive; function that is called with a failed check's status
    "calls", "last_use",                    # number of runs; value of `clock` at the last change to this program
    "decisions",                            # programs with the same word mean the same decision by a key
    "wanted", "wanted_count",               # WANTED descriptors, by key
    "guarded",                              # FACT descriptors of its guards, in their order
    "misses", "misses_count",               # MISS descriptors
    "launch",                               # LAUNCH descriptor of a program for a card, or null
)


RANGE = _descriptor("bytes", "known", "row_bytes")
"""Memory of a parameter: its bytes, or those of each row, and the address at which it was found disjoint."""


class Space(IntEnum):
    """Memory in which the value of a guard lies."""

    ARENA = 0
    PARAM = 1
    RESULT = 2


MISS = _descriptor("op", "key", "before", "space", "offset", "start", "bytes")
"""Guard that is op number `op`: the key of its decision, the number of `guarded` before it, and where its value lies: `bytes` bytes,
`start` bytes behind the arena, or behind the parameter or result number `offset`."""

WANTED = _descriptor("decides", "bits")
"""Value of a decision that a program asks for; `decides`: 1 if it does."""

FACT = _descriptor("decisions", "key", "bits")
"""Value that a decision has in a call, as the bits of an unsigned number."""


class Node(IntEnum):
    """Kinds of nodes of the trees of arguments and results."""

    ARRAY = 0       # an array of exactly this type; a NumPy scalar if it is 0-d
    FLOAT = 1       # a Python float
    CONSTANT = 2    # this object, or an equal bool, int or string
    TUPLE = 3
    LIST = 4
    DICT = 5
    RESULT = 6      # in results: a result of the program
    BUILT = 7       # in results: the value of a Python function of a list of the program's results
    SAME = 8        # this very object, which may no longer exist
    TENSOR = 9
    NAMED = 10      # a named tuple
    INTEGER = 11    # a Python int that fits into the mantissa of a float
    DEVICE = 12     # an array in the memory of a card


NODE = _descriptor(
    "kind",
    "object",           # CONSTANT: the object; BUILT: the function; ARRAY: the type of scalars that are accepted instead, or null
    "index",            # ARRAY, FLOAT, INTEGER: number of the parameter; RESULT: of the result
    "count", "items",   # TUPLE, LIST, DICT: List of nodes; ARRAY of rows: `count` is the least number of rows; INTEGER: parameters
    "keys",             # DICT: List of keys
    "descr",            # ARRAY: the dtype's object
    "rows",             # ARRAY: as of PROGRAM; the first length in `shape` is then -1
    "flags",            # ARRAY: flags that must be set
    "rank", "shape",    # ARRAY
)
"""Nodes of kind TENSOR: `object` is the type, `items` the node of the tensor's array, `keys` whether the tensor requires grad, `count` the
number of the leaf. Nodes of kind NAMED: `object` is the type, `keys` a function that makes a named tuple from a tuple. Nodes of kind
DEVICE: `descr` and `shape` are the dtype and the tuple of lengths, `items` the CARD descriptor."""

TENSOR_REF = _descriptor("tensor", "leaf", "gradient")
"""Reference to a tensor: `tensor` itself, or, if that is null, leaf number `leaf`; with `gradient`, to the tensor's gradient."""

CONTENT = _descriptor(*TENSOR_REF, "requires_grad", "node")
GRADIENT_READ = _descriptor(*TENSOR_REF, "there")

NUMBER = _descriptor("group", "name", "index", "zero", "param")
"""A float under `name` in the dict `group`, or item `index` of the tuple there (else -1); `zero`: 1 if the float must be 0, else it must
not."""

TABLE = _descriptor("holder", "count", "keys", "values")
"""A dict, or, if `keys` is null, a list, and its expected content. A null value matches any object."""


class Guard(IntEnum):
    """Kinds of locations outside of the arguments that must still hold the same object."""

    CELL = 0
    DICT = 1
    LIST = 2
    SIZE = 3        # the number of items of a dict or list
    ATTRIBUTE = 4
    DIGEST = 5      # an array whose content must have the digest of the DIGEST record at `key`
    WORD = 6        # the object at this offset in another object: in a slot
    TABLE = 7       # the whole content of a dict or list: the TABLE descriptor at `key`


GUARD = _descriptor("kind", "holder", "key", "value")

DIGEST = _descriptor("digest", "function", "bytes", "flags", "rank", "shape")
"""Expected array: its form, one of the contiguity flags, and the digest of its bytes, computed by a function in machine code."""


class ResultStorage(IntEnum):
    """Storage of a result."""

    ARRAY = 0       # a new array, in NumPy's memory
    BLOCK = 1       # a new array, in a block of the pool
    SCALAR = 2
    DONATED = 3     # the array of parameter `param`
    DEVICE = 4      # a new array in the memory of a card, like the object `descr`; `shape` is the CARD descriptor
    DEVICE_DONATED = 5      # the array of parameter `param` in the memory of a card; `shape` as above


RESULT = _descriptor("storage", "descr", "rank", "shape", "bytes", "param", "per_row", "row_bytes")
"""Result. Of an array of rows, a row takes `per_row` along the first axis, and `row_bytes` bytes."""

CARD_ARRAY = ("buffer", "type", "shape", "dtype", "version", "view", "view_steps", "doubts")
"""Slots of an array on a card."""

CARD = _descriptor(
    "alive",                                # 0 in a process that was forked since
    "set_context", "launch", "set_parameters", "copy_in", "allocate", "free", "kind_of", "synchronize",     # functions of the driver
    "context", "stream",
    "launched",                             # number of the name of the program that was launched last
    "used",                                 # bytes of results that the fast path made
    "object", "array_type", "buffer_type",  # the driver, and the types of arrays on it and of their memory
    *CARD_ARRAY,                            # offsets of slots of an array
    "driver", "address", "owner",           # offsets of slots of its memory
)

LAUNCH = _descriptor(
    "card", "name",                         # CARD descriptor; number of the program's name
    "bind",                                 # Python function that makes the instance for a list of addresses: bind(address, bytes)
    "instances", "instances_count", "most", # addresses of INSTANCE descriptors, the one used last first; how many there may be
    "nodes", "nodes_count",                 # LAUNCH_NODE descriptors
    "hosts", "hosts_count",                 # HOST_PARAM descriptors
)

LAUNCH_NODE = _descriptor("relocations", "relocations_count")

RELOCATION = _descriptor("place", "offset", "word")
"""Word number `word` of a kernel's arguments: address number `place` of the call, of its parameters and then of its results, plus
`offset`."""

INSTANCE = _descriptor("executable", "key", "nodes")
"""Instance of a graph: the driver's handle, its addresses of parameters and results, and INSTANCE_NODE descriptors."""

INSTANCE_NODE = _descriptor("handle", "parameters", "words")
"""Node of an instance: the driver's handle, its structure of parameters, and the words that this points to."""

HOST_PARAM = _descriptor("param", "bytes", "address", "known", "is_known")
"""Parameter whose content is in the memory of the CPU: it is copied to `address` on the card before each launch; a number, for whose
content there is memory at `known`, if it is another one than in the call before."""
