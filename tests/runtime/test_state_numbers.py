"""Numbers outside of the arguments that each call reads and binds anew, self.step += 1; rate / self.step: as in Python, by one program."""

from __future__ import annotations

import copy
import math
import threading
from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from support.each import for_each, parametrize_within

import adjit as aj
from adjit.errors import TraceError

Body = Callable[[Any, Any], Any]
BODIES: dict[str, tuple[Body, dict[str, Any], int]] = {}
"""Functions of an object and an array, the numbers of the object, and how many traces eight calls take."""

SCALES = (3.0, 1.0, 4.0, 0.5, 5.0, 0.1, 9.0, 2.0)


def traces(count: int, **numbers: Any) -> Callable[[Body], Body]:
    def keep(body: Body) -> Body:
        BODIES[body.__name__] = body, numbers, count
        return body
    return keep


@traces(1, t=0)
def bias_of_adam(m: Any, x: Any) -> Any:
    m.t += 1
    return x / (1 - 0.9 ** m.t)


@traces(1, t=0, s=0.0)
def integers_and_floats(m: Any, x: Any) -> Any:
    m.t += 2
    m.s = m.s * 0.5 + m.t // 3 - m.t % 4
    return x * m.s


@traces(1, t=0)
def a_schedule(m: Any, x: Any) -> Any:
    rate = 0.5 * (1 + math.cos(math.pi * m.t / 10)) * min(1.0, m.t / 4)
    m.t += 1
    return x * rate


@traces(2, t=0)
def every_third(m: Any, x: Any) -> Any:
    m.t += 1
    return x * 2 if m.t % 3 == 0 else x


@traces(1, t=0, table=np.arange(5.0))
def an_index(m: Any, x: Any) -> Any:
    value = m.table[m.t % 5]
    m.t += 1
    return x * value


@traces(1, i=0, buffer=np.zeros((4, 2)))
def a_ring_buffer(m: Any, x: Any) -> Any:
    m.buffer[m.i % 4] = x
    m.i += 1
    return m.buffer.mean()


@traces(2, flag=True)
def a_flag(m: Any, x: Any) -> Any:
    if m.flag:
        m.flag = False
        return x * 10
    return x


@traces(2, flip=False)
def a_switch(m: Any, x: Any) -> Any:
    m.flip = not m.flip
    return x * 2 if m.flip else x


@traces(3, best=np.inf, where=None)
def the_best(m: Any, x: Any) -> Any:
    """A float at first, then a number of NumPy's; which calls find a better one, two programs know."""
    value = (x * x).sum()
    if value < m.best:
        m.best, m.where = value, x * 1.0
    return value


@traces(3, best=-np.inf, waited=0)
def early_stopping(m: Any, x: Any) -> Any:
    if x[0] > m.best:
        m.best, m.waited = x[0], 0
    else:
        m.waited += 1
    return m.waited >= 2


@traces(2, mean=0.0, m2=0.0, n=0)
def welford(m: Any, x: Any) -> Any:
    value = x.sum()
    m.n += 1
    difference = value - m.mean
    m.mean = m.mean + difference / m.n
    m.m2 = m.m2 + difference * (value - m.mean)
    return m.m2 / m.n


@traces(1, s=0.5)
def a_float_stays_a_float(m: Any, x: Any) -> Any:
    m.s = m.s * 1.1
    y = x.astype(np.float32) * m.s
    return y.astype(np.float64) if y.dtype == np.float32 else y * 100


@traces(1, n=np.int64(1), s=np.float32(1))
def numbers_of_numpy(m: Any, x: Any) -> Any:
    m.n, m.s = m.n + 1, m.s * np.float32(0.5) + np.float32(1)
    return x * m.s * m.n


@traces(1, a=1, b=1)
def places_that_swap(m: Any, x: Any) -> Any:
    m.a, m.b = m.b, m.a + m.b
    return x * m.a


@traces(1, t=0, log=[])
def stored_elsewhere_too(m: Any, x: Any) -> Any:
    m.t += 1
    m.log.append(m.t)
    return x * m.t


@traces(1, t=0)
def in_a_derivative(m: Any, x: Any) -> Any:
    def loss(y: Any) -> Any:
        m.t += 1
        return np.sum(y ** 2) / m.t
    return aj.grad(loss)(x)


def test_numbers_are_those_of_python() -> None:
    def check(body: Body, numbers: dict[str, Any], count: int) -> None:
        def made() -> tuple[Any, Callable[[Any], Any]]:
            m = SimpleNamespace(**copy.deepcopy(numbers))
            return m, lambda x: body(m, x)

        (plain, f), (found, g) = made(), made()
        compiled = aj.compile(g)
        for scale in SCALES:
            x = np.array([1.0, -2.0]) * scale
            expected = aj.compile(f)(x) if body is in_a_derivative else f(x)
            assert_allclose(compiled(x), expected, rtol=1e-13)
            for name, value in vars(plain).items():
                assert type(getattr(found, name)) is type(value), name
                assert_allclose(getattr(found, name), value, rtol=1e-13)
        assert compiled.cache_info().traces == count

    for_each(BODIES, check)


@parametrize_within(("slide", "window"), [
    (lambda w, a: w.append(a * 1.0), deque([1.0, 2.0, 3.0], 3)), (lambda w, a: w.rotate(1), deque([1.0, 2.0, 3.0])),
    (lambda w, a: (w.append(a * 1.0), w.pop(0)), [1.0, 2.0, 3.0]), (lambda w, a: (w.insert(0, a * 1.0), w.pop()), [1.0, 2.0, 3.0]),
    (lambda w, a: w.reverse(), [1.0, 2.0, 3.0])], ids=["deque", "rotate", "list", "insert", "reverse"])
def test_numbers_move_within_a_list(slide: Any, window: Any) -> None:
    expected, weights = copy.copy(window), np.arange(3.0)

    def smoothed(a: Any, window: Any = window) -> Any:
        slide(window, a)
        return weights[0] * window[0] + sum(window)

    compiled = aj.compile(smoothed, backend="interpret")
    for a in (4.0, 5.0, 6.0, 7.0):
        assert compiled(a) == smoothed(a, expected)
        assert window == expected
    assert compiled.cache_info().traces == 1


def test_a_counter_under_transforms_counts() -> None:
    m = SimpleNamespace(t=0)

    def loss(x: Any) -> Any:
        m.t += 1
        return np.sum(x ** 2) * m.t

    for call in (aj.grad(loss), aj.compile(aj.grad(loss)), lambda x: aj.vmap(lambda y: aj.grad(loss)(y))(x[None])[0]):
        m.t = 0
        for k in range(3):
            assert_allclose(call(np.ones(2)), 2.0 * (k + 1) * np.ones(2))
            assert m.t == k + 1


def test_another_number_may_be_bound_between_calls() -> None:
    m = SimpleNamespace(t=0)

    def f(x: Any) -> Any:
        m.t = m.t + 1
        return x * m.t

    compiled = aj.compile(f)
    for given, count in ((0, 1), (10, 1), (-3, 1), (2.5, 2), (np.float64(7), 3), (True, 4), (4, 4)):
        m.t = given
        assert compiled(1.0) == given + 1
        assert type(m.t) is type(given + 1)
        assert compiled.cache_info().traces == count
    m.t = np.ones(2)
    assert_allclose(compiled(1.0), 2.0)


def test_an_exception_leaves_the_number_of_python() -> None:
    m, counts = SimpleNamespace(t=0, w=np.zeros(2)), {"calls": 0}

    def f(x: Any) -> Any:
        m.t += 1
        counts["calls"] += 1
        m.w = m.w + x
        if m.t == 3:
            raise KeyError("three")
        return x * m.t

    compiled = aj.compile(f)
    for k in range(1, 6):
        if k == 3:
            with pytest.raises(KeyError, match="three"):
                compiled(np.ones(2))
        else:
            assert_allclose(compiled(np.ones(2)), float(k))
        assert m.t == counts["calls"] == k
        assert_allclose(m.w, float(k))


def test_numbers_that_python_needs_are_refused_and_stay() -> None:
    def shapes(m: Any, x: Any) -> Any:
        m.t += 1
        return x.sum() + np.ones(m.t).sum()

    def texts(m: Any, x: Any) -> Any:
        m.t += 1
        m.name = f"step {m.t}"
        return x * m.t

    def asked_for_attributes(m: Any, x: Any) -> Any:
        m.t = m.t * 2
        return x * m.t * (2 if hasattr(m.t, "dtype") else 3)

    def of_a_region(m: Any, x: Any) -> Any:
        def loss(y: Any) -> Any:
            m.t = m.t * 0.5
            return np.sum(y ** 2) * m.t
        return aj.vmap(loss)(x[None])

    for body, number in ((shapes, 1), (texts, 1), (asked_for_attributes, 1.0), (of_a_region, 1.0)):
        m = SimpleNamespace(t=number, name="none")

        def f(x: Any, body: Any = body, m: Any = m) -> Any:
            return body(m, x)

        for _ in range(2):
            with pytest.raises(TraceError, match=r"f\(m=\)\.t.*, and reads it "):
                aj.compile(f)(np.ones(2))
            assert vars(m) == {"t": number, "name": "none"}


def test_integers_never_wrap_around() -> None:
    m = SimpleNamespace(s=2**50)

    def f(x: Any) -> Any:
        m.s = m.s * 4
        return x * (m.s % 7)

    compiled = aj.compile(f)
    assert compiled(1.0) == 2**52 % 7
    assert compiled(1.0) == 2**54 % 7
    with pytest.raises(TraceError, match=r"changes m\.s from 18014398509481984 to 72057594037927936"):
        compiled(1.0)
    assert m.s == 2**54


class Counting:
    """An object that counts its own calls."""

    def __init__(self) -> None:
        self.t = 0

    @aj.compile
    def __call__(self, x: Any) -> Any:
        self.t += 1
        return x * self.t


def test_objects_in_threads() -> None:
    objects = [Counting() for _ in range(4)]
    results: list[list[float]] = [[] for _ in objects]

    def work(number: int) -> None:
        results[number] += [objects[number](1.0).item() for _ in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [list(range(1, 21))] * 4
