"""Second derivatives in a matrix, in each mode: those of a function of the symmetric part where one triangle is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj

scipy_linalg = pytest.importorskip("scipy.linalg")
K = np.array([[2.0, 0.5], [0.5, 1.0]])
Y = np.array([1.0, 2.0])
WEIGHTS = np.array([[0.3, -0.7], [1.1, 0.4]])

SYMMETRIC: dict[str, Callable[[Any], Any]] = {
    "cholesky": lambda k: 2 * np.log(np.diag(np.linalg.cholesky(k))).sum(),
    "cho_factor": lambda k: Y @ scipy_linalg.cho_solve(scipy_linalg.cho_factor(k), Y),
    "eigvalsh": lambda k: np.sin(np.linalg.eigvalsh(k)[0]),
    "eigh": lambda k: (np.linalg.eigh(k)[1]**2 @ np.array([1.0, 3.0])).sum(),
    "pos": lambda k: Y @ scipy_linalg.solve(k, Y[::-1], assume_a="pos"),
    "sym": lambda k: Y @ scipy_linalg.solve(k, Y[::-1], assume_a="sym"),
    "pinvh": lambda k: Y @ scipy_linalg.pinvh(k) @ Y}
GENERAL: dict[str, Callable[[Any], Any]] = {
    "slogdet": lambda k: np.linalg.slogdet(k)[1],
    "sqrtm": lambda k: (WEIGHTS * scipy_linalg.sqrtm(k)).sum(),
    "logm": lambda k: (WEIGHTS * scipy_linalg.logm(k)).sum(),
    "expm": lambda k: (WEIGHTS * scipy_linalg.expm(k)).sum()}


@pytest.mark.share(4)
@pytest.mark.parametrize("name", [*SYMMETRIC, *(pytest.param(name, marks=pytest.mark.slow) if name in ("logm", "expm") else name
                                                for name in GENERAL)])
def test_hessian_in_every_mode(name: str) -> None:
    function = (SYMMETRIC | GENERAL)[name]
    gradient = aj.compile(aj.grad(function))

    def at(k: np.ndarray) -> np.ndarray:
        return np.asarray(gradient((k + k.T) / 2 if name in SYMMETRIC else k)).ravel()

    step = 1e-5
    expected = np.array([(at(K + step * unit) - at(K - step * unit)) / (2 * step) for unit in np.eye(4).reshape(4, 2, 2)])
    for found in (aj.hessian(function), aj.jacobian(aj.grad(function)), aj.jacfwd(aj.jacfwd(function))):
        np.testing.assert_allclose(found(K).reshape(4, 4), expected, atol=1e-7)
