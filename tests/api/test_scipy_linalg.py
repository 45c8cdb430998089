"""`adjit.scipy.linalg`: SciPy's values on every backend, derivatives of two orders, plain arrays, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit.ir.errors import ShapeError, UnsupportedError

scipy_linalg = pytest.importorskip("scipy.linalg")
from adjit.scipy import linalg  # noqa: E402

RANDOM = np.random.default_rng(3)
SQUARE = RANDOM.normal(size=(4, 4))
POSITIVE = SQUARE @ SQUARE.T + np.eye(4)
RIGHT, VECTOR, TALL = RANDOM.normal(size=(4, 2)), RANDOM.normal(size=4), RANDOM.normal(size=(5, 3))
STABLE = 0.3 * SQUARE + 2 * np.eye(4)
STACK = np.stack([STABLE, STABLE.T])
BANDS = np.vstack([RANDOM.normal(size=(1, 4)), 4 + RANDOM.normal(size=(1, 4)), RANDOM.normal(size=(2, 4))])
Function = Callable[..., Any]



def unsigned(w: Any, v: Any) -> tuple[Any, Any]:
    """Eigenvalues, and vectors whose first element is positive: SciPy's driver may give other signs."""
    return w, v * np.sign(v[0])


CASES: dict[str, tuple[Callable[[Any], Function], tuple[Any, ...]]] = {
    "solve": (lambda s: lambda a, b: [s.solve(a, b), s.solve(a, b[:, 0], transposed=True)], (SQUARE, RIGHT)),
    "solve pos": (lambda s: lambda a, b: [s.solve(a, b, assume_a="pos"), s.solve(a, b, lower=True, assume_a="sym")], (POSITIVE, RIGHT)),
    "solve_triangular": (lambda s: lambda a, b: [s.solve_triangular(a, b), s.solve_triangular(a, b, 1, True, True)], (POSITIVE, RIGHT)),
    "cho_solve": (lambda s: lambda a, b: [s.cho_solve(s.cho_factor(a), b), s.cho_solve(s.cho_factor(a, True), b[:, 0])], (POSITIVE, RIGHT)),
    "cho_factor": (lambda s: lambda a: np.triu(s.cho_factor(a)[0]), (POSITIVE,)),
    "lu": (lambda s: lambda a, b: [*s.lu(a), *s.lu(b), *s.lu(b.T), *s.lu(a, permute_l=True)], (SQUARE, TALL)),
    "lu_factor": (lambda s: lambda a: list(s.lu_factor(a)), (SQUARE,)),
    "lu_solve": (lambda s: lambda a, b: [s.lu_solve(s.lu_factor(a), b), s.lu_solve(s.lu_factor(a), b[:, 0], trans=1)], (SQUARE, RIGHT)),
    "solve_sylvester": (lambda s: lambda a, b, q: s.solve_sylvester(a, b, q), (SQUARE, POSITIVE[:2, :2], RIGHT)),
    "solve_banded": (lambda s: lambda ab, b: [s.solve_banded((2, 1), ab, b), s.solve_banded((2, 1), ab, b[:, 0])], (BANDS, RIGHT)),
    "eigh with b": (lambda s: lambda a, b: [*unsigned(*s.eigh(a + a.T, b)), s.eigh(a + a.T, b, eigvals_only=True)], (SQUARE, POSITIVE)),
    "eigh": (lambda s: lambda a: [*unsigned(*s.eigh(a)), s.eigh(a, lower=False, eigvals_only=True)], (POSITIVE,)),
    "svd": (lambda s: lambda a: [*s.svd(a, full_matrices=False), s.svd(a, compute_uv=False), s.svdvals(a)], (TALL,)),
    "qr": (lambda s: lambda a: [*s.qr(a, mode="economic"), *s.qr(a, mode="r")], (TALL,)),
    "expm": (lambda s: lambda a: s.expm(a), (SQUARE,)),
    "expm of a large matrix": (lambda s: lambda a: s.expm(20 * a - 60 * np.eye(4)), (SQUARE,)),
    "expm of a stack": (lambda s: lambda a: s.expm(a), (STACK,)),
    "sqrtm": (lambda s: lambda a: s.sqrtm(a), (STABLE,)),
    "logm": (lambda s: lambda a: s.logm(a), (STABLE,)),
    "toeplitz": (lambda s: lambda c, r: [s.toeplitz(c, r), s.toeplitz(c)], (VECTOR, TALL[:, 0])),
    "block_diag": (lambda s: lambda a, b: s.block_diag(a, b, 3.0), (TALL, VECTOR)),
    "others": (lambda s: lambda a: [s.inv(a), s.det(a), s.norm(a), s.pinv(a)], (SQUARE,)),
}


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, backend: str) -> None:
    make, arrays = CASES[name]
    found, expected = as_list(aj.compile(make(linalg), backend=backend)(*arrays)), as_list(make(scipy_linalg)(*arrays))
    for result, wanted in zip(found, expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", [name for name in CASES if name not in ("svd", "qr", "eigh", "others", "expm of a large matrix")])
def test_derivatives(name: str) -> None:
    make, arrays = CASES[name]

    def function(*arrays: Any) -> Any:
        return sum(np.sum(np.cos(np.arange(part.size).reshape(part.shape) + k) * part)
                   for k, part in enumerate(as_list(make(linalg)(*arrays))) if part.dtype.kind == "f")

    along = [np.random.default_rng(4).normal(size=array.shape) for array in arrays]
    if name in ("cho_solve", "cho_factor", "solve pos", "eigh with b"):      # which read one triangle
        along = [x + x.T if x.shape[0] == x.shape[-1] else x for x in along]

    def moved(distance: float) -> Any:
        return [array + distance * x for array, x in zip(arrays, along, strict=True)]

    places = tuple(range(len(arrays)))
    gradient = aj.compile(aj.grad(function, places), backend="interpret")

    def slope(distance: float) -> Any:
        return sum(np.sum(g * x) for g, x in zip(gradient(*moved(distance)), along, strict=True))

    value = aj.compile(function, backend="interpret")
    np.testing.assert_allclose(slope(0.0), (value(*moved(1e-6)) - value(*moved(-1e-6))) / 2e-6, rtol=1e-6, atol=1e-7)
    twice = aj.compile(lambda *arrays: aj.hvp(function, arrays, tuple(along)), backend="interpret")(*arrays)
    found = sum(np.sum(g * x) for g, x in zip(as_list(twice), along, strict=True))
    np.testing.assert_allclose(found, (slope(1e-6) - slope(-1e-6)) / 2e-6, rtol=1e-5, atol=1e-5)


def test_compiled_derivatives() -> None:
    for name in ("expm", "logm", "solve_sylvester", "solve_banded", "lu_solve"):
        make, arrays = CASES[name]

        def function(*arrays: Any, make: Any = make) -> Any:
            return sum(np.sum(part ** 2) for part in as_list(make(linalg)(*arrays)))

        for found, expected in zip(aj.compile(aj.grad(function, (0,)))(*arrays), aj.grad(function, (0,))(*arrays), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_roots_that_are_not_real_are_nan() -> None:
    for function in (linalg.sqrtm, linalg.logm):
        assert np.isnan(aj.compile(function)(np.diag([1.0, -1.0]))).any()


def test_float32_and_tensors() -> None:
    assert aj.compile(linalg.expm)(SQUARE.astype(np.float32)).dtype == np.float32
    x = aj.tensor(SQUARE, dtype="float64", requires_grad=True)
    linalg.expm(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), aj.grad(lambda a: np.sum(linalg.expm(a)))(SQUARE), rtol=1e-10)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda a: linalg.eigh(a, subset_by_index=[0, 1]), UnsupportedError, "subset_by_index"),
    (lambda a: linalg.eig(a, a), UnsupportedError, "eig of two matrices"),
    (lambda a: linalg.qr(a, mode="x"), ValueError, "Mode argument"),
    (lambda a: linalg.expm(a[:2]), ShapeError, "expm: the shape"),
    (lambda a: linalg.solve_sylvester(a, a, a[:2]), ShapeError, "solve_sylvester: q has shape"),
    (lambda a: linalg.lu_solve((a, np.arange(3)), a[:2]), ShapeError, "lu_solve: factors"),
    (lambda a: linalg.solve_banded((2, 1), a, a), ShapeError, "diagonals below"),
])
def test_what_does_not_fit(function: Function, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.eye(3))
