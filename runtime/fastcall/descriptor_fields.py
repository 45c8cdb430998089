"""Fields of a program's descriptor that follow from its artifact and its trees: for compiled programs and for loaded ones."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NoReturn

from adjit.codegen.fastcall import object_layout as layout
from adjit.codegen.fastcall.descriptors import RESULT, Node, ResultStorage
from adjit.codegen.native.artifact import Parameter, Result
from adjit.ir.graph import WRITABLE_ROLES
from adjit.ir.types import SHORT_NAMES
from adjit.runtime.fastcall.descriptors import Memory, UnsuitedError, descriptor_words
from adjit.runtime.native.executable import NativeExecutable

BLOCK_BYTES = 1 << 16
"""Size from which results lie in blocks of the pool: where the system would fault in new pages for each."""

MAX_VALUES = 4096
"""Most parameters and results of a program that the entry calls: lists of their addresses lie on the stack."""

_CONTAINERS: dict[Any, Node] = {tuple: Node.TUPLE, list: Node.LIST, dict: Node.DICT}


def array_node(memory: Memory, param: Parameter, number: int) -> int:
    """The type check of an object for an array parameter."""
    dtype, writes = SHORT_NAMES[param.dtype], param.role in WRITABLE_ROLES
    return memory.node(
        Node.ARRAY, object=0 if param.shape or writes else id(dtype.type), index=number, descr=memory.identity(dtype),
        flags=layout.CONTIGUOUS | layout.ALIGNED | layout.WRITEABLE * writes, rank=len(param.shape), shape=memory.words(param.shape))


def constant_node(memory: Memory, value: Any) -> int:
    """This object, or an equal bool, int or string."""
    return memory.node(Node.CONSTANT, object=memory.identity(value))


def container_node(memory: Memory, kind: type, items: Sequence[int], keys: Iterable[Any] = ()) -> int:
    """A container of nodes, with these keys where it is a dict; raises `UnsuitedError` for kinds that the entry does not know."""
    if kind in _CONTAINERS:
        return memory.node(_CONTAINERS[kind], count=len(items), items=memory.words(items),
                           keys=memory.words([memory.identity(key) for key in keys]))
    if kind.__bases__ != (tuple,) or not hasattr(kind, "_fields"):
        raise UnsuitedError
    return memory.node(Node.NAMED, object=memory.identity(kind), keys=memory.identity(partial(tuple.__new__, kind)),
                       count=len(items), items=memory.words(items))


def parameter_fields(memory: Memory, params: Sequence[Parameter]) -> dict[str, int]:
    """The number of parameters, and the overwritten ones."""
    donated = [int(param.role in WRITABLE_ROLES) for param in params]
    return {"params": len(donated), "donated_count": sum(donated), "donated": memory.words(donated),
            "ranges": memory.words([word for param in params for word in (_bytes(param), 0)])}


def result_fields(memory: Memory, results: Sequence[Result]) -> dict[str, int]:
    """The result kind of each result."""
    words: list[int] = []
    for result in results:
        storage = ResultStorage.DONATED if result.param >= 0 else ResultStorage.SCALAR if not result.shape else \
            ResultStorage.BLOCK if _bytes(result) >= BLOCK_BYTES else ResultStorage.ARRAY
        words += descriptor_words(RESULT, {
            "storage": storage, "descr": memory.identity(SHORT_NAMES[result.dtype]), "rank": len(result.shape),
            "shape": memory.words(result.shape), "bytes": _bytes(result), "param": max(result.param, 0)})
    return {"results": memory.words(words), "result_count": len(results)}


def code_fields(memory: Memory, executable: NativeExecutable) -> dict[str, int]:
    """The code, and its operands besides arrays; raises `UnsuitedError` for a program of very many of them."""
    artifact = executable.code.artifact
    if len(artifact.params) + len(artifact.results) > MAX_VALUES:
        raise UnsuitedError
    memory.identity(executable.code)
    pool = executable.pool
    return {"run": executable.code.loaded.address, "pool": pool.address if pool else 0, "release": int(not executable.short),
            "arena_bytes": artifact.arena_bytes, "stack": executable.stack, "fail": memory.identity(partial(_raise_failure, executable))}


def _bytes(array: Parameter | Result) -> int:
    return math.prod(array.shape) * SHORT_NAMES[array.dtype].itemsize


def _raise_failure(executable: NativeExecutable, *addresses: int) -> NoReturn:
    raise executable.failure(*addresses)
