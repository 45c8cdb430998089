"""What a traced function reads is compared at the next call: holders of numbers, by ways to reach them, by ways to change them, by kinds
of functions. Every cell is right: none goes on with what was there when the function was traced.
"""

from __future__ import annotations

import functools
import math
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.guarded_holders import HOLDERS, Data, Holder, Plain

import adjit as aj
from adjit import nn

here: Any = None
"""The global by which cells reach their holder."""

Cell = tuple[Callable[[], Any], Callable[[Any], None]]
"""Code that gets the holder as a traced function does, and what puts another one in its place."""


def by_closure(holder: Any) -> Cell:
    def put(other: Any) -> None:
        nonlocal holder
        holder = other
    return lambda: holder, put


def by_global(holder: Any) -> Cell:
    def put(other: Any) -> None:
        global here
        here = other
    put(holder)
    return lambda: here, put


def by_attribute(holder: Any) -> Cell:
    owner = Plain()
    owner.held = holder     # type: ignore[attr-defined]
    return lambda: owner.held, lambda other: setattr(owner, "held", other)     # type: ignore[attr-defined]


def by_dataclass(holder: Any) -> Cell:
    owner = Data(holder)
    return lambda: owner.rate, lambda other: setattr(owner, "rate", other)


def by_namespace(holder: Any) -> Cell:
    owner = types.SimpleNamespace(held=holder)
    return lambda: owner.held, lambda other: setattr(owner, "held", other)


def by_list(holder: Any) -> Cell:
    owner = [holder]
    return lambda: owner[0], lambda other: owner.__setitem__(0, other)


def by_dict(holder: Any) -> Cell:
    owner = {"held": holder}
    return lambda: owner["held"], lambda other: owner.__setitem__("held", other)


def by_default(holder: Any) -> Cell:
    def get(held: Any = holder) -> Any:
        return held
    return get, lambda other: setattr(get, "__defaults__", (other,))


def by_partial(holder: Any) -> Cell:
    owner = types.SimpleNamespace(get=functools.partial(lambda held: held, holder))
    return lambda: owner.get(), lambda other: setattr(owner, "get", functools.partial(lambda held: held, other))


def by_helper(holder: Any) -> Cell:
    get, put = by_closure(holder)

    def helper() -> Any:
        def inner() -> Any:
            return get()
        return inner()
    return helper, put


WAYS = [by_closure, by_global, by_attribute, by_dataclass, by_namespace, by_list, by_dict, by_default, by_partial, by_helper]


class Net(nn.Module):
    """A module that gets a number by `get`, and holds it where `held` says."""

    def __init__(self, get: Callable[[], Any], read: Callable[[Any], Any]):
        super().__init__()
        self.weight = nn.Parameter(aj.tensor([2.0, 3.0], dtype="float64"))
        self.get, self.read = get, read

    def forward(self, x: Any) -> Any:
        return (x * self.weight * self.read(self.get())).sum()


class Method:
    """An object with a compiled method."""

    def __init__(self, get: Callable[[], Any], read: Callable[[Any], Any]):
        self.get, self.read = get, read

    @aj.compile
    def compiled(self, x: Any) -> Any:
        return np.sum(x * self.read(self.get()))


X = np.array([1.0, 2.0])


def as_function(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    compiled = aj.compile(lambda x: np.sum(x * read(get())))
    return lambda: float(compiled(X))


def interpreted(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    compiled = aj.compile(lambda x: np.sum(x * read(get())), backend="interpret")
    return lambda: float(compiled(X))


def as_method(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    owner = Method(get, read)
    return lambda: float(owner.compiled(X))


def as_gradient(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    gradient = aj.grad(lambda x: np.sum(x * read(get())))
    return lambda: float(gradient(X).sum()) * 1.5


def as_module(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    net = Net(get, read)
    compiled = aj.compile(net)
    return lambda: float(compiled(aj.tensor(X)).item()) * 3 / 8


def as_argument(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    net = Net(get, read)
    compiled = aj.compile(lambda net, x: net(x))
    return lambda: float(compiled(net, aj.tensor(X)).item()) * 3 / 8


def as_training_step(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    net = Net(get, read)

    @aj.compile
    def step(x: Any) -> Any:
        net.zero_grad()
        loss = net(x)
        loss.backward()
        return loss
    return lambda: float(step(aj.tensor(X)).item()) * 3 / 8


def eagerly(get: Callable[[], Any], read: Callable[[Any], Any]) -> Callable[[], float]:
    return lambda: float((aj.tensor(X) * read(get())).sum().item())


KINDS = [as_function, interpreted, as_method, as_gradient, as_module, as_argument, as_training_step, eagerly]


def changed_within(holder: Holder, held: Any, put: Callable[[Any], None]) -> None:
    holder.change(held, 4.0)


def replaced(holder: Holder, held: Any, put: Callable[[Any], None]) -> None:
    put(holder.make(4.0))


CHANGES = [changed_within, replaced]


def number(value: Any) -> float:
    return value.item() if isinstance(value, aj.Tensor) else value


@pytest.mark.filterwarnings("ignore:.*was traced:RuntimeWarning")
@parametrize_within("make", [float, lambda zero: (np.float32(zero), 1.0)], ids=["number", "tuple"])
@parametrize_within("kind", KINDS, ids=lambda kind: kind.__name__)
def test_the_sign_of_zero_is_seen(make: Any, kind: Any) -> None:
    """0.0 == -0.0, but quotients by them are not equal."""
    get, put = WAYS[KINDS.index(kind)](make(0.0))
    call = kind(get, sign_of)
    for zero, wanted in ((0.0, 3.0), (-0.0, -3.0), (0.0, 3.0)):
        put(make(zero))
        assert [call(), call()] == [wanted, wanted]


def sign_of(number: Any) -> float:
    """1.0 or -1.0; of a tuple, that of its first item."""
    return math.copysign(1.0, number[0] if isinstance(number, tuple) else number)


@pytest.mark.share(4)
@pytest.mark.filterwarnings("ignore:.*was traced:RuntimeWarning")
@parametrize_within("kind", KINDS, ids=lambda kind: kind.__name__)
@parametrize_within("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("name", HOLDERS)
def test_nothing_is_stale(name: str, change: Any, kind: Any, exhaustive: bool) -> None:
    """One function reads a holder of its own in each of the ways; then one after the other is changed, and all others are as they were.
    Half of the kinds of functions have each holder with one of the changes here, in one of the ways, others for the next holder; all kinds,
    changes and ways with `--exhaustive`."""
    turn = KINDS.index(kind) + 3 * list(HOLDERS).index(name) + 5 * CHANGES.index(change)
    if turn % 4 and not exhaustive:
        return
    ways = WAYS if exhaustive else [WAYS[turn // 4 % len(WAYS)]]
    holder = HOLDERS[name]
    held = [holder.make(3.0) for _ in ways]
    cells = [way(one) for way, one in zip(ways, held, strict=True)]
    read_one = holder.read      # alone: what makes and changes holders is no part of the function

    def every() -> Any:
        return [get() for get, _ in cells]

    def read(holders: Any) -> Any:
        return sum(read_one(one) for one in holders)

    call = kind(every, read)

    def check(when: str) -> None:
        expected = 3.0 * number(read(every()))
        assert call() == pytest.approx(expected), when

    for _ in range(4):
        check("before")
    for way, one, (_, put) in zip(ways, held, cells, strict=True):
        change(holder, one, put)
        for _ in range(2):
            check(f"after {way.__name__} was changed")
