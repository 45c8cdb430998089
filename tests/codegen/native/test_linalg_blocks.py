"""Factors, inverses and triangular systems by blocks, against NumPy in float64; what is not finite; threads."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.native.linalg import factors
from adjit.codegen.native.linalg.blocks import Triangle, block_width
from adjit.ir import ops
from adjit.tracer.array import wrap

linalg = pytest.importorskip("scipy.linalg")
RANDOM = np.random.default_rng(3)
SIZE = 107      # several blocks, of which the last is narrow
GENERAL = RANDOM.normal(size=(2, SIZE, SIZE))
POSITIVE = GENERAL @ GENERAL.swapaxes(1, 2) + SIZE * np.eye(SIZE)
DTYPES = [(np.float64, 1e-10), (np.float32, 3e-3)]


def emitted(name: str, **attrs: Any) -> Callable[..., Any]:
    """A function of arrays that is one op, compiled."""
    def function(*arrays: Any) -> Any:
        found = getattr(ops, name).emit(*(array.value for array in arrays), **attrs)
        return tuple(map(wrap, found)) if len(found) > 1 else wrap(found[0])
    return aj.compile(function)


@pytest.fixture(scope="module")
def lu() -> Callable[..., Any]:
    return emitted("lu")


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_factors(dtype: type, tolerance: float, lu: Callable[..., Any]) -> None:
    a = GENERAL.astype(dtype)
    packed, pivots, order = lu(a)
    assert (packed.dtype, pivots.shape, order.shape) == (dtype, (2, SIZE), (2, SIZE))
    for one, matrix, swaps, rows in zip(a, packed, pivots, order, strict=True):
        np.testing.assert_allclose(one[rows], (np.tril(matrix.T, -1) + np.eye(SIZE)) @ np.triu(matrix.T), atol=tolerance)
        if dtype is np.float64:
            np.testing.assert_array_equal(swaps, linalg.lu_factor(one)[1])
    inverse = emitted("lu_inverse")(a, packed, pivots)
    np.testing.assert_allclose(inverse.swapaxes(1, 2) @ a, np.broadcast_to(np.eye(SIZE), a.shape), atol=tolerance)
    factor = aj.compile(np.linalg.cholesky)(POSITIVE.astype(dtype))
    np.testing.assert_allclose(factor, np.linalg.cholesky(POSITIVE), atol=tolerance)
    assert not np.triu(factor, 1).any()


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_triangular_systems(dtype: type, tolerance: float) -> None:
    a, b = (0.05 * GENERAL[0] + np.eye(SIZE)).astype(dtype), RANDOM.normal(size=(SIZE, 40)).astype(dtype)

    def solutions(a: Any, b: Any) -> Any:
        return [wrap(ops.triangular_solve(a.value, b.value, lower=lower, transpose=transpose, unit=unit))
                for lower, transpose, unit in ways]

    ways = list(itertools.product((False, True), repeat=3))
    for (lower, transpose, unit), x in zip(ways, aj.compile(solutions)(a, b), strict=True):
        wanted = linalg.solve_triangular(a.astype(float), b.astype(float), lower=lower, trans=int(transpose), unit_diagonal=unit)
        np.testing.assert_allclose(x, wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())


@pytest.mark.parametrize(("dtype", "tolerance"), DTYPES)
def test_small_matrices_without_lapack(dtype: type, tolerance: float) -> None:
    """Columns of vectors and single rows; each way to divide by a triangle; a stack in which one matrix fails."""
    def results(a: Any, b: Any, vector: Any, positive: Any) -> Any:
        lower = np.linalg.cholesky(positive)
        triangles = [wrap(ops.triangular_solve(wrapped(a), wrapped(side), lower=low, transpose=turned, unit=unit))
                     for side in (b, vector) for low, turned, unit in ways]
        return np.linalg.slogdet(a), np.linalg.solve(a, b), np.linalg.solve(a, vector), lower, triangles

    def wrapped(array: Any) -> Any:
        return array.value

    ways = [(lower, turned, lower) for lower, turned in itertools.product((False, True), repeat=2)]
    for size in (1, 11):
        given = 0.3 * RANDOM.normal(size=(3, size, size)) / size ** 0.5 + np.eye(size)[RANDOM.permutation(size)]
        given[0] = 0.3 * given[0] + np.eye(size)
        b, vector = RANDOM.normal(size=(3, size, 5)), RANDOM.normal(size=(3, size, 1))
        positive = given @ given.swapaxes(1, 2) + np.eye(size)
        positive[1, -1, -1] = -1.0
        function = aj.compile(results)
        slogdet, x, y, factor, triangles = function(given.astype(dtype), b.astype(dtype), vector.astype(dtype), positive.astype(dtype))
        for found, wanted in zip((*slogdet, x, y), (*np.linalg.slogdet(given), np.linalg.solve(given, b), np.linalg.solve(given, vector)),
                                 strict=True):
            np.testing.assert_allclose(found, wanted, rtol=10 * tolerance, atol=10 * tolerance * np.abs(wanted).max())
        assert np.isnan(factor[1]).all()
        for index in (0, 2):
            np.testing.assert_allclose(factor[index], np.linalg.cholesky(positive[index]), atol=tolerance)
        for number, found in enumerate(triangles):
            low, turned, unit = ways[number % 4]
            wanted = linalg.solve_triangular(given[0], (b, vector)[number // 4][0], lower=low, trans=int(turned), unit_diagonal=unit)
            np.testing.assert_allclose(found[0], wanted, rtol=tolerance, atol=tolerance * np.abs(wanted).max())
        program = function.program(function.fun, (given.astype(dtype), b.astype(dtype), vector.astype(dtype), positive.astype(dtype)), {})
        text = "".join(definition.text for definition in program.executable.program.definitions)
        assert not any(name in text for name in ("getrf", "potrf", "trsm", "trsv"))


def test_diagonal_of_a_small_factor() -> None:
    """Roots of pivots, to the last bit, and infinite ones."""
    a = np.geomspace(1e-3, 1e3, 40).reshape(40, 1, 1)
    cholesky = aj.compile(np.linalg.cholesky)
    np.testing.assert_array_equal(cholesky(a), np.sqrt(a))
    assert cholesky(np.full((1, 1), np.inf)) == np.inf


def test_gradient_of_a_small_determinant() -> None:
    """By the inverse from factors; of a matrix without one it is NaN, and those beside it are not touched."""
    a = RANDOM.normal(size=(3, 6, 6))
    found = aj.compile(aj.grad(lambda a: np.sum(np.linalg.slogdet(a)[1])))(a)
    np.testing.assert_allclose(found, np.linalg.inv(a).swapaxes(1, 2), rtol=1e-10)
    a[1] = 0.0
    broken = aj.compile(aj.grad(lambda a: np.sum(np.linalg.slogdet(a)[1])))(a)
    assert np.isnan(broken[1]).all()
    np.testing.assert_array_equal(broken[[0, 2]], found[[0, 2]])


@pytest.mark.parametrize("size", [7, SIZE])
def test_inverses_without_factors(size: int) -> None:
    """By Cholesky factors where a matrix is symmetric and positive definite: the inverse is then exactly symmetric."""
    a, ways = GENERAL[0, :size, :size], [aj.compile(np.linalg.inv), aj.compile(lambda a: np.linalg.inv(a) ** 2 @ np.ones(size))]
    positive, indefinite = a @ a.T + np.eye(size), a + a.T + 3 * np.diag(np.abs(np.diag(a)))
    broken = positive.copy()
    broken[0, -1] += 1.0
    for matrix in (a, positive, indefinite, broken, 1e-100 * positive):
        found, wanted = ways[0](matrix), np.linalg.inv(matrix)
        np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(wanted).max())
        np.testing.assert_allclose(ways[1](matrix), wanted ** 2 @ np.ones(size), rtol=1e-8)
        assert np.array_equal(found, found.T) == (matrix is positive or matrix[0, 0] < 1e-90)
    assert "inverse %a {transposed=false}" in ways[0].ir("planned")
    assert np.isnan(ways[0](np.ones((size, size)))).all()
    positive[1, 1] = np.inf
    np.testing.assert_array_equal(np.isfinite(ways[0](positive)), np.isfinite(np.linalg.inv(positive)))


def test_what_is_not_finite(lu: Callable[..., Any]) -> None:
    """A column of zeros gives a determinant of 0 and no inverse, NaN stays where it is; other matrices of the stack are not touched."""
    a = GENERAL.copy()
    a[0, :, 7] = 0.0
    sign, log = aj.compile(lambda a: tuple(np.linalg.slogdet(a)))(a)
    assert (sign[0], log[0]) == (0.0, -np.inf)
    np.testing.assert_allclose(log[1], np.linalg.slogdet(a[1])[1])
    inverse = aj.compile(np.linalg.inv)(a)
    assert np.isnan(inverse[0]).all()
    np.testing.assert_allclose(inverse[1], np.linalg.inv(a[1]), atol=1e-10)
    a[0, 3, 3] = np.nan
    assert np.isnan(aj.compile(lambda a: np.linalg.slogdet(a)[1])(a)[0])
    indefinite = POSITIVE.copy()
    indefinite[0, -3, -3] = -1.0
    factor = aj.compile(np.linalg.cholesky)(indefinite)
    assert np.isnan(factor[0]).all()
    np.testing.assert_allclose(factor[1], np.linalg.cholesky(POSITIVE[1]))
    lower, b = np.linalg.cholesky(POSITIVE[0]), np.ones((SIZE, 40))
    b[50, 3] = np.inf
    solve = emitted("triangular_solve", lower=True, transpose=False, unit=False)
    x = solve(lower, b)
    assert np.isfinite(np.delete(x, 3, 1)).all()
    assert np.isfinite(x[:50]).all()
    lower[60, 60] = 0.0
    assert np.isfinite(solve(lower, np.ones((SIZE, 40)))[:60]).all()


def test_bits_do_not_depend_on_threads(lu: Callable[..., Any]) -> None:
    """Whether the matrices of a stack are dealt to threads, or the products of a single large one."""
    stack, large = np.concatenate([POSITIVE, GENERAL]), RANDOM.normal(size=(300, 300))
    functions = [aj.compile(lambda a, b, large: (np.linalg.inv(a), np.linalg.cholesky(b), np.linalg.inv(large)), threads=threads)
                 for threads in (1, 2)]
    results = [[function(stack, POSITIVE, large) for _ in range(2)][1] for function in functions]       # the first may have no pool
    assert all(one.tobytes() == other.tobytes() for one, other in zip(*results, strict=True))
    assert "adjit.launch" in functions[0].kernels()["shared functions"]


def test_blocks() -> None:
    """All rows, each once, after those they depend on; at most 32 blocks."""
    for size, lower in itertools.product((48, 107, 257, 513, 1000, 3000), (False, True)):
        blocks = list(Triangle("%a", size, lower).blocks)
        assert len(blocks) <= 32
        done = 0
        for start, count, before, known in blocks:
            assert (known, start) == (done, done if lower else size - done - count)
            assert before == (0 if lower else start + count)
            done += count
        assert done == size
        assert max(count for _, count, _, _ in blocks) == min(block_width(size), size)


def test_smaller_matrices_are_left_to_lapack() -> None:
    assert min(factors.MIN_SIZE.values()) > block_width(1)


def test_derivatives_of_parts() -> None:
    """From 256 rows on, products with zeros are left out of the derivative of Cholesky factors."""
    size = 256
    a = RANDOM.normal(size=(size, size))
    a, direction, weights = a @ a.T / size + np.eye(size), RANDOM.normal(size=(size, size)), RANDOM.normal(size=(size, size))
    direction = direction + direction.T
    gradient = aj.compile(aj.grad(lambda a: np.sum(weights * np.linalg.cholesky(a))))(a)
    step = 1e-5
    difference = (np.linalg.cholesky(a + step * direction) - np.linalg.cholesky(a - step * direction)) / (2 * step)
    np.testing.assert_allclose(np.sum(gradient * direction), np.sum(weights * difference), rtol=1e-6)
