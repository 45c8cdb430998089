"""`numpy.lib.scimath`: functions that have complex results where real ones do not exist. Which it is depends on values and is a decision of
the trace, as in an `if`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.dispatch import implements
from adjit.tracer.registry import FUNCTIONS

Check = Callable[[TracedArray], Any]


def _below_zero(x: TracedArray) -> Any:
    return FUNCTIONS[np.less](x, 0)


def _beyond_one(x: TracedArray) -> Any:
    return FUNCTIONS[np.greater](FUNCTIONS[np.absolute](x), 1)


def _domain(x: Any, outside: Check) -> TracedArray:
    """Convert to complex numbers if an element is outside of the domain of the real function."""
    array = as_traced(x)
    if array.dtype.kind == "c" or not FUNCTIONS[np.any](outside(array)):
        return array
    return FUNCTIONS["astype"](array, np.complex64 if array.dtype == np.float32 else np.complex128)     # type: ignore[no-any-return]


def _unary(ufunc: np.ufunc, outside: Check) -> None:
    def function(x: Any) -> Any:
        return FUNCTIONS[ufunc](_domain(x, outside))

    name = ufunc.__name__
    function.__name__, function.__doc__ = name, f"Equivalent of `numpy.lib.scimath.{name}`."
    implements(getattr(np.lib.scimath, name))(function)


_ufunc: np.ufunc
for _ufunc in (np.sqrt, np.log, np.log2, np.log10):
    _unary(_ufunc, _below_zero)
for _ufunc in (np.arccos, np.arcsin, np.arctanh):
    _unary(_ufunc, _beyond_one)


@implements(np.lib.scimath.logn)
def logn(n: Any, x: Any) -> Any:
    """Equivalent of `numpy.lib.scimath.logn`."""
    return FUNCTIONS[np.log](_domain(x, _below_zero)) / FUNCTIONS[np.log](_domain(n, _below_zero))


@implements(np.lib.scimath.power)
def power(x: Any, p: Any) -> Any:
    """Equivalent of `numpy.lib.scimath.power`."""
    base, exponent = _domain(x, _below_zero), p
    if isinstance(p, TracedArray) or np.ndim(p):
        exponent = as_traced(p)
        if exponent.dtype.kind in "iu" and FUNCTIONS[np.any](_below_zero(exponent)):
            exponent = FUNCTIONS["astype"](exponent, np.float64)
    elif isinstance(p, (int, np.integer)) and p < 0:
        exponent = float(p)
    return FUNCTIONS[np.power](base, exponent)
