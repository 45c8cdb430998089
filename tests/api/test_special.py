"""adjit.special and the ufuncs of scipy.special: against SciPy, on plain arrays, compiled and on tensors; and their derivatives."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import scipy.special
from support.tracing import run_traced

import adjit as aj

UNIT = np.array([1e-3, 0.1, 0.3, 0.5, 0.75, 0.9, 0.999])
POSITIVE = np.array([1e-3, 0.2, 0.5, 1.0, 1.5, 2.0, 3.7, 8.0, 20.0, 60.0])
SIGNED = np.array([-5.3, -2.5, -1.4, -0.6, -1e-3, 0.0, 1e-3, 0.6, 1.4, 2.5, 5.3])
EDGES = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 700.0, -700.0])

UNARY = {
    "erf": SIGNED, "erfc": SIGNED, "erfcx": SIGNED, "erfinv": np.concatenate([UNIT, -UNIT]), "ndtr": SIGNED, "log_ndtr": SIGNED,
    "expit": SIGNED, "logit": UNIT, "log_expit": SIGNED, "entr": POSITIVE, "gammaln": np.concatenate([POSITIVE, SIGNED]),
    "gammasgn": SIGNED, "gamma": np.concatenate([POSITIVE, SIGNED]), "rgamma": np.concatenate([POSITIVE, SIGNED]),
    "psi": np.concatenate([POSITIVE, SIGNED]), "i0": SIGNED, "i0e": SIGNED, "i1": SIGNED, "i1e": SIGNED,
    "exp2": SIGNED, "exp10": SIGNED, "expm1": SIGNED, "log1p": POSITIVE, "cbrt": SIGNED,
}
BINARY = {
    "xlogy": (POSITIVE, POSITIVE[::-1]), "xlog1py": (POSITIVE, POSITIVE[::-1]), "rel_entr": (POSITIVE, POSITIVE[::-1]),
    "kl_div": (POSITIVE, POSITIVE[::-1]), "boxcox": (POSITIVE[:6], SIGNED[3:9]), "boxcox1p": (POSITIVE[:6], SIGNED[3:9]),
    "beta": (POSITIVE, POSITIVE[::-1]), "betaln": (POSITIVE, POSITIVE[::-1]), "huber": (np.full(11, 1.5), SIGNED),
    "pseudo_huber": (np.full(11, 1.5), SIGNED),
}


def close(found: object, expected: object, dtype: type = np.float64, factor: float = 1.0) -> None:
    rtol = factor * (2e-13 if dtype is np.float64 else 1e-5)
    np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-15 if dtype is np.float64 else 1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", UNARY)
def test_unary(name: str, dtype: type) -> None:
    ours, theirs = getattr(aj.special, name), getattr(scipy.special, name)
    x = UNARY[name].astype(dtype)
    with np.errstate(over="ignore"):
        expected = theirs(x.astype(np.float64)).astype(dtype)
    for found in (ours(x), run_traced(theirs, x), aj.compile(lambda x: ours(x))(x), theirs(aj.tensor(x)).numpy()):
        assert found.dtype == dtype
        close(found, expected, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", BINARY)
def test_binary(name: str, dtype: type) -> None:
    ours, theirs = getattr(aj.special, name), getattr(scipy.special, name)
    a, b = (array.astype(dtype) for array in BINARY[name])
    expected = theirs(a.astype(np.float64), b.astype(np.float64))
    compiled = aj.compile(lambda a, b: ours(a, b))
    for found in (ours(a, b), run_traced(theirs, a, b), compiled(a, b), theirs(aj.tensor(a), aj.tensor(b)).numpy()):
        assert found.dtype == dtype
        close(found, expected, dtype)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", sorted(set(UNARY) - {"gammasgn", "gamma", "rgamma"}))
def test_edges(name: str) -> None:
    expected = getattr(scipy.special, name)(EDGES)
    if name == "gammaln":
        expected = np.where(np.isinf(EDGES), np.inf, expected)
    np.testing.assert_allclose(getattr(aj.special, name)(EDGES), expected, rtol=1e-12, err_msg=name)


def test_gamma_at_edges() -> None:
    x = np.array([0.0, -0.0, -1.0, -2.0, np.inf, np.nan, 171.6, 172.0])
    expected = [np.inf, -np.inf, np.nan, np.nan, np.inf, np.nan, scipy.special.gamma(171.6), np.inf]
    np.testing.assert_allclose(aj.special.gamma(x), expected, rtol=1e-12)
    np.testing.assert_array_equal(aj.special.rgamma(x[:6]), [0.0, -0.0, 0.0, 0.0, 0.0, np.nan])


@pytest.mark.parametrize("name", [name for name in UNARY if name != "gammasgn"])
def test_derivative(name: str) -> None:
    """Against central differences of our own values, which are right to about 1e-15."""
    function = getattr(aj.special, name)
    x = UNARY[name]
    x = x[(abs(x) > 0.05) & (abs(x) < (0.95 if name in ("erfinv", "logit") else 30))]
    h = 1e-5 * np.maximum(1, abs(x)) * np.minimum(1, abs(x))
    slope = (function(x + h) - function(x - h)) / (2 * h)
    np.testing.assert_allclose(aj.grad(lambda x: np.sum(function(x)))(x), slope, rtol=2e-6, atol=1e-9)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("position", [0, 1])
def test_derivatives_of_functions_of_two(name: str, position: int) -> None:
    if name == "huber" and position == 0:
        return   # constant in delta for small residuals: nothing to measure
    function = getattr(aj.special, name)
    arrays = [array[2:-2] for array in BINARY[name]]
    h = np.zeros_like(arrays[0]) + 1e-6
    moved = [[array + sign * h if i == position else array for i, array in enumerate(arrays)] for sign in (1, -1)]
    slope = (function(*moved[0]) - function(*moved[1])) / (2 * h)
    found = aj.grad(lambda *arrays: np.sum(function(*arrays)), argnums=position)(*arrays)
    np.testing.assert_allclose(found, slope, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("order", range(6))
def test_polygamma(order: int) -> None:
    x = np.array([0.01, 0.5, 1.0, 3.3, 12.0, 150.0])
    np.testing.assert_allclose(aj.special.polygamma(order, x), scipy.special.polygamma(order, x), rtol=1e-13)
    below = np.array([-0.3, -1.6, -2.5, -7.2])
    shifted = below + 10    # polygamma(n, x) = polygamma(n, x + 1) - (-1)^n n! / x^(n + 1)
    steps = sum((-1) ** order * scipy.special.factorial(order) / (below + k) ** (order + 1) for k in range(10))
    np.testing.assert_allclose(aj.special.polygamma(order, below), scipy.special.polygamma(order, shifted) - steps, rtol=1e-11, atol=1e-11)
    slope = aj.grad(lambda x: np.sum(aj.special.polygamma(order, x)))(x)
    np.testing.assert_allclose(slope, scipy.special.polygamma(order + 1, x), rtol=1e-12)


def test_polygamma_refuses_orders_that_are_no_integers() -> None:
    for order in (-1, 0.5):
        with pytest.raises(NotImplementedError, match="order"):
            aj.special.polygamma(order, 1.0)


def test_boxcox_near_the_logarithm() -> None:
    """With p = 0: log(x), log(x)^2 / 2, log(x)^3 / 3 are the value and its derivatives in p."""
    function = aj.special.boxcox
    assert function(2.0, 0.0) == np.log(2.0)
    first = aj.grad(function, argnums=1)
    second = aj.grad(first, argnums=1)
    for p in (0.0, 1e-12, -1e-5):
        assert first(2.0, p) == pytest.approx(np.log(2) ** 2 / 2, rel=1e-4)
        assert second(2.0, p) == pytest.approx(np.log(2) ** 3 / 3, rel=1e-4)
    assert first(2.0, 0.0) == pytest.approx(np.log(2) ** 2 / 2, rel=1e-15)
    x, p = np.array([0.0, 0.0, 0.0, 5.0]), np.array([0.0, 2.0, -1.0, 1e-9])
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(function(x, p), scipy.special.boxcox(x, p), rtol=1e-15)


def test_log_ndtr_far_out() -> None:
    x = np.array([-1e5, -300.0, -38.0, -5.0, 0.0, 5.0, 38.0])
    np.testing.assert_allclose(aj.special.log_ndtr(x), scipy.special.log_ndtr(x), rtol=1e-14, atol=1e-300)
    slope = aj.grad(lambda x: np.sum(aj.special.log_ndtr(x)))(x)
    np.testing.assert_allclose(slope, np.sqrt(2 / np.pi) / scipy.special.erfcx(-x * np.sqrt(0.5)), rtol=1e-12, atol=1e-300)


def test_derivative_of_erfcx_keeps_its_digits() -> None:
    """-1 / (sqrt(pi) x^2) (1 - 3 / (2 x^2) + ...), of which the difference of two large terms would leave nothing."""
    for dtype, rtol in ((np.float32, 2e-5), (np.float64, 2e-12)):
        x = np.array([6, 9, 61, 1e3, 1e6], dtype)
        v = 1 / (2 * x.astype(np.longdouble) ** 2)
        series = -(1 - 3 * v + 15 * v**2 - 105 * v**3 + 945 * v**4 - 10395 * v**5 + 135135 * v**6) * 2 * v / np.sqrt(np.pi)
        wanted = np.array([*series.astype(np.float64)])
        found = aj.grad(lambda x: np.sum(aj.special.erfcx(x)))(x)
        np.testing.assert_allclose(found[2:], wanted[2:], rtol=rtol)
        np.testing.assert_allclose(found[:2], wanted[:2], rtol=1e-4)


def test_bessel_functions_grow_until_they_overflow() -> None:
    x = np.array([600.0, 700.0, 709.0, 712.0, 713.9, -713.9])
    growth = np.exp(abs(x.astype(np.longdouble)))
    np.testing.assert_allclose(aj.special.i0(x), (growth * scipy.special.i0e(x)).astype(np.float64), rtol=1e-13)
    np.testing.assert_allclose(aj.special.i1(x), (growth * scipy.special.i1e(x)).astype(np.float64), rtol=1e-13)
    assert aj.special.i0(720.0) == np.inf


def test_integers_and_python_numbers() -> None:
    assert aj.special.gammaln(5) == pytest.approx(np.log(24))
    assert aj.special.gammaln(np.array([3])).dtype == np.float64
    assert aj.special.xlogy(np.float32(2), 3.0).dtype == np.float64
    assert aj.special.digamma is aj.special.psi
    assert aj.special.multigammaln(4.0, 3) == pytest.approx(scipy.special.multigammaln(4.0, 3))


MATRIX = np.array([[0.5, -1.0, 2.0], [1000.0, 1.0, 0.0]])
FACTORS = {"none": None, "number": 2.5, "negative": -1.0, "array": np.array([[1.0, -2.0, 0.5], [0.0, 3.0, -1.0]]),
           "row": np.array([2.0, 0.0, 1.0]), "column": np.array([[1], [3]]), "larger": np.arange(12.0).reshape(2, 2, 3)}


@pytest.mark.share(3)
@pytest.mark.parametrize("return_sign", [False, True])
@pytest.mark.parametrize("name", FACTORS)
def test_logsumexp_has_the_arguments_of_scipy(name: str, return_sign: bool) -> None:
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            arguments = (axis, FACTORS[name], keepdims, return_sign)
            with np.errstate(all="ignore"):
                expected = scipy.special.logsumexp(MATRIX, *arguments)
            for found in (aj.special.logsumexp(MATRIX, *arguments), run_traced(lambda x, a=arguments: aj.special.logsumexp(x, *a), MATRIX)):
                pairs = zip(found, expected, strict=True) if return_sign else [(found, expected)]
                for result, want in pairs:
                    assert np.shape(result) == np.shape(want)
                    np.testing.assert_allclose(result, want, rtol=1e-13)


def test_factors_of_logsumexp_at_the_edges() -> None:
    """The factor 0 hides what it belongs to, and still has a derivative; sums of 0 and below."""
    x, b = np.array([np.inf, 1e6, np.nan, 2.0, 3.0]), np.array([0.0, 0.0, 0.0, 1.0, 2.0])
    assert aj.special.logsumexp(x, b=b) == pytest.approx(scipy.special.logsumexp(x, b=b))
    of_x = aj.grad(lambda x: aj.special.logsumexp(x, b=b))(x)
    np.testing.assert_allclose(of_x, [0.0, 0.0, 0.0, *(b[3:] * np.exp(x[3:]) / np.sum(b[3:] * np.exp(x[3:])))])
    of_b = aj.grad(lambda b: aj.special.logsumexp(np.array([1.0, 2.0, 3.0]), b=b))(np.array([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(of_b, np.exp([1.0, 2.0, 3.0]) / (np.exp(2.0) + 2 * np.exp(3.0)))
    for a, b in (([1.0, 1.0], [1.0, -1.0]), ([1.0, 2.0], [1.0, -1.0]), ([-np.inf, -np.inf], [1.0, 2.0]), ([np.inf, 1.0], [-1.0, 1.0])):
        a, b = np.array(a), np.array(b)
        with np.errstate(all="ignore"):
            np.testing.assert_equal(aj.special.logsumexp(a, b=b), scipy.special.logsumexp(a, b=b).round(15))
            np.testing.assert_allclose(aj.special.logsumexp(a, b=b, return_sign=True), scipy.special.logsumexp(a, b=b, return_sign=True))
    with pytest.raises(ValueError, match="logsumexp"):
        aj.special.logsumexp(MATRIX, b=np.ones(2))
    assert aj.special.logsumexp(np.float32([1, 2]), b=np.float32([1, 2])).dtype == np.float32


@pytest.mark.parametrize("name", ["softmax", "log_softmax"])
def test_softmax_is_over_all_elements_as_in_scipy(name: str) -> None:
    ours, theirs = getattr(aj.special, name), getattr(scipy.special, name)
    for axis in ((), (None,), (0,), (-1,), ((0, 1),)):
        np.testing.assert_allclose(ours(MATRIX, *axis), theirs(MATRIX, *axis), rtol=1e-13)
        np.testing.assert_allclose(aj.compile(lambda x, axis=axis: ours(x, *axis))(MATRIX), theirs(MATRIX, *axis), rtol=1e-13)
    assert getattr(aj.numpy, name) is ours
    rows = getattr(aj.nn.functional, name)(MATRIX)      # PyTorch's own
    np.testing.assert_allclose(rows, theirs(MATRIX, -1), rtol=1e-13)
    np.testing.assert_allclose(getattr(aj.tensor(MATRIX), name)(-1).numpy(), rows, rtol=1e-13)


def test_tensors_know_them() -> None:
    x = aj.tensor([0.5, 2.5], requires_grad=True)
    y = x.lgamma()
    assert y.grad_fn.name() == "LgammaBackward0"
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), scipy.special.psi([0.5, 2.5]), rtol=1e-6)
    assert x.erfc().grad_fn.name() == "ErfcBackward0"
    assert aj.special.polygamma(2, x).grad_fn is not None


def test_all_names_are_there() -> None:
    for name in dir(aj.special):
        assert callable(getattr(aj.special, name))
    assert {*UNARY, *BINARY, *aj.special.__all__} <= {*dir(aj.special)}
    with pytest.raises(AttributeError, match=r"scipy\.special\.obl_cv has no rule"):
        _ = aj.special.obl_cv


def test_loaded_on_demand() -> None:
    code = "import sys, adjit; assert 'adjit.special' not in sys.modules; adjit.special.erf(0.5); assert 'scipy' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


ARRAY_API = """
import numpy as np, scipy.special, adjit as aj, adjit.scipy.special
x, rate = np.array([0.5, 2.5]), np.array([1.5, 3.0])
assert type(scipy.special.gammaln).__name__ == "function"       # SciPy's dispatch is on
for name in ("gammaln", "expit", "erf", "ndtr", "log_ndtr", "logit", "psi", "i0e", "entr"):
    function = getattr(scipy.special, name)
    plain = np.array([0.25, 0.5])
    np.testing.assert_allclose(aj.compile(lambda x: function(x))(plain), function(plain), rtol=1e-12)
    named = getattr(adjit.scipy.special, name)
    np.testing.assert_allclose(aj.compile(lambda x: named(x))(plain), function(plain), rtol=1e-12)
assert aj.compile(lambda x: scipy.special.gammaln(x))(0.5).shape == ()
np.testing.assert_allclose(aj.compile(lambda x: scipy.special.xlogy(rate, x))(x), rate * np.log(x))     # beside a plain array
np.testing.assert_allclose(aj.grad(lambda x: np.sum(scipy.special.xlogy(2.0, x)))(x), 2.0 / x)
tensor = aj.tensor(x, requires_grad=True)
scipy.special.xlogy(rate, tensor).sum().backward()
np.testing.assert_allclose(tensor.grad.numpy(), rate / x)
assert x.__array_namespace__() is np
try:
    aj.compile(lambda x: scipy.special.obl_cv(1.0, 1.0, x))(x)
except aj.errors.AdjitError as error:
    assert "obl_cv" in str(error)
else:
    raise AssertionError
"""


def test_scipy_dispatches_to_them() -> None:
    """With SCIPY_ARRAY_API=1 scipy.special holds functions that ask arrays for their namespace, in place of ufuncs."""
    subprocess.run([sys.executable, "-c", ARRAY_API], check=True, env={**os.environ, "SCIPY_ARRAY_API": "1"})
