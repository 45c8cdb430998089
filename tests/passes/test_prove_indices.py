"""Indices that are proven to be in range: which are, and that none is by mistake."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from support.python_loops import normal, trace_of

import adjit as aj
from adjit.ir.analysis.integer_ranges import with_ranges
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, walk
from adjit.ir.interpreter import interpret
from adjit.passes.options import Options
from adjit.passes.pipeline import run_pipeline


def marked(function: Callable[..., Any], *args: Any) -> tuple[Graph, list[bool]]:
    """Optimized graph, and of each op with indices whether they are proven."""
    trace, _ = trace_of(function, args)
    graph = run_pipeline(trace.graph, Options(), True).graphs["optimized"]
    return graph, ["in_range" in op.attrs for op in walk(graph) if op.definition.kind is Kind.INDEXING]


def total(index: Callable[[Any, Any], Any], trips: int = 6) -> Callable[..., Any]:
    """Sum of `x[index(i, k)]` for each i; k is data."""
    return lambda x, k: aj.fori_loop(0, trips, lambda i, s: s + x[index(i, k)] * 0.5, 0.0)


PROVEN: dict[str, Callable[[Any, Any], Any]] = {
    "counter": lambda i, k: i, "from the end": lambda i, k: -1 - i, "crosses zero": lambda i, k: i - 3, "halves": lambda i, k: i // 2,
    "wraps": lambda i, k: (i * 7 + 3) % 6, "clipped": lambda i, k: np.clip(k, 0, 5),
    "limited": lambda i, k: np.minimum(np.maximum(k, 0), i),
    "chosen": lambda i, k: np.where(i < 3, i + 3, i - 3), "argmax": lambda i, k: np.argmax(normal(6) * i),
    "table": lambda i, k: np.array([5, 0, 3, 3, 1, 2])[i], "wrapped data": lambda i, k: k % 6, "bool": lambda i, k: (k > i).astype(int),
}
OPEN: dict[str, Callable[[Any, Any], Any]] = {
    "data": lambda i, k: k, "beyond": lambda i, k: i + 1, "before": lambda i, k: i - 7, "negative modulus": lambda i, k: k % -7,
    "smallest": lambda i, k: np.minimum(np.abs(k), 5),
    "product": lambda i, k: i * i, "other condition": lambda i, k: np.where(k < 3, i + 3, i - 3), "overflow": lambda i, k: k + k,
}


def test_indices_by_construction_are_proven_and_others_are_not() -> None:
    x, k = normal(6), np.array(4)
    for name, index in PROVEN.items():
        _, marks = marked(total(index), x, k)
        assert marks, name
        assert all(marks), name
    for name, index in OPEN.items():
        _, marks = marked(total(index), x, k)
        assert marks, name
        assert not marks[-1], name
    assert float(aj.compile(total(PROVEN["crosses zero"]))(x, k)) == pytest.approx(0.5 * sum(x[i - 3] for i in range(6)), rel=1e-14)
    with pytest.raises(IndexError, match="index 6 is out of bounds for axis 0 with size 6"):
        aj.compile(total(OPEN["beyond"]))(x, k)
    with pytest.raises(IndexError):
        aj.compile(total(OPEN["data"]))(x, k + 2)


def test_carried_counters_are_proven_where_an_iteration_keeps_them() -> None:
    def walk_on_ring(x: Any) -> Any:
        return aj.fori_loop(0, 9, lambda i, s: ((s[0] + 2) % 5, s[1] + x[s[0]] * x[i % 5]), (np.int64(1), 0.0))[1]

    def walk_on_line(x: Any) -> Any:
        return aj.fori_loop(0, 9, lambda i, s: (s[0] + 2, s[1] + x[s[0]]), (np.int64(1), 0.0))[1]

    assert marked(walk_on_ring, normal(5))[1] == [True, True]
    assert marked(walk_on_line, normal(5))[1] == [False]
    with pytest.raises(IndexError):
        aj.compile(walk_on_line)(normal(5))


def test_derivatives_of_proven_reads_and_writes() -> None:
    def fill(x: Any) -> Any:
        def step(i: Any, y: Any) -> Any:
            y = y.copy()
            y[i + 1] = np.sin(y[i]) * x[-1 - i]
            return y
        return np.sum(aj.fori_loop(0, 7, step, np.ones(8) * x[0]) ** 2)

    x = normal(7)
    _, marks = marked(aj.grad(fill), x)
    assert len(marks) > 3
    assert all(marks)
    direction = normal(7, seed=1)
    slope = (fill(x + 1e-6 * direction) - fill(x - 1e-6 * direction)) / 2e-6
    assert float(aj.compile(aj.grad(fill))(x) @ direction) == pytest.approx(float(slope), rel=1e-7)
    assert float(aj.compile(fill)(x)) == pytest.approx(float(fill(x)), rel=1e-14)


def _random_index(rng: random.Random, values: list[Any], depth: int = 3) -> Any:
    """Integer expression of the values, of numbers, and of operations with rules."""
    if not depth or rng.random() < 0.15:
        return rng.choice(values)
    one, number = _random_index(rng, values, depth - 1), rng.randint(-4, 6)
    other = _random_index(rng, values, depth - 1)
    return rng.choice([
        lambda: one + other, lambda: one - other, lambda: one - number, lambda: one * number, lambda: one * other, lambda: -one,
        lambda: np.abs(one),
        lambda: one % rng.randint(1, 7), lambda: one // rng.randint(1, 4), lambda: np.minimum(one, number), lambda: np.maximum(one, other),
        lambda: np.clip(one, 0, 5), lambda: np.where(one < number, one, other), lambda: np.where(one >= number, one - number, one + 1),
        lambda: np.where(one <= other, one, other), lambda: np.where(one > number, other, one), lambda: np.square(one),
        lambda: one % -number,
        lambda: one.astype(np.int8).astype(np.int64), lambda: np.stack([one, other])[::-1][0],
    ])()


def _random_loops(rng: random.Random) -> Callable[[Any], Any]:
    draw, first = partial(_random_index, rng), rng.randint(-3, 3)

    def program(k: Any) -> Any:
        def body(i: Any, s: Any) -> Any:
            inner = aj.fori_loop(-2, 3, lambda j, t: draw([i, j, t]), s)
            return draw([i, s, inner, aj.cond(k > i, lambda: s + 1, lambda: draw([i, s]))])
        return aj.fori_loop(0, 5, body, np.int64(first))

    return program


@pytest.mark.filterwarnings("ignore:.*while it is traced")
@pytest.mark.parametrize("part", range(2))
def test_ranges_hold_what_programs_compute(part: int, exhaustive: bool) -> None:
    """Random expressions in loops and branches; a range of the result holds whatever the data."""
    proven = 0
    for seed in range(part, 800 if exhaustive else 60, 2):
        trace, _ = trace_of(_random_loops(random.Random(seed)), (np.array(3),))
        _, (result,) = with_ranges(trace.graph, [None], lambda op, ranges: op)
        proven += result is not None
        for k in (-5, 0, 3, 2 ** 62):
            found = interpret(trace.graph, [np.array(k)])[0]
            assert result is None or result[0] <= found <= result[1], (seed, k)
    assert proven > (60 if exhaustive else 4)


def test_counters_of_while_loops_are_proven_by_the_condition() -> None:
    def counted(first: Any, goes_on: Callable[[Any], Any], step: int, index: Callable[[Any], Any] = lambda i: i) -> Callable[..., Any]:
        return lambda x, k: aj.while_loop(lambda s: goes_on(s[0]), lambda s: (s[0] + step, s[1] + x[index(s[0])] * 0.5),
                                          (np.int64(first) if first is not None else k, 0.0))[1]

    x, k = normal(6), np.array(2)
    proven = [counted(0, lambda i: i < 6, 1), counted(5, lambda i: i >= 0, -1), counted(6, lambda i: i > 0, -1, lambda i: i - 1),
              counted(1, lambda i: i <= 4, 3, lambda i: i + 1), counted(0, lambda i: np.logical_and(i < 9, i < 6), 1)]
    opened = [counted(0, lambda i: i < 7, 1), counted(5, lambda i: i >= -7, -1), counted(None, lambda i: i < 6, 1),
              counted(0, lambda i: i * i < 36, 1), counted(0, lambda i: i < 6, 1, lambda i: i + 1), counted(0, lambda i: i != 6, 1),
              counted(0, lambda i: np.logical_or(i < 6, i < 3), 1)]
    for program in proven:
        assert marked(program, x, k)[1] == [True]
        assert float(aj.compile(program)(x, k)) == float(aj.compile(program, backend="interpret")(x, k))
    for program in opened:
        assert marked(program, x, k)[1] == [False]
    for program in opened[:2]:
        with pytest.raises(IndexError):
            aj.compile(program)(x, k)
