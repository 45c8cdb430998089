"""Windows that slide over the last axes of an array, for convolution and pooling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.nn.functional.arguments import refuse_shape


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows along one axis: `size` elements, `dilation` apart, one window every `stride`, `count` of them.

    `low` and `high` are the elements that are added at the ends.
    """

    size: int
    stride: int
    dilation: int
    low: int
    high: int
    count: int

    def slices(self) -> Iterator[slice]:
        """Yield, for each element of a window, its slice of the padded axis over all windows."""
        span = self.stride * (self.count - 1) + 1 if self.count else 0
        return (slice(at, at + span, self.stride) for at in range(0, self.size * self.dilation, self.dilation))


def slide(length: int, size: int, stride: int, dilation: int, padding: tuple[int, int], function: str, ceil_mode: bool = False) -> Windows:
    """Make windows over an axis of `length`; raises `ShapeError` if none fits.

    With `ceil_mode` the last window may reach over the end, if it starts inside of the array or of the padding before it.
    """
    low, high = padding
    reach = dilation * (size - 1) + 1
    span = length + low + high - reach
    if span < 0:
        refuse_shape(f"{function}: a window of {reach} elements does not fit into an axis of {length} with padding {low} and {high}")
    count = span // stride + 1
    if ceil_mode and span % stride and count * stride < length + low:
        high += stride - span % stride
        count += 1
    return Windows(size, stride, dilation, low, high, count)


def padded(x: Any, windows: Sequence[Windows], number: float) -> Any:
    """Pad the last axes of `x` for the windows, with `number`."""
    if not any(axis.low or axis.high for axis in windows):
        return x
    before = [(0, 0)] * (x.ndim - len(windows))
    return np.pad(x, (*before, *((axis.low, axis.high) for axis in windows)), constant_values=number)


def patches(x: Any, windows: Sequence[Windows], axis: int) -> Any:
    """Map padded `(..., *lengths)` to `(..., *counts)` with a new axis: the elements of each window in C order."""
    indices = list(product(*(one.slices() for one in windows)))
    if len(indices) == 1:
        return np.expand_dims(x[(..., *indices[0])], axis)
    return np.stack([x[(..., *index)] for index in indices], axis=axis)


def attributes(windows: Sequence[Windows]) -> dict[str, tuple[int, ...]]:
    """Return the windows as attributes of ops."""
    return {"sizes": tuple(axis.size for axis in windows), "stride": tuple(axis.stride for axis in windows),
            "low": tuple(axis.low for axis in windows), "high": tuple(axis.high for axis in windows),
            "interior": (0,) * len(windows), "dilation": tuple(axis.dilation for axis in windows)}
