"""Generators of random numbers that a loop on values reaches through containers, attributes and bound methods."""

import random
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj


def in_a_list(x: float) -> float:
    held = [np.random.default_rng(0)]
    while x < 10:
        x = x + held[0].random()
    return x


def in_an_attribute(x: float) -> float:
    held = SimpleNamespace(rng=np.random.default_rng(0))
    while x < 10:
        x = x + held.rng.random()
    return x


def by_a_nested_function(x: float) -> float:
    held = {"rng": np.random.default_rng(0)}

    def step(x: float) -> float:
        return x + held["rng"].normal() ** 2

    while x < 10:
        x = step(x)
    return x


def by_a_bound_method(x: float) -> float:
    draw = np.random.default_rng(0).random
    while x < 10:
        x = x + draw()
    return x


def of_python(x: float) -> float:
    held = {"rng": random.Random(0)}
    while x < 10:
        x = x + held["rng"].random()
    return x


@pytest.mark.parametrize("function", [in_a_list, in_an_attribute, by_a_nested_function, by_a_bound_method, of_python])
def test_seeded_draws_of_a_loop_are_those_of_each_round(function: Callable[[float], float]) -> None:
    compiled = aj.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for x in (5.0, 1.0, 8.0, 1.0, -3.0, 9.0, 5.0):
            assert compiled(x) == function(x)


@pytest.mark.parametrize("held", [{"rng": 0}, [0], SimpleNamespace(rng=0)], ids=["dict", "list", "attribute"])
def test_draws_from_a_generator_outside_are_warned_about_once(held: Any) -> None:
    generator = np.random.default_rng(1)
    if isinstance(held, dict):
        held["rng"], draw = generator, lambda: held["rng"].random()
    elif isinstance(held, list):
        held[0], draw = generator, lambda: held[0].random()
    else:
        held.rng, draw = generator, lambda: held.rng.random()

    @aj.compile
    def shifted(x: float) -> float:
        return x + draw()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        first, second = shifted(1.0), shifted(1.0)
    assert first == second
    (warning,) = [w for w in caught if "while it is traced" in str(w.message)]
    assert "draws from" in str(warning.message)


class Layer:
    """Adds a draw of its own generator."""

    def __init__(self, seed: int):
        self.generator = np.random.default_rng(seed)

    def __call__(self, x: float) -> float:
        return x + self.generator.random()


def layers_in_turn() -> tuple[Callable[[float], Any], Callable[[], Any]]:
    layers = [Layer(seed) for seed in range(3)]

    def run(x: float) -> float:
        for _ in range(12):
            for layer in layers:
                x = layer(x)
            if x > 8:
                x = x - 5
        return x
    return run, lambda: [layer.generator.random() for layer in layers]


def chosen_by_number() -> tuple[Callable[[float], Any], Callable[[], Any]]:
    held = {"all": [np.random.default_rng(seed) for seed in range(3)]}

    def run(x: float) -> tuple[float, int]:
        k = 0
        while x < 10:
            x = x + held["all"][k % 3].random()
            k += 1
        return x, k
    return run, lambda: [generator.random() for generator in held["all"]]


def kept_if_better() -> tuple[Callable[[float], Any], Callable[[], Any]]:
    held = (random.Random(2),)

    def run(x: float) -> float:
        for _ in range(50):
            other = x + held[0].gauss(0, 1)
            if (other - 1) ** 2 < (x - 1) ** 2:
                x = other
        return x
    return run, lambda: held[0].random()


@pytest.mark.parametrize("make", [layers_in_turn, chosen_by_number, kept_if_better])
@pytest.mark.filterwarnings("ignore:.*while it is traced:RuntimeWarning")
def test_the_first_call_draws_what_python_draws_however_often_it_is_traced(make: Callable[[], Any]) -> None:
    for x in (5.0, 1.0):
        run, draw = make()
        wanted, then = run(x), draw()
        run, draw = make()
        assert (aj.compile(run)(x), draw()) == (wanted, then)
