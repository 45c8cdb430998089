"""The tables that the native entry reads, its descriptors: which words describe a compiled function, a program, its arguments, guards and
results.

Every field is a word of eight bytes: a number, or the address of an object or of another record. References are borrowed: who makes
a record keeps alive what it names. `List` fields hold the address of an array of `count` words.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum

Descriptor = Mapping[str, int]
"""The offset of each field."""


def _descriptor(*fields: str) -> Descriptor:
    return {field: 8 * place for place, field in enumerate(fields)}


FUNCTION = _descriptor(
    "programs",            # its programs: their number, then their addresses, the one used last first
    "fallback",             # the Python function that is called where none fits: slow(self, *args, **kwargs)
    "open_traces",           # where the number of traces under way in this process is
    "grad_mode_toggled",         # where it says whether the recording of gradients was ever switched
    "modes", "grad",    # the object with the modes of this thread, and the name of the one that records
    "array", "requires_grad", "gradient", "view", "hooks", "parent", "history", "root_history",      # names of attributes
    "hits", "clock",    # calls that found their program here, and how often that was another than the one before
    "last",             # the program that was called last, unless that was by way of Python
    "array_type", "new_array", "set_base", "new_scalar",        # of NumPy's C interface
)

PROGRAM = _descriptor(
    "positional", "keywords", "names",      # numbers of arguments, and the names of the latter
    "bound",                                # the object that it is a method of, or null
    "arguments",                            # a node for each
    "grad_mode", "needs_mode",              # whether gradients are recorded (True or False); whether that has to be asked every time
    "guard_fn",                             # a Python function that gives True where all else holds that the program depends on, or null
    "guards", "guards_count",
    "captures", "captures_count",           # pairs: a node of kind ARRAY, and the array that the function reaches by itself
    "leaves",                               # number of leaves of the arguments, where there are tensors about; else 0
    "contents", "contents_count",           # tensors whose content is a parameter
    "numbers", "numbers_count",             # of optimisers, that are parameters
    "gradient_reads", "gradient_reads_count",                 # gradients that the program looked at
    "unhooked_tensors", "unhooked_tensors_count",           # places of tensors without hooks
    "tables", "tables_count",               # what modules and optimisers hold besides
    "finish",                               # makes the result with tensors: finish(parameters, results, leaves), or null
    "params", "donated_count", "donated",   # number of parameters; those that are overwritten
    "ranges",                               # for each parameter its bytes, and where it was found to lie apart from the donated ones
    "results", "result_count", "tree",
    "run", "pool", "arena_bytes", "stack",      # adjit_run, its pool, what it needs of memory and of the stack, if that is much
    "release",                                  # whether it runs without the interpreter's lock
    "owner", "fail",                        # keeps all this alive; called with what `run` gives where an index is out of range
    "calls", "last_use",                       # how often it ran, and when it was last called after another
)


class Node(IntEnum):
    """Kinds of nodes of the trees of arguments and results."""

    ARRAY = 0       # an array of exactly this type; a scalar of NumPy's where it is 0-d
    FLOAT = 1       # a Python float
    CONSTANT = 2    # this object, or an equal bool, int or string
    TUPLE = 3
    LIST = 4
    DICT = 5
    RESULT = 6      # of results: a result of the program
    BUILT = 7       # of results: what a Python function makes of a list of the program's results
    SAME = 8        # this very object, which may be gone
    TENSOR = 9
    NAMED = 10      # a named tuple


NODE = _descriptor(
    "kind",
    "object",           # CONSTANT: the object; BUILT: the function; ARRAY: the type of scalars that are taken for it, or null
    "index",            # ARRAY, FLOAT: number of the parameter; RESULT: of the result
    "count", "items",   # TUPLE, LIST, DICT: List of nodes
    "keys",             # DICT: List of keys
    "descr", "number",  # ARRAY: the dtype's object, and its number
    "flags",            # ARRAY: which flags must be set
    "rank", "shape",    # ARRAY
)
"""Of kind TENSOR: `object` is the type, `items` the node of its array, `keys` whether it requires grad, `count` the number of the leaf.
Of kind NAMED: `object` is the type, `keys` a function that makes one of a tuple."""

TENSOR_REF = _descriptor("tensor", "leaf", "gradient")
"""Where a tensor is found: `tensor` itself, or, where that is null, leaf number `leaf`; with `gradient` its gradient."""

CONTENT = _descriptor(*TENSOR_REF, "requires_grad", "node")
GRADIENT_READ = _descriptor(*TENSOR_REF, "there")

NUMBER = _descriptor("group", "name", "index", "zero", "param")
"""A float under `name` in the dict `group`, or item `index` of the tuple there (else -1); `zero` says whether it has to be 0."""

TABLE = _descriptor("holder", "count", "keys", "values")
"""A dict, or with null for `keys` a list, and what it held; where a value is null, any may be there."""


class Guard(IntEnum):
    """Kinds of places outside of the arguments that must still hold the same object."""

    CELL = 0
    DICT = 1
    LIST = 2
    SIZE = 3        # the number of items of a dict or list
    ATTRIBUTE = 4
    DIGEST = 5      # an array whose content must have the digest of the DIGEST record at `key`
    WORD = 6        # the object at this distance from the start of another: in a slot
    TABLE = 7       # all that a dict or list holds: the TABLE record at `key`


GUARD = _descriptor("kind", "holder", "key", "value")

DIGEST = _descriptor("digest", "function", "bytes", "flags", "rank", "shape")
"""What an array must be like: its form, one of the flags that say in which order its elements lie without gaps, and the digest of its bytes
by a function in machine code."""


class ResultStorage(IntEnum):
    """Description of how a result comes about."""

    ARRAY = 0       # a new array, from NumPy's memory
    BLOCK = 1       # a new array, in a block of the pool
    SCALAR = 2
    DONATED = 3     # parameter `param` itself


RESULT = _descriptor("storage", "descr", "rank", "shape", "bytes", "param")
