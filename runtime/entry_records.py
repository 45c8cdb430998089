"""Records of the native entry, made in memory: of a program, what it expects and gives; of a function, its programs and what was counted.

    record = make_program_record(program, trace, executable)       # None: its calls go through Python
"""

from __future__ import annotations

import ctypes
import itertools
import math
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import FunctionType, ModuleType, NoneType
from typing import Any, NoReturn

import numpy as np

from adjit.codegen.native import object_layout as layout
from adjit.codegen.native.artifact import Parameter, Result
from adjit.codegen.native.entry_records import FUNCTION, GUARD, NODE, PROGRAM, RESULT, Guard, Handed, Node, Record
from adjit.eager.modes import modes, switched
from adjit.ir.graph import WRITABLE_ROLES
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.native_executable import NativeExecutable
from adjit.runtime.native_threads import pool_for
from adjit.tracer.box import ByReference
from adjit.tracer.guards import Source, Sources, read_cell, read_item
from adjit.tracer.scope import open_traces
from adjit.tracer.signature import CallSignature
from adjit.tracer.trace import StaticLeaf, Trace
from adjit.tracer.trees import TreeSpec

BLOCK_BYTES = 1 << 16
"""Size from which results lie in blocks of the pool: where the system would fault in new pages for each."""

MOST_VALUES = 4096
"""Parameters and results that the entry, which keeps lists of them on the stack, takes."""

MOST_PROGRAMS = 8
"""Programs of one function that the entry tries, those used last; others are found by their signature, in Python."""


class UnsuitedError(Exception):
    """There is something about the program that the entry does not know."""


class Memory:
    """Words that machine code reads, and objects that they name, for as long as this object lives."""

    def __init__(self) -> None:
        self._kept: list[Any] = []

    def words(self, values: Sequence[int]) -> int:
        """The address of a list of words; 0 for none."""
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
        """The address of a record of a node."""
        return self.words(record_words(NODE, {"kind": kind, **fields}))


def record_words(record: Record, fields: Mapping[str, int]) -> list[int]:
    """The words of a record; fields that are not given are 0."""
    assert fields.keys() <= record.keys(), fields.keys() - record.keys()
    return [fields.get(name, 0) for name in record]


class ProgramRecord:
    """A program as the entry sees it. What the record names lives as long as it does; the program itself may end before."""

    def __init__(self, program: object, fields: dict[str, int], memory: Memory):
        self.program = weakref.ref(program)
        self._memory = memory
        self._words = (ctypes.c_int64 * len(PROGRAM))(*record_words(PROGRAM, {**fields, "owner": id(self)}))
        self.address = ctypes.addressof(self._words)

    @property
    def calls(self) -> int:
        """How often the entry ran it."""
        return self._words[PROGRAM["calls"] // 8]

    @property
    def stamp(self) -> int:
        """When it was last called after another one, by the clock of its function."""
        return self._words[PROGRAM["stamp"] // 8]


class FunctionRecord:
    """A compiled function as the entry sees it: its programs, the one used last first, and what the entry counts."""

    def __init__(self, slow: Callable[..., Any]):
        self._memory = Memory()
        fields = {
            "slow": self._memory.identity(slow), "traces": ctypes.addressof(open_traces), "switched": ctypes.addressof(switched),
            "modes": self._memory.identity(modes), "grad": self._memory.identity("grad"), "chain": _NO_PROGRAMS,
            **{field: layout.numpy_function(name) if layout.known() else 0 for field, name in _INTERFACE.items()}}
        self._words = (ctypes.c_int64 * len(FUNCTION))(*record_words(FUNCTION, fields))
        self.address = ctypes.addressof(self._words)
        self._programs: list[ProgramRecord] = []
        self._chains: tuple[Any, ...] = ()

    def offer(self, record: ProgramRecord) -> None:
        """Have the entry try a program first."""
        if self._programs[:1] != [record]:
            self._set([record, *(other for other in self._programs if other is not record)][:MOST_PROGRAMS])

    def withdraw(self, record: ProgramRecord) -> None:
        """Have the entry try a program no more."""
        if self._get("last") == record.address:
            self._put("last", 0)
        if record in self._programs:
            self._set([other for other in self._programs if other is not record])

    def clear(self) -> None:
        """Without programs, and all counts anew."""
        self._set([])
        self._put("hits", 0)
        self._put("last", 0)

    def tick(self) -> int:
        """The time at which another program is called than before."""
        self._put("clock", self._get("clock") + 1)
        return self._get("clock")

    @property
    def hits(self) -> int:
        return self._get("hits")

    @property
    def last(self) -> ProgramRecord | None:
        """The program that was called last, where that was by the entry."""
        address = self._get("last")
        return next((record for record in self._programs if record.address == address), None) if address else None

    def called_in_python(self) -> None:
        """Note that the last call was not the entry's."""
        self._put("last", 0)

    def _set(self, programs: list[ProgramRecord]) -> None:
        chain = (ctypes.c_int64 * (len(programs) + 1))(len(programs), *(record.address for record in programs))
        before = self._programs, self._chains
        self._programs, self._chains = programs, (chain,)
        self._put("chain", ctypes.addressof(chain))
        del before      # the entry may have read them until now

    def _get(self, field: str) -> int:
        return self._words[FUNCTION[field] // 8]

    def _put(self, field: str, value: int) -> None:
        self._words[FUNCTION[field] // 8] = value


_INTERFACE = {"array_type": "PyArray_Type", "new_array": "PyArray_NewFromDescr", "set_base": "PyArray_SetBaseObject",
              "new_scalar": "PyArray_Scalar"}
_EMPTY = ctypes.c_int64(0)
_NO_PROGRAMS = ctypes.addressof(_EMPTY)


def make_program_record(program: object, trace: Trace, executable: NativeExecutable) -> ProgramRecord | None:
    """The record of a program without tensors; None where there is something about it that the entry does not know."""
    signature, artifact = trace.signature, executable.code.artifact
    if len(signature.key) > 3 or len(artifact.params) + len(artifact.results) > MOST_VALUES:      # 3: no method of an object, no tensors
        return None
    memory = Memory()
    try:
        fields = {**_arguments(memory, signature, artifact.params), **_surroundings(memory, signature, trace.sources, artifact.params),
                  **_results(memory, trace, artifact.results)}
    except UnsuitedError:
        return None
    return ProgramRecord(program, {**fields, **_code(memory, executable)}, memory)


def _arguments(memory: Memory, signature: CallSignature, params: Sequence[Parameter]) -> dict[str, int]:
    positional, keywords = signature.tree.children()
    numbers = itertools.count()
    leaves = (_argument(memory, signature, index, numbers, params) for index in range(len(signature.leaf_keys)))
    nodes = [_tree(memory, child, leaves) for part in (positional, keywords) for child in part.children()]
    names = [memory.identity(name) for name in keywords.entries()]
    return {"positional": positional.num_children, "keywords": len(names), "names": memory.words(names), "arguments": memory.words(nodes)}


def _tree(memory: Memory, spec: TreeSpec, leaves: Iterator[int]) -> int:
    """The node of a tree, with these nodes for its leaves."""
    if spec.is_leaf():
        return next(leaves)
    if spec.type is NoneType:
        return memory.node(Node.CONSTANT, object=id(None))
    kind = {tuple: Node.TUPLE, list: Node.LIST, dict: Node.DICT}.get(spec.type)
    if kind is None:
        raise UnsuitedError
    keys = [memory.identity(key) for key in spec.entries()] if kind is Node.DICT else []
    items = [_tree(memory, child, leaves) for child in spec.children()]
    return memory.node(kind, count=len(items), items=memory.words(items), keys=memory.words(keys))


def _argument(memory: Memory, signature: CallSignature, index: int, numbers: Iterator[int], params: Sequence[Parameter]) -> int:
    key = signature.leaf_keys[index]
    if not signature.is_traced(index):
        kind, value = key[1]
        if len(key) > 2 or issubclass(kind, (float, complex, np.inexact, tuple, list, dict, ByReference)):
            raise UnsuitedError     # known by its text, or by what it holds now
        return memory.node(Node.CONSTANT, object=memory.identity(value))
    number = next(numbers)
    is_float, writes = key == ("weak",), params[number].role in WRITABLE_ROLES
    if len(key) > 2 or (writes and is_float):
        raise UnsuitedError
    return memory.node(Node.FLOAT, index=number) if is_float else _array_node(memory, params[number], number)


def _array_node(memory: Memory, param: Parameter, number: int) -> int:
    dtype, writes = SHORT_NAMES[param.dtype], param.role in WRITABLE_ROLES
    return memory.node(
        Node.ARRAY, object=0 if param.shape or writes else id(dtype.type), index=number, descr=memory.identity(dtype),
        flags=layout.CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE * writes, rank=len(param.shape), shape=memory.words(param.shape))


def _bytes(array: Parameter | Result) -> int:
    return math.prod(array.shape) * SHORT_NAMES[array.dtype].itemsize


def _surroundings(memory: Memory, signature: CallSignature, sources: Sources, params: Sequence[Parameter]) -> dict[str, int]:
    """What else than its arguments the program depends on."""
    first = len(params) - len(sources.arrays)
    captures: list[int] = []
    for index, array in enumerate(sources.arrays, first):
        if type(array) is not np.ndarray:
            raise UnsuitedError
        captures += [_array_node(memory, params[index], index), memory.identity(array)]
    guards: list[int] = []
    ask = bool(sources.frozen or sources.read)
    for source in (*sources.fixed, *(source for _, source in sources.captured)):
        guard = _guard(memory, source)
        if guard is None:
            ask = True
        else:
            guards += guard
    recording = signature.key[2]
    donated = [int(param.role in WRITABLE_ROLES) for param in params]
    return {
        "captures": memory.words(captures), "capture_count": len(sources.arrays), "guards": memory.words(guards),
        "guard_count": len(guards) // len(GUARD), "ask": memory.identity(partial(_all_holds, sources)) if ask else 0,
        "recording": id(recording), "needs_mode": int(recording is not True), "params": len(donated), "donated_count": sum(donated),
        "donated": memory.words(donated), "ranges": memory.words([word for param in params for word in (_bytes(param), 0)])}


def _all_holds(sources: Sources) -> bool:
    return sources.current() == sources.arrays if not sources.arrays else sources.current() is sources.arrays


def _guard(memory: Memory, source: Source) -> list[int] | None:
    """The words of a guard; none where nothing can change; None where Python has to look."""
    read = source.read
    if not isinstance(read, partial):
        return None
    wanted = memory.identity(source.value)
    if read.func is read_cell:
        return record_words(GUARD, {"kind": Guard.CELL, "place": memory.identity(read.args[0]), "value": wanted})
    if read.func is len and type(read.args[0]) in (list, dict):
        return record_words(GUARD, {"kind": Guard.SIZE, "place": memory.identity(read.args[0]), "value": source.value})
    if read.func is read_item:
        container, key = read.args
    elif read.func is getattr and type(read.args[0]) in (ModuleType, FunctionType):
        container, key = vars(read.args[0]), read.args[1]
    else:
        return None
    if type(container) is tuple:
        return []
    if type(container) is dict and type(key) is str:
        return record_words(GUARD, {
            "kind": Guard.DICT, "place": memory.identity(container), "key": memory.identity(key), "value": wanted})
    if type(container) is list:
        return record_words(GUARD, {"kind": Guard.LIST, "place": memory.identity(container), "key": key, "value": wanted})
    return None


def _results(memory: Memory, trace: Trace, results: Sequence[Result]) -> dict[str, int]:
    words: list[int] = []
    for result in results:
        handed = Handed.DONATED if result.param >= 0 else Handed.SCALAR if not result.shape else \
            Handed.BLOCK if _bytes(result) >= BLOCK_BYTES else Handed.ARRAY
        words += record_words(RESULT, {
            "handed": handed, "descr": memory.identity(SHORT_NAMES[result.dtype]), "rank": len(result.shape),
            "shape": memory.words(result.shape), "bytes": _bytes(result), "param": max(result.param, 0)})
    leaves = (memory.node(Node.CONSTANT, object=memory.identity(leaf.value)) if isinstance(leaf, StaticLeaf) else
              memory.node(Node.RESULT, index=leaf) for leaf in trace.out_leaves)
    try:
        tree = _tree(memory, trace.out_tree, leaves)
    except UnsuitedError:
        tree = memory.node(Node.BUILT, object=memory.identity(trace.rebuild))
    return {"results": memory.words(words), "result_count": len(results), "tree": tree}


def _code(memory: Memory, executable: NativeExecutable) -> dict[str, int]:
    memory.identity(executable.code)
    pool = pool_for(executable.threads)
    return {"run": executable.code.loaded.address, "pool": pool.address if pool else 0, "release": int(not executable.short),
            "arena_bytes": executable.code.artifact.arena_bytes, "fail": memory.identity(partial(_raise_index_error, executable))}


def _raise_index_error(executable: NativeExecutable, *addresses: int) -> NoReturn:
    raise executable.index_error(*addresses)
