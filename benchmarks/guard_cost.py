"""What watching costs a call: functions that read something from outside of their arguments, beside one that reads nothing.

    python benchmarks/guard_cost.py [--rounds 40]

The rows are those of the table in docs/guide.md, "What a compiled function watches". All functions are called in turn in each round, and
the least time of each counts, so that other work on the machine disturbs all alike; what is printed is the time above that of the function
that reads nothing, for each thing that is read. What checks take that are made by way of Python, in the other backends and where the native
entry cannot look by itself, is measured alone.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from dataclasses import make_dataclass
from functools import partial
from typing import Any

import numpy as np
import scipy.special

import adjit as aj

COUNT = 10
"""Things of one kind that a function reads: the time for one is a tenth."""
NAMES = [f"rate{index}" for index in range(COUNT)]
CALLS_PER_ROUND = 1000
"""Calls of a function in a round."""

Function = Callable[[Any], Any]


def reading(what: str, **scope: Any) -> Function:
    """A function that multiplies by all of COUNT numbers; `what` is the code that reads one, with INDEX for its number."""
    text = " + ".join(what.replace("INDEX", str(index)) for index in range(COUNT))
    return written(f"x * ({text})", **scope)


def written(expression: str, **scope: Any) -> Function:
    """The function of `x` with this expression, which finds `scope` among its globals."""
    found: Function = eval(f"lambda x: {expression}", {"np": np, **scope})
    return found


def in_cells() -> Function:
    arguments = ", ".join(NAMES)
    make = eval(f"lambda {arguments}: lambda x: x * ({' + '.join(NAMES)})")
    found: Function = make(*range(COUNT))
    return found


def cases() -> Iterator[tuple[str, int, Function]]:
    """Names of rows, how many things are read, and functions."""
    table = dict.fromkeys(NAMES, 2.0)
    plain: type = make_dataclass("Plain", [(name, float) for name in NAMES])
    slotted: type = make_dataclass("Slotted", [(name, float) for name in NAMES], slots=True)
    classed = type("Classed", (), table)
    properties = type("Properties", (), {name: property(lambda self: self.own) for name in NAMES})()
    properties.own = 2.0
    yield "variable of a closure", COUNT, in_cells()
    yield "global variable", COUNT, reading("rateINDEX", **table)
    yield "attribute of an object", COUNT, reading("a.rateINDEX", a=plain(**table))
    yield "attribute of a namespace", COUNT, reading("a.rateINDEX", a=argparse.Namespace(**table))
    yield "attribute in a slot", COUNT, reading("a.rateINDEX", a=slotted(**table))
    yield "attribute of a class", COUNT, reading("a.rateINDEX", a=classed())
    yield "property", COUNT, reading("a.rateINDEX", a=properties)
    yield "item of a dict", COUNT, reading("d['rateINDEX']", d=dict(table))
    yield "item of a list", COUNT, reading("d[INDEX]", d=[2.0] * COUNT)
    yield "list of 2000 numbers", 1, written("x * sum(d)", d=list(map(float, range(2000))))
    yield "set of 10 numbers", 1, written("x * sum(d)", d=set(range(COUNT)))
    yield "set of 2000 numbers", 1, written("x * sum(d)", d=set(range(2000)))
    yield "function that is called", COUNT, reading("fINDEX()", **{f"f{i}": eval(f"lambda: {i}.0") for i in range(COUNT)})
    yield "function with a default", COUNT, reading("fINDEX()", **{f"f{i}": eval(f"lambda rate={i}.0: rate") for i in range(COUNT)})
    yield "array that is an input", COUNT, reading("x * aINDEX", **{f"a{index}": np.ones(4) for index in range(COUNT)})
    for size, count in (("80 B", 10), ("8 kB", 1000), ("100 kB", 12_500), ("1 MB", 125_000)):
        yield f"array that Python reads, {size}", 1, written("x * float(np.mean(a))", a=np.ones(count))
    yield "array whose length Python reads", COUNT, reading("len(aINDEX)", **{f"a{index}": np.ones(4) for index in range(COUNT)})
    yield "names of all attributes", 1, written("x * len(vars(a))", a=argparse.Namespace(rate=2.0))
    yield "builtin that is called", 4, written("x * (float(2) + int(2) + abs(-2) + len((2,)))")
    yield "library that is named", 1, written("x * 2.0 if x.ndim else scipy.special.gamma(x)", scipy=scipy)


def nanoseconds(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least time of each call, in rounds in turn."""
    best = [float("inf")] * len(calls)
    for _ in range(rounds):
        for index, call in enumerate(calls):
            begin = time.perf_counter_ns()
            for _ in itertools.repeat(None, CALLS_PER_ROUND):
                call()
            best[index] = min(best[index], (time.perf_counter_ns() - begin) / CALLS_PER_ROUND)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=40, help="rounds; minima count")
    rounds = parser.parse_args().rounds
    rows, x = list(cases()), np.ones(4)
    compiled = [aj.compile(function) for function in (lambda x: x * 2.0, *(function for _, _, function in rows))]
    for function in compiled:
        for _ in range(3):
            function(x)
    checks = [function.program(function.fun, (x,), {}).trace.guards.current for function in compiled]
    columns = []
    for calls in ([partial(function, x) for function in compiled], checks):
        nothing, *each = nanoseconds(calls, rounds)
        print(f"the function that reads nothing: {nothing:.0f} ns")
        columns.append([(found - nothing) / count for found, (_, count, _) in zip(each, rows, strict=True)])
    print(f"\n| {'read':<32} | {'native':>9} | by Python |\n|---|---|---|")
    for (name, _, _), native, python in zip(rows, *columns, strict=True):
        print(f"| {name:<32} | {native:>6.0f} ns | {python:>6.0f} ns |")


if __name__ == "__main__":
    main()
