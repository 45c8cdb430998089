"""Generated code of a program, as text: kernels in Python, or the steps of a native program in LLVM's language."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.numba.kernels import kernel_uses
from adjit.runtime.reports.native_report import step_texts

if TYPE_CHECKING:
    from adjit.codegen.cuda import ptx
    from adjit.codegen.cuda.kernel import Kernel
    from adjit.runtime.backends import AnyExecutable
    from adjit.runtime.cuda import device_executable
else:
    ptx = LazyModule("adjit.codegen.cuda.ptx")
    device_executable = LazyModule("adjit.runtime.cuda.device_executable")


def kernel_texts_of(executable: AnyExecutable) -> dict[str, str]:
    """Code of each kernel or step, by name, in the order of their first use; empty if the graph is interpreted."""
    if isinstance(executable, NativeExecutable):
        return step_texts(executable)
    if isinstance(executable, device_executable.DeviceExecutable):
        return {name: _device_text(kernel, executable) for name, kernel in executable.lowered.kernels.items()}
    return {use.name: use.kernel.source.text for use in kernel_uses(executable.assignment.graph, executable.kernels)}


def _device_text(kernel: Kernel, executable: device_executable.DeviceExecutable) -> str:
    """The LLVM text of a kernel, its PTX, and what the driver made of that, if there is a card."""
    target, registers = executable.driver.target, executable.driver.registers(kernel.name)
    made = "" if registers is None else f"\n; {executable.driver.name}: {registers[0]} registers a thread, {registers[1]} bytes spilled\n"
    return f"{kernel.text}\n; PTX for {target.name}\n{ptx.ptx_of(kernel, target)}{made}"
