"""The executable of a planned graph, by the backend that is to run it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjit.codegen.llvm.target import Target
from adjit.ir.graph import Graph
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.code import native_target, obtain_program
from adjit.runtime.native.executable import NativeExecutable

if TYPE_CHECKING:
    from adjit.codegen.native.compile_program import OverlappedCodegen
    from adjit.runtime.cuda import device_executable, devices
    from adjit.runtime.numba import executable, kernels

    AnyExecutable = executable.Executable | executable.Interpretation | NativeExecutable | device_executable.DeviceExecutable
else:
    devices = LazyModule("adjit.runtime.cuda.devices")
    device_executable = LazyModule("adjit.runtime.cuda.device_executable")
    executable = LazyModule("adjit.runtime.numba.executable")
    kernels = LazyModule("adjit.runtime.numba.kernels")


def native_executable(planned: Graph, target: Target, threads: int = 1, flush_subnormals: bool = False,
                      overlapped: OverlappedCodegen | None = None) -> NativeExecutable:
    """The executable of a planned graph, as machine code for a target. `overlapped` may have compiled some of it already."""
    return NativeExecutable(obtain_program(planned, target, False, threads, flush_subnormals, overlapped), lambda: planned, threads)


def make_executable(backend: str, optimized: Graph, planned: Graph, threads: int, flush_subnormals: bool = False,
                    overlapped: OverlappedCodegen | None = None, card: int = 0) -> AnyExecutable:
    """The executable of a graph; `optimized` is the graph before fusion, `card` the number of the one that it is for. Raises
    `UnsupportedError` for an op that the backend has no code for."""
    if backend == "interpret":
        return executable.Interpretation(optimized, planned)
    if backend == "native":
        return native_executable(planned, native_target(), threads, flush_subnormals, overlapped)
    if backend == "cuda":
        return device_executable.DeviceExecutable(planned, devices.driver(card))
    return executable.Executable(planned, kernels.compile_kernels(planned), threads)
