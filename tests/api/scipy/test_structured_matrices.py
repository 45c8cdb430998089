"""`adjit.scipy.linalg`: banded and structured systems, functions of matrices, left eigenvectors, pairs of matrices, beside SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.scipy_cases import Case, check_derivatives, check_mapped, check_tensors, check_values, some

import adjit as aj
from adjit.errors import ShapeError, UnsupportedError

theirs = pytest.importorskip("scipy.linalg")
from adjit.scipy import linalg  # noqa: E402

RANDOM = np.random.default_rng(7)
A, B = RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(4, 4)) + 3 * np.eye(4)
P, TALL, WIDE = A @ A.T + np.eye(4), RANDOM.normal(size=(5, 3)), RANDOM.normal(size=(3, 5))
V, W, E = RANDOM.normal(size=4), RANDOM.normal(size=4), RANDOM.normal(size=3)
UPPER = np.stack([np.r_[0, 0, RANDOM.normal(size=3)], np.r_[0, RANDOM.normal(size=4)], RANDOM.uniform(5, 6, 5)])
LOWER = np.stack([UPPER[2], np.r_[UPPER[1, 1:], 0], np.r_[UPPER[0, 2:], 0, 0]])
FIRST = np.array([5.0, 0.0, 0.0, 0.0])

CASES: dict[str, Case] = {
    "solveh_banded": (lambda s: lambda b, c, m: [s.solveh_banded(b, m[:, 0]), s.solveh_banded(c, m, lower=True), s.solveh_banded(b[1:], m)],
                      (UPPER, LOWER, TALL)),
    "cholesky_banded": (lambda s: lambda b, c: [s.cholesky_banded(b), s.cholesky_banded(c, lower=True)],
                        (UPPER - (UPPER == 0), LOWER + 2 * (LOWER == 0))),
    "cho_solve_banded": (lambda s: lambda b, c, x: [s.cho_solve_banded((s.cholesky_banded(b), False), x),
                                                    s.cho_solve_banded((s.cholesky_banded(c, lower=True), True), x)], (UPPER, LOWER, TALL)),
    "lyapunov": (lambda s: lambda a, q: [s.solve_continuous_lyapunov(a, q), s.solve_discrete_lyapunov(0.4 * a, q),
                                         s.solve_discrete_lyapunov(0.4 * a, q, "bilinear")], (A, P)),
    "pinvh": (lambda s: lambda a: [s.pinvh(a), s.pinvh(a, lower=False)], (P,)),
    "eig_banded": (lambda s: lambda b, c: [s.eig_banded(b, select="i", select_range=(1, 2))[0], s.eigvals_banded(c, lower=True),
                                           abs(s.eig_banded(b)[1])], (UPPER, LOWER)),
    "eigh_tridiagonal": (lambda s: lambda d, e: [s.eigh_tridiagonal(d, e)[0], abs(s.eigh_tridiagonal(d, e)[1]),
                                                 s.eigvalsh_tridiagonal(d, e, select="i", select_range=(0, 1))], (V, E)),
    "polar": (lambda s: lambda a, t, w: [*s.polar(a), *s.polar(a, "left"), *s.polar(t), *s.polar(w, "left")], (A, TALL, WIDE)),
    "procrustes": (lambda s: lambda a, b: [*s.orthogonal_procrustes(a, b)], (TALL, RANDOM.normal(size=(5, 3)))),
    "subspace_angles": (lambda s: lambda a, b: [s.subspace_angles(a, b), s.subspace_angles(a[:, :1], b), s.subspace_angles(a, b[:, :2])],
                        (RANDOM.normal(size=(7, 3)), RANDOM.normal(size=(7, 3)))),
    "expm_frechet": (lambda s: lambda a, e: [*s.expm_frechet(a, e), s.expm_frechet(a, e, compute_expm=False)], (A, B)),
    "turning": (lambda s: lambda a: [s.cosm(a), s.sinm(a), s.tanm(0.3 * a)], (A,)),
    "stretching": (lambda s: lambda a: [s.coshm(a), s.sinhm(a), s.tanhm(a)], (A,)),
    "signm": (lambda s: lambda a: [s.signm(a + 2 * np.diag([1, -1, 1, -1.0]))], (A,)),
    "powers": (lambda s: lambda a: [s.fractional_matrix_power(a, 0.3), s.fractional_matrix_power(a, 2),
                                    s.fractional_matrix_power(a, -1.5)], (P,)),
    "structures": (lambda s: lambda v, w, a, t: [
        s.circulant(v), s.hankel(v), s.hankel(v, t[:, 0]), s.companion(v), s.khatri_rao(a, t[:, :1] @ w[None]), s.leslie(v, w[:3]),
        *(s.convolution_matrix(v, n, mode) for n in (2, 4, 7) for mode in ("full", "same", "valid"))], (V, W, A, TALL)),
    "of constants": (lambda s: lambda v, t: [s.diagsvd(v, 4, 6), s.diagsvd(v, 5, 4), s.fiedler(v), s.fiedler_companion(v + FIRST),
                                             s.fiedler_companion(t[:, 0] + 5), s.fiedler(t.T), s.fiedler(v[:1]),
                                             *(s.fiedler_companion(v[:n] + 5) for n in (1, 2, 3))], (V, TALL)),
    "qr_multiply": (lambda s: lambda a, t, w: [*s.qr_multiply(a, w.T[:2]), *s.qr_multiply(t, w[:, :3].T, "left"), *s.qr_multiply(a, w.T),
                                               s.qr_multiply(t, w[0])[0], s.qr_multiply(t, w[0, :3], "left")[0],
                                               s.qr_multiply(a[:3], a[:, :3], pivoting=True)[1]], (P, TALL, RANDOM.normal(size=(4, 5)))),
    "Riccati": (lambda s: lambda a, b, p: [
        s.solve_continuous_are(a, b, p, p[:2, :2]), s.solve_discrete_are(a, b, p, p[:2, :2]),
        s.solve_continuous_are(a, b, p, p[:2, :2], s=0.1 * b), s.solve_discrete_are(0.1 * a, b, p, p[:2, :2], s=0.1 * b),
        s.solve_discrete_are(a * np.tri(4, k=-1), b, p, p[:2, :2], 2 * np.eye(4) + 0.1 * a)], (A, B[:, :2], P)),
    "toeplitz": (lambda s: lambda v, w, t, a: [
        s.matmul_toeplitz(v, w), s.matmul_toeplitz((t[:, 0], w), a), s.solve_toeplitz(v + FIRST, w), s.solve_toeplitz((v + FIRST, w), a),
        s.solve_circulant(v + FIRST, w), s.solve_circulant(v + FIRST, a)], (V, W, TALL, A)),
}


@pytest.mark.parametrize("backend", ["native", "interpret"])
def test_structured_values(backend: str, exhaustive: bool) -> None:
    chosen = some(CASES, exhaustive, 0, 4 if backend == "interpret" else 9)
    for_each(chosen, lambda *case: check_values(case, linalg, theirs, backend, 1e-9))


def test_mapped_structures(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 1, 9), lambda *case: check_mapped(case, linalg))


def test_derivatives_of_structures(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 2, 9), lambda *case: check_derivatives(case, linalg))


def test_structures_of_tensors(exhaustive: bool) -> None:
    for_each(some(CASES, exhaustive, 2, 7), lambda *case: check_tensors(case, linalg, theirs))


@pytest.mark.parametrize("of_complex", [False, True])
def test_left_vectors_and_pairs(of_complex: bool) -> None:
    a, b = (A + 1j * B, B + 0.3j * A) if of_complex else (A, B)
    for other in (None, b):
        w, u, v = aj.compile(lambda a, b: linalg.eig(a, b, left=True), backend="interpret")(a, other)
        m = np.eye(4) if other is None else other
        np.testing.assert_allclose(a @ v, m @ v * w, atol=1e-12)
        np.testing.assert_allclose(u.conj().T @ a, w[:, None] * (u.conj().T @ m), atol=1e-12)
        np.testing.assert_allclose(np.linalg.norm(u, axis=0), 1.0)
        found, wanted = (np.sort_complex(np.round(values, 12)) for values in (w, theirs.eigvals(a, other)))      # pairs: equal real parts
        np.testing.assert_allclose(found, wanted, atol=1e-11)


def test_pairs_have_derivatives() -> None:
    def of_both(a: Any, b: Any) -> Any:
        w, u, v = linalg.eig(a, b, left=True)
        return np.sum(np.abs(np.sum(u.conj() * v, axis=0)) ** 2) + np.sum(np.abs(w) * np.abs(u[0]))

    aj.check_grads(of_both, (A, B))


def test_riccati_equations_with_other_terms_hold() -> None:
    """SciPy's results with `e` and `s` do not."""
    b, r, e, s = B[:, :2], P[:2, :2], 2 * np.eye(4) + 0.1 * A, 0.1 * B[:, :2]
    x = aj.compile(linalg.solve_continuous_are)(A, b, P, r, e, s)
    gain = np.linalg.solve(r, (e.T @ x @ b + s).T)
    np.testing.assert_allclose(A.T @ x @ e + e.T @ x @ A + P, gain.T @ r @ gain, atol=1e-11)
    assert np.linalg.eigvals(np.linalg.solve(e, A - b @ gain)).real.max() < 0
    x = aj.compile(linalg.solve_discrete_are)(A, b, P, r, e, s)
    gain = np.linalg.solve(r + b.T @ x @ b, b.T @ x @ A + s.T)
    np.testing.assert_allclose(A.T @ x @ A - e.T @ x @ e + P, gain.T @ (r + b.T @ x @ b) @ gain, atol=1e-10)
    assert abs(np.linalg.eigvals(np.linalg.solve(e, A - b @ gain))).max() < 1


def test_complex_riccati_equations() -> None:
    a, b = A + 0.3j * B, B[:, :2] + 1j * A[:, :2]
    for name in ("solve_continuous_are", "solve_discrete_are"):
        function = getattr(linalg, name)
        np.testing.assert_allclose(aj.compile(function)(a, b, P, P[:2, :2]), getattr(theirs, name)(a, b, P, P[:2, :2]), rtol=1e-10)
        aj.check_grads(lambda a, b, function=function: function(a, b, P, P[:2, :2]), (a, b))
    closed = np.diag([-1.0, -1.0])        # equal eigenvalues, of which eigenvectors have no derivative
    aj.check_grads(lambda a: linalg.solve_continuous_are(a, np.eye(2), np.eye(2), np.eye(2)), (closed,), order=2)


def test_polar_factors_of_equal_singular_values_have_a_derivative() -> None:
    slope = aj.compile(aj.grad(lambda a: np.sum(linalg.polar(a)[0] * B)), backend="interpret")(2 * np.eye(4))
    np.testing.assert_allclose(slope, (B - B.T) / 4, atol=1e-14)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda a: linalg.eig_banded(a, select="v", select_range=(0, 1)), UnsupportedError, 'select="i"'),
    (lambda a: linalg.polar(a, "both"), ValueError, "'right' or 'left'"),
    (lambda a: linalg.eigh_tridiagonal(a[0], a[1]), ValueError, "one more element"),
    (lambda a: linalg.schur(a), UnsupportedError, r"scipy\.linalg\.schur has no rule.*unique up to turns"),
    (lambda a: linalg.solve_continuous_are(a, a[:3], a, a), ShapeError, "do not fit to each other"),
    (lambda a: linalg.qr_multiply(a, a[0, :3]), ShapeError, "does not fit to q"),
    (lambda a: linalg.null_space(a), UnsupportedError, "values decide on the size"),
])
def test_what_structures_refuse(function: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(A)


def test_failures_in_a_loop_are_not_asked_for() -> None:
    """What a function catches is raised where values are known; in a loop a failure is NaN."""
    def function(a: Any) -> Any:
        try:
            return aj.fori_loop(0, 2, lambda i, x: np.linalg.inv(x), a)
        except np.linalg.LinAlgError:
            return a
    np.testing.assert_allclose(aj.compile(function)(P), P, rtol=1e-12)
