"""Elementwise predicates: comparisons and tests for NaN and infinity. No derivatives: their results are bools."""

from __future__ import annotations

import numpy as np

from adjit.ir.definition import Kind, OpCost, Rounding, define
from adjit.ir.ops.rules import ANY, INEXACT, to_bool
from adjit.ir.ops.sampling import INTEGERS, binary_samples, unary_samples
from adjit.ir.types import BOOL

equal, not_equal, less, less_equal, greater, greater_equal = (
    define(name, Kind.ELEMENTWISE, arity=2, numpy=function, doc=f"Whether x {symbol} y." if symbol in ("==", "!=") else
           f"Whether x {symbol} y; of complex numbers with equal real parts, the imaginary parts decide.",
           infer=to_bool(ANY), evaluate=function, scalar=f"({{0}} {symbol} {{1}})", vjp=None,
           cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True, saves_operands=True, commutative=name in ("equal", "not_equal"),
           samples=lambda: binary_samples(differentiable=False, others=(*INTEGERS, BOOL)))
    for name, function, symbol in (
        ("equal", np.equal, "=="), ("not_equal", np.not_equal, "!="), ("less", np.less, "<"),
        ("less_equal", np.less_equal, "<="), ("greater", np.greater, ">"), ("greater_equal", np.greater_equal, ">=")))

isnan, isinf, isfinite = (
    define(name, Kind.ELEMENTWISE, arity=1, numpy=function, doc=f"Whether x is {what}.",
           infer=to_bool(INEXACT), evaluate=function, scalar=f"{name}({{0}})", vjp=None,
           cost=OpCost.MODERATE, rounding=Rounding.NONE, same_alone=True,
           samples=lambda: unary_samples(-2, 2, differentiable=False))
    for name, function, what in (
        ("isnan", np.isnan, "NaN"), ("isinf", np.isinf, "infinite"), ("isfinite", np.isfinite, "neither NaN nor infinite")))
