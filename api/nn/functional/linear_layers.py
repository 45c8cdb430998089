"""Layers that are a product with a weight, or take rows of a weight: `linear`, `embedding`, `one_hot`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.checks import check_range, checked
from adjit.eager.functional import matmul as matmul
from adjit.eager.functional import shapes
from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.types import I64, is_float
from adjit.nn.functional.arguments import Array, floating, integers, parameter, refuse_shape
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.dispatch import dispatched
from adjit.tracer.lowering import iota
from adjit.tracer.user_location import find_user_location


def _check_rows(input: Any, weight: Any, *rest: Any, **options: Any) -> None:
    if len(shape := np.shape(weight) if not hasattr(weight, "shape") else weight.shape) == 2:
        check_range("embedding", "index", input, shape[0], "rows")


def _check_labels(tensor: Any, num_classes: int, *rest: Any, **options: Any) -> None:
    check_range("one_hot", "label", tensor, num_classes, "classes")


def linear(input: Any, weight: Any, bias: Any | None = None) -> Any:
    """`input @ weight.T + bias`: `input` is (..., I), `weight` (O, I) or (I,), `bias` (O,); the result (..., O) or (...).

    Raises `ShapeError` where the shapes do not fit.

    >>> linear(np.array([[1.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]), np.array([0.5, 0.0]))
    array([[11.5,  2. ]])
    """
    if isinstance(weight, ArrayWrapper) and len(weight.array.shape) == 2:
        array = input.array if isinstance(input, ArrayWrapper) else input
        if isinstance(array, (np.ndarray, TracedArray)) and is_float(array.dtype):
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
        refuse_shape(f"linear: x of shape {x} does not fit to a weight of shape {weight}",
                     "weight has shape (out features, in features), and the last axis of x has size 'in features'")


@checked(_check_rows)
@dispatched
def embedding(input: Array, weight: Array, padding_idx: int | None = None) -> Array:
    """Rows of `weight`, (V, D), at integer indices of any shape: shape `(*input.shape, D)`.

    The row `padding_idx` gets no gradient from this function. Raises `IndexError` for an index out of range, when it runs; in compiled code
    negative indices count from the end.

    >>> embedding(np.array([2, 0]), np.array([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]))
    array([[4., 5.],
           [0., 1.]])
    """
    indices, table = integers(input, "embedding", "indices"), floating(weight, "embedding: weight")
    if table.ndim != 2:
        refuse_shape(f"embedding: weight has shape (rows, features), got {table.shape}")
    rows = np.take(table, indices, axis=0)
    if padding_idx is None:
        return rows
    if not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise ArgumentError(f"embedding: padding_idx {padding_idx} is no row of a weight of shape {weight.shape}", find_user_location())
    is_padding = np.expand_dims(indices == padding_idx % weight.shape[0], -1)
    return np.where(is_padding, wrap(ops.stop_gradient(rows.value)), rows)


@checked(_check_labels)
@dispatched
def one_hot(tensor: Array, num_classes: int, dtype: Any = np.int64) -> Array:
    """Convert integer labels of any shape to vectors with a 1 at the label: shape `(*tensor.shape, num_classes)`.

    A label outside of `[0, num_classes)` raises `IndexError`, and in compiled code gives zeros.

    >>> one_hot(np.array([0, 2]), 3)
    array([[1, 0, 0],
           [0, 0, 1]])
    """
    return is_label(integers(tensor, "one_hot"), num_classes, -1).astype(dtype)


def is_label(labels: Any, classes: int, axis: int) -> Any:
    """True, along a new axis, if the label is that class. A comparison with a counter, so that it fuses with the surrounding ops."""
    labels = np.expand_dims(labels, axis)
    axis %= labels.ndim
    shape = (*labels.shape[:axis], classes, *labels.shape[axis + 1:])
    return labels == wrap(iota(I64, shape, axis))
