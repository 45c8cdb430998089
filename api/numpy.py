"""NumPy's functions by NumPy's names, for traced arrays and plain ones, and functions that make new arrays.

Inside of a compiled function plain `numpy` works as well. `import adjit.numpy as np` takes its place: outside of compiled functions plain
arrays are NumPy's, and what has no rule (types, constants, `np.load`) is what NumPy has under the name. Only `np.random` is missing.

    >>> import numpy as np
    >>> from adjit import numpy as anp
    >>> float(anp.sum(np.arange(3.0)))
    3.0

`logsumexp`, `softmax`, `log_softmax`, `erf` and `sigmoid` are here too, although NumPy lacks them; the first three as in SciPy, over all
elements unless `axis` is given.
"""

from __future__ import annotations

import sys as _sys
from dis import opname as _opname
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


_RANDOM = ("np.random draws from a hidden state, which a compiled function does not have: adjit.random.normal(key, shape), or draw outside "
           "and pass the numbers")


_OF_UFUNCS = ("reduce", "accumulate", "reduceat", "outer", "at", "nin", "nout", "nargs", "ntypes", "types", "identity", "signature")


def __getattr__(name: str) -> Any:
    """Return NumPy's function of this name if it has a rule, else what NumPy has under this name. Raises `AttributeError` for names that
    NumPy does not have, and for `random`."""
    if name == "fft":
        return import_module("adjit.fft")
    if name == "random":
        code, place = (caller := _sys._getframe(1)).f_code.co_code, caller.f_lasti
        if place >= 0 and _opname[code[place]] == "IMPORT_FROM":     # it does not show what an AttributeError says
            raise ImportError(f"cannot import name 'random' from 'adjit.numpy': {_RANDOM}", name="adjit.numpy")
        raise AttributeError(f"module 'adjit.numpy' has no attribute 'random': {_RANDOM}")
    function = _FUNCTIONS.get(name)
    if function is not None:
        numpys = getattr(_np, name)
        if isinstance(numpys, _np.ufunc):       # the methods of NumPy's ask their arguments
            vars(function).update({part: getattr(numpys, part) for part in _OF_UFUNCS})
        return import_module("adjit.numpy_signatures").describe(function, numpys)
    if name.startswith("_") or not hasattr(_np, name):
        reason = "" if name.startswith("_") else f": there is no numpy.{name}{_nearest(name, __dir__())}"
        raise AttributeError(f"module 'adjit.numpy' has no attribute {name!r}{reason}", name=name, obj=None)
    return getattr(_np, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS})


__all__ = [
    "arange", "array", "asarray", "bool_", "dtype", "e", "empty", "erf", "euler_gamma", "eye", "float32", "float64", "full",
    "identity", "inf", "int16", "int32", "int64", "int8", "linalg", "log_softmax",
    "logsumexp", "nan", "ndarray", "newaxis", "ones", "pi", "sigmoid",
    "softmax", "tri", "uint16", "uint32", "uint64", "uint8", "zeros",
]
