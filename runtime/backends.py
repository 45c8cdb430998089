"""The executable of a planned graph, by the backend that is to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjit.codegen.llvm.target import Target
from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.code import native_target, obtain_program
from adjit.runtime.native.executable import NativeExecutable

if TYPE_CHECKING:
    from adjit.codegen.native.overlapped_codegen import OverlappedCodegen
    from adjit.runtime.portable import executable as other
    from adjit.runtime.portable import kernels

    AnyExecutable = other.Executable | other.Interpretation | NativeExecutable
else:
    other = LazyModule("adjit.runtime.portable.executable")
    kernels = LazyModule("adjit.runtime.portable.kernels")


def native_executable(planned: Graph, target: Target, threads: int = 1, flush_subnormals: bool = False,
                      overlapped: OverlappedCodegen | None = None) -> NativeExecutable:
    """A planned graph as machine code for a target, of which `overlapped` may have begun with some."""
    return NativeExecutable(obtain_program(planned, target, False, threads, flush_subnormals, overlapped), lambda: planned, threads)


def make_executable(backend: str, optimized: Graph, planned: Graph, threads: int, flush_subnormals: bool = False,
                    overlapped: OverlappedCodegen | None = None) -> AnyExecutable:
    """What runs the graph; `optimized` is the graph before fusion. Raises `UnsupportedError` where the backend has no code for an op."""
    if backend == "interpret":
        return other.Interpretation(optimized, planned)
    if backend == "native":
        return native_executable(planned, native_target(), threads, flush_subnormals, overlapped)
    return other.Executable(planned, kernels.compile_kernels(planned), threads)
