"""Memos in functions that are differentiated: what an earlier call stored has no derivative, so a hit is refused."""

from functools import lru_cache
from types import SimpleNamespace

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError

X = np.array([1.0, 2.0, 3.0])


def equal(memo, x):
    if memo.x is not None and np.array_equal(x, memo.x):
        return memo.value
    memo.x, memo.value = x.copy(), np.sum(x ** 2)
    return memo.value


def a_part(memo, x):
    if memo.x is None or np.any(x != memo.x):
        memo.x, memo.value = x.copy(), x ** 2
    return np.sum(memo.value * x)


def close(memo, x):
    if memo.x is None or not np.allclose(x, memo.x):
        memo.x, memo.value = x.copy(), np.sum(x ** 2)
    return memo.value


def near(memo, x):
    if memo.x is None or np.linalg.norm(x - memo.x) > 1e-12:
        memo.x, memo.value = x.copy(), np.sum(x ** 2)
    return memo.value + x[0]


def scalar(memo, x):
    if memo.x != x[1]:
        memo.x, memo.value = x[1], x[1] ** 2
    return memo.value * x[0]


def table(memo, x):
    if x[1] not in memo.table:
        memo.table[x[1]] = x[1] ** 2
    return memo.table[x[1]]


def table_of_tuples(memo, x):
    if (key := tuple(x)) not in memo.table:
        memo.table[key] = np.sum(x)
    return memo.table[key]


@pytest.mark.parametrize("body", [equal, a_part, close, near, scalar, table, table_of_tuples], ids=lambda body: body.__name__)
def test_hit(body):
    """Behind a call that stored plain values, and, for some, behind one that took the gradient."""
    memo = SimpleNamespace(x=None, value=0.0, table={})

    def f(x):
        return body(memo, x)

    f(X)
    with pytest.raises(TraceError, match=r"(?s)equals what an earlier call stored in .*memo\..*test_memos\.py"):
        aj.grad(f)(X)
    if body in (a_part, scalar):
        memo.x, gradient = None, aj.grad(f)
        assert gradient(X).tolist() == {a_part: [3.0, 12.0, 27.0], scalar: [4.0, 4.0, 0.0]}[body]
        with pytest.raises(TraceError, match=r"an earlier call stored in memo\.x"):
            gradient(X)


def test_state_that_is_no_memo():
    """Equal values alone are none: the output is computed anew, the counter has the argument's value."""
    state = SimpleNamespace(x=None, count=0, calls=0.0)

    def f(x):
        state.calls += 1.0
        if state.x is not None and np.array_equal(state.x, x):
            state.count += 1
        state.x = x
        return 1.0 if x[0] == 0 else np.sum(x ** 2)

    gradient = aj.grad(f)
    assert [gradient(X).tolist() for _ in range(3)] == [[2.0, 4.0, 6.0]] * 3
    assert state.count == 2
    state.calls = 0.0
    assert gradient(np.zeros(3)).tolist() == [0.0] * 3


def test_state_in_the_output():
    """The best loss, met again, is none; the output may depend on other state."""
    state = SimpleNamespace(best=np.inf, momentum=np.zeros(3))

    def f(x):
        loss = np.sum(x ** 2)
        if loss < state.best:
            state.best = loss
        state.momentum = 0.5 * state.momentum + x
        return loss + np.sum(state.momentum)

    gradient = aj.grad(f)
    assert [gradient(X).tolist() for _ in range(2)] == [[3.0, 5.0, 7.0]] * 2
    assert state.best == 14.0


def test_cached_functions():
    """A cache of functools computes again in a derivative."""
    calls = []

    @lru_cache
    def square(x):
        calls.append(1)
        return x * x

    square(3.0)
    assert aj.grad(lambda x: square(x) * x)(3.0) == 27.0
