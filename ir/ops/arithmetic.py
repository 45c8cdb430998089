"""Elementwise arithmetic: signs, sums, products, quotients, and the strong products of derivative rules.

Derivative rules multiply a cotangent by `strong_multiply(ct, local)` and divide it by `strong_divide(ct, local)`: a cotangent of exactly 0
contributes exactly 0, also where the local derivative is infinite or NaN. In the derivatives of these ops two cotangents are multiplied, of
which either may be 0: by `strong_product`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from adjit.ir.definition import Kind, OpCost, OpDefinition, Rounding, Sample, define
from adjit.ir.graph import Value
from adjit.ir.ops.complex_numbers import complex as complex_of
from adjit.ir.ops.complex_numbers import conj, to_part
from adjit.ir.ops.complex_numbers import real as real_of
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.rules import ANY, FLOAT, INEXACT, NUMBER, REAL, require, same_as_operands
from adjit.ir.ops.sampling import INTEGERS, binary_samples, edge_pairs, unary_samples, uniform
from adjit.ir.types import BOOL, F32, F64, TensorType, is_complex


def _evaluate_strong_multiply(ct: np.ndarray, local: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(ct == 0, ct.dtype.type(0), ct * local))


def _evaluate_strong_product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.where((a == 0) | (b == 0), a.dtype.type(0), a * b))


def _evaluate_strong_divide(ct: np.ndarray, local: np.ndarray) -> np.ndarray:
    return np.asarray(np.where(ct == 0, ct.dtype.type(0), ct / local))


def _strong_samples() -> Iterator[Sample]:
    yield from binary_samples(0.5, 2.0, differentiable=True)
    yield Sample((np.zeros(4), np.array([np.nan, np.inf, 0.0, 1.0])))


strong_product: OpDefinition = define(
    "strong_product", Kind.ELEMENTWISE, arity=2,
    doc="The product of two cotangents; 0 where either is 0, whatever the other is. Its derivative is that of the product.",
    infer=same_as_operands(INEXACT), evaluate=_evaluate_strong_product, scalar="strong_product({0}, {1})", samples=_strong_samples,
    cost=OpCost.MODERATE, rounding=Rounding.ONCE, same_alone=True, strong=2, where_finite=np.multiply, nonfinite=2,
    vjp=lambda ct, operands, results, attrs: (strong_product(ct, operands[1]), strong_product(ct, operands[0])))

strong_multiply: OpDefinition = define(
    "strong_multiply", Kind.ELEMENTWISE, arity=2,
    doc="The product of a cotangent and a local derivative; 0 where the cotangent is 0, whatever the other is. Its derivative is that of "
        "the product.",
    infer=same_as_operands(INEXACT), evaluate=_evaluate_strong_multiply, scalar="strong_multiply({0}, {1})", samples=_strong_samples,
    cost=OpCost.CHEAP, rounding=Rounding.ONCE, same_alone=True, strong=1, where_finite=np.multiply, nonfinite=2,
    vjp=lambda ct, operands, results, attrs: (strong_multiply(ct, operands[1]), strong_product(ct, operands[0])))

strong_divide: OpDefinition = define(
    "strong_divide", Kind.ELEMENTWISE, arity=2,
    doc="The quotient of a cotangent and a number; 0 where the cotangent is 0, whatever the other is. Its derivative is that of the "
        "quotient.",
    infer=same_as_operands(INEXACT), evaluate=_evaluate_strong_divide, scalar="strong_divide({0}, {1})", samples=_strong_samples,
    cost=OpCost.DIVISION, rounding=Rounding.ONCE, same_alone=True, strong=1, where_finite=np.divide, nonfinite=1,
    vjp=lambda ct, operands, results, attrs: _division_vjp(ct, operands, results, strong_product))


def _division_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], product: OpDefinition) -> tuple[Value, ...]:
    """For q = x / y: ct / y, and ct / y times -q."""
    along_x = strong_divide(ct, operands[1])
    return along_x, negative(product(along_x, results[0]))


negative: OpDefinition = define(
    "negative", Kind.ELEMENTWISE, arity=1, numpy=np.negative, doc="-x.",
    infer=same_as_operands(NUMBER), evaluate=np.negative, scalar="(-{0})",
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True, nonfinite=1,
    samples=lambda: unary_samples(-2, 2, differentiable=True, others=INTEGERS),
    vjp=lambda ct, operands, results, attrs: (negative(ct),))

sign: OpDefinition = define(
    "sign", Kind.ELEMENTWISE, arity=1, numpy=np.sign, doc="-1, 0 or 1; NaN for NaN. Its derivative is 0. Of a complex number, "
        "the number of length 1 in its direction, 0 for 0, where the derivative counts as 0.",
    infer=same_as_operands(NUMBER), evaluate=np.sign, scalar="sign({0})",
    cost=OpCost.MODERATE, rounding=Rounding.NONE, same_alone=True,
    samples=lambda: unary_samples(0.5, 2, differentiable=True, others=INTEGERS),
    vjp=lambda ct, operands, results, attrs: (_direction_vjp(ct, operands[0], results[0]) if is_complex(ct.type.dtype) else None,))


def _direction_vjp(ct: Value, x: Value, direction: Value) -> Value:
    """(ct - conj(s) Re(s ct)) / |x| for s = x / |x|: what of the cotangent points along the circle."""
    zeros = full_like(real_of(ct), 0.0)
    along = complex_of(real_of(strong_product(ct, direction)), zeros)
    return strong_divide(subtract(ct, strong_product(along, conj(direction))), complex_of(abs(x), zeros))


def _infer_abs(x: TensorType) -> TensorType:
    require(x, ANY)
    return to_part(x) if is_complex(x.dtype) else x


abs: OpDefinition = define(
    "abs", Kind.ELEMENTWISE, arity=1, numpy=np.absolute, doc="The absolute value, for complex numbers a float. Its derivative at 0 is 0.",
    infer=_infer_abs, evaluate=np.absolute, scalar="abs({0})",
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True,
    samples=lambda: _abs_samples(),
    vjp=lambda ct, operands, results, attrs: (
        strong_multiply(complex_of(ct, full_like(ct, 0.0)), conj(sign(operands[0]))) if is_complex(operands[0].type.dtype)
        else strong_multiply(ct, sign(operands[0])),))


def _abs_samples() -> Iterator[Sample]:
    yield from unary_samples(0.5, 2, differentiable=True, others=(*INTEGERS, BOOL))
    yield from unary_samples(-2, -0.5, differentiable=True)


square: OpDefinition = define(
    "square", Kind.ELEMENTWISE, arity=1, numpy=np.square, doc="x * x.",
    infer=same_as_operands(NUMBER), evaluate=np.square, scalar="square({0})",
    cost=OpCost.CHEAP, rounding=Rounding.ONCE, same_alone=True, saves_operands=True,
    samples=lambda: unary_samples(-2, 2, differentiable=True, others=INTEGERS),
    vjp=lambda ct, operands, results, attrs: (strong_multiply(ct, multiply(operands[0], full_like(operands[0], 2.0))),))

reciprocal: OpDefinition = define(
    "reciprocal", Kind.ELEMENTWISE, arity=1, numpy=np.reciprocal, doc="1 / x.",
    infer=same_as_operands(INEXACT), evaluate=np.reciprocal, scalar="reciprocal({0})",
    cost=OpCost.MODERATE, rounding=Rounding.ONCE,
    samples=lambda: unary_samples(0.5, 2, differentiable=True),
    vjp=lambda ct, operands, results, attrs: (negative(strong_multiply(ct, square(results[0]))),))

add: OpDefinition = define(
    "add", Kind.ELEMENTWISE, arity=2, numpy=np.add, doc="x + y; for bools, or.",
    infer=same_as_operands(ANY), evaluate=np.add, scalar="({0} + {1})",
    cost=OpCost.CHEAP, rounding=Rounding.ONCE, same_alone=True, commutative=True, nonfinite=2,
    samples=lambda: binary_samples(differentiable=True, others=(*INTEGERS, BOOL)),
    vjp=lambda ct, operands, results, attrs: (ct, ct))

subtract: OpDefinition = define(
    "subtract", Kind.ELEMENTWISE, arity=2, numpy=np.subtract, doc="x - y.",
    infer=same_as_operands(NUMBER), evaluate=np.subtract, scalar="({0} - {1})",
    cost=OpCost.CHEAP, rounding=Rounding.ONCE, same_alone=True, nonfinite=2,
    samples=lambda: binary_samples(differentiable=True, others=INTEGERS),
    vjp=lambda ct, operands, results, attrs: (ct, negative(ct)))

multiply: OpDefinition = define(
    "multiply", Kind.ELEMENTWISE, arity=2, numpy=np.multiply, doc="x * y; for bools, and.",
    infer=same_as_operands(ANY), evaluate=np.multiply, scalar="({0} * {1})",
    cost=OpCost.CHEAP, rounding=Rounding.ONCE, same_alone=True, commutative=True, nonfinite=2,
    samples=lambda: binary_samples(differentiable=True, others=(*INTEGERS, BOOL)),
    vjp=lambda ct, operands, results, attrs: (strong_multiply(ct, operands[1]), strong_multiply(ct, operands[0])))

divide: OpDefinition = define(
    "divide", Kind.ELEMENTWISE, arity=2, numpy=np.divide, doc="x / y.",
    infer=same_as_operands(INEXACT), evaluate=np.divide, scalar="({0} / {1})",
    cost=OpCost.DIVISION, rounding=Rounding.ONCE, same_alone=True, nonfinite=1, saves_operands=True,
    samples=lambda: binary_samples(0.5, 2, differentiable=True),
    vjp=lambda ct, operands, results, attrs: _division_vjp(ct, operands, results, strong_multiply))


def _division_samples(differentiable: bool) -> Iterator[Sample]:
    """Both signs, away from the jumps; integer division by zero gives 0."""
    dividend, divisor = np.array([5.3, -5.3, 5.3, -5.3, 0.7]), np.array([2.0, 2.0, -2.0, -2.0, 0.9])
    yield Sample((dividend, divisor), differentiable=(0, 1) if differentiable else ())
    yield Sample((dividend.astype(F32), divisor.astype(F32)))
    yield Sample((uniform((0,)), uniform((0,))))
    yield Sample((np.array(5.3), np.array(-2.0)), differentiable=(0, 1) if differentiable else ())
    for dtype in (F32, F64, *INTEGERS):
        yield Sample(edge_pairs(dtype))


floor_divide: OpDefinition = define(
    "floor_divide", Kind.ELEMENTWISE, arity=2, numpy=np.floor_divide,
    doc="The quotient rounded down; 0 for integers divided by 0. Its derivative is 0.",
    infer=same_as_operands(REAL), evaluate=np.floor_divide, scalar="floor_divide({0}, {1})",
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.ONCE,
    samples=lambda: _division_samples(True), vjp=lambda ct, operands, results, attrs: (None, None))

remainder: OpDefinition = define(
    "remainder", Kind.ELEMENTWISE, arity=2, numpy=np.remainder,
    doc="What `floor_divide` leaves, with the sign of the divisor; 0 for integers divided by 0.",
    infer=same_as_operands(REAL), evaluate=np.remainder, scalar="remainder({0}, {1})",
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.ONCE,
    samples=lambda: _division_samples(True),
    vjp=lambda ct, operands, results, attrs: (ct, negative(strong_multiply(ct, floor_divide(*operands)))))

_ROUNDING_DOC = "Its derivative is 0."
floor, ceil, trunc, rint = (
    define(name, Kind.ELEMENTWISE, arity=1, numpy=function, doc=f"{doc}. {_ROUNDING_DOC}",
           infer=same_as_operands(FLOAT), evaluate=function, scalar=f"{name}({{0}})",
           cost=OpCost.MODERATE, rounding=Rounding.NONE, same_alone=True,
           samples=lambda: unary_samples(0.6, 0.9, differentiable=True),
           vjp=lambda ct, operands, results, attrs: (None,))
    for name, function, doc in (
        ("floor", np.floor, "The largest integer not above x"), ("ceil", np.ceil, "The smallest integer not below x"),
        ("trunc", np.trunc, "x rounded towards 0"), ("rint", np.rint, "The nearest integer, the even one of two")))
