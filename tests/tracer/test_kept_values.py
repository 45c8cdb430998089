"""Values that one call stores and the next one reads: as in Python where they are of one type, else refused. What one call stores and
reads itself is fine."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

import adjit as aj
from adjit.ir.errors import TraceError
from adjit.ir.ops.guard import GuardMiss
from adjit.runtime.program import Program


def _attribute():
    state = SimpleNamespace(total=0.0)

    def f(x):
        state.total = state.total + np.sum(x)
        return state.total
    return f, lambda: vars(state)


def _variable():
    total = 0.0

    def f(x):
        nonlocal total
        total = total + np.sum(x)
        return total * 1.0
    return f, lambda: total


def _item_of_dict():
    state = {"before": None}

    def f(x):
        result = x.sum() if state["before"] is None else x.sum() - state["before"]
        state["before"] = x.sum()
        return result
    return f, lambda: state


def _new_item_of_dict():
    best = {}

    def f(x):
        value = x.sum()
        if "value" not in best or value < best["value"]:
            best["value"] = value
        return best["value"]
    return f, lambda: best


def _item_of_list():
    state = [0.0]

    def f(x):
        state[0] = 0.9 * state[0] + x.sum()
        return state[0]
    return f, lambda: state


def _decided():
    best = [np.inf]

    def f(x):
        value = x.sum()
        if value < best[0]:
            best[0] = value
        return value
    return f, lambda: best


def _appended():
    history = []

    def f(x):
        history.append(x.sum())
        return history[-1] - history[0]
    return f, lambda: history


def _counted():
    history = []

    def f(x):
        history.append(x.sum())
        return x.sum() * len(history)
    return f, lambda: history


def _window():
    last = deque(maxlen=2)

    def f(x):
        last.append(x.sum())
        return sum(last)
    return f, lambda: last


def _slot():
    class Point:
        __slots__ = ("value",)

    point = Point()
    point.value = 0.0

    def f(x):
        point.value = point.value * 0.5 + x.sum()
        return point.value
    return f, lambda: point.value


def _pair():
    state = SimpleNamespace(pair=(0.0, 0.0))

    def f(x):
        first, second = state.pair
        state.pair = first + x[0], second + x[1]
        return state.pair[0] * state.pair[1]
    return f, lambda: vars(state)


def _filled_array():
    state = {}

    def f(x):
        before = state.get("now", np.zeros(2))
        now = np.zeros(2)
        now[0], now[1] = x[0], before[0] + x[1]
        state["now"] = now
        return now.sum()
    return f, lambda: state


CALL = np.array([1.0, 2.0])


FOLLOWED = [_attribute, _variable, _item_of_dict, _new_item_of_dict, _item_of_list, _decided, _slot, _filled_array]
OTHERS = [_appended, _counted, _window, _pair]


@pytest.mark.parametrize("make", FOLLOWED)
@pytest.mark.parametrize("transform", [aj.compile, aj.value_and_grad])
def test_a_value_kept_for_the_next_call_is_that_of_python(make, transform):
    (function, state), (plain, expected) = make(), make()
    compiled = transform(function)
    for scale in (1.0, 3.0, 0.5, 2.0, 3.0, 0.25, 1.0):
        found = compiled(CALL * scale)
        np.testing.assert_allclose(found if transform is aj.compile else found[0], plain(CALL * scale))
        assert repr(state()) == repr(expected())
    if transform is aj.compile:
        assert compiled.cache_info().traces <= 4


@pytest.mark.parametrize("make", OTHERS)
@pytest.mark.parametrize("transform", [aj.compile, aj.value_and_grad])
def test_a_value_kept_for_the_next_call_is_refused(make, transform):
    function, state = make()
    before = repr(state())
    compiled = transform(function)
    for _ in range(2):
        with pytest.raises(aj.errors.TraceError, match=r"keeps a value .* and reads it in the next call"):
            compiled(CALL)
        assert repr(state()) == before


def _only_stored():
    log = []

    def f(x):
        log.append(x.sum())
        return x.sum() * 2
    return f


def _made_anew():
    steps = []

    def f(x):
        steps.clear()
        steps.append(x.sum())
        steps.append(x[0])
        return steps[0] * steps[1]
    return f


def _written_then_read():
    state = SimpleNamespace()

    def f(x):
        state.hidden = np.tanh(x)
        state.result = state.hidden * 2
        return (state.result * state.hidden).sum()
    return f


def _elements():
    total = np.zeros(2)

    def f(x):
        total[:] = total + x
        return total.sum()
    return f


@pytest.mark.parametrize("make", [_only_stored, _made_anew, _written_then_read, _elements])
def test_what_one_call_stores_and_reads_is_computed(make):
    compiled, expected = aj.compile(make()), make()
    for step in range(3):
        np.testing.assert_allclose(compiled(CALL + step), expected(CALL + step))


def _key_of_length(state, x):
    state.position += x
    state.total += x.sum()
    state.events[f"{len(state.log)}"] = state.total
    state.log.append(x.sum())
    return state.position * 1


def _second_call_raises(state, x):
    state.position += x
    if state.last is not None:
        raise RuntimeError("a second call")
    state.last = x * 2
    return x + 1


def _written_by_python(state, x):
    state.position[0] += 1
    parity = bytes(memoryview(state.position))[6] % 7       # no traced array has memory: Python writes to this one
    state.last = x if state.last is None else state.last + x
    return state.last * parity


@pytest.mark.parametrize("function", [_key_of_length, _second_call_raises, _written_by_python])
def test_a_call_that_is_traced_again_writes_to_an_array_once(function):
    state, expected = (SimpleNamespace(position=np.zeros(CALL.shape), total=0.0, events={}, log=[], last=None) for _ in range(2))
    compiled = aj.compile(lambda x: function(state, x), backend="interpret")
    for _ in range(3):
        if function is _second_call_raises and expected.last is not None:
            with pytest.raises(RuntimeError, match="a second call"):
                function(expected, CALL)
            with pytest.raises(RuntimeError, match="a second call"):
                compiled(CALL)
        else:
            np.testing.assert_array_equal(compiled(CALL), function(expected, CALL))
        assert repr(state) == repr(expected)


def test_a_write_of_python_is_made_once_where_a_program_misses_a_guard_and_again_by_each_call(monkeypatch):
    state, run, missed = SimpleNamespace(position=np.zeros(2), last=None), Program.run, []

    def miss_once(program, *args):
        if not missed:
            missed.append(program)
            raise GuardMiss(0, True)
        return run(program, *args)
    monkeypatch.setattr(Program, "run", miss_once)
    compiled = aj.compile(lambda x: _written_by_python(state, x), backend="interpret")
    for _ in range(3):
        state.position[:] = 0
        compiled(CALL)
        assert list(state.position) == [1, 0]
    assert missed


def test_values_between_others_behind_the_end_of_a_list_that_is_read_are_refused():
    log = []

    @aj.compile
    def f(x):
        log.append(x)
        y = x * sum(log[-2:])
        log.append(2.0)
        return y

    for _ in range(2):
        with pytest.raises(TraceError, match="adds values of the call to a list from outside"):
            f(1.0)
        assert log == []
