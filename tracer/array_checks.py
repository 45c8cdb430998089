"""Checks of the arrays that adjit takes, and the errors for other arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from adjit.ir.errors import AdjitError, Location, UnsupportedError
from adjit.ir.types import check_dtype
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.user_location import find_user_location


def is_ndarray(x: Any) -> TypeGuard[np.ndarray]:
    """True if `x` is an array itself; `isinstance` takes traced ones for what they stand for."""
    return issubclass(type(x), np.ndarray)


def check_array(array: np.ndarray, what: str | Callable[[], str], location: Location | None = None) -> np.dtype:
    """Return the native dtype of `array`.

    Raises `DTypeError` for a dtype that the IR lacks and `UnsupportedError` for a masked array or another subclass whose
    operations mean something else; the message begins with `what`, which is called and located only then if it is a function.
    """
    if array.__class__ is not np.ndarray and not isinstance(array, (np.memmap, np.generic)):
        kind = "a masked array" if isinstance(array, np.ma.MaskedArray) else f"a {type(array).__name__}"
        hint = ("fill it with .filled(value) first, and pass the mask as an array of its own" if isinstance(array, np.ma.MaskedArray)
                else "convert it with np.asarray first")
        raise UnsupportedError(f"{_named(what)} is {kind}, whose operations are not NumPy's", _located(what, location), hint)
    try:
        return check_dtype(array.dtype)
    except AdjitError as error:
        kind = "an object array" if array.dtype == object else "a structured array" if array.dtype.names else ""
        says = f"{kind} is not supported" if kind else error.message
        raise type(error)(f"{_named(what)}: {says}", _located(what, location), error.hint) from None


def _named(what: str | Callable[[], str]) -> str:
    return what() if callable(what) else what


def _located(what: str | Callable[[], str], location: Location | None) -> Location | None:
    return find_user_location() if callable(what) else location


def as_content(content: Any) -> Any:
    """An array on a device itself, anything else as an array of NumPy's."""
    return content if isinstance(content, DeviceLeaf) else np.asarray(content)


def shares_with_itself(array: np.ndarray) -> bool:
    """True if two elements of an array may lie in the same memory: windows, and axes of stride 0."""
    if array.flags.forc:
        return False
    reach = 0
    for stride, size in sorted((abs(stride), size) for stride, size in zip(array.strides, array.shape, strict=True) if size > 1):
        if stride < reach + array.itemsize:
            return True
        reach += stride * (size - 1)
    return False
