"""Transposed convolutions: the adjoint of a convolution, as a layer that makes its input larger."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.nn.functional.arguments import Array, floating, one_per_axis, parameter, refuse_shape
from adjit.nn.functional.convolution import convolved
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched

Size = int | Sequence[int]


@dispatched
def conv_transpose1d(input: Array, weight: Array, bias: Array | None = None, stride: Size = 1, padding: Size = 0, output_padding: Size = 0,
                     groups: int = 1, dilation: Size = 1) -> Array:
    """Adjoint of `conv1d`: `input` (N, C, L) or (C, L), `weight` (C, O / groups, K), `bias` (O,); otherwise like `conv_transpose2d`.

    >>> conv_transpose1d(np.array([[1.0, 2.0]]), np.array([[[1.0, 10.0]]]))
    array([[ 1., 12., 20.]])
    """
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 1)


@dispatched
def conv_transpose2d(input: Array, weight: Array, bias: Array | None = None, stride: Size = 1, padding: Size = 0, output_padding: Size = 0,
                     groups: int = 1, dilation: Size = 1) -> Array:
    """Adjoint of `conv2d`: `input` (N, C, H, W) or (C, H, W), `weight` (C, O / groups, KH, KW), `bias` (O,).

    The result is (N, O, ...) with `(H - 1) * stride - 2 * padding + dilation * (KH - 1) + output_padding + 1` rows. It is a convolution:
    of the input with `stride - 1` zeros between its elements, by the reversed kernels. Raises `ShapeError` if shapes do not fit.
    Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, arXiv:1603.07285.

    >>> conv_transpose2d(np.array([[[1.0, 2.0]]]), np.ones((1, 1, 1, 2)), stride=2)
    array([[[1., 1., 2., 2.]]])
    """
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 2)


@dispatched
def conv_transpose3d(input: Array, weight: Array, bias: Array | None = None, stride: Size = 1, padding: Size = 0, output_padding: Size = 0,
                     groups: int = 1, dilation: Size = 1) -> Array:
    """Adjoint of `conv3d`: `input` (N, C, D, H, W) or (C, D, H, W), `weight` (C, O / groups, KD, KH, KW); like `conv_transpose2d`.

    >>> conv_transpose3d(np.array([[[[1.0, 2.0]]]]), np.ones((1, 1, 1, 1, 2)), stride=2)
    array([[[[1., 1., 2., 2.]]]])
    """
    return _transposed(input, weight, bias, stride, padding, output_padding, groups, dilation, 3)


def _transposed(input: Any, weight: Any, bias: Any | None, stride: Size, padding: Size, output_padding: Size, groups: int,
                dilation: Size, axes: int) -> Any:
    name = f"conv_transpose{axes}d"
    x = floating(input, name)
    kernels: Any = as_traced(weight)
    fits = x.ndim in (axes + 1, axes + 2) and kernels.ndim == axes + 2
    if not fits or x.shape[-axes - 1] != kernels.shape[0] or kernels.shape[0] % groups:
        refuse_shape(f"{name}: an input of the shape {x.shape} and a weight of the shape {kernels.shape} do not fit, with {groups} groups")
    steps, edges, more, gaps = (one_per_axis(size, axes, name, what, least) for size, what, least in (
        (stride, "stride", 1), (padding, "padding", 0), (output_padding, "output_padding", 0), (dilation, "dilation", 1)))
    batched = x.ndim == axes + 2
    x = x if batched else x[None]
    inputs, outputs, *sizes = kernels.shape
    if min(sizes) < 1:
        refuse_shape(f"{name}: the kernel is empty, {tuple(sizes)}")
    kernels = np.reshape(kernels, (groups, inputs // groups, outputs, *sizes))
    kernels = np.reshape(np.swapaxes(kernels, 1, 2), (groups * outputs, inputs // groups, *sizes))
    kernels = np.flip(kernels, tuple(range(2, 2 + axes)))
    low = [gap * (size - 1) - edge for gap, size, edge in zip(gaps, sizes, edges, strict=True)]
    high = [before + extra for before, extra in zip(low, more, strict=True)]
    for length, step, before, after, gap, size in zip(x.shape[2:], steps, low, high, gaps, sizes, strict=True):
        if (length - 1) * step + before + after < gap * (size - 1):
            refuse_shape(f"{name}: the padding removes the whole result of an axis of {length} elements")
    result = convolved(x, kernels, groups, stride=[1] * axes, low=low, high=high, interior=[step - 1 for step in steps], dilation=gaps)
    bias = parameter(bias, (groups * outputs,), name, "bias")
    if bias is not None:
        result = result + np.reshape(bias, (groups * outputs, *(1,) * axes))
    return result if batched else result[0]
