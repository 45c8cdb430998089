"""QR factors, singular values, eigenvalues, and what is made of them: NumPy's values on every backend, derivatives of two orders, ranks."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit.ir.errors import NonDifferentiableError, ShapeError, UnsupportedError

pytest.importorskip("scipy")

RANDOM = np.random.default_rng(1)
SQUARE, TALL, WIDE, STACK = (RANDOM.normal(size=shape) for shape in ((4, 4), (5, 3), (3, 5), (2, 3, 4)))
SYMMETRIC = SQUARE + SQUARE.T
Function = Callable[[Any], Any]


def leaves(tree: Any) -> list[np.ndarray]:
    return [leaf for part in tree for leaf in leaves(part)] if isinstance(tree, (tuple, list)) else [np.asarray(tree)]


VALUES: dict[str, tuple[Function, Any]] = {
    "qr": (lambda a: [np.linalg.qr(x) for x in a], [SQUARE, TALL, WIDE, STACK]),
    "qr complete": (lambda a: [np.linalg.qr(x, "complete") for x in a], [SQUARE, TALL, WIDE, STACK]),
    "qr raw": (lambda a: [np.linalg.qr(x, mode="raw") for x in a], [SQUARE, TALL, WIDE, STACK, TALL + 1j]),
    "qr r": (lambda a: [np.linalg.qr(x, mode="r") for x in a], [TALL, WIDE]),
    "svd": (lambda a: [np.linalg.svd(x) for x in a], [SQUARE, TALL, WIDE, STACK]),
    "svd reduced": (lambda a: [np.linalg.svd(x, full_matrices=False) for x in a], [TALL, WIDE, STACK]),
    "singular values": (lambda a: [np.linalg.svd(x, compute_uv=False) for x in a], [TALL, WIDE, STACK]),
    "hermitian": (lambda a: [np.linalg.svd(a, hermitian=True), np.linalg.svd(a, compute_uv=False, hermitian=True)], SYMMETRIC),
    "eigh": (lambda a: [np.linalg.eigh(a), np.linalg.eigh(a, "U"), np.linalg.eigvalsh(a)], np.stack([SQUARE, SYMMETRIC])),
    "matrix_rank": (lambda a: [np.linalg.matrix_rank(x) for x in a] + [np.linalg.matrix_rank(a[0], tol=1.0)],
                    [SQUARE, TALL @ WIDE, np.ones((2, 3, 3)), np.zeros(3), np.eye(3)[0]]),
    "cond": (lambda a: [np.linalg.cond(a, p) for p in (None, 2, -2, 1, np.inf, "fro")], SQUARE),
    "cond of a stack": (lambda a: np.linalg.cond(a), STACK),
    "norms": (lambda a: [np.linalg.norm(x, ord) for x in a for ord in (2, -2, "nuc")], [SQUARE, TALL, WIDE]),
    "norms along axes": (lambda a: [np.linalg.norm(a, ord, (0, 2), keepdims=ord == 2) for ord in (2, -2, "nuc")], STACK),
    "matrix_norm": (lambda a: [np.linalg.matrix_norm(a, ord=ord) for ord in ("nuc", 2, "fro")], STACK),
    "pinv": (lambda a: [np.linalg.pinv(x) for x in a], [SQUARE, TALL, WIDE, STACK, TALL @ WIDE]),
    "pinv hermitian": (lambda a: np.linalg.pinv(a, hermitian=True), SYMMETRIC),
    "pinv rtol": (lambda a: [np.linalg.pinv(a, rtol=0.5), np.linalg.pinv(a, 0.3)], TALL),
    "lstsq": (lambda a: [np.linalg.lstsq(x, x[:, 0] ** 2 + 1) for x in a], [SQUARE, TALL, WIDE]),
    "lstsq of columns": (lambda a: np.linalg.lstsq(a, a ** 2 + 1, rcond=1e-3), TALL),
    "lstsq without full rank": (lambda a: np.linalg.lstsq(a, np.ones(5)), (TALL @ WIDE)[:, :4]),
    "svdvals": (lambda a: np.linalg.svdvals(a), STACK),
    "polyfit": (lambda a: np.polyfit(a, a ** 2 + a ** 3, 2), TALL[:, 0]),
    "empty": (lambda a: [np.linalg.svd(a), np.linalg.qr(a), np.linalg.qr(a, "complete"), np.linalg.svd(a, False),
                         np.linalg.svd(a, compute_uv=False)], np.zeros((2, 3, 0))),
    "empty stacks": (lambda a: [np.linalg.svd(a), np.linalg.eigh(a), np.linalg.qr(a)], np.zeros((0, 3, 3))),
    "float32": (lambda a: [np.linalg.qr(a), np.linalg.svd(a, full_matrices=False), np.linalg.eigvalsh(a.T @ a), np.linalg.pinv(a)],
                TALL.astype(np.float32)),
    "integers": (lambda a: [np.linalg.eigvalsh(a), np.linalg.svd(a)], np.array([[2, 1], [1, 5]])),
}


@pytest.mark.share(9)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", VALUES)
def test_values(name: str, backend: str) -> None:
    if name == "svdvals" and not hasattr(np.linalg, "svdvals"):
        pytest.skip("NumPy is older")
    function, arrays = VALUES[name]
    for found, expected in zip(leaves(aj.compile(function, backend=backend)(arrays)), leaves(function(arrays)), strict=True):
        assert (found.shape, found.dtype) == (expected.shape, expected.dtype)
        tolerance = 2e-4 if found.dtype == np.float32 else 1e-10
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def test_signs_and_bits_are_numpys() -> None:
    """Of float64, for which NumPy calls the same routines on the same numbers."""
    def factors(a: Any) -> Any:
        return np.linalg.qr(a), np.linalg.svd(a), np.linalg.eigh(a + a.T)

    a = RANDOM.normal(size=(20, 20))
    for found, expected in zip(leaves(aj.compile(factors)(a)), leaves(factors(a)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def weighted(*parts: Any) -> Any:
    """A sum of the parts, each element with a weight of its own."""
    return sum(np.sum(np.cos(np.arange(float(np.prod(part.shape))) + k).reshape(part.shape) * part) for k, part in enumerate(parts))


DERIVATIVES: dict[str, tuple[Function, np.ndarray]] = {
    "qr": (lambda a: weighted(*np.linalg.qr(a)), TALL),
    "qr wide": (lambda a: weighted(*np.linalg.qr(a)), WIDE),
    "r": (lambda a: weighted(np.linalg.qr(a, mode="r")), SQUARE),
    "r of complete factors": (lambda a: weighted(np.linalg.qr(a, "complete").R), TALL),
    "svd": (lambda a: weighted(*np.linalg.svd(a)), SQUARE),
    "svd tall": (lambda a: weighted(*np.linalg.svd(a, full_matrices=False)), TALL),
    "svd stack": (lambda a: weighted(*np.linalg.svd(a, full_matrices=False)), STACK),
    "singular values": (lambda a: weighted(np.linalg.svd(a).S), WIDE),
    "eigh": (lambda a: weighted(*np.linalg.eigh(a + a.T)), SQUARE),
    "eigvalsh": (lambda a: weighted(np.linalg.eigvalsh(a + a.T, "U")), SQUARE),
    "cond": (lambda a: np.linalg.cond(a), TALL),
    "nuclear norm": (lambda a: np.linalg.norm(a, "nuc"), WIDE),
    "spectral norm": (lambda a: np.linalg.norm(a, 2), TALL),
    "pinv": (lambda a: weighted(np.linalg.pinv(a)), TALL),
    "pinv wide": (lambda a: weighted(np.linalg.pinv(a)), WIDE),
    "lstsq": (lambda a: weighted(*np.linalg.lstsq(a, np.sin(a[:, 1]))[:2]), TALL),
    "lstsq wide": (lambda a: weighted(np.linalg.lstsq(a, np.sin(a[:, 1]))[0]), WIDE),
    "polyfit": (lambda a: weighted(np.polyfit(a[:, 0], a[:, 1], 1)), TALL),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives(name: str) -> None:
    function, a = DERIVATIVES[name]
    along = np.random.default_rng(2).normal(size=a.shape)
    gradient = aj.compile(aj.grad(function), backend="interpret")
    slope = (function(a + 1e-6 * along) - function(a - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(gradient(a) * along), slope, rtol=1e-6, atol=1e-7)
    curvature = np.sum((gradient(a + 1e-6 * along) - gradient(a - 1e-6 * along)) * along) / 2e-6
    product = aj.compile(lambda a: aj.hvp(function, (a,), (along,)), backend="interpret")(a)
    np.testing.assert_allclose(np.sum(product * along), curvature, rtol=1e-5, atol=1e-5)


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", ["native", "numba"])
def test_compiled_derivatives(backend: str) -> None:
    for name in ("qr wide", "svd stack", "eigh", "pinv", "lstsq"):
        function, a = DERIVATIVES[name]
        expected = aj.compile(aj.grad(function), backend="interpret")(a)
        np.testing.assert_allclose(aj.compile(aj.grad(function), backend=backend)(a), expected, rtol=1e-8, atol=1e-9)


@pytest.mark.parametrize("function", [
    lambda a: np.sum(np.exp(np.linalg.eigvalsh(a))),
    lambda a: np.sum(np.linalg.eigh(a)[0] ** 3),
    lambda a: np.sum(matrix_function(a) ** 2),
    lambda a: np.sum(np.linalg.svd(a).S ** 2),
    lambda a: np.sum(whitened(a) ** 3),
])
def test_equal_eigenvalues_and_singular_values(function: Function) -> None:
    """Functions that do not depend on the choice of the vectors have finite derivatives of two orders, which are the limits."""
    a, along = np.diag([2.0, 2.0, 3.0]), symmetric(np.random.default_rng(3).normal(size=(3, 3)))
    gradient = aj.grad(function)
    slope = (function(a + 1e-5 * along) - function(a - 1e-5 * along)) / 2e-5
    np.testing.assert_allclose(np.sum(gradient(a) * along), slope, rtol=1e-6)
    assert np.isfinite(aj.hvp(function, (a,), (along,))).all()


def symmetric(a: Any) -> Any:
    return a + a.T


def matrix_function(a: Any) -> Any:
    w, v = np.linalg.eigh(a)
    return (v * np.sin(w)) @ v.T


def whitened(a: Any) -> Any:
    u, s, vh = np.linalg.svd(a)
    return (u * np.sqrt(s)) @ vh


def test_derivatives_without_full_rank() -> None:
    """The pseudoinverse of matrices of one rank, and least squares by it."""
    left, right = RANDOM.normal(size=(5, 2)), RANDOM.normal(size=(2, 4))

    def function(left: Any) -> Any:
        return weighted(np.linalg.pinv(left @ right), np.linalg.lstsq(left @ right, np.ones(5))[0])

    along = RANDOM.normal(size=left.shape)
    slope = (function(left + 1e-6 * along) - function(left - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(aj.grad(function)(left) * along), slope, rtol=1e-6)
    assert aj.grad(lambda a: np.linalg.norm(a, "nuc"))(np.zeros((2, 2))).shape == (2, 2)


def test_singular_values_that_are_left_out() -> None:
    """Others than 0 are left out, and turn the vectors of those that are kept: two orders, equal values, stacks, complex numbers."""
    def weights(a: Any) -> Any:
        tall, wide = np.linalg.pinv(a, 0.45), np.linalg.lstsq(a[0].T, np.arange(3.0), 0.45)[0]
        return weighted(tall.real, tall.imag, wide.imag)

    def derivatives(a: Any) -> Any:
        return aj.value_and_grad(weights)(a), aj.hvp(weights, (a,), (along,))

    random = np.random.default_rng(7)
    along, pair, basis = (random.normal(size=shape) + 1j * random.normal(size=shape) for shape in ((2, 4, 3), (2, 4, 3), (2, 3, 3)))
    a = (np.linalg.qr(pair).Q * np.array([[5.0, 4.0, 2.0], [3.0, 3.0, 1.0]])[:, None]) @ np.linalg.qr(basis).Q
    compiled, step = aj.compile(derivatives, backend="interpret"), 1e-6 * along
    ((_, gradient), product), ((up, above), _), ((down, below), _) = map(compiled, (a, a + step, a - step))
    np.testing.assert_allclose(np.sum(np.conjugate(gradient) * along).real, (up - down) / 2e-6, rtol=1e-7)
    curvature = np.sum(np.conjugate(above - below) * along).real / 2e-6
    np.testing.assert_allclose(np.sum(np.conjugate(product) * along).real, curvature, rtol=1e-6)
    equal = aj.grad(lambda a: weighted(np.linalg.pinv(a, hermitian=True)))(np.diag([2.0, 2.0, 3.0]))
    assert equal[0, 1] == pytest.approx(-np.cos([1.0, 3.0]).mean() / 4, rel=1e-12)


@pytest.mark.parametrize("name", ["qr wide", "svd tall", "eigh", "pinv"])
def test_forward_mode(name: str) -> None:
    function, a = DERIVATIVES[name]
    along = np.random.default_rng(5).normal(size=a.shape)
    (_, tangent), gradient = aj.jvp(function, (a,), (along,)), aj.grad(function)(a)
    np.testing.assert_allclose(tangent, np.sum(gradient * along), rtol=1e-9)


def test_nan_is_nan() -> None:
    a = np.full((3, 3), np.nan)
    for result in leaves(aj.compile(lambda a: (np.linalg.svd(a), np.linalg.svd(a, compute_uv=False), np.linalg.eigvalsh(a)))(a)):
        assert np.isnan(result).all()


def test_tensors() -> None:
    x = aj.tensor(TALL, dtype="float64", requires_grad=True)
    function = DERIVATIVES["svd tall"][0]
    function(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), aj.grad(function)(TALL), rtol=1e-9)
    deficient = (TALL[:, :2] @ WIDE[:2]).astype(np.float32)     # 1e-15 keeps what rounding left
    expected = np.linalg.pinv(deficient.astype(float), 1e-5)
    for found in (np.linalg.pinv(aj.tensor(deficient)).numpy(), aj.compile(lambda a: np.linalg.pinv(a, rtol=None))(deficient)):
        np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("function", [np.linalg.svd, np.linalg.qr, np.linalg.eigvalsh, np.linalg.pinv])
def test_vmap(function: Function) -> None:
    a = STACK[:, :, :3]
    for found, expected in zip(leaves(aj.vmap(function)(a)), leaves(function(a)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda a: np.linalg.eigh(a[:2]), ShapeError, "eigh: the shape"),
    (lambda a: np.linalg.svd(a[0]), ShapeError, "svd: an array of shape"),
    (lambda a: np.linalg.eigh(a, "X"), ValueError, "UPLO"),
    (aj.grad(lambda a: np.sum(np.linalg.qr(a, "raw")[0])), NonDifferentiableError, "no derivative rule"),
    (lambda a: np.linalg.qr(a, "x"), ValueError, "Unrecognized mode"),
    (aj.grad(lambda a: np.sum(np.linalg.svd(a[:2])[2])), UnsupportedError, "have no derivative"),
    (aj.grad(lambda a: np.sum(np.linalg.qr(a[:, :2], "complete")[0])), UnsupportedError, "have no derivative"),
])
def test_what_does_not_fit(function: Function, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.eye(3))


SPECTRA = ([1.0, 2.0, 3.0], [2.0, 2.0, 5.0], [2.0, 2.0, 2.0], [2.0, 2.0 + 1e-9, 2.0001])


def by_vectors(a: Any, fun: Function) -> Any:
    w, v = np.linalg.eigh(a)
    return (v * fun(w)) @ v.T


@pytest.mark.parametrize("values", SPECTRA)
def test_functions_of_symmetric_matrices(values: list[float]) -> None:
    """Derivatives of two orders, with equal eigenvalues and with near ones."""
    def fun(w: Any) -> Any:
        return np.exp(w) + np.log(w)

    q = np.linalg.qr(RANDOM.normal(size=(3, 3))).Q
    a, along, weights = symmetric(q @ np.diag(values) @ q.T) / 2, symmetric(RANDOM.normal(size=(3, 3))), RANDOM.normal(size=(3, 3))

    def function(a: Any) -> Any:
        return np.sum(weights * aj.linalg.matrix_function(a, fun))

    gradient, step = aj.grad(function), 1e-5 * along
    np.testing.assert_allclose(aj.linalg.matrix_function(a, fun), by_vectors(a, fun), rtol=1e-12)
    slope = np.sum(weights * (by_vectors(a + step, fun) - by_vectors(a - step, fun))) / 2e-5
    np.testing.assert_allclose(np.sum(gradient(a) * along), slope, rtol=1e-6, atol=1e-7)
    curvature = np.sum((gradient(a + step) - gradient(a - step)) * along) / 2e-5
    np.testing.assert_allclose(np.sum(aj.hvp(function, (a,), (along,)) * along), curvature, rtol=1e-6, atol=1e-6)


def test_functions_of_matrices_with_parameters() -> None:
    """Mixed derivatives are the same in both orders; from the third one on they are NaN; tiny eigenvalues keep their digits."""
    a = symmetric(SQUARE) / 2

    def function(a: Any, t: Any) -> Any:
        return weighted(aj.linalg.matrix_function(a, lambda w: np.exp(t * w), "U"))

    def both(a: Any, t: Any) -> Any:
        return np.sum(SYMMETRIC * aj.grad(function)(a, t))

    slope = (both(a, 1.3 + 1e-6) - both(a, 1.3 - 1e-6)) / 2e-6
    np.testing.assert_allclose(aj.grad(both, 1)(a, 1.3), slope, rtol=1e-6)
    np.testing.assert_allclose(np.sum(SYMMETRIC * aj.grad(lambda a: aj.grad(function, 1)(a, 1.3))(a)), slope, rtol=1e-6)
    third = aj.grad(lambda a: np.sum(aj.hvp(lambda a: function(a, 1.3), (a,), (SYMMETRIC,))))
    assert np.isnan(third(a)).any()
    tiny = aj.grad(lambda a: aj.linalg.matrix_function(a, np.log)[0, 1])(np.diag([1e-8, 2e-8, 1.0]))
    np.testing.assert_allclose(tiny[0, 1], np.log(2) / 2e-8, rtol=1e-12)
    assert aj.linalg.matrix_function(np.zeros((2, 0, 0)), np.exp).shape == (2, 0, 0)


def test_functions_of_hermitian_matrices_and_stacks() -> None:
    a = RANDOM.normal(size=(2, 3, 3)) + 1j * RANDOM.normal(size=(2, 3, 3))
    a = a @ np.conjugate(np.swapaxes(a, -1, -2)) + np.eye(3)
    found = aj.compile(lambda a: aj.linalg.matrix_function(a, np.sqrt))(a)
    np.testing.assert_allclose(found @ found, a, rtol=1e-12, atol=1e-12)
    along = a[::-1] * 0.3

    def function(a: Any) -> Any:
        root = aj.linalg.matrix_function(a, np.sqrt)
        return weighted(root.real, root.imag)

    slope = (function(a + 1e-6 * along) - function(a - 1e-6 * along)) / 2e-6
    np.testing.assert_allclose(np.sum(np.conjugate(aj.grad(function)(a)) * along).real, slope, rtol=1e-7)


def test_what_needs_scipy_says_so() -> None:
    code = """
import sys
sys.modules["scipy"] = None
import adjit as aj
for run in (
    lambda x: aj.linalg.lu(x),
    lambda x: aj.linalg.qr(x)[0].sum().backward(),
    lambda x: aj.special.bessel_j0(x),
):
    try:
        run(aj.eye(2, requires_grad=True))
    except NotImplementedError as error:
        assert "SciPy is not installed" in str(error) or "which is not installed" in str(error), error
        assert "pip install 'adjit[scipy]'" in str(error) and error.location.function == "<lambda>", error
    else:
        raise AssertionError(run)
"""
    subprocess.run([sys.executable, "-c", code], check=True)
