"""Geometry of windows that slide over the last axes of an array: padding, strides, dilations; shared by convolutions and pooling."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ShapeError
from adjit.ir.types import Shape, TensorType

ATTRIBUTES: dict[str, type | tuple[type, ...]] = {"stride": tuple, "low": tuple, "high": tuple, "interior": tuple, "dilation": tuple}


@dataclass(frozen=True, slots=True)
class WindowGeometry:
    """Windows over axes of `lengths`: one entry an axis.

    Each axis gets `interior` elements between its own, then `low` and `high` at its ends (negative numbers take elements away). Element k
    of window p is element `p * stride + k * dilation` of the padded axis; a window has `sizes` elements.
    """

    lengths: Shape
    sizes: Shape
    stride: Shape
    low: Shape
    high: Shape
    interior: Shape
    dilation: Shape

    @property
    def padded_lengths(self) -> Shape:
        """Lengths of the axes with their padding."""
        spread = (length + max(length - 1, 0) * gap for length, gap in zip(self.lengths, self.interior, strict=True))
        return tuple(max(low + length + high, 0) for low, length, high in zip(self.low, spread, self.high, strict=True))

    @property
    def reach(self) -> Shape:
        """Lengths from the first to the last element of a window."""
        return tuple(dilation * (size - 1) + 1 for dilation, size in zip(self.dilation, self.sizes, strict=True))

    @property
    def counts(self) -> Shape:
        """Number of windows along each axis."""
        return tuple(max((length - reach) // stride + 1, 0)
                     for length, reach, stride in zip(self.padded_lengths, self.reach, self.stride, strict=True))

    @property
    def positions(self) -> Iterator[tuple[int, ...]]:
        """Positions of the elements of a window, in C order."""
        return itertools.product(*map(range, self.sizes))

    def adjoint(self) -> WindowGeometry:
        """Geometry over the results: each of its windows has the results of all windows that contain one element of the array, in reverse
        order."""
        low = tuple(reach - 1 - low for reach, low in zip(self.reach, self.low, strict=True))
        stride, interior = tuple(gap + 1 for gap in self.interior), tuple(step - 1 for step in self.stride)
        spread = (count + max(count - 1, 0) * gap for count, gap in zip(self.counts, interior, strict=True))
        high = tuple((length - 1) * step + reach - before - size for length, step, reach, before, size
                     in zip(self.lengths, stride, self.reach, low, spread, strict=True))
        return WindowGeometry(self.counts, self.sizes, stride, low, high, interior, self.dilation)

    @property
    def attrs(self) -> dict[str, Any]:
        """Geometry as attributes of an op."""
        return {name: getattr(self, name) for name in ATTRIBUTES}

    def padded(self, x: np.ndarray, value: float) -> np.ndarray:
        """`x` with its last axes padded: with the elements that the windows see between and around the elements of `x`."""
        out = np.full((*x.shape[:x.ndim - len(self.lengths)], *self.padded_lengths), value, x.dtype)
        source: list[Any] = [...]
        target: list[Any] = [...]
        for length, padded, low, gap in zip(self.lengths, self.padded_lengths, self.low, self.interior, strict=True):
            step = gap + 1
            first = max(-(low // step), 0)                              # first element that is not cut off
            count = max(min(length, -(-(padded - low) // step)) - first, 0)
            source.append(slice(first, first + count))
            start = low + first * step if count else 0
            target.append(slice(start, start + count * step, step))
        out[tuple(target)] = x[tuple(source)]
        return out

    def elements(self, position: tuple[int, ...]) -> tuple[Any, ...]:
        """Index that selects one element of all windows from a padded array."""
        return (..., *(slice(index * dilation, index * dilation + stride * (count - 1) + 1 if count else index * dilation, stride)
                       for index, dilation, stride, count in zip(position, self.dilation, self.stride, self.counts, strict=True)))

    def windows(self, padded: np.ndarray) -> np.ndarray:
        """Read-only view of the windows: (..., *counts, *sizes)."""
        rank = padded.ndim - len(self.sizes)
        if 0 in self.counts or 0 in self.sizes:
            return np.zeros((*padded.shape[:rank], *self.counts, *self.sizes), padded.dtype)
        view = np.lib.stride_tricks.sliding_window_view(padded, self.reach, tuple(range(rank, padded.ndim)))
        steps = (slice(None, stride * count, stride) for stride, count in zip(self.stride, self.counts, strict=True))
        return view[(slice(None),) * rank + (*steps, *(slice(None, None, dilation) for dilation in self.dilation))]


def window_geometry(x: TensorType, sizes: Shape, *, stride: Shape, low: Shape, high: Shape, interior: Shape,
                    dilation: Shape) -> WindowGeometry:
    """Windows over the last axes of an operand; raises `ShapeError` if the numbers are invalid."""
    rank = len(sizes)
    given: dict[str, Shape] = {"stride": stride, "low": low, "high": high, "interior": interior, "dilation": dilation}
    for name, numbers in given.items():
        if len(numbers) != rank:
            raise ShapeError(f"{name} {numbers} needs {rank} entries for windows of {sizes}")
    for name, numbers, least in (("sizes", sizes, 0), ("stride", stride, 1), ("interior", interior, 0), ("dilation", dilation, 1)):
        if any(number < least for number in numbers):
            raise ShapeError(f"{name} is at least {least}, got {numbers}")
    if x.rank < rank:
        raise ShapeError(f"windows of {sizes} need {rank} axes, got {x}")
    return WindowGeometry(x.shape[x.rank - rank:], sizes, **given)
