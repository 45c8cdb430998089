"""Functions of `runtime` that `codegen`, `eager` and `tracer` call, which may not import it: each is loaded at its first call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from adjit.codegen.numpy.chunks import KernelCompiler
from adjit.eager.apply import machine_code
from adjit.eager.device import DeviceRuntime
from adjit.ir.lazy_module import LazyModule
from adjit.runtime.native.code import native_is_supported
from adjit.tracer.array_wrapper import DeviceLeaf

if TYPE_CHECKING:
    from adjit.runtime.capture import compiled_operation
    from adjit.runtime.cuda import devices, dlpack, transfer
    from adjit.runtime.fastcall import eager_call, step_functions
    from adjit.runtime.native import chunk_kernel, eager_program, row_functions
else:
    compiled_operation = LazyModule("adjit.runtime.capture.compiled_operation")
    devices = LazyModule("adjit.runtime.cuda.devices")
    dlpack = LazyModule("adjit.runtime.cuda.dlpack")
    transfer = LazyModule("adjit.runtime.cuda.transfer")
    eager_call = LazyModule("adjit.runtime.fastcall.eager_call")
    step_functions = LazyModule("adjit.runtime.fastcall.step_functions")
    chunk_kernel = LazyModule("adjit.runtime.native.chunk_kernel")
    eager_program = LazyModule("adjit.runtime.native.eager_program")
    row_functions = LazyModule("adjit.runtime.native.row_functions")


def connect() -> None:
    """Set them."""
    if native_is_supported():
        KernelCompiler.compile = staticmethod(lambda chunks: chunk_kernel.compile_chunks(chunks))
        KernelCompiler.compile_program = staticmethod(lambda graph: eager_program.compile_program(graph))
        KernelCompiler.entry = staticmethod(lambda chunks: chunk_kernel.entry_of(chunks))
        KernelCompiler.sum_rows = staticmethod(lambda *arguments: row_functions.sum_rows(*arguments))
        KernelCompiler.sum_slices = staticmethod(lambda *arguments: row_functions.sum_slices(*arguments))
        KernelCompiler.fill = staticmethod(lambda *arguments: row_functions.fill(*arguments))
        KernelCompiler.extrema_rows = staticmethod(lambda *arguments: row_functions.extrema_rows(*arguments))
        KernelCompiler.scan_rows = staticmethod(lambda *arguments: row_functions.scan_rows(*arguments))
        KernelCompiler.at_indices = staticmethod(lambda *arguments: row_functions.at_indices(*arguments))
        KernelCompiler.step_function = staticmethod(lambda function, single: step_functions.step_function(function, single))
        KernelCompiler.add_rows = staticmethod(lambda *arguments: row_functions.add_rows(*arguments))
        machine_code.prepare = lambda: eager_call.known_call()
    DeviceRuntime.put = staticmethod(lambda array, number: transfer.put(array, number))
    DeviceRuntime.count = staticmethod(lambda: devices.count())
    DeviceLeaf.borrowed = staticmethod(lambda value, path: transfer.borrowed(value, path))      # type: ignore[method-assign]
    DeviceRuntime.capsule = staticmethod(lambda array, stream, versioned: dlpack.capsule(array, stream, versioned))
    DeviceRuntime.operation = staticmethod(lambda place: compiled_operation.operation_on(place))
