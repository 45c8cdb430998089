"""`adjit.scipy.linalg`: SciPy's values on every backend, derivatives of two orders, plain arrays, and what is refused."""

from __future__ import annotations

import inspect
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
    "rq": (lambda s: lambda a: [*s.rq(a), *s.rq(a.T, mode="economic"), s.rq(a.T, mode="r")], (TALL,)),
    "expm": (lambda s: lambda a: s.expm(a), (SQUARE,)),
    "expm of a large matrix": (lambda s: lambda a: s.expm(20 * a - 60 * np.eye(4)), (SQUARE,)),
    "expm of a stack": (lambda s: lambda a: s.expm(a), (STACK,)),
    "sqrtm": (lambda s: lambda a: s.sqrtm(a), (STABLE,)),
    "logm": (lambda s: lambda a: s.logm(a), (STABLE,)),
    "toeplitz": (lambda s: lambda c, r: [s.toeplitz(c, r), s.toeplitz(c)], (VECTOR, TALL[:, 0])),
    "block_diag": (lambda s: lambda a, b: s.block_diag(a, b, 3.0), (TALL, VECTOR)),
    "others": (lambda s: lambda a: [s.inv(a), s.det(a), s.norm(a), s.pinv(a)], (SQUARE,)),
    "cholesky": (lambda s: lambda a: [s.cholesky(a), s.cholesky(a, lower=True)], (POSITIVE,)),
    "lstsq": (lambda s: lambda a, b: [s.lstsq(a, b)[0], s.lstsq(a, b[:, 0])[1], s.lstsq(a, b)[3]], (TALL, np.hstack([TALL ** 2, TALL]))),
    "pinv": (lambda s: lambda a: s.pinv(a, atol=0.01, rtol=0.01), (TALL,)),
    "eigh of other types": (lambda s: lambda a, b: [part for kind in (2, 3) for part in unsigned(*s.eigh(a + a.T, b, type=kind))],
                            (SQUARE, POSITIVE)),
    "eigvalsh of two matrices": (lambda s: lambda a, b: s.eigvalsh(a + a.T, b, subset_by_index=[1, 2]), (SQUARE, POSITIVE)),
}


ONE_TRIANGLE = ("cho_solve", "cho_factor", "solve pos", "eigh with b", "cholesky", "eigh of other types", "eigvalsh of two matrices")
"""Cases that read one triangle of a matrix."""


def as_list(results: Any) -> list[Any]:
    return list(results) if isinstance(results, (tuple, list)) else [results]


@pytest.mark.share(8)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CASES)
def test_values(name: str, backend: str) -> None:
    make, arrays = CASES[name]
    found, expected = as_list(aj.compile(make(linalg), backend=backend)(*arrays)), as_list(make(scipy_linalg)(*arrays))
    for result, wanted in zip(found, expected, strict=True):
        assert (result.dtype, result.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(result, wanted, rtol=1e-9, atol=1e-10)


COMPLEX = SQUARE + 1j * STABLE
HERMITIAN = COMPLEX @ COMPLEX.conj().T + np.eye(4)
DEFICIENT = TALL @ np.diag([1.0, 0.1, 0.0])
IGNORED = {"overwrite_a": True, "overwrite_b": True, "overwrite_ab": True, "check_finite": False, "lapack_driver": "gesvd", "driver": "ev",
           "lwork": None, "blocksize": 32}
"""Arguments that do not change numbers."""

CALLS: dict[str, list[tuple[tuple[Any, ...], dict[str, Any]]]] = {
    "block_diag": [((TALL, VECTOR), {}), ((STACK, TALL), {})],
    "cho_factor": [((POSITIVE + 0.1 * np.triu(SQUARE),), {"lower": value}) for value in (False, True)],
    "cho_solve": [((POSITIVE, RIGHT), {})],
    "cholesky": [((a,), keywords) for a in (POSITIVE + 0.1 * np.triu(SQUARE), HERMITIAN) for keywords in ({}, {"lower": True})],
    "det": [((SQUARE,), {}), ((SQUARE.astype(np.float32),), {}), ((STACK,), {}), ((COMPLEX,), {})],
    "eig": [((POSITIVE + SQUARE / 9,), keywords) for keywords in ({"right": False}, {"right": False, "homogeneous_eigvals": True})],
    "eigh": [((POSITIVE,), {}), ((POSITIVE,), {"lower": False}), ((POSITIVE,), {"eigvals_only": True}),
             ((POSITIVE,), {"subset_by_index": [1, 2]}),
             *(((SQUARE + SQUARE.T, POSITIVE), {"type": kind, "lower": lower}) for kind in (1, 2, 3) for lower in (True, False))],
    "eigvals": [((SQUARE,), {}), ((SQUARE,), {"homogeneous_eigvals": True})],
    "eigvalsh": [((SQUARE,), {}), ((SQUARE,), {"lower": False}), ((HERMITIAN,), {"subset_by_index": [0, 0]}),
                 ((SQUARE, POSITIVE), {"type": 2})],
    "expm": [((SQUARE,), {}), ((COMPLEX,), {}), ((np.arange(4).reshape(2, 2),), {})],
    "inv": [((STABLE,), {}), ((STACK,), {}), *(((POSITIVE + SQUARE / 50,), {"assume_a": kind, "lower": lower}) for lower in (False, True)
            for kind in ("general", "upper triangular", "lower triangular", "pos", "sym")), ((HERMITIAN,), {"assume_a": "her"}),
            ((np.diag(VECTOR),), {"assume_a": "diagonal"})],
    "logm": [((STABLE,), {})],
    "lstsq": [((TALL, RANDOM.normal(size=5)), {}), ((TALL, RANDOM.normal(size=(5, 2))), {}), ((TALL.T, VECTOR[:3]), {}),
              ((DEFICIENT, RANDOM.normal(size=(5, 2))), {}), ((TALL, RANDOM.normal(size=5)), {"cond": 0.6}),
              ((TALL, RANDOM.normal(size=5)), {"lapack_driver": "gelsy"})],
    "lu": [((TALL,), {}), ((SQUARE,), {"permute_l": True}), ((SQUARE,), {"p_indices": True})],
    "lu_factor": [((SQUARE,), {})],
    "lu_solve": [((*scipy_linalg.lu_factor(COMPLEX), RIGHT), {"trans": trans}) for trans in (0, 1, 2)],
    "norm": [((TALL,), keywords) for keywords in ({}, {"ord": 1}, {"ord": np.inf}, {"ord": 2}, {"ord": "nuc"}, {"ord": 1, "axis": 0},
                                                  {"axis": 1, "keepdims": True})] + [((VECTOR,), {"ord": 3})],
    "pinv": [((TALL,), {}), ((TALL.T,), {}), ((DEFICIENT,), {"return_rank": True}), ((TALL,), {"rtol": 0.6, "return_rank": True}),
             ((TALL,), {"atol": 1.2, "return_rank": True}), ((DEFICIENT,), {"atol": 0.01, "rtol": 1e-3, "return_rank": True})],
    "qr": [((TALL,), {"mode": mode, "pivoting": pivoting}) for mode in ("full", "r", "economic", "raw") for pivoting in (False, True)],
    "solve": [((POSITIVE + SQUARE / 50, RIGHT), {"assume_a": kind, "lower": lower}) for lower in (False, True) for kind in (
        "gen", "diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular", "pos", "sym")] + [
            ((HERMITIAN, VECTOR), {"assume_a": "her"}), ((STABLE, VECTOR), {"transposed": True}), ((STABLE, VECTOR), {})],
    "solve_banded": [((BANDS, RIGHT), {})],
    "solve_sylvester": [((SQUARE, POSITIVE[:2, :2], RIGHT), {})],
    "solve_triangular": [((COMPLEX, RIGHT), {"trans": trans, "lower": lower, "unit_diagonal": lower})
                         for trans in (0, 1, 2, "N", "T", "C") for lower in (False, True)],
    "sqrtm": [((STABLE,), {})],
    "svd": [((TALL,), keywords) for keywords in ({}, {"full_matrices": False}, {"compute_uv": False})],
    "svdvals": [((TALL,), {}), ((COMPLEX,), {})],
    "toeplitz": [((COMPLEX[0],), {}), ((VECTOR, TALL[:, 0]), {}), ((SQUARE, TALL[:, 0]), {})],
}
"""Functions, with every argument that changes numbers; others are in `tests/api/scipy/test_structured_matrices.py`."""


def called(module: Any, name: str, arrays: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any]:
    """The results, in order; what LAPACK leaves open (signs of vectors, a triangle) taken away."""
    function = getattr(module, name)
    if name == "cho_solve":
        return [function((arrays[0], lower), arrays[1], **keywords) for lower in (False, True)]
    if name == "lu_solve":
        return [function(arrays[:2], arrays[2], **keywords)]
    if name == "solve_banded":
        return [function((2, 1), *arrays, **keywords)]
    results = as_list(function(*arrays, **keywords))
    if name == "cho_factor":
        return [(np.tril if results[1] else np.triu)(results[0]), results[1]]
    if name == "eigh" and len(results) == 2:
        return [*unsigned(*results)]
    return [*results[0], *results[1:]] if isinstance(results[0], tuple) else results


def same(found: list[Any], expected: list[Any], tolerance: float = 1e-8) -> None:
    for result, wanted in zip(found, expected, strict=True):
        if wanted is None:
            assert result is None
        else:
            assert np.shape(result) == np.shape(wanted)
            assert isinstance(wanted, int) or np.asarray(result).dtype == np.asarray(wanted).dtype
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=1e-9)


@pytest.mark.parametrize("name", linalg.__all__)
def test_parameters_are_scipys(name: str) -> None:
    ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (linalg, scipy_linalg))
    assert [(p.name, p.kind) for p in ours.values()] == [(p.name, p.kind) for p in theirs.values()]
    for mine, other in zip(ours.values(), theirs.values(), strict=True):
        assert type(other.default) is object or mine.default == other.default       # an object stands for "not given"


@pytest.mark.share(6)
@pytest.mark.parametrize("name", CALLS)
def test_arguments(name: str) -> None:
    for arrays, keywords in CALLS[name]:
        expected = called(scipy_linalg, name, arrays, keywords)
        for result, wanted in zip(called(linalg, name, arrays, keywords), expected, strict=True):      # SciPy's own, bit for bit
            np.testing.assert_array_equal(result, wanted)
        compiled = aj.compile(lambda *arrays, keywords=keywords: called(linalg, name, arrays, keywords), backend="interpret")
        single = any(array.dtype == np.float32 for array in arrays)
        same(compiled(*arrays), expected, 1e-6 if single else 1e-8)
    accepted = {key: value for key, value in IGNORED.items() if key in inspect.signature(getattr(linalg, name)).parameters}
    arrays, keywords = CALLS[name][0]
    if name == "lstsq":
        accepted["lapack_driver"] = "gelss"
    same(aj.compile(lambda *arrays: called(linalg, name, arrays, keywords | accepted), backend="interpret")(*arrays),
         called(scipy_linalg, name, arrays, keywords))


@pytest.mark.share(4)
@pytest.mark.parametrize("name", [name for name in CASES if name not in ("svd", "qr", "eigh", "others", "expm of a large matrix")])
def test_derivatives(name: str) -> None:
    make, arrays = CASES[name]

    def function(*arrays: Any) -> Any:
        return sum(np.sum(np.cos(np.arange(part.size).reshape(part.shape) + k) * part)
                   for k, part in enumerate(as_list(make(linalg)(*arrays))) if part.dtype.kind == "f")

    along = [np.random.default_rng(4).normal(size=array.shape) for array in arrays]
    if name in ONE_TRIANGLE:
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


ROOTS: dict[str, Callable[[Any], Any]] = {"sqrtm": linalg.sqrtm, "logm": linalg.logm,
                                          "power": lambda a: linalg.fractional_matrix_power(a, 0.3)}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", ROOTS)
def test_matrices_with_negative_eigenvalues(name: str) -> None:
    """Of complex dtype: values are SciPy's, derivatives those along matrices whose eigenvalues stay real. Of a real one, NaN, which others
    of a stack do not have."""
    function = ROOTS[name]
    basis, values = SQUARE + 2 * np.eye(4), np.array([-1.0, -2.0, 3.0, 0.5])
    a, along = (np.asarray((basis * v) @ np.linalg.inv(basis), complex) for v in (values, VECTOR))

    def weights(a: Any) -> Any:
        found = function(a)
        return np.sum(SQUARE * found.real + POSITIVE * found.imag)

    found, gradient = aj.compile(lambda a: (function(a), aj.grad(weights)(a)), backend="interpret")(a)
    np.testing.assert_allclose(found, function(a), rtol=1e-12, atol=1e-12)
    slope = (weights(a + 1e-6 * along) - weights(a - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient.conj() * along).real, slope, rtol=1e-7)
    stack = np.stack([np.diag([1.0, -1.0]), np.diag([1.0, np.nan]), np.diag([900.0, 2.0]), np.ones((2, 2))])
    found = aj.compile(function, backend="interpret")(stack)
    assert np.isnan(found[:2]).any(axis=(1, 2)).all()
    np.testing.assert_allclose(found[2], function(stack[2]), rtol=1e-12, atol=1e-12)
    if name != "logm":
        np.testing.assert_allclose(found[3], 2.0 ** ({"sqrtm": 0.5, "power": 0.3}[name] - 1.0), rtol=1e-12)


def test_roots_of_singular_and_signs_of_large_matrices() -> None:
    function = aj.compile(lambda a: (linalg.sqrtm(a), linalg.signm((a + np.eye(5)) * 1e200)), backend="interpret")
    root, signs = function(np.full((5, 5), 5.0 + 0j))
    np.testing.assert_allclose(root, np.full((5, 5), 1.0), rtol=1e-12)
    np.testing.assert_allclose(signs, np.eye(5), atol=1e-12)


def test_exponentials_of_a_stack_are_squared_each_as_often_as_it_needs() -> None:
    a = np.stack([np.diag([700.0, -3.0]), np.array([[1.0, 30.0], [0.0, 40.0]]), np.full((2, 2), np.nan)])
    np.testing.assert_allclose(aj.compile(linalg.expm, backend="interpret")(a)[1], linalg.expm(a[1]), rtol=1e-13)


def test_float32_and_tensors() -> None:
    single = SQUARE.astype(np.float32)
    assert aj.compile(linalg.expm)(single).dtype == np.float32
    near_one = (np.eye(4) + 0.01 * single).astype(np.complex64)
    functions = aj.compile(lambda a, b: (linalg.fractional_matrix_power(a, 0.5), linalg.expm_frechet(b, b, compute_expm=False)),
                           backend="interpret")
    power, slope = functions(near_one, single)
    assert (power.dtype, slope.dtype) == (np.complex64, np.float64)
    np.testing.assert_allclose(power @ power, near_one, atol=1e-6)
    x = aj.tensor(SQUARE, dtype="float64", requires_grad=True)
    linalg.expm(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), aj.grad(lambda a: np.sum(linalg.expm(a)))(SQUARE), rtol=1e-10)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda a: linalg.eigh(a, subset_by_value=[0, 1]), UnsupportedError, "subset_by_value"),
    (lambda a: linalg.eigvalsh(a, subset_by_index=[1, 3]), ValueError, "eigenvalue indices are not valid"),
    (lambda a: linalg.eigh(a, a, type=4), ValueError, "only accepts 1, 2, and 3"),
    (lambda a: linalg.solve(a, a, assume_a="x"), ValueError, "not a recognized matrix structure"),
    (lambda a: linalg.inv(a, assume_a="x"), ValueError, "not a recognized matrix structure"),
    (lambda a: linalg.pinv(a, rtol=-1.0), ValueError, "must be positive"),
    (lambda a: linalg.svd(a, lapack_driver="x"), ValueError, "lapack_driver must be"),
    (lambda a: linalg.lstsq(a, a, lapack_driver="x"), ValueError, "LAPACK driver"),
    (lambda a: linalg.sqrtm(a, disp=False), UnsupportedError, r"sqrtm\(disp=False\)"),
    (lambda a: linalg.logm(a, disp=False), UnsupportedError, r"logm\(disp=False\)"),
    (lambda a: linalg.qr(a, mode="x"), ValueError, "Mode argument"),
    (lambda a: linalg.expm(a[:2]), ShapeError, "expm: the shape"),
    (lambda a: linalg.solve_sylvester(a, a, a[:2]), ShapeError, "solve_sylvester: q has shape"),
    (lambda a: linalg.lu_solve((a, np.arange(3)), a[:2]), ShapeError, "lu_solve: factors"),
    (lambda a: linalg.solve_banded((2, 1), a, a), ShapeError, "diagonals below"),
])
def test_what_does_not_fit(function: Function, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.eye(3))
