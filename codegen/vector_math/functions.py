"""Every scalar function by the name that op records use in their scalar code."""

from __future__ import annotations

from collections.abc import Callable

from adjit.codegen.vector_math import arithmetic as a
from adjit.codegen.vector_math import (
    bessel,
    error_function,
    exponential,
    gamma,
    hyperbolic,
    inverse_trigonometric,
    language,
    logarithmic,
    powers,
    sigmoid,
    trigonometric,
)
from adjit.codegen.vector_math.language import Value
from adjit.codegen.vector_math.philox import philox

Definition = Callable[..., Value]

UNARY: dict[str, Definition] = {
    "negative": a.negative, "abs": a.absolute, "sign": a.sign, "square": a.square, "reciprocal": a.reciprocal, "relu": a.relu,
    "floor": language.floor, "ceil": language.ceil, "trunc": language.trunc, "rint": language.rint, "sqrt": language.sqrt,
    "exp": exponential.exp, "exp2": exponential.exp2, "expm1": exponential.expm1,
    "log": logarithmic.log, "log2": logarithmic.log2, "log10": logarithmic.log10, "log1p": logarithmic.log1p,
    "cbrt": powers.cbrt, "sin": trigonometric.sin, "cos": trigonometric.cos, "tan": trigonometric.tan,
    "arcsin": inverse_trigonometric.arcsin, "arccos": inverse_trigonometric.arccos, "arctan": inverse_trigonometric.arctan,
    "sinh": hyperbolic.sinh, "cosh": hyperbolic.cosh, "tanh": hyperbolic.tanh,
    "arcsinh": hyperbolic.arcsinh, "arccosh": hyperbolic.arccosh, "arctanh": hyperbolic.arctanh,
    "erf": error_function.erf, "erfc": error_function.erfc, "erfcx": error_function.erfcx, "erfinv": error_function.erfinv,
    "lgamma": gamma.lgamma, "digamma": gamma.digamma, "trigamma": gamma.trigamma, "i0e": bessel.i0e, "i1e": bessel.i1e,
    "sigmoid": sigmoid.sigmoid,
    "isnan": a.isnan, "isinf": a.isinf, "isfinite": a.isfinite, "logical_not": a.logical_not, "invert": a.invert,
}
BINARY: dict[str, Definition] = {
    "add": a.add, "subtract": a.subtract, "multiply": a.multiply, "divide": a.divide, "floor_divide": a.floor_divide,
    "remainder": a.remainder, "power": a.power, "maximum": a.larger, "minimum": a.smaller, "fmax": a.larger_number,
    "fmin": a.smaller_number, "arctan2": inverse_trigonometric.arctan2, "hypot": powers.hypot, "logaddexp": sigmoid.logaddexp,
    "strong_multiply": a.strong_multiply, "strong_divide": a.strong_divide, "strong_product": a.strong_product,
    "equal": a.equal, "not_equal": a.not_equal, "less": a.less, "less_equal": a.less_equal, "greater": a.greater,
    "greater_equal": a.greater_equal, "logical_and": a.logical_and, "logical_or": a.logical_or, "logical_xor": a.logical_xor,
    "bitwise_and": a.bitwise_and, "bitwise_or": a.bitwise_or, "bitwise_xor": a.bitwise_xor,
    "left_shift": a.left_shift, "right_shift": a.right_shift, "philox": philox,
    # one step of a reduction, whose steps may be taken in any order
    "sum_step": language.add_in_any_order, "product_step": language.multiply_in_any_order,
    "maximum_step": a.larger, "minimum_step": a.smaller,
}
