"""LU factors of large matrices by panels of columns, beside LAPACK's of the whole matrix."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.ir import ops
from adjit.linalg.panels import MIN_ROWS, has_panels, lu_by_panels
from adjit.tracer.array import wrap

pytest.importorskip("scipy.linalg")
RANDOM = np.random.default_rng(3)


@pytest.mark.parametrize("size", [MIN_ROWS, 257])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_factors_swaps_and_order_are_those_of_the_whole(size: int, dtype: type) -> None:
    a = RANDOM.normal(size=(size, size)).astype(dtype)
    found = aj.compile(lambda a: lu_by_panels(a))(a)
    wanted = aj.compile(lambda a: tuple(map(wrap, ops.lu.emit(a.value))))(a)
    for ours, theirs in zip(found, wanted, strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(found[0], wanted[0], atol=1e-10 if dtype is np.float64 else 2e-2)
    lower, upper = np.tril(found[0].T, -1) + np.eye(size), np.triu(found[0].T)
    np.testing.assert_allclose(a[found[2]], lower @ upper, atol=1e-11 if dtype is np.float64 else 5e-3)
    if dtype is np.float64:
        for ours, theirs in zip(found[1:], wanted[1:], strict=True):
            np.testing.assert_array_equal(ours, theirs)


def test_functions_of_large_matrices() -> None:
    a, b = RANDOM.normal(size=(MIN_ROWS, MIN_ROWS)), RANDOM.normal(size=(MIN_ROWS, 2))
    for backend in ("native", "interpret"):
        for function, wanted in ((lambda a, b: np.linalg.solve(a, b), np.linalg.solve(a, b)),
                                 (lambda a, b: np.linalg.inv(a), np.linalg.inv(a)),
                                 (lambda a, b: np.stack(np.linalg.slogdet(a)), np.stack(np.linalg.slogdet(a)))):
            np.testing.assert_allclose(aj.compile(function, backend=backend)(a, b), wanted, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(aj.compile(aj.grad(lambda a: np.linalg.slogdet(a)[1]))(a), np.linalg.inv(a).T, rtol=1e-8, atol=1e-10)
    aj.check_grads(lambda a, b: np.linalg.solve(a, b), (a + 30 * np.eye(MIN_ROWS), b))
    np.testing.assert_allclose(np.linalg.solve(aj.tensor(a), aj.tensor(b)).numpy(), np.linalg.solve(a, b), rtol=1e-8, atol=1e-10)
    stack = np.stack([a, a.T])
    np.testing.assert_allclose(aj.compile(aj.vmap(lambda a: np.linalg.slogdet(a)[1]))(stack), np.linalg.slogdet(stack)[1], rtol=1e-10)


def test_singular_and_unknown_matrices() -> None:
    """As with LAPACK alone: a column of zeros gives a determinant of 0, a NaN stays one."""
    a = RANDOM.normal(size=(MIN_ROWS, MIN_ROWS))
    a[:, 7] = 0.0
    sign, log = aj.compile(lambda a: tuple(np.linalg.slogdet(a)))(a)
    assert (sign, log) == (0.0, -np.inf)
    a[3, 3] = np.nan
    assert np.isnan(aj.compile(lambda a: np.linalg.slogdet(a)[1])(a))


def test_what_has_panels() -> None:
    assert has_panels(np.empty((MIN_ROWS, MIN_ROWS)))
    assert not any(map(has_panels, (np.empty((MIN_ROWS - 1,) * 2), np.empty((2, MIN_ROWS, MIN_ROWS)), np.empty((MIN_ROWS,) * 2, complex))))
