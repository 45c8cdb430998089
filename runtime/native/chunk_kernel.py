"""Native kernels for elementwise operations of eager tensors, called for one chunk after another."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial

import numpy as np

from adjit.codegen.numpy.chunks import CHUNK, ChunkGraph, Run
from adjit.codegen.process.fork_safety import no_fork
from adjit.ir.graph import Graph
from adjit.ir.thread_context import run_detached
from adjit.ir.verifier import Stage
from adjit.passes.options import Options
from adjit.passes.pipeline import HALF
from adjit.runtime.arena import data_address
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.native.executable import NativeExecutable


@lru_cache(maxsize=1024)
def _compiled(graph: Graph) -> NativeExecutable:
    """The program of a graph, one for all shapes of arrays that are cut into such chunks."""
    with no_fork():
        executable = run_detached(partial(compile_graph, graph, "native", Options(), 1, False, passes=HALF, stage=Stage.ADJOINT)).executable
    assert isinstance(executable, NativeExecutable)
    return executable


def compile_chunks(chunks: ChunkGraph) -> Run:
    """The kernel of a graph of chunks: it writes all elements of the results. The last chunk ends where the arrays end, and computes some
    elements of the one before again: no element is computed by other code than its neighbours."""
    executable = _compiled(chunks.graph)
    starts = np.array([*range(0, chunks.size - CHUNK, CHUNK), chunks.size - CHUNK])
    large = (*chunks.is_large, *(True,) * len(chunks.graph.results))
    sizes = [value.type.dtype.itemsize if is_large else 0 for value, is_large
             in zip((*chunks.graph.params, *chunks.graph.results), large, strict=True)]
    if chunks.counts:
        sizes[len(chunks.is_large) - 1] = 0
    offsets, counted = starts[:, None] * np.array(sizes, np.int64), np.arange(CHUNK)

    def run(operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        index = np.empty(CHUNK, np.int64) if chunks.counts else None
        arrays = (*operands, *(() if index is None else (index,)), *results)
        addresses = offsets + np.array([data_address(array) for array in arrays])
        executable.run_pieces(addresses, None if index is None else lambda piece: np.add(counted, starts[piece], out=index))

    return run
