"""Convolutions, in the sense of networks: products of the windows of images with kernels; and the derivative with respect to the
kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import numpy as np

from adjit.ir.batching import batched_operands, emit_again, move_axis, reshaped, spread_all
from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import ShapeError
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.ops.movement import flip, reshape, transpose
from adjit.ir.ops.rules import INEXACT, require, require_dtype
from adjit.ir.ops.sampling import uniform
from adjit.ir.ops.window_geometry import ATTRIBUTES, WindowGeometry, window_geometry
from adjit.ir.types import F32, Shape, TensorType

PANEL_BYTES = 1 << 20
"""Approximate most bytes that windows take in memory at once."""


def convolution_windows(x: TensorType, sizes: Shape, attrs: Attributes) -> WindowGeometry:
    """Windows of the images of a convolution with kernels of these sizes."""
    return window_geometry(x, sizes, **{name: attrs[name] for name in ATTRIBUTES})


def _require_groups(channels: int, groups: int, what: str) -> None:
    if groups < 1 or channels % groups:
        raise ShapeError(f"{channels} {what} cannot be divided into {groups} groups")


def _infer_convolution(x: TensorType, w: TensorType, *, groups: int, **attrs: Any) -> TensorType:
    require(x, INEXACT)
    require_dtype(x, w)
    if x.rank < 3 or w.rank != x.rank:
        raise ShapeError(f"images [n, c, ...] and kernels [o, c / groups, ...] of the same rank are needed, got {x} and {w}")
    _require_groups(x.shape[1], groups, "channels")
    _require_groups(w.shape[0], groups, "kernels")
    if w.shape[1] * groups != x.shape[1]:
        raise ShapeError(f"{x} in {groups} groups has {x.shape[1] // groups} channels a group, and the kernels {w} take {w.shape[1]}")
    return x.with_shape((x.shape[0], w.shape[0], *convolution_windows(x, w.shape[2:], attrs).counts))


def _im2col_blocks(x: np.ndarray, window: WindowGeometry, groups: int) -> Iterator[tuple[int, int, slice, np.ndarray]]:
    """Windows of each image and group as the columns of a matrix, in blocks along the first axis of about `PANEL_BYTES` at most
    (im2col)."""
    count, axes, inputs = window.counts[0], len(window.sizes), x.shape[1] // groups
    windows, elements = window.windows(window.padded(x, 0.0)), inputs * prod(window.sizes)
    windows = np.moveaxis(windows, range(2 + axes, 2 + 2 * axes), range(2, 2 + axes))       # [n, c, *sizes, *counts]
    step = max(PANEL_BYTES // max(elements * prod(window.counts[1:]) * x.itemsize, 1), 1)
    before = (slice(None),) * axes
    for image in range(x.shape[0]):
        for group in range(groups):
            selected = windows[image, group * inputs:(group + 1) * inputs]
            for start in range(0, count, step):
                part = slice(start, min(start + step, count))
                yield image, group, part, selected[(slice(None), *before, part)].reshape(elements, -1)


def _evaluate_convolution(x: np.ndarray, w: np.ndarray, *, groups: int, **attrs: Any) -> np.ndarray:
    """Result of a product of matrices for each image, each group, and each block of windows."""
    window = WindowGeometry(x.shape[2:], w.shape[2:], **attrs)
    out = np.zeros((x.shape[0], w.shape[0], *window.counts), x.dtype)
    if not out.size or not w.size:
        return out
    kernels = w.reshape(groups, w.shape[0] // groups, -1)
    results = out.reshape(x.shape[0], groups, w.shape[0] // groups, *window.counts)
    for image, group, part, block in _im2col_blocks(x, window, groups):
        target = results[image, group, :, part]
        target[...] = (kernels[group] @ block).reshape(target.shape)
    return out


def _convolution_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    x, w = operands
    return (convolution_input_gradient(ct, w, convolution_windows(x.type, w.type.shape[2:], attrs), attrs["groups"]),
            kernel_gradient(x, ct, w.type.shape[2:], attrs))


def convolution_input_gradient(ct: Value, w: Value, window: WindowGeometry, groups: int) -> Value:
    """Derivative with respect to the images: a convolution of the cotangent with the kernels flipped, input and output channels exchanged.

    Source: Dumoulin and Visin, A guide to convolution arithmetic for deep learning, arXiv:1603.07285, chapter 4.
    """
    outputs, inputs, *sizes = w.type.shape
    grouped = reshape(w, shape=(groups, outputs // groups, inputs, *sizes))
    turned = transpose(flip(grouped, axes=tuple(range(3, 3 + len(sizes)))), permutation=(0, 2, 1, *range(3, 3 + len(sizes))))
    return convolution(ct, reshape(turned, shape=(groups * inputs, outputs // groups, *sizes)), **window.adjoint().attrs, groups=groups)


_PLAIN: dict[str, Any] = {"stride": (1, 1), "low": (0, 0), "high": (0, 0), "interior": (0, 0), "dilation": (1, 1), "groups": 1}

_CASES: list[tuple[Shape, Shape, dict[str, Any]]] = [
    ((2, 2, 5, 4), (3, 2, 3, 2), {}),
    ((2, 1, 5, 4), (2, 1, 3, 3), {"low": (1, 1), "high": (1, 2)}),
    ((1, 2, 6, 5), (2, 2, 3, 2), {"stride": (2, 3), "low": (1, 0), "high": (0, 2)}),
    ((1, 2, 7, 6), (1, 2, 2, 3), {"dilation": (3, 2), "high": (1, 0)}),
    ((2, 1, 3, 4), (2, 1, 2, 3), {"interior": (1, 2), "low": (1, 2), "high": (2, 0)}),
    ((1, 4, 4, 4), (6, 2, 2, 2), {"groups": 2, "stride": (1, 2), "low": (0, 1)}),
    ((2, 3, 4, 3), (3, 1, 3, 3), {"groups": 3, "low": (1, 1), "high": (1, 1)}),
    ((1, 2, 6, 6), (2, 2, 2, 2), {"low": (-1, 1), "high": (1, -2), "interior": (1, 0), "stride": (2, 1)}),
    ((1, 1, 5, 3), (1, 1, 1, 1), {"stride": (3, 2)}),
]
"""Samples with unusual attributes: shapes of images and kernels, and the attributes."""


def _convolution_samples() -> Iterator[Sample]:
    for images, kernels, attrs in _CASES:
        yield Sample((uniform(images), uniform(kernels, seed=1)), {**_PLAIN, **attrs}, differentiable=(0, 1))
    one = {name: value[:1] if isinstance(value, tuple) else value for name, value in _PLAIN.items()}
    yield Sample((uniform((2, 2, 7)), uniform((3, 2, 3), seed=1)), {**one, "stride": (2,), "low": (2,)}, differentiable=(0, 1))
    three = {name: value * 2 if isinstance(value, tuple) else value for name, value in one.items()}
    three = {name: (*value, value[0]) if isinstance(value, tuple) else value for name, value in three.items()}
    yield Sample((uniform((1, 2, 3, 4, 3)), uniform((2, 2, 2, 2, 2), seed=1)), {**three, "low": (1, 0, 0)}, differentiable=(0, 1))
    yield Sample((uniform((2, 3, 9, 8), dtype=F32), uniform((4, 3, 3, 3), dtype=F32, seed=1)), {**_PLAIN, "low": (1, 1), "high": (1, 1)})
    for images, kernels in (((0, 2, 4, 4), (3, 2, 2, 2)), ((2, 0, 4, 4), (3, 0, 2, 2)), ((2, 2, 4, 4), (0, 2, 2, 2)),
                            ((1, 1, 2, 4), (1, 1, 3, 2)), ((1, 1, 0, 4), (1, 1, 1, 2))):
        yield Sample((uniform(images), uniform(kernels)), _PLAIN)
    yield Sample((uniform((1, 1, 0, 4)), uniform((1, 1, 2, 2))), {**_PLAIN, "low": (1, 0), "high": (1, 0)})


def _batch_convolution(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """Examples with shared kernels are further images, examples with shared images have further kernels; else examples are further
    groups."""
    (x, w), groups = operands, op.attrs["groups"]
    flags = batched_operands(op, operands)
    if flags == [True, False]:
        (out,) = emit_again(op, (reshaped(x, (size * x.type.shape[1], *x.type.shape[2:])), w))
        return (reshaped(out, (size, x.type.shape[1], *out.type.shape[1:])),)
    if flags == [False, True]:
        _, outputs, *kernel = w.type.shape
        grouped = move_axis(reshaped(w, (size, groups, outputs // groups, *kernel)), 0, 1)
        (out,) = emit_again(op, (x, reshaped(grouped, (size * outputs, *kernel))))
        images, _, *windows = out.type.shape
        split = move_axis(reshaped(out, (images, groups, size, outputs // groups, *windows)), 2, 0)
        return (reshaped(split, (size, images, outputs, *windows)),)
    _, outputs, *kernel = w.type.shape
    (out,) = emit_again(op, (_as_channels(x), reshaped(w, (size * outputs, *kernel))), groups=size * groups)
    images, _, *windows = out.type.shape
    return (move_axis(reshaped(out, (images, size, outputs, *windows)), 1, 0),)


def _as_channels(x: Value) -> Value:
    """Batch of images whose examples are further channels."""
    size, images, channels, *lengths = x.type.shape
    return reshaped(move_axis(x, 0, 1), (images, size * channels, *lengths))


convolution: OpDefinition = define(
    "convolution", Kind.CONTRACTION, arity=2, attributes={**ATTRIBUTES, "groups": int}, vjp=_convolution_vjp,
    doc="Images [n, c, ...] by kernels [o, c / groups, ...], not flipped: each element of the result [n, o, ...] is the sum of a "
        "kernel times a window of its group of channels. Axes get `interior` zeros between elements, then `low` and `high` at their ends "
        "(negative: elements are taken away); windows are `stride` apart and their elements `dilation`.",
    infer=_infer_convolution, evaluate=_evaluate_convolution, samples=_convolution_samples, batch=_batch_convolution,
    terms=lambda shapes, result, attrs: prod(shapes[1][1:]))


MAX_PARTIAL_SUMS, MAX_PARTIAL_SUM_BYTES = 16, 4 << 20


def partial_sums(x: TensorType, ct: TensorType, sizes: Shape, groups: int) -> tuple[int, int]:
    """Number of partial sums into which the sum over images is split, whatever the number of threads, and the elements of one partial sum:
    for each kernel element a row of at least 16 outputs."""
    rows = x.shape[1] * prod(sizes)
    elements = rows * -(-(ct.shape[1] // groups) // 16) * 16
    return max(min(x.shape[0], MAX_PARTIAL_SUMS, MAX_PARTIAL_SUM_BYTES // max(elements * x.dtype.itemsize, 1)), 1), elements


def kernel_gradient(x: Value, ct: Value, sizes: Shape, attrs: Attributes) -> Value:
    """Emit the op `convolution_kernel_gradient`, for a convolution with these attributes, with memory for its partial sums."""
    parts, elements = partial_sums(x.type, ct.type, sizes, attrs["groups"])
    return convolution_kernel_gradient(x, ct, sizes=sizes, scratch_bytes=parts * elements * x.type.dtype.itemsize, **attrs)


def _infer_kernel_gradient(x: TensorType, ct: TensorType, *, sizes: Shape, groups: int, scratch_bytes: int, **attrs: Any) -> TensorType:
    require(x, INEXACT)
    require_dtype(x, ct)
    if x.rank < 3 or ct.rank != x.rank or len(sizes) != x.rank - 2:
        raise ShapeError(f"images [n, c, ...], cotangents [n, o, ...] and sizes of the same rank are needed, got {x}, {ct} and {sizes}")
    _require_groups(x.shape[1], groups, "channels")
    _require_groups(ct.shape[1], groups, "kernels")
    expected = (x.shape[0], ct.shape[1], *convolution_windows(x, sizes, attrs).counts)
    if ct.shape != expected:
        raise ShapeError(f"the cotangent has to be {x.with_shape(expected)}, got {ct}")
    return x.with_shape((ct.shape[1], x.shape[1] // groups, *sizes))


def _evaluate_kernel_gradient(x: np.ndarray, ct: np.ndarray, *, sizes: Shape, groups: int, scratch_bytes: int, **attrs: Any) -> np.ndarray:
    """Sum over images and blocks of the cotangent times the windows, each a product of matrices."""
    window = WindowGeometry(x.shape[2:], sizes, **attrs)
    outputs = ct.shape[1] // groups
    out = np.zeros((ct.shape[1], x.shape[1] // groups, *sizes), x.dtype)
    if not out.size or not ct.size:
        return out
    kernels, cotangents = out.reshape(groups, outputs, -1), ct.reshape(x.shape[0], groups, outputs, *window.counts)
    for image, group, part, block in _im2col_blocks(x, window, groups):
        kernels[group] += cotangents[image, group, :, part].reshape(outputs, -1) @ block.T
    return out


def _kernel_gradient_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """Cotangents of an op that is linear in the images and in the cotangent of the convolution."""
    x, cotangent = operands
    plain = {name: value for name, value in attrs.items() if name not in ("sizes", "scratch_bytes")}
    window = convolution_windows(x.type, attrs["sizes"], attrs)
    return convolution_input_gradient(cotangent, ct, window, attrs["groups"]), convolution(x, ct, **plain)


def _kernel_gradient_samples() -> Iterator[Sample]:
    for sample in _convolution_samples():
        x, w = sample.arrays
        window = WindowGeometry(x.shape[2:], w.shape[2:], **{name: sample.attrs[name] for name in ATTRIBUTES})
        ct = uniform((x.shape[0], w.shape[0], *window.counts), dtype=x.dtype, seed=2)
        parts, elements = partial_sums(TensorType(x.dtype, x.shape), TensorType(x.dtype, ct.shape), w.shape[2:], sample.attrs["groups"])
        scratch = parts * elements * x.itemsize
        yield Sample((x, ct), {**sample.attrs, "sizes": w.shape[2:], "scratch_bytes": scratch}, sample.differentiable)


def _batch_kernel_gradient(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    x, ct = map(_as_channels, spread_all(op, operands, size))
    plain = {name: value for name, value in op.attrs.items() if name not in ("sizes", "scratch_bytes")}
    gradient = kernel_gradient(x, ct, op.attrs["sizes"], {**plain, "groups": size * op.attrs["groups"]})
    return (reshaped(gradient, (size, gradient.type.shape[0] // size, *gradient.type.shape[1:])),)


convolution_kernel_gradient: OpDefinition = define(
    "convolution_kernel_gradient", Kind.CONTRACTION, arity=2, vjp=_kernel_gradient_vjp, batch=_batch_kernel_gradient,
    attributes={**ATTRIBUTES, "groups": int, "sizes": tuple, "scratch_bytes": int},
    doc="The derivative of a convolution in its kernels [o, c / groups, *sizes], for images [n, c, ...] and the cotangent [n, o, ...].",
    infer=_infer_kernel_gradient, evaluate=_evaluate_kernel_gradient, samples=_kernel_gradient_samples,
    terms=lambda shapes, result, attrs: prod((shapes[1][0], *shapes[1][2:])))
