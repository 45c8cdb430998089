"""Arrays that two variables hold, or a list and a variable: which ways made them one is forgotten where nobody can tell, and ways meet."""

from __future__ import annotations

import random

import numpy as np
import pytest

import adjit as aj


def chain(x, moves, draws):
    """States of a Metropolis chain."""
    states, density = [], -0.5 * x @ x
    for k in range(len(draws)):
        new = x + moves[k]
        other = -0.5 * new @ new
        if np.log(draws[k]) < other - density:
            x, density = new, other
        states.append(x)
    return np.array(states)


def pairs(x, moves, draws):
    """The same, with the density of each state, as the states that were left."""
    states, density = [], np.exp(-x @ x)
    for move, draw in zip(moves, draws, strict=True):
        states.append((x, density))
        new = x + move
        other = np.exp(-new @ new)
        if draw * density < other:
            x, density = new, other
    return np.array([state for state, _ in states]), sum(weight for _, weight in states)


def annealed(x, moves, draws):
    """The best state of a chain, which is the present one on some ways, and that of the caller at first."""
    energy = np.sum(x * x - x)
    best, least = x, energy
    for move, draw in zip(moves, draws, strict=True):
        new = x + move
        other = np.sum(new * new - new)
        if other < energy or draw < np.exp(energy - other):
            x, energy = new, other
            if energy < least:
                best, least = x, energy
    return best, least


def arguments_of(seed: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    return np.zeros(2), rng.normal(size=(12, 2)), rng.random(12)


@pytest.mark.parametrize("function", [chain, pairs, annealed])
def test_chains_are_one_program(function) -> None:
    compiled = aj.compile(function, backend="interpret")
    for seed in range(5):
        for mine, wanted in zip(compiled(*arguments_of(seed)), function(*arguments_of(seed)), strict=True):
            np.testing.assert_array_equal(mine, wanted, strict=True)
    assert compiled.cache_info().traces <= 3


def written_on_one_way(x, moves, draws):
    """An array that is one with an item of a list on some ways, and is written to."""
    states = [x + 0.0]
    x = states[0]
    for k in range(4):
        if draws[k] > 0.5:
            x = x + moves[k]
        if draws[k + 4] > 0.5:
            x += moves[k + 4]
        states.append(x)
    return np.array(states)


def without_dimension(x, moves, draws):
    """The same with arrays of no dimension."""
    states = [np.array(x[0])]
    x = states[0]
    for k in range(2):
        if draws[k] > 0.5:
            x = np.array(moves[k, 0])
        if draws[k + 4] > 0.5:
            x[...] = moves[k + 4, 0]
        states.append(x)
    return np.array(states)


@pytest.mark.parametrize("function", [written_on_one_way, without_dimension])
def test_written_arrays_stay_one(function) -> None:
    calls = [arguments_of(seed) for seed in range(4)]
    for order in (calls, calls[::-1]):
        compiled = aj.compile(function, backend="interpret")
        for call in order:
            np.testing.assert_array_equal(compiled(*call), function(*call), strict=True)


STATEMENTS = ("x = y", "x = x + z[k]", "x = w", "w = x", "y = x * 0.5", "out.append(x)", "out.append(w)", "out.append(y)", "out[-1] = x",
              "out[0] = out[-1]", "x = out[-(k // 2) % len(out)]", "out.append((x, w)[k % 2])", "held.append((x, k))", "x = held[0][0]")
WRITES = ("x += z[k]", "x[0] = k", "out[-1][1] = 2.0", "w *= 0.5", "v = out[0][:1]; v += 1.0", "held[-1][0][0] = 4.0", "del out[1:2]",
          "out.insert(0, x)", "out.reverse()")


def random_program(seed: int) -> str:
    """Program of a few statements, some behind decisions, in a loop; every second one writes to arrays or lists."""
    rng = random.Random(seed)
    lines = ["def program(x, z, u):", "    w = y = x + 1.0", "    out, held = [x, w], [(w, 0)]", "    for k in range(3):"]
    for number in range(rng.randint(3, 6)):
        line = rng.choice(STATEMENTS + WRITES * (seed % 2))
        lines.append(f"        if u[{number} + k] > 0.5: {line}" if rng.random() < 0.6 else f"        {line}")
    return "\n".join([*lines, "    return [a * 1.0 for a in out], [a * 1.0 for a, _ in held], x * 1.0"])


def check(text: str, seed: int) -> bool:
    """Compare a program with Python; False if it is refused."""
    names: dict[str, object] = {}
    exec(text, names)
    program = names["program"]
    rng = np.random.default_rng(seed)
    calls = [(rng.normal(size=2), rng.normal(size=(3, 2)), rng.random(9)) for _ in range(5)]
    compiled = aj.compile(program, backend="interpret")
    for call in calls:
        mine, theirs = [part.copy() for part in call], [part.copy() for part in call]
        wanted = program(*theirs)       # type: ignore[operator]
        try:
            found = compiled(*mine)
        except aj.errors.AdjitError:
            return False
        for a, b in zip([*found[0], *found[1], found[2], *mine], [*wanted[0], *wanted[1], wanted[2], *theirs], strict=True):
            np.testing.assert_array_equal(a, b, strict=True, err_msg=text)
    return True


def test_random_programs_mean_what_python_makes_of_them(exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    seeds = range(2000 if exhaustive else 4)
    assert sum(check(random_program(seed), seed) for seed in seeds) > 0.7 * len(seeds)
