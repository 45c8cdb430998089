"""What a compiled function stores outside, in places that it does not read before, is that of each call: numbers, texts, arrays and
containers of them, in attributes, variables and containers, whichever way was traced first."""

from __future__ import annotations

import copy
import enum
import os
from collections import Counter, OrderedDict, UserDict, defaultdict, deque
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError
from adjit.tracer.guards.container_log import ORIGINAL_KIND, logging_containers


def halved(x):
    """A number of rounds that depends on the value."""
    n = 0
    while x > 1:
        x, n = x / 2, n + 1
    return x, n


MAKERS: list[Callable[[], tuple[Any, Callable[[], Any]]]] = []


def maker(make: Any) -> Any:
    MAKERS.append(make)
    return make


def into(state: Any, store: Callable[[Any, Any, int], object], read: Callable[[Any], Any] = lambda state: state) -> None:
    """Add a function that stores what depends on the value into a copy of `state`."""
    def make() -> tuple[Any, Callable[[], Any]]:
        held = copy.deepcopy(state)

        def f(x):
            y, n = halved(x)
            store(held, y, n)
            return y * 2
        return f, lambda: read(held)
    MAKERS.append(make)


class Slots:
    __slots__ = ("info", "n")


class Plain(dict):
    """A dict that may have attributes."""


class Log:
    def __init__(self):
        self.items = []

    def add(self, value):
        self.items.append(value)


class Color(enum.Enum):
    RED = 1
    BLUE = 2


into({"n": 0}, lambda d, y, n: d.__setitem__("n", n))
into({}, lambda d, y, n: d.update(n=n, m=2))
into({}, lambda d, y, n: d.update({n: y}))
into({"a": {"n": 0}}, lambda d, y, n: d["a"].__setitem__("n", n))
into([{"n": 0}, {"n": 0}], lambda d, y, n: d[1].__setitem__("n", n))
into([0, 7], lambda d, y, n: d.__setitem__(0, n))
into([], lambda d, y, n: d.append(n))
into([], lambda d, y, n: d.append((n, y)))
into([1, 2, 3], lambda d, y, n: d.insert(1, n))
into([1, 2, 3, 4, 5, 6, 7], lambda d, y, n: d.__delitem__(slice(n, n + 1)))
into([5], lambda d, y, n: (d.clear(), d.append(n), d.append(len(d))))
into([5], lambda d, y, n: d.__setitem__(slice(None), [n, n + 1]))
into(set(), lambda d, y, n: d.add(n))
into({0, 1, 2, 3, 4}, lambda d, y, n: d.discard(n))
into({0, 1, 2, 3, 4}, lambda d, y, n: d.difference_update([n]))
into(deque(maxlen=3), lambda d, y, n: d.append(n))
into(deque([0, 0]), lambda d, y, n: d.__setitem__(0, n))
into(defaultdict(int), lambda d, y, n: d.__setitem__("n", n))
into(OrderedDict(b=1, n=0), lambda d, y, n: (d.__setitem__("n", n), d.move_to_end("b")), lambda d: list(d.items()))
into(Counter(), lambda d, y, n: d.__setitem__("n", n))
into(UserDict(n=0), lambda d, y, n: d.__setitem__("n", n))
into(Plain(), lambda d, y, n: d.__setitem__("n", n))
into(Slots(), lambda d, y, n: setattr_of_slots(d, n), lambda d: (d.n, d.info))
into(SimpleNamespace(), lambda d, y, n: store_text(d, n))
into(SimpleNamespace(), lambda d, y, n: store_fresh(d, y, n))
into(SimpleNamespace(), lambda d, y, n: store_shared(d, n), lambda d: (d.a, d.a is d.b))
into(SimpleNamespace(v=None), lambda d, y, n: store_either(d, y, n))
into({"v": None}, lambda d, y, n: d.__setitem__("v", np.stack([y, y * n]) if n > 1 else 0))
into(Log(), lambda d, y, n: d.add(n), lambda d: d.items)
into(Log(), lambda d, y, n: store_object(d, n), lambda d: d.last.items)


def setattr_of_slots(place, n):
    place.n = n
    place.info = {n}


def store_object(place, n):
    place.last = Log()
    place.last.add(n)


def store_text(place, n):
    place.text = f"{n} rounds"
    place.color = Color.RED if n > 1 else Color.BLUE


def store_fresh(place, y, n):
    place.history = []
    for k in range(4):
        if n > k:
            place.history.append(k)
    place.info = {"n": n, "pair": (n, y), "inner": SimpleNamespace(n=n), "array": np.ones(2) * n}


def store_shared(place, n):
    place.a = [n]
    place.b = place.a


def store_either(place, y, n):
    if n > 1:
        place.v = y * 3
    else:
        place.v = n


@maker
def default_argument():
    def f(x, log=[0]):      # noqa: B006
        y, n = halved(x)
        log[0] = n
        return y
    return f, lambda: f.__defaults__


@maker
def class_attribute():
    class Solver:
        n = 0

    def f(x):
        y, n = halved(x)
        Solver.n = n
        return y
    return f, lambda: Solver.n


@maker
def read_behind_it():
    stats, steps = {"n": 0}, [3]

    def f(x):
        stats["n"] = 0
        steps.clear()
        while x > 1:
            x = x / 2
            stats["n"] += 1
            steps.append(stats["n"])
        return x * stats["n"] + sum(steps)
    return f, lambda: (stats, steps)


@maker
def what_it_finds_decides():
    known = {"a": 1}

    def f(x):
        if x > 1:
            known["a"] = 1
        elif "a" in known:
            del known["a"]
        return x
    return f, lambda: known


@maker
def returned_too():
    held = SimpleNamespace()

    def f(x):
        held.last = x * 2
        return held.last
    return f, lambda: held.last


@maker
def solver():
    state = SimpleNamespace(history=None, rounds=0)

    def solve(a):
        state.history = []
        state.rounds = 0
        state.best = None
        x = a
        while state.rounds < 20:
            x = x - (x * x - a) / (2 * x) if x != 0 else x + 1
            state.rounds += 1
            state.history.append(x)
            if state.best is None or x < state.best:
                state.best = x
            if abs(x * x - a) < 1e-6:
                break
        return x
    return solve, lambda: vars(state)


@maker
def by_name():
    state = SimpleNamespace(n=0, k=0)

    def f(x):
        setattr(state, "n", halved(x)[1])       # noqa: B010
        vars(state)["k"] = halved(x)[1] + 1
        return x
    return f, lambda: vars(state)


into({}, lambda held, y, n: held.setdefault("all", []).append(y))
into(defaultdict(list), lambda held, y, n: held[n].append(y))
into(defaultdict(lambda: defaultdict(list)), lambda held, y, n: held["a"][n].append(n + y), lambda held: held["a"])
into(SimpleNamespace(items=None), lambda held, y, n: setattr(held, "items", [y, n] if held.items is None else held.items), vars)


@maker
def swapped_numbers():
    state, pair, ring = SimpleNamespace(a=1.0, b=2.0), [3.0, 1.0], deque([1.0, 2.0, 3.0])

    def f(x):
        state.a, state.b = state.b, state.a
        pair[0], pair[1] = pair[1], pair[0]
        ring.rotate(1)
        return x * ring[0]
    return f, lambda: (vars(state), pair, ring)


@maker
def first_or_not():
    state, counts = SimpleNamespace(last=None), Counter()

    def f(x):
        size = "small" if x < 1 else "large"
        counts[size] += 1
        first = state.last is None
        state.last = None if x > 4 else x
        return 3 * x if first else 2 * x
    return f, lambda: (vars(state), counts)


@maker
def lazy_list():
    state = SimpleNamespace()

    def f(x):
        if not hasattr(state, "items"):
            state.items = []
        state.items.append(x)
        return x
    return f, lambda: vars(state)


@maker
def raising():
    state = SimpleNamespace(calls=0, last=None, all=[])

    def f(x):
        state.calls += 1
        state.last = 2 * x
        state.all.append(x)
        try:
            if x < 0:
                raise ValueError
        finally:
            state.ended = x
        return x

    def caught(x):
        try:
            return f(x)
        except ValueError:
            return state.last
    return caught, lambda: vars(state)


@maker
def holding_itself():
    state = SimpleNamespace()

    def f(x):
        items = [1 if x > 1 else 2]
        items.append(items)
        state.items = items
        return x
    return f, lambda: (state.items[0], state.items[1] is state.items)


@maker
def one_of_two():
    small, large = [], []

    def f(x):
        chosen = large if x > 1 else small
        chosen.append(1)
        return x
    return f, lambda: (small, large)


@maker
def stack():
    waiting = []

    def f(x):
        del waiting[:]
        waiting.append(x)
        total = 0.0
        while waiting:
            value = waiting.pop()
            total = total + value
            if value > 1:
                waiting.extend([value / 2, value / 4])
        return total
    return f, lambda: waiting


@maker
def early_return():
    state = SimpleNamespace(where="")

    def f(x):
        state.where = "start"
        if x > 5:
            state.where = "early"
            return x * 2
        for k in range(3):
            if x < k:
                state.where = f"loop {k}"
                return x * k
        state.where = "end"
        return x
    return f, lambda: state.where


def plainly(value: Any) -> str:
    """Text of a state, in which NumPy's scalars are the numbers that they are."""
    if isinstance(value, np.ndarray):
        return f"array{value.tolist()}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, (list, tuple, deque)):
        return f"{type(value).__name__}({', '.join(map(plainly, value))})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{plainly(key)}: {plainly(item)}' for key, item in value.items())}}}"
    return plainly(vars(value)) if isinstance(value, SimpleNamespace) else repr(value)


@pytest.mark.parametrize("numbers", [(2.0, 8.0, -1.0, 2.0, 0.3, -4.0, 8.0, 8.0), (0.5, 8.0, 0.5, 16.0, 0.5)])
@pytest.mark.parametrize("number", range(len(MAKERS)))
def test_each_call_stores_what_python_stores(number, numbers):
    function, state = MAKERS[number]()
    compiled = aj.compile(function, backend="interpret")
    plain, expected = MAKERS[number]()
    for x in numbers:
        given = np.float64(x)
        assert plainly(compiled(given)) == plainly(plain(given))
        assert plainly(state()) == plainly(expected())


@pytest.mark.parametrize("backend", ["interpret", "native"])
def test_a_call_that_raises_leaves_what_it_stored_before(backend):
    def make():
        log, stats, held, lists, calls = [], {"n": 0}, SimpleNamespace(n=0, last=None), defaultdict(list), 0
        total = np.zeros(2)

        def f(x):
            nonlocal calls
            calls += 1
            log.append(x * 2)
            stats["n"] += 1
            held.n += 2
            held.last = [x]
            lists["a"].append(3)
            total[0] += x
            held.total = total * 2
            if x > 1:
                log.append("large")
                raise ValueError(x.shape)
            return x
        return f, lambda: (log, stats, held, lists, calls, total)

    (plain, expected), (traced, found) = make(), make()
    compiled = aj.compile(traced, backend=backend)
    for number in (0.5, 2.0, 2.0, 0.5, 3.0, 0.5):
        for function in (plain, compiled):
            with suppress(ValueError):
                function(np.float64(number))
        assert plainly(found()) == plainly(expected())


def test_a_differentiated_call_that_raises_leaves_its_values():
    """Those of the derivative's function are known; those of a loop are not, and leave what was there."""
    held = SimpleNamespace(total=np.zeros(2), last=0.0, seen=[], pair=(0.0, 1))

    def f(x):
        held.total = held.total + x
        held.last = np.sum(x)
        held.seen.append(x * 2)
        held.pair = (x[0], 2)
        raise ValueError

    def loop(x):
        def body(carry, y):
            held.last = carry + y
            raise ValueError
        return aj.scan(body, x[0], x)[0]

    for count, function in enumerate((aj.value_and_grad(f), aj.compile(aj.grad(f)), aj.grad(loop)), 1):
        with pytest.raises(ValueError, match=r"^$"):
            function(np.array([1.0, 2.0]))
        done = min(count, 2)
        assert plainly(held) == plainly(SimpleNamespace(total=np.array([1.0, 2.0]) * done, last=np.float64(3.0),
                                                        seen=[np.array([2.0, 4.0])] * done, pair=(np.float64(1.0), 2)))


@pytest.mark.parametrize("error", [aj.errors.UnsupportedError, KeyboardInterrupt])
def test_a_call_that_is_refused_or_interrupted_leaves_nothing(error):
    def make():
        return SimpleNamespace(n=0, t=0.5, first=np.zeros(2), second=np.ones(2), log=[], sums=np.zeros(2), last=None)

    def f(x):
        held.n += 1
        held.t += x
        held.sums[...] += 1
        held.first[0] = 7.0
        held.first, held.second = held.second, held.first
        held.log.append(x)
        held.last = len(held.log) * 1.0
        if error is KeyboardInterrupt:
            raise error
        return np.busday_count(x * held.n, held.t)

    held, compiled = make(), aj.compile(f, backend="interpret")
    for _ in range(2):
        with pytest.raises(error):
            compiled(1.0)
        assert plainly(held) == plainly(make())
    compiled = aj.compile(lambda x: held.log.append(x) or SimpleNamespace(x=x), backend="interpret")
    with pytest.raises(aj.errors.UnsupportedError, match="returns a"):
        compiled(1.0)
    assert plainly(held) == plainly(make())


@pytest.mark.parametrize("count", [0, 30_000])
def test_a_module_may_have_many_other_names(count):
    """What is from outside is known, however much there is."""
    names = {"defaultdict": defaultdict, "held": None, "f": None, **{f"name{number}": SimpleNamespace() for number in range(count)}}
    exec("held = defaultdict(lambda: defaultdict(list))\ndef f(x):\n    held['a'][1].append(x + 1)\n    return x", names)
    compiled = aj.compile(names["f"], backend="interpret")
    for x in (1.0, 2.0):
        compiled(np.float64(x))
    assert names["held"] == {"a": {1: [2.0, 3.0]}}


def test_a_native_program_and_a_program_of_gradients_store():
    log, last = [], SimpleNamespace()

    def f(x):
        y, n = halved(x)
        log.append(n)
        last.n = n
        return y * y

    for transform in (aj.compile, lambda f: aj.compile(aj.grad(f))):
        compiled = transform(f)
        log.clear()
        for x in (8.0, 2.0, 8.0, 0.5):
            compiled(x)
            assert last.n == log[-1]
        assert log == [3, 1, 3, 0]


def test_what_was_stored_is_the_callers():
    held = SimpleNamespace()

    def f(x):
        held.values = [x * 2]
        held.array = np.array([x, x])
        return x

    compiled = aj.compile(f)
    compiled(1.0)
    held.values.append(5)
    held.array[0] = 9
    compiled(1.0)
    assert held.values == [2.0]
    assert held.array.tolist() == [1.0, 1.0]


def test_a_refused_function_leaves_containers_as_they_were():
    log, stats = [3], {"n": 1}

    def f(x):
        log.append(1)
        stats["n"] += 1
        return x * stats["n"] * len(log)

    compiled = aj.compile(f)
    for _ in range(2):
        with pytest.raises(TraceError, match="and reads it too") as caught:
            compiled(1.0)
        assert caught.value.location.source() in ("log.append(1)", 'stats["n"] += 1')
        assert log == [3]
        assert stats == {"n": 1}


def test_what_is_not_followed_is_refused_in_words_of_its_own():
    held = SimpleNamespace(n=0)

    def deleting(x):
        if hasattr(held, "n"):
            del held.n
        return x

    with pytest.raises(TraceError, match=r"deletes held\.n: later calls would not") as caught:
        aj.compile(deleting)(8.0)
    assert caught.value.location.source() == "del held.n"
    assert held.n == 0


def test_logged_containers_are_those_that_they_were():
    plain = [[1, 2], {"a": 1}, {3}, deque([1], 2), defaultdict(int, a=1), OrderedDict(a=1, b=2), Counter("ab"), Plain(a=1)]
    kinds, before = list(map(type, plain)), copy.deepcopy(plain)
    with logging_containers(plain) as log:
        for container, kind in zip(plain, kinds, strict=True):
            assert type(container) in ORIGINAL_KIND
            assert isinstance(container, kind)
            assert container.__class__ is kind
            assert type(copy.copy(container)) is type(copy.deepcopy(container)) is kind
            container.clear()
    assert list(map(type, plain)) == kinds
    assert not any(plain)
    log.restore()
    assert plain == before
    assert plain[3].maxlen == 2


def test_what_stores_is_not_exported(tmp_path):
    held = SimpleNamespace()

    def f(x):
        held.last = x * 2
        return x

    with pytest.raises(aj.errors.ExportError, match=r"stores a value outside, held\.last, at each call"):
        aj.compile(f).export(tmp_path / "f.adjit", 1.0)
    with pytest.raises(aj.errors.ExportError, match="stores a value outside"):
        aj.compile(f).as_callable(1.0)


def test_a_pullback_runs_the_function_again_and_stores_nothing():
    log = []

    def f(x):
        y, n = halved(x)
        log.append(n)
        return y * y

    for x in (8.0, 2.0, 8.0):
        value, pullback = aj.vjp(f, x)
        assert (float(value), *map(float, pullback(1.0))) == (1.0, 2.0 * 0.5 ** log[-1])
    assert log == [3, 1, 3]
    numbers = iter([2.0, 3.0])
    value, pullback = aj.vjp(lambda x: x * next(numbers), 1.0)
    assert value == 2.0
    with pytest.raises(TraceError, match="the pullback runs the function again, and the position of numbers"):
        pullback(1.0)


def test_what_no_program_can_change_again_is_refused(monkeypatch):
    stats, log = {}, []
    monkeypatch.delenv("ADJIT_TEST_N", raising=False)

    def by_type(x):
        stats["n"] = halved(x)[1]
        return x * (2 if type(stats) is dict else 3)

    def in_the_environment(x):
        os.environ["ADJIT_TEST_N"] = str(halved(x)[1])
        return x

    def filled_by_type(x):
        log.append(type(x) is not float)
        return x

    compiled = aj.compile(by_type)
    assert compiled(8.0) == 16.0
    assert stats == {"n": 3}
    assert (compiled(2.0), stats) == (4.0, {"n": 1})
    for x in (8.0, 2.0):
        assert aj.compile(filled_by_type)(x) == x
    assert log == [False, False]
    with pytest.raises(TraceError, match=r"changes os\.environ\['ADJIT_TEST_N'\]"):
        aj.compile(in_the_environment)(8.0)
    assert "ADJIT_TEST_N" not in os.environ


class Reader:
    """Reads what it stores in another method, which may be another object's."""

    value: Any = None

    def get(self):
        return self.value

    def run(self, x):
        if x > 1:
            self.value = x * 2
        else:
            self.value = 0
        return self.get() + x

    def remember(self, x):
        result = x if self.value is None else x * 2
        self.value = None if x > 1 else 1
        return result


def test_a_place_that_is_read_elsewhere_never_holds_what_another_call_stored():
    reader, plain = Reader(), Reader()
    compiled = aj.compile(reader.run, backend="interpret")
    for x in (2.0, -1.0, 8.0, 0.5, 2.0):
        assert compiled(x) == plain.run(x)
        assert reader.value == plain.value
    reader, plain = Reader(), Reader()
    compiled = aj.compile(reader.remember, backend="interpret")
    for x in (2.0, 8.0, -1.0, 2.0, 0.3, -4.0, 8.0, 8.0):
        assert compiled(x) == plain.remember(x)
        assert reader.value == plain.value


@pytest.mark.parametrize("start", [1.0, 2.0])
def test_numbers_are_keys_of_containers_outside(start):
    memo, seen = {}, set()

    def f(x):
        if x not in memo:
            memo[x] = 2
        seen.add(x)
        return x * memo[x]

    compiled = aj.compile(f, backend="interpret")
    for x in (start, 3.0, start, 3.0):
        assert compiled(x) == 2 * x
    assert (memo, seen) == ({start: 2, 3.0: 2}, {start, 3.0})


def swapped(held, x):
    held[0], held[1] = held[1], held[0]
    return held[0] * x


def turned(held, x):
    held.reverse()
    return held[0] * x


def rotated(held, x):
    held.append(held.pop(0))
    held[0][:] = x
    return held[1].sum()


def written_on_ways(held, x):
    held[0], held[1] = held[1], held[0]
    if x[0] > 3:
        held[0][:] = x
    else:
        held[1][:] = -x
    return held[0] * 10 + held[1]


def renamed(held, x):
    key = 1 if 1 in held else 2
    held[3 - key] = held.pop(key)
    return held[3 - key] * x


def numbered(items):
    return dict(enumerate(items))


@pytest.mark.parametrize(("change", "kind"), [
    (swapped, list), (swapped, numbered), (swapped, deque), (turned, list), (turned, deque), (rotated, list), (written_on_ways, list),
    (written_on_ways, numbered), (renamed, lambda items: {1: items[0]})])
def test_arrays_change_places_in_a_container_at_each_call(change, kind):
    held, plain = kind([np.full(2, 1.0), np.full(2, 2.0)]), kind([np.full(2, 1.0), np.full(2, 2.0)])
    compiled = aj.compile(lambda x: change(held, x), backend="interpret")
    for x in (1.0, 2.0, 5.0, 4.0, 1.0, 6.0):
        np.testing.assert_array_equal(compiled(np.full(2, x)), change(plain, np.full(2, x)))
        now, then = ([*each.items()] if isinstance(each, dict) else list(each) for each in (held, plain))
        assert repr(now) == repr(then)


def test_a_list_of_results_is_stored_while_an_array_in_another_list_is_written():
    weights, cache = [np.eye(2)], {}

    @aj.compile(backend="interpret")
    def f(x):
        cache["a"] = [x]
        for matrix in weights:
            x = matrix @ x
        weights[0] -= 1
        return x.sum() + cache["a"][0].sum()

    assert [float(f(np.ones(2))) for _ in range(3)] == [4.0, 0.0, -4.0]
    np.testing.assert_array_equal(weights[0], np.eye(2) - 3)
    np.testing.assert_array_equal(cache["a"], [np.ones(2)])


@pytest.mark.parametrize("kind", [list, dict, SimpleNamespace])
def test_buffers_that_change_places_are_one_program(kind):
    first, second = np.zeros(2), np.ones(2)
    if kind is SimpleNamespace:
        held = SimpleNamespace(a=first, b=second)

        def step(x):
            held.b[:] = held.a + x
            held.a, held.b = held.b, held.a
            return held.a.sum()
    else:
        held, (i, j) = ([first, second], (0, 1)) if kind is list else ({"a": first, "b": second}, "ab")

        def step(x):
            held[j][:] = held[i] + x
            held[i], held[j] = held[j], held[i]
            return held[i].sum()

    compiled = aj.compile(step)
    assert [float(compiled(np.full(2, x))) for x in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)] == [2.0, 6.0, 12.0, 20.0, 30.0, 42.0]
    assert compiled.cache_info().traces == 1
    assert (first.tolist(), second.tolist()) == ([21.0, 21.0], [15.0, 15.0])
    assert (held.a if kind is SimpleNamespace else held[i]) is first


def test_buffers_that_change_places_beside_their_views():
    def make():
        held = SimpleNamespace(old=np.zeros(4), new=np.ones(4))
        held.first, held.view = held.old, held.old[:-1]

        def moved(k):
            held.new[1:] = held.old[:-1] * k + 1
            held.new[0] = k
            held.old, held.new = held.new, held.old
            return held.old.sum()

        def of_outside(k):
            held.new[1:] = held.view * k + held.first[1:]
            held.old, held.new = held.new, held.old
            return held.old.sum()
        return held, moved, of_outside

    for number in (1, 2):
        held, *functions = make()
        others, *plain = make()
        compiled = aj.compile(functions[number - 1], backend="interpret")
        for k in (1.0, 2.0, 3.0, 4.0, 5.0):
            assert compiled(k) == plain[number - 1](k)
            for name in ("old", "new", "first", "view"):
                np.testing.assert_array_equal(getattr(held, name), getattr(others, name))
            assert (held.first is held.old) is (others.first is others.old)
        assert compiled.cache_info().traces == number


def test_a_number_that_decides_is_never_stale():
    def make():
        state = SimpleNamespace(n=3)

        def f(x):
            state.n -= 1
            return x if state.n <= 0 else 2 * x
        return f

    compiled, plain = aj.compile(make(), backend="interpret"), make()
    assert [compiled(1.0) for _ in range(6)] == [plain(1.0) for _ in range(6)]


def test_a_number_that_the_trace_finds_there_already_is_stored_by_each_call():
    a, b = SimpleNamespace(alive=True), SimpleNamespace(alive=True)

    def f(x, n):
        y = x * n if b.alive else x
        a.alive = False
        return y

    compiled = aj.compile(f, backend="interpret")
    for n in (2, 3, 3):         # the second call traces while it is False
        assert compiled(1.0, n) == n
        assert a.alive is False
        a.alive = n != 2


def test_items_at_the_end_of_a_list_that_grows():
    held, first = [], [0.25]

    def own(x):
        held.append(first[0])
        held.append(x)
        held.append(sum(held[-2:]))
        return x

    def others(x):
        held.append(first[0])
        held.append(sum(held[-2:]))
        return x

    compiled = aj.compile(own, backend="interpret")
    compiled(1.0)
    first[0] = 0.5
    compiled(2.0)
    assert held == [0.25, 1.0, 1.25, 0.5, 2.0, 2.5]
    compiled = aj.compile(others, backend="interpret")
    for x in (1.0, 2.0):
        assert compiled(x) == x
    assert held[6:] == [0.5, 3.0, 0.5, 3.5]     # traced at each call


def test_namespaces_of_modules_keep_their_class():
    settings, last = {}, {}
    exec("rate = 2.0", settings)        # which puts the builtins into it

    @aj.compile(backend="interpret")
    def f(x):
        last["x"] = x
        return x * settings["rate"]

    assert (f(1.0), last["x"]) == (2.0, 1.0)
    settings["rate"] = 3.0
    assert (f(2.0), last["x"]) == (6.0, 2.0)


class Settings:
    def __init__(self, value):
        self.value = value


HELD = SimpleNamespace(value=0.25)


def taken_over(x, settings, into):
    into["before"] = HELD.value * 2
    HELD.value = settings.value
    for _ in range(12):
        if x < 0.4 or not x > 0.4:
            continue


def test_traces_of_one_call_begin_with_the_same_state(monkeypatch):
    compiled, numbers = aj.compile(taken_over, backend="interpret"), []
    for function in (taken_over, compiled):
        monkeypatch.setattr(HELD, "value", 0.25)
        for x, value in ((-0.5, 0.4377), (0.82, -0.5), (0.9, 0.7)):
            found = {}
            function(x, Settings(value), found)
            numbers.append((found["before"], HELD.value))
    assert numbers[3:] == numbers[:3]
