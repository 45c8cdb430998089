"""NumPy's functions by NumPy's names, for traced arrays and plain ones, and functions that make new arrays.

Inside of a compiled function plain `numpy` works as well, on arrays that are traced. Functions of this module also make arrays that are
traced from the start, so that they can be filled with traced values:

    >>> import numpy as np
    >>> from adjit import numpy as anp
    >>> float(anp.sum(np.arange(3.0)))
    3.0

`logsumexp`, `softmax`, `log_softmax`, `erf` and `sigmoid` are here too, although NumPy lacks them; the first three as in SciPy, over all
elements unless `axis` is given.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as _np
from numpy import (
    bool_,
    dtype,
    e,
    euler_gamma,
    float32,
    float64,
    inf,
    int8,
    int16,
    int32,
    int64,
    nan,
    newaxis,
    pi,
    uint8,
    uint16,
    uint32,
    uint64,
)

from adjit import linalg
from adjit.ir.spelling import nearest as _nearest
from adjit.tracer.functions.composites import erf, log_softmax, logsumexp, sigmoid, softmax
from adjit.tracer.functions.creation import arange, array, asarray, empty, eye, full, identity, ones, tri, zeros
from adjit.tracer.registry import numpy_namespace

ndarray = _np.ndarray
_FUNCTIONS = numpy_namespace()


def __getattr__(name: str) -> Any:
    """Return NumPy's function of this name if it has a rule; raises `AttributeError` for others, and for names that NumPy does not have."""
    if name == "fft":
        return import_module("adjit.fft")
    try:
        function = _FUNCTIONS[name]
    except KeyError:
        if name.startswith("_"):
            reason = ""
        elif hasattr(_np, name):
            reason = f": numpy.{name} has no rule"
        else:
            reason = f": there is no numpy.{name}{_nearest(name, __dir__())}"
        raise AttributeError(f"module 'adjit.numpy' has no attribute {name!r}{reason}") from None
    return import_module("adjit.numpy_signatures").describe(function, getattr(_np, name))


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS})


__all__ = [
    "arange", "array", "asarray", "bool_", "dtype", "e", "empty", "erf", "euler_gamma", "eye", "float32", "float64", "full",
    "identity", "inf", "int16", "int32", "int64", "int8", "linalg", "log_softmax",
    "logsumexp", "nan", "ndarray", "newaxis", "ones", "pi", "sigmoid",
    "softmax", "tri", "uint16", "uint32", "uint64", "uint8", "zeros",
]
