"""Functions of `math` while a function is traced: of traced scalars they are NumPy's functions, in double precision, with Python's results.

NumPy and `math` differ where a function is not defined: `math.sqrt(-1.0)` raises ValueError, `np.sqrt(-1.0)` is NaN. A compiled function
gets NaN and inf as from NumPy, unless its code catches the exception (`caught_errors`).
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, UnsupportedError
from adjit.ir.row_number import OF_ONE_FLOAT
from adjit.ir.types import BOOL, F64, I64, dtype_kind, is_float
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.flow.lifted_list import LiftedList
from adjit.tracer.fresh_array import has_traced, opened
from adjit.tracer.interception import Interception
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.row_count import of_rows
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]

_UFUNCS = {name: getattr(np, other) for names, other in (
    ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("asin", "arcsin"), ("acos", "arccos"), ("atan", "arctan"), ("atan2", "arctan2"),
    ("sinh", "sinh"), ("cosh", "cosh"), ("tanh", "tanh"), ("asinh", "arcsinh"), ("acosh", "arccosh"), ("atanh", "arctanh"),
    ("exp", "exp"), ("exp2", "exp2"), ("expm1", "expm1"), ("log1p", "log1p"), ("log2", "log2"), ("log10", "log10"), ("sqrt", "sqrt"),
    ("cbrt", "cbrt"), ("fabs", "fabs"), ("pow", "power"), ("fmod", "fmod"), ("copysign", "copysign"), ("nextafter", "nextafter"),
    ("degrees", "degrees"), ("radians", "radians"), ("isnan", "isnan"), ("isinf", "isinf"), ("isfinite", "isfinite"))
    for name in names.split()}
_SPECIAL = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}
_INTEGERS = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


def _double(x: Any) -> TracedArray:
    """Convert an argument as C does: a number, or an array of one element."""
    x = as_traced(x)
    if x.size != 1:
        raise DTypeError("only length-1 arrays can be converted to Python scalars", find_user_location(),
                         hint="the function of numpy with this name takes arrays")
    number: TracedArray = FUNCTIONS["astype"](FUNCTIONS[np.reshape](x, ()), F64)
    return number


def _python_number(x: TracedArray) -> TracedArray:
    return wrap(x.value, weak=x.dtype in (F64, BOOL))


def _apply(function: Any, *args: Any) -> TracedArray:
    return _python_number(find(function)(*map(_double, args)))


def _special(name: str) -> Function:
    def call(x: Any) -> TracedArray:
        return _python_number(FUNCTIONS["scipy.special", name](_double(x)))
    return call


def _whole(function: Any, own: Function) -> Function:
    def call(x: Any) -> Any:
        x = as_traced(x)
        return x if x.dtype.kind in "iu" else FUNCTIONS["as integer"](find(function)(_double(x)), own)
    return call


def _log(x: Any, base: Any = None) -> TracedArray:
    return _apply(np.log, x) if base is None else _python_number(_apply(np.log, x) / _apply(np.log, base))


def _hypot(*coordinates: Any) -> TracedArray:
    if len(coordinates) == 2:
        return _apply(np.hypot, *coordinates)
    numbers = [_double(x) for x in coordinates]
    return _python_number(find(np.sqrt)(_sum([number * number for number in numbers])))


def _sum(numbers: Sequence[Any]) -> TracedArray:
    total = _double(0.0)
    for number in numbers:
        total = total + number
    return total


def _dist(p: Any, q: Any) -> TracedArray:
    return _hypot(*(_double(a) - _double(b) for a, b in zip(p, q, strict=True)))


def _fsum(seq: Any) -> TracedArray:
    return _python_number(_sum([_double(x) for x in seq]))


def _prod(iterable: Any, /, *, start: Any = 1) -> Any:
    for x in iterable:
        start = start * x
    return start


def _sumprod(p: Any, q: Any, /) -> Any:
    total: Any = 0
    for a, b in zip(p, q, strict=True):
        total = total + a * b
    return total


def _isclose(a: Any, b: Any, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> TracedArray:
    x, y = _double(a), _double(b)
    size = find(np.maximum)(find(np.absolute)(x), find(np.absolute)(y))
    close = find(np.absolute)(x - y) <= find(np.maximum)(rel_tol * size, abs_tol)
    return _python_number((find(np.isfinite)(x) & find(np.isfinite)(y) & close) | (x == y))


def _modf(x: Any) -> tuple[TracedArray, TracedArray]:
    number = _double(x)
    whole = find(np.trunc)(number)
    part = find(np.where)(find(np.isinf)(number), 0.0, number - whole)
    return _python_number(find(np.copysign)(part, number)), _python_number(whole)


def _ldexp(x: Any, i: Any) -> TracedArray:
    exponent = as_traced(i)
    if exponent.dtype.kind not in "biu":
        raise TypeError("Expected an int as second argument to ldexp.")
    return _python_number(find(np.ldexp)(_double(x), FUNCTIONS["astype"](exponent, I64)))


def _frexp(x: Any) -> tuple[TracedArray, TracedArray]:
    mantissa, exponent = find(np.frexp)(_double(x))
    return _python_number(mantissa), wrap(FUNCTIONS["astype"](exponent, I64).value, weak=True)


def _ulp(x: Any) -> TracedArray:
    """The distance to the next float, of the absolute value."""
    magnitude = find(np.absolute)(_double(x))
    return _python_number(find(np.where)(find(np.isinf)(magnitude), magnitude, find(np.spacing)(magnitude))[()])


def _of_integers(function: Any) -> Function:
    """`math.gcd` or `math.lcm` of any number of integers."""
    def call(*integers: Any) -> TracedArray:
        result: Any = as_traced(0 if function is np.gcd else 1)
        for integer in map(as_traced, integers):
            if integer.dtype.kind not in "biu":
                raise TypeError("'float' object cannot be interpreted as an integer")
            result = find(function)(result, FUNCTIONS["astype"](integer, I64))
        return wrap(result.value, weak=True)
    return call


def _fma(x: Any, y: Any, z: Any, /) -> TracedArray:
    raise UnsupportedError("math.fma, which rounds once, has no rule for traced numbers", find_user_location(), "x * y + z rounds twice")


_TOTAL = frozenset({"isnan", "isinf", "isfinite", "isclose", "modf", "fabs", "copysign", "dist", "fsum", "prod", "sumprod", "fma", "frexp",
                    "ulp", "gcd", "lcm", "floor", "ceil", "trunc"})
"""Functions that raise nothing for numbers, take sequences, or raise by themselves."""

_RULES: dict[str, Function] = {
    **{name: (lambda *args, ufunc=ufunc: _apply(ufunc, *args)) for name, ufunc in _UFUNCS.items()},
    **{name: _special(other) for name, other in _SPECIAL.items()},
    **{name: _whole(function, getattr(math, name)) for name, function in _INTEGERS.items()},
    "log": _log, "hypot": _hypot, "dist": _dist, "fsum": _fsum, "prod": _prod, "sumprod": _sumprod, "isclose": _isclose, "modf": _modf,
    "ldexp": _ldexp, "frexp": _frexp, "ulp": _ulp, "gcd": _of_integers(np.gcd), "lcm": _of_integers(np.lcm), "fma": _fma}


def _extreme(is_better: Callable[[Any, Any], Any]) -> Callable[[Function], Function]:
    """Replacement of `max` or `min`: of scalars of one dtype the result is chosen in the program, as Python does by comparing them."""
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if kwargs or not is_tracing() or not has_traced(args):
                return own(*args, **kwargs)
            if len(args) == 1 and type(args[0]) is LiftedList:
                return args[0].extreme(is_better)
            items = opened(args if len(args) > 1 else args[0])
            if type(items) not in (list, tuple) or not _are_comparable(items):
                return own(*args)
            best = as_traced(items[0])
            for item in map(as_traced, items[1:]):
                better = is_better(item, best)
                made = find("chosen")(better, item, best)
                best = wrap(find(np.where)(better, item, best).value, weak=item.weak and best.weak) if made is NotImplemented else made
            return best
        return call
    return replacement


def _sum_of_list(own: Function) -> Function:
    """Replacement of `sum`: of a list whose length is not known it is computed in the program."""
    def call(*args: Any, **kwargs: Any) -> Any:
        if args and type(args[0]) is LiftedList and is_tracing():
            return args[0].sum(*args[1:] or (kwargs.get("start", 0),))
        return own(*args, **kwargs)
    return call


def _are_comparable(items: Sequence[Any]) -> bool:
    """True for scalars of one dtype, and numbers that Python would not promote it for."""
    traced = {item.dtype for item in items if issubclass(type(item), TracedArray)}
    if len(traced) != 1 or any(issubclass(type(item), TracedArray) and item.shape for item in items):
        return False
    (dtype,) = traced
    plain = [item for item in items if not issubclass(type(item), TracedArray)]
    return dtype_kind(dtype) in "iuf" and all(type(item) in (int, float)[:1 + (is_float(dtype))] or
                                       (issubclass(type(item), np.generic) and item.dtype == dtype) for item in plain)


def add_math(functions: Interception) -> None:
    """Replace the functions of `math` that have a rule, and `max`, `min` and `sum`. Others ask for the value of their argument."""
    functions.add(max, _extreme(operator.gt))
    functions.add(min, _extreme(operator.lt))
    functions.add(sum, _sum_of_list)
    for name, rule in _RULES.items():
        function = getattr(math, name, None)
        if function is not None:        # some are younger than Python 3.11
            replacement = _replacement(rule, name not in _TOTAL)
            functions.add(function, of_rows(name, replacement) if name in OF_ONE_FLOAT else replacement)


def _replacement(rule: Function, may_raise: bool) -> Callable[[Function], Function]:
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if is_tracing() and has_traced(args):
                given = opened(args)
                result = rule(*given, **kwargs)
                if may_raise and is_caught(ValueError, OverflowError):
                    _raise_as_python(own, given, result)
                return result
            return own(*args, **kwargs)
        return call
    return replacement


def _raise_as_python(own: Function, given: Sequence[Any], result: TracedArray) -> None:
    """Raise the exception of a function of `math` for the values of this call, if it has one: where NaN comes of numbers, or infinity of
    finite ones (`math_1` in CPython's Modules/mathmodule.c)."""
    numbers = [_double(x) for x in given]
    bad, infinite = find(np.isnan)(result), find(np.isinf)(result)
    for number in numbers:
        bad = bad & ~find(np.isnan)(number)
        infinite = infinite & find(np.isfinite)(number)
    if bool(bad | infinite):
        own(*(number.without_derivative().item() for number in numbers))
