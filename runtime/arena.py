"""Arenas, the working memory of programs: aligned buffers, views into them, and addresses of arrays.

Kernels take plain addresses. `data_address` reads an address from the array object itself, which takes a sixth of the time of
`array.ctypes.data`; the offset of the field is checked against NumPy's own answer when this module is imported.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable

import numpy as np

from adjit.ir.memory_sizes import ALIGNMENT
from adjit.ir.types import TensorType


def allocate(nbytes: int) -> np.ndarray:
    """A buffer of `nbytes` bytes whose address is a multiple of `ALIGNMENT`; raises `MemoryError` if there is not enough memory."""
    if nbytes > sys.maxsize - ALIGNMENT:
        raise MemoryError(f"cannot allocate {nbytes} bytes")
    block = np.empty(nbytes + ALIGNMENT, np.uint8)
    start = -block.ctypes.data % ALIGNMENT
    return block[start:start + nbytes]


def check_size(type: TensorType) -> None:
    """Raise `MemoryError` for a type that is larger than any address space."""
    if type.nbytes > sys.maxsize:
        raise MemoryError(f"cannot allocate {type.nbytes} bytes for {type}")


def new_array(type: TensorType) -> np.ndarray:
    """An uninitialised array; raises `MemoryError` if there is not enough memory."""
    check_size(type)
    return np.empty(type.shape, type.dtype)


def view_as(buffer: np.ndarray, type: TensorType, offset: int = 0) -> np.ndarray:
    """A view of the contiguous `buffer` from byte `offset` on, as an array of type `type`."""
    return np.ndarray(type.shape, type.dtype, buffer, offset)


_DATA_OFFSET = object.__basicsize__      # the first field after the object's header


def _from_object(array: np.ndarray) -> int:
    return ctypes.c_void_p.from_address(id(array) + _DATA_OFFSET).value or 0


def _from_numpy(array: np.ndarray) -> int:
    return array.ctypes.data


def _choose() -> Callable[[np.ndarray], int]:
    if sys.implementation.name != "cpython":
        return _from_numpy
    base = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    probes = (base, base[1], base[:, ::2], np.zeros(()), np.empty((0, 3)), np.zeros(5, np.bool_))
    return _from_object if all(_from_object(array) == array.ctypes.data for array in probes) else _from_numpy


data_address: Callable[[np.ndarray], int] = _choose()
"""The address of an array's first element, as a number."""
