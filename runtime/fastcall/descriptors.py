"""Builders of the fast path's descriptors in memory: of a program, its operands and results; of a function, its programs and counters.

`program_descriptor.py` and `loaded_descriptor.py` make descriptors of programs of these; their layout is that of
`codegen/fastcall/descriptor_layout.py`.
"""

from __future__ import annotations

import ctypes
import math
import weakref
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptor_layout import FACT, FUNCTION, NODE, PROGRAM, RANGE, RESULT, TABLE, Descriptor, Node, ResultStorage
from adjit.codegen.fastcall.results import BLOCK_BYTES
from adjit.codegen.fastcall.ways import MAX_FACTS
from adjit.codegen.native.artifact import Parameter, Result
from adjit.eager.modes import grad_mode_toggled, modes
from adjit.ir.graph import WRITABLE_ROLES
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.native.executable import NativeExecutable
from adjit.tracer.scope import open_traces
from adjit.tracer.tracebacks import hide_frames

MAX_PROGRAMS = 8
"""Programs per function that the fast path tries, the most recently used; other programs are found by their signature, in Python."""

MAX_WAYS = 64
"""As `MAX_PROGRAMS`, with programs that decide on values. A miss of a guard takes 0.06 us, and tells which others need not be tried: 20
ways in turn take 0.3 us a call, one of them 0.2 us. Where 12 of them went through Python, it was 79 us."""

_NO_ARRAY = 1 << 30
"""Flag that no array has."""

_CONTAINERS: dict[Any, Node] = {tuple: Node.TUPLE, list: Node.LIST, dict: Node.DICT}


class UnsuitedError(Exception):
    """Raised for a program with a property that the fast path does not support."""


class Memory:
    """Memory for descriptors: words that machine code reads, and objects that they refer to, alive as long as this object."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def words(self, values: Sequence[int]) -> int:
        """The address of a list of words; 0 for an empty list."""
        if not values:
            return 0
        block = (ctypes.c_int64 * len(values))(*values)
        self._kept.append(block)
        return ctypes.addressof(block)

    def identity(self, value: Any) -> int:
        """The address of an object."""
        self._kept.append(value)
        return id(value)

    def node(self, kind: Node, **fields: int) -> int:
        """The address of a NODE descriptor."""
        return self.words(descriptor_words(NODE, {"kind": kind, **fields}))


def descriptor_words(record: Descriptor, fields: Mapping[str, int]) -> list[int]:
    """The words of a descriptor; fields not given are 0."""
    assert fields.keys() <= record.keys(), fields.keys() - record.keys()
    return [fields.get(name, 0) for name in record]


def table_words(memory: Memory, container: Any, keys: Sequence[Any] | None, values: Sequence[Any],
                varying: Container[int] = ()) -> list[int]:
    """The descriptor of a dict's items, or, without keys, of a list's. Values of the items in `varying` are not compared."""
    words = [0 if index in varying else memory.identity(value) for index, value in enumerate(values)]
    return descriptor_words(TABLE, {
        "holder": memory.identity(container), "count": len(values), "values": memory.words(words),
        "keys": 0 if keys is None else memory.words([memory.identity(key) for key in keys])})


class ProgramDescriptor:
    """A program for the fast path. Objects named by the descriptor live as long as the descriptor; the program may end before."""

    def __init__(self, program: object, fields: dict[str, int], memory: Memory, guarded: bool = False):
        self.program = weakref.ref(program)
        self.guarded = guarded      # True if it decides on values
        self._memory = memory
        self._words = (ctypes.c_int64 * len(PROGRAM))(*descriptor_words(PROGRAM, {**fields, "owner": id(self)}))
        self.address = ctypes.addressof(self._words)

    @property
    def calls(self) -> int:
        """Number of runs by the entry."""
        return self._words[PROGRAM["calls"] // 8]

    @property
    def last_use(self) -> int:
        """Time, by the clock of its function, of the last call that switched to this program."""
        return self._words[PROGRAM["last_use"] // 8]


class FunctionDescriptor:
    """A compiled function for the fast path: its programs, the one used last first, and the counters."""

    def __init__(self, slow: Callable[..., Any], in_any_mode: bool = False):
        """`slow` is called if no program matches. `in_any_mode`: programs do not depend on the gradient mode."""
        self._memory = Memory()
        fields = {
            "fallback": self._memory.identity(slow), "open_traces": ctypes.addressof(open_traces),
            "grad_mode_toggled": _NO_PROGRAMS if in_any_mode else ctypes.addressof(grad_mode_toggled),
            "modes": self._memory.identity(modes), "programs": _NO_PROGRAMS,
            "facts": self._memory.words([0] * (len(FACT) * MAX_FACTS)),
            **{field: self._memory.identity(name) for field, name in _NAMES.items()},
            **{field: layout.numpy_function(name) if layout.known() else 0 for field, name in _INTERFACE.items()}}
        self._words = (ctypes.c_int64 * len(FUNCTION))(*descriptor_words(FUNCTION, fields))
        self.address = ctypes.addressof(self._words)
        self._programs: list[ProgramDescriptor] = []
        self._chains: tuple[Any, ...] = ()

    def offer(self, record: ProgramDescriptor) -> None:
        """Have the fast path try a program first."""
        if self._programs[:1] != [record]:
            others = [other for other in self._programs if other is not record]
            self._set([record, *(other for place, other in enumerate(others, 1) if place < (MAX_WAYS if other.guarded else MAX_PROGRAMS))])

    def withdraw(self, record: ProgramDescriptor) -> None:
        """Remove a program from the fast path."""
        if self._get("last") == record.address:
            self._put("last", 0)
        if record in self._programs:
            self._set([other for other in self._programs if other is not record])

    def clear(self) -> None:
        """Remove all programs, and reset the counters."""
        self._set([])
        self._put("hits", 0)
        self._put("last", 0)

    def tick(self) -> int:
        """Advance the clock: the next call is of another program than the last. Returns the time."""
        self._put("clock", self._get("clock") + 1)
        return self._get("clock")

    @property
    def hits(self) -> int:
        return self._get("hits")

    @property
    def last(self) -> ProgramDescriptor | None:
        """The program that was called last, if the fast path called it."""
        address = self._get("last")
        return next((record for record in self._programs if record.address == address), None) if address else None

    def called_in_python(self) -> None:
        """Record that the last call did not go through the fast path."""
        self._put("last", 0)

    def _set(self, programs: list[ProgramDescriptor]) -> None:
        chain = (ctypes.c_int64 * (len(programs) + 1))(len(programs), *(record.address for record in programs))
        before = self._programs, self._chains
        self._programs, self._chains = programs, (chain,)
        self._put("programs", ctypes.addressof(chain))
        del before      # kept until here, as the fast path may have read them

    def _get(self, field: str) -> int:
        return self._words[FUNCTION[field] // 8]

    def _put(self, field: str, value: int) -> None:
        self._words[FUNCTION[field] // 8] = value


_NAMES = {"grad": "grad", "array": "array", "requires_grad": "_requires_grad", "gradient": "_grad", "view": "_view", "hooks": "_hooks",
          "parent": "parent", "history": "history", "root_history": "_history"}
_INTERFACE = {"array_type": "PyArray_Type", "new_array": "PyArray_NewFromDescr", "set_base": "PyArray_SetBaseObject",
              "new_scalar": "PyArray_Scalar"}
_EMPTY = ctypes.c_int64(0)
_NO_PROGRAMS = ctypes.addressof(_EMPTY)


def array_node(memory: Memory, param: Parameter, number: int, arrays: bool = True, scalars: bool = True,
               rows: tuple[int, int] = (-1, 0)) -> int:
    """The node of an array parameter. One of no dimension matches NumPy scalars too, unless it is written to; without `arrays`, only these.
    `rows`: the number of the parameter that tells how many rows there are, and the least number of them.
    """
    shape = (-1, *param.shape[1:]) if param.per_row else param.shape
    count, least = rows if param.per_row else (-1, 0)
    dtype, writes = SHORT_NAMES[param.dtype], param.role in WRITABLE_ROLES
    flags = layout.CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE * writes if arrays else _NO_ARRAY
    return memory.node(
        Node.ARRAY, object=0 if param.shape or writes or not scalars else id(dtype.type), index=number, descr=memory.identity(dtype),
        flags=flags, rank=len(shape), shape=memory.words(shape), rows=count + 1, count=least)


def constant_node(memory: Memory, value: Any) -> int:
    """The node that matches this object, or an equal bool, int or string."""
    return memory.node(Node.CONSTANT, object=memory.identity(value))


def container_node(memory: Memory, kind: type, items: Sequence[int], keys: Iterable[Any] = ()) -> int:
    """The node of a container of nodes; a dict has `keys`. Raises `UnsuitedError` for kinds that the fast path does not support."""
    if kind in _CONTAINERS:
        return memory.node(_CONTAINERS[kind], count=len(items), items=memory.words(items),
                           keys=memory.words([memory.identity(key) for key in keys]))
    if kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
        raise UnsuitedError
    return memory.node(Node.NAMED, object=memory.identity(kind), keys=memory.identity(partial(tuple.__new__, kind)),
                       count=len(items), items=memory.words(items))


def parameter_fields(memory: Memory, params: Sequence[Parameter], count: int = -1) -> dict[str, int]:
    """The fields for the number of parameters, and for the donated ones. `count` is the number of the parameter that tells how many rows
    there are."""
    donated = [int(param.role in WRITABLE_ROLES) for param in params]
    ranges = [word for param in params for word in descriptor_words(RANGE, {
        "bytes": 0 if param.per_row else _bytes(param), "row_bytes": _row_bytes(param)})]
    return {"params": len(donated), "donated_count": sum(donated), "donated": memory.words(donated), "ranges": memory.words(ranges),
            "rows": count + 1}


def result_fields(memory: Memory, results: Sequence[Result]) -> dict[str, int]:
    """The fields for the storage of each result."""
    words: list[int] = []
    for result in results:
        storage = ResultStorage.DONATED if result.param >= 0 else ResultStorage.SCALAR if not result.shape else \
            ResultStorage.BLOCK if _bytes(result) >= BLOCK_BYTES else ResultStorage.ARRAY
        words += descriptor_words(RESULT, {
            "storage": storage, "descr": memory.identity(SHORT_NAMES[result.dtype]), "rank": len(result.shape),
            "shape": memory.words(result.shape), "bytes": _bytes(result), "param": max(result.param, 0), "per_row": result.per_row,
            "row_bytes": _row_bytes(result)})
    return {"results": memory.words(words), "result_count": len(results)}


def code_fields(memory: Memory, executable: NativeExecutable) -> dict[str, int]:
    """Fields for the code and its operands other than arrays."""
    artifact = executable.code.artifact
    memory.identity(executable.code)
    pool = executable.pool
    return {"run": executable.code.loaded.address, "pool": pool.address if pool else 0, "release": executable.rows_without_gil + 1,
            "arena_bytes": artifact.arena_bytes, "fail": memory.identity(partial(_raise_failure, executable))}


def _bytes(array: Parameter | Result) -> int:
    return math.prod(array.shape) * SHORT_NAMES[array.dtype].itemsize


def _row_bytes(array: Parameter | Result) -> int:
    return array.per_row * math.prod(array.shape[1:]) * SHORT_NAMES[array.dtype].itemsize


def _raise_failure(executable: NativeExecutable, status: int, *addresses: int) -> NoReturn:
    try:
        raise executable.error_of(status, *addresses)
    except BaseException as error:
        hide_frames(error)
        raise
