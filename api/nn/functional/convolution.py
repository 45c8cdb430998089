"""Convolutions; and `pad`, `unfold` and `fold`."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Literal

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.nn.functional.arguments import Array, floating, one_per_axis, parameter, refuse_shape
from adjit.nn.functional.windows import Windows, attributes, padded, patches, slide
from adjit.tracer import lowering
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.promotion import resolve
from adjit.tracer.user_location import find_user_location

Padding = int | Sequence[int] | Literal["same", "valid"]


@dispatched
def conv1d(input: Array, weight: Array, bias: Array | None = None, stride: int | Sequence[int] = 1, padding: Padding = 0,
           dilation: int | Sequence[int] = 1, groups: int = 1) -> Array:
    """Cross-correlation over one axis: `input` is (N, C, L) or (C, L), `weight` (O, C / groups, K), the result (N, O, M) or (O, M).

    Otherwise like `conv2d`.

    >>> conv1d(np.array([[1.0, 2.0, 4.0]]), np.array([[[-1.0, 1.0]]]))
    array([[1., 2.]])
    """
    return _convolve(input, weight, bias, stride, padding, dilation, groups, 1)


@dispatched
def conv2d(input: Array, weight: Array, bias: Array | None = None, stride: int | Sequence[int] = 1, padding: Padding = 0,
           dilation: int | Sequence[int] = 1, groups: int = 1) -> Array:
    """Cross-correlation of images: `input` is (N, C, H, W) or (C, H, W), `weight` (O, C / groups, KH, KW), `bias` (O,).

    The result is (N, O, ...) with `(H + 2 * padding - dilation * (KH - 1) - 1) // stride + 1` rows. `padding` adds zeros on both sides;
    "valid" is no padding, and "same", for stride 1, preserves the size (an odd zero goes to the end). Raises `ShapeError` if the shapes do
    not fit, `DTypeError` for other dtypes than floats, `ValueError` for a stride or a padding that makes no sense.

    >>> image = np.arange(9.0).reshape(1, 1, 3, 3)
    >>> conv2d(image, np.ones((1, 1, 2, 2)))
    array([[[[ 8., 12.],
             [20., 24.]]]])
    """
    return _convolve(input, weight, bias, stride, padding, dilation, groups, 2)


@dispatched
def conv3d(input: Array, weight: Array, bias: Array | None = None, stride: int | Sequence[int] = 1, padding: Padding = 0,
           dilation: int | Sequence[int] = 1, groups: int = 1) -> Array:
    """Cross-correlation over three axes: `input` is (N, C, D, H, W) or (C, D, H, W), `weight` (O, C / groups, KD, KH, KW).

    Otherwise like `conv2d`.

    >>> conv3d(np.arange(8.0).reshape(1, 2, 2, 2), np.ones((1, 1, 2, 2, 1)))
    array([[[[12., 16.]]]])
    """
    return _convolve(input, weight, bias, stride, padding, dilation, groups, 3)


@dispatched
def conv_tbc(input: Array, weight: Array, bias: Array, pad: int = 0) -> Array:
    """Cross-correlation of sequences (T, N, C) by `weight` (K, C, O), with `bias` (O,) and `pad` zeros at both ends: (M, N, O).

    >>> conv_tbc(np.array([[[1.0]], [[2.0]], [[4.0]]]), np.array([[[-1.0]], [[1.0]]]), np.zeros(1)).ravel()
    array([1., 2.])
    """
    x, kernels = floating(input, "conv_tbc"), floating(weight, "conv_tbc: weight")
    if x.ndim != 3 or kernels.ndim != 3:
        refuse_shape(f"conv_tbc takes (T, N, C) and a weight (K, C, O), got the shapes {x.shape} and {kernels.shape}")
    result = _convolve(np.transpose(x, (1, 2, 0)), np.transpose(kernels, (2, 1, 0)), bias, 1, pad, 1, 1, 1)
    return np.transpose(result, (2, 0, 1))


@dispatched
def unfold(input: Array, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | Sequence[int] = 0,
           stride: int | Sequence[int] = 1) -> Array:
    """Windows of images (N, C, H, W) as columns: (N, C * KH * KW, number of windows). For one image (C, H, W), without N.

    >>> unfold(np.arange(4.0).reshape(1, 2, 2), (1, 2))
    array([[0., 2.],
           [1., 3.]])
    """
    x, batched = _batched(input, 2, "unfold")
    sizes, steps = one_per_axis(kernel_size, 2, "unfold", "kernel_size", 1), one_per_axis(stride, 2, "unfold", "stride", 1)
    gaps, edges = one_per_axis(dilation, 2, "unfold", "dilation", 1), one_per_axis(padding, 2, "unfold", "padding", 0)
    windows = [slide(length, size, step, gap, (edge, edge), "unfold")
               for length, size, step, gap, edge in zip(x.shape[2:], sizes, steps, gaps, edges, strict=True)]
    columns = patches(padded(x, windows, 0.0), windows, 2)
    columns = np.reshape(columns, (x.shape[0], prod(columns.shape[1:3]), prod(columns.shape[3:])))
    return columns if batched else columns[0]


@dispatched
def fold(input: Array, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1,
         padding: int | Sequence[int] = 0, stride: int | Sequence[int] = 1) -> Array:
    """Adjoint of `unfold`: images (N, C, *output_size) as sums of windows, the columns of (N, C * KH * KW, number of windows).

    Without N for one image. Raises `ShapeError` for another number of windows.

    >>> fold(np.array([[0.0, 2.0], [1.0, 3.0]]), (2, 2), (1, 2))
    array([[[0., 1.],
            [2., 3.]]])
    """
    x = floating(input, "fold")
    sizes, steps = one_per_axis(kernel_size, 2, "fold", "kernel_size", 1), one_per_axis(stride, 2, "fold", "stride", 1)
    gaps, edges = one_per_axis(dilation, 2, "fold", "dilation", 1), one_per_axis(padding, 2, "fold", "padding", 0)
    lengths = one_per_axis(output_size, 2, "fold", "output_size", 1)
    windows = [slide(length, size, step, gap, (edge, edge), "fold")
               for length, size, step, gap, edge in zip(lengths, sizes, steps, gaps, edges, strict=True)]
    counts = [axis.count for axis in windows]
    if x.ndim not in (2, 3) or x.shape[-2] % prod(sizes) or x.shape[-1] != prod(counts):
        refuse_shape(f"fold: {lengths} has {prod(counts)} windows of {prod(sizes)} elements a channel, got the shape {x.shape}",
                     "the input has the shape (N, channels * elements of a window, windows), or no N")
    columns = np.reshape(x, (x.shape[0] if x.ndim == 3 else 1, x.shape[-2] // prod(sizes), *sizes, *counts))
    image: Any = np.zeros_like(x, shape=(*columns.shape[:2], *(length + axis.low + axis.high
                                                          for length, axis in zip(lengths, windows, strict=True))))
    for element, index in zip(np.ndindex(*sizes), product(*(axis.slices() for axis in windows)), strict=True):
        image[(..., *index)] += columns[(slice(None), slice(None), *element)]
    image = image[(..., *(slice(axis.low, axis.low + length) for length, axis in zip(lengths, windows, strict=True)))]
    return image if x.ndim == 3 else image[0]


@dispatched
def pad(input: Array, pad: Sequence[int], mode: Literal["constant", "reflect", "replicate", "circular"] = "constant",
        value: float = 0.0) -> Array:
    """Pad `input`: `pad` is (before, after) for the last axis, then for the axis before it, and so on.

    Negative numbers remove elements. "reflect" mirrors without the edge, "replicate" repeats the edge, "circular" wraps around.

    >>> pad(np.array([[1.0, 2.0]]), (1, 0, 0, 1))
    array([[0., 1., 2.],
           [0., 0., 0.]])
    """
    if mode not in _MODES:
        raise ArgumentError(f"pad: mode is one of {', '.join(map(repr, _MODES))}, got {mode!r}", find_user_location())
    x = as_traced(input)
    numbers = [int(number) for number in pad]
    if len(numbers) % 2 or len(numbers) > 2 * x.ndim:
        raise ArgumentError(f"pad: two numbers for an axis, of {x.ndim} axes at most; got {len(numbers)}", find_user_location())
    pairs = [(0, 0)] * (x.ndim - len(numbers) // 2) + list(zip(numbers[::2], numbers[1::2], strict=True))[::-1]
    for size, ends in zip(x.shape, pairs, strict=True):
        if size + min(ends[0], 0) + min(ends[1], 0) < 0 or size + sum(ends) < 0:
            refuse_shape(f"pad: {ends} takes more from an axis than its {size} elements")
    x = x[tuple(slice(max(-low, 0), size - max(-high, 0)) for size, (low, high) in zip(x.shape, pairs, strict=True))]
    widths = [(max(low, 0), max(high, 0)) for low, high in pairs]
    if not any(low or high for low, high in widths):
        return x.copy()
    if mode == "constant":
        return np.pad(x, widths, constant_values=value)
    return np.pad(x, widths, mode=_MODES[mode])        # type: ignore[call-overload]


_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}


def _batched(x: Any, axes: int, function: str) -> tuple[Any, bool]:
    """Return `x` with a batch axis, and True if it had one."""
    x = floating(x, function)
    if x.ndim not in (axes + 1, axes + 2):
        names = ", ".join("DHW"[3 - axes:] if axes > 1 else "L")
        refuse_shape(f"{function} takes shape (N, C, {names}) or (C, {names}), got {x.shape}")
    return (x, True) if x.ndim == axes + 2 else (x[None], False)


def _convolve(x: Any, weight: Any, bias: Any | None, stride: int | Sequence[int], padding: Padding, dilation: int | Sequence[int],
              groups: int, axes: int) -> Any:
    function = f"conv{axes}d"
    x, batched = _batched(x, axes, function)
    weight = floating(weight, f"{function}: weight")
    if weight.ndim != axes + 2:
        refuse_shape(f"{function}: weight has {axes + 2} axes, (O, C / groups, ...), got shape {weight.shape}")
    channels, outputs = x.shape[1], weight.shape[0]
    if groups < 1 or channels % groups or outputs % groups or weight.shape[1] != channels // groups:
        refuse_shape(f"{function}: {channels} channels in {groups} groups do not fit to a weight of shape {weight.shape} (expected input"
                     f"{list(x.shape)} to have {weight.shape[1] * groups} channels, but got {channels} channels instead)",
                     "weight has shape (out channels, in channels / groups, ...), and both numbers of channels divide into the groups")
    bias = parameter(bias, (outputs,), function, "bias")
    windows = _windows(x.shape[2:], weight.shape[2:], stride, padding, dilation, function)
    attrs = attributes(windows)
    del attrs["sizes"]
    result = convolved(x, weight, groups, **attrs)
    if bias is not None:
        result = result + np.reshape(bias, (outputs, *(1,) * axes))
    return result if batched else result[0]


def convolved(x: Any, kernels: Any, groups: int, **attrs: Sequence[int]) -> Any:
    """Apply the op `convolution` to arrays that may differ in dtype."""
    loops = resolve(np.matmul, (x, kernels))
    images, weight = (lowering.convert(array.value, dtype) for array, dtype in zip((x, kernels), loops, strict=False))
    result = ops.convolution(images, weight, groups=groups, **{name: tuple(numbers) for name, numbers in attrs.items()})
    return wrap(result, strides=lowering.contiguous_strides(result.type.shape))


def _windows(lengths: Sequence[int], sizes: Sequence[int], stride: int | Sequence[int], padding: Padding,
             dilation: int | Sequence[int], function: str) -> list[Windows]:
    axes = len(lengths)
    steps, gaps = one_per_axis(stride, axes, function, "stride", 1), one_per_axis(dilation, axes, function, "dilation", 1)
    if min(sizes) < 1:
        refuse_shape(f"{function}: the kernel is empty, {tuple(sizes)}")
    if padding == "same":
        if set(steps) != {1}:
            raise ArgumentError(f"{function}: padding='same' is for stride 1, got {stride}", find_user_location())
        totals = [gap * (size - 1) for gap, size in zip(gaps, sizes, strict=True)]
        edges = [(total // 2, total - total // 2) for total in totals]
    elif isinstance(padding, str):
        if padding != "valid":
            raise ArgumentError(f"{function}: padding is 'same', 'valid' or numbers, got {padding!r}", find_user_location())
        edges = [(0, 0)] * axes
    else:
        edges = [(edge, edge) for edge in one_per_axis(padding, axes, function, "padding", 0)]
    return [slide(*numbers, function) for numbers in zip(lengths, sizes, steps, gaps, edges, strict=True)]
