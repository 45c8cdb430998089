"""Elementwise operations on large arrays, one chunk after another, by a compiled kernel: NumPy has no function for some ops (`erf`, random
numbers), and makes an array of the whole size for each of the others.

One kernel serves all shapes, as chunks have one size; so it is compiled once a function and dtype, and then comes from the disk cache. The
shape alone decides whether an operation is chunked, so that the same operands give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind, OpCost
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Op, Value, live_ops
from adjit.ir.types import TensorType

CHUNK = 1 << 12
"""Elements of a chunk, and the least that is worth a kernel: those of a few arrays fit the L1 cache."""

MIN_OPS, MIN_ELEMENTS = 5, 1 << 15
"""Ops, and elements, with which a graph is worth a kernel though NumPy has a function for each op."""

_NO_UFUNC = frozenset(("philox",))
Run = Callable[[Sequence[np.ndarray], Sequence[np.ndarray]], None]
"""Writes the results for operands; all large ones are contiguous."""


class KernelCompiler:
    """What compiles a graph of chunks, set by the package that has the backends; None where there is no machine code."""

    compile: Callable[[ChunkGraph], Run] | None = None


@dataclass(frozen=True, slots=True, eq=False)
class ChunkGraph:
    """A graph for `CHUNK` elements of operands and results. `is_large` tells which operands are cut into chunks; the others are 0-d. The
    last one counts elements, from 0, if `counts`."""

    graph: Graph
    is_large: tuple[bool, ...]
    counts: bool
    size: int


class ChunkedFunction:
    """An elementwise graph as a function of ndarrays whose results are new arrays. Compiled at the first call."""

    def __init__(self, graph: Graph, chunks: ChunkGraph):
        self._types = [value.type for value in graph.params]
        self._results = [value.type for value in graph.results]
        self._chunks = chunks
        self._run: Run | None = None

    def __call__(self, *operands: Any) -> tuple[np.ndarray, ...]:
        if self._run is None:
            assert KernelCompiler.compile is not None
            self._run = KernelCompiler.compile(self._chunks)
        given = [np.ascontiguousarray(operand, type.dtype) if type.rank else np.asarray(operand, type.dtype)
                 for operand, type in zip(operands, self._types, strict=True)]
        results = tuple(np.empty(type.shape, type.dtype) for type in self._results)
        self._run(given, results)
        return results


def chunked(graph: Graph) -> ChunkedFunction | None:
    """The function of a graph of elementwise ops on arrays of one size; None if it is another graph, or NumPy is as good."""
    size = max((value.type.size for value in graph.results), default=0)
    if size < CHUNK or KernelCompiler.compile is None:
        return None
    ops_needed = live_ops(graph)
    computing = [op for op in ops_needed if op.definition.kind is Kind.ELEMENTWISE and op.result.type.size == size]
    if not any(map(is_slow, computing)) and (size < MIN_ELEMENTS or len(computing) < MIN_OPS):
        return None
    chunks = _chunk_graph(graph, ops_needed, size)
    return None if chunks is None else ChunkedFunction(graph, chunks)


def is_slow(op: Op) -> bool:
    """True if NumPy has no function for the op, and it takes long."""
    return op.name in _NO_UFUNC or (op.definition.cost is OpCost.TRANSCENDENTAL and not isinstance(op.definition.evaluate, np.ufunc))


def _chunk_graph(graph: Graph, ops_needed: Sequence[Op], size: int) -> ChunkGraph | None:
    made = {op.result for op in ops_needed if len(op.results) == 1 and op.definition.kind is Kind.ELEMENTWISE}
    if len(set(graph.results)) < len(graph.results) or not all(value in made and value.type.size == size for value in graph.results):
        return None
    builder = GraphBuilder(graph.name)
    known: dict[Value, Value] = {}
    for param in graph.params:
        if param.type.dtype.kind == "c" or param.type.size not in (1, size):
            return None
        known[param] = builder.param(_of_chunk(param.type, size))
    index: Value | None = None
    with emitting(builder):
        for op in ops_needed:
            if any(value.type.dtype.kind == "c" or value.type.size not in (1, size) for value in op.results):
                return None
            if op.definition.kind is Kind.ELEMENTWISE:
                known[op.result] = op.definition(*(known[value] for value in op.operands), **op.attrs)
            elif op.name == "constant":
                known[op.result] = ops.constant(**{**op.attrs, "shape": _of_chunk(op.result.type, size).shape})
            elif op.name == "iota" and op.result.type.rank == 1:
                if index is None:
                    index = builder.param(TensorType(np.dtype(np.int64), (CHUNK,)))
                known[op.result] = ops.convert(index, dtype=op.result.type.dtype)
            elif op.name in ("reshape", "broadcast") and (op.result.type.size == op.operands[0].type.size or op.name == "broadcast"):
                operand = known[op.operands[0]]
                known[op.result] = operand if op.result.type.size == op.operands[0].type.size else \
                    ops.broadcast(operand, shape=(CHUNK,), axes=())
            else:
                return None
    built = builder.build([known[value] for value in graph.results])
    large = tuple(value.type.rank == 1 for value in built.params)
    return ChunkGraph(built, large, index is not None, size)


def _of_chunk(type: TensorType, size: int) -> TensorType:
    return type.with_shape((CHUNK,) if type.size == size else ())
