"""Bootstrap fits for workers of joblib, Dask and Ray, which import this module."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

import adjit as aj
from adjit.runtime.settings import THREADS

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(300, 5))
Y = (X @ np.arange(5.0) + RANDOM.normal(size=300) > 0).astype(float)


@aj.compile
def objective(w: Any, rows: Any) -> Any:
    def loss(w: Any) -> Any:
        z = aj.numpy.take(X, rows, axis=0) @ w
        return np.mean(np.logaddexp(0.0, z) - aj.numpy.take(Y, rows) * z) + 1e-3 * np.sum(w * w)

    return aj.value_and_grad(loss)(w)


def fit(seed: int) -> np.ndarray:
    """Parameters after some steps of descent on resampled rows."""
    rows, w = np.random.default_rng(seed).integers(0, len(Y), len(Y)), np.zeros(5)
    for _ in range(50):
        w = w - 0.5 * objective(w, rows)[1]
    return w


def fit_and_tell(seed: int) -> tuple[np.ndarray, int, bool, int, str]:
    """The fit, the process, whether that compiled the program or found it on disk, its threads, and `OMP_NUM_THREADS` there."""
    w = fit(seed)
    return w, os.getpid(), "compiled: " in objective.explain(), THREADS.get(), os.environ.get("OMP_NUM_THREADS", "")
