"""Native programs that run operations of eager tensors."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import numpy as np

from adjit.codegen.native.program_code import MIN_PARALLEL_NS
from adjit.codegen.numpy.chunks import Program
from adjit.codegen.process.fork_safety import no_fork
from adjit.ir.errors import IndexingError
from adjit.ir.graph import Graph
from adjit.ir.thread_context import run_detached
from adjit.ir.verifier import Stage
from adjit.passes.options import Options
from adjit.runtime import settings
from adjit.runtime.arena import allocate, data_address
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.native.executable import NativeExecutable

MAX_KEPT_BYTES = 1 << 20
"""Working memory that a program keeps from one call to the next. There is a program for each shape that tensors have had."""


def compile_program(graph: Graph) -> Program:
    """The program of a graph: graphs that are equal share it."""
    return _compiled(graph)


@lru_cache(maxsize=1024)
def _compiled(graph: Graph) -> Program:
    with no_fork():
        executable = run_detached(partial(compile_graph, graph, "native", Options(), settings.THREADS.get(), False, passes="HALF",
                                          stage=Stage.ADJOINT)).executable
    if isinstance(executable, NativeExecutable):
        executable.keeps_memory = executable.code.artifact.arena_bytes <= MAX_KEPT_BYTES
    return _EagerProgram(executable, graph)


class _EagerProgram(Program):
    """An executable as a function of arrays of any layout."""

    def __init__(self, executable: Any, graph: Graph):
        self._executable = executable
        self._dtypes = tuple(value.type.dtype for value in graph.params)
        self._scalars = not all(value.type.rank for value in graph.results)

    def __call__(self, *arrays: Any) -> tuple[np.ndarray, ...]:
        given = [array if type(array) is np.ndarray and array.dtype == dtype and (flags := array.flags).c_contiguous and flags.aligned
                 else np.array(array, dtype, order="C") for array, dtype in zip(arrays, self._dtypes, strict=True)]
        try:
            results = self._executable.run(given, given)
        except IndexingError as error:      # as from NumPy: the caller knows the line
            raise IndexError(str(error)) from None
        return tuple(map(np.asarray, results) if self._scalars else results)

    @property
    def is_short(self) -> bool:
        executable = self._executable
        return isinstance(executable, NativeExecutable) and executable.code.artifact.work < MIN_PARALLEL_NS and executable.keeps_memory

    def entry(self) -> tuple[int, int, Any]:
        code = self._executable.code
        arena = allocate(code.artifact.arena_bytes)
        return code.loaded.address, data_address(arena), (code, arena)
