"""Arrays outside of the arguments that each call reads and binds anew, self.mean = 0.9 * self.mean + x: as in Python, by one program."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.each import for_each

import adjit as aj

Made = tuple[Callable[[Any], Any], Callable[[], list[Any]]]
MAKERS: dict[str, tuple[Callable[[], Made], int]] = {}
"""Functions that make a function of an array and a reader of its state, and how many traces five calls take."""


def traces(count: int) -> Callable[[Callable[[], Made]], Callable[[], Made]]:
    def keep(make: Callable[[], Made]) -> Callable[[], Made]:
        MAKERS[make.__name__] = make, count
        return make
    return keep


@traces(1)
def gradient_steps() -> Made:
    m = SimpleNamespace(w=np.zeros(2))

    def f(x: Any) -> Any:
        m.w = m.w - 0.1 * aj.grad(lambda w: np.sum((w - x) ** 2))(m.w)
        return np.sum(m.w)
    return f, lambda: [m.w]


@traces(1)
def adam() -> Made:
    """Python alone would compute `0.9 * m.m`: it is traced a second time, with the state as input."""
    m = SimpleNamespace(m=np.zeros(2), v=np.zeros(2), w=np.ones(2))

    def f(g: Any) -> Any:
        m.m = 0.9 * m.m + 0.1 * g
        m.v = 0.99 * m.v + 0.01 * g ** 2
        m.w = m.w - 0.1 * m.m / (np.sqrt(m.v) + 1e-8)
        return m.w.sum()
    return f, lambda: [m.m, m.v, m.w]


@traces(1)
def items_of_a_dict() -> Made:
    p = {"w": np.zeros(2), "b": np.ones(2)}

    def f(x: Any) -> Any:
        for key in p:
            p[key] = p[key] * 0.9 + x
        return p["w"] @ p["b"]
    return f, lambda: list(p.values())


@traces(1)
def items_of_a_list() -> Made:
    layers = [np.zeros(2), np.ones((2, 2))]

    def f(x: Any) -> Any:
        for i in range(len(layers)):
            layers[i] = layers[i] * 0.9 + x
        return layers[1].sum()
    return f, lambda: layers


@traces(1)
def a_variable() -> Made:
    total = np.zeros(2)

    def f(x: Any) -> Any:
        nonlocal total
        total = total + x
        return total * 2
    return f, lambda: [total]


@traces(2)
def none_at_first() -> Made:
    m = SimpleNamespace(mean=None)

    def f(x: Any) -> Any:
        m.mean = x * 1.0 if m.mean is None else 0.9 * m.mean + 0.1 * x
        return m.mean.sum()
    return f, lambda: [m.mean]


@traces(2)
def zero_at_first() -> Made:
    m = SimpleNamespace(total=0.0)

    def f(x: Any) -> Any:
        m.total = m.total + x
        return m.total * 2
    return f, lambda: [m.total]


@traces(2)
def another_dtype_at_first() -> Made:
    m = SimpleNamespace(w=np.ones(2, np.float32))

    def f(x: Any) -> Any:
        m.w = m.w * 0.5 + x
        return m.w.sum()
    return f, lambda: [m.w]


@traces(2)
def a_memo() -> Made:
    memo: dict[str, Any] = {}

    def f(x: Any) -> Any:
        if "sin" not in memo:
            memo["sin"] = np.abs(x) + 0.5
        return memo["sin"].sum() * x
    return f, lambda: list(memo.values())


@traces(1)
def places_that_swap() -> Made:
    m = SimpleNamespace(a=np.zeros(2), b=np.ones(2))

    def f(x: Any) -> Any:
        m.a, m.b = m.b, m.a + m.b * x[0]
        return m.a.sum()
    return f, lambda: [m.a, m.b]


@traces(1)
def written_in_place_too() -> Made:
    m = SimpleNamespace(s=np.zeros(2))

    def f(x: Any) -> Any:
        m.s *= 0.5
        m.s = m.s + x
        m.s += 1
        return m.s.sum()
    return f, lambda: [m.s]


@traces(1)
def a_window_that_rolls() -> Made:
    m = SimpleNamespace(window=np.zeros(6))

    def f(x: Any) -> Any:
        m.window = np.roll(m.window, 2)
        m.window[:2] = x
        return m.window.sum()
    return f, lambda: [m.window]


@traces(1)
def parts_of_it() -> Made:
    m = SimpleNamespace(w=np.zeros((3, 2)))

    def f(x: Any) -> Any:
        m.w = m.w.T.dot(np.ones((3, 3))).T + x
        return m.w[1:].sum()
    return f, lambda: [m.w]


@traces(1)
def an_argument() -> Made:
    m = SimpleNamespace(before=np.zeros(2))

    def f(x: Any) -> Any:
        difference = x - m.before
        m.before = x
        return difference.sum()
    return f, lambda: [m.before]


@traces(2)
def held_twice() -> Made:
    """The first call reads one array by two names, the others read two."""
    m, n = SimpleNamespace(w=np.zeros(2)), SimpleNamespace(w=None)
    n.w = m.w

    def f(x: Any) -> Any:
        m.w = m.w + x
        return m.w.sum() + n.w.sum()
    return f, lambda: [m.w, n.w]


@traces(1)
def computed_by_python() -> Made:
    """The covariance of a Kalman filter depends on no argument."""
    m = SimpleNamespace(x=np.zeros(2), p=np.eye(2))

    def f(z: Any) -> Any:
        before = m.p + 0.1 * np.eye(2)
        gain = before @ np.linalg.inv(before + np.eye(2))
        m.x = m.x + gain @ (z - m.x)
        m.p = (np.eye(2) - gain) @ before
        return m.x
    return f, lambda: [m.x, m.p]


@traces(2)
def places_that_become_one() -> Made:
    m = SimpleNamespace(a=np.ones(2), b=np.zeros(2))

    def f(x: Any) -> Any:
        factor = 1.0 if m.a is m.b else 2.0
        m.a = m.a + x
        m.b = m.a
        return x * factor
    return f, lambda: [m.a, m.b]


@traces(2)
def moved_on() -> Made:
    m = SimpleNamespace(held={})

    def f(x: Any) -> Any:
        m.held["before"] = m.held.get("now")
        m.held["now"] = x * 2
        return x.sum()
    return f, lambda: [m.held["now"]]


@traces(1)
def layers() -> Made:
    held = [SimpleNamespace(w=np.full((2, 2), 0.5)) for _ in range(2)]

    def f(x: Any) -> Any:
        def loss(weights: Any) -> Any:
            h = x
            for w in weights:
                h = w @ h
            return np.sum(h ** 2)
        value, gradients = aj.value_and_grad(loss)([layer.w for layer in held])
        for layer, gradient in zip(held, gradients, strict=True):
            layer.w = layer.w - 0.01 * gradient
        return value
    return f, lambda: [layer.w for layer in held]


def test_states_are_those_of_python() -> None:
    def check(make: Callable[[], Made], count: int) -> None:
        (plain, expected), (traced, found) = make(), make()
        compiled = aj.compile(traced)
        for number in range(5):
            x = np.array([1.0, -2.0]) * (number + 1)
            assert_allclose(compiled(x), plain(x), rtol=1e-13)
            for one, other in zip(found(), expected(), strict=True):
                assert type(one) is np.ndarray
                assert_allclose(one, other, rtol=1e-13)
        assert compiled.cache_info().traces == count

    for_each(MAKERS, check)


def test_another_array_may_be_bound_between_calls() -> None:
    m = SimpleNamespace(w=np.zeros(2))

    def step(x: Any) -> Any:
        m.w = m.w + x
        return m.w

    compiled, x = aj.compile(step), np.ones(2)
    for k in range(4):
        m.w = np.full(2, float(k))
        result = compiled(x)
        assert result is m.w
        assert_array_equal(m.w, np.full(2, k + 1.0))
    assert compiled.cache_info().traces == 1
    m.w = np.zeros(3)
    assert compiled(np.ones(3)).tolist() == [1.0, 1.0, 1.0]


def test_a_decision_keeps_the_best() -> None:
    m = SimpleNamespace(best=np.full(2, 1e9))

    def f(x: Any) -> Any:
        if x.sum() < m.best.sum():
            m.best = x + 0.0
        return m.best.max()

    compiled, best = aj.compile(f), np.full(2, 1e9)
    for scale in (1.0, 2.0, 0.5, 3.0, 0.1, 0.2):
        x = np.array([1.0, 2.0]) * scale
        best = x if x.sum() < best.sum() else best
        assert compiled(x) == best.max()
        assert_array_equal(m.best, best)


def test_a_loop_of_values() -> None:
    (plain, expected), (traced, found) = (_damped() for _ in range(2))
    compiled = aj.compile(traced)
    for number in range(4):
        x = np.array([1.0, 2.0]) * (number + 1)
        assert_allclose(compiled(x), plain(x), rtol=1e-12)
        assert_allclose(found()[0], expected()[0], rtol=1e-12)


def _damped() -> Made:
    m = SimpleNamespace(w=np.zeros(2))

    def f(x: Any) -> Any:
        for _ in range(20):
            m.w = m.w * 0.5 + x
        while m.w[0] > 0.5:
            m.w = m.w * 0.9
        return m.w.sum()
    return f, lambda: [m.w]


def test_an_array_that_grows_is_as_in_python() -> None:
    """Another shape in each call, which is traced for it."""
    m, x = SimpleNamespace(w=np.zeros(2)), np.ones(2)

    @aj.compile
    def grows(x: Any) -> Any:
        m.w = np.append(m.w, x.sum())
        return m.w.sum()

    for call in range(1, 4):
        assert grows(call * x) == call * (call + 1)
        np.testing.assert_array_equal(m.w, [0.0, 0.0, *(2.0 * each for each in range(1, call + 1))])
    assert grows.cache_info().traces == 3


@pytest.mark.parametrize("transform", [lambda f: aj.compile(lambda x: aj.grad(f)(x)), aj.grad, aj.value_and_grad])
def test_state_that_a_differentiated_function_changes(transform: Callable[..., Any]) -> None:
    m, x = SimpleNamespace(w=np.zeros(2)), np.array([1.0, 3.0])

    def loss(v: Any) -> Any:
        m.w = m.w + v
        return np.sum(m.w * v)

    compiled, expected = transform(loss), np.zeros(2)
    for call in range(5):
        found = compiled(x + call)
        np.testing.assert_allclose(found[1] if transform is aj.value_and_grad else found, expected + 2 * (x + call))
        expected = expected + x + call
        np.testing.assert_allclose(m.w, expected)


@pytest.mark.parametrize("writes", [False, True])
def test_a_view_from_outside_stays_on_the_array_of_before(writes: bool) -> None:
    class Filter:
        def __init__(self) -> None:
            self.x = np.zeros(2)
            self.first = self.x[:1]

        def step(self, z: Any) -> Any:
            self.x = self.x * 0.5 + z
            if writes:
                self.first += 1.0
            return self.first * 1.0

    plain, filtered = Filter(), Filter()
    step = aj.compile(filtered.step)
    for _ in range(4):
        np.testing.assert_array_equal(step(np.ones(2)), plain.step(np.ones(2)))
        np.testing.assert_array_equal(filtered.x, plain.x)
        np.testing.assert_array_equal(filtered.first, plain.first)


def row_added(s, x):
    s.part += x
    return s.whole.sum()


def row_and_whole(s, x):
    np.multiply(s.part, x + 1.0, out=s.part)
    s.whole += x
    return s.whole.sum() + s.part.sum()


def row_then_new_whole(s, x):
    row = s.part.reshape(-1)
    row += x
    s.whole = s.whole * 2.0 + x
    return s.whole.sum()


def test_what_shares_memory_may_change_between_calls() -> None:
    """A view that is written whole, whose array is bound anew; and arrays that share memory only later, whether Python or the program reads
    the other one. What a call writes is written once."""
    def run(call: Callable[..., Any], related: bool) -> list[Any]:
        s = SimpleNamespace(whole=np.array([[0.0, 1.0], [2.0, 3.0]]))
        s.part = s.whole[1] if related else s.whole[1].copy()
        found = [call(s, 1.0), s.whole.copy(), s.part.copy()]
        s.whole = np.full((2, 2), 5.0)
        found += [call(s, 1.0), s.whole.copy(), s.part.copy()]
        s.part = s.whole[:, 1]
        for _ in range(2):
            found += [call(s, 1.0), s.whole.copy(), s.part.copy()]
        return found

    for fun, related in ((row_added, True), (row_added, False), (row_and_whole, False), (row_then_new_whole, True)):
        for ours, numpys in zip(run(aj.compile(fun), related), run(fun, related), strict=True):
            np.testing.assert_array_equal(ours, numpys)
