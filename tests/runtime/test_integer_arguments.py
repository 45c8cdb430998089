"""Python integers that are another one in each call become inputs; they mean what they mean in Python."""

from __future__ import annotations

import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.each import parametrize_within

import adjit as aj

X = np.random.default_rng(0).normal(size=(40, 5))
TABLE = {number: float(number) ** 2 for number in range(12)}


def adam(p, m, v, t, g):
    m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
    return p - 1e-2 * (m / (1 - 0.9 ** t)) / (np.sqrt(v / (1 - 0.999 ** t)) + 1e-8), m, v


def batch(iteration, size=10):
    number = iteration % (len(X) // size)
    return X[number * size:(number + 1) * size]


def of_a_batch(w, iteration):
    return np.mean((batch(iteration) @ w - 1.0) ** 2) / (1 + iteration)


def kinds(x, n):
    return x * n, n, n + 1, n / 2, n // 3, n % 4 == 1, -n, [n, {"a": abs(n - 2)}]


def until(x, n):
    count = 0
    while count < n:
        x, count = np.cos(x), count + 1
    return x


def traces_of(function: Callable[..., Any], calls: Any) -> int:
    """Traces of a compiled function for calls, whose results are those of Python."""
    compiled = aj.compile(function)
    for call in calls:
        found, expected = compiled(*call), function(*call)
        if isinstance(expected, tuple):
            assert (found, [type(each) for each in found[1:]]) == (expected, [type(each) for each in expected[1:]])
        elif isinstance(expected, str):
            assert found == expected
        else:
            assert_allclose(found, expected, rtol=1e-13)
            assert np.asarray(found).dtype == np.asarray(expected).dtype
    return compiled.cache_info().traces


@parametrize_within(("function", "first", "most"), [
    (kinds, 2.0, 3), (until, 0.3, 3),
    (lambda x, n: x * n, np.ones(2, np.float32), 3),
    (lambda x, n: x + 1 if n % 2 else x, 2.0, 4),
    (lambda x, n: x[n % 3], np.arange(3.0), 5)], ids=["kinds", "until", "float32", "decision", "index"])
def test_a_counter_is_one_program(function: Callable[..., Any], first: Any, most: int) -> None:
    assert traces_of(function, [(first, n) for n in range(12)]) <= most


@parametrize_within("function", [
    lambda x, n: x * TABLE[n], lambda x, n: x * pow(3, n, 7),
    lambda x, n: f"{n}", lambda x, n: np.sum(np.ones(n + 1) * x), lambda x, n: sum(x * k for k in range(n)),
    lambda x, n: np.arange(n) * x], ids=["key", "power", "text", "shape", "range", "arange"])
def test_what_python_needs_is_another_program(function: Callable[..., Any]) -> None:
    calls = [(2.0, n) for n in (*range(8), *range(8))]
    assert traces_of(function, calls) <= 11


def test_tensors_beside_a_counter_keep_their_dtype() -> None:
    compiled = aj.compile(lambda x, n: (x * n, n - x, x / n, x ** n, aj.where(x > 1, x, n), x.clamp(max=n)), backend="interpret")
    for n in range(1, 6):
        assert [y.dtype for y in compiled(aj.ones(2), n)] == ["float32"] * 6
    assert compiled.cache_info().traces == 3


def test_steps_of_an_optimiser() -> None:
    compiled = aj.compile(adam)
    found = expected = (np.ones(3), np.zeros(3), np.zeros(3))
    for t in range(1, 30):
        g = np.sin(t * np.arange(3.0))
        found, expected = compiled(*found, t, g), adam(*expected, t, g)
        assert_allclose(found[0], expected[0], rtol=1e-13)
    assert compiled.cache_info().traces == 3
    assert "t changed from 2 to a Python int" in compiled.explain()


def test_batches_of_a_gradient_are_traced_once_each() -> None:
    gradient, w, step = aj.grad(of_a_batch), np.ones(5), 1e-6
    for iteration in range(20):
        numeric = [(of_a_batch(w + step * e, iteration) - of_a_batch(w - step * e, iteration)) / (2 * step) for e in np.eye(5)]
        assert_allclose(gradient(w, iteration), numeric, rtol=1e-7, atol=1e-8)
    assert gradient.cache_info().traces <= 2 + 4


def test_an_integer_of_repeated_calls_stays_part_of_the_program() -> None:
    compiled = aj.compile(lambda x, layers: sum(x * k for k in range(layers)))
    for layers in range(1, 12):
        for _ in range(4):
            compiled(2.0, layers)
    assert not any("Python int" in program.reason for program in compiled.programs())


def test_more_sizes_than_ways_are_programs_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_WAYS", "4")
    compiled = aj.compile(lambda x, n: np.sum(np.ones(n) * x), backend="interpret")
    for _ in range(2):
        assert [compiled(2.0, n) for n in range(1, 14)] == [2.0 * n for n in range(1, 14)]
    traces = compiled.cache_info().traces
    assert [compiled(2.0, n) for n in range(1, 14)] == [2.0 * n for n in range(1, 14)]
    assert compiled.cache_info().traces == traces


def test_large_integers_booleans_and_floats_are_told_apart() -> None:
    compiled = aj.compile(lambda x, n: (x * n, n))
    for n in (1, 2, 3, 4, 1 << 52, (1 << 52) + 1, -(1 << 60), 1 << 70, True, 2.5, -7):
        found, same = compiled(2.0, n)
        assert found == 2.0 * n
        assert same == n
        assert isinstance(same, type(n))


def test_what_is_stored_is_an_integer() -> None:
    class Model:
        seen: Any = None

        @aj.compile
        def step(self, x, t):
            self.seen = [t, t + 1]
            return x * t

    model = Model()
    for t in range(8):
        assert model.step(2.0, t) == 2.0 * t
        assert model.seen == [t, t + 1]
        assert {type(each) for each in model.seen} == {int}
    assert Model.step.cache_info().traces == 3


def test_machine_code_takes_the_integer(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = aj.compile(lambda x, n: np.sum(x * n))
    x = np.ones(3)
    for n in range(6):
        compiled(x, n)
    if compiled._cache.last is None or compiled._cache.last.recorded() is None:
        pytest.skip("there is no fast path here")
    gc.collect()
    for n in (-4, 0, 1 << 52, 1 << 53, 1 << 80):
        assert compiled(x, n) == 3.0 * n


def test_exports_are_for_the_integer_of_the_example(tmp_path: Any) -> None:
    compiled = aj.compile(lambda x, n: x * n)
    for n in range(6):
        compiled(np.ones(3), n)
    compiled.export(tmp_path / "scaled.adjit", np.ones(3), 5)
    loaded = aj.load(tmp_path / "scaled.adjit")
    assert_allclose(loaded(np.ones(3), 5), 5 * np.ones(3))
    with pytest.raises(ValueError, match="n was 5 when the program was exported"):
        loaded(np.ones(3), 4)


def test_an_error_of_one_call_leaves_the_others_as_they_are() -> None:
    @aj.compile
    def root(x, n):
        if n < 0:
            raise ValueError(f"no step before the first: {n}")
        return x * n

    for n in (0, 1, 2, 3):
        root(2.0, n)
    with pytest.raises(ValueError, match="no step before the first: -1"):
        root(2.0, -1)
    for n in (5, 6, 7, 8):
        assert root(2.0, n) == 2.0 * n
    assert root.cache_info().traces <= 4


def test_a_call_that_raises_changes_state_once() -> None:
    def make() -> Any:
        held = SimpleNamespace(number=0.0)

        def f(x: Any, n: int) -> Any:
            held.number = held.number * 0.5 + 1.0
            raise ValueError("none")
        return f, held

    (f, held), (plain, other) = make(), make()
    compiled = aj.compile(f, backend="interpret")
    for n in (2, 2, 0, 1):
        for function in (compiled, plain):
            with pytest.raises(ValueError, match="none"):
                function(0.0, n)
        assert held.number == other.number
