"""Elementwise functions of floats: exponentials, logarithms, roots, trigonometric and hyperbolic functions, powers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from adjit.ir import special_functions
from adjit.ir.definition import Kind, OpCost, OpDefinition, Rounding, Sample, VectorJacobianProduct, define
from adjit.ir.graph import Attributes, Value
from adjit.ir.ops.arithmetic import add, divide, multiply, negative, square, strong_divide, strong_multiply, subtract
from adjit.ir.ops.comparison import equal, isinf
from adjit.ir.ops.creation import full_like
from adjit.ir.ops.logical import logical_and, logical_or
from adjit.ir.ops.rules import FLOAT, INEXACT, NUMBER, same_as_operands
from adjit.ir.ops.sampling import INTEGERS, binary_samples, edge_pairs, unary_samples, uniform
from adjit.ir.ops.selection import select
from adjit.ir.types import F32, F64, is_complex

Local = Callable[[Value, Value], Value]


def times(local: Local) -> VectorJacobianProduct:
    """Derivative rule `ct * local(x, result)`."""
    return lambda ct, operands, results, attrs: (strong_multiply(ct, local(operands[0], results[0])),)


def over(local: Local) -> VectorJacobianProduct:
    """Derivative rule `ct / local(x, result)`."""
    return lambda ct, operands, results, attrs: (strong_divide(ct, local(operands[0], results[0])),)


def minus(rule: VectorJacobianProduct) -> VectorJacobianProduct:
    return lambda ct, operands, results, attrs: tuple(
        negative(value) if isinstance(value, Value) else value for value in rule(ct, operands, results, attrs))


def plus(value: Value, number: float) -> Value:
    return add(value, full_like(value, number))


def scaled(value: Value, number: float) -> Value:
    return multiply(value, full_like(value, number))


def one_minus(value: Value) -> Value:
    return subtract(full_like(value, 1.0), value)


def one_minus_square(value: Value) -> Value:
    """(1 - x)(1 + x): right to the last bits near 1, where 1 - x**2 is not."""
    return multiply(one_minus(value), plus(value, 1.0))


def unary_function(name: str, function: Callable[..., np.ndarray], doc: str, low: float, high: float,
                    vjp: VectorJacobianProduct, numpy: Callable[..., np.ndarray] | None = None,
                    samples: Callable[[], Iterable[Sample]] | None = None, kinds: str = FLOAT, **traits: Any) -> OpDefinition:
    """Record of a function of one float operand, with samples between `low` and `high` unless `samples` are given. The function is
    transcendental, unless `traits` say otherwise."""
    known = {"cost": OpCost.TRANSCENDENTAL, "rounding": Rounding.APPROXIMATE, **traits}
    return define(name, Kind.ELEMENTWISE, arity=1, doc=doc, infer=same_as_operands(kinds), evaluate=function, vjp=vjp,
                  scalar=f"{name}({{0}})", numpy=numpy, **known,
                  samples=samples or (lambda: unary_samples(low, high, differentiable=True)))


def _ufunc(function: np.ufunc, doc: str, low: float, high: float, vjp: VectorJacobianProduct, **traits: Any) -> OpDefinition:
    kinds = INEXACT if "D->D" in function.types else FLOAT
    return unary_function(function.__name__, function, doc, low, high, vjp, function, kinds=kinds, **traits)


# -- exponentials, logarithms, roots

exp: OpDefinition = _ufunc(np.exp, "e to the power x.", -2, 2, times(lambda x, y: y))
exp2: OpDefinition = _ufunc(np.exp2, "2 to the power x.", -2, 2, times(lambda x, y: scaled(y, math.log(2.0))))
expm1: OpDefinition = _ufunc(np.expm1, "exp(x) - 1, accurate near 0.", -2, 2, times(lambda x, y: exp(x)))
log: OpDefinition = _ufunc(np.log, "The natural logarithm.", 0.5, 3, over(lambda x, y: x))
log2: OpDefinition = _ufunc(np.log2, "The logarithm to base 2.", 0.5, 3, over(lambda x, y: scaled(x, math.log(2.0))))
log10: OpDefinition = _ufunc(np.log10, "The logarithm to base 10.", 0.5, 3, over(lambda x, y: scaled(x, math.log(10.0))))
log1p: OpDefinition = _ufunc(np.log1p, "log(1 + x), accurate near 0.", -0.5, 2, over(lambda x, y: plus(x, 1.0)))
sqrt: OpDefinition = _ufunc(np.sqrt, "The square root.", 0.5, 3, over(lambda x, y: scaled(y, 2.0)),
                            cost=OpCost.MODERATE, rounding=Rounding.ONCE, same_alone=True)
cbrt: OpDefinition = _ufunc(np.cbrt, "The cube root, also of negative numbers.", 0.5, 3, over(lambda x, y: scaled(square(y), 3.0)))

# -- trigonometric and hyperbolic functions

sin: OpDefinition = _ufunc(np.sin, "The sine.", -3, 3, times(lambda x, y: cos(x)))
cos: OpDefinition = _ufunc(np.cos, "The cosine.", -3, 3, minus(times(lambda x, y: sin(x))))
tan: OpDefinition = _ufunc(np.tan, "The tangent.", -1.2, 1.2, times(lambda x, y: plus(square(y), 1.0)))
arcsin: OpDefinition = _ufunc(np.arcsin, "The inverse sine.", -0.8, 0.8, over(lambda x, y: sqrt(one_minus_square(x))))
arccos: OpDefinition = _ufunc(np.arccos, "The inverse cosine.", -0.8, 0.8, minus(over(lambda x, y: sqrt(one_minus_square(x)))))
arctan: OpDefinition = _ufunc(np.arctan, "The inverse tangent.", -3, 3, over(lambda x, y: plus(square(x), 1.0)))
sinh: OpDefinition = _ufunc(np.sinh, "The hyperbolic sine.", -2, 2, times(lambda x, y: cosh(x)))
cosh: OpDefinition = _ufunc(np.cosh, "The hyperbolic cosine.", -2, 2, times(lambda x, y: sinh(x)))
tanh: OpDefinition = _ufunc(np.tanh, "The hyperbolic tangent.", -2, 2, times(lambda x, y: one_minus_square(y)))
arcsinh: OpDefinition = _ufunc(np.arcsinh, "The inverse hyperbolic sine.", -3, 3, over(lambda x, y: _root_of_square_plus_one(x)))
arccosh: OpDefinition = _ufunc(np.arccosh, "The inverse hyperbolic cosine.", 1.5, 3,
                               over(lambda x, y: multiply(sqrt(plus(x, -1.0)), sqrt(plus(x, 1.0)))))
arctanh: OpDefinition = _ufunc(np.arctanh, "The inverse hyperbolic tangent.", -0.8, 0.8, over(lambda x, y: one_minus_square(x)))



def _root_of_square_plus_one(x: Value) -> Value:
    return sqrt(plus(square(x), 1.0)) if is_complex(x.type.dtype) else hypot(x, full_like(x, 1.0))


# -- functions that NumPy does not have

def _evaluate_sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)); if `exp(-x)` overflows, the quotient is the right 0."""
    return np.asarray(np.reciprocal(1 + np.exp(-x)))


erf: OpDefinition = unary_function(
    "erf", special_functions.erf, "The error function, 2 / sqrt(pi) times the integral of exp(-t**2) from 0 to x.", -2, 2,
    times(lambda x, y: scaled(exp(negative(square(x))), 2.0 / math.sqrt(math.pi))))
sigmoid: OpDefinition = unary_function(
    "sigmoid", _evaluate_sigmoid, "1 / (1 + exp(-x)).", -3, 3, times(lambda x, y: multiply(y, one_minus(y))))

# -- two operands


def _zero_where(condition: Value, value: Value) -> Value:
    return select(condition, full_like(value, 0.0), value)


def _power_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """`y * x**(y - 1)` is 0 where y is 0, also at x = 0: hence a strong product, whose derivatives are those of the product."""
    x, y = operands
    along_y = _zero_where(equal(x, full_like(x, 0.0)), multiply(results[0], log(x)))
    return strong_multiply(ct, strong_multiply(y, power(x, plus(y, -1.0)))), strong_multiply(ct, along_y)


def _power_samples() -> Iterator[Sample]:
    yield Sample((uniform((3, 4), 0.5, 2), uniform((3, 4), -2, 3, seed=1)), differentiable=(0, 1))
    yield Sample((np.array([-1.5, -0.5, 2.0, -2.0, 1.5, -1.0]), np.array([2.0, 3.0, -2.0, 1.0, 0.0, -1.0])), differentiable=(0,))
    yield Sample((np.array([0.0, 0.0, 0.0, 0.0]), np.array([0.0, 1.0, 2.0, 3.0])), differentiable=(0,))
    yield Sample((np.array(1.5), np.array(2.5)), differentiable=(0, 1))
    yield Sample((uniform((0,)), uniform((0,))))
    for dtype in (F32, F64):
        yield Sample(edge_pairs(dtype))
    for dtype in INTEGERS:
        yield Sample((np.array([0, 1, 2, 3, 5, 7], dtype), np.array([0, 5, 3, 2, 1, 0], dtype)))


def _power(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x to the power y as for an array of exponents: for the single exponent 0.5, NumPy takes the square root, which is NaN at -inf."""
    return np.asarray(np.power(np.array(x, ndmin=1), np.array(y, ndmin=1, order="C"))).reshape(x.shape)


power: OpDefinition = define(
    "power", Kind.ELEMENTWISE, arity=2, numpy=np.power,
    doc="x to the power y; exponents of integers are not negative. The derivative in x is y * x**(y - 1), 0 where y is 0; in y it is "
        "x**y * log(x), 0 where x is 0.",
    infer=same_as_operands(NUMBER), evaluate=_power, scalar="power({0}, {1})", vjp=_power_vjp, samples=_power_samples,
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.APPROXIMATE)


def _hypot_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    (length,) = results
    at_zero = equal(length, full_like(length, 0.0))
    return tuple(strong_multiply(ct, _zero_where(at_zero, divide(value, length))) for value in operands)


hypot: OpDefinition = define(
    "hypot", Kind.ELEMENTWISE, arity=2, numpy=np.hypot,
    doc="sqrt(x**2 + y**2), without intermediate overflow. Its derivative at (0, 0) is 0.",
    infer=same_as_operands(FLOAT), evaluate=np.hypot, scalar="hypot({0}, {1})", vjp=_hypot_vjp,
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.APPROXIMATE,
    samples=lambda: binary_samples(0.5, 2, differentiable=True))


def _arctan2_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    y, x = operands
    length = hypot(y, x)
    flat = logical_or(equal(length, full_like(length, 0.0)), isinf(length))
    along_y = _zero_where(flat, divide(divide(x, length), length))
    along_x = _zero_where(flat, divide(divide(y, length), length))
    return strong_multiply(ct, along_y), negative(strong_multiply(ct, along_x))


def _arctan2_samples() -> Iterator[Sample]:
    yield from binary_samples(0.5, 2, differentiable=True)
    yield Sample((np.array([1.0, -1.0, -0.5]), np.array([-0.7, -2.0, 1.5])), differentiable=(0, 1))


arctan2: OpDefinition = define(
    "arctan2", Kind.ELEMENTWISE, arity=2, numpy=np.arctan2,
    doc="The angle of the point (y, x), the first operand being the ordinate. Its derivative is 0 at (0, 0) and at infinity.",
    infer=same_as_operands(FLOAT), evaluate=np.arctan2, scalar="arctan2({0}, {1})", vjp=_arctan2_vjp, samples=_arctan2_samples,
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.APPROXIMATE)


def _logaddexp_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """Shares of the cotangent are sigmoid(x - y) and sigmoid(y - x); equal infinities have no difference and share equally."""
    x, y = operands
    difference = _zero_where(logical_and(equal(x, y), isinf(x)), subtract(x, y))
    return strong_multiply(ct, sigmoid(difference)), strong_multiply(ct, sigmoid(negative(difference)))


logaddexp: OpDefinition = define(
    "logaddexp", Kind.ELEMENTWISE, arity=2, numpy=np.logaddexp,
    doc="log(exp(x) + exp(y)), without intermediate overflow. Equal infinities share the cotangent equally.",
    infer=same_as_operands(FLOAT), evaluate=np.logaddexp, scalar="logaddexp({0}, {1})", vjp=_logaddexp_vjp,
    cost=OpCost.TRANSCENDENTAL, rounding=Rounding.APPROXIMATE,
    samples=lambda: binary_samples(differentiable=True))
