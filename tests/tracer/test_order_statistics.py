"""Sorted arrays, medians, quantiles, partitions: of short lines and of long ones, in which few elements are looked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import for_each

import adjit as aj
from adjit.ir.ops.cumulative import MIN_SEARCHED

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "median": lambda x: np.median(x, axis=1), "of all": np.median, "columns": lambda x: np.median(x.T, axis=0),
    "nanmedian": lambda x: np.nanmedian(x, axis=1), "nanmedian of all": np.nanmedian,
    "quantile": lambda x: np.quantile(x, 0.3, axis=1), "last": lambda x: np.quantile(x, 1.0),
    "hazen": lambda x: np.quantile(x, 0.41, method="hazen"),
    "several": lambda x: np.percentile(x, [0, 25, 75, 100], axis=-1), "many": lambda x: np.quantile(x, np.linspace(0, 1, 9), axis=1),
    "nanquantile": lambda x: np.nanquantile(x, 0.3, axis=1), "discrete": lambda x: np.quantile(x, 0.41, method="inverted_cdf"),
    "largest": lambda x: np.sort(x, axis=1)[:, -3:], "accumulated": lambda x: np.maximum.accumulate(x, axis=1),
}


@pytest.mark.share(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("size", [4, MIN_SEARCHED + 1, *(pytest.param(size, marks=pytest.mark.slow) for size in (1, 75))])
def test_values(size: int) -> None:
    rng = np.random.default_rng(size)
    plain = rng.normal(size=(3, size))
    missing = np.where(rng.random((3, size)) < 0.4, np.nan, plain)
    special = rng.choice([np.inf, -np.inf, 0.0, 1.5], size=(3, size))

    def compare(function: Callable[..., Any]) -> None:
        compiled = aj.compile(function)
        for x in (plain, missing, special, rng.integers(0, 3, (3, size)), plain.astype(np.float32)):
            expected, found = function(x), compiled(x)
            assert found.dtype == expected.dtype
            single = x.dtype == np.float32
            np.testing.assert_allclose(found, expected, rtol=1e-5 if single else 1e-13, atol=1e-6 if single else 1e-14)

    for_each(FUNCTIONS, compare, share=2)


@pytest.mark.parametrize("size", [1, 40, MIN_SEARCHED])
def test_partitions(size: int) -> None:
    """What is before the place is not larger, what is behind it not smaller."""
    rng = np.random.default_rng(size)
    for x in (rng.normal(size=(2, size)), rng.integers(0, 3, (2, size)), rng.choice([np.nan, 1.0, np.inf, 0.0], (2, size))):
        ordered = np.sort(x, axis=1)
        for kth in (size // 3, -1, [0, size // 2]):
            order = aj.compile(lambda x, kth=kth: np.argpartition(x, kth, axis=1))(x)
            np.testing.assert_equal(np.sort(order, axis=1), np.broadcast_to(np.arange(size), x.shape))
            for found in (np.take_along_axis(x, order, axis=1), aj.compile(lambda x, kth=kth: np.partition(x, kth, axis=1))(x)):
                for place in np.atleast_1d(kth) % size:
                    np.testing.assert_equal(np.sort(found, axis=1), ordered)
                    np.testing.assert_equal(found[:, place], ordered[:, place])
                    np.testing.assert_equal(np.sort(found[:, :place], axis=1), ordered[:, :place])


def test_derivatives_of_long_lines() -> None:
    """The elements at the places get the derivative, and no others."""
    x = np.random.default_rng(0).normal(size=MIN_SEARCHED + 1)
    order = np.argsort(x)
    gradient = aj.compile(aj.grad(lambda x: np.median(x) + 2 * np.partition(x, 5)[5] + 3 * np.nanmedian(x) + 5 * np.quantile(x, 0.75)))(x)
    expected = np.zeros(x.size)
    for place, share in ((x.size // 2, 4.0), (5, 2.0), (3 * x.size // 4, 5.0)):
        expected[order[place]] += share
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_running_extremes_give_the_derivative_to_the_first_that_is_largest() -> None:
    gradient = aj.grad(lambda x: np.sum(np.maximum.accumulate(x) * np.arange(1.0, 6.0)))(np.array([1.0, 3.0, 3.0, 2.0, 4.0]))
    np.testing.assert_array_equal(gradient, [1.0, 9.0, 0.0, 0.0, 5.0])
