"""Functions of `cmath`, and `complex()`, while a function is traced: of traced scalars they are NumPy's functions, in double precision.

Both follow the C standard at branch cuts, infinities and NaN. Where `cmath` raises an exception, a compiled function gets NaN and inf,
unless its code catches the exception (`caught_errors`).
"""

from __future__ import annotations

import cmath
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import DTypeError
from adjit.ir.types import C128, F64
from adjit.tracer.array import TracedArray, as_traced, known_value, wrap
from adjit.tracer.caught_errors import is_caught
from adjit.tracer.fresh_array import has_traced, opened
from adjit.tracer.interception import Interception
from adjit.tracer.registry import FUNCTIONS, find
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]

_UFUNCS = {name: getattr(np, other) for name, other in (
    ("exp", "exp"), ("sqrt", "sqrt"), ("log10", "log10"), ("sin", "sin"), ("cos", "cos"), ("tan", "tan"), ("asin", "arcsin"),
    ("acos", "arccos"), ("atan", "arctan"), ("sinh", "sinh"), ("cosh", "cosh"), ("tanh", "tanh"), ("asinh", "arcsinh"),
    ("acosh", "arccosh"), ("atanh", "arctanh"), ("isnan", "isnan"), ("isinf", "isinf"), ("isfinite", "isfinite"))}


def _number(x: Any, dtype: np.dtype = C128) -> TracedArray:
    """Convert an argument as C does: a number, or an array of one element."""
    x = as_traced(x)
    if x.size != 1:
        raise DTypeError("only length-1 arrays can be converted to Python scalars", find_user_location(),
                         hint="the function of numpy with this name takes arrays")
    if dtype == F64 and x.dtype.kind == "c":
        raise TypeError("must be real number, not complex")
    number: TracedArray = FUNCTIONS["astype"](FUNCTIONS[np.reshape](x, ()), dtype)
    return number


def _python(x: TracedArray) -> TracedArray:
    return wrap(x.value, weak=x.dtype in (F64, C128))


def _apply(ufunc: Any, z: Any) -> TracedArray:
    return _python(find(ufunc)(_number(z)))


def _log(z: Any, base: Any = None) -> TracedArray:
    return _apply(np.log, z) if base is None else _python(_apply(np.log, z) / _apply(np.log, base))


def _phase(z: Any) -> TracedArray:
    return _python(find(np.angle)(_number(z)))


def _polar(z: Any) -> tuple[TracedArray, TracedArray]:
    return _python(find(np.absolute)(_number(z))), _phase(z)


def _complex(real: Any = 0, imag: Any = 0) -> TracedArray:
    """`complex(real, imag)`, which is `real + 1j * imag` also where these are complex, but keeps the signs of zeros of real ones."""
    x, y = as_traced(real), as_traced(imag)
    a, b = _number(x), _number(y)
    first, second = ops.real(a.value), ops.real(b.value)
    if y.dtype.kind == "c":
        first = ops.subtract(first, ops.imag(b.value))
    if x.dtype.kind == "c":
        second = ops.add(second, ops.imag(a.value))
    return _python(wrap(ops.complex(first, second)))


def _rect(r: Any, phi: Any) -> TracedArray:
    radius, angle = _number(r, F64), _number(phi, F64)
    return _complex(radius * find(np.cos)(angle), radius * find(np.sin)(angle))


def _isclose(a: Any, b: Any, *, rel_tol: float = 1e-9, abs_tol: float = 0.0) -> TracedArray:
    x, y = _number(a), _number(b)
    size = find(np.maximum)(find(np.absolute)(x), find(np.absolute)(y))
    close = find(np.absolute)(x - y) <= find(np.maximum)(rel_tol * size, abs_tol)
    result: TracedArray = (find(np.isfinite)(x) & find(np.isfinite)(y) & close) | (x == y)
    return result


_TOTAL = frozenset({"isnan", "isinf", "isfinite", "isclose", "phase", "polar", "rect", "complex"})
"""Functions that raise nothing for finite numbers."""

_RULES: dict[str, Function] = {
    **{name: (lambda z, ufunc=ufunc: _apply(ufunc, z)) for name, ufunc in _UFUNCS.items()},
    "log": _log, "phase": _phase, "polar": _polar, "rect": _rect, "isclose": _isclose}


def _replacement(rule: Function, may_raise: bool) -> Callable[[Function], Function]:
    def replacement(own: Function) -> Function:
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_tracing() or not has_traced((args, kwargs)):
                return own(*args, **kwargs)
            given = opened(args)
            result = rule(*given, **opened(kwargs))
            if may_raise and is_caught(ValueError, OverflowError) and not known_value(find(np.isfinite)(result)):
                own(*(_number(x).without_derivative().item() for x in given))
            return result
        return call
    return replacement


def add_complex(functions: Interception) -> None:
    """Replace the functions of `cmath`, and `complex`."""
    functions.add(complex, _replacement(_complex, False))
    for name, rule in _RULES.items():
        functions.add(getattr(cmath, name), _replacement(rule, name not in _TOTAL))
