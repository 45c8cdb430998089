"""PTX of kernels, by LLVM's target for NVIDIA GPUs."""

from __future__ import annotations

from functools import cache
from typing import Any

from adjit.codegen.cuda.kernel import Kernel
from adjit.codegen.cuda.target import SM_90
from adjit.codegen.llvm.target import Target, make_machine
from adjit.codegen.process.off_main_thread import off_main_thread


@cache
def _machine(target: Target) -> Any:
    return make_machine(target, optimized=False)


@off_main_thread
def ptx_of(kernel: Kernel, target: Target = SM_90) -> str:
    """The PTX of a kernel. LLVM does not optimize: ptxas needs no more registers for what comes out, and LLVM takes half the time."""
    import llvmlite.binding as llvm  # imported with the first program for a device

    return str(_machine(target).emit_assembly(llvm.parse_assembly(kernel.text)))
