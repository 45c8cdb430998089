"""Repeated stretches of letters: every period, at every rotation, between anything else."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from support.python_loops import SHORT_LOOPS, loops_of, rolled, trace_of

from adjit.passes.loops.find_repeats import Stretch, find_repeats
from adjit.passes.loops.roll_loops import roll_loops
from adjit.passes.options import Options, RollingRule


@pytest.mark.parametrize("period", [1, 2, 3, 5, 8, 13])
def test_a_period_is_found_at_every_place(period: int) -> None:
    draw = Random(period)
    for trips in (4, 7, 30):
        for before in range(period + 2):
            body = list(range(period))
            letters = [100 + i for i in range(before)] + body * trips + [200 + i for i in range(draw.randint(0, 4))]
            found = [(p, begin, end) for p, begin, end in find_repeats(np.array(letters), np.arange(len(letters) + 1), 4, 4) if p == period]
            assert found == [(period, before, before + period * trips)]


def test_letters_that_occur_several_times_in_a_period() -> None:
    letters = np.array([1, 2, 1, 3, 1, 4] * 6)
    assert (6, 0, 36) in list(find_repeats(letters, np.arange(len(letters) + 1), 4, 12))


def test_letters_that_occur_many_times_in_a_period() -> None:
    """A step over ten bodies, with a line for each of them and one for each of their pairs, in which two pairs differ."""
    letters = np.array(([1, 2] * 41 + [4] + [1, 2] * 50 + [3] * 10) * 9)
    assert (193, 0, 9 * 193) in list(find_repeats(letters, np.arange(len(letters) + 1), 8, 500))


def test_short_periods_come_first() -> None:
    letters = np.array(([1] * 9 + [2, 3]) * 5)
    periods = [period for period, _, _ in find_repeats(letters, np.arange(len(letters) + 1), 4, 8)]
    assert periods == sorted(periods)
    assert periods[0] == 1
    assert 11 in periods


def test_nothing_repeats_often_enough() -> None:
    assert list(find_repeats(np.array([1, 2, 3] * 3), np.arange(10), 4, 1)) == []
    assert list(find_repeats(np.arange(100), np.arange(101), 4, 1)) == []
    assert list(find_repeats(np.array([], np.int64), np.arange(1), 4, 1)) == []


def test_stretches_overlap() -> None:
    assert Stretch(3, 2, 4).end == 11
    assert Stretch(3, 2, 4).overlaps(Stretch(10, 1, 1))
    assert not Stretch(3, 2, 4).overlaps(Stretch(11, 1, 1))


@pytest.mark.parametrize("lead", range(5))
def test_loops_begin_where_little_is_handed_on(lead: int) -> None:
    """Whatever ops of the iteration come first, one array is carried, not the intermediate ones."""
    def steps(x: np.ndarray) -> np.ndarray:
        functions = [lambda y: np.outer(y, y), lambda y: np.sin(y), lambda y: y.sum(axis=0), lambda y: np.cos(y), lambda y: y / 3]
        order = [(lead + i) % 5 for i in range(5 * 20)]
        x = np.outer(x, x) if lead in (1, 2) else x
        for i in order:
            x = functions[i](x)
        return x.sum()

    trace, _ = trace_of(steps, [np.ones(16)])
    (scan,) = [op for op in rolled(trace.graph).ops if op.name == "scan"]
    assert [value.type.shape for value in scan.operands[:scan.attrs["carries"]]] == [(16,)]
    assert loops_of(rolled(trace.graph))[0][0] >= 19


def test_rule_of_trips_and_ops() -> None:
    def loop(x: np.ndarray) -> np.ndarray:
        for _ in range(20):
            x = np.sin(x) * 0.5
        return x

    graph = trace_of(loop, [np.ones(3)])[0].graph
    assert loops_of(roll_loops(graph, Options(rolling=SHORT_LOOPS))) != []
    assert roll_loops(graph, Options(rolling=RollingRule(21, 12))) is graph
    assert roll_loops(graph, Options(rolling=RollingRule(4, 1000))) is graph
    assert roll_loops(graph, Options()) is graph
    assert roll_loops(graph, Options(memory_budget=1000, rolling=SHORT_LOOPS)) is graph
