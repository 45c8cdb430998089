"""Sums and extrema of windows that slide over the last axes, from which pooling is made."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.rules import FLOAT, require, require_dtype
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.window_geometry import ATTRIBUTES, WindowGeometry, window_geometry
from adjit.ir.types import F32, Shape, TensorType

_ATTRIBUTES: dict[str, type | tuple[type, ...]] = {"sizes": tuple, **ATTRIBUTES}
_PLAIN: dict[str, Any] = {"sizes": (2, 2), "stride": (2, 2), "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1)}

_CASES: list[tuple[Shape, dict[str, Any]]] = [
    ((2, 3, 4, 6), {}),
    ((2, 5, 5), {"sizes": (3, 2), "stride": (1, 2), "low": (1, 0), "high": (1, 1)}),
    ((7, 6), {"sizes": (2, 3), "stride": (3, 1), "dilation": (2, 2), "high": (0, 3)}),
    ((2, 3, 5), {"sizes": (1, 3), "stride": (1, 4), "high": (0, 2)}),
    ((1, 4), {"sizes": (1,), "stride": (1,), "low": (0,), "high": (0,), "interior": (0,), "dilation": (1,)}),
]


def _infer_windows(x: TensorType, *, sizes: Shape, **attrs: Any) -> TensorType:
    require(x, FLOAT)
    window = window_geometry(x, sizes, **attrs)
    if 0 in sizes:
        raise ShapeError(f"windows of {sizes} have no elements")
    return x.with_shape((*x.shape[:x.rank - len(sizes)], *window.counts))


def _samples(**extra: Any) -> Iterator[Sample]:
    for shape, attrs in _CASES:
        yield Sample((uniform(shape),), {**_PLAIN, **attrs}, differentiable=(0,))
    yield Sample((uniform((2, 3, 5, 36), dtype=F32),), _PLAIN)
    yield Sample((uniform((2, 0, 4, 4)),), _PLAIN)
    yield Sample((uniform((2, 1, 4)),), _PLAIN)


def _evaluate_window_sum(x: np.ndarray, *, sizes: Shape, **attrs: Any) -> np.ndarray:
    """Sums of windows, axis by axis, the last axis first: a window costs the sum of its sizes, not their product."""
    rank = len(sizes)
    for axis in reversed(range(rank)):
        x = np.moveaxis(x, axis - rank, -1)
        window = WindowGeometry(x.shape[-1:], sizes[axis:axis + 1], **{name: value[axis:axis + 1] for name, value in attrs.items()})
        padded = window.padded(x, 0.0)
        total = padded[window.elements((0,))].copy()
        for position in range(1, sizes[axis]):
            total += padded[window.elements((position,))]
        x = np.moveaxis(total, -1, axis - rank)
    return np.ascontiguousarray(x)


def _window_sum_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    return (window_sum(ct, sizes=attrs["sizes"], **window_geometry(operands[0].type, **attrs).adjoint().attrs),)


def _window_sum_samples() -> Iterator[Sample]:
    yield from _samples()
    yield Sample((uniform((2, 3, 4)),), {**_PLAIN, "interior": (1, 2), "low": (-1, 2), "high": (1, -1), "stride": (1, 3)}, (0,))


window_sum: OpDefinition = define(
    "window_sum", Kind.WINDOW, arity=1, attributes=_ATTRIBUTES, infer=_infer_windows, evaluate=_evaluate_window_sum,
    doc="The sums of windows of `sizes` over the last axes, with the geometry of a convolution.",
    vjp=_window_sum_vjp, samples=_window_sum_samples)


def _infer_max(x: TensorType, *, sizes: Shape, **attrs: Any) -> TensorType:
    if any(attrs["interior"]):
        raise ShapeError(f"the largest element of windows takes no interior padding of {x}, got {attrs['interior']}")
    if any(number < 0 for number in (*attrs["low"], *attrs["high"])):
        raise ShapeError(f"padding cannot be negative, got {attrs['low']} and {attrs['high']}")
    return _infer_windows(x, sizes=sizes, **attrs)


def _evaluate_window_max(x: np.ndarray, *, sizes: Shape, **attrs: Any) -> np.ndarray:
    rank = len(sizes)
    for axis in reversed(range(rank)):
        x = np.moveaxis(x, axis - rank, -1)
        window = WindowGeometry(x.shape[-1:], sizes[axis:axis + 1], **{name: value[axis:axis + 1] for name, value in attrs.items()})
        padded = window.padded(x, -np.inf)
        most = padded[window.elements((0,))].copy()
        for position in range(1, sizes[axis]):
            np.maximum(most, padded[window.elements((position,))], out=most)
        x = np.moveaxis(most, -1, axis - rank)
    return np.ascontiguousarray(x)


def _window_max_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    return (window_max_scatter(operands[0], ct, **attrs),)


_CHOICE = "of equal elements the first in C order, of several NaN the last."

window_max: OpDefinition = define(
    "window_max", Kind.WINDOW, arity=1, attributes=_ATTRIBUTES, infer=_infer_max, evaluate=_evaluate_window_max,
    doc=f"The largest element of each window, -inf outside; NaN if the window has one. The cotangent goes to one element: {_CHOICE}",
    vjp=_window_max_vjp, samples=_samples)


def _argmax_of_windows(x: np.ndarray, window: WindowGeometry) -> np.ndarray:
    """Index, in C order, of the largest element of each window."""
    padded = window.padded(x, -np.inf)
    best = padded[window.elements((0,) * len(window.sizes))].copy()
    number = np.zeros(best.shape, np.min_scalar_type(prod(window.sizes) - 1))
    for index, position in enumerate(window.positions):
        element = np.ascontiguousarray(padded[window.elements(position)])
        better = (element > best) | np.isnan(element)
        np.copyto(best, element, where=better)
        np.copyto(number, index, where=better, casting="unsafe")
    return number


def _infer_scatter(x: TensorType, ct: TensorType, **attrs: Any) -> TensorType:
    require_dtype(x, ct)
    expected = _infer_max(x, **attrs)
    if ct.shape != expected.shape:
        raise ShapeError(f"one number for each window is needed, {expected}, got {ct}")
    return x


def _evaluate_scatter(x: np.ndarray, ct: np.ndarray, *, sizes: Shape, **attrs: Any) -> np.ndarray:
    window = WindowGeometry(x.shape[x.ndim - len(sizes):], sizes, **attrs)
    number = _argmax_of_windows(x, window)
    padded = np.zeros((*x.shape[:x.ndim - len(sizes)], *window.padded_lengths), x.dtype)
    for index, position in enumerate(window.positions):
        padded[window.elements(position)] += np.where(number == index, ct, ct.dtype.type(0))
    inside: tuple[Any, ...] = (..., *(slice(low, low + length) for low, length in zip(window.low, window.lengths, strict=True)))
    return np.asarray(padded[inside])


def _scatter_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value | None, ...]:
    return None, window_max_take(operands[0], ct, **attrs)


def _pair_samples(per_window: bool) -> Iterator[Sample]:
    for sample in _samples():
        (x,) = sample.arrays
        sizes = sample.attrs["sizes"]
        counts = WindowGeometry(x.shape[x.ndim - len(sizes):], **sample.attrs).counts
        shape = (*x.shape[:x.ndim - len(sizes)], *counts) if per_window else x.shape
        yield Sample((x, uniform(shape, dtype=x.dtype, seed=3)), sample.attrs, differentiable=(0, 1) if sample.differentiable else ())


window_max_scatter: OpDefinition = define(
    "window_max_scatter", Kind.WINDOW, arity=2, attributes=_ATTRIBUTES, infer=_infer_scatter, evaluate=_evaluate_scatter,
    doc=f"Zeros, plus the number of each window at the largest element of the same window in the first operand: {_CHOICE}",
    vjp=_scatter_vjp, samples=lambda: _pair_samples(True))


def _require_non_overlapping(sizes: Shape, stride: Shape, low: Shape, high: Shape, dilation: Shape, **attrs: Any) -> None:
    if sizes != stride or any(low) or any(high) or any(step != 1 for step in dilation):
        raise ShapeError(f"non-overlapping windows without padding are needed, got sizes {sizes}, stride {stride}, "
                         f"padding {low} and {high}, dilation {dilation}")


def _infer_share(x: TensorType, ct: TensorType, **attrs: Any) -> TensorType:
    _require_non_overlapping(**attrs)
    return _infer_scatter(x, ct, **attrs)


def _evaluate_share(x: np.ndarray, ct: np.ndarray, *, sizes: Shape, **attrs: Any) -> np.ndarray:
    window = WindowGeometry(x.shape[x.ndim - len(sizes):], sizes, **attrs)
    largest = _evaluate_window_max(x, sizes=sizes, **attrs)
    tied = [~(x[window.elements(position)] < largest) for position in window.positions]
    amount = np.asarray(ct / sum(part.astype(x.dtype) for part in tied))
    out = np.zeros(x.shape, x.dtype)
    for position, part in zip(window.positions, tied, strict=True):
        out[window.elements(position)] = np.where(part, amount, x.dtype.type(0))
    return out


def _share_samples() -> Iterator[Sample]:
    ties = np.round(uniform((2, 6, 7), dtype=F32))
    yield Sample((ties, uniform((2, 3, 3), dtype=F32, seed=3)), _PLAIN)
    missing, threes = np.where(ties > 1, F32.type(np.nan), ties), {**_PLAIN, "sizes": (3, 3), "stride": (3, 3)}
    yield Sample((missing, uniform((2, 2, 2), dtype=F32, seed=3)), threes)
    yield Sample((uniform((0, 4, 4)), uniform((0, 2, 2))), _PLAIN)
    yield Sample((uniform((3, 1, 4)), uniform((3, 0, 2))), _PLAIN)


window_max_share: OpDefinition = define(
    "window_max_share", Kind.WINDOW, arity=2, attributes=_ATTRIBUTES, infer=_infer_share, evaluate=_evaluate_share, vjp=None,
    doc="The number of each window, shared by the elements of the first operand that are the largest of the window (all, if the largest "
        "is NaN); 0 for the others. Windows do not overlap. Simplification makes this op from derivatives of `reduce_max`.",
    samples=_share_samples)


def _infer_take(x: TensorType, y: TensorType, **attrs: Any) -> TensorType:
    require_dtype(x, y)
    if x.shape != y.shape:
        raise ShapeError(f"operands of different shapes: {x} and {y}")
    return _infer_max(x, **attrs)


def _evaluate_take(x: np.ndarray, y: np.ndarray, *, sizes: Shape, **attrs: Any) -> np.ndarray:
    window = WindowGeometry(x.shape[x.ndim - len(sizes):], sizes, **attrs)
    number, padded = _argmax_of_windows(x, window), window.padded(y, 0.0)
    out = np.zeros(number.shape, x.dtype)
    for index, position in enumerate(window.positions):
        np.copyto(out, padded[window.elements(position)], where=number == index)
    return out


def _take_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value | None, ...]:
    return None, window_max_scatter(operands[0], ct, **attrs)


window_max_take: OpDefinition = define(
    "window_max_take", Kind.WINDOW, arity=2, attributes=_ATTRIBUTES, infer=_infer_take, evaluate=_evaluate_take,
    doc=f"For each window, the element of the second operand where the largest of the first lies, 0 outside: {_CHOICE}",
    vjp=_take_vjp, samples=lambda: _pair_samples(False))
