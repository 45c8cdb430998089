"""Sums of many floats are as accurate as NumPy's, whatever their length, in every backend, and whatever they are fused with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS, COMPILING

import adjit
from adjit.nn import functional

Function = Callable[[Any], Any]

TIMES = 4
"""How many times NumPy's error is still as good as NumPy."""
UNITS = {"sum": 3, "product": 8}
"""Units in the last place that are as good as none: NumPy's own sums of equal numbers are off by up to 2.7."""
PART = 384
"""Elements of k after which a product of matrices adds to C, as BLAS does: half a unit each time, where all roundings go one way. What
BLAS is off by on one processor says little of others: for two rows of 300,000 between 3e-7 and 2e-5."""

ALONG_ROWS: dict[str, Function] = {
    "sum": lambda x: np.sum(x, axis=1), "of roots": lambda x: np.sum(x * np.sqrt(x), axis=1), "mean": lambda x: np.mean(x, axis=1),
    "variance": lambda x: np.var(x + np.arange(x.shape[1], dtype=x.dtype) % 7, axis=1), "norm": lambda x: np.linalg.norm(x, axis=1),
    "of squares": lambda x: np.sum(x * x, axis=1), "with the largest": lambda x: (np.sum(np.abs(x), axis=1), np.max(np.abs(x), axis=1)),
    "einsum": lambda x: np.einsum("ij,ij->i", x, x),
    "of exponentials": lambda x: np.sum(np.exp((x - np.max(x, axis=1, keepdims=True)) / 1e6), axis=1)}
OTHERS: dict[str, Function] = {
    "all": np.sum, "all of roots": lambda x: np.sum(x * np.sqrt(x)),
    "deviation": lambda x: np.std(x + np.arange(x.shape[1], dtype=x.dtype) % 7),
    "down columns": lambda x: np.sum(x, axis=0), "roots down columns": lambda x: np.sum(np.sqrt(x), axis=0),
    "rows, columns and all": lambda x: (np.sum(x * x, axis=0), np.sum(x * x, axis=1), np.sum(x * x)),
    "of rows": lambda x: np.sum(np.sqrt(np.sum(x * x, axis=1))), "of columns": lambda x: np.sum(np.sqrt(np.sum(x * x, axis=0))),
    "middle": lambda x: np.sum(x.reshape(2, -1, 2), axis=1),
    "around the middle": lambda x: np.sum(x.reshape(2, -1, 4) * x.dtype.type(3), axis=(0, 2)),
    "transposed": lambda x: np.sum(x.T * x.dtype.type(3), axis=0), "every third": lambda x: np.sum(x[:, ::3], axis=1)}
PRODUCTS: dict[str, Function] = {
    "dot": lambda x: np.dot(x.reshape(-1), x.reshape(-1)), "vdot": lambda x: np.vdot(x, x), "with its transpose": lambda x: x[:4] @ x[:4].T,
    "transpose with itself": lambda x: x[:, :4].T @ x[:, :4], "with a vector": lambda x: x @ x[0], "vector with": lambda x: x[:, 0] @ x,
    "wide": lambda x: x @ np.sqrt(x.T)[:, :70], "einsum to a number": lambda x: np.einsum("ij,ij->", x, x)}
SHAPES = ((3, 1000), (4, 30_000), (2, 300_000), (30_000, 4), (1000, 300), (20_000, 10))
EVERY = {**ALONG_ROWS, **OTHERS, **PRODUCTS}


def numbers(kind: str, shape: tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """Random positive numbers, equal ones, or large and small ones in turn."""
    size = int(np.prod(shape))
    if kind == "random":
        return np.random.default_rng(0).random(shape).astype(dtype)
    values = np.full(size, 0.1) if kind == "equal" else np.where(np.arange(size) % 2 == 0, 1e6, 1e-3)
    return values.astype(dtype).reshape(shape)


def errors(found: Any, exact: Any) -> list[float]:
    """The largest relative error of each result."""
    pairs = zip(found, exact, strict=True) if isinstance(found, tuple) else [(found, exact)]
    return [float(np.max(np.abs(a.astype(b.dtype) - b)) / np.max(np.abs(b))) for a, b in pairs]


def check(name: str, compiled: Any, shape: tuple[int, ...], dtype: Any = np.float32) -> None:
    kind = "product" if name in PRODUCTS else "sum"
    for values in ("random", "equal", "in turn"):
        x = numbers(values, shape, dtype)
        exact = EVERY[name](x.astype(np.float64 if dtype == np.float32 else np.longdouble))
        found, numpy = errors(compiled(x), exact), errors(EVERY[name](x), exact)
        additions = max(shape) / PART / 2 if kind == "product" else 0
        for own, other in zip(found, numpy, strict=True):
            most = max(TIMES * other, (UNITS[kind] + additions) * np.finfo(dtype).eps)
            assert own <= most, f"{name} of {shape}, {values}: {own:.1e}, NumPy {other:.1e}"


@pytest.mark.share(6)
@pytest.mark.parametrize("name", EVERY)
def test_as_accurate_as_numpy(name: str) -> None:
    compiled = adjit.compile(lambda x: EVERY[name](x))
    for shape in SHAPES:
        check(name, compiled, shape)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["sum", "of roots", "variance", "all of roots", "rows, columns and all", "of rows", "dot"])
def test_other_backends(name: str) -> None:
    for backend in BACKENDS[1:]:
        compiled = adjit.compile(lambda x: EVERY[name](x), backend=backend)
        for shape in (4, 30_000), (20_000, 10):
            check(name, compiled, shape)


@pytest.mark.share(2)
@pytest.mark.parametrize("name", ["sum", "of squares", "variance", "all", "of rows", "dot", "with a vector"])
def test_float64(name: str) -> None:
    compiled = adjit.compile(lambda x: EVERY[name](x))
    for shape in (4, 30_000), (20_000, 10):
        check(name, compiled, shape, np.float64)


@pytest.mark.parametrize("target", ["avx2", "sse2"])
def test_narrower_vectors(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_TARGET", target)
    for name in "of squares", "all", "of rows", "dot", "with a vector":
        check(name, adjit.compile(lambda x, name=name: EVERY[name](x)), (4, 30_000))


@pytest.mark.parametrize("name", [*ALONG_ROWS, "all", "all of roots", "of rows", "dot", "vector with"])
def test_up_to_a_hundred_million(name: str, exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("takes gigabytes")
    compiled = adjit.compile(lambda x: EVERY[name](x))
    for shape in (10, 10**6), (2, 10**7), (1, 10**8), (10**7, 4):
        check(name, compiled, shape)


def test_gradients() -> None:
    """Of a bias, a weight and a kernel, over many examples; of pooling over large windows. Against NumPy, op by op."""
    x, image = numbers("equal", (16_384, 96)), numbers("equal", (32, 2, 64, 64))
    cases: list[tuple[Function, tuple[np.ndarray, ...]]] = [
        (adjit.grad(lambda b, x: np.sum(np.sqrt(x + b))), (numbers("random", (96,)), x)),
        (adjit.grad(lambda w, x: np.sum(np.sqrt(x @ w))), (numbers("random", (96, 32)), x)),
        (adjit.grad(lambda w, x: np.sum(np.square(functional.conv2d(x, w)))), (numbers("random", (4, 2, 3, 3)), image)),
        (lambda x: functional.avg_pool2d(x, 32), (image,))]
    for function, arguments in cases:
        exact = adjit.compile(function, backend="interpret")(*(argument.astype(np.float64) for argument in arguments))
        by_numpy = adjit.compile(function, backend="interpret")(*arguments)
        (own,), (other,) = errors(adjit.compile(function)(*arguments), exact), errors(by_numpy, exact)
        assert own <= max(TIMES * other, 8 * np.finfo(np.float32).eps)


@pytest.mark.parametrize("backend", COMPILING)
def test_what_is_not_finite_stays_what_it_is(backend: str) -> None:
    compiled = adjit.compile(lambda x: (np.sum(x, axis=1), np.sum(x * x, axis=1), np.sum(x * x), np.dot(x[0], x[0])), backend=backend)
    for place in 0, 20_000, 39_999:
        for special in np.inf, -np.inf, np.nan:
            x = numbers("random", (2, 40_000))
            x[0, place] = special
            rows, squares, total, product = compiled(x)
            np.testing.assert_array_equal(rows[0], special)
            assert np.isfinite([rows[1], squares[1]]).all()
            for number in squares[0], total, product:
                np.testing.assert_array_equal(number, special * special)
    both = numbers("random", (2, 40_000))
    both[0, 3], both[0, 30_000] = np.inf, -np.inf
    assert np.isnan(compiled(both)[0][0])
    large = np.full((2, 40_000), 3e38, np.float32)
    assert np.isposinf(compiled(large)[0]).all()
