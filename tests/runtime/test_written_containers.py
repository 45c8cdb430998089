"""Lists, dicts and dataclasses that are passed to a compiled function, which changes them: they are as Python leaves them."""

from __future__ import annotations

import copy
import dataclasses
from collections import OrderedDict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import for_each

import adjit as aj
from adjit.errors import ArgumentError, ExportError

X, Y = np.array([1.0, 2.0]), np.array([0.5, -3.0])


@dataclasses.dataclass
class State:
    mean: Any
    rate: float = 0.5
    name: str = "first"


@dataclasses.dataclass
class Settings:
    age: int


def rebound(p: Any, x: Any) -> Any:
    p["w"] = p["w"] - 0.1 * x
    return p


def each_key(p: Any, x: Any) -> None:
    for key in p:
        p[key] = p[key] * x


def new_keys(p: Any, x: Any) -> Any:
    p["new"], p["text"], p["flag"] = x * 2, "new", True
    return x


def swapped(p: Any) -> None:
    p["a"], p["b"] = p["b"], p["a"]


def appended(p: Any) -> Any:
    p["history"].append(p["w"].sum())
    p["w"] = p["w"] + 1
    return p["history"], p


def taken_out(items: Any, x: Any) -> int:
    items.pop()
    items.insert(0, x + items[0])
    return len(items)


def of_a_dataclass(state: Any, x: Any) -> Any:
    state.mean = state.rate * state.mean + x
    state.name, state.last = "second", x * 3
    return state.mean.sum()


def reordered(p: Any) -> None:
    value = p.pop("w")
    p["w"] = value * 2


def containers_in_it(p: Any) -> Any:
    p["sub"] = {"u": p["w"] * 2, "v": p["w"]}
    p["list"][0]["deep"] = p["w"] - 1
    return p["sub"]


def moved(pair: Any) -> None:
    pair[0]["a"], pair[1][0] = pair[1], pair[0]["a"]


def by_a_branch(p: Any, x: Any) -> Any:
    if x[0] > 0.7:
        p["w"] = p["w"] * 2
    else:
        p["w"], p["negative"] = p["w"] - 1, x
    return p["w"] + 1


def by_a_loop(p: Any) -> None:
    while p["w"][0] < 40:
        p["w"] = p["w"] * 2


def written_and_rebound(p: Any, x: Any) -> Any:
    p["w"][:] = x
    p["w"] = p["w"] * 2
    p["w"][0] = 5
    return p["w"]


def ordered(p: Any) -> None:
    p["w"] = p["w"] * 2
    p.move_to_end("w")


def in_a_deque(last: Any, x: Any) -> Any:
    last.append(x * last[0])
    last.popleft()
    return sum(last)


def keyword(x: Any, *, p: Any) -> Any:
    p["w"] = x * p["w"]
    return x


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = [
    (rebound, ({"w": X, "b": Y}, Y), {}), (each_key, ({"w": X, "b": 2.0}, Y), {}), (new_keys, ({"w": X}, Y), {}),
    (swapped, ({"a": X, "b": Y},), {}), (appended, ({"w": X, "history": []},), {}), (taken_out, ([X, Y, X], Y), {}),
    (of_a_dataclass, (State(X), Y), {}), (reordered, ({"w": X, "b": Y},), {}), (containers_in_it, ({"w": X, "list": [{}]},), {}),
    (moved, (({"a": X}, [Y]),), {}), (by_a_branch, ({"w": X}, X), {}), (by_a_branch, ({"w": X}, Y), {}), (by_a_loop, ({"w": X},), {}),
    (written_and_rebound, ({"w": X}, Y), {}), (ordered, (OrderedDict(w=X, b=Y),), {}), (in_a_deque, (deque([X, Y, X], 3), Y), {}),
    (keyword, (X,), {"p": {"w": Y}}),
]


def plain(value: Any) -> str:
    """Text of a value, with NumPy's scalars as Python's."""
    return repr(value).replace("np.float64(", "(")


def same_objects(value: Any, other: Any, known: dict[int, int]) -> bool:
    """True if two values are of the same classes, and one object wherever the other one is."""
    if isinstance(value, (dict, list, deque, tuple, State)):
        parts, others = ([*(each.values() if isinstance(each, dict) else vars(each).values() if isinstance(each, State) else each)]
                         for each in (value, other))
        return type(value) is type(other) and known.setdefault(id(value), id(other)) == id(other) and all(
            same_objects(part, mine, known) for part, mine in zip(parts, others, strict=True))
    return not isinstance(value, np.ndarray) or known.setdefault(id(value), id(other)) == id(other)


def test_containers_are_as_python_leaves_them() -> None:
    def check(function: Callable[..., Any], args: Any, kwargs: Any) -> None:
        compiled = aj.compile(function)
        (mine, named), (wanted, names) = copy.deepcopy((args, kwargs)), copy.deepcopy((args, kwargs))
        for _ in range(1 if function is moved else 4):      # one list is in two places then
            got, expected = compiled(*mine, **named), function(*wanted, **names)
            assert plain((got, mine, named)).replace("((", "(") == plain((expected, wanted, names)).replace("((", "(")
            assert same_objects((wanted, names), (mine, named), {})

    for_each({f"{function.__name__} {number}": case for number, case in enumerate(CASES) for function in case[:1]}, check)


def test_one_program_serves_calls_of_one_structure() -> None:
    compiled = aj.compile(rebound)
    p = {"w": X.copy()}
    for _ in range(5):
        assert compiled(p, X) is p
    assert compiled({"w": Y}, X)["w"].tolist() == (Y - 0.1 * X).tolist()
    assert compiled.cache_info().traces == 1


def test_a_call_that_fails_changes_nothing() -> None:
    def element(p: Any, i: Any) -> Any:
        p["w"] = p["w"] * 2
        return p["w"][i]

    compiled = aj.compile(element)
    p = {"w": X}
    assert compiled(p, np.int64(1)) == 4.0
    with pytest.raises(IndexError):
        compiled(p, np.int64(7))
    assert p["w"].tolist() == [2.0, 4.0]


def test_a_branch_of_each_call() -> None:
    compiled = aj.compile(by_a_branch)
    mine, wanted = {"w": X}, {"w": X}
    for x in (X, Y, X, Y, Y, X):
        assert compiled(mine, x).tolist() == by_a_branch(wanted, x).tolist()
        assert plain(mine) == plain(wanted)


def test_donated_containers_and_tensors() -> None:
    def step(p: Any, g: Any) -> Any:
        p["w"] = p["w"] - g
        return p

    donating, p = aj.compile(step, donate="p"), {"w": np.zeros(1000)}
    for _ in range(3):
        p = donating(p, np.ones(1000))
    assert set(p["w"].tolist()) == {-3.0}
    held = {"w": aj.ones(2, requires_grad=True)}
    aj.compile(each_key)(held, aj.tensor([2.0, 3.0]))
    held["w"].sum().backward()
    assert held["w"].tolist() == [2.0, 3.0]


def test_derivatives_change_copies() -> None:
    def loss(p: Any) -> Any:
        p["w"] = p["w"] * 3
        return np.sum(p["w"] ** 2)

    p = {"w": X}
    for gradient in (aj.grad(loss), aj.compile(aj.grad(loss))):
        assert gradient(p)["w"].tolist() == (18 * X).tolist()
        assert p["w"] is X


GLOBAL = {"w": X}


def read_from_outside(p: Any) -> Any:
    p["w"] = p["w"] * 2
    return GLOBAL["w"] + p["w"]


def test_what_is_refused(tmp_path: Path) -> None:
    def two(p: Any, q: Any) -> Any:
        p["w"] = p["w"] + q["w"]
        return p["w"]

    p = {"w": X}
    compiled = aj.compile(two)
    assert compiled({"w": X}, {"w": Y}).tolist() == (X + Y).tolist()
    with pytest.raises(ArgumentError, match=r"p is a dict that the function changes, and is passed twice"):
        compiled(p, p)
    with pytest.raises(ArgumentError, match=r"is read as GLOBAL\['w'\], too"):
        aj.compile(read_from_outside)(GLOBAL)
    with pytest.raises(ExportError, match="stores a value outside, in p, which is passed to it"):
        aj.compile(rebound).export(tmp_path / "step.adjit", {"w": X}, Y)
    assert p["w"] is X
    assert GLOBAL["w"] is X


def test_integers_that_change() -> None:
    def counted(p: Any, settings: Settings) -> Any:
        p["n"] += 1
        settings.age += 1
        return p["w"] * p["n"] + settings.age

    (p, settings), (q, others) = [({"n": 1, "w": X}, Settings(3)) for _ in range(2)]
    compiled = aj.compile(counted, backend="interpret")
    for _ in range(4):
        assert compiled(p, settings).tolist() == counted(q, others).tolist()
        assert (p["n"], settings) == (q["n"], others)
    assert type(p["n"]) is type(settings.age) is int

    by_number = aj.compile(lambda p: counted(p, Settings(3)), backend="interpret")
    for _ in range(6):
        by_number(p)
    assert by_number.cache_info().traces == 3


def test_a_differentiated_function_puts_values_into_an_argument() -> None:
    def f(p: Any, x: Any) -> Any:
        def loss(w: Any) -> Any:
            p["aux"] = np.sum(w)
            return np.sum(w * x)
        return aj.grad(loss)(p["w"])

    compiled = aj.compile(f)
    for k in range(1, 4):
        p = {"w": X * k}
        assert compiled(p, Y).tolist() == Y.tolist()
        assert p["aux"] == np.sum(X * k)
