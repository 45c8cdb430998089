"""Long elementwise functions of tensors on the CPU, at once: one program computes any number of elements.

An operation of the dynamic graph is traced for its shapes, and compiled for them if it has loops. A function of some hundred ops takes some
hundred milliseconds for that, and samples have many shapes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any

import numpy as np

from adjit.codegen.numpy.chunks import SMALL_CHUNK, ChunkGraph, KernelCompiler, Run
from adjit.eager.call import find_call
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.graph import Graph
from adjit.tracer.scope import active_scope

Static = tuple[tuple[str, Any], ...]
Operands = tuple[tuple[np.dtype, bool], ...]
"""Dtypes of the operands, and whether each has an element for each result."""


def runs_at_once(*operands: Any) -> bool:
    """True if no trace is under way, and all operands are on the CPU, for which there is machine code."""
    return KernelCompiler.compile is not None and active_scope() is None and all(
        type(each.array if isinstance(each, Tensor) else each) is np.ndarray for each in operands)


def run_on_elements(function: Callable[..., Any], *operands: Any, **static: Any) -> tuple[Tensor, ...]:
    """Results of `function(*operands, **static)`, a tuple, each of whose elements is made of the same element of each operand: tensors and
    arrays of the shape of the first, or numbers for all elements. Bits are those of `apply`; nothing is recorded."""
    arrays = [np.asarray(each.array if isinstance(each, Tensor) else each, order="C") for each in operands]
    shape, size = arrays[0].shape, arrays[0].size
    count, is_large = max(size, SMALL_CHUNK), [array.shape == shape for array in arrays]
    if size < SMALL_CHUNK:
        arrays = [_filled_up(array) if fills else array for array, fills in zip(arrays, is_large, strict=True)]
    types = tuple([(array.dtype, fills) for array, fills in zip(arrays, is_large, strict=True)])
    run, dtypes = _program(function, tuple(static.items()), types, count)
    results = [np.empty(count, dtype) for dtype in dtypes]
    run(arrays, results)
    return tuple([new_tensor((result if size == count else result[:size].copy()).reshape(shape)) for result in results])


def _filled_up(array: np.ndarray) -> np.ndarray:
    """The elements of a chunk; those that are not there are ones."""
    filled = np.ones(SMALL_CHUNK, array.dtype)
    filled[:array.size] = array.reshape(-1)
    return filled


@lru_cache(maxsize=256)
def _program(function: Callable[..., Any], static: Static, operands: Operands, count: int) -> tuple[Run, tuple[np.dtype, ...]]:
    """What computes so many elements, and the dtypes of its results."""
    graph = _graph(function, static, operands)
    assert KernelCompiler.compile is not None
    chunks = ChunkGraph(graph, tuple([(fills, fills) for _, fills in operands]), (), False, count, count, SMALL_CHUNK)
    return KernelCompiler.compile(chunks), tuple([value.type.dtype for value in graph.results])


@cache
def _graph(function: Callable[..., Any], static: Static, operands: Operands) -> Graph:
    """The function's graph for one chunk."""
    parts = tuple([np.ones(SMALL_CHUNK if fills else (), dtype) for dtype, fills in operands])
    return find_call(function, parts, dict(static), parts, ("elements", function, static, operands), (), False, False).operation.graph
