"""Assertions about tensors for tests, by PyTorch's names: `adjit.testing.assert_close`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir.types import is_complex, is_half, is_inexact

__all__ = ["assert_close"]

_TOLERANCES = {2: (1e-3, 1e-5), 4: (1.3e-6, 1e-5), 8: (1e-7, 1e-7)}
"""Relative and absolute tolerance by the bytes of a float."""


def assert_close(actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None, atol: float | None = None,
                 equal_nan: bool = False, check_device: bool = True, check_dtype: bool = True, check_layout: bool = True,
                 check_stride: bool = False, msg: str | Callable[[str], str] | None = None) -> None:
    """Raise `AssertionError` if two tensors, arrays or numbers, or sequences or mappings of them, are not close:
    |actual - expected| <= atol + rtol * |expected|.

    Without `rtol` and `atol`, which are given together, the tolerances are those of the dtype: 1.3e-6 and 1e-5 for float32, 1e-7 and 1e-7
    for float64, 1e-3 and 1e-5 for float16 (bfloat16 1.6e-2), 0 for integers. Shapes have to be equal, and dtypes with `check_dtype`;
    with `check_stride` strides too. Devices and layouts are all one here. `msg` replaces the message, or makes one of it.

    Raises `ValueError` for one of the tolerances alone.

    >>> import adjit as aj
    >>> assert_close(aj.tensor([1.0, 2.0]), aj.tensor([1.0, 2.0 + 1e-6]))
    >>> assert_close({"a": 1.0}, {"a": 1.5})
    Traceback (most recent call last):
        ...
    AssertionError: Scalars are not close!
    <BLANKLINE>
    Expected 1.5 but got 1.0.
    Absolute difference: 0.5 (up to 1e-07 allowed)
    Relative difference: 0.3333333333333333 (up to 1e-07 allowed)
    <BLANKLINE>
    The failure occurred for item ['a']
    """
    if (rtol is None) != (atol is None):
        raise ValueError(f"rtol and atol must both be specified or both be unspecified, but got rtol={rtol} and atol={atol}")
    tolerances = None if rtol is None or atol is None else (rtol, atol)
    text = _difference(actual, expected, "", tolerances, equal_nan, check_dtype, check_stride)
    if text is not None:
        raise AssertionError(text if msg is None else msg(text) if callable(msg) else msg)


def _difference(actual: Any, expected: Any, place: str, tolerances: tuple[float, float] | None, equal_nan: bool, *checks: bool
                ) -> str | None:
    """Return what differs first, in words; None if all is close."""
    where = f"\n\nThe failure occurred for item {place}" if place else ""
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            return (f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {sorted(set(expected) - set(actual))}\n"
                    f"Additional keys in the actual mapping: {sorted(set(actual) - set(expected))}{where}")
        pairs = [(actual[key], expected[key], f"[{key!r}]") for key in actual]
    elif isinstance(actual, Sequence) and isinstance(expected, Sequence) and not isinstance(actual, str):
        if len(actual) != len(expected):
            return f"The length of the sequences mismatch: {len(actual)} != {len(expected)}{where}"
        pairs = [(mine, theirs, f"[{index}]") for index, (mine, theirs) in enumerate(zip(actual, expected, strict=True))]
    elif isinstance(actual, (str, type(None))) or isinstance(expected, (str, type(None))):
        return None if actual == expected else f"Expected {expected!r} but got {actual!r}.{where}"
    else:
        text = _of_tensors(actual, expected, tolerances, equal_nan, *checks)
        return None if text is None else text + where
    return next((text for mine, theirs, key in pairs
                 if (text := _difference(mine, theirs, place + key, tolerances, equal_nan, *checks)) is not None), None)


def _of_tensors(actual: Any, expected: Any, tolerances: tuple[float, float] | None, equal_nan: bool, check_dtype: bool, check_stride: bool
                ) -> str | None:
    mine, theirs = _array(actual), _array(expected)
    if mine.shape != theirs.shape:
        return f"The values for attribute 'shape' do not match: {mine.shape} != {theirs.shape}."
    if check_dtype and mine.dtype != theirs.dtype:
        return f"The values for attribute 'dtype' do not match: {mine.dtype} != {theirs.dtype}."
    if check_stride and mine.strides != theirs.strides:
        return f"The values for attribute 'stride()' do not match: {as_tensor(mine).stride()} != {as_tensor(theirs).stride()}."    # type: ignore[attr-defined]
    by_dtype = [_tolerances_of(array.dtype) for array in (mine, theirs)]
    rtol, atol = (max(each) for each in zip(*by_dtype, strict=True)) if tolerances is None else tolerances
    wide = np.result_type(*(np.float64 if is_half(each.dtype) else each.dtype for each in (mine, theirs)))
    a, b = (array.astype(np.int64 if wide.kind in "bu" and wide.itemsize < 8 else wide) for array in (mine, theirs))
    with np.errstate(all="ignore"):
        close = np.isclose(a, b, rtol, atol, equal_nan)
        if close.all():
            return None
        far = np.where(close, 0, np.abs(a - b))
        ratio = np.where(close, 0, far / np.abs(b))
    is_exact = not (rtol or atol)
    limits = [f" (up to {tolerance} allowed)" * (not is_exact) for tolerance in (atol, rtol)]
    if not a.ndim:
        return (f"Scalars are not {'equal' if is_exact else 'close'}!\n\nExpected {b.item()} but got {a.item()}.\n"
                f"Absolute difference: {far.item()}{limits[0]}\nRelative difference: {ratio.item()}{limits[1]}")
    count = int((~close).sum())
    lines = [f"Tensor-likes are not {'equal' if is_exact else 'close'}!\n",
             f"Mismatched elements: {count} / {a.size} ({100 * count / a.size:.1f}%)"]
    for name, values, limit in zip(("absolute", "relative"), (far, ratio), limits, strict=True):
        place = tuple(int(index) for index in np.unravel_index(np.argmax(values), values.shape))
        lines.append(f"Greatest {name} difference: {values[place].item()} at index {place}{limit}")
    return "\n".join(lines)


def _array(given: Any) -> np.ndarray:
    if isinstance(given, (bool, int, float, complex)) and not isinstance(given, np.generic):
        return np.asarray(given)
    return (given if isinstance(given, Tensor) else as_tensor(given)).detach().numpy()      # type: ignore[no-any-return, attr-defined]


def _tolerances_of(dtype: np.dtype) -> tuple[float, float]:
    if not is_inexact(dtype):
        return 0.0, 0.0
    if dtype.name == "bfloat16":
        return 1.6e-2, 1e-5
    return _TOLERANCES[dtype.itemsize // (2 if is_complex(dtype) else 1)]
