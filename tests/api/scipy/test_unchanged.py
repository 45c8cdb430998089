"""SciPy's own functions, distributions, interpolators and sparse arrays in traced functions, called as their users call them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.fft
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.sparse
import scipy.sparse.csgraph
import scipy.sparse.linalg
import scipy.special
import scipy.stats
from scipy.linalg import expm, solve_triangular
from scipy.spatial.distance import cdist
from support.each import for_each

import adjit as aj
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.tracer.scipy_functions import scipy_functions

X = np.linspace(0.1, 1.3, 6)
M = np.array([[2.0, 0.3, 0.1], [0.2, 1.5, -0.4], [-0.3, 0.6, 1.1]])
KNOTS = np.linspace(0.0, 2.0, 7)
VALUES = np.sin(3.0 * KNOTS)
DENSE = np.where(np.arange(24.0).reshape(4, 6) % 3 == 0, np.arange(24.0).reshape(4, 6) - 7.5, 0.0)
STIFFNESS = scipy.sparse.diags_array([[-1.0] * 5, [2.5] * 6, [-0.7] * 5], offsets=[-1, 0, 1], format="csc")

FUNCTIONS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "expm": (lambda x: expm(x), M),
    "solve_triangular": (lambda x: solve_triangular(x, np.ones(3), lower=True), M),
    "cho_solve": (lambda x: scipy.linalg.cho_solve(scipy.linalg.cho_factor(x @ x.T), np.ones(3)), M),
    "block_diag of a list": (lambda x: scipy.linalg.block_diag(x, [[x[0, 0]]]), M),
    "logsumexp": (lambda x: scipy.special.logsumexp(x, axis=0), M),
    "softmax": (lambda x: scipy.special.softmax(x), X),
    "simpson": (lambda x: scipy.integrate.simpson(x, dx=0.3), X),
    "cumulative_trapezoid": (lambda x: scipy.integrate.cumulative_trapezoid(x, initial=0.0), X),
    "fixed_quad": (lambda x: scipy.integrate.fixed_quad(lambda t: np.exp(-x[0] * t), 0, 1, n=4)[0], X),
    "lfilter": (lambda x: scipy.signal.lfilter([1.0, 0.5], [1.0, -0.3], x), X),
    "fftconvolve": (lambda x: scipy.signal.fftconvolve(x, np.ones(3)), X),
    "gaussian_filter": (lambda x: scipy.ndimage.gaussian_filter(x, 1.0), M),
    "rosen": (lambda x: scipy.optimize.rosen(x), X),
    "fft": (lambda x: np.abs(scipy.fft.fft(x)), X),
    "dct": (lambda x: scipy.fft.dct(x), X),
    "cdist": (lambda x: cdist(x, x[:2] + 1.0), M),
    "zscore": (lambda x: scipy.stats.zscore(x), X),
    "norm.logpdf": (lambda x: scipy.stats.norm.logpdf(X, x[0], scale=x[1]), X),
    "gamma.cdf": (lambda x: scipy.stats.gamma.cdf(2.0, x), X),
    "poisson.logpmf": (lambda x: scipy.stats.poisson.logpmf(np.arange(6), x), X),
    "frozen with traced parameters": (lambda x: scipy.stats.t(3.0, loc=x[0]).logpdf(X), X),
    "frozen with plain parameters": (lambda x: scipy.stats.beta(2.0, 3.0).ppf(x / 2.0), X),
    "mean of a distribution": (lambda x: scipy.stats.lognorm.mean(x), X),
    "multivariate_normal": (lambda x: scipy.stats.multivariate_normal.logpdf(X[:3], x[0], M @ M.T), M),
    "frozen multivariate_normal": (lambda x: scipy.stats.multivariate_normal(np.ones(3), M @ M.T).logpdf(x), M),
    "multivariate_normal that holds traced parameters": (
        lambda x: scipy.stats.multivariate_normal(x[0], cov=x.T @ x, allow_singular=True).logpdf(M), M),
    "entropy of vectors": (lambda x: scipy.stats.multivariate_normal(cov=x.T @ x).entropy(), M),
    "dirichlet that holds traced parameters": (lambda x: scipy.stats.dirichlet(x**2 + 1).logpdf(np.full(6, 1 / 6)), X),
    "multinomial that holds traced parameters": (lambda x: scipy.stats.multinomial(6, np.exp(x) / np.exp(x).sum()).logpmf(np.ones(6)), X),
    "median, interval, moments": (lambda x: np.stack(
        [(d := scipy.stats.norm(x, 2.0)).median(), *d.interval(0.9), *d.stats(), d.moment(2), scipy.stats.expon.median(x, 2.0)]), X),
    "support": (lambda x: np.stack([*scipy.stats.beta(2.0, 3.0, loc=x).support(), *scipy.stats.uniform.support(x, 2.0)]), X),
    "CubicSpline at traced places": (lambda x: scipy.interpolate.CubicSpline(KNOTS, VALUES)(x), X),
    "CubicSpline of traced values": (lambda x: scipy.interpolate.CubicSpline(X, x**2)(0.7), X),
    "integral of a spline": (lambda x: scipy.interpolate.PchipInterpolator(KNOTS, VALUES).integrate(0.0, x[2]), X),
    "derivative of a spline": (lambda x: scipy.interpolate.make_interp_spline(KNOTS, VALUES).derivative()(x), X),
    "B-spline of traced coefficients": (lambda x: np.stack([
        (s := scipy.interpolate.BSpline(np.arange(-3.0, 7.0), x, 3)).integrate(0.2, x[1]), s.derivative()(0.7), s.antiderivative(2)(x[2]),
        scipy.interpolate.BSpline(np.arange(-3.0, 7.0), x, 3, extrapolate=False).integrate(-9.0, 9.0)]), X),
    "UnivariateSpline": (lambda x: np.stack([(s := scipy.interpolate.UnivariateSpline(KNOTS, VALUES, s=0.1))(x), s(x, 1), s(4 * x, ext=1),
                                             s(9 * x, ext="const"), s.derivative()(x)]), X),
    "splev": (lambda x: np.stack([scipy.interpolate.splev(x, (t := scipy.interpolate.splrep(KNOTS, VALUES))),
                                  scipy.interpolate.splev(9 * x, t, der=1, ext=3)]), X),
    "a spline of two variables": (lambda x: np.stack([
        (s := scipy.interpolate.RectBivariateSpline(KNOTS, KNOTS, np.outer(VALUES, VALUES**2), kx=2)).ev(x, x[::-1]),
        s(x, [0.3, 9.0])[:, 0], s.ev(x, x, dx=1)]), X),
    "gaussian_kde": (lambda x: np.stack([(k := scipy.stats.gaussian_kde(VALUES, weights=KNOTS + 1))(x), k.logpdf(x)]), X),
    "RegularGridInterpolator": (
        lambda x: scipy.interpolate.RegularGridInterpolator((KNOTS, KNOTS), np.outer(VALUES, VALUES))(x.reshape(3, 2)), X),
    **{f"interp1d {kind}": (lambda x, kind=kind: scipy.interpolate.interp1d(
        KNOTS, np.outer([1.0, 2.0], VALUES), kind, fill_value="extrapolate")(x + 1.0), X)
       for kind in ("linear", "nearest", "previous", "zero", "quadratic", "cubic")},
    **{f"sparse {form}": (lambda x, form=form: scipy.sparse.csr_array(DENSE).asformat(form) @ x, X)
       for form in ("csr", "csc", "coo", "dia", "bsr")},
    "sparse times matrix": (lambda x: scipy.sparse.csr_array(DENSE) @ np.stack([x, x**2], axis=1), X),
    "matrix times sparse": (lambda x: np.stack([x, x**2]) @ scipy.sparse.csr_array(DENSE).T, X),
    "sparse matrix": (lambda x: scipy.sparse.csr_matrix(DENSE) * x, X),
    "dot": (lambda x: scipy.sparse.csc_array(DENSE).dot(x), X),
    "transposed": (lambda x: scipy.sparse.csr_array(DENSE).T @ x[:4], X),
    "spsolve": (lambda x: scipy.sparse.linalg.spsolve(STIFFNESS, x), X),
}


def check(function: Callable[[Any], Any], x: np.ndarray) -> None:
    expected = function(x)
    np.testing.assert_allclose(aj.compile(function, backend="interpret")(x), expected, rtol=1e-11, atol=1e-13)
    direction = np.cos(np.arange(x.size)).reshape(x.shape)
    found = np.sum(aj.grad(lambda x: np.sum(function(x)))(x) * direction)
    h = 1e-6
    np.testing.assert_allclose(found, np.sum(function(x + h * direction) - function(x - h * direction)) / (2 * h), rtol=2e-6, atol=1e-7)


def test_functions_take_traced_arrays() -> None:
    for_each(FUNCTIONS, check, share=3)


def test_natively_in_one_program() -> None:
    spline = scipy.interpolate.CubicSpline(KNOTS, VALUES)
    matrix = scipy.sparse.csr_array(DENSE)

    def loss(x: Any) -> Any:
        rate = scipy.special.logsumexp(spline(x))
        return -scipy.stats.norm.logpdf(matrix @ x, loc=rate).sum() + scipy.integrate.trapezoid(x)

    step = aj.compile(aj.value_and_grad(loss))
    value, gradient = step(X)
    np.testing.assert_allclose(value, loss(X), rtol=1e-13)
    for index in range(X.size):
        h = np.zeros(X.size)
        h[index] = 1e-6
        np.testing.assert_allclose(gradient[index], (loss(X + h) - loss(X - h)) / 2e-6, rtol=1e-6)


def test_tensors_in_compiled_steps() -> None:
    @aj.compile
    def loss(t: Any) -> Any:
        return expm(t).sum() + scipy.stats.norm.logpdf(t).sum()

    t = aj.tensor(M, requires_grad=True)
    value = loss(t)
    value.backward()
    expected = lambda x: np.sum(expm(x)) + np.sum(scipy.stats.norm.logpdf(x))       # noqa: E731
    np.testing.assert_allclose(value.item(), expected(M), rtol=1e-12)
    np.testing.assert_allclose(t.grad.numpy(), aj.grad(expected)(M), rtol=1e-12)


def test_sparse_products_have_scipys_bits() -> None:
    x = np.sin(np.arange(12.0) * 7.0).reshape(6, 2)
    for form in ("csr", "csc", "coo", "dia", "bsr"):
        matrix = scipy.sparse.csr_array(np.sin(DENSE) * (DENSE != 0)).asformat(form)
        product = aj.compile(lambda x: matrix @ x)      # noqa: B023
        np.testing.assert_array_equal(product(x), matrix @ x)
        np.testing.assert_array_equal(aj.compile(lambda x: x.T @ matrix.T)(x), x.T @ matrix.T)     # noqa: B023


def test_second_derivatives_of_a_sparse_system() -> None:
    inverse = np.linalg.inv(STIFFNESS.toarray())
    energy = lambda b: np.sum(scipy.sparse.linalg.spsolve(STIFFNESS, b) ** 2)      # noqa: E731
    np.testing.assert_allclose(aj.hessian(energy)(X), 2.0 * inverse.T @ inverse, rtol=1e-12)


CHANGED: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any], Callable[[Any], Any]]] = {
    "coefficients, in place": (lambda: scipy.interpolate.CubicSpline(KNOTS, VALUES), lambda f, x: f(x), lambda f: f.c.__imul__(2.0)),
    "coefficients": (lambda: scipy.interpolate.CubicSpline(KNOTS, VALUES), lambda f, x: f(x), lambda f: setattr(f, "c", f.c * 2.0)),
    "values on a grid": (lambda: scipy.interpolate.RegularGridInterpolator((KNOTS,), VALUES.copy()), lambda f, x: f(x[:, None]),
                         lambda f: f.values.__iadd__(1.0)),
    "a table": (lambda: scipy.interpolate.interp1d(KNOTS, VALUES), lambda f, x: f(x), lambda f: f.y.__imul__(3.0)),
    "parameters": (lambda: scipy.stats.norm(1.0, 2.0), lambda d, x: d.logpdf(x), lambda d: setattr(d, "args", (0.0, 1.0))),
    "elements": (lambda: scipy.sparse.csr_array(DENSE), lambda A, x: A @ x, lambda A: A.data.__imul__(3.0)),
    "a pattern": (lambda: scipy.sparse.csr_array(DENSE), lambda A, x: A @ x, lambda A: A.indices.__setitem__(0, 5)),
    "diagonals": (lambda: scipy.sparse.dia_array(DENSE), lambda A, x: A @ x, lambda A: A.data.__imul__(3.0)),
}


def test_objects_that_change_are_read_again() -> None:
    def check(make: Callable[[], Any], use: Callable[[Any, Any], Any], change: Callable[[Any], Any]) -> None:
        held = make()
        function = aj.compile(lambda x: use(held, x), backend="interpret")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            before = function(X)
        np.testing.assert_allclose(before, use(held, X), rtol=1e-13)
        change(held)
        np.testing.assert_allclose(function(X), use(held, X), rtol=1e-13)
        assert not np.array_equal(function(X), before)

    for_each(CHANGED, check)


def test_distributions_by_their_names_do_not_change() -> None:
    norm, families = scipy.stats.norm, {"vectors": scipy.stats.multivariate_normal}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aj.compile(lambda x: norm.logpdf(x) + families["vectors"].logpdf(x, cov=np.eye(X.size)), backend="interpret")(X)


def test_distributions_without_a_rule_say_so() -> None:
    for function in (lambda x: scipy.stats.nct.logpdf(x, 3, 1.0), lambda x: scipy.stats.nct(3, 1.0).logpdf(x),
                     lambda x: scipy.stats.nct(3, x).logpdf(1.0)):
        with pytest.raises(UnsupportedError, match=r"scipy\.stats\.nct.* has no rule for traced arrays and tensors: a distribution that"):
            aj.compile(function)(X)


@pytest.mark.parametrize(("function", "message"), [
    (lambda x: scipy.sparse.linalg.eigsh(scipy.sparse.diags(x), 2), "sparse arrays of traced elements are made at once"),
    (lambda x: scipy.sparse.csgraph.shortest_path(np.outer(x, x)), "graphs are of plain numbers"),
    (lambda x: scipy.signal.argrelmax(x), r"scipy\.signal\.argrelmax takes plain arrays alone: values decide on the size"),
    (lambda x: scipy.stats.theilslopes(x, x), r"scipy\.stats\.theilslopes takes plain arrays alone: it searches for what fits best"),
])
def test_what_scipy_makes_of_plain_numbers_alone_is_named(function: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(TraceError, match=message):
        aj.compile(function)(X)


def test_objects_whose_changes_are_not_seen_are_warned_about() -> None:
    lists_of_rows = scipy.sparse.lil_array(DENSE)
    with pytest.warns(UserWarning, match=r"names lists_of_rows \(scipy.lil_array\), and adjit cannot see"):
        aj.compile(lambda x: x * lists_of_rows[1, 0], backend="interpret")(X)


def test_results_for_plain_arrays_can_be_written_to() -> None:
    def filled(x: Any) -> Any:
        matrix = scipy.linalg.toeplitz([1.0, 2.0, 3.0])
        matrix[0, 0] = x
        return matrix

    np.testing.assert_array_equal(aj.compile(filled, backend="interpret")(5.0), filled(5.0))


def test_scipy_is_as_it_was() -> None:
    codes = {name: vars(scipy.linalg)[name].__code__ for name in ("expm", "solve", "toeplitz")}
    with scipy_functions():
        assert scipy.linalg.solve.__code__ is not codes["solve"]
        with scipy_functions():
            assert scipy.linalg.expm(np.zeros((2, 2))).tolist() == [[1.0, 0.0], [0.0, 1.0]]
        assert scipy.linalg.solve.__code__ is not codes["solve"]
    assert codes == {name: vars(scipy.linalg)[name].__code__ for name in codes}


REFUSED: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda x: scipy.integrate.quad(lambda t: np.exp(-x[0] * t), 0, 1)[0], "quad calls a Python function", "fixed_quad"),
    (lambda x: scipy.optimize.brentq(lambda t: t**3 - x[0], 0, 3), "brentq calls a Python function", "adjit.solve.root"),
    (lambda x: scipy.integrate.odeint(lambda y, t: -x[0] * y, 1.0, [0, 1]), "odeint calls a Python function", "adjit.ode.solve_ivp"),
    (lambda x: scipy.optimize.minimize(lambda t: (t - x[0]) ** 2, 0.0).x, "minimize calls a Python function", "adjit.solve.bfgs"),
    (lambda x: scipy.sparse.lil_array(DENSE) @ x, "in the format lil", "tocsr"),
]


@pytest.mark.parametrize(("function", "message", "hint"), REFUSED)
def test_what_is_refused(function: Callable[[Any], Any], message: str, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=message) as caught:
        aj.grad(lambda x: np.sum(function(x)))(X)
    assert hint in (caught.value.hint or "")
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_unchanged.py")
