"""Arrays of other libraries (pandas, xarray, PyTorch, JAX, what has `__dlpack__` or `__array__`) as arrays of NumPy, of the same memory
where that can be."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import is_
from typing import Any
from zlib import crc32

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
    return np.asarray(array, check_array(array, lambda: f"the argument {path()}"))


def opened(value: Any) -> Any:
    """The array that an array of another library is, or that a container of a library (xarray) holds; other values themselves."""
    if isinstance(value, (ArrayWrapper, DeviceLeaf)) or not is_foreign_array(value):
        return value
    if hasattr(type(value), "dims") and isinstance(value.data, np.ndarray):     # of xarray: it may hold a traced array, which is one, too
        return value.data
    return foreign_array(value, lambda: "that is closed over")


class Kept:
    """An object that is compared by its identity: labels of pandas, which never change."""

    __slots__ = ("value",)

    def __init__(self, value: Any):
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Kept) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def foreign_content(value: Any) -> tuple[Any, ...] | None:
    """Shape, dtype and checksum of what a value holds now, and its labels: a trace holds for this content only. None if it gives no array
    of numbers."""
    try:
        array = np.asarray(value)
        labels = _labels(value)
    except Exception:
        return None
    return None if array.dtype == object else (array.shape, array.dtype.str, _checksum(array), labels)


def content_guard(value: Any) -> Callable[[], object]:
    """What gives `foreign_content` at each call, or something that is equal as long as that is: of pandas the checksums of its memory, as
    its own conversion takes 5 to 30 us."""
    library = type(value).__module__.partition(".")[0]
    with suppress(AttributeError, TypeError):
        if library == "pandas":
            return PandasContent(value)
    return partial(foreign_content, value)


class PandasContent:
    """Content of a frame or series whose blocks are NumPy's arrays, while blocks and labels are the same objects; else `foreign_content`.

    Raises `AttributeError` or `TypeError` if it is not made of such blocks.
    """

    __slots__ = ("axes", "blocks", "parts", "value")

    def __init__(self, value: Any):
        manager = value._mgr
        self.value, self.blocks, self.axes = value, manager.blocks, (*manager.axes,)
        values = [block.values for block in self.blocks]
        if not all(type(array) is np.ndarray and array.dtype.kind in "biufc" for array in values):
            raise TypeError
        turned = (array if array.flags.c_contiguous else array.T for array in values)
        contents = [memoryview(array).cast("B") if array.size else b"" for array in turned]      # TypeError if there are gaps
        self.parts = tuple(zip(self.blocks, values, contents, strict=True))

    def __call__(self) -> int | tuple[Any, ...] | None:
        manager, checksum = self.value._mgr, 0
        if manager.blocks is not self.blocks or not all(map(is_, manager.axes, self.axes)):
            return foreign_content(self.value)
        for block, array, content in self.parts:
            if block.values is not array:
                return foreign_content(self.value)
            checksum = crc32(content, checksum)
        return checksum


def _labels(value: Any) -> tuple[Any, ...]:
    """Labels along the axes of what pandas and xarray have."""
    library = type(value).__module__.partition(".")[0]
    if library == "pandas" and hasattr(value, "axes"):
        return tuple(map(Kept, value.axes))
    if library == "xarray":
        names = getattr(value, "dims", ())
        coordinates = {name: np.asarray(labels) for name, labels in getattr(value, "coords", {}).items()}
        return names, tuple((name, labels.dtype.str, tuple(labels.flat) if labels.dtype == object else _checksum(labels))
                            for name, labels in coordinates.items())
    return ()


def _checksum(array: np.ndarray) -> int:
    return crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def type_name(kind: type) -> str:
    return f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}"
