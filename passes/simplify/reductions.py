"""Simplification of reductions.

The order in which a sum adds is not part of its meaning, so a sum may be taken over fewer, or other, elements as long as its value is the
same. Exceptions to "every bit": the sum of n equal numbers becomes one product, which is the nearest number to the exact sum; a common
factor of all summands of a gradient's sum is multiplied once, with the sum; and a sum of gradients may be -0.0.
"""

from __future__ import annotations

import math

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import Role
from adjit.ir.graph import Op, Value
from adjit.ir.ops import traits
from adjit.ir.types import is_float
from adjit.passes.simplify.movement import non_unit_axes, same_without_unit_axes
from adjit.passes.simplify.rewrite import Rewriter, RuleTable

REDUCTIONS = RuleTable()


@REDUCTIONS.rule(*traits.REDUCTIONS)
def reduce_nothing(op: Op, graph: Rewriter) -> Value | None:
    """A reduction over axes of size 1 is a reshape. A sum begins with 0.0, so the sum of -0.0 is 0.0."""
    operand = op.operands[0]
    if operand.type.dtype != op.result.type.dtype or any(operand.type.shape[axis] != 1 for axis in op.attrs["axes"]):
        return None
    return _started_at_zero(ops.reshape(operand, shape=op.result.type.shape), op)


def _started_at_zero(total: Value, op: Op) -> Value:
    """Replacement for a sum that the user wrote: 0.0 if `total` is -0.0."""
    if op.name != "reduce_sum" or op.role is not Role.PRIMAL or not is_float(total.type.dtype):
        return total
    return ops.add(total, ops.constant(value=0.0, dtype=total.type.dtype, shape=total.type.shape))


@REDUCTIONS.rule(*traits.REDUCTIONS, any_operand=("reshape",))
def reduce_before_reshape(op: Op, graph: Rewriter) -> Value | None:
    """A reduction ignores axes of size 1 that were inserted or dropped just before it."""
    inner = graph.producer(op.operands[0], "reshape")
    if inner is None or not same_without_unit_axes(inner.operands[0].type.shape, op.operands[0].type.shape):
        return None
    source = inner.operands[0]
    axis_of = dict(zip(non_unit_axes(op.operands[0].type.shape), non_unit_axes(source.type.shape), strict=True))
    axes = tuple(axis_of[axis] for axis in op.attrs["axes"] if axis in axis_of)
    return ops.reshape(op.definition(source, axes=axes), shape=op.result.type.shape)


@REDUCTIONS.rule("reduce_max", "reduce_min", "reduce_and", "reduce_or", any_operand=("reduce_max", "reduce_min", "reduce_and", "reduce_or"))
def reduce_once(op: Op, graph: Rewriter) -> Value | None:
    """max(max(x, axis), axis) -> max(x, both axes)."""
    inner = graph.producer(op.operands[0], op.name)
    if inner is None:
        return None
    source = inner.operands[0]
    left = [axis for axis in range(source.type.rank) if axis not in inner.attrs["axes"]]
    return op.definition(source, axes=tuple(sorted((*inner.attrs["axes"], *(left[axis] for axis in op.attrs["axes"])))))


@REDUCTIONS.rule("reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or", any_operand=("broadcast",))
def reduce_before_broadcast(op: Op, graph: Rewriter) -> Value | None:
    """reduce(broadcast(x)) -> broadcast(reduce(x)); a sum over n repetitions is a product with n."""
    inner = graph.producer(op.operands[0], "broadcast")
    if inner is None or op.operands[0].type.dtype != op.result.type.dtype or op.operands[0].type.size == 0:
        return None
    small, shape = inner.operands[0], op.operands[0].type.shape
    inserted = [axis for axis in range(len(shape)) if axis not in inner.attrs["axes"]]
    count = math.prod(shape[axis] for axis in inserted if axis in op.attrs["axes"])
    if op.name == "reduce_sum" and count > 1 and not _is_exact(count, op.result.type.dtype):
        return None
    axes = tuple(axis for axis, axis_of in enumerate(inner.attrs["axes"]) if axis_of in op.attrs["axes"])
    value = op.definition(small, axes=axes) if axes else small
    if op.name == "reduce_sum" and count > 1:
        value = ops.multiply(value, ops.constant(value=count, dtype=value.type.dtype, shape=value.type.shape))
        value = value if axes else _started_at_zero(value, op)
    left = [axis for axis in range(len(shape)) if axis not in op.attrs["axes"]]
    kept = tuple(left.index(axis_of) for axis_of in inner.attrs["axes"] if axis_of in left)
    return ops.broadcast(value, shape=op.result.type.shape, axes=kept)


@REDUCTIONS.rule("reduce_sum", any_operand=("matmul",))
def sum_of_product(op: Op, graph: Rewriter) -> Value | None:
    """sum(a b) over rows -> sum(a) b, and over columns -> a sum(b): a product with one vector. In gradients only: rounding of the user's
    own ops does not change."""
    product = _product(op.operands[0], graph) if op.role is not Role.PRIMAL else None
    if product is None:
        return None
    rank, (a, b) = product.result.type.rank, product.operands
    transpose_a, transpose_b = product.attrs["transpose_a"], product.attrs["transpose_b"]
    axes = op.attrs["axes"]
    rows, columns = ((rank - 2 in axes) and product.result.type.shape[-2] > 1, (rank - 1 in axes) and product.result.type.shape[-1] > 1)
    if not rows and not columns:
        return None
    if rows:
        a = _sum_keepdims(a, rank - 1 if transpose_a else rank - 2)
    if columns:
        b = _sum_keepdims(b, rank - 2 if transpose_b else rank - 1)
    return ops.reduce_sum(ops.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b), axes=axes)


@REDUCTIONS.rule("reduce_sum", any_operand=("negative", "add"))
def sum_before_signs_and_terms(op: Op, graph: Rewriter) -> Value | None:
    """sum(-x) -> -sum(x) and sum(x + y) -> sum(x) + sum(y) in gradients, if this brings a product within reach of `sum_of_product`."""
    value = op.operands[0]
    inner = graph.producer(value, "negative", "add")
    if inner is None or op.role is Role.PRIMAL or not graph.used_once(value) or not _sums_a_product(op, inner, graph):
        return None
    return inner.definition(*(ops.reduce_sum(term, axes=op.attrs["axes"]) for term in inner.operands))


def _sums_a_product(op: Op, inner: Op, graph: Rewriter) -> bool:
    """True if a term of `inner`, or of the sum that `inner` negates, is a product whose rows or columns are summed."""
    rank = op.operands[0].type.rank
    for term in inner.operands:
        deeper = graph.producer(term, "add") if inner.name == "negative" and graph.used_once(term) else None
        if _product(term, graph) is not None and not {rank - 1, rank - 2}.isdisjoint(op.attrs["axes"]):
            return True
        if deeper is not None and _sums_a_product(op, deeper, graph):
            return True
    return False


def _product(value: Value, graph: Rewriter) -> Op | None:
    """Matmul of floats that makes `value`, if nothing else reads the value."""
    product = graph.producer(value, "matmul")
    return product if product is not None and graph.used_once(value) and is_float(value.type.dtype) and value.type.size else None


def _sum_keepdims(matrix: Value, axis: int) -> Value:
    """Sum over an axis, which becomes an axis of size 1."""
    shape = tuple(1 if other == axis else size for other, size in enumerate(matrix.type.shape))
    return ops.reshape(ops.reduce_sum(matrix, axes=(axis,)), shape=shape)


def _is_exact(count: int, dtype: np.dtype) -> bool:
    return count <= (2 ** (np.finfo(dtype).nmant + 1) if is_float(dtype) else np.iinfo(dtype).max)


@REDUCTIONS.rule("reduce_sum", any_operand=("negative", "strong_multiply"))
def sum_before_shared_factor(op: Op, graph: Rewriter) -> Value | None:
    """sum(strong_multiply(x, broadcast(c))) -> strong_multiply(sum(x), c), and the same for a factor c of x; sum(-...) -> -sum(...).

    If c is computed by sums itself, the new sum does not wait for c: a kernel goes through its rows once less often.
    """
    negative = graph.producer(op.operands[0], "negative")
    product = graph.producer(negative.operands[0] if negative else op.operands[0], "strong_multiply")
    if product is None:
        return None
    total = _sum_of_product(product, op, graph)
    if negative:
        return ops.negative(op.definition(product.result, axes=op.attrs["axes"]) if total is None else total)
    return total


def _sum_of_product(product: Op, op: Op, graph: Rewriter) -> Value | None:
    """Sum of a strong product over the axes of `op`, as a simpler sum times a factor that all summands share; None if they share none."""
    cotangent, local = product.operands
    of_cotangent, of_local = (_common_factor(value, op, graph) for value in product.operands)
    if of_cotangent is not None:
        return ops.strong_multiply(of_cotangent, op.definition(local, axes=op.attrs["axes"]))
    if of_local is not None:
        return ops.strong_multiply(op.definition(cotangent, axes=op.attrs["axes"]), of_local)
    inner = graph.producer(cotangent, "strong_multiply")
    factor = _common_factor(inner.operands[1], op, graph) if inner is not None and graph.used_once(product.result) else None
    if inner is None or factor is None:
        return None
    return ops.strong_product(op.definition(ops.strong_multiply(inner.operands[0], local), axes=op.attrs["axes"]), factor)


def _common_factor(value: Value, op: Op, graph: Rewriter) -> Value | None:
    """Operand of `value`, broadcast to the shape of the sum, if `value` is a broadcast whose operand lacks the summed axes; else None."""
    repeated = graph.producer(value, "broadcast")
    if repeated is None or any(axis in op.attrs["axes"] for axis in repeated.attrs["axes"]):
        return None
    left = [axis for axis in range(value.type.rank) if axis not in op.attrs["axes"]]
    return ops.broadcast(repeated.operands[0], shape=op.result.type.shape, axes=tuple(left.index(axis) for axis in repeated.attrs["axes"]))
