"""Factorisations that fail: an error for eager tensors; for programs, with `ADJIT_DEBUG=1`, a warning with the line, the matrix of the
stack, and LAPACK's code."""

from __future__ import annotations

import warnings
from importlib import import_module
from typing import Any

import numpy as np

from adjit.eager.device import host_content
from adjit.ir.errors import AdjitError, Location
from adjit.ir.types import real_dtype
from adjit.runtime.pure_callback import pure_callback
from adjit.runtime.settings import DEBUG
from adjit.runtime.transforms import stop_gradient
from adjit.tracer.user_location import find_user_location

MEANINGS = {"potrf": "its leading minor of {} rows is not positive, and the factor NaN",
            "getrf": "the pivot of row {} is 0, and what is solved with it NaN or infinite"}
"""What a positive code of a routine says, which is a number of rows."""


class LinAlgError(AdjitError, np.linalg.LinAlgError, RuntimeError):
    """A matrix that cannot be factored; raised for tensors outside of compiled functions.

    >>> import adjit as aj
    >>> aj.linalg.inv(aj.zeros(2, 2))       # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    adjit.linalg.LinAlgError: linalg.inv: The inversion could not be completed because the input matrix is singular
    """


WORDS: dict[Any, str] = {
    np.linalg.inv: "linalg.inv: {}The inversion could not be completed because the input matrix is singular",
    np.linalg.solve: "linalg.solve: {}The solver failed because the input matrix is singular",
    np.linalg.cholesky: "linalg.cholesky: {}The factorization could not be completed because the input is not positive-definite{}"}
"""What is said where NumPy's function raises an error."""


def check_factored(function: Any, matrices: np.ndarray, result: np.ndarray, upper: bool = False) -> None:
    """Raise `LinAlgError` if a result is not finite because NumPy's `function` cannot factor one of the matrices that it was made of."""
    result, matrices = host_content(result), host_content(matrices)
    if np.isfinite(result).all():
        return
    for index in np.ndindex(matrices.shape[:-2]):
        matrix = np.asarray(matrices[index], np.result_type(matrices.dtype, np.float32))
        if np.isfinite(matrix).all() and not _factors(function, matrix.swapaxes(0, 1) if upper else matrix):
            place = f"(Batch element {index[0] if len(index) == 1 else index}): " if index else ""
            order = next((k for k in range(1, len(matrix)) if not _factors(function, matrix[:k, :k])), len(matrix))
            minor = f" (the leading minor of order {order} is not positive-definite)" if function is np.linalg.cholesky else ""
            raise LinAlgError(WORDS[function].format(place, minor), find_user_location())


def _factors(function: Any, matrix: np.ndarray) -> bool:
    try:
        function(matrix) if function is not np.linalg.solve else np.linalg.inv(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


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
