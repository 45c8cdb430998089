"""A variable that is a float of Python's on one way and of NumPy's on another: ways meet, and each call has the class that Python gives."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.numpy_comparison import check_gradients

import adjit as aj
from adjit.runtime.traces import trace_ways

CALLS = [np.array(signs) * (1.5, 0.25, 0.5) for signs in ((1, 1, 1), (-1, 1, 1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, -1))]
SINGLE = np.arange(3, dtype=np.float32) / 3
KEPT: list[Any] = []


def is_of_numpy(e):
    return isinstance(e, np.floating)


class Walker:
    def __init__(self) -> None:
        self.energy = 2.0


USES: dict[str, Callable[[Any, Any], Any]] = {
    "itself": lambda e, x: e,
    "negative": lambda e, x: (-e, +e, abs(e)),
    "sums": lambda e, x: (e + 1, 2.5 - e, e * True, e - x[1], x[1] * e, e + x, x / 2 - e),
    "quotients": lambda e, x: (e / 4, 1 / e, e / x[1], x[1] / e, x / e),
    "by zero": lambda e, x: 1.0 / (e - e),
    "zero by": lambda e, x: (e - e) / 3,
    "power": lambda e, x: (e ** 2, 2 ** e, e ** 0.5),
    "overflow": lambda e, x: (e * 1e200) ** 2,
    "floor": lambda e, x: (e // 1, e % 1, divmod(e, 1)),
    "single": lambda e, x: e * SINGLE,
    "compared": lambda e, x: (e > 2.1) + 0,
    "comparison": lambda e, x: e > 2.1,
    "decided": lambda e, x: e if e > 2.1 else x[1],
    "not": lambda e, x: not e,
    "largest": lambda e, x: x * max(e, x[1], 2.1),
    "class": lambda e, x: type(e).__name__,
    "instance": lambda e, x: isinstance(e, np.float64),
    "in a function": lambda e, x: is_of_numpy(e),
    "attribute": lambda e, x: e.shape,
    "real": lambda e, x: e.real,
    "method": lambda e, x: e.item(),
    "asked": lambda e, x: hasattr(e, "dtype"),
    "text": lambda e, x: f"{e:.3f} {e}",
    "repr": lambda e, x: repr(e),
    "round": lambda e, x: round(e, 1),
    "item": lambda e, x: e[()],
    "float": lambda e, x: float(e),
    "ufuncs": lambda e, x: (np.exp(e), np.maximum(e, 2.1), np.add(e, x), np.multiply(x, e)),
    "functions": lambda e, x: (np.sum(e), np.where(x > 0, e, 1.0), np.real(e)),
    "list": lambda e, x: [e, [e, x[0]]],
    "mean": lambda e, x: np.mean([e, x[0], 1.0]),
    "array": lambda e, x: np.array([e, x[0]]),
    "array of singles": lambda e, x: np.array([e, np.float32(0.5)]),
    "sum": lambda e, x: sum([e, e]),
    "key": lambda e, x: {e: 1}[e],
    "among": lambda e, x: e in (2.0, 3.0),
    "kept": lambda e, x: KEPT.append(e),
    "outer": lambda e, x: (lambda: e * 3)(),
    "range": lambda e, x: range(int(e)),
    "integers": lambda e, x: (e + np.arange(3), e * np.int32(3)),
}


def outcome(function: Callable[..., Any], x: np.ndarray) -> tuple[Any, ...]:
    """What a call gives, with the classes of it, and what it keeps."""
    KEPT.clear()
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = function(x.copy())
        except Exception as error:
            return (type(error),)
    return described([result, *KEPT])


def described(x: Any) -> Any:
    if isinstance(x, (list, tuple)):
        return type(x), [described(item) for item in x]
    return type(x), getattr(x, "dtype", None), np.asarray(x).tobytes() if isinstance(x, (np.ndarray, float, np.generic)) else x


@pytest.mark.parametrize("name", USES)
def test_classes_are_those_of_python(name):
    use = USES[name]

    def changed(x):
        e = 2.0
        if x[0] > 0:
            e += x[1]
        if x[2] > 0:
            e = e * 1.5
        if x[1] > 0:
            e = e + 0.5
        return use(e, x)

    compiled = aj.compile(changed, backend="interpret")
    for x in (*CALLS, *CALLS):
        assert outcome(compiled, x) == outcome(changed, x)


def ising(x):
    e, accepted = -72.0, 0
    for k in range(1, len(x)):
        change = x[k] - 0.5 * x[k - 1]
        if change < 0 or x[k] < 0.3:
            e += change
            accepted += 1
    return e / 36, accepted


def of_an_object(x):
    walker, lowest = Walker(), 5.0
    for k in range(len(x)):
        if x[k] > 0:
            walker.energy = walker.energy - x[k]
        if walker.energy < lowest:
            lowest = walker.energy
    return walker.energy, lowest


def in_a_cell(x):
    total = 0.0

    def add(value):
        nonlocal total
        total += value

    for k in range(len(x)):
        if x[k] > 0:
            add(x[k])
        if x[k] * total > 1:
            add(0.25)
    return total


@pytest.fixture
def traces(monkeypatch) -> list[str]:
    """An item for each trace."""
    made, own = [], trace_ways.trace_with_tensors

    def trace(fun: Callable[..., Any], *args: Any) -> Any:
        made.append(fun.__name__)
        return own(fun, *args)

    monkeypatch.setattr(trace_ways, "trace_with_tensors", trace)
    return made


@pytest.mark.parametrize(("function", "most"), [(ising, 13), (of_an_object, 10), (in_a_cell, 7)])
def test_ways_meet(function, most, traces):
    compiled, draw = aj.compile(function, backend="interpret"), np.random.default_rng(0)
    for _ in range(20):
        x = draw.standard_normal(12)
        assert outcome(compiled, x) == outcome(function, x)
    assert len(traces) <= most


def test_gradients():
    draw = np.random.default_rng(1)
    check_gradients(lambda x: ising(x)[0], [(draw.standard_normal(8),) for _ in range(4)], (0,), "interpret")
