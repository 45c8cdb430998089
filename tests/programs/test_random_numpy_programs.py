"""Random NumPy programs with loops, branches, masks, views and writes: compiled equals Python, gradients equal differences, whichever way
was traced first.

Forty programs through the interpreter, the same in every run, some natively; `--exhaustive` runs five thousand others,
RANDOM_EXAMPLES=2000 that many. A program that fails is made smaller and printed as a script.
"""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest
from support.numpy_comparison import check_gradients, check_values
from support.random_numpy_programs import CALLS, Line, RandomProgram, random_numpy_program, runs, smaller

import adjit as aj
from adjit.codegen.llvm.target import host_targets

IN_THE_GATE = 40
CHUNKS = 8
ROUNDING = {"interpret": 0.0, "native": 1e-12}


def check(program: RandomProgram, backend: str, order: tuple[int, ...], derivatives: bool) -> str:
    """Raise if the program gives something else than Python does; returns why it is refused, or an empty text."""
    calls = [program.call(number) for number in order]
    moved = any(text in program.text for text in (" @ ", "sum(", "mean(", "cumsum"))
    try:
        check_values(program.function, calls, backend, 1e-12 if moved else ROUNDING[backend])
        if derivatives and "raise" not in program.text:
            apart = [program.call(number) for number in order if number not in program.one_array_twice]     # else ties: kinks
            check_gradients(program.function, apart, (0, 1, 2, 3), backend)
    except aj.errors.AdjitError as error:
        return str(error).splitlines()[0]
    return ""


def check_and_show(program: RandomProgram, backend: str, order: tuple[int, ...], derivatives: bool) -> str:
    """Check; a program that fails is made smaller first."""
    try:
        return check(program, backend, order, derivatives)
    except Exception as error:
        kind = type(error)

        def fails(one: RandomProgram) -> bool:
            try:
                check(one, backend, order, derivatives)
            except kind:
                return True
            except Exception:
                pass
            return False

        program = smaller(program, fails)
        try:
            check(program, backend, order, derivatives)
        except kind as last:
            error = last
        raise AssertionError(f"seed {program.seed}, {backend}, calls in the order {order}: {error}\n\n{program.script()}") from error


def seeds(chunk: int, exhaustive: bool) -> range:
    count = int(os.environ.get("RANDOM_EXAMPLES", "5000" if exhaustive else str(IN_THE_GATE)))
    first = 0 if count == IN_THE_GATE and not exhaustive else time.time_ns() // 1_000_000_000 * count
    return range(first + chunk, first + count, CHUNKS)


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_programs_mean_what_python_makes_of_them(chunk: int, exhaustive: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    refused: Counter[str] = Counter()
    for seed in seeds(chunk, exhaustive):
        program, number = random_numpy_program(seed), seed // CHUNKS
        backend = "native" if number % 10 == 3 and host_targets() else "interpret"
        order = tuple(range(CALLS))[::1 if seed % 2 else -1]
        refused[check_and_show(program, backend, order, derivatives=number % 4 == 0)] += 1
    assert refused.total() - refused[""] <= REFUSED * refused.total(), refused.most_common(8)


REFUSED = 0.08
"""Part of the programs that may be refused."""


def test_programs_are_made_smaller() -> None:
    program = next(program for program in map(random_numpy_program, range(40)) if program.text.count("+=") > 1)
    one = smaller(program, lambda program: "+=" in program.text)
    assert one.text.count("\n") < program.text.count("\n") - 4
    assert "+=" in one.text
    assert runs(one)
    assert not runs(RandomProgram(0, frozenset(), (Line("return x[99]"),), 4))
