"""Elementwise ops in ONNX: the operator of the same name, or a few that compute the same.

A rule takes the writer, the op, and the names of its operands, which broadcast; it returns the name of the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adjit.codegen.onnx.writer import Writer, element_type
from adjit.ir.graph import Op
from adjit.ir.types import is_float

Rule = Callable[..., str]

SAME: dict[str, str] = {
    "negative": "Neg", "sign": "Sign", "abs": "Abs", "reciprocal": "Reciprocal", "subtract": "Sub", "divide": "Div", "floor": "Floor",
    "ceil": "Ceil", "rint": "Round", "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "isnan": "IsNaN", "isinf": "IsInf", "select": "Where", "relu": "Relu", "maximum": "Max",
    "minimum": "Min", "logical_not": "Not", "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "exp": "Exp", "log": "Log",
    "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "arcsin": "Asin", "arccos": "Acos", "arctan": "Atan", "sinh": "Sinh",
    "cosh": "Cosh", "tanh": "Tanh", "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh", "erf": "Erf", "sigmoid": "Sigmoid",
    "power": "Pow",
}
"""Operators that mean the same."""

OF_BOOLS = {"add": "Or", "multiply": "And", "maximum": "Or", "minimum": "And", "bitwise_and": "And", "bitwise_or": "Or",
            "bitwise_xor": "Xor", "invert": "Not", "not_equal": "Xor", "fmax": "Or", "fmin": "And"}
"""Operators for operands that are bools, where others are for numbers."""

RULES: dict[str, Rule] = {}


def elementwise_rule(op: Op) -> Rule | None:
    """Rule of an elementwise op; None if ONNX cannot compute it."""
    if op.operands and op.operands[0].type.dtype == np.bool_ and op.name in OF_BOOLS:
        return _same(OF_BOOLS[op.name])
    return _same(SAME[op.name]) if op.name in SAME else RULES.get(op.name)


def _same(kind: str) -> Rule:
    return lambda w, op, *names: w.node(kind, *names)


def _rule(*names: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(names, rule))
        return rule
    return register


def _number(w: Writer, op: Op, value: float) -> str:
    """A constant of the operands' dtype."""
    return w.constant(value, op.operands[0].type.dtype)


_rule("add")(_same("Add"))
_rule("multiply")(_same("Mul"))
_rule("bitwise_and")(_same("BitwiseAnd"))
_rule("bitwise_or")(_same("BitwiseOr"))
_rule("bitwise_xor")(_same("BitwiseXor"))
_rule("invert")(_same("BitwiseNot"))


@_rule("square")
def _square(w: Writer, op: Op, x: str) -> str:
    return w.node("Mul", x, x)


@_rule("strong_product")
def _strong_product(w: Writer, op: Op, x: str, y: str) -> str:
    zero = _number(w, op, 0)
    return w.node("Where", w.node("Or", w.node("Equal", x, zero), w.node("Equal", y, zero)), zero, w.node("Mul", x, y))


@_rule("strong_multiply")
def _strong_multiply(w: Writer, op: Op, x: str, y: str) -> str:
    zero = _number(w, op, 0)
    return w.node("Where", w.node("Equal", x, zero), zero, w.node("Mul", x, y))


@_rule("strong_divide")
def _strong_divide(w: Writer, op: Op, x: str, y: str) -> str:
    zero = _number(w, op, 0)
    return w.node("Where", w.node("Equal", x, zero), zero, w.node("Div", x, y))


@_rule("not_equal")
def _not_equal(w: Writer, op: Op, x: str, y: str) -> str:
    return w.node("Not", w.node("Equal", x, y))


@_rule("isfinite")
def _isfinite(w: Writer, op: Op, x: str) -> str:
    return w.node("Not", w.node("Or", w.node("IsNaN", x), w.node("IsInf", x)))


@_rule("trunc")
def _trunc(w: Writer, op: Op, x: str) -> str:
    return w.node("Where", w.node("Less", x, _number(w, op, 0)), w.node("Ceil", x), w.node("Floor", x))


@_rule("convert")
def _convert(w: Writer, op: Op, x: str) -> str:
    return w.node("Cast", x, to=element_type(op.result.type.dtype))


@_rule("fmax", "fmin")
def _fmax(w: Writer, op: Op, x: str, y: str) -> str:
    larger = w.node("Max" if op.name == "fmax" else "Min", x, y)
    if not is_float(op.operands[0].type.dtype):
        return larger
    return w.node("Where", w.node("IsNaN", x), y, w.node("Where", w.node("IsNaN", y), x, larger))


@_rule("remainder")
def _remainder(w: Writer, op: Op, x: str, y: str) -> str:
    """Of floats, what C's remainder leaves, and the divisor added where the signs differ. Integers divided by 0 give 0."""
    zero = _number(w, op, 0)
    if not is_float(op.operands[0].type.dtype):
        by_zero = w.node("Equal", y, zero)
        return w.node("Where", by_zero, zero, w.node("Mod", x, w.node("Where", by_zero, _number(w, op, 1), y)))
    left, differ = _rest(w, op, x, y)
    return w.node("Where", differ, w.node("Add", left, y), left)


def _rest(w: Writer, op: Op, x: str, y: str) -> tuple[str, str]:
    """What C's remainder leaves, and whether its sign is not the divisor's."""
    left = w.node("Mod", x, y, fmod=1)
    return left, w.node("Less", w.node("Mul", w.node("Sign", left), w.node("Sign", y)), _number(w, op, 0))


@_rule("floor_divide")
def _floor_divide(w: Writer, op: Op, x: str, y: str) -> str:
    """The quotient without the rest, which is a whole number, and one less where the rest has another sign."""
    zero, one = _number(w, op, 0), _number(w, op, 1)
    by_zero = w.node("Equal", y, zero)
    divisor = y if is_float(op.operands[0].type.dtype) else w.node("Where", by_zero, one, y)
    left, differ = _rest(w, op, x, divisor)
    whole = w.node("Div", w.node("Sub", x, left), divisor)
    if divisor is y:
        whole, by_zero_is = w.node("Round", whole), w.node("Div", x, y)
    else:
        by_zero_is = zero
    return w.node("Where", by_zero, by_zero_is, w.node("Where", differ, w.node("Sub", whole, one), whole))


@_rule("exp2")
def _exp2(w: Writer, op: Op, x: str) -> str:
    return w.node("Pow", _number(w, op, 2.0), x)


@_rule("log2")
def _log2(w: Writer, op: Op, x: str) -> str:
    return w.node("Div", w.node("Log", x), _number(w, op, math.log(2.0)))


@_rule("log10")
def _log10(w: Writer, op: Op, x: str) -> str:
    return w.node("Div", w.node("Log", x), _number(w, op, math.log(10.0)))


@_rule("cbrt")
def _cbrt(w: Writer, op: Op, x: str) -> str:
    return w.node("Mul", w.node("Sign", x), w.node("Pow", w.node("Abs", x), _number(w, op, 1 / 3)))


@_rule("expm1")
def _expm1(w: Writer, op: Op, x: str) -> str:
    """tanh(x / 2) * (exp(x) + 1), exact to a few units in the last place, near 0 too."""
    half = w.node("Tanh", w.node("Mul", x, _number(w, op, 0.5)))
    return w.node("Mul", half, w.node("Add", w.node("Exp", x), _number(w, op, 1.0)))


@_rule("log1p")
def _log1p(w: Writer, op: Op, x: str) -> str:
    """log(u) * x / (u - 1) for u = 1 + x rounded. Source: Kahan, in Higham, Accuracy and Stability of Numerical Algorithms, 1.14.1."""
    one = _number(w, op, 1.0)
    u = w.node("Add", x, one)
    exact = w.node("Or", w.node("Equal", u, one), w.node("IsInf", u, detect_negative=0))
    quotient = w.node("Div", x, w.node("Where", exact, one, w.node("Sub", u, one)))
    return w.node("Where", exact, x, w.node("Mul", w.node("Log", u), quotient))


@_rule("logaddexp")
def _logaddexp(w: Writer, op: Op, x: str, y: str) -> str:
    """max + log1p(exp(-|x - y|)); of two equal infinities the one."""
    larger = w.node("Max", x, y)
    rest = _log1p(w, op, w.node("Exp", w.node("Neg", w.node("Abs", w.node("Sub", x, y)))))
    return w.node("Where", w.node("IsInf", larger), larger, w.node("Add", larger, rest))


@_rule("hypot")
def _hypot(w: Writer, op: Op, x: str, y: str) -> str:
    """The larger times sqrt(1 + (smaller / larger)^2), which overflows only where the result does; infinite if one is."""
    a, b = w.node("Abs", x), w.node("Abs", y)
    large, small = w.node("Max", a, b), w.node("Min", a, b)
    one = _number(w, op, 1.0)
    ratio = w.node("Div", small, w.node("Where", w.node("Equal", large, _number(w, op, 0.0)), one, large))
    return w.node("Where", w.node("Or", w.node("IsInf", a), w.node("IsInf", b)), _number(w, op, math.inf),
                  w.node("Mul", large, w.node("Sqrt", w.node("Add", one, w.node("Mul", ratio, ratio)))))
