"""Runs kernel text as ordinary Python behind the same entry as compiled code: to step through a kernel, where Numba's compiler is off."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from adjit.codegen.llvm.link import LoadedKernel
from adjit.codegen.numba.compile_kernel import python_kernel
from adjit.codegen.numba.kernel_source import KernelSource
from adjit.ir.types import SHORT_NAMES

_VIEW_BYTES = 1 << 40
"""Bytes that the view behind a pointer spans: kernels know how far they may go, pointers do not."""


def load_python(source: KernelSource) -> LoadedKernel:
    """The kernel as a C function that calls Python; as slow as Python is."""
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
