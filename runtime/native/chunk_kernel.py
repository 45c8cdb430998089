"""Native kernels for elementwise operations of eager tensors, called for one chunk after another."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np

from adjit.codegen.native.piece_loop import HEADER, RECORD
from adjit.codegen.numpy.chunks import ChunkGraph, Run
from adjit.codegen.process.fork_safety import no_fork
from adjit.ir.graph import Graph
from adjit.ir.thread_context import run_detached
from adjit.ir.verifier import Stage
from adjit.passes.options import Options
from adjit.runtime.arena import allocate, data_address
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.native.executable import NativeExecutable


@lru_cache(maxsize=1024)
def _compiled(graph: Graph) -> NativeExecutable:
    """The program of a graph, one for all shapes of arrays that are cut into such chunks."""
    with no_fork():
        compile = partial(compile_graph, graph, "native", Options(), 1, False, passes="HALF", stage=Stage.ADJOINT)
        executable = run_detached(compile).executable
    assert isinstance(executable, NativeExecutable)
    return executable


def compile_chunks(chunks: ChunkGraph) -> Run:
    """The kernel of a graph of chunks: it writes all elements of the results. The last chunk ends where the row ends, and computes some
    elements of the one before again: no element is computed by other code than its neighbours."""
    executable = _compiled(chunks.graph)
    chunk, length, params = chunks.chunk, max(chunks.length, chunks.chunk), len(chunks.graph.params)
    values = (*chunks.graph.params, *chunks.graph.results)
    changes = (*chunks.changes, *[(True, True)] * len(chunks.graph.results))
    records = HEADER + RECORD * len(values)
    kind = ctypes.c_int64 * (records + len(values))
    template = kind(-(-length // chunk), chunk, length, max(chunks.size // length, 1), len(values), params)
    for number, (value, (in_row, by_row)) in enumerate(zip(values, changes, strict=True)):
        place, nbytes = HEADER + RECORD * number, value.type.dtype.itemsize
        template[place + 1] = nbytes if in_row and not (chunks.counts and number == params - 1) else 0
        template[place + 2] = (length if in_row else 1) * nbytes if by_row else 0

    places = tuple(range(HEADER, records, RECORD))
    tables: list[tuple[ctypes.Array[ctypes.c_int64], int]] = []     # of calls that have ended
    addresses = 8 * records, 8 * (records + params)

    def run(operands: Sequence[np.ndarray], results: Sequence[np.ndarray]) -> None:
        try:
            kept = tables.pop()
        except IndexError:
            table = kind.from_buffer_copy(template)
            kept = table, ctypes.addressof(table)
        table, address = kept
        index = (np.empty(chunk, np.int64),) if chunks.counts else ()
        for place, array in zip(places, (*operands, *index, *results), strict=True):
            table[place] = data_address(array)
        executable.run_pieces(address, table[0] * table[3], *addresses, data_address(index[0]) if index else 0)
        tables.append(kept)

    return run


def entry_of(chunks: ChunkGraph) -> tuple[int, int, Any]:
    """Address of `adjit_run` of the kernel, and of working memory for it; and what keeps both. Its caller keeps other threads waiting."""
    executable = _compiled(chunks.graph)
    memory = allocate(executable.code.artifact.arena_bytes)
    return executable.code.loaded.address, data_address(memory), (executable, memory)
