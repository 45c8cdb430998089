"""Random nests of loops and branches, and the same programs unrolled: values, gradients, and second derivatives both ways."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np

import adjit as aj

ROUNDS = 4
SIZE = 3
State = tuple[Any, Any]
Step = Callable[[Any, Any, Any], Any]
"""A vector from a vector, a vector that does not change, and a whole number."""


class Compiled:
    """Loops and branches as adjit has them."""

    @staticmethod
    def scan(step: Step, x: Any, w: Any, rows: Any, reverse: bool) -> Any:
        def body(carry: Any, row: Any) -> tuple[Any, Any]:
            new = step(carry, w * row, 1)
            return new, new * row
        last, stacked = aj.scan(body, x, rows, reverse=reverse)
        return last + 0.3 * np.sum(stacked, axis=0)

    @staticmethod
    def count(step: Step, x: Any, w: Any, stop: Any) -> Any:
        return aj.fori_loop(0, stop, lambda i, carry: step(carry, w, i), x)

    @staticmethod
    def until(step: Step, x: Any, w: Any, goal: float) -> Any:
        def unfinished(state: State) -> Any:
            return (state[0] < ROUNDS) & (np.sum(state[1] ** 2) > goal)
        return aj.while_loop(unfinished, lambda state: (state[0] + 1, step(state[1], w, state[0])), (0, x))[1]

    @staticmethod
    def choose(flag: Any, first: Callable[[Any], Any], second: Callable[[Any], Any], x: Any) -> Any:
        return aj.cond(flag, first, second, x)


class Unrolled:
    """The same with Python's loops; both branches, and as many rounds as there may be, of which some do not count."""

    @staticmethod
    def scan(step: Step, x: Any, w: Any, rows: Any, reverse: bool) -> Any:
        total = 0.0
        for i in reversed(range(rows.shape[0])) if reverse else range(rows.shape[0]):
            x = step(x, w * rows[i], 1)
            total = total + x * rows[i]
        return x + 0.3 * total

    @staticmethod
    def count(step: Step, x: Any, w: Any, stop: Any) -> Any:
        for i in range(ROUNDS):
            x = np.where(i < stop, step(x, w, i), x)
        return x

    @staticmethod
    def until(step: Step, x: Any, w: Any, goal: float) -> Any:
        running: Any = True
        for i in range(ROUNDS):
            running = np.logical_and(running, np.sum(x ** 2) > goal)
            x = np.where(running, step(x, w, i), x)
        return x

    @staticmethod
    def choose(flag: Any, first: Callable[[Any], Any], second: Callable[[Any], Any], x: Any) -> Any:
        return np.where(flag, first(x), second(x))


def random_step(random: Random, depth: int) -> Callable[[Any, Any, Any], Step]:
    """A function of a way to run loops, of a whole number and of rows, that gives a step."""
    kind = random.choice(["scan", "count", "fixed", "until", "choose"] if depth else ["plain"])
    a, b = random.uniform(0.3, 1.1), random.uniform(-0.4, 0.4)
    if kind == "plain":
        first = random.choice([np.sin, np.tanh, np.arctan])
        return lambda run, stop, rows: lambda x, w, i: first(a * x + b * w) + 0.05 * i * w
    inner, other = random_step(random, depth - 1), random_step(random, depth - 1)
    reverse, goal = random.random() < 0.5, random.uniform(0.01, 1.0)

    def made(run: Any, stop: Any, rows: Any) -> Step:
        step, step2 = inner(run, stop, rows), other(run, stop, rows)

        def plain(x: Any, w: Any, i: Any) -> Any:
            if kind == "scan":
                return run.scan(step, x * a, w, rows, reverse)
            if kind == "count":
                return run.count(lambda x, w, j: step(x, w + b * x, i), x, w, stop)
            if kind == "fixed":
                return run.count(step, a * x + b, w, 2)
            if kind == "until":
                return run.until(step, x, a * w, goal)
            return run.choose(np.sum(x * w) > b, lambda x: step(x, w, i), lambda x: step2(a * x, w, i), x)

        return plain

    return made


def compare(seed: int, depth: int, **options: Any) -> None:
    """Compare a nest that is compiled with these options to the unrolled one."""
    random, numbers = Random(seed), np.random.default_rng(seed)
    make = random_step(random, depth)
    x, w, v = (numbers.standard_normal(SIZE) for _ in range(3))
    rows, stop = numbers.standard_normal((3, SIZE)), np.asarray(random.randrange(ROUNDS))

    def loss(run: Any) -> Callable[[Any, Any, Any], Any]:
        return lambda x, w, stop: np.sum(make(run, stop, rows)(x, w, 1) * np.arange(1.0, SIZE + 1))

    def all_of(f: Callable[[Any, Any, Any], Any]) -> Callable[[Any, Any, Any, Any], Any]:
        def derivatives(x: Any, w: Any, v: Any, stop: Any) -> Any:
            value, gradients = aj.value_and_grad(f, (0, 1))(x, w, stop)
            pushed = aj.jvp(lambda x, w: aj.grad(f)(x, w, stop), (x, w), (v, w))
            twice = aj.grad(lambda x: np.sum(aj.grad(f, 1)(x, w, stop) * v))(x)
            return value, *gradients, *pushed, twice
        return derivatives

    found = aj.compile(all_of(loss(Compiled)), **options)(x, w, v, stop)
    expected = aj.compile(all_of(loss(Unrolled)), backend="interpret")(x, w, v, stop)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(one), other, rtol=1e-8, atol=1e-9)
