"""Scalar functions by the name that op records use in their scalar code. Modules that take long to import are imported at their first use.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from adjit.codegen.vector_math import arithmetic as a
from adjit.codegen.vector_math import language
from adjit.codegen.vector_math.language import Value

Definition = Callable[..., Value]


def _lazy(module: str, *names: str) -> dict[str, Definition]:
    """The functions of a module, which is imported at the first call."""
    def function(name: str) -> Definition:
        def definition(*operands: Value) -> Value:
            found: Definition = getattr(import_module(f"adjit.codegen.vector_math.{module}"), name)
            return found(*operands)
        return definition
    return {name: function(name) for name in names}


UNARY: dict[str, Definition] = {
    "negative": a.negative, "abs": a.absolute, "sign": a.sign, "square": a.square, "reciprocal": a.reciprocal, "relu": a.relu,
    "floor": language.floor, "ceil": language.ceil, "trunc": language.trunc, "rint": language.rint, "sqrt": language.sqrt,
    **_lazy("exponential", "exp", "exp2", "expm1"),
    **_lazy("logarithmic", "log", "log2", "log10", "log1p"),
    **_lazy("powers", "cbrt"),
    **_lazy("trigonometric", "sin", "cos", "tan"),
    **_lazy("inverse_trigonometric", "arcsin", "arccos", "arctan"),
    **_lazy("hyperbolic", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh"),
    **_lazy("error_function", "erf", "erfc", "erfcx", "erfinv"),
    **_lazy("gamma", "lgamma", "digamma", "trigamma"),
    **_lazy("bessel", "i0e", "i1e"),
    **_lazy("sigmoid", "sigmoid"),
    "isnan": a.isnan, "isinf": a.isinf, "isfinite": a.isfinite, "logical_not": a.logical_not, "invert": a.invert,
    "bitcast": language.bitcast,
}
BINARY: dict[str, Definition] = {
    "add": a.add, "subtract": a.subtract, "multiply": a.multiply, "divide": a.divide, "floor_divide": a.floor_divide,
    "remainder": a.remainder, "power": a.power, "maximum": a.larger, "minimum": a.smaller, "fmax": a.larger_number,
    "fmin": a.smaller_number,
    **_lazy("inverse_trigonometric", "arctan2"), **_lazy("powers", "hypot"), **_lazy("sigmoid", "logaddexp"),
    **_lazy("philox", "philox"),
    "strong_multiply": a.strong_multiply, "strong_divide": a.strong_divide, "strong_product": a.strong_product,
    "equal": a.equal, "not_equal": a.not_equal, "less": a.less, "less_equal": a.less_equal, "greater": a.greater,
    "greater_equal": a.greater_equal, "logical_and": a.logical_and, "logical_or": a.logical_or, "logical_xor": a.logical_xor,
    "bitwise_and": a.bitwise_and, "bitwise_or": a.bitwise_or, "bitwise_xor": a.bitwise_xor,
    "left_shift": a.left_shift, "right_shift": a.right_shift,
    # one step of a reduction, whose steps may run in any order
    "sum_step": language.add_in_any_order, "product_step": language.multiply_in_any_order,
    "maximum_step": a.larger, "minimum_step": a.smaller,
}
