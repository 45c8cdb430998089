"""Arrays without traced values that change from round to round of a Python loop: rows of one captured array, which a loop reads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from support.each import for_each
from support.python_loops import loops_of, normal, rolled, trace_of

import adjit as aj
from adjit.ir.graph import walk
from adjit.passes.options import RollingRule

ROUNDS = 40


def plain_rows() -> Any:
    """Arrays of 4.8 kB, each made of the one before, zeros first."""
    m = np.zeros((200, 3))
    step = np.sin(np.arange(600.0)).reshape(200, 3)
    for _ in range(ROUNDS):
        yield m
        m = np.roll(m, 1, axis=0) * 0.99 + step


def in_loop(x: Any) -> Any:
    for m in plain_rows():
        x = np.tanh(x + np.mean(m * x))
    return np.sum(x)


def in_derivative_of_round(x: Any) -> Any:
    for m in plain_rows():
        x = x - 0.1 * aj.grad(lambda p: np.mean(np.sin(m * p) ** 2))(x)       # noqa: B023
    return np.sum(x * x)


def in_branch(x: Any) -> Any:
    for m in plain_rows():
        x = aj.cond(np.sum(x) > 0, lambda x: x - np.mean(m * x), lambda x: x + 0.1 * m[0], x)     # noqa: B023
    return np.sum(x)


def in_checkpoint(x: Any) -> Any:
    for m in plain_rows():
        x = aj.checkpoint(lambda x: np.tanh(x + np.mean(m * x)))(x)     # noqa: B023
    return np.sum(x)


def in_scan(x: Any) -> Any:
    """One region that reads many rows, and one that its op shares with others."""
    def step(x: Any, _: Any) -> Any:
        return in_loop(x) + x, None
    return np.sum(aj.scan(step, x, None, 2)[0])


def in_while(x: Any) -> Any:
    def body(state: Any) -> Any:
        i, x = state
        for m in plain_rows():
            x = np.tanh(x + np.mean(m * x))
        return i + 1, x
    return np.sum(aj.while_loop(lambda state: state[0] < 2, body, (0, x))[1])


def in_loop_of_values(x: Any) -> Any:
    """A Python loop that decides when it ends."""
    rounds = 0
    while np.sum(x * x) > 0.01 and rounds < 30:
        for m in plain_rows():
            x = 0.99 * x - 0.01 * np.mean(m) * x
        rounds += 1
    return np.sum(x)


KINDS = in_loop, in_derivative_of_round, in_branch, in_checkpoint, in_scan, in_while, in_loop_of_values
X = np.array([0.3, -0.2, 0.5])


def by_python(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without a rolled program: transforms run op by op."""
    return aj.compile(function, backend="interpret", roll_loops=False)


def test_rows_in_regions_of_every_kind() -> None:
    def check(function: Callable[..., Any]) -> None:
        trace, _ = trace_of(function, [X]) if function is not in_loop_of_values else (None, None)
        if trace is not None:
            assert [array.shape for array in trace.captured] == [(ROUNDS, 200, 3)]
            assert not any(op.name == "table" and op.result.type.size > 3 for op in walk(trace.graph))
            assert loops_of(rolled(trace.graph))
        compiled = aj.compile(aj.value_and_grad(function))
        value, gradient = compiled(X)
        direction, unrolled = np.array([0.6, -0.3, 0.8]), by_python(function)
        assert_allclose(value, unrolled(X), rtol=1e-13)
        difference = (unrolled(X + 1e-6 * direction) - unrolled(X - 1e-6 * direction)) / 2e-6
        assert_allclose(gradient @ direction, difference, rtol=1e-6, atol=1e-8)

    for_each({function.__name__: function for function in KINDS}, check, share=2)


def test_a_round_costs_no_op() -> None:
    """The compile time of 400 and 2,000 rounds was that of as many arrays: 0.7 s and 3.4."""
    def fade(x: Any) -> Any:
        w = np.linspace(1.0, 2.0, 64)
        for _ in range(400):
            w = w * 0.99
            x = np.sin(x * w)
        return x

    trace, _ = trace_of(fade, [normal(64)])
    found = rolled(trace.graph, RollingRule())
    assert (loops_of(found), len(found.ops), len(trace.captured)) == ([(400, 3)], 2, 1)
    x = normal(64)
    assert_array_equal(aj.compile(fade)(x), aj.compile(fade, roll_loops=False)(x))


def test_contents_are_kept_once_and_bits_stay() -> None:
    special = np.array([0.0, -0.0, np.nan, np.inf, 5e-324] * 200)

    def turn(x: Any) -> Any:
        rows, m = [], special
        for _ in range(20):
            m = np.roll(m, 2)
            rows.append(x * 0 + m)
        return rows

    trace, _ = trace_of(turn, [np.zeros(1000)])
    (rows,) = trace.captured
    assert rows.shape == (5, 1000)
    for got, wanted in zip(aj.compile(turn)(np.zeros(1000)), turn(np.zeros(1000)), strict=True):
        assert got.tobytes() == wanted.tobytes()


def test_few_or_small_ones_stay_tables() -> None:
    def few(x: Any) -> Any:
        return [x + np.sin(np.arange(1000.0) + i) for i in range(3)], [x[:3] * np.sin(np.arange(3.0) + i) for i in range(30)]

    trace, _ = trace_of(few, [np.zeros(1000)])
    assert sorted(array.shape for array in trace.captured) == [(1000,)] * 3
    assert sum(op.name == "table" for op in walk(trace.graph)) == 30
    for got, wanted in zip(aj.compile(few)(np.ones(1000)), few(np.ones(1000)), strict=True):
        assert_array_equal(got, wanted)


def test_index_arrays() -> None:
    def shuffle(x: Any) -> Any:
        order = np.arange(700) * 3 % 700
        for _ in range(30):
            x = x[order] + 0.5 * x
            order = np.roll(order, 1)
        return x

    x = normal(700)
    trace, _ = trace_of(shuffle, [x])
    assert loops_of(rolled(trace.graph))
    assert_array_equal(aj.compile(shuffle)(x), shuffle(x))
    gradient = aj.compile(aj.grad(lambda x: np.sum(shuffle(x) ** 2)))(x)
    assert_allclose(np.sum(gradient * x), 2 * np.sum(shuffle(x) ** 2), rtol=1e-12)


def test_exports_and_other_processes(tmp_path: Path) -> None:
    compiled = aj.compile(in_loop)
    wanted = compiled(X)
    compiled.export(tmp_path / "rows.adjit", X)
    assert aj.load(tmp_path / "rows.adjit")(X) == wanted
    assert [aj.compile(in_loop, threads=threads)(X) for threads in (1, 2)] == [wanted, wanted]


@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
def test_backends(backend: str) -> None:
    compiled = aj.compile(aj.value_and_grad(in_loop), backend=backend)
    for x in (X, -X, X):
        value, gradient = compiled(x)
        assert_allclose(value, in_loop(x), rtol=1e-13)
        assert_allclose(gradient, aj.grad(in_loop)(x), rtol=1e-12)
