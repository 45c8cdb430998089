"""State that a point of the program could overlook: ways that differ in it do not meet."""

from __future__ import annotations

import array
import operator
import random
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj

DATA = [np.array(pair, float) for pair in ([1, 1], [-1, -1], [1, -1], [-1, 1])]


def bump(y):
    if y > 0:
        return y + 1
    return y - 1


inner = aj.compile(bump)
FIRST, SECOND = object(), object()
FIRST_LIST, SECOND_LIST = [1], [1]
FILLED: list[float] = []
DRAW: Any = random.Random().random


def compiled_within(x):
    k = 2 if x[0] > 0 else 3
    return inner(x[1]) * k


def object_of_c(x):
    get = operator.itemgetter(0) if x[0] > 0 else operator.itemgetter(1)
    return get([x[1] * 1, x[1] * 7]) * bump(x[1])


def array_of_c(x):
    numbers = array.array("d", [1.0])
    if x[0] > 0:
        numbers.append(5.0)
    return bump(x[1]) * numbers[-1]


def identity(x):
    chosen = FIRST if x[0] > 0 else SECOND
    return bump(x[1]) * (2 if chosen is FIRST else 3)


def identity_of_equals(x):
    chosen = FIRST_LIST if x[0] > 0 else SECOND_LIST
    return bump(x[1]) * (2 if chosen is FIRST_LIST else 3)


class Private:
    __slots__ = ("__k",)

    def __init__(self, k):
        self.__k = k

    def get(self):
        return self.__k


def private_slot(x):
    held = Private(2.0) if x[0] > 0 else Private(3.0)
    return bump(x[1]) * held.get()


def equal_ranges(x):
    numbers = range(0, 3, 2) if x[0] > 0 else range(0, 4, 2)
    return bump(x[1]) * numbers.stop


def order_of_a_set(x):
    numbers = {8, 0} if x[0] > 0 else {0, 8}
    return bump(x[1]) * next(iter(numbers))


def sign_of_zero(x):
    number = complex(0, 0.0) if x[0] > 0 else complex(0, -0.0)
    return bump(x[1]) * np.copysign(1, number.imag)


def region_that_fills_a_list(x):
    found = []

    def loss(v):
        found.append(2.0 if v[0] > 0 else 3.0)
        return np.sum(v * v)

    return np.sum(aj.grad(loss)(x) * found[0])


def handler(x):
    k = 2 if x[0] > 0 else 3

    def refuse(v):
        if v > 0:
            raise ValueError
        return v

    try:
        return refuse(x[1])
    except ValueError:
        return x[1] * k


def iterator_as_operand(x):
    for _ in range(2):
        pass
    pair = (iter(range(3)) if x[0] > 0 else iter(range(10, 13)), bump(x[1]))
    return pair[1] * (next(pair[0]) + 1)


def shared_cell(x):
    def go(v, other):
        n = 0

        def up():
            nonlocal n
            n += 1

        if other is None:
            return go(v, up)
        chosen = up if v[0] > 0 else other
        y = bump(v[1])
        chosen()
        return y * (n + 1)

    return go(x, None)


def list_from_outside(x):
    FILLED.clear()
    FILLED.append(2.0)
    if x[0] > 0:
        FILLED.append(5.0)
    return bump(x[1]) * FILLED[-1]


def generators(x):
    def both(v):
        if v > 0:
            yield v + 1
        else:
            yield v - 1

    return next(both(x[0])) + sum(both(x[1]))


FUNCTIONS = [compiled_within, object_of_c, array_of_c, identity, identity_of_equals, private_slot, equal_ranges, order_of_a_set,
             sign_of_zero, region_that_fills_a_list, handler, iterator_as_operand, shared_cell, list_from_outside, generators]


def plainly(function: Callable[..., Any], given: np.ndarray) -> float:
    return float(np.sum(function(given)))


@pytest.mark.share(3)
@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_ways_that_differ_in_hidden_state_do_not_meet(function: Callable[..., Any]) -> None:
    for data in (DATA, DATA[::-1]):
        compiled = aj.compile(function, backend="interpret")
        for given in 2 * data:
            assert float(np.sum(compiled(given))) == plainly(function, given)


class Dice(random.Random):
    sides = 10


def generator_of_its_own(x):
    dice = Dice(3)
    while x > 1:
        x = x * dice.randrange(1, dice.sides) / 10
    return x


def method_of_a_generator(x):
    draw = DRAW
    draw.__self__.seed(3)
    while x > 1:
        x = x * draw()
    return x


def shared_generator(x):
    random.seed(3)
    while x > 1:
        x = x * random.random()
    return x


def shared_generator_of_numpy(x):
    np.random.seed(3)
    while x > 1:
        x = x * np.random.rand()
    return x


def attribute_of_a_library(x):
    sys.rounds = 0      # type: ignore[attr-defined]
    while x > 1:
        sys.rounds += 1         # type: ignore[attr-defined]
        x = x * (0.5 if sys.rounds % 3 else 0.9)        # type: ignore[attr-defined]
    return x


ROUNDS = [generator_of_its_own, method_of_a_generator, shared_generator, shared_generator_of_numpy, attribute_of_a_library]


@pytest.mark.filterwarnings("ignore:.*draws from DRAW")
@pytest.mark.parametrize("function", ROUNDS, ids=lambda function: function.__name__)
def test_rounds_that_differ_in_hidden_state_do_not_meet(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "rounds", 0, raising=False)
    compiled = aj.compile(function, backend="interpret")
    for given in (1.1, 5.0, 40.0, 900.0, 5.0):
        assert compiled(given) == function(given)


def test_views_bound_under_a_decision_have_gradients() -> None:
    def chosen(x):
        numbers = np.zeros(3)
        view = numbers[1:]
        if x[0] > 0:
            view = numbers[:2]
        view[0] -= x[1]
        return view[0]

    for order in ([1.0, -1, 1], [-1.0, 1, -1], [1.0, 1, 1]):
        np.testing.assert_array_equal(aj.grad(chosen)(np.array(order)), [0, -1, 0])


def test_a_count_along_the_ways_does_not_multiply_the_code() -> None:
    def counted(x):
        count, total = 0, 0.0
        for i in range(12):
            if x[i] > 0:
                count += 1
                total = total + x[i]
        return total * count

    compiled, rng = aj.compile(counted, backend="interpret"), np.random.default_rng(0)
    for _ in range(8):
        given = rng.standard_normal(12)
        assert compiled(given) == counted(given)
    assert max(len(program.trace.graph.ops) for program in compiled.programs()) < 400
