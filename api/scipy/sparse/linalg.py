"""Solutions of systems with sparse matrices of plain numbers: SciPy's, called by the program."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.runtime.compiled import compile
from adjit.runtime.pure_callback import pure_callback
from adjit.scipy.mirror import scipys
from adjit.tracer.array import as_traced

__all__ = ["spsolve"]


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Solution x of `A x = b` by `scipy.sparse.linalg.spsolve`, for a sparse array A [n, n] and a traced b [n] or [n, k].

    SciPy factorises the array whenever the program comes to this place; derivatives go to `b`, to any order in reverse mode.
    """
    linalg, b = scipys("sparse.linalg"), as_traced(b)

    def solve(b: np.ndarray) -> Any:
        return np.reshape(linalg.spsolve(A, b, permc_spec, use_umfpack), b.shape)

    return pure_callback(solve, (b.shape, np.result_type(b.dtype, A.dtype)), b,
                         vjp=compile(lambda ct, x, b: spsolve(A.T.conj().tocsc(), ct, permc_spec, use_umfpack)))
