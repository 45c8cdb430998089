"""Arrays of other libraries (pandas, xarray, PyTorch, JAX, what has `__dlpack__` or `__array__`) as arrays of NumPy, of the same memory
where that can be."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, UnsupportedError
from adjit.tracer.array_checks import check_array
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf
from adjit.tracer.user_location import find_user_location

_CPU, _PINNED = 1, 3
"""Devices of DLPack whose memory the processor reads: its own, and what is pinned for a GPU."""

_CARDS = (2, 13)
"""Devices of DLPack whose memory programs on an NVIDIA GPU read."""


def is_foreign_array(value: Any) -> bool:
    """True if the class of a value says that it is an array; the value itself is not asked, which may answer to every name."""
    kind = type(value)
    return hasattr(kind, "__array__") or hasattr(kind, "__dlpack__")


def is_on_card(value: Any) -> bool:
    """True for an array of another library in the memory of an NVIDIA GPU."""
    is_other = not isinstance(value, (ArrayWrapper, DeviceLeaf)) and hasattr(type(value), "__dlpack_device__")
    return is_other and value.__dlpack_device__()[0] in _CARDS


def foreign_array(value: Any, path: Callable[[], str]) -> np.ndarray:
    """The array of a value for which `is_foreign_array`. Labels and units are dropped.

    Raises `UnsupportedError` for memory of a device, and for what the library does not give away; `DTypeError` for elements that are no
    numbers.
    """
    kind = type_name(type(value))
    if hasattr(value, "__dlpack_device__"):
        device = value.__dlpack_device__()[0]
        if device not in (_CPU, _PINNED):
            raise UnsupportedError(f"the argument {path()} is a {kind} in the memory of a device", find_user_location(),
                                   hint="copy it to the CPU first (.cpu(), jax.device_get)")
    array: Any = None
    why = ""
    if hasattr(value, "__dlpack__"):
        try:
            array = np.from_dlpack(value)
        except (BufferError, TypeError, RuntimeError, ValueError) as error:
            why = f": {error}"
    if array is None:
        try:
            array = np.asarray(value)
        except Exception as error:
            why = why or f": {error}"
    if array is None or (why and array.dtype == object):
        raise UnsupportedError(f"the argument {path()} is a {kind}, which gives no array{why}", find_user_location(),
                               hint="detach it, or convert it to an array first")
    if array.dtype == object:
        raise DTypeError(f"the argument {path()} is a {kind} of Python objects", find_user_location(),
                         hint="convert it first: .to_numpy(float), or columns of one kind")
    return np.asarray(array, check_array(array, f"the argument {path()}", find_user_location()))


def opened(value: Any) -> Any:
    """The array that an array of another library is, or that a container of a library (xarray) holds; other values themselves."""
    if isinstance(value, (ArrayWrapper, DeviceLeaf)) or not is_foreign_array(value):
        return value
    if hasattr(type(value), "dims") and isinstance(value.data, np.ndarray):     # of xarray: it may hold a traced array, which is one, too
        return value.data
    return foreign_array(value, lambda: "that is closed over")


def foreign_content(value: Any) -> tuple[Any, ...] | None:
    """Shape, dtype and checksum of what a value holds now: a trace holds for this content only. None if it gives no array of numbers."""
    try:
        array = np.asarray(value)
    except Exception:
        return None
    if array.dtype == object:
        return None
    return (array.shape, array.dtype.str, zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data))


def type_name(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
