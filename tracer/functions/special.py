"""The ufuncs of scipy.special that are made of few ops. SciPy itself is not needed: they are known by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.graph import Value
from adjit.ir.types import F64
from adjit.tracer.functions.ufuncs import Lower, elementwise
from adjit.tracer.promotion import is_weak
from adjit.tracer.registry import FUNCTIONS


def _logit(x: Value) -> Value:
    return ops.subtract(ops.log(x), ops.log1p(ops.negative(x)))


def _log_expit(x: Value) -> Value:
    return ops.negative(ops.logaddexp(ops.full_like(x, 0.0), ops.negative(x)))


def _xlogy(x: Value, y: Value) -> Value:
    """0 where x is 0, also at y = 0; the logarithm is not taken there, so that its derivative stays finite."""
    zero, one = ops.full_like(x, 0.0), ops.full_like(x, 1.0)
    nothing = ops.logical_and(ops.equal(x, zero), ops.logical_not(ops.isnan(y)))
    return ops.select(nothing, zero, ops.multiply(x, ops.log(ops.select(nothing, one, y))))


def _xlog1py(x: Value, y: Value) -> Value:
    zero = ops.full_like(x, 0.0)
    nothing = ops.logical_and(ops.equal(x, zero), ops.logical_not(ops.isnan(y)))
    return ops.select(nothing, zero, ops.multiply(x, ops.log1p(ops.select(nothing, zero, y))))


def _without_weak_numbers(name: str) -> None:
    """For SciPy's functions of two arguments a Python number is a float64, not a weak one."""
    plain = FUNCTIONS["scipy.special", name]

    def call(*inputs: Any, **kwargs: Any) -> Any:
        return plain(*(FUNCTIONS["astype"](x, F64) if is_weak(x) else x for x in inputs), **kwargs)

    FUNCTIONS["scipy.special", name] = call


_UNARY: dict[str, Lower] = {"erf": ops.erf, "expit": ops.sigmoid, "logit": _logit, "log_expit": _log_expit}
for _name, _lower in _UNARY.items():
    elementwise(np.cbrt, _lower, scipy_name=_name)
for _name, _lower in {"xlogy": _xlogy, "xlog1py": _xlog1py}.items():
    elementwise(np.hypot, _lower, scipy_name=_name)
    _without_weak_numbers(_name)
