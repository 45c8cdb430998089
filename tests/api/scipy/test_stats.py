"""Distributions against those of `scipy.stats`: values in the support, at its edges and outside, quantiles, moments, bad parameters;
derivatives against central differences."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import scipy.stats
from support.each import parametrize_within

import adjit as aj
import adjit.scipy.stats as stats
from adjit.errors import NonDifferentiableError, UnsupportedError
from adjit.scipy.stats import distribution
from adjit.scipy.stats.shapes import SHAPES as WITH_SKEWNESS

pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]



@pytest.fixture(autouse=True)
def by_our_own_code(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Plain arrays are SciPy's, which these tests compare with."""
    if "plain" not in request.node.name:
        monkeypatch.setattr(distribution, "scipys_function", lambda *_: None)


SHAPES: dict[str, tuple[float, ...]] = {
    "t": (3.5,), "skewnorm": (2.0,), "exponnorm": (1.5,), "gennorm": (1.3,), "johnsonsu": (0.5, 1.7), "loggamma": (1.7,),
    "laplace_asymmetric": (2.0,), "genextreme": (0.3,), "vonmises": (2.0,), "beta": (2.3, 0.6), "powerlaw": (1.7,), "triang": (0.3,),
    "truncnorm": (-1.0, 2.0), "loguniform": (0.5, 3.0), "reciprocal": (0.5, 3.0), "johnsonsb": (0.5, 1.7), "truncexpon": (2.5,),
    "gamma": (2.5,), "erlang": (2.0,), "chi2": (3.0,), "chi": (3.0,), "lognorm": (0.7,), "weibull_min": (1.7,), "weibull_max": (1.7,),
    "invweibull": (2.3,), "pareto": (2.7,), "lomax": (2.5,), "genpareto": (0.2,), "fisk": (2.5,), "burr12": (2.0, 3.0), "invgamma": (3.0,),
    "invgauss": (0.7,), "f": (3.0, 5.0), "betaprime": (2.0, 3.5), "gengamma": (2.0, 1.5), "gompertz": (0.7,), "exponweib": (2.0, 1.5),
    "ncx2": (3.0, 2.0), "nakagami": (1.7,), "bernoulli": (0.3,), "binom": (7, 0.4), "poisson": (2.5,), "geom": (0.3,),
    "nbinom": (3.5, 0.4), "betabinom": (7, 2.0, 3.0), "hypergeom": (20, 7, 12), "randint": (2, 9), "zipf": (2.5,), "logser": (0.6,),
    "dlaplace": (0.8,), "planck": (0.5,), "foldnorm": (1.3,), "foldcauchy": (1.3,), "rice": (1.3,), "dgamma": (1.7,), "dweibull": (1.7,),
    "genlogistic": (1.7,), "loglaplace": (2.7,), "bradford": (1.7,), "burr": (2.3, 1.4), "mielke": (2.3, 3.4), "exponpow": (1.7,),
    "fatiguelife": (0.7,), "powernorm": (1.7,), "skewcauchy": (0.3,), "halfgennorm": (1.7,), "kappa3": (1.7,), "truncpareto": (1.7, 4.0)}
NAMES = [name for name in stats.__all__ if hasattr(getattr(stats, name), "ppf")]
DISCRETE = {name for name in NAMES if hasattr(getattr(stats, name), "pmf")}
POINTS = np.array([-30, -3, -1, -0.3, 0, 0.1, 0.5, 1, 1.3, 2.0, 3.3, 20, np.nan])
WHOLE = np.array([-3, -1, 0, 0.5, 1, 2, 3, 4.5, 7, 8, 12, 30, np.nan])
SHARES = np.array([-0.1, 0, 1e-9, 0.01, 0.3, 0.5, 0.77, 0.999, 1, 1.2, np.nan])
FURTHER = {("gompertz", "logsf"), ("moyal", "logpdf"), ("skewnorm", "logcdf"), ("exponpow", "logsf"), ("genlogistic", "isf"),
           ("kappa3", "isf"), ("skewcauchy", "ppf"), ("skewcauchy", "isf"),
           ("powernorm", "ppf"), *((name, "isf") for name in (
               "ncx2", "invgauss", "wald", "exponnorm", "skewnorm", "foldcauchy", "foldnorm"))}
"""Where one of both has digits left and the other none."""
NOT_CLOSED = {"betabinom cdf", "hypergeom cdf", "logser cdf", "zipf ppf"}


OF_KERNELS = {"ncx2": (4, 0), "truncnorm": (1, 2), "zipf": (1, 2)}
"""Kernels over the data of a log density that is SciPy's, and of gradients that take more than one."""


def kernels(f: Any) -> int:
    """Number of steps of a program over the data x, of 1,000 elements, and over what is made of them."""
    of_data, count = {"%x"}, 0
    for line in f.ir("planned").splitlines():
        if line.startswith("  %"):
            results, op = line.split(" = ", 1)
            arrays = {name for name, _ in re.findall(r"(%[\w.]+): \w+(\[1000\])", results)}
            if arrays or of_data & set(re.findall(r"%[\w.]+", op.split("{")[0])):
                of_data |= arrays
                count += 1
    return count


@parametrize_within("name", NAMES)
def test_log_densities_and_their_gradients_are_one_kernel(name: str, exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("tests/api/test_stats_module.py has some: all with --exhaustive")
    density = getattr(getattr(stats, name), "logpmf" if name in DISCRETE else "logpdf")
    x = np.arange(1000.0) % 5 if name in DISCRETE else np.linspace(0.11, 0.93, 1000)
    shapes = SHAPES.get(name, ())
    value = aj.compile(lambda shapes, x: np.sum(density(x, *shapes)))
    value(shapes, x)
    of_value, of_gradient = OF_KERNELS.get(name, (1, 1))
    assert kernels(value) == of_value
    if of_gradient and any(isinstance(shape, float) for shape in shapes):
        gradient = aj.compile(aj.value_and_grad(lambda shapes, x: np.sum(density(x, *shapes))))
        gradient(tuple(map(float, shapes)), x)
        assert kernels(gradient) == of_gradient


def functions(name: str) -> tuple[str, ...]:
    return getattr(stats, name).of_variable


@parametrize_within("name", NAMES, share=2)
def test_values_are_those_of_scipy(name: str) -> None:
    ours, theirs, shapes = getattr(stats, name), getattr(scipy.stats, name), SHAPES.get(name, ())
    for function in functions(name):
        x = SHARES if function in ("ppf", "isf") else WHOLE if name in DISCRETE else POINTS
        places = ((), (1,)) if name in DISCRETE else ((), (0.5, 2.0))
        for place in places[:1] if function in ours.with_loops else places:
            expected = getattr(theirs, function)(x, *shapes, *place)
            try:
                found = getattr(ours, function)(x, *shapes, *place)
            except UnsupportedError:
                group = "ppf" if function in ("ppf", "isf") else "cdf"
                assert NOT_CLOSED & {f"{name} {group}", f"{name} cdf"}, function
                continue
            if (name, function) in FURTHER:
                both = np.isfinite(expected) & np.isfinite(found) & (expected > -20) & (np.abs(x) > 1e-6)
                found, expected = found[both], expected[both]
            np.testing.assert_allclose(found, expected, rtol=2e-10, atol=1e-13, err_msg=function)


@parametrize_within("name", NAMES, share=2)
def test_moments_are_those_of_scipy(name: str) -> None:
    ours, theirs, shapes = getattr(stats, name), getattr(scipy.stats, name), SHAPES.get(name, ())
    place = (np.arange(3),) if name in DISCRETE else (np.arange(3) + 0.5, 2.0)
    for moment in ("mean", "var", "std", "entropy", "median", "support", "stats"):
        try:
            found = getattr(ours, moment)(*shapes, *place)
        except UnsupportedError:
            continue
        np.testing.assert_allclose(found, getattr(theirs, moment)(*shapes, *place), rtol=1e-9, err_msg=moment)


def test_skewness_and_kurtosis_are_those_of_scipy() -> None:
    """And with them moments of third and fourth order; derivatives are those of differences."""
    for name in WITH_SKEWNESS:
        ours, theirs, given = getattr(stats, name), getattr(scipy.stats, name), SHAPES.get(name, ())
        if name in ("t", "pareto", "invgamma"):
            np.testing.assert_allclose(ours.stats(*given, moments="sk"), theirs.stats(*given, moments="sk"), rtol=1e-10)
            given = (6.5,)
        place = (2.0,) if name in DISCRETE else (0.5, 2.0)
        expected = *theirs.stats(*given, *place, moments="mvsk"), *(theirs.moment(order, *given, *place) for order in (0, 3, 4))
        found = *ours.stats(*given, *place, moments="mvsk"), *(ours.moment(order, *given, *place) for order in (0, 3, 4))
        np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-13, err_msg=name)
    slope = aj.compile(aj.grad(lambda a: stats.beta(a, 2.0, scale=1.5).moment(4)), backend="interpret")(1.3)
    assert slope == pytest.approx((stats.beta(1.3001, 2.0, scale=1.5).moment(4) - stats.beta(1.2999, 2.0, scale=1.5).moment(4)) / 2e-4)
    found = aj.compile(lambda theta: stats.gamma.nnlf(theta, POINTS[8:12]), backend="interpret")((2.0, 0.5, 2.0))
    np.testing.assert_allclose(found, scipy.stats.gamma.nnlf((2.0, 0.5, 2.0), POINTS[8:12]), rtol=1e-12)
    with pytest.raises(UnsupportedError, match=r"burr12\.stats has no closed form here"):
        aj.compile(lambda c: stats.burr12.stats(c, 3.0, moments="s"))(2.0)


@parametrize_within("name", [name for name in NAMES if SHAPES.get(name)])
def test_bad_parameters_give_what_scipy_gives(name: str) -> None:
    function = "logpmf" if name in DISCRETE else "logpdf"
    for bad in (-1.0, np.nan):
        shapes = [bad] * len(SHAPES[name])
        found = getattr(getattr(stats, name), function)(1.0, *shapes)
        np.testing.assert_allclose(found, getattr(getattr(scipy.stats, name), function)(1.0, *shapes))
    if name not in DISCRETE:
        assert np.isnan(getattr(stats, name).pdf(1.0, *SHAPES[name], 0.0, -1.0))


@parametrize_within("name", NAMES, share=2)
def test_log_densities_have_derivatives(name: str, exhaustive: bool) -> None:
    """In the variable and every parameter, at points within the support. The gate takes every eighth distribution."""
    if not exhaustive and NAMES.index(name) % 8:
        return
    shapes = SHAPES.get(name, ())
    if name in DISCRETE:
        function = getattr(stats, name).logpmf
        arguments: list[Any] = [np.array([0.0, 1.0] if name == "bernoulli" else [3.0, 5.0]), *shapes, 0]
        numbers = [i for i in range(1, len(arguments) - 1) if isinstance(arguments[i], float)]
    else:
        function = getattr(stats, name).logpdf
        unit = getattr(scipy.stats, name).ppf([0.25, 0.83], *shapes)
        arguments = [0.4 + 1.5 * unit, *shapes, 0.4, 1.5]
        numbers = [i for i in range(len(arguments)) if (name, i) != ("ncx2", 1)]
    total = lambda *arguments: np.sum(function(*arguments))     # noqa: E731
    h = 1e-6
    for number in numbers:
        up, down = ([x + sign * h if i == number else x for i, x in enumerate(arguments)] for sign in (1, -1))
        found = aj.compile(aj.grad(total, argnums=number), backend="interpret")(*arguments)
        difference = (function(*up) - function(*down)) / (2 * h)
        expected = difference if number == 0 else np.sum(difference)
        np.testing.assert_allclose(found, expected, rtol=2e-6, atol=1e-7, err_msg=f"argument {number}")


def slope(function: Any, shapes: tuple[float, ...], x: np.ndarray) -> Any:
    return aj.compile(aj.grad(lambda x: np.sum(function(x, *shapes))), backend="interpret")(x)


@parametrize_within("name", sorted({*NAMES} - DISCRETE))
def test_distribution_functions_have_the_density_as_derivative(name: str, exhaustive: bool) -> None:
    if not exhaustive and NAMES.index(name) % 8 != 1:
        return
    ours, shapes = getattr(stats, name), SHAPES.get(name, ())
    x = getattr(scipy.stats, name).ppf([0.2, 0.6, 0.9], *shapes)
    density = ours.pdf(x, *shapes)
    np.testing.assert_allclose(slope(ours.cdf, shapes, x), density, rtol=1e-8)
    np.testing.assert_allclose(slope(ours.logsf, shapes, x), -density / ours.sf(x, *shapes), rtol=1e-8)
    if f"{name} ppf" not in NOT_CLOSED:
        np.testing.assert_allclose(slope(ours.ppf, shapes, np.array([0.2, 0.6, 0.9])), 1 / density, rtol=1e-7)


AT_LIMITS: tuple[tuple[str, str, float, tuple[float, ...], float, float], ...] = (
    ("genextreme", "logpdf", 0.5, (0.0,), 0.450816332464079, 0.207733846751),
    ("genextreme", "ppf", 0.3, (0.0,), -0.0172286468028734, -0.00213206524373),
    ("genpareto", "logpdf", 0.5, (1e-6,), -0.374999833333411, 0.166666510417),
    ("genpareto", "ppf", 0.3, (0.0,), 0.0636085078168489, 0.0151250406397), ("vonmises", "logpdf", 0.5, (0.0,), 0.877582561890373, -0.5),
    ("rice", "logpdf", 0.5, (0.0,), 0.0, -0.875), ("ncx2", "logpdf", 1.0, (3.0, 0.0), -1 / 3, -1 / 90),
    ("t", "logpdf", 3.0, (np.inf,), 0.0, 0.0), ("t", "logpdf", 0.5, (1e8,), 3.59374999739583e-17, -7.18749999e-25))
"""First and second derivatives in the last shape parameter, by mpmath, where formulas are 0 / 0 or a difference of large numbers."""


def test_derivatives_where_formulas_have_limits() -> None:
    def slopes(points: Any) -> list[Any]:
        results = []
        for (name, function, x, shapes, *_), at in zip(AT_LIMITS, points, strict=True):
            density = getattr(getattr(stats, name), function)
            slope = aj.grad(lambda last, density=density, x=x, shapes=shapes: density(x, *shapes[:-1], last))
            results.append((slope(at), aj.grad(slope)(at)))
        return results

    found = aj.compile(slopes, backend="interpret")([case[3][-1] for case in AT_LIMITS])
    for case, (first, second) in zip(AT_LIMITS, found, strict=True):
        np.testing.assert_allclose((first, second), case[-2:], rtol=1e-8, atol=1e-30, err_msg=str(case))
    mixed = aj.compile(aj.grad(lambda a, x: aj.grad(lambda x: stats.gamma.cdf(x, a))(x)), backend="interpret")
    np.testing.assert_allclose(mixed(1.0, 0.7), 0.109517280918, rtol=1e-10)


EXACT = (
    ("cauchy", "ppf", 1.0 - 2.0**-40, (), 349985421095.133, 3.84813040046178e23),
    ("skewcauchy", "isf", 2.0**-40, (0.5,), 787467197464.049, None),
    ("hypsecant", "ppf", 2.0**-40, (), -27.2743045171084, None), ("halfnorm", "ppf", 1e-12, (), 1.2533141373155e-12, 1.2533141373155),
    ("kappa3", "cdf", 1e5, (100.0,), 1.0, 0.0), ("kappa3", "ppf", 1e-6, (100.0,), 1.0471285480509e-06, 1.0471285480509),
    ("loggamma", "cdf", -4605.7465795863745, (0.001,), 0.01, 1e-5), ("loggamma", "ppf", 0.01, (0.001,), -4605.7465795863745, 1e5),
    ("truncexpon", "sf", 1e-15, (1e-9,), 0.999999, -1000000000.499999), ("exponnorm", "logpdf", 1e-4, (1e-4,), -0.9189385382046744, None),
    ("f", "logpdf", 0.01, (2.0, 1e8), -0.010000000199, None), ("bradford", "logpdf", 0.25, (1e-9,), 2.5e-10, -1e-9),
    ("gennorm", "cdf", 0.0, (2.0,), 0.5, 0.564189583547756), ("gennorm", "ppf", 0.5, (1.0,), 0.0, 2.0),
    ("gennorm", "logpdf", 0.0, (0.5,), -1.38629436111989, 0.0),
    ("dweibull", "cdf", 0.0, (1.0,), 0.5, 0.5), ("dgamma", "ppf", 0.5, (1.0,), 0.0, 2.0), ("dgamma", "cdf", 0.0, (0.5,), 0.5, np.inf),
    ("t", "cdf", 0.3, (np.inf,), 0.61791142218895, 0.38138781546052))
"""Values and slopes in the variable where SciPy's formulas, which ours were, lose digits, overflow or have no derivative."""


def test_values_where_formulas_lose_digits() -> None:
    for name, function, x, shapes, value, slope in EXACT:
        ours = getattr(getattr(stats, name), function)
        found = aj.compile(aj.value_and_grad(lambda x, ours=ours, shapes=shapes: ours(x, *shapes)), backend="interpret")(x)
        wanted = value, found[1] if slope is None else slope
        np.testing.assert_allclose(found, wanted, rtol=2e-9, atol=1e-12, err_msg=f"{name}.{function}")


def test_quantiles_that_are_solved_for(exhaustive: bool) -> None:
    """The distribution function of the quantile is the share, to its rounding; slopes in the share and the shape follow from it."""
    q = np.array([1e-6, 0.2, 0.5, 0.99])
    cases = (("skewnorm", -30.0), ("vonmises", 45.0), ("skewnorm", 2.0), ("vonmises", 0.0), ("vonmises", 2.0), ("invgauss", 0.7))
    for name, shape in cases if exhaustive else cases[:1]:
        ours = getattr(stats, name)
        found, slopes = aj.compile(aj.value_and_grad(lambda shape, ours=ours: np.sum(ours.ppf(q, shape))), backend="interpret")(shape)
        at = aj.compile(ours.ppf, backend="interpret")(q, shape)
        density, moved = ours.pdf(at, shape), aj.compile(aj.jacfwd(lambda a, x, ours=ours: ours.cdf(x, a)), backend="interpret")
        np.testing.assert_allclose(aj.compile(ours.cdf, backend="interpret")(at, shape), q, rtol=1e-12, atol=1e-15, err_msg=name)
        np.testing.assert_allclose([found, slopes], [np.sum(at), np.sum(-moved(shape, at) / density)], rtol=1e-9, err_msg=name)
    turns = np.array([-20.0, -2.5, 0.3, 4.0])
    slope = aj.compile(aj.grad(lambda k: np.sum(stats.vonmises.cdf(turns, k))), backend="interpret")
    np.testing.assert_allclose([slope(2.0), slope(45.0)], [-0.0481176808263322, 0.0012080851377735], rtol=1e-9)


def test_outside_of_the_support_gradients_are_zero() -> None:
    gradient = aj.grad(lambda x, a: np.sum(stats.gamma.pdf(x, a)), argnums=(0, 1))(np.array([-1.0, -2.0]), 2.0)
    np.testing.assert_array_equal(gradient[0], [0.0, 0.0])
    assert gradient[1] == 0.0


def test_a_parameter_without_a_closed_derivative_is_refused() -> None:
    with pytest.raises(NonDifferentiableError, match=r"scipy\.special\.chndtr has no derivative in its argument 2"):
        aj.grad(lambda df: stats.ncx2.cdf(1.0, df, 0.5))(2.0)


@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
def test_backends_and_tensors_agree(backend: str) -> None:
    x = np.array([[0.5, 1.5], [2.5, 0.1]])
    program = aj.compile(lambda x, a: (stats.gamma.logpdf(x, a, scale=2.0), stats.gamma.cdf(x, a, scale=2.0), stats.norm.logcdf(x)),
                         backend=backend)
    expected = scipy.stats.gamma.logpdf(x, 2.5, scale=2.0), scipy.stats.gamma.cdf(x, 2.5, scale=2.0), scipy.stats.norm.logcdf(x)
    for found, want in zip(program(x, 2.5), expected, strict=True):
        np.testing.assert_allclose(found, want, rtol=1e-12)
    tensor = aj.tensor(x, requires_grad=True)
    stats.gamma.logpdf(tensor, 2.5, scale=2.0).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), 1.5 / x - 0.5, rtol=1e-12)


def test_arguments_as_in_scipy() -> None:
    x = np.array([0.5, 1.5])
    expected = scipy.stats.gamma.logpdf(x, a=2.0, loc=0.1, scale=3.0)
    for found in (stats.gamma.logpdf(x, 2.0, 0.1, 3.0), stats.gamma.logpdf(x=x, a=2.0, loc=0.1, scale=3.0),
                  stats.gamma(2.0, loc=0.1, scale=3.0).logpdf(x), stats.gamma.logpdf(list(x), 2, 0.1, scale=3)):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert stats.norm(1.0, 2.0).mean() == 1.0
    assert stats.norm.logpdf(np.float32([1.0]), 0.5).dtype == np.float32
    assert stats.norm.logpdf(np.ones((2, 1)), np.zeros(3)).shape == (2, 3)
    for arguments, message in (((), "missing 1 required argument: 'a'"), ((1.0, 2.0, 3.0, 4.0), "takes 4 arguments")):
        with pytest.raises(TypeError, match=message):
            stats.gamma.logpdf(x, *arguments)
    with pytest.raises(TypeError, match="no argument 'mean'"):
        stats.norm.logpdf(x, mean=1.0)
    with pytest.raises(AttributeError, match="no attribute 'pmf'"):
        _ = stats.norm(1.0).pmf


def test_plain_arrays_are_scipys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Outside of a trace SciPy answers, in a tenth of the time; float32 and tensors stay what they are."""
    x = np.linspace(-1, 1, 5)
    assert stats.norm.logpdf is not scipy.stats.norm.logpdf
    np.testing.assert_array_equal(stats.norm.logpdf(x, 0.5, scale=2.0), scipy.stats.norm.logpdf(x, 0.5, scale=2.0))
    np.testing.assert_array_equal(stats.betabinom.cdf([1, 2], 7, 2.0, 3.0), scipy.stats.betabinom.cdf([1, 2], 7, 2.0, 3.0))
    assert stats.norm.logpdf(x.astype(np.float32)).dtype == np.float32
    assert isinstance(stats.norm(0.5).logpdf(aj.tensor(x)), aj.Tensor)
    monkeypatch.setattr(scipy.stats.norm, "logpdf", None)
    distribution.scipys_function.cache_clear()
    assert aj.compile(stats.norm.logpdf)(x).shape == (5,)
    distribution.scipys_function.cache_clear()
