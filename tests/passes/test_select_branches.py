"""Branches of few ops on scalars that become `select`, and those that stay branches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.passes.simplify.select_branches import MAX_OPS


def steps(count: int, one: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def run(x: Any) -> Any:
        for _ in range(count):
            x = one(x)
        return x
    return run


TABLE = np.arange(4.0)
STAY = {
    "long": (steps(MAX_OPS + 1, lambda x: x * 0.5), lambda x: x),
    "sines": (steps(3, np.sin), lambda x: x),
    "arrays": (lambda x: x + np.ones(2), lambda x: x * np.ones(2)),
    "index": (lambda x: aj.numpy.take(TABLE, x.astype(int)), lambda x: x),
    "loop": (lambda x: aj.while_loop(lambda y: y < 9, lambda y: y * 2, x), lambda x: x),
    "sum": (lambda x: np.sum(x * np.ones(3)), lambda x: x)}
GO = {"short": (steps(MAX_OPS // 2, lambda x: x * 0.5), lambda x: x), "sine": (np.sin, lambda x: -x), "root": (np.sqrt, lambda x: 0.0 * x),
      "element": (lambda x: TABLE[2] * x, lambda x: x)}


def program(branches: tuple[Callable[[Any], Any], Callable[[Any], Any]]) -> Callable[[Any], Any]:
    return lambda x: aj.cond(x > 0.5, *branches, x)


@pytest.mark.parametrize("name", [*STAY, *GO])
def test_which_branches_stay(name: str) -> None:
    compiled = aj.compile(program({**STAY, **GO}[name]), backend="interpret")
    assert (" cond " in compiled.ir("adjoint", 2.0)) == (name in STAY)


@pytest.mark.share(4)
@pytest.mark.parametrize("backend", ["interpret", "native"])
@pytest.mark.parametrize("name", GO)
def test_values_and_derivatives_are_those_of_branches(name: str, backend: str) -> None:
    for derived in (lambda f: f, aj.grad, lambda f: aj.grad(aj.grad(f)), lambda f: aj.jacfwd(f)):
        function, *branches = [aj.compile(derived(f), backend=backend) for f in (program(GO[name]), *GO[name])]
        for x in (2.0, 0.25, 0.0, -0.0, -3.0, np.inf, np.nan):
            np.testing.assert_array_equal(function(x), branches[0 if x > 0.5 else 1](x))


def test_nested_branches_become_selects_from_the_inside() -> None:
    def sign(x: Any) -> Any:
        return aj.cond(x > 0, lambda: 1.0, lambda: aj.cond(x < 0, lambda: -1.0, lambda: 0.0))

    compiled = aj.compile(sign, backend="interpret")
    assert [compiled(x) for x in (3.0, -2.0, 0.0)] == [1.0, -1.0, 0.0]
    assert " cond " not in compiled.ir("adjoint", 1.0)


def test_branches_in_rolled_loops_are_found() -> None:
    """An unrolled loop of branches rolls once they are selects."""
    def walk(x: Any, pushes: Any) -> Any:
        for push in pushes:
            x = aj.cond(x > 1, lambda x, p: x * 0.5 + p, lambda x, p: x * 1.5 - p, x, push)
        return x

    pushes = np.linspace(0, 1, 100)
    compiled = aj.compile(aj.value_and_grad(walk), roll_loops=True, backend="interpret")
    assert "scan" in compiled.ir("adjoint", 0.7, pushes)
    assert compiled.ir("adjoint", 0.7, pushes).count(" cond ") == 0


@pytest.mark.parametrize("backend", ["interpret", "native"])
def test_what_was_not_taken_neither_traps_nor_warns(backend: str, recwarn: pytest.WarningsRecorder) -> None:
    def quotient(n: Any, k: Any) -> Any:
        return aj.cond(k != 0, lambda: n // k + n % k, lambda: n * 0)

    compiled = aj.compile(quotient, backend=backend)
    assert [compiled(np.int64(n), np.int64(k)) for n, k in ((7, 2), (7, 0), (-7, 3), (-2 ** 63, 0))] == [4, 0, -1, 0]
    logarithm = aj.compile(lambda x: aj.cond(x > 0, np.log, lambda x: 0.0 * x, x), backend=backend)
    assert [logarithm(x) for x in (-1.0, 0.0, 1.0)] == [0, 0, 0]
    assert not recwarn.list
