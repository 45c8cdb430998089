"""Layers that are a product with a weight, or take rows of a weight: `linear`, `bilinear`, `embedding`, `embedding_bag`, `one_hot`."""

from __future__ import annotations

import math
from functools import cache
from typing import Any, Literal

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.checks import check_range, checked, known
from adjit.eager.functional import matmul as matmul
from adjit.eager.functional import shapes
from adjit.eager.in_place import apply_in_place
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir import ops
from adjit.ir.errors import ArgumentError, IndexingError, UnsupportedError
from adjit.ir.types import I64, is_float
from adjit.nn.functional.arguments import Array, floating, integers, parameter, refuse_shape
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf
from adjit.tracer.dispatch import dispatched
from adjit.tracer.functions.composites import vector_norm
from adjit.tracer.lowering import iota
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location


def _check_rows(input: Any, weight: Any, *rest: Any, **options: Any) -> None:
    if len(shape := np.shape(weight) if not hasattr(weight, "shape") else weight.shape) == 2:
        check_range("embedding", "index", input, shape[0], "rows", in_pytorch="index out of range in self")


def _check_offsets(input: Any, weight: Any, offsets: Any, *rest: Any) -> None:
    _check_rows(input, weight)
    starts = None if offsets is None else known(offsets)
    if starts is not None and starts.size and (starts[0] != 0 or starts[-1] > np.shape(input)[0]):
        raise ArgumentError(f"embedding_bag: offsets begin with 0, and end at most with {np.shape(input)[0]}; got {starts.tolist()}",
                            find_user_location())


def linear(input: Any, weight: Any, bias: Any | None = None) -> Any:
    """`input @ weight.T + bias`: `input` is (..., I), `weight` (O, I) or (I,), `bias` (O,); the result (..., O) or (...).

    Raises `ShapeError` where the shapes do not fit.

    >>> linear(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([0.5, 0.0]))
    array([[11.5,  2. ]])
    """
    if isinstance(weight, ArrayWrapper) and len(weight.array.shape) == 2:
        array = input.array if isinstance(input, ArrayWrapper) else input
        if isinstance(array, (np.ndarray, TracedArray, DeviceLeaf)) and is_float(array.dtype):
            return _on_tensors(input, array.shape, weight, bias)
    return _linear(input, weight, bias)


def _on_tensors(x: Any, shape: tuple[int, ...], weight: Any, bias: Any | None) -> Any:
    """Compute `linear` with PyTorch's nodes: the weight is transposed, then there is one matrix product."""
    _check_linear(shape, weight.array.shape)
    rows = x if len(shape) == 2 else apply(shapes.reshape, (x, (math.prod(shape[:-1]), shape[-1])))
    columns = apply(shapes.t, (weight,))
    if bias is None:
        result = apply(matmul.mm, (rows, columns))
    else:
        if bias.shape != weight.array.shape[:1]:
            parameter(np.empty(bias.shape), weight.array.shape[:1], "linear", "bias")
        result = apply(matmul.addmm, (bias, rows, columns))
    return result if len(shape) == 2 else apply(shapes.reshape, (result, (*shape[:-1], weight.array.shape[0])))


@dispatched
def _linear(x: Any, weight: Any, bias: Any) -> Any:
    """Compute `linear` over traced arrays."""
    x, weight = floating(x, "linear"), floating(weight, "linear: weight")
    _check_linear(x.shape, weight.shape)
    bias = parameter(bias, weight.shape[:-1], "linear", "bias")
    result = x @ weight.T
    return result if bias is None else result + bias


def _check_linear(x: tuple[int, ...], weight: tuple[int, ...]) -> None:
    if len(weight) not in (1, 2) or not x or x[-1] != weight[-1]:
        as_pytorch = f" (mat1 and mat2 shapes cannot be multiplied ({math.prod(x[:-1])}x{x[-1]} and {weight[-1]}x{weight[0]}))" \
            if x and len(weight) == 2 else ""
        refuse_shape(f"linear: x of shape {x} does not fit to a weight of shape {weight}{as_pytorch}",
                     "weight has shape (out features, in features), and the last axis of x has size 'in features'")


def embedding(input: Array, weight: Array, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
              scale_grad_by_freq: bool = False, sparse: bool = False) -> Array:
    """Rows of `weight`, (V, D), at integer indices of any shape: shape `(*input.shape, D)`.

    The row `padding_idx` gets no gradient from this function. With `max_norm`, rows that are used and have a larger norm (of the exponent
    `norm_type`) are first scaled down to it in `weight` itself, a tensor. With `scale_grad_by_freq` the gradient of a row is divided by
    how often it is used. Raises `IndexError` for an index out of range, when it runs; in compiled code negative indices count from the end.
    `UnsupportedError` is raised for `sparse`: gradients are dense.

    >>> embedding(np.array([2, 0]), np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    array([[4., 5.],
           [0., 1.]])
    """
    check_sparse("embedding", sparse)
    if max_norm is not None:
        renormalise("embedding", weight, input, max_norm, norm_type)
    return _rows(input, weight, padding_idx, scale_grad_by_freq)


def check_sparse(function: str, sparse: bool) -> None:
    """Raise `UnsupportedError` for sparse gradients."""
    if sparse:
        raise UnsupportedError(f"{function}: gradients are dense, there are no sparse ones", find_user_location(), hint="leave out sparse")


def renormalise(function: str, weight: Any, indices: Any, max_norm: float, norm_type: float) -> None:
    """Scale rows of a table at these indices down to a norm, in place."""
    if not isinstance(weight, Tensor):
        raise TypeError(f"{function}: max_norm writes into the weight, which is a tensor then; got a {type(weight).__name__}")
    with no_grad():
        apply_in_place(_with_short_rows, weight, (indices, float(max_norm), float(norm_type)))


def _with_short_rows(table: Any, indices: Any, max_norm: float, norm_type: float) -> Any:
    norm = vector_norm(table, norm_type, 1, True)
    used = np.zeros_like(table, dtype=bool, shape=norm.shape)
    used[np.reshape(as_traced(indices), (-1,))] = True
    return np.where(used & (norm > max_norm), table * (max_norm / (norm + 1e-7)), table)


@checked(_check_rows)
@dispatched
def _rows(input: Any, weight: Any, padding_idx: int | None, scale_grad_by_freq: bool) -> Any:
    indices, table = integers(input, "embedding", "indices"), floating(weight, "embedding: weight")
    if table.ndim != 2:
        refuse_shape(f"embedding: weight has shape (rows, features), got {table.shape}")
    rows = np.take(table, indices, axis=0)
    if scale_grad_by_freq:
        rows = _by_frequency(rows, indices, table.shape[0])
    if padding_idx is None:
        return rows
    is_padding = np.expand_dims(indices == _row(padding_idx, table.shape[0], "embedding"), -1)
    return np.where(is_padding, wrap(ops.stop_gradient(rows.value)), rows)


def _row(padding_idx: int, count: int, function: str) -> int:
    if not -count <= padding_idx < count:
        raise ArgumentError(f"{function}: padding_idx {padding_idx} is no row of a weight of {count}", find_user_location())
    return padding_idx % count


def _by_frequency(rows: Any, indices: Any, count: int) -> Any:
    """The same rows, whose gradients are divided by how often each one is there."""
    counts = np.bincount(np.reshape(indices, (-1,)), minlength=count)
    often = np.expand_dims(np.take(counts, indices), -1).astype(rows.dtype)
    constant = wrap(ops.stop_gradient(rows.value))
    return constant + (rows - constant) / often


def embedding_bag(input: Array, weight: Array, offsets: Array | None = None, max_norm: float | None = None, norm_type: float = 2.0,
                  scale_grad_by_freq: bool = False, mode: Literal["mean", "sum", "max"] = "mean", sparse: bool = False,
                  per_sample_weights: Array | None = None, include_last_offset: bool = False, padding_idx: int | None = None) -> Array:
    """Sums, means or maxima of bags of rows of `weight`, (V, D): shape (number of bags, D), zeros for an empty bag.

    The bags are the rows of `input`, (B, L); or parts of `input`, (N,), that begin at `offsets` (with `include_last_offset` the last of
    them is the end of the last bag). "sum" may multiply each row with one of `per_sample_weights`, of the shape of `input`. Indices that
    are `padding_idx` do not count. Other arguments are as in `embedding`.

    >>> embedding_bag(np.array([0, 2, 1]), np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]), np.array([0, 2]))
    array([[2., 3.],
           [2., 3.]])
    """
    check_sparse("embedding_bag", sparse)
    if mode not in ("mean", "sum", "max"):
        raise ArgumentError(f"embedding_bag: mode is 'mean', 'sum' or 'max', got {mode!r}", find_user_location())
    if per_sample_weights is not None and mode != "sum":
        raise ArgumentError(f"embedding_bag: per_sample_weights go with the mode 'sum', not with {mode!r}", find_user_location())
    if max_norm is not None:
        renormalise("embedding_bag", weight, input, max_norm, norm_type)
    return _bags(input, weight, offsets, scale_grad_by_freq, mode, per_sample_weights, include_last_offset, padding_idx)


@checked(_check_offsets)
@dispatched
def _bags(input: Any, weight: Any, offsets: Any, scale_grad_by_freq: bool, mode: str, scales: Any, include_last_offset: bool,
          padding_idx: int | None) -> Any:
    indices, table = integers(input, "embedding_bag", "indices"), floating(weight, "embedding_bag: weight")
    if table.ndim != 2 or indices.ndim not in (1, 2) or (offsets is None) != (indices.ndim == 2):
        refuse_shape(f"embedding_bag takes indices (B, L), or (N,) with offsets, and a weight (V, D); got {indices.shape}, {table.shape}")
    if scales is not None and as_traced(scales).shape != indices.shape:
        refuse_shape(f"embedding_bag: per_sample_weights have the shape of the input, {indices.shape}, got {as_traced(scales).shape}")
    rows = np.take(table, indices, axis=0)
    if scale_grad_by_freq:
        rows = _by_frequency(rows, indices, table.shape[0])
    if scales is not None:
        rows = rows * np.expand_dims(floating(scales, "embedding_bag: per_sample_weights").astype(rows.dtype), -1)
    counted = np.ones_like(indices, dtype=bool) if padding_idx is None else indices != _row(padding_idx, table.shape[0], "embedding_bag")
    column = np.expand_dims(counted, -1)
    if offsets is None:
        number = np.sum(counted.astype(rows.dtype), axis=1, keepdims=True)
        if mode == "max":
            return np.where(number > 0, _first_largest(np.where(column, rows, -np.inf)), 0.0) if rows.shape[1] else np.sum(rows, axis=1)
        total = np.sum(np.where(column, rows, 0.0), axis=1)
        return total if mode == "sum" else total / np.maximum(number, 1.0)
    starts = integers(offsets, "embedding_bag", "offsets")
    starts = starts[:-1] if include_last_offset else starts
    bags = np.searchsorted(starts, np.arange(indices.shape[0]), side="right") - 1
    number = np.zeros_like(rows, shape=(starts.shape[0], 1))
    np.add.at(number, bags, column.astype(rows.dtype))
    result = np.zeros_like(rows, shape=(starts.shape[0], table.shape[1]))
    if mode == "max":
        result = result - np.inf
        np.maximum.at(result, bags, np.where(column, rows, -np.inf))
        return np.where(number > 0, result, 0.0)
    np.add.at(result, bags, np.where(column, rows, 0.0))
    return result if mode == "sum" else result / np.maximum(number, 1.0)


def _first_largest(rows: Any) -> Any:
    """Largest element along axis 1; the derivative goes to the first one."""
    first = np.expand_dims(np.argmax(rows, axis=1), 1)
    return np.take_along_axis(rows, first, 1)[:, 0]


@dispatched
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None) -> Array:
    """`sum over i, j of input1[..., i] * weight[o, i, j] * input2[..., j]`, plus `bias[o]`: (..., O).

    >>> bilinear(np.array([1.0, 2.0]), np.array([3.0]), np.array([[[1.0], [10.0]]]))
    array([63.])
    """
    first, second, factors = floating(input1, "bilinear"), floating(input2, "bilinear"), floating(weight, "bilinear: weight")
    if factors.ndim != 3 or first.shape[:-1] != second.shape[:-1] or (first.shape[-1], second.shape[-1]) != factors.shape[1:]:
        refuse_shape(f"bilinear: inputs of shape {first.shape} and {second.shape} do not fit to a weight of shape {factors.shape}")
    bias = parameter(bias, factors.shape[:1], "bilinear", "bias")
    result = np.einsum("...i,oij,...j->...o", first, factors, second)
    return result if bias is None else result + bias


def one_hot(tensor: Array, num_classes: int = -1, dtype: Any = np.int64) -> Array:
    """Convert integer labels of any shape to vectors with a 1 at the label: shape `(*tensor.shape, num_classes)`.

    -1 classes are one more than the largest label; in compiled code their number is given. A label outside of `[0, num_classes)` raises
    `IndexError`, and in compiled code gives zeros.

    >>> one_hot(np.array([0, 2]), 3)
    array([[1, 0, 0],
           [0, 0, 1]])
    """
    labels = None if is_tracing() else known(tensor)
    if num_classes == -1:
        if labels is None:
            raise ArgumentError("one_hot: the number of classes follows from the labels, which compiled code does not know",
                                find_user_location(), hint="pass num_classes")
        num_classes = int(labels.max()) + 1 if labels.size else 0
    if labels is not None:
        try:
            check_range("one_hot", "label", tensor, num_classes, "classes", hint="Class values must be smaller than num_classes.")
        except IndexingError:
            if labels.min() < 0:
                raise IndexingError(f"one_hot: Class values must be non-negative, got the label {labels.min()}",
                                    find_user_location()) from None
            raise
    if type(tensor) is Tensor and labels is tensor.array and labels.dtype == I64 and dtype is np.int64 and num_classes <= MAX_ROWS_KEPT:
        return new_tensor(_unit_rows(num_classes).take(labels, 0))
    return _one_hot(tensor, num_classes, I64 if dtype is np.int64 else dtype)


MAX_ROWS_KEPT = 64
"""Classes up to which all rows of `one_hot` are kept, 32 kB, and taken: comparing and converting take five times as long."""


@cache
def _unit_rows(count: int) -> np.ndarray:
    return np.eye(count, dtype=np.int64)


@dispatched
def _one_hot(tensor: Array, num_classes: int, dtype: Any) -> Array:
    return is_label(integers(tensor, "one_hot"), num_classes, -1).astype(dtype)


def is_label(labels: Any, classes: int, axis: int) -> Any:
    """True, along a new axis, if the label is that class. A comparison with a counter, so that it fuses with the surrounding ops."""
    labels = np.expand_dims(labels, axis)
    axis %= labels.ndim
    shape = (*labels.shape[:axis], classes, *labels.shape[axis + 1:])
    return labels == wrap(iota(I64, shape, axis))
