"""Places of the standard library and of NumPy that a function reads, and that change between calls: as Python, refused, or warned about."""

from __future__ import annotations

import array
import collections
import contextvars
import functools
import itertools
import os
import threading
import types
import warnings
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import for_each

import adjit as aj
from adjit.tracer.guards import nondeterminism

Place = tuple[Callable[[Any], Any], Callable[[], Any]]      # the function, and what changes what it reads


class Sensor:
    def __init__(self) -> None:
        self.offset = 1.0

    @functools.cached_property
    def doubled(self) -> float:
        return self.offset * 2


def environ() -> Place:
    os.environ["ADJITTEST_PLACE"] = "a"
    return lambda x: x * len(os.environ["ADJITTEST_PLACE"]), lambda: os.environ.update(ADJITTEST_PLACE="abc")


def deque() -> Place:
    last = collections.deque([1.0], maxlen=2)
    return lambda x: x * sum(last), lambda: last.append(5.0)


def default_dict() -> Place:
    table: Any = collections.defaultdict(float)
    return lambda x: x * table["b"], lambda: table.update(b=7.0)


def counter() -> Place:
    counts = collections.Counter("aab")
    return lambda x: x * counts["a"], lambda: counts.update("a")


def chain_map() -> Place:
    chain: Any = collections.ChainMap({}, {"rate": 1.0})
    return lambda x: x * chain["rate"], lambda: chain.update(rate=2.0)


def cached_property() -> Place:
    sensor = Sensor()

    def change() -> None:
        sensor.offset = 4.0
        del sensor.doubled

    return lambda x: x * sensor.doubled, change


def lru_cache() -> Place:
    factor = [2.0]
    scaled = functools.lru_cache(lambda count: count * factor[0])

    def change() -> None:
        scaled.cache_clear()
        factor[0] = 5.0

    return lambda x: x * scaled(3), change


def weak_values() -> Place:
    sensor = Sensor()
    sensors = weakref.WeakValueDictionary(first=sensor)
    return lambda x: x * sensors["first"].offset, lambda: setattr(sensor, "offset", 9.0)


def context_variable() -> Place:
    rate = contextvars.ContextVar("rate", default=1.0)
    return lambda x: x * rate.get(), lambda: rate.set(5.0)


def thread_local() -> Place:
    local = threading.local()
    local.rate = 1.0
    return lambda x: x * local.rate, lambda: setattr(local, "rate", 5.0)


def bytes_that_change() -> Place:
    codes = bytearray(b"\x01")
    return lambda x: x * codes[0], lambda: codes.__setitem__(0, 5)


def array_of_numbers() -> Place:
    numbers = array.array("d", [1.0])
    return lambda x: x * numbers[0], lambda: numbers.__setitem__(0, 5.0)


def masked_array() -> Place:
    masked = np.ma.masked_array([1.0, 2.0], [False, True])
    return lambda x: x * masked.sum(), lambda: masked.mask.__setitem__(1, False)


def record_array() -> Place:
    records = np.rec.array([(1.0, 2)], dtype=[("rate", float), ("count", int)])
    return lambda x: x * records.rate[0], lambda: records.rate.__setitem__(0, 5.0)


def polynomial() -> Place:
    curve = np.poly1d([1.0, 2.0])
    return lambda x: curve(x), lambda: curve.coeffs.__setitem__(0, 5.0)


def order_of_a_dict() -> Place:
    table = {"a": 1.0, "b": 2.0}
    return lambda x: x * next(iter(table.values())), lambda: table.update(a=table.pop("a"))


def code_of_a_function() -> Place:
    def slope(x: Any) -> Any:
        return x * 2

    def steeper(x: Any) -> Any:
        return x * 7

    holder = types.SimpleNamespace(slope=slope)
    return lambda x: holder.slope(x), lambda: setattr(slope, "__code__", steeper.__code__)


PLACES = [environ, deque, default_dict, counter, chain_map, cached_property, lru_cache, weak_values, context_variable, thread_local,
          bytes_that_change, array_of_numbers, masked_array, record_array, polynomial, order_of_a_dict, code_of_a_function]


def test_what_changes_is_seen() -> None:
    def check(place: Callable[[], Place]) -> None:
        function, change = place()
        compiled = aj.compile(function, backend="interpret")
        before = function(3.0)
        assert compiled(3.0) == before
        change()
        assert function(3.0) != before
        assert compiled(3.0) == function(3.0)

    try:
        for_each({place.__name__: place for place in PLACES}, check)
    finally:
        os.environ.pop("ADJITTEST_PLACE", None)


def test_an_iterator_goes_on() -> None:
    counts = itertools.count()
    compiled = aj.compile(lambda x: x * next(counts), backend="interpret")
    assert [compiled(1.0) for _ in range(3)] == [0.0, 1.0, 2.0]


def test_what_a_match_statement_decides() -> None:
    def scaled(x: Any) -> Any:
        match x:
            case np.ndarray():
                return x * 2
            case float():
                return x * 3
        return x

    compiled = aj.compile(scaled, backend="interpret")
    assert (compiled(np.ones(1))[0], compiled(1.0)) == (2.0, 3.0)


def test_assertions_on_values_are_raised() -> None:
    def logarithm(x: Any) -> Any:
        assert np.all(x > 0), "positive"
        return np.log(x)

    compiled = aj.compile(logarithm, backend="interpret")
    assert compiled(np.ones(1)) == [0.0]
    with pytest.raises(AssertionError, match="positive"):
        compiled(-np.ones(1))


def test_generators_are_refused() -> None:
    def parts(x: Any) -> Any:
        yield x

    with pytest.raises(aj.errors.UnsupportedError, match=r"returns a builtins\.generator"):
        aj.compile(parts)(1.0)


def test_files_that_are_opened_are_warned_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nondeterminism, "_warned", set())
    path = tmp_path / "rate.txt"
    path.write_text("2.0")
    np.save(tmp_path / "rate.npy", 2.0)

    def opened(x: Any) -> Any:
        with open(path) as file:
            return x * float(file.read())

    readers = {"open": opened,
               "path.read_text": lambda x: x * float(path.read_text()),
               "np.loadtxt": lambda x: x * np.loadtxt(path),
               "np.load": lambda x: x * np.load(tmp_path / "rate.npy")}
    for names, reader in readers.items():
        with pytest.warns(RuntimeWarning, match=rf"reads a file \({names}\) while it is traced") as caught:
            assert aj.compile(reader, backend="interpret")(1.0) == 2.0
        assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert aj.compile(lambda x: x * len(str(path / "load")), backend="interpret")(1.0) > 0      # a path, and nothing opened
