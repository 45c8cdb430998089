"""Random NumPy programs: compiled, interpreted and run by NumPy they agree, with any arguments donated, and nothing shares memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.backends import BACKENDS

from adjit import numpy
from adjit.runtime.compile_function import compile

SHAPES = ((4, 3), (4, 3), (3,), (), (1, 3))
LARGEST = 3000

UNARY: tuple[Callable[[Any], Any], ...] = (
    np.tanh, np.exp, np.sin, np.abs, np.negative, lambda x: x * 2.0, lambda x: np.maximum(x, 0.0), lambda x: (x > 0.1).astype(x.dtype),
    np.transpose, np.ravel, lambda x: x.reshape((-1, 1)), lambda x: np.expand_dims(x, 0), np.flip)
UNARY_OF_ARRAYS: tuple[Callable[[Any], Any], ...] = (
    lambda x: x[::2], lambda x: x[-1], lambda x: np.sum(x, axis=0), lambda x: np.mean(x, axis=-1, keepdims=True),
    lambda x: np.cumsum(x, axis=0),
    lambda x: np.sort(x, axis=-1), lambda x: np.concatenate([x, x]), lambda x: np.pad(x, 1), lambda x: np.max(x, axis=0),
    lambda x: np.argsort(x, axis=0, kind="stable") * 0.5, lambda x: x @ x.T)
BINARY: tuple[Callable[[Any, Any], Any], ...] = (np.add, np.multiply, np.subtract, np.minimum, lambda a, b: np.where(a > b, a, b))


@dataclass(frozen=True)
class Program:
    """`steps` of (kind, function, first operand, second operand), all numbers taken modulo what there is; `results` of the values."""

    steps: Sequence[tuple[int, int, int, int]]
    results: Sequence[int]

    def __call__(self, *arguments: Any) -> list[Any]:
        values = list(arguments)
        for kind, function, first, second in self.steps:
            a, b = values[first % len(values)], values[second % len(values)]
            if kind == 0 and a.size < LARGEST:
                values.append(UNARY[function % len(UNARY)](a))
            elif kind == 1 and 0 < a.ndim < 3 and 0 < a.size < LARGEST:
                values.append(UNARY_OF_ARRAYS[function % len(UNARY_OF_ARRAYS)](a))
            elif kind == 2 and fit(a.shape, b.shape):
                values.append(BINARY[function % len(BINARY)](a, b))
        return [values[number % len(values)] for number in self.results] + values[-2:] + [values[0] * 1.5, values[1] + 1.0]


def fit(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a, b))) < LARGEST
    except ValueError:
        return False


def arrays() -> list[np.ndarray]:
    generator = np.random.default_rng(0)
    return [np.asarray(generator.normal(size=shape)) for shape in SHAPES]


numbers = st.integers(0, 99)
programs = st.builds(
    Program, st.lists(st.tuples(st.integers(0, 2), numbers, numbers, numbers), min_size=2, max_size=14),
    st.lists(numbers, max_size=6))


@pytest.mark.parametrize("backend", BACKENDS)
@given(program=programs, donated=st.sets(st.sampled_from("abcde")))
@settings(max_examples=10, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
def test_agrees_with_numpy(backend: str, program: Program, donated: set[str]) -> None:
    with np.errstate(all="ignore"):
        expected = program(*arrays())
    function = compile(lambda a, b, c, d, e: program(a, b, c, d, e), donate=tuple(donated), backend=backend)
    for _ in range(2):      # the second call uses the memory of the first
        passed = arrays()
        kept = [array for name, array in zip("abcde", passed, strict=True) if name not in donated]
        before = [array.copy() for array in kept]
        results = function(*passed)
        for got, want in zip(results, expected, strict=True):
            assert np.shape(got) == np.shape(want)
            assert np.asarray(got).dtype == np.asarray(want).dtype
            np.testing.assert_allclose(got, want, rtol=1e-8, atol=1e-8)
        assert all(np.array_equal(a, b) for a, b in zip(kept, before, strict=True))
        fresh = [result for result in results if isinstance(result, np.ndarray)]
        for index, result in enumerate(fresh):
            assert not any(np.shares_memory(result, other) for other in (*fresh[index + 1:], *kept))


@pytest.mark.parametrize("backend", BACKENDS)
def test_numbers_that_count_rows_and_columns_of_one_kernel(backend):
    """A mask of what comes before what, as attention has it."""
    @compile(backend=backend)
    def mask(x):
        places = numpy.arange(4)
        return places[:, None] < places, np.sum(np.where(places[:, None] <= places, x, 0.0))

    before, total = mask(np.arange(16.0).reshape(4, 4))
    assert np.array_equal(before, np.triu(np.ones((4, 4), bool), 1))
    assert total == np.sum(np.triu(np.arange(16.0).reshape(4, 4)))
