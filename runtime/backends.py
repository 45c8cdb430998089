"""The executable of a planned graph, by the backend that is to run it."""

from __future__ import annotations

from adjit.codegen.target import Target
from adjit.ir.graph import Graph
from adjit.runtime.executable import Executable, Interpretation
from adjit.runtime.kernels import compile_kernels
from adjit.runtime.native_code import native_target, obtain_program
from adjit.runtime.native_executable import NativeExecutable

AnyExecutable = Executable | Interpretation | NativeExecutable


def native_executable(planned: Graph, target: Target, threads: int = 1) -> NativeExecutable:
    """A planned graph as machine code for a target."""
    return NativeExecutable(obtain_program(planned, target), lambda: planned, threads)


def make_executable(backend: str, optimized: Graph, planned: Graph, threads: int) -> AnyExecutable:
    """What runs the graph; `optimized` is the graph before fusion. Raises `UnsupportedError` where the backend has no code for an op."""
    if backend == "interpret":
        return Interpretation(optimized, planned)
    if backend == "native":
        return native_executable(planned, native_target(), threads)
    return Executable(planned, compile_kernels(planned), threads)
