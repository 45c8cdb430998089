"""PyTorch's promotion where it differs from NumPy's: integers beside floats, and in functions of floats, count as float32; arrays without
dimensions, and numbers, keep the dtype of arrays of their kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import unwrap
from typing import Any

import numpy as np

from adjit.eager.functional import elementwise, matmul, order_statistics, reductions
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor
from adjit.ir.types import C64, F32, F64, I64, is_half, is_inexact
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
    *map(unwrap, (FUNCTIONS[np.reciprocal], FUNCTIONS[np.angle], FUNCTIONS[np.sinc])),
    *map(unwrap, (composites.sigmoid, composites.erf, composites.logsumexp)),
    elementwise.sigmoid, elementwise.xlogy, elementwise.logit, elementwise.ldexp, elementwise.polygamma, elementwise.mvlgamma,
    order_statistics.cov, order_statistics.corrcoef}
"""Functions whose results are floats for operands of any dtype."""

_COMPARISONS = {np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal}
_EXACT = {*_COMPARISONS, np.logical_and, np.logical_or, np.logical_xor, np.left_shift, np.right_shift}
_TWO = {ours for ours, ufunc in _UFUNCS.items() if ufunc.nin == 2 and ufunc not in _EXACT}
OF_SEVERAL: frozenset[Function] = frozenset(_TWO) | {
    elementwise.add, elementwise.subtract, elementwise.divide, elementwise.clamp, elementwise.clamp_min, elementwise.clamp_max,
    elementwise.lerp, elementwise.addcmul, elementwise.addcdiv, elementwise.where, elementwise.heaviside,
    matmul.outer, *map(unwrap, (FUNCTIONS[np.where], FUNCTIONS[np.clip]))}
"""Functions whose operands are converted to one dtype. Comparisons are exact in NumPy's dtypes."""

COMPARING: frozenset[Function] = frozenset(ours for ours, ufunc in _UFUNCS.items() if ufunc in _COMPARISONS)
"""Functions of two operands that are exact in NumPy's dtypes, but for floats beside a number: that is converted to their dtype."""

PROMOTING = (OF_FLOATS | OF_SEVERAL | COMPARING) - {unwrap(FUNCTIONS[np.ldexp])}
_CONDITION = {elementwise.where: 1, unwrap(FUNCTIONS[np.where]): 0}
_BESIDE = frozenset({elementwise.where, unwrap(FUNCTIONS[np.where])})
_ARRAYS = (Tensor, TracedArray, np.ndarray, np.generic)


def promotes(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """True if operands of a function of `PROMOTING` are converted first: they have several dtypes, or are integers that count as floats."""
    first: Any = None
    several = floats = False
    for arg in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(arg, _ARRAYS):
            dtype = arg.array.dtype if isinstance(arg, Tensor) else arg.dtype
            if first is None:
                first = dtype
            elif dtype != first:
                several = True
        elif isinstance(arg, (float, complex)):
            floats = True
    if several:
        return True
    return (first is None or not is_inexact(first)) and (floats or function in OF_FLOATS or function is elementwise.divide)


def promoted(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], convert: Function) -> tuple[Any, Any]:
    """Convert operands to the dtype of the result, by PyTorch's rule: arrays without dimensions count where their kind (integer, float,
    complex) is above that of arrays with dimensions, numbers where theirs is above both; a number that decides is float32.

    Python's numbers stay weak; NumPy's count as such, and become Python's.
    """
    if "dtype" in kwargs or "out" in kwargs:
        return args, kwargs
    condition = _CONDITION.get(function)
    operands = [arg for position, arg in enumerate(args) if position != condition] + [
        arg for name, arg in kwargs.items() if name != "condition"]
    target = result_dtype(operands)
    floats = function in OF_FLOATS or (function is elementwise.divide and "rounding_mode" not in kwargs and len(args) < 3)
    if floats and target is not None and not is_inexact(target):
        target = modes.default_float
    if target is None or (function in COMPARING and not all(is_inexact(arg.dtype) for arg in operands if isinstance(arg, _ARRAYS))):
        return args, kwargs

    def converted(arg: Any) -> Any:
        if isinstance(arg, np.generic):
            return arg.item() if not is_half(target) or arg.dtype.kind != "V" else arg
        if not _is_array(arg):
            return np.asarray(arg, target) if function in _BESIDE and isinstance(arg, (float, complex)) else arg
        return arg if arg.dtype == target else convert(elementwise.to_dtype, (arg, target))

    return (tuple(arg if position == condition else converted(arg) for position, arg in enumerate(args)),
            {name: arg if name == "condition" else converted(arg) for name, arg in kwargs.items()})


def result_dtype(operands: Sequence[Any]) -> np.dtype | None:
    """Dtype of the result of an operation on these operands, by PyTorch's rule; None if there is neither an array nor a float."""
    with_dimensions: list[np.dtype] = []
    without: list[np.dtype] = []
    numbers: list[np.dtype] = []
    for operand in operands:
        if isinstance(operand, np.generic) or (isinstance(operand, TracedArray) and operand.weak) or type(operand) in _NUMBERS:
            kind = np.dtype(type(operand)).kind if type(operand) in _NUMBERS else operand.dtype.kind
            numbers.append({"b": _BOOL, "i": I64, "u": I64, "c": C64}.get(kind, modes.default_float))
        elif _is_array(operand):
            (with_dimensions if operand.shape else without).append(operand.dtype)
    found: np.dtype | None = None
    for dtypes in (with_dimensions, without, numbers):
        here = _common(dtypes)
        if here is not None and (found is None or _kind(here) > _kind(found)):
            found = _raised(found, here)
    return found


_NUMBERS = (bool, int, float, complex)
_BOOL = np.dtype(np.bool_)


def _kind(dtype: np.dtype) -> int:
    return {"b": 0, "u": 1, "i": 1, "c": 3}.get(dtype.kind, 2)


def _raised(found: np.dtype | None, here: np.dtype) -> np.dtype:
    """The dtype of a higher kind: complex numbers keep the precision of floats."""
    return np.dtype(np.complex128) if here.kind == "c" and found is not None and found == F64 else here


def _common(dtypes: Sequence[np.dtype]) -> np.dtype | None:
    """Dtype to which these are converted together: of the highest kind, and of several of them the wider one."""
    found: np.dtype | None = None
    for dtype in dtypes:
        if found is None:
            found = dtype
        elif found != dtype:
            if is_inexact(found) and is_inexact(dtype):
                found = F32 if is_half(found) and is_half(dtype) else np.promote_types(found, dtype)
            elif is_inexact(found) or is_inexact(dtype):
                found = found if is_inexact(found) else dtype
            else:
                found = np.promote_types(found, dtype)
    return found


def _is_array(arg: Any) -> bool:
    return isinstance(arg, (Tensor, np.ndarray)) or (isinstance(arg, TracedArray) and not arg.weak)
