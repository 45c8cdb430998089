"""Linear algebra of complex matrices, and eigenvalues of general ones: NumPy's values on every backend, derivatives of two orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj

linalg = pytest.importorskip("adjit.scipy.linalg")

RANDOM = np.random.default_rng(4)


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)


SQUARE, TALL, WIDE, STACK, LONG = normal(4, 4), normal(5, 3), normal(3, 5), normal(2, 3, 3), normal(9, 2)
REAL = RANDOM.normal(size=(4, 4))
Function = Callable[[Any], Any]


def adjoint(a: Any) -> Any:
    return np.conjugate(np.swapaxes(a, -1, -2))


def positive(a: Any) -> Any:
    return a @ adjoint(a) + 0.5 * np.eye(a.shape[-1])


def leaves(tree: Any) -> list[np.ndarray]:
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [np.asarray(tree)]


VALUES: dict[str, tuple[Function, Any]] = {
    "qr": (lambda a: [np.linalg.qr(x, mode) for x in a for mode in ("reduced", "complete", "r")], [SQUARE, TALL, WIDE, STACK]),
    "svd": (lambda a: [np.linalg.svd(x) for x in a] + [np.linalg.svd(x, False) for x in a], [SQUARE, TALL, WIDE, STACK, LONG]),
    "singular values": (lambda a: [np.linalg.svd(x, compute_uv=False) for x in a], [TALL, WIDE, STACK]),
    "hermitian": (lambda a: [np.linalg.svd(a + adjoint(a), hermitian=True), np.linalg.pinv(a + adjoint(a), hermitian=True)], SQUARE),
    "eigh": (lambda a: [np.linalg.eigh(a), np.linalg.eigh(a, "U"), np.linalg.eigvalsh(a)], np.stack([SQUARE, positive(SQUARE)])),
    "eig": (lambda a: [np.linalg.eig(a), np.linalg.eigvals(a)], STACK),
    "eig of reals": (lambda a: [np.linalg.eig(x) for x in a] + [np.linalg.eigvals(x) for x in a], [REAL, REAL + REAL.T, np.diag([2.0, 1])]),
    "matrix_rank": (lambda a: [np.linalg.matrix_rank(x) for x in a], [SQUARE, TALL @ WIDE, np.eye(3)[0] * 1j]),
    "cond": (lambda a: [np.linalg.cond(a, p) for p in (None, 2, -2, 1, np.inf, "fro")], SQUARE),
    "norms": (lambda a: [np.linalg.norm(x, ord) for x in a for ord in (None, 1, np.inf, 2, -2, "nuc")], [SQUARE, TALL]),
    "pinv": (lambda a: [np.linalg.pinv(x) for x in a], [SQUARE, TALL, WIDE, STACK, TALL @ WIDE]),
    "lstsq": (lambda a: [np.linalg.lstsq(x, x[:, 0] ** 2 + 1j) for x in a], [SQUARE, TALL, WIDE]),
    "systems": (lambda a: [np.linalg.solve(a, a[:, 0] ** 2), np.linalg.inv(a), np.linalg.det(a), np.linalg.slogdet(a),
                           np.linalg.cholesky(positive(a)), np.linalg.cholesky(positive(a), upper=True)], SQUARE),
    "stacks": (lambda a: [np.linalg.inv(a), np.linalg.det(a), np.linalg.slogdet(a), np.linalg.cholesky(positive(a))], STACK),
    "complex64": (lambda a: [np.linalg.qr(a), np.linalg.svd(a, False), np.linalg.eigvalsh(adjoint(a) @ a)], TALL.astype(np.complex64)),
    "empty": (lambda a: [np.linalg.svd(a), np.linalg.qr(a), np.linalg.svd(a, False), np.linalg.pinv(a)], np.zeros((3, 0), complex)),
    "empty stacks": (lambda a: [np.linalg.svd(a), np.linalg.eigh(a), np.linalg.eig(a), np.linalg.eigvals(a)], np.zeros((0, 3, 3), complex)),
    "roots": (lambda c: [np.roots(c), np.roots(c + 1j), np.poly(np.diag(c)), np.polynomial.chebyshev.chebroots(c),
                         np.polynomial.polynomial.polyroots(c)], np.array([1.0, -6, 11, -6])),
    "complex roots": (lambda c: [np.roots(c), np.poly(np.outer(c, c) + np.diag(c))], np.array([1.0, 2, 3, -1])),
}


@pytest.mark.share(6)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, backend: str, exhaustive: bool) -> None:
    if backend == "numba" and name not in ("svd", "eig of reals", "pinv") and not exhaustive:
        pytest.skip("compiles for seconds")
    function, arrays = VALUES[name]
    for found, expected in zip(leaves(aj.compile(function, backend=backend)(arrays)), leaves(function(arrays)), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tolerance = 2e-4 if found.dtype in (np.float32, np.complex64) else 1e-10
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


SCIPY: dict[str, tuple[Function, np.ndarray]] = {
    "expm": (linalg.expm, SQUARE), "sqrtm": (linalg.sqrtm, positive(SQUARE) + SQUARE), "logm": (linalg.logm, positive(SQUARE) + SQUARE),
    "sylvester": (lambda a: linalg.solve_sylvester(a, a.T + 3, a * 1j), SQUARE),
    "banded": (lambda a: linalg.solve_banded((1, 1), a[:3] + 4, a[0]), SQUARE),
    "lu": (lambda a: [linalg.lu(a), linalg.lu_factor(a), linalg.lu_solve(linalg.lu_factor(a), a[:, 0], trans=2)], SQUARE),
    "cho": (lambda a: [linalg.cho_solve(linalg.cho_factor(positive(a), lower), a[0]) for lower in (True, False)], SQUARE),
    "solve": (lambda a: [linalg.solve(a, a[0]), linalg.solve(positive(a), a[0], assume_a="pos"), linalg.solve(a, a[0], assume_a="sym"),
                         linalg.solve(a + adjoint(a), a[0], assume_a="her"), linalg.solve_triangular(a, a[0], trans=2)], SQUARE),
    "eig": (lambda a: [linalg.eig(a), linalg.eigvals(a)], SQUARE),
    "eig of reals": (lambda a: [linalg.eig(a), linalg.eigvals(a), linalg.eig(a + a.T)], REAL),
    "eigh": (lambda a: linalg.eigh(a, positive(a), eigvals_only=True), SQUARE),
    "qr": (lambda a: [linalg.qr(a, mode=mode, pivoting=order) for mode in ("full", "r", "economic", "raw") for order in (False, True)],
           TALL),
    "qr of wide matrices": (lambda a: [linalg.qr(a.real, mode=mode, pivoting=True) for mode in ("economic", "raw")], WIDE),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", SCIPY)
def test_values_of_scipy(name: str) -> None:
    function, a = SCIPY[name]
    for found, expected in zip(leaves(aj.compile(function)(a)), leaves(function(a)), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


def weighted(*parts: Any) -> Any:
    """A real sum of real and imaginary parts, each element with a weight of its own."""
    total = 0.0
    for k, part in enumerate(parts):
        weights = np.arange(float(np.prod(part.shape))).reshape(part.shape) + k
        total = total + np.sum(np.cos(weights) * np.real(part)) + np.sum(np.sin(weights) * np.imag(part))
    return total


DERIVATIVES: dict[str, tuple[Function, np.ndarray]] = {
    "qr": (lambda a: weighted(*np.linalg.qr(a)), TALL),
    "qr wide": (lambda a: weighted(*np.linalg.qr(a)), WIDE),
    "svd": (lambda a: weighted(*np.linalg.svd(a)), SQUARE),
    "svd wide": (lambda a: weighted(*np.linalg.svd(a, full_matrices=False)), WIDE),
    "svd stack": (lambda a: weighted(*np.linalg.svd(a)), STACK),
    "polar": (lambda a: weighted((lambda u, _, vh: u @ vh)(*np.linalg.svd(a, full_matrices=False))), LONG),
    "eigh": (lambda a: weighted(*np.linalg.eigh(a + adjoint(a))), SQUARE),
    "eigh upper": (lambda a: weighted(*np.linalg.eigh(a @ adjoint(a), "U")), SQUARE),
    "projector": (lambda a: weighted((lambda w, v: (v * np.sin(w)) @ adjoint(v))(*np.linalg.eigh(a + adjoint(a)))), SQUARE),
    "eigvalsh": (lambda a: weighted(np.linalg.eigvalsh(a + adjoint(a))), SQUARE),
    "eig": (lambda a: weighted(*np.linalg.eig(a)), SQUARE),
    "eig of reals": (lambda a: weighted(*np.linalg.eig(a)), REAL),
    "eigvals": (lambda a: weighted(np.linalg.eigvals(a)), STACK),
    "eigvals of reals": (lambda a: np.max(np.abs(np.linalg.eigvals(a))), REAL),
    "roots": (lambda c: weighted(np.roots(c)), np.array([1.0, -6.5, 11, -6, 2])),
    "poly": (lambda a: weighted(np.poly(a)), REAL),
    "norms": (lambda a: np.linalg.norm(a, "nuc") + np.linalg.norm(a, 2) * np.linalg.norm(a, 1), TALL),
    "pinv": (lambda a: weighted(np.linalg.pinv(a)), TALL),
    "lstsq": (lambda a: weighted(*np.linalg.lstsq(a, np.sin(a[:, 1]))[:2]), TALL),
    "systems": (lambda a: weighted(np.linalg.solve(a, a[0]), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a)), SQUARE),
    "cholesky": (lambda a: weighted(np.linalg.cholesky(positive(a)), np.linalg.cholesky(positive(a), upper=True)), SQUARE),
    "expm": (lambda a: weighted(linalg.expm(a)), SQUARE),
    "sqrtm": (lambda a: weighted(linalg.sqrtm(positive(a)), linalg.logm(positive(a))), STACK[0]),
    "sylvester": (lambda a: weighted(linalg.solve_sylvester(a, adjoint(a) + 3, a * 1j)), SQUARE),
}


ALWAYS = ("svd wide", "eigh upper", "projector", "eig of reals", "roots", "poly", "pinv", "systems", "cholesky", "expm")


@pytest.mark.share(2)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str, exhaustive: bool) -> None:
    if name not in ALWAYS and not exhaustive:
        pytest.skip("derivatives of the ops are compared everywhere")
    function, a = DERIVATIVES[name]
    along = np.random.default_rng(2).normal(size=a.shape)
    along = along + 1j * np.random.default_rng(3).normal(size=a.shape) if a.dtype.kind == "c" else along
    gradient = aj.compile(aj.grad(function), backend="interpret")
    slope = (function(a + 1e-6 * along) - function(a - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(np.conjugate(gradient(a)) * along).real, slope, rtol=1e-6, atol=1e-6)
    curvature = np.sum(np.conjugate(gradient(a + 1e-6 * along) - gradient(a - 1e-6 * along)) * along).real / 2e-6
    product = aj.compile(lambda a: aj.hvp(function, (a,), (along,)), backend="interpret")(a)
    np.testing.assert_allclose(np.sum(np.conjugate(product) * along).real, curvature, rtol=2e-5, atol=1e-4)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["native", "numba"])
def test_compiled_derivatives(backend: str) -> None:
    for name in ("svd stack", "eigh", "eig", "eigvals of reals", "systems") if backend == "native" else ("eig",):
        function, a = DERIVATIVES[name]
        expected = aj.compile(aj.grad(function), backend="interpret")(a)
        np.testing.assert_allclose(aj.compile(aj.grad(function), backend=backend)(a), expected, rtol=1e-8, atol=1e-9)


def test_real_eigenvalues_are_a_decision_on_values() -> None:
    """One function, two programs: dtypes are NumPy's in each call."""
    compiled = aj.compile(np.linalg.eigvals)
    for a in (REAL, REAL + REAL.T, REAL, REAL + REAL.T):
        found, expected = compiled(a), np.linalg.eigvals(a)
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_decisions_in_python_loops() -> None:
    """Some matrices with real eigenvalues, some without, in any order."""
    def function(matrices: Any) -> Any:
        total = 0.0
        for index in range(matrices.shape[0]):
            total = total + np.max(np.abs(np.linalg.eigvals(matrices[index])))
        return total

    mixed, compiled = np.stack([REAL, REAL + REAL.T, REAL.T + 1]), aj.compile(function)
    for matrices in (mixed, mixed[::-1].copy(), mixed[[1, 1, 0]]):
        np.testing.assert_allclose(compiled(matrices), function(matrices), rtol=1e-12)


def test_eigenvalues_are_complex_where_there_is_no_decision() -> None:
    pair = np.stack([REAL + REAL.T, REAL])
    in_loop = aj.compile(lambda x: aj.scan(lambda carry, each: (carry, np.linalg.eigvals(each)), 0.0, x)[1])
    for found in (aj.vmap(np.linalg.eigvals)(pair), in_loop(pair)):
        assert found.dtype == np.complex128
        np.testing.assert_allclose(found, np.stack([np.linalg.eigvals(a) for a in pair]), rtol=1e-12)


def test_eigenvalues_alone_are_no_vectors() -> None:
    """Vectors are computed where a derivative needs them."""
    alone = aj.compile(lambda a: np.abs(np.linalg.eigvals(a)))
    both = aj.compile(aj.value_and_grad(lambda a: np.sum(np.linalg.eigvals(a) ** 2).real))
    alone(SQUARE), both(SQUARE)
    assert "eigvals" in alone.ir("planned")
    assert "= eig " in both.ir("planned")
    np.testing.assert_allclose(both(SQUARE)[1], 2 * adjoint(SQUARE), rtol=1e-9)


@pytest.mark.parametrize("function", [
    lambda a: np.sum(np.exp(np.linalg.eigvalsh(a))),
    lambda a: np.sum(np.linalg.svd(a).S ** 2),
    lambda a: np.sum(np.linalg.eigvals(a) ** 2).real,
])
def test_equal_eigenvalues(function: Function) -> None:
    """Functions that do not depend on the choice of the vectors have finite derivatives, which are the limits."""
    turn = np.linalg.qr(normal(3, 3)).Q
    a, along = turn @ np.diag([2.0, 2.0, 3.0]) @ adjoint(turn), (lambda b: b + adjoint(b))(normal(3, 3))
    a = 0.5 * (a + adjoint(a))
    slope = (function(a + 1e-5 * along) - function(a - 1e-5 * along)) / 2e-5
    gradient = aj.grad(function)(a)
    assert np.isfinite(gradient).all()
    assert np.isfinite(aj.hvp(function, (a,), (along,))).all()
    np.testing.assert_allclose(np.sum(np.conjugate(gradient) * along).real, slope, rtol=1e-6)


@pytest.mark.parametrize("blocks", [np.diag([1.0 + 0j, 2, 3]), np.kron(np.eye(2), [[2, 1j], [-1j, 1]]) + np.diag([0, 0, 3, 3])])
def test_vectors_with_zeros_have_derivatives_of_functions_without_phase(blocks: np.ndarray) -> None:
    """LAPACK's phase is not defined where the component is 0 that it makes real."""
    def function(a: Any) -> Any:
        w, v = np.linalg.eigh(a)
        u, _, vh = np.linalg.svd(a)
        return weighted((v * np.cos(w)) @ adjoint(v), u @ vh)

    along = normal(*blocks.shape)
    along = along + adjoint(along)
    slope = (function(blocks + 1e-6 * along) - function(blocks - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(np.conjugate(aj.grad(function)(blocks)) * along).real, slope, rtol=1e-6)
    _, tangent = aj.jvp(function, (blocks,), (along,))
    np.testing.assert_allclose(tangent, slope, rtol=1e-6)


@pytest.mark.parametrize("function", [np.linalg.svd, np.linalg.qr, np.linalg.eigvalsh, np.linalg.eig, np.linalg.pinv, np.linalg.slogdet])
def test_vmap(function: Function) -> None:
    for found, expected in zip(leaves(aj.vmap(function)(STACK)), leaves(function(STACK)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


def test_tensors() -> None:
    x = aj.tensor(SQUARE, requires_grad=True)
    function = DERIVATIVES["eig"][0]
    function(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), aj.grad(function)(SQUARE), rtol=1e-9)


def test_what_is_not_finite_is_nan() -> None:
    a = np.full((3, 3), np.nan + 0j)
    for result in leaves(aj.compile(lambda a: (np.linalg.svd(a), np.linalg.eigvalsh(a), np.linalg.eig(a)))(a)):
        assert np.isnan(result).all()
