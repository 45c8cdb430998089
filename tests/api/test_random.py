"""adjit.random: the same numbers everywhere, of the right distribution, from independent keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy
from support.backends import BACKENDS

import adjit as aj
from adjit import random
from adjit.ir import ops
from adjit.ir.ops.random import BLOCK_ELEMENTS

COUNT = 40000
DRAWS: dict[str, Callable[[Any], Any]] = {
    "uniform": lambda key: random.uniform(key, (7, 5)),
    "uniform32": lambda key: random.uniform(key, (7, 5), np.float32, -1.0, 3.0),
    "bernoulli": lambda key: random.bernoulli(key, 0.3, 50),
    "permutation": lambda key: random.permutation(key, 20),
    "randint": lambda key: random.randint(key, (4, 3), -5, 17),
    "split": lambda key: random.split(key, 5),
    "fold_in": lambda key: random.fold_in(key, 12),
    "normal": lambda key: random.normal(key, (3, 11)),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", DRAWS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_same_numbers_inside_and_outside_of_a_compiled_function(name: str, backend: str) -> None:
    draw = DRAWS[name]
    compiled = aj.compile(draw, backend=backend)
    for seed in (0, 1, 2**64 - 1):
        inside, outside = compiled(random.key(seed)), draw(random.key(seed))
        assert inside.dtype == outside.dtype
        assert inside.shape == outside.shape
        if name == "normal":
            np.testing.assert_allclose(inside, outside, rtol=1e-13)
        else:
            np.testing.assert_array_equal(inside, outside)
    assert compiled.cache_info().traces == 1


@pytest.mark.parametrize("name", DRAWS)
def test_a_key_means_its_numbers(name: str) -> None:
    draw = DRAWS[name]
    np.testing.assert_array_equal(draw(random.key(3)), draw(random.key(3)))
    assert not np.array_equal(draw(random.key(3)), draw(random.key(4)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_uniform_distribution(dtype: type) -> None:
    x = random.uniform(random.key(11), COUNT, dtype)
    assert x.dtype == dtype
    assert 0.0 <= x.min() < x.max() < 1.0
    assert scipy.stats.kstest(x, "uniform").pvalue > 1e-3
    y = random.uniform(random.key(11), COUNT, dtype, -2.0, 5.0)
    np.testing.assert_allclose(y, x * 7 - 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_normal_distribution(dtype: type) -> None:
    x = random.normal(random.key(12), COUNT, dtype)
    assert x.dtype == dtype
    assert np.isfinite(x).all()
    assert abs(x.mean()) < 5 / np.sqrt(COUNT)
    assert abs(x.var() - 1) < 5 * np.sqrt(2 / COUNT)
    assert scipy.stats.kstest(x, "norm").pvalue > 1e-3
    assert scipy.stats.kurtosistest(x).pvalue > 1e-3
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 5 / np.sqrt(COUNT)


def test_bernoulli_distribution() -> None:
    p = np.linspace(0, 1, 5)[:, None] * np.ones(COUNT // 4)
    means = random.bernoulli(random.key(13), p).mean(1)
    np.testing.assert_allclose(means, np.linspace(0, 1, 5), atol=5 * 0.5 / np.sqrt(COUNT // 4))
    assert means[0] == 0.0
    assert means[-1] == 1.0


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64])
def test_randint_distribution(dtype: type) -> None:
    x = random.randint(random.key(14), COUNT, 3, 13, dtype)
    assert x.dtype == dtype
    counts = np.bincount(x, minlength=13)
    assert counts[:3].sum() == 0
    assert counts.size == 13
    assert scipy.stats.chisquare(counts[3:]).pvalue > 1e-3


def test_randint_with_the_whole_range_and_array_limits() -> None:
    limits = np.iinfo(np.int64)
    x = random.randint(random.key(1), 1000, limits.min, limits.max + 1)
    assert x.min() < -2**62 < 2**62 < x.max()
    compiled = aj.compile(lambda key, low, high: random.randint(key, 1000, low, high), backend="interpret")
    drawn = compiled(random.key(2), np.int64(-3), np.int64(2))
    assert set(drawn.tolist()) == {-3, -2, -1, 0, 1}
    np.testing.assert_array_equal(drawn, random.randint(random.key(2), 1000, -3, 2))


def test_permutation() -> None:
    order = random.permutation(random.key(5), 1000)
    assert sorted(order.tolist()) == list(range(1000))
    assert not np.array_equal(order, np.arange(1000))
    rows = np.arange(12.0).reshape(4, 3)
    shuffled = random.permutation(random.key(6), rows)
    assert sorted(map(tuple, shuffled.tolist())) == sorted(map(tuple, rows.tolist()))
    # Each of the 6 orders of 3 things is as likely as any other.
    seen = np.array([random.permutation(key, 3) for key in random.split(random.key(7), 3000)]) @ [9, 3, 1]
    _, counts = np.unique(seen, return_counts=True)
    assert counts.size == 6
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_words_are_the_same_in_blocks_and_alone() -> None:
    counters = np.arange(2 * BLOCK_ELEMENTS + 5, dtype=np.uint64) + np.uint64(2 ** 63)
    one_key, keys = np.broadcast_to(np.uint64(2 ** 64 - 5), counters.shape), counters[::-1]
    for key in (one_key, keys):
        together = ops.philox.evaluate(counters, key)
        for place in (0, BLOCK_ELEMENTS - 1, BLOCK_ELEMENTS, 2 * BLOCK_ELEMENTS, 2 * BLOCK_ELEMENTS + 4):
            assert together[place] == ops.philox.evaluate(np.asarray(counters[place]), np.asarray(key[place]))


def test_new_keys_are_independent() -> None:
    key = random.key(8)
    first, second = random.split(key)
    streams = [random.uniform(k, COUNT) for k in (key, first, second, random.fold_in(key, 0), random.fold_in(key, 1))]
    correlations = np.corrcoef(streams) - np.eye(len(streams))
    assert np.abs(correlations).max() < 5 / np.sqrt(COUNT)
    words = np.concatenate([random.split(key, 1000), [random.fold_in(key, i) for i in range(200)]])
    assert np.unique(words).size == words.size
    first_numbers = random.split(random.key(9), COUNT).astype(np.float64) / 2.0**64
    assert scipy.stats.kstest(first_numbers, "uniform").pvalue > 1e-3


def test_keys() -> None:
    assert random.key(-1) == random.key(2**64 - 1)
    assert random.key(3).dtype == np.uint64
    folded = aj.compile(lambda key, i: random.fold_in(key, i), backend="interpret")
    for number in (0, 5, -1):
        assert folded(random.key(1), np.int64(number)) == random.fold_in(random.key(1), number)


def test_empty_and_scalar_shapes() -> None:
    assert random.uniform(random.key(0)).shape == ()
    assert random.uniform(random.key(0), (0, 3)).shape == (0, 3)
    assert random.normal(random.key(0), 0).shape == (0,)
    assert random.permutation(random.key(0), 0).shape == (0,)


def test_random_numbers_are_differentiated_as_constants() -> None:
    def loss(scale: Any, key: Any) -> Any:
        return np.sum(scale * random.normal(key, 100))

    gradient = aj.grad(loss)(np.float64(2.0), random.key(0))
    assert gradient == pytest.approx(random.normal(random.key(0), 100).sum())


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: random.uniform(7), aj.errors.DTypeError, r"a key is a uint64 scalar.*\n.*adjit.random.key\(seed\)"),
    (lambda: random.split(random.split(random.key(0))), aj.errors.DTypeError, r"shape \(2,\)"),
    (lambda: random.uniform(random.key(0), (2, -1)), aj.errors.ShapeError, "negative"),
    (lambda: random.uniform(random.key(0), 2, np.int64), aj.errors.DTypeError, "random.uniform gives floating-point numbers, not int64"),
    (lambda: random.randint(random.key(0), 2, 5, 5), ValueError, r"empty range.*\[5, 5\)"),
    (lambda: random.randint(random.key(0), 2, 0, 300, np.uint8), ValueError, "outside of uint8"),
    (lambda: random.randint(random.key(0), 2, 0, 3, np.float32), aj.errors.DTypeError, "integer dtype"),
    (lambda: random.permutation(random.key(0), np.float64(1.0)), aj.errors.ShapeError, "scalar array"),
    (lambda: random.key(0.5), aj.errors.DTypeError, "one integer"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_complex_normal_numbers() -> None:
    """Parts are independent, each of variance 1/2."""
    numbers = random.normal(random.key(3), COUNT, np.complex128)
    assert numbers.dtype == np.complex128
    assert random.normal(random.key(3), 2, np.complex64).dtype == np.complex64
    for part in (numbers.real, numbers.imag):
        assert scipy.stats.kstest(part * np.sqrt(2), "norm").pvalue > 1e-3
    assert abs(np.mean(numbers ** 2)) < 4 / np.sqrt(COUNT)
    with pytest.raises(aj.errors.DTypeError, match="gives floating-point numbers"):
        random.uniform(random.key(0), 3, np.complex128)
