"""Cases of docs/footguns.md that its examples leave out: what a traced function reads or does is as in Python, refused or warned about."""

from __future__ import annotations

import collections
import copy
import functools
import heapq
import operator
import sys
import types
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support.each import for_each

import adjit as aj

Case = tuple[Callable[[Any], Any], list[Callable[[], Any]]]      # the function, and changes between its calls


def nothing() -> None:
    pass


def one_that_becomes_true() -> Case:
    flags = types.SimpleNamespace(on=1)
    return lambda x: x * 5 if flags.on is True else x, [lambda: setattr(flags, "on", True), lambda: setattr(flags, "on", 1.0)]


def zero_that_becomes_negative() -> Case:
    signs = [0.0] * 5
    return lambda x: sum(np.copysign(x, sign) for sign in signs), [lambda: signs.__setitem__(2, -0.0)]


def zero_within_a_tuple() -> Case:
    holder = types.SimpleNamespace(pair=(0.0, 1))
    return lambda x: np.copysign(x, holder.pair[0]), [lambda: setattr(holder, "pair", (-0.0, 1))]


def number_that_is_not_one() -> Case:
    holder = types.SimpleNamespace(missing=float("nan"))
    return lambda x: x if holder.missing != holder.missing else x * holder.missing, [nothing, lambda: setattr(holder, "missing", 2.0)]


def class_of_an_object() -> Case:
    class Soft:
        def rate(self) -> float:
            return 2.0

    class Hard:
        def rate(self) -> float:
            return 3.0

    spring = Soft()
    return lambda x: x * spring.rate(), [lambda: setattr(spring, "__class__", Hard)]


def class_between_an_object_and_its_base() -> Case:
    class Base:
        rate = 2.0

    class Middle(Base):
        pass

    class Last(Middle):
        pass

    last = Last()
    changes = [lambda: setattr(Base, "rate", 7.0), lambda: setattr(Middle, "rate", 9.0), lambda: delattr(Middle, "rate")]
    return lambda x: x * last.rate, changes


def function_registered_later() -> Case:
    @functools.singledispatch
    def rate(of: Any) -> float:
        return 2.0

    half = Fraction(1, 2)
    return lambda x: x * rate(half), [lambda: rate.register(Fraction, lambda of: 3.0)]


def keywords_of_a_partial() -> Case:
    scaled = functools.partial(lambda x, rate: x * rate, rate=2.0)
    return lambda x: scaled(x), [lambda: scaled.keywords.update(rate=5.0)]


def arguments_of_the_process() -> Case:
    return lambda x: x * len(sys.argv), [lambda: sys.argv.append("more"), lambda: setattr(sys, "argv", sys.argv[:-1])]


def error_handling_of_numpy() -> Case:
    return lambda x: x * (np.geterr()["divide"] == "warn"), [lambda: np.seterr(divide="ignore"), lambda: np.seterr(divide="warn")]


def defaults_by_keyword() -> Case:
    def scaled(x: Any, *, rate: float = 2.0) -> Any:
        return x * rate

    defaults: Any = scaled.__kwdefaults__
    return lambda x: scaled(x), [lambda: defaults.update(rate=5.0)]


def descriptor_with_state() -> Case:
    state = {"rate": 2.0}

    class Rate:
        def __get__(self, instance: Any, owner: Any) -> float:
            return state["rate"]

    class Spring:
        rate = Rate()

    spring = Spring()
    return lambda x: x * spring.rate, [lambda: state.update(rate=5.0)]


def property_of_a_metaclass() -> Case:
    class Meta(type):
        base = 2.0

        @property
        def rate(cls) -> float:
            return cls.base

    class Spring(metaclass=Meta):
        pass

    return lambda x: x * Spring.rate, [lambda: setattr(Meta, "base", 5.0)]


def view_of_bytes() -> Case:
    codes = bytearray(b"abc")
    shown = memoryview(codes)
    return lambda x: x * shown[0], [lambda: codes.__setitem__(0, 1)]


def list_within_an_array_of_objects() -> Case:
    objects = np.array([[2.0], None], dtype=object)
    return lambda x: x * objects[0][0], [lambda: objects[0].__setitem__(0, 9.0)]


def dates() -> Case:
    days = np.array(["2020-01-01"], dtype="datetime64[D]")
    return lambda x: x * 2 if days[0] < np.datetime64("2021-01-01") else x * 3, [lambda: days.__setitem__(0, np.datetime64("2022-01-01"))]


def view_of_a_dict() -> Case:
    table = {"a": 2.0}
    rates = table.values()
    return lambda x: x * sum(rates), [lambda: table.update(b=5.0), table.clear]


def getter_of_an_item() -> Case:
    table, holder = {"a": 2.0, "b": 4.0}, types.SimpleNamespace(get=operator.itemgetter("a"))
    return lambda x: x * holder.get(table), [lambda: table.update(a=5.0), lambda: setattr(holder, "get", operator.itemgetter("b"))]


def item_that_is_missing() -> Case:
    table: dict[str, float] = {}

    def scaled(x: Any) -> Any:
        try:
            return x * table["rate"]
        except KeyError:
            return x

    return scaled, [lambda: table.update(rate=5.0), table.clear]


def item_that_the_function_sets_if_missing() -> Case:
    table: dict[str, float] = {}
    return lambda x: x * table.setdefault("rate", 2.0), [lambda: table.update(rate=4.0), table.clear]


def last_item_taken_from_a_dict() -> Case:
    table = {"a": 1.0, "b": 2.0, "c": 3.0}
    return lambda x: x * table.popitem()[1], [nothing, nothing]


def generator_that_is_sent_to() -> Case:
    def doubled() -> Any:
        value = 1.0
        while True:
            value = (yield value) * 2

    twice = doubled()
    next(twice)
    return lambda x: x * twice.send(3.0), [lambda: twice.send(10.0)]


def value_among_others() -> Case:
    return lambda x: x * len({x, 3.0, 4.0}), [nothing]


def deep_copy_of_a_value() -> Case:
    return lambda x: copy.deepcopy(x) * 2, [nothing]


CASES = [
    one_that_becomes_true, zero_that_becomes_negative, zero_within_a_tuple, number_that_is_not_one, class_of_an_object,
    class_between_an_object_and_its_base, function_registered_later, keywords_of_a_partial, defaults_by_keyword,
    arguments_of_the_process, error_handling_of_numpy,
    descriptor_with_state, property_of_a_metaclass, view_of_bytes, list_within_an_array_of_objects, dates, view_of_a_dict,
    getter_of_an_item, item_that_is_missing, item_that_the_function_sets_if_missing, last_item_taken_from_a_dict,
    generator_that_is_sent_to, value_among_others, deep_copy_of_a_value]


def results(function: Callable[[Any], Any], changes: list[Callable[[], Any]]) -> list[float]:
    """Of calls with a change before each but the first."""
    found = [float(function(3.0))]
    for change in changes:
        change()
        found.append(float(function(3.0)))
    return found


def test_results_are_those_of_python() -> None:
    def check(case: Callable[[], Case]) -> None:
        expected = results(*case())
        function, changes = case()
        assert results(aj.compile(function, backend="interpret"), changes) == expected

    for_each({case.__name__: (case,) for case in CASES}, check)


def in_a_pool(x: Any) -> Any:
    with ThreadPoolExecutor(2) as pool:
        return sum(pool.map(lambda rate: np.sin(x) * rate, [1.0, 2.0]))


QUEUE, STACK, HEAP = collections.deque([1.0, 2.0, 3.0]), [1.0, 2.0, 3.0], [1.0, 2.0, 3.0]
REFUSED: dict[str, tuple[Callable[[Any], Any], str]] = {
    "a stack": (lambda x: x * STACK.pop(), r"changes len\(STACK\) from 3 to 2, and reads it too"),
    "a queue": (lambda x: x * QUEUE.popleft(), r"changes len\(QUEUE\) from 3 to 2, and reads it too"),
    "a heap": (lambda x: x * heapq.heappop(HEAP), "changes len"),
    "threads": (in_a_pool, "in another thread than the one that traces"),
    "strides": (lambda x: x * x.strides[0], "strides has no rule"),
    "flags": (lambda x: x * x.flags.c_contiguous, "flags has no rule"),
    "owner of the memory": (lambda x: x if x.base is None else 2 * x, "base has no rule"),
    "shared memory": (lambda x: x * np.shares_memory(x, x), "shares_memory has no rule"),
    "memory as bytes": (lambda x: x * x.tobytes()[7], "tobytes has no rule"),
    "a view of the memory": (lambda x: memoryview(x)[0] * x, "a memoryview shows an array that holds traced values"),
}


def test_refusals_say_why() -> None:
    def check(function: Callable[[Any], Any], words: str) -> None:
        with pytest.raises(aj.errors.AdjitError, match=words):
            aj.compile(function, backend="interpret")(np.ones(2))

    for_each(REFUSED, check)
    assert len(QUEUE) == len(STACK) == 3


def test_a_thread_is_refused_at_the_line_that_computes() -> None:
    with pytest.raises(aj.errors.TraceError, match=r"rate: np\.sin\(x\) \* rate.*\n.*own thread"):
        aj.grad(in_a_pool)(1.0)


GIVEN = np.ones(2)


def test_which_array_an_argument_is_is_warned_about() -> None:
    def one_or_two(x: Any, y: Any) -> Any:
        return x if x is y else 2.0 * x

    def the_global_one(x: Any) -> Any:
        return x if x is not GIVEN else 2.0 * x

    def of_settings(x: Any, mode: Any = None) -> Any:
        return x if mode is np.sum or x is None else 2.0 * x

    def any_is(x: Any, others: Any) -> bool:
        return any(x is other for other in others)

    def by_others(x: Any, y: Any) -> Any:
        return x if any_is(x, [y]) else 2.0 * x

    def by_numbers(x: Any, y: Any) -> Any:
        return x * len({id(x), id(y)})

    cases: list[tuple[Callable[..., Any], tuple[Any, ...], str]] = [
        (one_or_two, (GIVEN, GIVEN), "whether x is y"), (the_global_one, (GIVEN,), "whether x is GIVEN"),
        (by_others, (GIVEN, GIVEN), "whether x is other, and one"), (by_numbers, (GIVEN, GIVEN), "asks for the id of an object, and one")]
    for function, args, words in cases:
        with pytest.warns(RuntimeWarning, match=words) as caught:
            aj.compile(function, backend="interpret")(*args)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")      # once
            aj.compile(function, backend="interpret")(*args)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        aj.compile(of_settings, backend="interpret")(GIVEN)
        aj.compile(lambda x, y: by_numbers(x, y), backend="interpret")(GIVEN, GIVEN + 1)
