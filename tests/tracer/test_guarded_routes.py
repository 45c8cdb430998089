"""Routes by which a traced function reads what is outside of its arguments: what changes there is seen at the next call, as plain Python
sees it."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

_numbers = itertools.count()


class Route(NamedTuple):
    """Text of a user's module: statements before the trace, the number that the traced function reads, and statements that change it."""

    before: str
    read: str
    change: str


BUILTINS = {
    "max": Route("", "max(2.0, 3.0)", "max = min"),
    "sum": Route("", "sum([2.0, 3.0])", "sum = max"),
    "abs": Route("", "abs(-2.0)", "abs = float"),
    "float": Route("", "float(2)", "float = abs; abs = int; float = lambda number: 3.0 * number"),
    "global that shadowed one": Route("max = min", "max(2.0, 3.0)", "del max"),
}

ROUTES = {**BUILTINS}
FUNCTIONS = {
    "compiled": "aj.compile(lambda x: np.sum(x) * READ)",
    "interpreted": "aj.compile(lambda x: np.sum(x) * READ, backend='interpret')",
    "value_and_grad": "aj.value_and_grad(lambda x: np.sum(x) * READ)",
    "with a helper": "aj.compile(lambda x: np.sum(x) * helper())",
    "with a nested function": "aj.compile(outer)",
    "method": "aj.compile(Model().loss)",
}
MODULE = """
import argparse, builtins, importlib, operator, random, sys, types
from argparse import Namespace
from functools import partial
from types import SimpleNamespace
import numpy as np
import adjit as aj

BEFORE

def helper():
    return READ

def outer(x):
    def inner(v):
        return np.sum(v) * READ
    return inner(x)

class Model:
    def loss(self, x):
        return np.sum(x) * READ

def plain(x):
    return np.sum(x) * READ
"""


@pytest.fixture
def module() -> Iterator[ModuleType]:
    """A module of the user, empty at first."""
    made = ModuleType(f"guarded_route_{next(_numbers)}")
    made.__file__ = f"{made.__name__}.py"
    sys.modules[made.__name__] = made
    yield made
    del sys.modules[made.__name__]


def run(module: ModuleType, text: str) -> None:
    exec(compile(text.replace("THIS", module.__name__), f"{module.__name__}.py", "exec"), vars(module))


def answers(found: Any) -> list[Any]:
    """Result of a compiled function as a list: of the value and of the gradient."""
    return [np.asarray(part).tolist() for part in (found if isinstance(found, tuple) else (found,))]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("name", ROUTES)
def test_a_change_is_seen(module: ModuleType, name: str, function: str) -> None:
    route, x = ROUTES[name], np.array([1.0, 2.0])
    run(module, MODULE.replace("BEFORE", route.before).replace("READ", f"({route.read})"))
    run(module, f"compiled = {FUNCTIONS[function].replace('READ', f'({route.read})')}")
    for change in ("", route.change):
        run(module, change)
        for _ in range(3):
            value = float(module.plain(x))
            expected = [value, [value / 3.0] * 2] if function == "value_and_grad" else [value]
            assert answers(module.compiled(x)) == expected, f"after {change!r}"
    if function != "value_and_grad":
        assert module.compiled.cache_info().traces <= 2
