"""Words about factorisations that fail, for `ADJIT_DEBUG=1`: the line, the matrix of the stack, and LAPACK's code."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from adjit.ir.errors import Location
from adjit.ir.types import real_dtype
from adjit.runtime.pure_callback import pure_callback
from adjit.runtime.settings import DEBUG
from adjit.runtime.transforms import stop_gradient
from adjit.tracer.user_location import find_user_location

MEANINGS = {"potrf": "its leading minor of {} rows is not positive, and the factor NaN",
            "getrf": "the pivot of row {} is 0, and what is solved with it NaN or infinite"}
"""What a positive code of a routine says, which is a number of rows."""


class FactorizationWarning(RuntimeWarning):
    """Warning of a factor that does not exist."""


def watched(a: Any, routine: str) -> Any:
    """The matrices that a routine is about to factor. With `ADJIT_DEBUG=1` the program says for which of them it fails."""
    if not DEBUG.get():
        return a
    location = find_user_location()

    def report(a: np.ndarray) -> Any:
        _report(a, routine, location)
        return np.zeros((), real_dtype(a.dtype))

    return a + pure_callback(report, ((), real_dtype(a.dtype)), stop_gradient(a))


def _report(a: np.ndarray, routine: str, location: Location | None) -> None:
    factor = import_module("scipy.linalg").lapack.get_lapack_funcs(routine, (a,))
    for index in np.ndindex(a.shape[:-2]):
        info = factor(a[index], lower=1)[-1] if routine == "potrf" else factor(a[index])[-1]
        if info > 0:
            which = f"matrix {list(index)} of the stack" if index else "the matrix"
            place = "" if location is None else f" at {location}"
            warnings.warn(f"{which} cannot be factored{place}: {MEANINGS[routine].format(info)} (LAPACK's {factor.typecode}{routine}: "
                          f"info = {info})", FactorizationWarning, stacklevel=2)
