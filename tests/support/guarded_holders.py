"""Objects that hold a number in each of the many ways that Python has, for the matrix of `test_guards.py`.

A `Holder` makes an object that holds a number, reads it, and changes it without making another object. `read` is code that a traced
function runs, so it is written as users write it.
"""

from __future__ import annotations

import argparse
import array
import collections
import configparser
import contextvars
import ctypes
import dataclasses
import enum
import functools
import operator
import os
import threading
import types
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import adjit as aj


class Holder(NamedTuple):
    """`make(value)`, `read(object)`, `change(object, value)`."""

    make: Callable[[float], Any]
    read: Callable[[Any], Any]
    change: Callable[[Any, float], Any]


class Plain:
    rate = 0.0

    def __init__(self, rate: float = 0.0):
        self.rate = rate


class OfClass:
    """Class that is made anew for each cell by `type`."""


@dataclasses.dataclass
class Data:
    rate: float = 7.0


@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float = 7.0


@dataclasses.dataclass(slots=True)
class SlottedData:
    rate: float = 7.0


class Slotted:
    __slots__ = ("__weakref__", "other", "rate")

    def __init__(self, rate: float):
        self.rate = rate


class WithProperty:
    def __init__(self, rate: float):
        self._rate = rate

    @property
    def rate(self) -> float:
        return self._rate


class Items:
    def __init__(self, rate: float):
        self.rows = [rate]

    def __getitem__(self, index: int) -> float:
        return self.rows[index]


class Iterated(Items):
    def __iter__(self) -> Any:
        return iter(self.rows)


class AnyAttribute:
    def __init__(self, rate: float):
        self.__dict__["table"] = {"rate": rate}

    def __getattr__(self, name: str) -> Any:
        return self.__dict__["table"][name]


class Factor:
    def __init__(self, rate: float):
        self.rate = rate

    def __rmul__(self, other: Any) -> Any:
        return other * self.rate


class Called(Plain):
    def __call__(self) -> float:
        return self.rate


class Inner:
    def __init__(self, rate: float):
        self.inner = Plain(rate)


class AttributeDict(dict):
    def __getattr__(self, name: str) -> Any:
        return self[name]


class OwnDict(collections.UserDict):
    pass


class Kind(enum.Enum):
    RATE = 1


class Meta(type):
    rate = 0.0


def _deep(rate: float) -> Any:
    found: Any = Plain(rate)
    for _ in range(13):
        outer = types.SimpleNamespace()
        outer.inner = found
        found = outer
    return found


def _deepest(holder: Any) -> Any:
    while not isinstance(holder, Plain):
        holder = holder.inner
    return holder


def _nested_list(rate: float) -> list[Any]:
    found: list[Any] = [rate]
    for _ in range(13):
        found = [found]
    return found


def _innermost(holder: Any) -> Any:
    while isinstance(holder[0], list):
        holder = holder[0]
    return holder


def _function(rate: float) -> Any:
    def function() -> float:
        return function.rate       # type: ignore[attr-defined]
    function.rate = rate            # type: ignore[attr-defined]
    return function


def _with_cell(rate: float) -> Any:
    def function() -> float:
        return rate

    def change(value: float) -> None:
        nonlocal rate
        rate = value
    function.change = change        # type: ignore[attr-defined]
    return function


def _with_default(rate: float) -> Any:
    def function(table: list[float] = [rate], *, scale: float = 1.0) -> float:     # noqa: B006
        return table[0] * scale
    return function


def _module(rate: float) -> Any:
    made = types.ModuleType("settings_of_a_user")
    made.rate = rate       # type: ignore[attr-defined]
    return made


def _classed(rate: float) -> Any:
    return type("Classed", (OfClass,), {"rate": rate, "__module__": __name__, "get": classmethod(lambda cls: cls.rate)})


def _config(rate: float) -> Any:
    made = configparser.ConfigParser()
    made["model"] = {"rate": str(rate)}
    return made


def _context(rate: float) -> Any:
    made: Any = contextvars.ContextVar("rate")
    made.set(rate)
    return made


def _thread_local(rate: float) -> Any:
    made = threading.local()
    made.rate = rate
    return made


class Environment:
    """Reader of `os.environ`."""

    def rate(self) -> float:
        return float(os.environ["ADJITTEST_RATE"])


def _environment(rate: float) -> Any:
    os.environ["ADJITTEST_RATE"] = str(rate)
    return Environment()


def _referenced(rate: float) -> Any:
    target = Plain(rate)
    return types.SimpleNamespace(reference=weakref.ref(target), keep=target)


def _objects(rate: float) -> np.ndarray:
    made = np.empty(2, object)
    made[:] = [rate, "x"]
    return made


def _full(size: int, rate: float, dtype: Any = float) -> np.ndarray:
    made = np.zeros(size, dtype)
    made[size // 2] = rate
    return made


def _set_item(key: Any) -> Callable[[Any, float], None]:
    return lambda holder, value: operator.setitem(holder, key, value)


def _set_attribute(holder: Any, value: float) -> None:
    holder.rate = value


def _set_attribute_of_frozen(holder: Any, value: float) -> None:
    object.__setattr__(holder, "rate", value)


def _replace_defaults(holder: Any, value: float) -> None:
    holder.__defaults__ = ([value],)


def _scale_by_keyword(holder: Any, value: float) -> None:
    holder.__kwdefaults__ = {"scale": value / holder.__defaults__[0][0]}


def _replace_code(holder: Any, value: float) -> None:
    holder.__code__ = eval(f"lambda: {value!r}").__code__


def _monkeypatch(holder: Any, value: float) -> None:
    type(holder).rate_of = lambda self: value


def _patched(rate: float) -> Any:
    return type("Patched", (OfClass,), {"rate_of": lambda self: rate, "__module__": __name__})()


def _members(holder: Any, value: float) -> None:
    holder.clear()
    holder.add(value)


def _replace_content(holder: Any, value: float) -> None:
    holder[:] = [value] * len(holder)


def _stored(holder: Any) -> float:
    out = np.zeros(5)
    out[:] = holder
    return float(out[2])


def _matched(holder: Any) -> float:
    match holder:
        case Data(rate):
            return rate
    return 0.0


def _tried(holder: Any) -> float:
    try:
        return holder.rate
    except AttributeError:
        return 3.0


def _missed(holder: Any) -> float:
    try:
        return holder["rate"]
    except KeyError:
        return 3.0


def _makes(rate: float) -> Any:
    source = [rate]

    class Made:
        def __init__(self) -> None:
            self.rate = source[0]

    Made.source = source       # type: ignore[attr-defined]
    return Made


def _turn_round(holder: Any, value: float) -> None:
    holder["a"] = holder.pop("a")


def _with_property(rate: float) -> Any:
    return type("WithProperty", (OfClass,), {"rate": property(lambda self: rate), "__module__": __name__})()


def _bare(rate: float) -> Any:
    return Plain.__new__(Inner)

HOLDERS: dict[str, Holder] = {
    "attribute": Holder(Plain, lambda h: h.rate, _set_attribute),
    "dataclass": Holder(Data, lambda h: h.rate, _set_attribute),
    "frozen dataclass": Holder(Frozen, lambda h: h.rate, _set_attribute_of_frozen),
    "dataclass with slots": Holder(SlottedData, lambda h: h.rate, _set_attribute),
    "slots": Holder(Slotted, lambda h: h.rate, _set_attribute),
    "property": Holder(WithProperty, lambda h: h.rate, lambda h, v: setattr(h, "_rate", v)),
    "Namespace": Holder(lambda v: argparse.Namespace(rate=v), lambda h: h.rate, _set_attribute),
    "SimpleNamespace": Holder(lambda v: types.SimpleNamespace(rate=v), lambda h: h.rate, _set_attribute),
    "object in an object": Holder(Inner, lambda h: h.inner.rate, lambda h, v: setattr(h.inner, "rate", v)),
    "object in an object, replaced": Holder(Inner, lambda h: h.inner.rate, lambda h, v: setattr(h, "inner", Plain(v))),
    "14 objects deep": Holder(_deep, lambda h: _deepest(h).rate, lambda h, v: setattr(_deepest(h), "rate", v)),
    "14 lists deep": Holder(_nested_list, lambda h: _innermost(h)[0], lambda h, v: _set_item(0)(_innermost(h), v)),
    "attribute of a class": Holder(_classed, lambda h: h.rate, _set_attribute),
    "class method": Holder(_classed, lambda h: h.get(), _set_attribute),
    "attribute of a metaclass": Holder(
        lambda v: types.new_class("C", (), {"metaclass": type("M", (Meta,), {"rate": v, "__module__": __name__})}),
        lambda h: h.rate, lambda h, v: setattr(type(h), "rate", v)),
    "method replaced": Holder(_patched, lambda h: h.rate_of(), _monkeypatch),
    "dict": Holder(lambda v: {"rate": v}, lambda h: h["rate"], _set_item("rate")),
    "dict by get": Holder(lambda v: {"rate": v}, lambda h: h.get("rate", 0.0), _set_item("rate")),
    "dict, all values": Holder(lambda v: {"a": v}, lambda h: sum(h.values()), _set_item("b")),
    "dict by number": Holder(lambda v: {0.5: v}, lambda h: h[0.5], _set_item(0.5)),
    "dict by None": Holder(lambda v: {None: v}, lambda h: h[None], _set_item(None)),
    "dict by enum": Holder(lambda v: {Kind.RATE: v}, lambda h: h[Kind.RATE], _set_item(Kind.RATE)),
    "dict by tuple": Holder(lambda v: {("a", 1): v}, lambda h: h["a", 1], _set_item(("a", 1))),
    "dict of 2000": Holder(lambda v: dict.fromkeys(range(2000), v), lambda h: h[1234], _set_item(1234)),
    "dict in a dict": Holder(lambda v: {"a": {"b": v}}, lambda h: h["a"]["b"], lambda h, v: _set_item("b")(h["a"], v)),
    "AttributeDict": Holder(lambda v: AttributeDict(rate=v), lambda h: h.rate, _set_item("rate")),
    "defaultdict": Holder(lambda v: collections.defaultdict(float, rate=v), lambda h: h["rate"], _set_item("rate")),
    "OrderedDict": Holder(lambda v: collections.OrderedDict(rate=v), lambda h: h["rate"], _set_item("rate")),
    "Counter": Holder(lambda v: collections.Counter(rate=v), lambda h: h["rate"], _set_item("rate")),
    "UserDict": Holder(lambda v: collections.UserDict(rate=v), lambda h: h["rate"], _set_item("rate")),
    "subclass of UserDict": Holder(lambda v: OwnDict(rate=v), lambda h: h["rate"], _set_item("rate")),
    "UserList": Holder(lambda v: collections.UserList([v]), lambda h: h[0], _set_item(0)),
    "ChainMap": Holder(lambda v: collections.ChainMap({}, {"rate": v}), lambda h: h["rate"], _set_item("rate")),
    "proxy": Holder(lambda v: types.SimpleNamespace(proxy=types.MappingProxyType(t := {"rate": v}), table=t), lambda h: h.proxy["rate"],
                    lambda h, v: _set_item("rate")(h.table, v)),
    "list": Holder(lambda v: [v, 1.0], lambda h: h[0], _set_item(0)),
    "list, its length": Holder(lambda v: [1.0] * int(v), len, lambda h, v: h.append(1.0)),
    "list of 2000": Holder(lambda v: [v] * 2000, lambda h: h[1234], _set_item(1234)),
    "tuple in a list": Holder(lambda v: [(v, 1)], lambda h: h[0][0], lambda h, v: _set_item(0)(h, (v, 1))),
    "objects in a list": Holder(lambda v: [Data(v)], lambda h: h[0].rate, lambda h, v: _set_attribute(h[0], v)),
    "deque": Holder(lambda v: collections.deque([v, 1.0]), lambda h: h[0], _set_item(0)),
    "set": Holder(lambda v: {v}, sum, _members),
    "array, one number": Holder(lambda v: _full(5, v), lambda h: float(h[2]), _set_item(2)),
    "array, its mean": Holder(lambda v: _full(5, v), lambda h: float(np.mean(h)), _set_item(1)),
    "array, a method": Holder(lambda v: _full(5, v), lambda h: float(h.max()), _set_item(2)),
    "large array": Holder(lambda v: _full(100_000, v), lambda h: float(np.sum(h[49_990:50_010])), _set_item(50_001)),
    "array of float32, 2-d": Holder(lambda v: _full(6, v, np.float32).reshape(2, 3).T, lambda h: h.item(0, 1), _set_item((0, 1))),
    "strided array": Holder(lambda v: _full(9, v)[::2], lambda h: h.tolist()[2], _set_item(2)),
    "view of an array": Holder(lambda v: types.SimpleNamespace(of=(a := _full(5, v)), view=a[1:]), lambda h: float(h.view[1]),
                               lambda h, v: _set_item(2)(h.of, v)),
    "array by np.asarray": Holder(lambda v: _full(5, v), lambda h: float(np.asarray(h, float)[2]), _set_item(2)),
    "array by np.array": Holder(lambda v: _full(5, v), lambda h: float(np.array([h, h])[1, 2]), _set_item(2)),
    "array, a loop": Holder(lambda v: _full(5, v), lambda h: sum(float(x) for x in h), _set_item(3)),
    "array, a decision": Holder(lambda v: _full(5, v), lambda h: 2.0 if h[2] > 3.5 else 3.0, _set_item(2)),
    "array, a buffer": Holder(lambda v: _full(5, v), lambda h: memoryview(h)[2], _set_item(2)),
    "array of objects": Holder(_objects, lambda h: h[0], _set_item(0)),
    "array.array": Holder(lambda v: array.array("d", [v]), lambda h: h[0], _set_item(0)),
    "bytearray": Holder(lambda v: bytearray([int(v)]), lambda h: h[0], lambda h, v: _set_item(0)(h, int(v))),
    "memoryview": Holder(lambda v: memoryview(bytearray([int(v)])), lambda h: h[0], lambda h, v: _set_item(0)(h, int(v))),
    "ctypes": Holder(ctypes.c_double, lambda h: h.value, lambda h, v: setattr(h, "value", v)),
    "ctypes array": Holder(lambda v: (ctypes.c_double * 2)(v), lambda h: h[0], _set_item(0)),
    "ConfigParser": Holder(_config, lambda h: h.getfloat("model", "rate"), lambda h, v: h.set("model", "rate", str(v))),
    "ContextVar": Holder(_context, lambda h: h.get(), lambda h, v: h.set(v)),
    "threading.local": Holder(_thread_local, lambda h: h.rate, _set_attribute),
    "os.environ": Holder(_environment, lambda h: h.rate(), lambda h, v: _environment(v)),
    "weakref": Holder(_referenced, lambda h: h.reference().rate, lambda h, v: _set_attribute(h.keep, v)),
    "__getitem__": Holder(Items, lambda h: h[0], lambda h, v: _set_item(0)(h.rows, v)),
    "__iter__": Holder(Iterated, sum, lambda h, v: _set_item(0)(h.rows, v)),
    "__getattr__": Holder(AnyAttribute, lambda h: h.rate, lambda h, v: _set_item("rate")(h.table, v)),
    "__rmul__": Holder(Factor, lambda h: 1.0 * h, _set_attribute),
    "__call__": Holder(Called, lambda h: h(), _set_attribute),
    "getattr with a computed name": Holder(Plain, lambda h: getattr(h, "".join(["ra", "te"])), _set_attribute),
    "getattr with a constant": Holder(Plain, lambda h: getattr(h, "rate"), _set_attribute),  # noqa: B009
    "vars": Holder(Plain, lambda h: vars(h)["rate"], _set_attribute),
    "__dict__": Holder(Plain, lambda h: h.__dict__["rate"], _set_attribute),
    "asdict": Holder(Data, lambda h: dataclasses.asdict(h)["rate"], _set_attribute),
    "attribute of a function": Holder(_function, lambda h: h(), _set_attribute),
    "closure cell": Holder(_with_cell, lambda h: h(), lambda h, v: h.change(v)),
    "mutable default": Holder(_with_default, lambda h: h(), lambda h, v: _set_item(0)(h.__defaults__[0], v)),
    "defaults replaced": Holder(_with_default, lambda h: h(), _replace_defaults),
    "keyword defaults replaced": Holder(_with_default, lambda h: h(), _scale_by_keyword),
    "code replaced": Holder(lambda v: eval(f"lambda: {v!r}"), lambda h: h(), _replace_code),
    "partial of a list": Holder(lambda v: functools.partial(operator.getitem, [v], 0), lambda h: h(),
                                lambda h, v: _set_item(0)(h.args[0], v)),
    "bound method of a list": Holder(lambda v: types.SimpleNamespace(get=(t := [v]).__getitem__, of=t), lambda h: h.get(0),
                                     lambda h, v: _set_item(0)(h.of, v)),
    "module": Holder(_module, lambda h: h.rate, _set_attribute),
    "key that appears": Holder(lambda v: {}, lambda h: h["rate"] if "rate" in h else 3.0, _set_item("rate")),  # noqa: SIM401
    "key that appears, tried": Holder(lambda v: {}, _missed, _set_item("rate")),
    "attribute that appears": Holder(_bare, lambda h: getattr(h, "rate", 3.0), _set_attribute),
    "attribute that appears, asked for": Holder(_bare, lambda h: h.rate if hasattr(h, "rate") else 3.0, _set_attribute),
    "attribute that appears, tried": Holder(_bare, _tried, _set_attribute),
    "attribute that appears in a Namespace": Holder(lambda v: argparse.Namespace(), _tried, _set_attribute),
    "member of a set": Holder(lambda v: set(), lambda h: 4.0 if "x" in h else 3.0, lambda h, v: h.add("x")),
    "member of a list": Holder(lambda v: ["y"], lambda h: 4.0 if "x" in h else 3.0, lambda h, v: h.append("x")),
    "last of a list": Holder(lambda v: [v], lambda h: h[-1], lambda h, v: h.append(v)),
    "rest of a list": Holder(lambda v: [v], lambda h: sum(h[0:]), lambda h, v: h.append(v)),
    "last of a deque": Holder(lambda v: collections.deque([v]), lambda h: h[-1], lambda h, v: h.append(v)),
    "order of a dict": Holder(lambda v: {"a": v, "b": 1.0}, lambda h: next(iter(h.values())), _turn_round),
    "order of an OrderedDict": Holder(lambda v: collections.OrderedDict(a=v, b=1.0), lambda h: next(iter(h.values())),
                                      lambda h, v: h.move_to_end("a")),
    "method hidden by an attribute": Holder(_patched, lambda h: h.rate_of(), lambda h, v: setattr(h, "rate_of", lambda: v)),
    "property replaced": Holder(_with_property, lambda h: h.rate, lambda h, v: setattr(type(h), "rate", property(lambda self: v))),
    "class that reads as it makes": Holder(_makes, lambda h: h().rate, lambda h, v: _set_item(0)(h.source, v)),
    "array stored in another": Holder(lambda v: _full(5, v), _stored, _set_item(2)),
    "array by np.vectorize": Holder(lambda v: _full(5, v), lambda h: float(np.vectorize(lambda x: 2 * x)(h)[2]), _set_item(2)),
    "match": Holder(Data, _matched, _set_attribute),
    "values of a dict": Holder(lambda v: types.SimpleNamespace(of=(t := {"a": v}), values=t.values()), lambda h: sum(h.values),
                               lambda h, v: _set_item("a")(h.of, v)),
    "attrgetter": Holder(lambda v: types.SimpleNamespace(of=Plain(v), get=operator.attrgetter("rate")), lambda h: h.get(h.of),
                         lambda h, v: _set_attribute(h.of, v)),
    "list of 300 objects": Holder(lambda v: [Plain(v) for _ in range(300)], lambda h: h[234].rate,
                                   lambda h, v: _set_attribute(h[234], v)),
    "tensor": Holder(lambda v: aj.tensor([v]), lambda h: h[0], lambda h, v: h.fill_(v)),
    "number of NumPy": Holder(lambda v: types.SimpleNamespace(rate=np.float64(v)), lambda h: h.rate,
                              lambda h, v: setattr(h, "rate", np.float64(v))),
}
