"""Functions that SciPy computes: values on every backend against SciPy's, derivatives against central differences, what is refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special
from support.each import parametrize_within
from support.tracing import run_traced

import adjit as aj
from adjit.errors import DTypeError, ExportError, NonDifferentiableError
from adjit.ir.ops.external_functions import FUNCTIONS

pytestmark = [pytest.mark.filterwarnings("ignore::RuntimeWarning"), pytest.mark.filterwarnings("ignore::DeprecationWarning")]

PLUS, UNIT, FEW = (0.5, 3.0), (0.1, 0.9), (0.0, 5.0)
DOMAINS: dict[str, list[tuple[float, float]]] = {
    **{name: [PLUS] * known.arity for name, known in FUNCTIONS.items()},
    "gammaincinv": [PLUS, UNIT], "gammainccinv": [PLUS, UNIT], "binom": [(3, 6), (0.5, 2.5)], "ndtri": [UNIT], "ndtri_exp": [(-3, -0.1)],
    **{key: [PLUS, PLUS, UNIT] for key in ("betainc", "betaincc", "betaincinv", "betainccinv", "fdtri")},
    "stdtrit": [PLUS, UNIT], "chdtri": [PLUS, UNIT], "pdtr": [(0.2, 3.8), PLUS], "pdtrc": [(0.2, 3.8), PLUS], "pdtrik": [UNIT, PLUS],
    **{key: [(0.2, 2.8), (4, 4), UNIT] for key in ("bdtr", "bdtrc", "nbdtr", "nbdtrc")}, "bdtrik": [UNIT, (4, 4), UNIT],
    "nbdtrik": [UNIT, (4, 4), UNIT], "erfcinv": [UNIT], "ellipk": [(-2, 0.9)], "ellipkm1": [UNIT], "ellipe": [(-2, 0.9)],
    "ellipkinc": [(-5, 5), UNIT], "ellipeinc": [(-5, 5), UNIT], "ellipj": [(0.2, 3), UNIT], "hyp2f1": [PLUS, PLUS, PLUS, (-0.8, 0.8)],
    "eval_jacobi": [FEW, PLUS, PLUS, UNIT], "eval_gegenbauer": [FEW, PLUS, UNIT], "eval_genlaguerre": [FEW, PLUS, UNIT],
    **{key: [FEW, UNIT] for key in ("eval_legendre", "eval_chebyt", "eval_chebyu", "eval_laguerre")},
    "bdtri": [(0.2, 2.8), (4, 4), UNIT], "nbdtri": [(0.2, 2.8), (4, 4), UNIT], "pdtri": [(0.2, 3.8), UNIT], "gdtria": [UNIT, PLUS, PLUS],
    "gdtrix": [PLUS, PLUS, UNIT], "chndtrix": [UNIT, PLUS, PLUS], "chndtrinc": [(1.0, 1.2), (0.5, 0.7), (0.2, 0.4)],
    "nctdtrit": [PLUS, PLUS, UNIT], "nrdtrimn": [UNIT, PLUS, PLUS], "nrdtrisd": [(0.1, 0.5), (0.6, 0.9), (1, 3)],
    "tklmbda": [(-0.4, 0.4), (0.3, 2)], "bdtrin": [(0.2, 2.8), UNIT, UNIT], "nbdtrin": [(0.2, 2.8), UNIT, UNIT],
    "btdtria": [UNIT, PLUS, UNIT], "btdtrib": [PLUS, UNIT, UNIT], "chdtriv": [UNIT, PLUS], "chndtridf": [PLUS, (0.1, 0.2), (0.2, 0.4)],
    "fdtridfd": [PLUS, UNIT, PLUS], "gdtrib": [PLUS, UNIT, PLUS], "ncfdtri": [PLUS, PLUS, PLUS, UNIT],
    "ncfdtridfd": [PLUS, UNIT, PLUS, PLUS], "ncfdtridfn": [PLUS, UNIT, PLUS, PLUS], "ncfdtrinc": [PLUS, PLUS, UNIT, PLUS],
    "nctdtridf": [(0.4, 0.6), UNIT, PLUS], "nctdtrinc": [PLUS, UNIT, PLUS], "stdtridf": [(0.6, 0.7), (0.5, 0.7)], "kolmogi": [UNIT],
    "smirnov": [(2, 5), UNIT], "smirnovi": [(2, 5), UNIT], "eval_sh_jacobi": [FEW, (3, 4), (1, 2), UNIT], "lpmv": [(0, 2), FEW, UNIT],
    "besselpoly": [PLUS, PLUS, FEW], "wofz": [(-2, 2), (0.1, 2)], "zetac": [(1.5, 3)],
    **{key: [FEW, UNIT] for key in ("eval_chebyc", "eval_chebys", "eval_hermite", "eval_hermitenorm", "eval_sh_legendre",
                                    "eval_sh_chebyt", "eval_sh_chebyu")},
    "expn": [(0, 4), PLUS], "yn": [(0, 4), PLUS], "kn": [(0, 4), PLUS], "inv_boxcox": [PLUS, (0.2, 1)], "inv_boxcox1p": [PLUS, (0.2, 1)],
    **{f"complex_{key}": [(-3, 3), (-2, -0.2)] for key in ("psi", "loggamma", "gamma", "rgamma", "airy", "airye", "exp1", "log_ndtr")},
    **{f"complex_{key}": [PLUS, (-3, 3), (-2, -0.2)] for key in ("jve", "yve", "ive", "kve")},
}


def arguments(name: str, size: int = 12) -> list[np.ndarray]:
    generator = np.random.default_rng(3)
    arrays = [generator.uniform(*ends, size) for ends in DOMAINS[name]]
    if name in ("expn", "yn", "kn", "smirnov", "smirnovi") or name.startswith("eval_"):
        arrays[0] = np.round(arrays[0])
    if name == "lpmv":
        arrays[:2] = map(np.round, arrays[:2])
    return arrays


def called(module: Any, name: str, arrays: Any) -> Any:
    """Results of the function of a module; the parts of complex results."""
    known, given = FUNCTIONS[name], list(arrays)
    given[:known.whole] = [array.astype(np.int64) for array in given[:known.whole]]
    first = known.arity - 2 * known.of_complex
    numbers = given[:first] + [given[k] + 1j * given[k + 1] for k in range(first, known.arity, 2)]
    found = results(getattr(module, known.name)(*numbers))
    return tuple(part for number in found for part in (number.real, number.imag)) if known.of_complex else found


def results(found: Any) -> tuple[Any, ...]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
def test_programs_compute_what_scipy_computes(backend: str, dtype: type) -> None:
    """All functions in one program: in float64 the same bits, in float32 those of the rounded result."""
    given = {name: [array.astype(dtype) for array in arguments(name)] for name in FUNCTIONS}
    program = aj.compile(lambda given: [called(scipy.special, name, given[name]) for name in FUNCTIONS], backend=backend)
    for name, found in zip(FUNCTIONS, program(given), strict=True):
        expected = called(scipy.special, name, [array.astype(np.float64) for array in given[name]])
        for ours, theirs in zip(found, expected, strict=True):
            assert ours.dtype == (np.float64 if FUNCTIONS[name].whole else dtype)
            np.testing.assert_array_equal(ours, theirs.astype(ours.dtype), err_msg=name)


def value(name: str, output: int) -> Any:
    return lambda *arrays: called(aj.special, name, arrays)[output]


CASES = {f"{name}-{output}-{number}": (name, output, number, rule) for name, known in FUNCTIONS.items()
         for output, rules in enumerate(known.derivatives) for number, rule in enumerate(rules)}


DERIVATIVES = [case for case, (*_, rule) in CASES.items() if callable(rule)]
NOT_CLOSED = [case for case, (name, _, number, rule) in CASES.items() if isinstance(rule, str) and number >= FUNCTIONS[name].whole]


@parametrize_within("case", DERIVATIVES, share=2)
def test_derivatives(case: str, exhaustive: bool) -> None:
    if not exhaustive and DERIVATIVES.index(case) % 8:
        return
    name, output, number, _ = CASES[case]
    arrays, function, h = arguments(name, 8), value(name, output), 1e-5
    up, down = ([array + sign * h if i == number else array for i, array in enumerate(arrays)] for sign in (1, -1))
    gradient = aj.compile(aj.grad(lambda *arrays: np.sum(function(*arrays)), argnums=number), backend="interpret")
    np.testing.assert_allclose(gradient(*arrays), (function(*up) - function(*down)) / (2 * h), rtol=1e-6,
                               atol=1e-5 if name == "itairy" else 1e-6)      # SciPy's itairy is right to ten digits


TWICE = {"gammainc": 1, "betainc": 2, "jv": 1, "kv": 1, "k1e": 0, "airy": 0, "ellipk": 0, "ellipe": 0, "ellipkinc": 0, "ellipj": 0,
         "hyp2f1": 3, "agm": 0, "wofz": 1, "hankel1e": 1, "voigt_profile": 1, "eval_hermite": 1, "eval_sh_jacobi": 3, "nctdtr": 2,
         "lpmv": 2, "nrdtrisd": 1,
         "eval_legendre": 1, "elliprg": 0, "elliprj": 3,
         "ndtri": 0, "gammaincinv": 1, "stdtr": 1, "sici": 0, "struve": 1, "binom": 1, "expn": 1, "chndtr": 0,
         "complex_loggamma": 0, "complex_psi": 1, "complex_jve": 2, "complex_airye": 1, "complex_elliprf": 3}


@parametrize_within("name", TWICE)
def test_second_derivatives(name: str, exhaustive: bool) -> None:
    if not exhaustive and list(TWICE).index(name) % 3:
        return
    arrays, function, number, h = arguments(name, 5), value(name, 0), TWICE[name], 1e-5
    first = aj.compile(aj.grad(lambda *arrays: np.sum(function(*arrays)), argnums=number), backend="interpret")
    second = aj.compile(aj.grad(lambda *arrays: np.sum(first(*arrays)), argnums=number), backend="interpret")
    up, down = ([array + sign * h if i == number else array for i, array in enumerate(arrays)] for sign in (1, -1))
    np.testing.assert_allclose(second(*arrays), (first(*up) - first(*down)) / (2 * h), rtol=1e-5, atol=1e-5)


@parametrize_within("case", NOT_CLOSED, share=2)
def test_what_has_no_derivative_is_refused(case: str, exhaustive: bool) -> None:
    if not exhaustive and NOT_CLOSED.index(case) % 6:
        return
    name, output, number, _ = CASES[case]
    words = rf"{FUNCTIONS[name].name} has no derivative in its argument {number + 1}: .* (form|numbers)"
    with pytest.raises(NonDifferentiableError, match=words):
        aj.grad(lambda *arrays: np.sum(value(name, output)(*arrays)), argnums=number)(*arguments(name, 2))


def test_other_arguments_have_derivatives_all_the_same() -> None:
    """Also forward, and with tensors."""
    v, x = np.array([0.5, 2.0]), np.array([1.0, 3.0])
    slope = scipy.special.jvp(v, x)
    _, tangent = aj.jvp(lambda x: scipy.special.jv(v, x), (x,), (np.ones(2),))
    np.testing.assert_allclose(tangent, slope, rtol=1e-13)
    with pytest.raises(NonDifferentiableError, match="argument 1"):
        aj.jvp(lambda v: scipy.special.jv(v, x), (v,), (np.ones(2),))
    tensor = aj.tensor(x, requires_grad=True)
    scipy.special.jv(v, tensor).sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), slope, rtol=1e-13)
    order = aj.tensor(v, requires_grad=True)
    with pytest.raises(NonDifferentiableError, match="argument 1"):
        aj.special.jv(order, tensor).sum().backward()


IN_PARAMETERS = (
    ("gammainc", 0, (0.001, 0.25), -1.04440547496494), ("gammainc", 0, (0.5, 2.0), -0.135619335203997),
    ("gammainc", 0, (20.0, 5.0), -4.92026840322875e-7), ("gammaincc", 0, (10000.0, 9950.0), 0.00352803790348945),
    ("betainc", 0, (0.3, 0.05, 0.7), -0.428029808601639), ("betainc", 0, (20.0, 3.0, 0.95), -0.0101328083346674),
    ("betaincc", 0, (300.0, 50.0, 0.8), 0.000187084370172128), ("stdtr", 0, (0.5, -3.0), -0.258727726737144),
    ("betainc", 1, (0.05, 2.0, 1e-20), 0.00333392072817456), ("inv_boxcox", 1, (0.7, 1e-12), -0.493369413329685),
    ("lpmv", 2, (0.0, 2.0, 1.0), 3.0), ("chndtr", 0, (1.0, 3.0, 0.0), 0.241970724519143),
    ("tklmbda", 0, (2.5, 1.0), 0.0), ("stdtr", 0, (10000.0, -2.0), -1.34990232162658e-9),
    ("hyp2f1", 1, (0.7, 1.3, 2.2, 0.9), 1.64172852117558),
    ("hyp2f1", 2, (0.7, 1.3, 2.2, -20.0), 0.076666908409778), ("hyp1f1", 1, (0.5, 3.3, -30.0), 0.0505475845960852))
"""Derivatives by mpmath, in 40 digits."""


def test_derivatives_in_parameters() -> None:
    for name, place, at, wanted in IN_PARAMETERS:
        found = aj.compile(aj.grad(getattr(scipy.special, name), place), backend="interpret")(*at)
        np.testing.assert_allclose(found, wanted, rtol=2e-9, err_msg=f"{name} {at}")


OF_EQUAL_ARGUMENTS = (
    ("elliprc", 0, (1.0, 1.0), -1 / 6), ("elliprc", 1, (1.0, 1.000000001), -0.3333333329333333),
    ("elliprc", 0, (3.0, -1.0), -0.01014108490909782), ("elliprd", 0, (1.0, 2.0, 1.0), -0.2306075997535376),
    ("elliprd", 2, (1.0, 2.0, 1.000000000001), -0.6918227992594024), ("elliprd", 0, (1.0, 1.000001, 1.0005), -0.2998392567216899),
    ("elliprd", 1, (2000.0, 0.001, 0.001), -8385.25281933128), ("elliprd", 2, (0.0, 2.0, 2.0), -0.4685853098838902),
    ("elliprd", 0, (2.0, 3.0, 2.003), -0.04556254793474453), ("elliprj", 0, (1.0, 2.0, 3.0, 1.0), -0.1510798431258454),
    ("elliprj", 3, (1.0, 1.0, 2.0, 1.000000001), -0.4612151988615536), ("elliprj", 1, (0.0, 5.0, 5.0001, 5.002), -0.01580043470967928),
    ("elliprj", 3, (1.0, 1.0, 1.0, 1.0), -0.6), ("elliprg", 2, (0.0, 0.0, 4.0), 0.125),
    ("ellipkinc", 1, (1e-4, 0.3), 1.666666667833334e-13),
    ("ellipkinc", 1, (0.5, 1.0), 0.02506756659521003), ("agm", 0, (1.0, 1.0), 0.5))
OF_EQUAL_ARGUMENTS_TWICE = (
    ("elliprd", 0, (1.0, 2.0, 1.0), 0.242070586198), ("elliprd", 2, (1.0, 1.0, 1.0), 1.60714285714), ("elliprc", 0, (1.0, 1.0), 0.15))


def test_derivatives_of_elliptic_integrals_where_arguments_are_near_each_other() -> None:
    """Against mpmath in 50 digits."""
    def slopes(points: Any) -> list[Any]:
        return [aj.grad(getattr(scipy.special, name), place)(*at) for (name, place, *_), at in zip(OF_EQUAL_ARGUMENTS, points, strict=True)]

    found = aj.compile(slopes, backend="interpret")([at for *_, at, _ in OF_EQUAL_ARGUMENTS])
    np.testing.assert_allclose(found, [wanted for *_, wanted in OF_EQUAL_ARGUMENTS], rtol=1e-11)
    for name, place, at, wanted in OF_EQUAL_ARGUMENTS_TWICE:
        second = aj.compile(aj.grad(aj.grad(getattr(scipy.special, name), place), place), backend="interpret")
        np.testing.assert_allclose(second(*at), wanted, rtol=1e-8, err_msg=f"{name} {at}")


def test_derivatives_in_parameters_at_the_edges() -> None:
    """0 where a share is 0 or 1 whatever the parameter."""
    x = np.array([0.0, np.inf, 1e-200, 800.0])
    np.testing.assert_array_equal(aj.vmap(aj.grad(scipy.special.gammainc), (None, 0))(1.5, x), np.zeros(4))
    np.testing.assert_array_equal(aj.vmap(aj.grad(scipy.special.betainc, 1), (None, None, 0))(1.5, 2.0, np.array([0.0, 1.0])), np.zeros(2))


def test_dtypes_shapes_and_options() -> None:
    column, row = np.array([[0.5], [1.5]]), np.array([1, 2, 3])
    expected = scipy.special.jv(column, row)
    for found in (aj.special.jv(column, row), run_traced(scipy.special.jv, column, row)):
        np.testing.assert_array_equal(found, expected)
    for given in ((np.float32(0.5), np.float32(2)), (1, np.float32(2)), (0.5, 2), (np.int64(1), np.float32(2))):
        assert aj.special.jv(*given).dtype == scipy.special.jv(*given).dtype
    out = np.empty((2, 3))
    assert aj.special.jv(column, row, out=out) is out
    np.testing.assert_array_equal(out, expected)
    assert aj.special.k0(np.empty((0, 2))).shape == (0, 2)
    assert isinstance(aj.special.sici(1.0), tuple)
    strided = np.arange(1.0, 13.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(aj.special.k0(strided), scipy.special.k0(strided))
    with pytest.raises(DTypeError):
        aj.special.kv(1j, 2.0)
    with pytest.raises(ValueError, match="cannot be broadcast"):
        aj.special.jv(np.ones(2), np.ones(3))
    with pytest.raises(TypeError, match="takes 2 operands"):
        aj.special.jv(1.0)


def test_masked_arrays_stay_masked() -> None:
    x = np.array([0.5, -1.0, 2.0])
    found = aj.compile(lambda x: np.sum(scipy.special.k0(x[x > 0])))(x)
    assert found == pytest.approx(scipy.special.k0([0.5, 2.0]).sum())


def test_loops_call_them() -> None:
    def step(carry: Any, x: Any) -> tuple[Any, Any]:
        carry = carry + scipy.special.jv(0.5, x)
        return carry, carry

    x = np.linspace(0.5, 3.0, 6)
    total, _ = aj.compile(lambda x: aj.scan(step, x[0] * 0.0, x))(x)
    assert total == pytest.approx(scipy.special.jv(0.5, x).sum())


def mixed(a: Any, x: Any) -> Any:
    """Functions of numbers, with several results, of complex numbers, and of whole numbers."""
    return scipy.special.gammainc(a, x), scipy.special.sici(x)[1], scipy.special.wofz(x + 1j * a), scipy.special.eval_hermite(3, x)


def test_archives_call_them_and_libraries_for_c_are_refused(tmp_path: Path) -> None:
    a, x = np.array([0.5, 2.0, 1.0]), np.array([1.0, 3.0, 0.2])
    compiled = aj.compile(mixed)
    compiled.export(tmp_path / "mixed.adjit", a, x)
    for found, expected in zip(aj.load(tmp_path / "mixed.adjit")(a, x), mixed(a, x), strict=True):
        np.testing.assert_array_equal(found, expected)
    for suffix in ("so", "o"):
        with pytest.raises(ExportError, match=r"external calls functions of scipy\.special\.cython_special"):
            compiled.export(tmp_path / f"mixed.{suffix}", a, x)


def test_they_are_mapped_and_mapped_derivatives_are_right() -> None:
    a, x = np.array([0.5, 2.0, 1.0]), np.array([1.0, 3.0])
    rows = aj.vmap(mixed, in_axes=(0, None))
    for found, single in zip(aj.compile(rows)(a, x), zip(*(mixed(each, x) for each in a), strict=True), strict=True):
        np.testing.assert_array_equal(found, np.stack(single))
    slopes = aj.compile(aj.jacobian(lambda x: rows(a, x)[0]))(x)
    density = [[y ** (each - 1) * np.exp(-y) / scipy.special.gamma(each) for y in x] for each in a]
    np.testing.assert_allclose(np.einsum("ijj->ij", slopes), density, rtol=1e-13)
    curvature = aj.hessian(lambda x: np.sum(scipy.special.jv(1.0, x)))(x)
    np.testing.assert_allclose(np.diag(curvature), [scipy.special.jvp(1, y, 2) for y in x], rtol=1e-12)


def test_tensors_take_functions_of_complex_numbers() -> None:
    x = aj.tensor(np.array([0.5, 1.0]), requires_grad=True)
    scipy.special.wofz(x + 0.5j).imag.sum().backward()
    w = scipy.special.wofz(np.array([0.5, 1.0]) + 0.5j)
    np.testing.assert_allclose(x.grad.numpy(), (-2 * (x.detach().numpy() + 0.5j) * w + 2j / np.sqrt(np.pi)).imag, rtol=1e-13)
    assert scipy.special.wofz(aj.tensor(np.ones(2, np.complex64))).dtype == aj.tensor(np.ones(2, np.complex64)).dtype


def test_functions_of_real_and_complex_numbers(exhaustive: bool) -> None:
    """Dtypes and shapes as SciPy's; derivatives of those that are ops of ours for real numbers."""
    z = np.array([0.5 + 0.3j, -1.2 - 0.7j])
    names = ("loggamma", "gamma", "erf", "xlogy", "expi", "psi", "log1p", "expm1", "rgamma", "erfc", "erfcx", "ndtr", "log_ndtr", "xlog1py")
    for name in names if exhaustive else names[:4]:
        function = getattr(scipy.special, name)
        for x in (z, z.astype(np.complex64), 0.5j, z[0], np.empty((0, 2), complex), z[::-1, None]):
            given = (x,) * function.nin
            expected, found = function(*given), run_traced(function, *given)
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
            np.testing.assert_allclose(found, expected, rtol=1e-13 if expected.dtype == complex else 1e-5)
        aj.check_grads(lambda x, function=function: function(*(x,) * function.nin), (z + 0.1,))
    tensor = aj.tensor(z, requires_grad=True)
    scipy.special.loggamma(tensor).real.sum().backward()
    np.testing.assert_allclose(tensor.grad.numpy(), np.conj(scipy.special.psi(z)), rtol=1e-13)
    np.testing.assert_array_equal(aj.special.jv([0.5, 1.0], z), scipy.special.jv([0.5, 1.0], z))
    far = -150.5 + 1e3j
    np.testing.assert_allclose(aj.grad(scipy.special.loggamma, holomorphic=True)(far), scipy.special.psi(far), rtol=1e-13)


def test_small_whole_numbers_and_truth_values_have_the_dtype_of_scipy() -> None:
    for name in ("erf", "entr", "xlogy", "rel_entr"):
        function = getattr(scipy.special, name)
        for dtype in (bool, np.int8, np.uint16, np.int32):
            given = (np.array([1, 0]).astype(dtype),) * function.nin
            assert run_traced(function, *given).dtype == getattr(aj.special, name)(*given).dtype == function(*given).dtype


def test_parts_of_complex_numbers_may_be_infinite() -> None:
    z = np.array([complex(np.inf, 1.0), complex(1.0, np.inf), complex(np.nan, 0.0), complex(0.0, -0.0)])
    for backend in ("native", "interpret"):
        np.testing.assert_array_equal(aj.compile(lambda z: scipy.special.wofz(z), backend=backend)(z), scipy.special.wofz(z))


def test_zeta() -> None:
    x = np.array([-7.3, -4.0, -1.0, -0.5, 0.0, 0.3, 0.999, 1.0, 1.01, 2.0, 10.0, 200.0, np.inf, np.nan])
    np.testing.assert_allclose(aj.special.zeta(x), scipy.special.zeta(x), rtol=1e-14)
    s, q = np.meshgrid([0.5, 1.0, 1.2, 2.0, 5.5, 20.0, 100.0], [0.01, 0.5, 1.0, 3.3, 30.0, 200.0, 0.0, -1.0])
    np.testing.assert_allclose(aj.special.zeta(s, q), scipy.special.zeta(s, q), rtol=1e-14)
    s, q = s[1:6, 2:6], q[1:6, 2:6]
    along_s, along_q = aj.grad(lambda s, q: np.sum(aj.special.zeta(s, q)), argnums=(0, 1))(s, q)
    np.testing.assert_allclose(along_q, -s * scipy.special.zeta(s + 1, q), rtol=1e-12)
    h = 1e-5
    np.testing.assert_allclose(along_s, (scipy.special.zeta(s + h, q) - scipy.special.zeta(s - h, q)) / (2 * h), rtol=1e-6, atol=1e-8)
    s, q = np.meshgrid([2.0, 3.0, 6.0, 2.5], [-30.5, -2.7, -1.0, -0.1, -1e-3, 0.4])
    np.testing.assert_allclose(aj.special.zeta(s, q), scipy.special.zeta(s, q), rtol=1e-12)
    along_s, along_q = (grad[..., :3] for grad in aj.grad(lambda s, q: np.sum(aj.special.zeta(s, q)), argnums=(0, 1))(s, q))
    finite = np.isfinite(scipy.special.zeta(s, q))[:, :3]
    np.testing.assert_allclose(along_q[finite], (-s * scipy.special.zeta(s + 1, q))[:, :3][finite], rtol=1e-11, atol=1e-12)
    assert np.isnan(along_s[q[:, 0] < 0][finite[q[:, 0] < 0]]).all()
    assert np.isnan(aj.grad(lambda q: aj.special.zeta(2.5, q))(-0.5))
    assert aj.grad(aj.special.zeta)(2.0) == pytest.approx(-0.9375482543158437)      # of Riemann's function


def test_without_scipy_it_says_what_is_missing() -> None:
    code = """
import sys
sys.modules["scipy"] = None
import numpy as np, adjit as aj
import adjit.scipy.stats as stats
assert abs(stats.norm.cdf(0.5) - 0.6914624612740131) < 1e-15
try:
    aj.special.gammainc(1.0, 2.0)
except NotImplementedError as error:
    assert "SciPy is not installed" in str(error) and "adjit[scipy]" in str(error), error
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", code], check=True)
