"""What the Python functions of `numpy_source` call beside NumPy, and which op is which NumPy function."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir.types import Shape

REDUCTIONS: dict[str, np.ufunc] = {
    "reduce_sum": np.add, "reduce_prod": np.multiply, "reduce_max": np.maximum, "reduce_min": np.minimum,
    "reduce_and": np.logical_and, "reduce_or": np.logical_or,
}

PLAIN_OF_STRONG: dict[str, np.ufunc] = {
    "strong_multiply": np.multiply, "strong_product": np.multiply, "strong_divide": np.divide}
"""The function that gives the same, up to the sign of zero, wherever its result is finite."""

EXPRESSIONS: dict[str, str] = {
    "select": "where({0}, {1}, {2})",
    "relu": "maximum({0}, 0)",
    "sigmoid": "reciprocal(1 + exp(negative({0})))",
}
"""Elementwise ops that are several NumPy functions, or one that is no ufunc. The operands may be of any shapes that broadcast."""

OPERATORS: dict[str, str] = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/"}
"""NumPy computes these on its scalars ten times as fast as on arrays without dimensions."""

ROUNDED_ONE_WAY = frozenset({
    "add", "subtract", "multiply", "divide", "negative", "abs", "sign", "square", "sqrt", "floor", "ceil", "trunc", "rint", "maximum",
    "minimum", "fmax", "fmin", "select", "convert", "relu", "strong_multiply", "strong_product", "strong_divide", "equal", "not_equal",
    "less", "less_equal", "greater", "greater_equal", "isnan", "isinf", "isfinite", "logical_not", "logical_and", "logical_or",
    "logical_xor", "invert", "bitwise_and", "bitwise_or", "bitwise_xor"})
"""Elementwise ops that give the same bits for one element as for many: what is repeated may be computed once."""

MAKES_ARRAYS = frozenset({
    "power", "erf", "philox", "pad", "update_slice", "concatenate", "take", "take_along_axis", "scatter_add", "scatter_set",
    "scatter_add_along_axis", "cumsum", "cumprod", "argsort", "argmax", "argmin"})
"""Ops that are no ufunc and yet give arrays that share no memory with their operands."""


def filled(value: Any, shape: Shape, dtype: np.dtype) -> np.ndarray:
    """`value` repeated to a new array. `np.full` and `np.broadcast_to` do the same several times as slowly."""
    array = np.empty(shape, dtype)
    array[...] = value
    return array


FUNCTIONS: dict[str, Any] = {
    "where": np.where, "maximum": np.maximum, "reciprocal": np.reciprocal, "exp": np.exp, "negative": np.negative, "dot": np.dot,
    "matmul": np.matmul, "vdot": np.vdot, "is_finite": math.isfinite, "asarray": np.asarray, "broadcast_to": np.broadcast_to,
    "filled": filled, "zeros": np.zeros, "concatenate": np.concatenate, "float32": np.float32, "float64": np.float64,
}
"""What a text may name; ufuncs and their reductions are added under the names of their ops."""
