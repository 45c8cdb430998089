"""Linear algebra: NumPy's values for compiled programs on every backend, derivatives of three orders, stacks, and what does not fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit.ir.errors import ShapeError
from adjit.ir.graph import external_op
from adjit.linalg.factorizations import BLOCK
from adjit.tracer.libraries import own_code

RANDOM = np.random.default_rng(0)
WEIGHTS = RANDOM.normal(size=(4, 4))
RIGHT = RANDOM.normal(size=(4, 2))

Function = Callable[[Any], Any]


def symmetric(a: Any) -> Any:
    return a @ np.swapaxes(a, -2, -1) + a.shape[-1] * np.eye(a.shape[-1], dtype=a.dtype)


FUNCTIONS: dict[str, Function] = {
    "cholesky": lambda a: np.sum(WEIGHTS * np.linalg.cholesky(symmetric(a))),
    "upper cholesky": lambda a: np.sum(WEIGHTS * np.linalg.cholesky(symmetric(a), upper=True)),
    "solve": lambda a: np.sum(np.linalg.solve(a, RIGHT) ** 2),
    "solve for a vector": lambda a: np.sum(np.linalg.solve(a, RIGHT[:, 0]) ** 2),
    "solve with a on both sides": lambda a: np.sum(WEIGHTS * np.linalg.solve(a, a @ a + 1.0)),
    "inv": lambda a: np.sum(WEIGHTS * np.linalg.inv(a)),
    "det": lambda a: np.sum(np.linalg.det(a)),
    "slogdet": lambda a: np.sum(np.linalg.slogdet(a)[0] * np.linalg.slogdet(a).logabsdet),
    "matrix_power": lambda a: np.sum(WEIGHTS * np.linalg.matrix_power(a, 3)),
    "matrix_power below 0": lambda a: np.sum(WEIGHTS * np.linalg.matrix_power(a, -2)),
    "lower": lambda a: np.sum(aj.linalg.solve_triangular(symmetric(a), RIGHT, lower=True) ** 2),
    "upper": lambda a: np.sum(aj.linalg.solve_triangular(symmetric(a), RIGHT) ** 2),
    "lower transposed": lambda a: np.sum(aj.linalg.solve_triangular(symmetric(a), RIGHT, trans="T", lower=True) ** 2),
    "upper transposed": lambda a: np.sum(aj.linalg.solve_triangular(symmetric(a), RIGHT, trans=1) ** 2),
}


def interpreted(function: Function) -> Function:
    """What is wrong with a formula shows without machine code, too."""
    return aj.compile(function, backend="interpret")


def differences(function: Function, x: np.ndarray, h: float = 1e-6) -> np.ndarray:
    slopes = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = h
        slopes[place] = (function(x + step) - function(x - step)) / (2 * h)
    return slopes


@pytest.mark.share(4)
@pytest.mark.parametrize(("name", "code"), [*((name, nullcontext) for name in FUNCTIONS),
                                            *((name, own_code) for name in ("cholesky", "solve", "inv", "det", "slogdet", "upper"))])
def test_values_and_derivatives(name, code):
    """Of formulas, which machine code says nothing about: the tests below have that."""
    with code():
        check_values_and_derivatives(name)


def check_values_and_derivatives(name):
    function, a, along = FUNCTIONS[name], RANDOM.normal(size=(4, 4)) + 2 * np.eye(4), RANDOM.normal(size=(4, 4))
    value_and_gradient = interpreted(aj.value_and_grad(function))
    value, gradient = value_and_gradient(a)
    np.testing.assert_allclose(value, function(a), rtol=1e-12)
    np.testing.assert_allclose(gradient, differences(function, a), rtol=1e-5, atol=1e-6)
    slope = differences(lambda t: np.sum(value_and_gradient(a + t * along)[1] * along), np.zeros(()))
    product = interpreted(lambda a: aj.hvp(function, (a,), (along,)))(a)
    np.testing.assert_allclose(np.sum(product * along), slope, rtol=1e-4)


@pytest.mark.parametrize("name", ["cholesky", "solve", "solve for a vector", "slogdet", "upper"])
def test_stacks(name):
    function, a = FUNCTIONS[name], RANDOM.normal(size=(2, 4, 4)) + 2 * np.eye(4)
    value, gradient = aj.value_and_grad(function)(a)
    np.testing.assert_allclose(value, function(a), rtol=1e-12)
    np.testing.assert_allclose(gradient, differences(function, a), rtol=1e-5, atol=1e-6)


@pytest.mark.share(2)
@pytest.mark.parametrize(("backend", "size"), [("native", BLOCK), ("native", 2 * BLOCK + 5), ("interpret", 1), ("interpret", 2 * BLOCK)])
def test_blocks(backend, size):
    """Of the code that exports for C have, and programs without SciPy."""
    a = RANDOM.normal(size=(size, size))
    b = RANDOM.normal(size=(size, 3))

    @aj.compile(backend=backend)
    def everything(a, b):
        return np.linalg.cholesky(symmetric(a)), np.linalg.solve(a, b), np.linalg.slogdet(a), aj.linalg.solve_triangular(symmetric(a), b)

    with own_code():
        factor, x, (sign, logarithm), y = everything(a, b)
    assert external_op(everything.program(everything.fun, (), {}).planned) is None
    np.testing.assert_allclose(factor, np.linalg.cholesky(symmetric(a)), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(a @ x, b, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose([sign, logarithm], np.linalg.slogdet(a), rtol=1e-10)
    np.testing.assert_allclose(np.triu(symmetric(a)) @ y, b, rtol=1e-7, atol=1e-9)


def test_pivots_are_the_largest():
    """Without pivoting 1e-20 would be divided by, and nothing of b would be left."""
    a = np.array([[1e-20, 1.0], [1.0, 1.0]])
    np.testing.assert_allclose(aj.compile(np.linalg.solve)(a, np.array([1.0, 2.0])), [1.0, 1.0])
    np.testing.assert_allclose(aj.compile(np.linalg.det)(a[[1, 0]]), 1.0)


def test_a_triangle_is_not_read():
    a = symmetric(RANDOM.normal(size=(BLOCK + 3, BLOCK + 3)))
    spoiled = np.tril(a) + np.triu(np.full_like(a, np.nan), 1)
    np.testing.assert_allclose(aj.compile(np.linalg.cholesky)(spoiled), np.linalg.cholesky(a), rtol=1e-10, atol=1e-12)


def test_singular_and_not_positive_definite():
    """NumPy raises an error, which a program that does not look at values cannot; determinants are NumPy's."""
    everything = interpreted(lambda a: (np.linalg.det(a), np.linalg.slogdet(a), np.linalg.inv(a)))
    for a in (np.zeros((2, 2)), np.ones((3, 3)), np.diag([1.0, 0.0, 2.0])):
        determinant, (sign, logarithm), inverse = everything(a)
        assert (determinant, sign, logarithm) == (0.0, 0.0, -np.inf)
        assert not np.isfinite(inverse).all()
    assert np.isnan(interpreted(np.linalg.cholesky)(-np.eye(2))).any()
    with pytest.raises(np.linalg.LinAlgError):
        aj.linalg.inv(np.zeros((2, 2)))     # of plain arrays: NumPy's


@pytest.mark.parametrize("backend", BACKENDS)
def test_infinities_and_nans_are_not_lost(backend, exhaustive):
    """NaN or an infinity wherever NumPy has one, or raises an error; of one infinity or NaN the very one, for nine matrices in ten."""
    random = np.random.default_rng(3)

    def everything(a):
        sign, logarithm = np.linalg.slogdet(a)
        sign = np.where(np.isnan(logarithm), np.nan, sign)
        return np.linalg.det(a), np.linalg.inv(a), np.linalg.solve(a, np.ones(a.shape[-1])), sign, logarithm

    compiled, same, count = aj.compile(everything, backend=backend), 0, 0
    for size in (1, 2, 3) if exhaustive or backend == "native" else (2,):     # each is a program to compile
        for trial in range(60):
            a = random.normal(size=(size, size))
            a[tuple(random.integers(0, size, 2))] = (np.inf, -np.inf, np.nan)[trial % 3]
            with np.errstate(all="ignore"):
                try:
                    expected = everything(a)
                except np.linalg.LinAlgError:
                    assert not np.isfinite(compiled(a)[1]).all()
                    continue
            for found, want in zip(compiled(a), expected, strict=True):
                assert not np.any(np.isfinite(found) & ~np.isfinite(want))
                same += np.allclose(found, want, equal_nan=True, rtol=1e-9)
                count += 1
    assert same > 0.9 * count


def test_huge_matrices_have_determinants():
    a = np.diag([1e308, 1e308, 1e-308, 1e-308])
    a[0, 1] = 1e308
    assert interpreted(np.linalg.slogdet)(a) == pytest.approx(np.linalg.slogdet(a))
    assert interpreted(np.linalg.det)(np.array([[np.inf]])) == np.inf


NORMS = [(None, None), (None, 1), (None, (0, 2)), (1, 1), (2, 2), (np.inf, 0), (-np.inf, 0), (0, 1), (3, 1), (0.5, 1),
         (1, (0, 1)), (-1, (0, 2)), (np.inf, (1, 2)), (-np.inf, (2, 0)), ("fro", (0, 1))]


@pytest.mark.share(3)
@pytest.mark.parametrize(("ord", "axis"), NORMS, ids=map(str, NORMS))
def test_norms(ord, axis):
    x, keepdims = RANDOM.normal(size=(3, 4, 5)), axis in (1, (1, 2))

    def norm(x):
        return np.linalg.norm(x, ord, axis, keepdims)

    found = aj.compile(norm)(x)
    assert found.shape == norm(x).shape
    np.testing.assert_allclose(found, norm(x), rtol=1e-12)
    np.testing.assert_allclose(aj.grad(lambda x: np.sum(norm(x)))(x), differences(lambda x: np.sum(norm(x)), x), rtol=1e-4, atol=1e-6)


def test_the_norm_of_zero():
    assert aj.grad(np.linalg.norm)(np.zeros(3)).tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize(("shape", "ord"), [(3, None), (3, 1), ((3, 3), None), ((3, 3), np.inf)])
def test_a_norm_is_a_scalar_which_is_rebound(shape, ord):
    def fun(x, y):
        first = norm = np.linalg.norm(x, ord)
        norm += y
        return first, norm

    x, y = RANDOM.normal(size=shape), RANDOM.normal(size=2)
    for found, expected in zip(interpreted(fun)(x, y), fun(x, y), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14)


def test_dtypes_and_shapes():
    a = symmetric(RANDOM.normal(size=(3, 3)))
    assert interpreted(np.linalg.inv)(a.astype(np.float32)).dtype == np.float32
    assert interpreted(np.linalg.inv)(np.array([[2, 1], [1, 1]])).tolist() == [[1.0, -1.0], [-1.0, 2.0]]
    solve = interpreted(np.linalg.solve)
    assert solve(a, np.ones((2, 3, 4))).shape == (2, 3, 4)
    assert solve(np.stack([a] * 2), np.ones(3)).shape == (2, 3)
    assert solve(a, np.ones((3, 2), np.float32)).dtype == np.float64
    assert interpreted(np.linalg.det)(np.zeros((2, 0, 0))).tolist() == [1.0, 1.0]
    assert solve(np.zeros((0, 0)), np.zeros((0, 2))).shape == (0, 2)
    assert interpreted(np.linalg.cholesky)(np.zeros((0, 3, 3))).shape == (0, 3, 3)
    assert aj.numpy.linalg is aj.linalg


def test_derivatives_of_high_order_are_right_or_nan():
    """The derivatives of log(x), by systems of one equation: 1/x, -1/x**2, 2/x**3, -6/x**4. Blocks have rules for three orders, and then no
    silent zero."""
    def derivatives():
        def function(x):
            return np.linalg.slogdet(x * np.eye(1))[1]

        for _ in range(4):
            function = aj.grad(function)
            yield float(function(2.0))

    np.testing.assert_allclose([*derivatives()], [0.5, -0.25, 0.25, -0.375], rtol=1e-12)
    with own_code():
        *found, last = derivatives()
    np.testing.assert_allclose(found, [0.5, -0.25, 0.25], rtol=1e-12)
    assert np.isnan(last)
    power = interpreted(aj.grad(aj.grad(aj.grad(aj.grad(lambda x: np.linalg.det(x * np.eye(5)))))))
    np.testing.assert_allclose(power(2.0), 240.0, rtol=1e-12)


def test_determinants_of_every_rank_have_two_derivatives():
    """The first one has the cofactors, the second one their derivatives; a pivot that is 0, and one that rounding leaves."""
    def cofactors(a):
        minors = [[np.delete(np.delete(a, i, -2), j, -1) for j in range(4)] for i in range(4)]
        return np.array([[(-1) ** (i + j) * np.linalg.det(minors[i][j]) for j in range(4)] for i in range(4)])

    def function(a):
        return np.sum(np.real(np.linalg.det(a)))

    left, right, along = (RANDOM.normal(size=(6, 4, 4)) + 1j * RANDOM.normal(size=(6, 4, 4)) for _ in range(3))
    ranks = np.arange(4) < np.array([4, 3, 2, 1, 0, 0])[:, None]
    a = (left * ranks[:, None]) @ right
    a[5] = np.eye(4, k=1)
    gradient, product = interpreted(lambda a: (aj.grad(function)(a), aj.hvp(function, (a,), (along,))))(a)
    np.testing.assert_allclose(gradient, np.conjugate([*map(cofactors, a)]), rtol=1e-9, atol=1e-12)
    slopes = [(cofactors(x + 1e-5 * step) - cofactors(x - 1e-5 * step)) / 2e-5 for x, step in zip(a, along, strict=True)]
    np.testing.assert_allclose(product, np.conjugate(slopes), rtol=1e-7, atol=1e-7)
    singular = np.arange(9.0).reshape(3, 3)
    found = aj.vmap(interpreted(aj.grad(np.linalg.det)))(np.stack([singular, np.ones((3, 3))]))
    np.testing.assert_allclose(found, [[[-3, 6, -3], [6, -12, 6], [-3, 6, -3]], np.zeros((3, 3))], atol=1e-12)


def test_in_a_loop():
    """A Kalman filter: systems within a scan, and its derivatives."""
    observed, turn = RANDOM.normal(size=(6, 2)), np.array([[1.0, 1.0], [0.0, 1.0]])

    def minus_log_likelihood(p, scan):
        def step(state, y):
            mean, spread = turn @ state[0], turn @ state[1] @ turn.T + np.eye(2) * np.exp(p[:2])
            error, total = y - mean, spread + np.eye(2) * np.exp(p[2:])
            gain = np.linalg.solve(total, spread).T
            weight = np.linalg.slogdet(total)[1] + error @ np.linalg.solve(total, error)
            return (mean + gain @ error, spread - gain @ spread), weight
        return 0.5 * np.sum(scan(step, (np.zeros(2), np.eye(2)), observed)[1])

    def plain(step, state, xs):
        rows = []
        for x in xs:
            state, row = step(state, x)
            rows.append(row)
        return state, np.array(rows)

    p = np.array([-1.0, -2.0, 0.0, 0.3])
    value, gradient = aj.value_and_grad(minus_log_likelihood)(p, aj.scan)
    np.testing.assert_allclose(value, minus_log_likelihood(p, plain), rtol=1e-12)
    np.testing.assert_allclose(gradient, differences(lambda p: minus_log_likelihood(p, plain), p), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", ["cholesky", "solve", "slogdet"])
def test_tensors(name, compiled):
    function, a = FUNCTIONS[name], RANDOM.normal(size=(4, 4)) + 2 * np.eye(4)
    x = aj.tensor(a, dtype="float64", requires_grad=True)
    (slope,) = aj.autograd.grad((aj.compile(function) if compiled else function)(x), x, create_graph=True)
    expected, twice = interpreted(lambda a: (aj.grad(function)(a), aj.grad(lambda a: np.sum(aj.grad(function)(a) ** 2))(a)))(a)
    np.testing.assert_allclose(slope.detach().numpy(), expected, rtol=1e-9)
    (slope * slope).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), twice, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("n", [-2, -1, 0, 1, 2, 5])
@pytest.mark.parametrize("dtype", ["i8", "i4", "f4"])
def test_powers_have_numpys_dtypes(dtype, n):
    a = np.array([[1, 1], [0, 1]], dtype)
    found, expected = interpreted(lambda a: np.linalg.matrix_power(a, n))(a), np.linalg.matrix_power(a, n)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("function", "kind", "words"), [
    (lambda a: np.linalg.inv(a[:2]), ShapeError, r"inv: the shape \(2, 3\) is not a shape of square matrices"),
    (lambda a: np.linalg.cholesky(a[0]), ShapeError, "cholesky: the shape"),
    (lambda a: np.linalg.solve(a, a[:2]), ShapeError, r"solve: matrices \(3, 3\) do not fit to a right-hand side of shape \(2, 3\)"),
    (lambda a: np.linalg.solve(np.stack([a, a]), np.stack([a, a, a])), ShapeError, "cannot be broadcast"),
    (lambda a: np.linalg.norm(a, "x"), ValueError, "no norm of a matrix"),
    (lambda a: np.linalg.norm(a[0], "fro"), ValueError, "no norm of a vector"),
    (lambda a: np.linalg.norm(np.stack([a, a]), 1), ShapeError, "neither a vector nor a matrix"),
    (lambda a: np.linalg.matrix_power(a, 1.5), TypeError, "integer"),
    (lambda a: aj.linalg.solve_triangular(a, a, trans=2), ValueError, "trans is"),
], ids=["inv", "cholesky", "solve", "stacks", "ord", "vector", "three axes", "power", "trans"])
def test_what_does_not_fit(function, kind, words):
    with pytest.raises(kind, match=words):
        aj.compile(function)(np.eye(3))


@pytest.mark.parametrize("size", [47, 48, 100])
@pytest.mark.parametrize("upper", [False, True])
def test_cholesky_factors_of_any_size_read_one_triangle(size: int, upper: bool) -> None:
    a = np.random.default_rng(size).normal(size=(2, size, size))
    a = a @ a.swapaxes(-1, -2) + np.eye(size)
    given = np.triu(a) if upper else np.tril(a)
    found = aj.compile(lambda a: np.linalg.cholesky(a, upper=upper))(given + 7.0 * (given == 0))
    np.testing.assert_allclose(found, np.linalg.cholesky(a, upper=upper), rtol=1e-9, atol=1e-9)
    given[0] = -given[0]
    found = aj.compile(lambda a: np.linalg.cholesky(a, upper=upper))(given)
    assert np.isnan(found[0]).all()
    assert not np.isnan(found[1]).any()


@pytest.mark.parametrize("backend", BACKENDS)
def test_matrices_that_cannot_be_factored_are_named(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    pytest.importorskip("scipy")
    stack = np.stack([np.eye(3), np.diag([1.0, 1.0, -1.0])])
    functions = [(np.linalg.cholesky, stack, r"matrix \[1\] of the stack .*test_linalg.py.*minor of 3 rows.*dpotrf: info = 3"),
                 (lambda a: np.linalg.inv(a), np.diag([1.0, 0.0]), r"the matrix .*pivot of row 2 is 0.*dgetrf: info = 2")]
    for function, a, words in functions:
        with warnings.catch_warnings(action="error"):
            expected = aj.compile(function, backend=backend)(a)
        with monkeypatch.context() as patch:
            patch.setenv("ADJIT_DEBUG", "1")
            with pytest.warns(RuntimeWarning, match=words):
                np.testing.assert_array_equal(aj.compile(function, backend=backend)(a), expected)
            good = aj.compile(aj.value_and_grad(lambda a: np.sum(np.linalg.cholesky(a))), backend=backend)
            with warnings.catch_warnings(action="error"):
                value, gradient = good(np.eye(2))
            assert value == 2
            np.testing.assert_array_equal(gradient, 0.5 * np.ones((2, 2)))
