"""Forms of `as_callable`: trees and several arrays as one vector, data that is replaced, against Python; errors; and the real libraries."""

from __future__ import annotations

import ctypes
import importlib.util
import math
import runpy
from typing import Any

import numpy as np
import optree
import pytest
from support.project import ROOT

import adjit as aj
from adjit.errors import ArgumentError, DTypeError, ExportError, ShapeError
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")

RNG = np.random.default_rng(0)
T = np.linspace(0.0, 2.0, 12)
PARAMS = {"a": np.array([1.5, 0.5]), "k": 0.7}


def pointer(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def model(p, t):
    return p["a"][0] * np.exp(-p["k"] * t) + p["a"][1]


@aj.compile
def residuals(p, t, y):
    return model(p, t) - y


@aj.compile
def cost(p, shift, t, y):
    return np.sum((model(p, t) + shift[0, 1] - y) ** 2) + np.sum(shift ** 2)


def needs(name: str) -> Any:
    return pytest.mark.skipif(importlib.util.find_spec(name) is None, reason=f"{name} is not installed")


def test_trees_and_data() -> None:
    shift, y, other = RNG.normal(size=(2, 2)), RNG.normal(size=12), RNG.normal(size=12)
    c = cost.as_callable(PARAMS, shift, T, y, form="value_and_grad", data=("t", "y"))
    x, gradient = np.array([1.5, 0.5, 0.7, *shift.ravel()]), np.zeros(7)
    assert (c.count, c.rows, list(c.addresses)) == (7, 1, ["evaluate", "value", "value_and_grad"])
    for data in (y, other):
        value, (of_p, of_shift) = aj.value_and_grad(cost, argnums=(0, 1))(PARAMS, shift, T, data)
        c.set(y=data)
        assert c.value_and_grad(7, pointer(x), pointer(gradient), None) == pytest.approx(value, rel=1e-14)
        np.testing.assert_allclose(gradient, [*of_p["a"], of_p["k"], *of_shift.ravel()], rtol=1e-12)
    assert aj.compile(lambda x, s: x * s).as_callable(0.5, 3.0, form="value", data="s").value_of_one(0.5, None) == 1.5


def test_data_is_copied_and_code_is_shared() -> None:
    y = np.ones(12)
    first = residuals.as_callable(PARAMS, T, y, form="residuals", data=("t", "y"))
    y[:] = 2.0
    second = residuals.as_callable(PARAMS, T, y, form="residuals", data=("t", "y"))
    x, found = np.array([1.5, 0.5, 0.7]), np.zeros((2, 12))
    assert first.residuals(3, pointer(x), 12, pointer(found[0])) == second.residuals(3, pointer(x), 12, pointer(found[1])) == 0
    np.testing.assert_allclose(found[0], residuals(PARAMS, T, np.ones(12)), rtol=1e-14)
    np.testing.assert_allclose(found[0] - found[1], 1.0, rtol=1e-14)
    assert first.residuals.code[1] is second.residuals.code[1]      # the program of both


def test_jacobians() -> None:
    y = RNG.normal(size=12)
    c = residuals.as_callable(PARAMS, T, y, form="jacobian", data=("t", "y"))
    x, found, matrix = np.array([1.5, 0.5, 0.7]), np.zeros(12), np.zeros((12, 3))
    assert c.jacobian(3, pointer(x), 12, pointer(found), pointer(matrix)) == 0
    expected = aj.jacobian(residuals)(PARAMS, T, y)
    np.testing.assert_allclose(matrix, np.column_stack([expected["a"], expected["k"]]), rtol=1e-12)
    np.testing.assert_allclose(found, residuals(PARAMS, T, y), rtol=1e-14)
    again = np.zeros((12, 3))
    assert c.jacobian(3, pointer(x), 12, None, pointer(again)) == 0
    np.testing.assert_array_equal(again, matrix)
    assert c.words(c.jacobian(3, pointer(x), 11, None, pointer(again))) == "the results have another number of elements"


def test_right_hand_sides() -> None:
    def motion(t, y, force):
        return {"x": y["v"], "v": -np.sin(y["x"]) + force * np.cos(t)}

    c = aj.compile(motion).as_callable(0.0, {"x": 0.5, "v": 0.0}, 0.3, form="rhs", data="force")
    dy = np.zeros(2)
    assert c.rhs(0.4, pointer(np.array([0.5, 0.2])), pointer(dy), None) == 0
    expected = motion(0.4, {"x": 0.5, "v": 0.2}, 0.3)
    np.testing.assert_allclose(dy, [expected["x"], expected["v"]], rtol=1e-14)
    c.set(force=0.0)
    c.rhs(0.4, pointer(np.array([0.5, 0.2])), pointer(dy), None)
    assert dy[1] == pytest.approx(-math.sin(0.5), rel=1e-14)


def test_log_densities() -> None:
    c = aj.compile(lambda q, scale: np.sum(np.log(q["u"])) * scale).as_callable({"u": np.ones(3)}, 2.0, form="nutpie", data="scale")
    x, gradient, value, out = np.array([1.0, 2.0, 4.0]), np.zeros(3), np.zeros(1), np.zeros(3)
    assert c.logp(3, pointer(x), pointer(gradient), pointer(value), None) == 0
    assert value[0] == pytest.approx(2 * math.log(8.0))
    np.testing.assert_allclose(gradient, 2 / x)
    assert c.logp(3, pointer(np.zeros(3)), pointer(gradient), pointer(value), None) == 1
    assert c.logp(2, pointer(x), pointer(gradient), pointer(value), None) == -1
    assert c.expand(3, 3, pointer(x), pointer(out), None) == 0
    np.testing.assert_array_equal(out, x)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: residuals.as_callable(PARAMS, T, T, form="grad"), ExportError, "form='grad', expected one of 'value'"),
    (lambda: residuals.as_callable(PARAMS, T, form="residuals"), ArgumentError, "missing a required argument: 'y'"),
    (lambda: residuals.as_callable(PARAMS, T, T, form="residuals", data="z"), ExportError, "'z' is no argument"),
    (lambda: residuals.as_callable(PARAMS, T, T, data="y"), ExportError, "data= without form="),
    (lambda: residuals.as_callable(PARAMS, T, T, form="value", data=("t", "y")), ShapeError, "returns no number"),
    (lambda: aj.compile(lambda t, y: y[:2] * t).as_callable(0.0, np.zeros(3), form="rhs"), ShapeError, "2 derivatives of 3 numbers"),
    (lambda: aj.compile(lambda t: t).as_callable(0.0, form="rhs"), ExportError, "no right-hand side of t, y"),
    (lambda: aj.compile(lambda t, y, k: y).as_callable(0.0, 1.0, 2.0, form="rhs", data="t"), ExportError, "no right-hand side of t, y"),
    (lambda: residuals.as_callable(PARAMS, T, T, form="value", data=("p", "t", "y")), ExportError, "no argument that varies"),
    (lambda: aj.compile(lambda p: p * 2.0).as_callable(3, form="value"), DTypeError, "p is int"),
    (lambda: aj.compile(lambda p, s: p * 2.0).as_callable(1.0, "a", form="value", data="s"), DTypeError, "s has str"),
    (lambda: aj.compile(lambda p: p.astype("f4")).as_callable(np.zeros(2), form="residuals"), DTypeError, "does not return float64"),
    (lambda: aj.compile(lambda p: p).as_callable(1.0, form="value").nutpie_model(), ExportError, "not of the form 'nutpie'")])
def test_what_does_not_fit(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_calls_from_python() -> None:
    x, y = np.array([1.5, 0.5, 0.7]), RNG.normal(size=12)
    expected, matrix = residuals.as_callable(PARAMS, T, y, form="jacobian", data=("t", "y"))(x)
    np.testing.assert_array_equal(residuals.as_callable(PARAMS, T, y, form="residuals", data=("t", "y"))(x), expected)
    assert matrix.shape == (12, 3)
    value, gradient = aj.compile(aj.value_and_grad(lambda x: np.sum(x ** 3))).as_callable(x)(x)
    np.testing.assert_allclose([value, *gradient], [np.sum(x ** 3), *3 * x ** 2])
    rhs = aj.compile(lambda t, y: t * y).as_callable(0.0, x, form="rhs")
    np.testing.assert_array_equal(rhs(2.0, x), 2 * x)
    for c, numbers in ((rhs, (2.0, x[:2])), (residuals.as_callable(PARAMS, T, y, form="residuals", data=("t", "y")), (x[:2],))):
        with pytest.raises(ExportError, match="another number of variables"):
            c(*numbers)


def test_data_of_any_number_of_rows() -> None:
    """One program; pointers that were handed on see the new rows."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(400, 4)), rng.normal(size=400)

    @aj.compile(batch=("x", "y"))
    def cost(p: Any, x: Any, y: Any, scale: Any) -> Any:
        return scale * np.sum((np.tanh(x @ p["a"]) + p["b"] - y) ** 2) / len(x)

    @aj.compile(batch=("x", "y"))
    def residuals(p: Any, x: Any, y: Any) -> Any:
        return np.tanh(x @ p) - y

    c = cost.as_callable({"a": np.ones(4), "b": 0.3}, x[:10], y[:10], 2.0, form="value_and_grad", data=("scale", "y", "x"))
    value, given, p = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_int, ctypes.POINTER(ctypes.c_double), ctypes.c_void_p)(
        c.addresses["value"]), (ctypes.c_double * 5)(0.1, 0.2, 0.3, 0.4, 0.5), np.array([0.1, 0.2, 0.3, 0.4])
    jacobian = residuals.as_callable(p, x[:40], y[:40], form="jacobian", data=("x", "y"))
    for size in (10, 1, 7, 400, 64):
        c.set(x=x[:size], y=y[:size], scale=3.0)
        expected = 3 * np.mean((np.tanh(x[:size] @ p) + 0.5 - y[:size]) ** 2)
        assert np.isclose(c(np.array(given))[0], expected)
        assert value(5, given, None) == c(np.array(given))[0]
        jacobian.set(x=x[:size], y=y[:size])
        first, matrix = jacobian(p)
        slopes = np.tanh(x[:size] @ p)
        assert jacobian.rows == size
        assert np.allclose(first, slopes - y[:size])
        assert np.allclose(matrix, (1 - slopes ** 2)[:, None] * x[:size])
        assert [jacobian.jacobian(4, given, rows, None, None) for rows in (size, size + 1)] == [0, 6]
    for data, words in (({"x": x[:5]}, "x has 5 rows, and y has 64"), ({"x": x[:0], "y": y[:0]}, r"(?s)0 rows.*call as_callable again"),
                        ({"x": x[:5, :3], "y": y[:5]}, r"expected \(rows, 4\)")):
        with pytest.raises(ShapeError, match=words):
            c.set(**data)
    assert value(5, given, None) == c(np.array(given))[0]
    mixed = aj.compile(lambda p, x: np.sum(p * (x[1:] - x[:-1])), batch="x").as_callable(p, x[:10], form="value", data="x")
    with pytest.raises(ShapeError, match="each number of rows of x, because"):
        mixed.set(x=x[:11])


def test_data_that_does_not_fit_replaces_nothing() -> None:
    c = residuals.as_callable(PARAMS, T, T, form="residuals", data=("t", "y"))
    wrong = [({"y": T[:3]}, ShapeError), ({"z": T}, ExportError), ({"t": T + 1, "y": T + 1j}, DTypeError), ({"y": [T] * 999}, ShapeError)]
    for data, error in wrong:
        with pytest.raises(error) as caught:
            c.set(**data)
        assert len(str(caught.value)) < 500
    found = np.zeros(12)
    c.residuals(3, pointer(np.array([1.5, 0.5, 0.7])), 12, pointer(found))
    np.testing.assert_allclose(found, residuals(PARAMS, T, T), rtol=1e-14)


@needs("numba")
def test_a_million_calls_from_numba() -> None:
    import numba

    c = aj.compile(lambda x, s: np.exp(-x * x) * s).as_callable(0.5, 2.0, form="value", data="s")
    density = c.value_of_one

    @numba.njit
    def total(n):
        found = 0.0
        for i in range(n):
            found += density(i / n, 0)
        return found / n

    assert total(1_000_000) == pytest.approx(2 * 0.7468241328, rel=1e-5)
    c.set(s=4.0)
    assert total(1_000_000) == pytest.approx(4 * 0.7468241328, rel=1e-5)


@needs("scipy")
def test_scipy_integrates() -> None:
    from scipy import integrate

    c = aj.compile(lambda x, y, s: np.exp(-x * y) * s).as_callable(0.5, 0.1, 2.0, form="value", data="s")
    found = integrate.dblquad(c.low_level_callable(), 0, 1, 0, 2)[0]
    assert found == pytest.approx(integrate.dblquad(lambda y, x: 2 * math.exp(-x * y), 0, 1, 0, 2)[0], rel=1e-12)


@pytest.mark.parametrize(("name", "library", "expected"), [
    ("integrate_scipy", "scipy", [2.5066282746, 5.0132565493]), ("loop_numba", "numba", 0.8556243919),
    ("call_cffi", "cffi", (84.0, [68.0, 32.0])), ("fit_lmfit", "lmfit", {"amplitude": 2.0, "rate": 1.3, "level": 0.5})])
@pytest.mark.share(1)
def test_examples_of_other_libraries(name: str, library: str, expected: Any) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    found = runpy.run_path(str(ROOT / "examples" / "callables" / f"{name}.py"), run_name="example")["main"]()
    assert optree.tree_structure(found) == optree.tree_structure(expected)
    np.testing.assert_allclose(optree.tree_leaves(found), optree.tree_leaves(expected), rtol=1e-8)


@needs("iminuit")
def test_iminuit_minimizes() -> None:
    found = runpy.run_path(str(ROOT / "examples" / "callables" / "minimize_iminuit.py"), run_name="example")["main"]()
    np.testing.assert_allclose(np.mean(found, axis=0), [3.0, 2.0], atol=0.1)


@needs("emcee")
def test_emcee_samples() -> None:
    found = runpy.run_path(str(ROOT / "examples" / "callables" / "sample_emcee.py"), run_name="example")["main"](steps=600)
    np.testing.assert_allclose(found, [1.0, 3.0], rtol=0.25)


@needs("nutpie")
def test_nutpie_samples_a_hierarchical_model() -> None:
    import nutpie

    groups, columns = 10, 3
    x, group = RNG.normal(size=(400, columns)), RNG.integers(0, groups, 400)
    beta, offsets = np.array([1.0, -0.5, 0.3]), RNG.normal(size=groups)
    y = (RNG.random(400) < 1 / (1 + np.exp(-(x @ beta + offsets[group])))).astype(float)

    @aj.compile
    def log_density(q, x, group, y):
        z = x @ q["beta"] + np.exp(q["log_sigma"]) * aj.numpy.take(q["u"], group)
        return np.sum(y * z - np.logaddexp(0.0, z)) - 0.5 * (np.sum(q["beta"] ** 2) + np.sum(q["u"] ** 2) + q["log_sigma"] ** 2)

    start = {"beta": np.zeros(columns), "log_sigma": 0.0, "u": np.zeros(groups)}
    c = log_density.as_callable(start, x, group, y, form="nutpie", data=("x", "group", "y"))
    trace = nutpie.sample(c.nutpie_model(), draws=500, tune=300, chains=2, cores=1, seed=1, progress_bar=False)
    found = trace.posterior["beta"].values
    assert trace.posterior["u"].shape == (2, 500, groups)
    assert np.all(np.abs(found.mean((0, 1)) - beta) < 0.4)
    assert 0.08 < found.std((0, 1)).max() < 0.25
    c.set(y=1.0 - y)
    flipped = nutpie.sample(c.nutpie_model(), draws=500, tune=300, chains=2, cores=1, seed=1, progress_bar=False)
    np.testing.assert_allclose(flipped.posterior["beta"].values.mean((0, 1)), -found.mean((0, 1)), atol=0.05)
