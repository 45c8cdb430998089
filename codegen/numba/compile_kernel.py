"""Compilation of kernel text with Numba, to object code that runs without Numba; or, if Numba's compiler is disabled, the kernel as
ordinary Python behind the same entry, so that one can step through it.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjit.codegen.llvm.link import CompiledObject, LoadedKernel
from adjit.codegen.numba.kernel_source import KernelSource
from adjit.codegen.numba.scalar_functions import native_helpers, python_helpers
from adjit.codegen.process.off_main_thread import check_cancelled, off_main_thread
from adjit.ir.types import SHORT_NAMES, is_half

_VIEW_BYTES = 1 << 40
"""Bytes that the view behind a pointer spans: kernels know their bounds, pointers do not."""


def python_kernel(source: KernelSource) -> Callable[..., None]:
    """The kernel as an ordinary Python function on flat arrays."""
    return _define(source, python_helpers(source.helpers))


def _define(source: KernelSource, helpers: Mapping[str, Any]) -> Callable[..., None]:
    names: dict[str, Any] = {name: dtype.type for name, dtype in SHORT_NAMES.items()}
    names |= {"inf": float("inf"), "nan": float("nan"), **helpers}
    exec(compile(source.text, f"<adjit kernel {source.name}>", "exec"), names)
    kernel: Callable[..., None] = names["kernel"]
    return kernel


@off_main_thread
def compile_source(source: KernelSource) -> CompiledObject:
    """Object code for this machine's processor. Compilation takes about 0.1 s, and 0.4 s more for the first kernel of a process."""
    from numba import types
    from numba.core import compiler, compiler_lock

    kinds = {name: getattr(types, np.dtype(dtype).name) for name, dtype in SHORT_NAMES.items()
             if name != "bool" and not is_half(dtype)}
    signature = [kinds[a.dtype] if a.kind == "size" else types.CPointer(kinds[a.dtype]) for a in source.arguments]
    typing_context, target_context = _target()
    with compiler_lock.global_compiler_lock:
        check_cancelled()     # another thread may have held Numba's lock for long
        result = compiler.compile_extra(typing_context, target_context, _define(source, native_helpers(source.helpers)),
                                        (*signature, types.int64, types.int64), types.void, _flags(), {})
        return CompiledObject(result.library._get_compiled_object(), result.fndesc.llvm_func_name)


@functools.cache
def _target() -> tuple[Any, Any]:
    import llvmlite.binding as llvm
    from numba.core.registry import cpu_target

    # Kernels read and write many arrays: let the vectoriser emit overlap checks for all of them.
    llvm.set_option("", "-runtime-memory-check-threshold=1000")
    typing_context, target_context = cpu_target.typing_context, cpu_target.target_context
    typing_context.refresh()
    target_context.refresh()
    return typing_context, target_context


def _flags() -> Any:
    """Flags for Numba: no exceptions and no reference counts, so the object code needs nothing of Numba; pointers do not alias; every op
    rounds on its own, so that a value has the same bits in every kernel that computes it."""
    from numba.core import compiler

    flags = compiler.Flags()
    flags.no_cpython_wrapper = True
    flags.no_cfunc_wrapper = True
    flags.nrt = False
    flags.error_model = "numpy"
    flags.release_gil = True
    flags.noalias = True
    return flags


def load_python(source: KernelSource) -> LoadedKernel:
    """The kernel as a C function that calls Python, at Python's speed."""
    kernel = python_kernel(source)
    kinds = [argument.kind for argument in source.arguments]
    dtypes = [SHORT_NAMES[argument.dtype] for argument in source.arguments]

    def entry(returned: int | None, error: int | None, *arguments: Any) -> int:
        *values, low, high = arguments
        with np.errstate(all="ignore"):
            kernel(*(value if kind == "size" else _elements(value, dtype)
                     for value, kind, dtype in zip(values, kinds, dtypes, strict=True)), low, high)
        return 0

    types = [ctypes.c_int64 if kind == "size" else ctypes.c_void_p for kind in kinds]
    prototype = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, *types, ctypes.c_int64, ctypes.c_int64)
    callback = prototype(entry)
    address = ctypes.cast(callback, ctypes.c_void_p).value
    assert address is not None
    return LoadedKernel(address, callback)


def _elements(address: int, dtype: np.dtype) -> np.ndarray:
    return np.frombuffer(memoryview((ctypes.c_byte * _VIEW_BYTES).from_address(address)), dtype)
