"""Reductions other than the sum: product, extrema, and, or."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.arithmetic import divide, multiply, strong_multiply
from adjit.ir.ops.broadcasting import broadcast, infer_reduction, other_axes, reduce_sum, reduction_samples
from adjit.ir.ops.comparison import greater, less
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.cumulative import products_before
from adjit.ir.ops.movement import reshape, transpose
from adjit.ir.ops.rules import ANY, NUMBER
from adjit.ir.ops.sampling import BOTH_BOOLS, INTEGERS
from adjit.ir.ops.selection import select
from adjit.ir.types import BOOL, is_float

Operands = tuple[Value, ...]

# -- product


def _reduce_prod_vjp(ct: Value, operands: Operands, results: Operands, attrs: Attributes) -> tuple[Value, ...]:
    """Derivative in an element: the product of all others, found without division, as some may be 0."""
    (x,) = operands
    axes, shape = attrs["axes"], x.type.shape
    kept = other_axes(x.type.rank, axes)
    order = (*kept, *axes)
    ordered = transpose(x, permutation=order)
    flat = reshape(ordered, shape=(*ct.type.shape, math.prod(shape[axis] for axis in axes)))
    last = len(kept)
    others = multiply(products_before(flat, last, reverse=False), products_before(flat, last, reverse=True))
    flat_ct = strong_multiply(broadcast(ct, shape=flat.type.shape, axes=tuple(range(last))), others)
    return (transpose(reshape(flat_ct, shape=ordered.type.shape), permutation=tuple(order.index(axis) for axis in range(len(order)))),)


def _reduce_prod_samples() -> Iterator[Sample]:
    yield from reduction_samples(0.5, 2.0, empty=True)
    zeros = np.array([[2.0, 0.0, 3.0, -1.0], [0.0, 2.0, 0.0, 3.0], [1.0, 2.0, 3.0, 4.0], [0.0, 0.0, 0.0, 5.0]])
    for axes in ((0,), (1,), (0, 1)):
        yield Sample((zeros,), {"axes": axes}, differentiable=(0,))


reduce_prod: OpDefinition = define(
    "reduce_prod", Kind.REDUCTION, arity=1, attributes={"axes": tuple}, numpy=np.prod,
    doc="The product over `axes`, in the dtype of the operand; 1 for no elements. The derivative is right where elements are 0.",
    infer=infer_reduction(NUMBER, empty=True), evaluate=lambda x, *, axes: np.multiply.reduce(x, axis=axes, dtype=x.dtype),
    scalar="({0} * {1})", identity=lambda dtype: dtype.type(1), combine=np.multiply, vjp=_reduce_prod_vjp, samples=_reduce_prod_samples)

# -- extrema


def _extremum_vjp(worse: OpDefinition, ct: Value, x: Value, extremum: Value, axes: tuple[int, ...]) -> tuple[Value, ...]:
    """Cotangents of a maximum or minimum: elements that are not `worse` than the extremum share the cotangent; if the extremum is NaN, all
    elements do."""
    shape, kept = x.type.shape, other_axes(x.type.rank, axes)
    lost = worse(x, broadcast(extremum, shape=shape, axes=kept))
    zero = full_like(x, 0.0)
    count = reduce_sum(select(lost, zero, full_like(x, 1.0)), axes=axes)
    return (select(lost, zero, broadcast(divide(ct, count), shape=shape, axes=kept)),)


def _lowest(dtype: np.dtype) -> Any:
    if dtype.kind == "c":
        return dtype.type(complex(-np.inf, -np.inf))
    return dtype.type(-np.inf) if is_float(dtype) else dtype.type(False if dtype.kind == "b" else np.iinfo(dtype).min)


def _highest(dtype: np.dtype) -> Any:
    if dtype.kind == "c":
        return dtype.type(complex(np.inf, np.inf))
    return dtype.type(np.inf) if is_float(dtype) else dtype.type(True if dtype.kind == "b" else np.iinfo(dtype).max)


_TIES = "Elements that tie share the cotangent equally; all elements if the result is NaN."

reduce_max: OpDefinition = define(
    "reduce_max", Kind.REDUCTION, arity=1, attributes={"axes": tuple}, numpy=np.max,
    doc=f"The largest element over `axes`; NaN if one element is NaN. {_TIES}",
    infer=infer_reduction(ANY, empty=False), evaluate=lambda x, *, axes: np.maximum.reduce(x, axis=axes),
    scalar="maximum({0}, {1})", identity=_lowest, combine=np.maximum,
    samples=lambda: reduction_samples(empty=False, others=(*INTEGERS, BOOL)),
    vjp=lambda ct, operands, results, attrs: _extremum_vjp(less, ct, operands[0], results[0], attrs["axes"]))

reduce_min: OpDefinition = define(
    "reduce_min", Kind.REDUCTION, arity=1, attributes={"axes": tuple}, numpy=np.min,
    doc=f"The smallest element over `axes`; NaN if one element is NaN. {_TIES}",
    infer=infer_reduction(ANY, empty=False), evaluate=lambda x, *, axes: np.minimum.reduce(x, axis=axes),
    scalar="minimum({0}, {1})", identity=_highest, combine=np.minimum,
    samples=lambda: reduction_samples(empty=False, others=(*INTEGERS, BOOL)),
    vjp=lambda ct, operands, results, attrs: _extremum_vjp(greater, ct, operands[0], results[0], attrs["axes"]))

# -- bools


def _bool_samples() -> Iterator[Sample]:
    for axes in ((), (0,), (1,), (0, 1)):
        yield Sample((BOTH_BOOLS,), {"axes": axes})
        yield Sample((np.zeros((0, 2), BOOL),), {"axes": axes})
    yield Sample((np.array(True),), {"axes": ()})


reduce_and: OpDefinition = define(
    "reduce_and", Kind.REDUCTION, arity=1, attributes={"axes": tuple}, numpy=np.all,
    doc="True if all elements are true; true for no elements.",
    infer=infer_reduction("b", empty=True), evaluate=lambda x, *, axes: np.logical_and.reduce(x, axis=axes),
    scalar="logical_and({0}, {1})", identity=lambda dtype: np.True_, combine=np.logical_and, vjp=None, samples=_bool_samples)

reduce_or: OpDefinition = define(
    "reduce_or", Kind.REDUCTION, arity=1, attributes={"axes": tuple}, numpy=np.any,
    doc="True if one element is true; false for no elements.",
    infer=infer_reduction("b", empty=True), evaluate=lambda x, *, axes: np.logical_or.reduce(x, axis=axes),
    scalar="logical_or({0}, {1})", identity=lambda dtype: np.False_, combine=np.logical_or, vjp=None, samples=_bool_samples)
