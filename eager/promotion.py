"""PyTorch's promotion where it differs from NumPy's: integers beside floats, and integers in functions of floats, count as float32."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import unwrap
from typing import Any

import numpy as np

from adjit.eager.functional import elementwise, reductions
from adjit.eager.tensor import DEFAULT_FLOAT, Tensor
from adjit.ir.types import C128, F64, is_half, is_inexact
from adjit.tracer.array import TracedArray
from adjit.tracer.functions import composites
from adjit.tracer.registry import FUNCTIONS

Function = Callable[..., Any]


def _takes_floats(ufunc: np.ufunc) -> bool:
    """True if NumPy computes this function of integers in floats."""
    try:
        return ufunc.resolve_dtypes((np.dtype(np.int64),) * ufunc.nin + (None,) * ufunc.nout)[0].kind == "f"
    except TypeError:
        return False


_UFUNCS = {unwrap(ours): ufunc for ufunc, ours in FUNCTIONS.items() if isinstance(ufunc, np.ufunc) and ufunc is not np.float_power}
_SPECIAL = frozenset(unwrap(ours) for name, ours in FUNCTIONS.items() if isinstance(name, tuple))

OF_FLOATS: frozenset[Function] = _SPECIAL | {ours for ours, ufunc in _UFUNCS.items() if _takes_floats(ufunc)} | {
    elementwise.rsqrt, reductions.logsumexp,
    *map(unwrap, (FUNCTIONS[np.reciprocal], composites.sigmoid, composites.erf, composites.logsumexp))}
"""Functions whose results are floats for operands of any dtype."""

_EXACT = ("logical", "equal", "not_equal", "less", "greater", "bitwise", "left", "right")
_TWO = {ours for ours, ufunc in _UFUNCS.items() if ufunc.nin == 2 and not ufunc.__name__.startswith(_EXACT)}
OF_SEVERAL: frozenset[Function] = frozenset(_TWO) | {
    elementwise.add, elementwise.subtract, elementwise.divide, elementwise.clamp, elementwise.clamp_min, elementwise.clamp_max,
    elementwise.lerp, elementwise.addcmul, elementwise.addcdiv, elementwise.where, *map(unwrap, (FUNCTIONS[np.where], FUNCTIONS[np.clip]))}
"""Functions whose operands are converted to one dtype. Comparisons are exact in NumPy's dtypes."""

PROMOTING = OF_FLOATS | OF_SEVERAL
_CONDITION = {elementwise.where: 1, unwrap(FUNCTIONS[np.where]): 0}


def needs_floats(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if integer operands of a function of `PROMOTING` count as float32: with floats that are not float64, or in a function of floats.
    """
    integers = False
    floats = function in OF_FLOATS or (function is elementwise.divide and "rounding_mode" not in kwargs and len(args) < 3)
    if "dtype" in kwargs or "out" in kwargs:
        return False
    for position, arg in enumerate((*args, *kwargs.values())):
        if isinstance(arg, (Tensor, TracedArray, np.ndarray, np.generic)) and not (isinstance(arg, TracedArray) and arg.weak):
            if is_inexact(arg.dtype):
                if arg.dtype in (F64, C128):
                    return False
                floats = True
            elif _CONDITION.get(function) != position:
                integers = True
        elif isinstance(arg, (float, complex, TracedArray)):
            floats = True
    return integers and floats


def with_floats(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], convert: Function) -> tuple[Any, Any]:
    """Convert the integer operands among the arguments to float32, or to float16 or bfloat16 if that is the dtype of all floats."""
    condition = _CONDITION.get(function)
    floats = {arg.dtype for arg in (*args, *kwargs.values()) if _is_array(arg) and is_inexact(arg.dtype)
              and not (isinstance(arg, TracedArray) and arg.weak)}
    target = floats.pop() if len(floats) == 1 and all(map(is_half, floats)) else DEFAULT_FLOAT
    new = [convert(elementwise.to_dtype, (arg, target)) if position != condition and _is_integer(arg) else arg
           for position, arg in enumerate(args)]
    return tuple(new), {name: convert(elementwise.to_dtype, (arg, target)) if name != "condition" and _is_integer(arg) else arg
                        for name, arg in kwargs.items()}


def _is_integer(arg: Any) -> bool:
    return _is_array(arg) and not is_inexact(arg.dtype)


def _is_array(arg: Any) -> bool:
    return isinstance(arg, (Tensor, TracedArray, np.ndarray, np.generic))
