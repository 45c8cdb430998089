"""Arrays that a function reaches by itself are inputs by reference; what else it reaches is guarded."""

from __future__ import annotations

import dataclasses
import functools
import sys
import types

import numpy as np
import pytest
from support.tracing import assert_same, checked_trace

import adjit as aj
from adjit.ir.interpreter import interpret

WEIGHTS = np.arange(3.0)
RATE = 0.5
SETTINGS = {"scale": 2.0, "layers": [np.ones(3), np.full(3, 2.0)], "unused": 1}


def run_again(trace, *arrays):
    """The traced function for other arguments and for what is bound now."""
    captured = trace.guards.current()
    assert captured is not None
    return trace.rebuild(interpret(trace.graph, [*arrays, *captured]))


@pytest.fixture
def module_globals():
    saved = {name: globals()[name] for name in ("WEIGHTS", "RATE")}
    yield globals()
    globals().update(saved)
    SETTINGS.update(scale=2.0, layers=[np.ones(3), np.full(3, 2.0)], unused=1)


def test_globals_are_inputs_by_reference(module_globals):
    trace = checked_trace(lambda x: x * WEIGHTS + WEIGHTS, np.ones(3))
    assert trace.graph.param_roles == ("input", "captured")
    assert [value.name for value in trace.graph.params] == ["x", "WEIGHTS"]
    assert trace.captured[0] is WEIGHTS
    WEIGHTS[:] = 5.0
    assert_same(run_again(trace, np.ones(3)), np.full(3, 10.0))
    WEIGHTS[:] = np.arange(3.0)


def test_an_array_bound_anew_is_passed_and_another_shape_is_noticed(module_globals):
    trace = checked_trace(lambda x: x * WEIGHTS, np.ones(3))
    module_globals["WEIGHTS"] = np.full(3, 7.0)
    assert_same(run_again(trace, np.ones(3)), np.full(3, 7.0))
    module_globals["WEIGHTS"] = np.ones(4)
    assert trace.guards.current() is None
    assert trace.guards.changed() == "WEIGHTS was bound to an array of another shape or dtype"


def test_a_number_is_built_in_and_its_change_noticed(module_globals):
    trace = checked_trace(lambda x: x * RATE, np.ones(3))
    assert len(trace.graph.params) == 1
    assert trace.guards.current() == ()
    module_globals["RATE"] = 0.25
    assert trace.guards.current() is None
    assert trace.guards.changed() == "RATE changed from 0.5 to 0.25"
    module_globals["RATE"] = 0.5
    assert trace.guards.current() == ()


def test_arrays_that_python_reads_are_built_in_and_their_change_noticed(module_globals):
    large = np.ones((512, 128))
    for name, array, fun in [("WEIGHTS", WEIGHTS, lambda x: x * WEIGHTS[1]), ("WEIGHTS", WEIGHTS, lambda x: x * np.sin(WEIGHTS)),
                             ("large", large, lambda x: x * float(large[3, 5]))]:
        trace = checked_trace(fun, np.ones(3))
        assert trace.guards.current() is not None
        assert trace.guards.changed() == ""
        saved = array.copy()
        array += 1.0
        assert trace.guards.current() is None
        assert trace.guards.changed().startswith(f"the content of {name}, ")
        array[:] = saved
        assert trace.guards.current() is not None


def test_inputs_and_views_of_them_may_change(module_globals):
    for fun in (lambda x: x * WEIGHTS, lambda x: x[1:] * WEIGHTS[1:], lambda x: x * WEIGHTS.reshape(1, 3)):
        trace = checked_trace(fun, np.ones(3))
        WEIGHTS[:] = 5.0
        assert_same(run_again(trace, np.ones(3)), fun(np.ones(3)))
        WEIGHTS[:] = np.arange(3.0)


class Scaled:
    """An object whose behaviour depends on itself in many ways."""

    factor = 2.0

    def __init__(self):
        self._offset = 1.0

    @property
    def offset(self):
        return self._offset

    def apply(self, x):
        return x * self.factor + self.offset


def test_what_an_instance_shows_of_its_class():
    scaled = Scaled()
    trace = checked_trace(scaled.apply, np.ones(3))
    for change, path in [
        (lambda: setattr(scaled, "factor", 3.0), "self.factor changed from 2.0 to 3.0"),
        (lambda: delattr(scaled, "factor"), ""),
        (lambda: setattr(scaled, "_offset", 5.0), "self._offset changed from 1.0 to 5.0"),
    ]:
        change()
        assert trace.guards.changed() == path
        assert (trace.guards.current() is None) == bool(path)


def test_sets_attributes_of_functions_and_attributes_by_string():
    members = {1.0, 2.0}

    class Box:
        def __init__(self):
            self.size = 2.0

    box = Box()

    def helper(x):
        return x * helper.scale

    helper.scale = 1.0
    trace = checked_trace(lambda x: helper(x) * len(members) * getattr(box, "size"), np.ones(3))  # noqa: B009
    assert trace.guards.current() == ()
    for change, back in [
        (lambda: members.add(3.0), lambda: members.remove(3.0)),
        (lambda: setattr(box, "size", 3.0), lambda: setattr(box, "size", 2.0)),
        (lambda: setattr(helper, "scale", 3.0), lambda: setattr(helper, "scale", 1.0)),
    ]:
        change()
        assert trace.guards.current() is None
        assert trace.guards.changed()
        back()
        assert trace.guards.current() == ()


def test_containers(module_globals):
    def fun(x):
        for layer in SETTINGS["layers"]:
            x = x * layer
        return x * SETTINGS["scale"]

    trace = checked_trace(fun, np.ones(3))
    assert [value.name for value in trace.graph.params] == ["x", "SETTINGS.layers.0", "SETTINGS.layers.1"]
    SETTINGS["layers"][1] = np.full(3, 10.0)
    assert_same(run_again(trace, np.ones(3)), np.full(3, 20.0))
    SETTINGS["layers"].append(np.ones(3))
    assert trace.guards.changed() == "len(SETTINGS['layers']) changed from 2 to 3"
    SETTINGS["layers"].pop()
    SETTINGS["scale"] = 3.0
    assert trace.guards.changed() == "SETTINGS['scale'] changed from 2.0 to 3.0"


def test_closures_and_the_functions_they_call():
    weights, factor = np.ones(3), 2.0

    def by_weights(x):
        return x * weights

    inner = by_weights

    def fun(x):
        return inner(x) * factor

    trace = checked_trace(fun, np.ones(3))
    weights = np.full(3, 4.0)
    assert_same(run_again(trace, np.ones(3)), np.full(3, 8.0))
    factor = 3.0
    assert "factor changed from 2.0 to 3.0" in trace.guards.changed()
    factor = 2.0

    inner = np.tanh

    assert "inner was bound to another object" in trace.guards.changed()


class Model:
    units = 3

    def __init__(self):
        self.w = np.ones(3)
        self.bias = np.float32(1)
        self.calls = 0

    def __call__(self, x):
        return self.layer(x) + self.bias

    def layer(self, x):
        return x * self.w * self.units


@dataclasses.dataclass
class Slotted:
    __slots__ = ("w",)
    w: np.ndarray


@pytest.mark.parametrize("call", [lambda model: model.__call__, lambda model: lambda x: model(x), lambda model: functools.partial(model)])
def test_attributes_of_objects(call):
    model = Model()
    trace = checked_trace(call(model), np.ones(3))
    assert [value.name for value in trace.graph.params][1].endswith("w")
    model.w = np.full(3, 2.0)
    assert_same(run_again(trace, np.ones(3)), np.full(3, 7.0))
    model.calls += 1  # not named in the code that ran
    assert trace.guards.changed() == ""
    model.bias = np.float32(2)
    assert "bias changed from" in trace.guards.changed()
    model.bias = np.float32(1)
    assert trace.guards.changed() == ""
    Model.units = 4
    assert "units changed from 3 to 4" in trace.guards.changed()
    Model.units = 3


def test_slots_modules_and_defaults():
    holder, module = Slotted(np.ones(3)), types.ModuleType("my_settings")
    module.scale = 2.0

    def fun(x, shift=np.full(3, 5.0)):  # noqa: B008
        return x * holder.w * module.scale + shift

    trace = checked_trace(fun, np.ones(3))
    assert len(trace.captured) == 2
    holder.w = np.full(3, 3.0)
    assert_same(run_again(trace, np.ones(3)), np.full(3, 11.0))
    module.scale = 1.0
    assert "module.scale changed from 2.0 to 1.0" in trace.guards.changed()


def test_what_the_function_itself_changes_is_no_guard():
    log, counter = [], {"calls": 0}
    total = 0

    def fun(x):
        nonlocal total
        log.append(x.shape)
        counter["calls"] += 1
        total += 1
        return x

    trace = checked_trace(fun, np.ones(3))
    log.append(None)
    counter["calls"] = 17
    total = 17
    assert trace.guards.changed() == ""


def test_one_array_under_two_names_is_one_input_until_they_part():
    first = second = np.ones(3)
    trace = checked_trace(lambda x: x * first + second, np.ones(3))
    assert len(trace.captured) == 1
    first = np.full(3, 2.0)
    assert trace.guards.current() is None
    second = first
    assert_same(run_again(trace, np.ones(3)), np.full(3, 4.0))


def test_arrays_made_in_the_function_and_views_of_outer_ones():
    table = np.arange(6.0).reshape(2, 3)
    trace = checked_trace(lambda x: x * table[1] + np.array([1.0, 2.0, 3.0]), np.ones(3))
    assert len(trace.captured) == 1     # what the function makes itself is a constant
    table[1] = 0
    assert_same(run_again(trace, np.ones(3)), np.array([1.0, 2.0, 3.0]))
    table = np.ones((2, 3))  # the view was of the old one
    assert "table was bound to another object" in trace.guards.changed()


def test_the_content_of_a_mask_is_guarded():
    mask = np.array([True, False, True])
    trace = checked_trace(lambda x: x[mask], np.ones(3))
    assert trace.guards.changed() == ""
    mask[1] = True
    assert trace.guards.current() is None
    assert trace.guards.changed() == "the content of a mask that decides a shape changed"


def test_a_transposed_array_is_transposed_in_the_graph():
    for matrix in (np.ones((2, 3)), np.arange(6.0).reshape(2, 3)):
        trace = checked_trace(lambda x, matrix=matrix: x @ matrix.T + (x @ matrix.T), np.ones((2, 3)))
        assert [array.shape for array in trace.captured] == [(2, 3)]
        assert trace.captured[0].flags.c_contiguous
        matrix[0] = 5
        assert_same(run_again(trace, np.ones((2, 3))), 2 * (np.ones((2, 3)) @ matrix.T))
    cube = np.arange(24.0).reshape(2, 3, 4)
    trace = checked_trace(lambda x: x + cube.transpose(1, 2, 0) + cube.transpose(2, 0, 1).sum() + cube[:, 1].T.sum(), 1.0)
    assert_same(run_again(trace, np.asarray(1.0)), 1.0 + cube.transpose(1, 2, 0) + cube.sum() + cube[:, 1].sum())
    owner = np.ones((3, 2))
    trace = checked_trace(lambda x: x @ owner.T @ owner, np.ones((1, 2)))
    assert [array is owner for array in trace.captured] == [True]


def test_layouts_of_captured_arrays():
    base = np.arange(12.0).reshape(3, 4)
    for array in (base.T, base[::-1, ::2], np.asfortranarray(base), base.astype(">f8"), np.zeros((0, 3)), np.array(2.0)):
        trace = checked_trace(lambda x, array=array: np.sum(array) + x, 1.0)
        native = [a.astype(a.dtype.newbyteorder("=")) for a in trace.captured]
        (result,) = interpret(trace.graph, [np.asarray(1.0), *native])
        np.testing.assert_allclose(result, array.sum() + 1)
        assert trace.graph.params[1].type.dtype == np.float64 if len(trace.graph.params) > 1 else True


def test_recursive_structures_end():
    loop: dict = {"w": np.ones(3)}
    loop["self"] = loop
    trace = checked_trace(lambda x: x * loop["w"], np.ones(3))
    assert trace.guards.changed() == ""


MATRIX = np.arange(36.0).reshape(6, 6) ** 1.5
COLUMN = MATRIX[:, 3]
ALIAS = MATRIX
ROWS = np.arange(12) % 6


def test_views_with_gaps_are_views_of_what_they_were_made_of_and_stay_up_to_date(monkeypatch) -> None:
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "MATRIX", MATRIX.copy())
    monkeypatch.setattr(module, "COLUMN", MATRIX[:, 3])
    monkeypatch.setattr(module, "ALIAS", MATRIX)

    def fun(x):
        return (x * MATRIX[:, 1] + x * COLUMN + x * ALIAS[::-1, 2] + MATRIX[::3, ::-2][1, 0] * x + x[ROWS[::2]]
                + MATRIX.T[::2, 1:][:, 4].sum() * x + np.diagonal(MATRIX) * x)

    compiled, x = aj.compile(fun), np.linspace(-1.0, 1.0, 6)

    def holds() -> None:
        for _ in range(4):
            np.testing.assert_allclose(compiled(x), fun(x), rtol=1e-14)

    holds()
    MATRIX[:, 1:4] = 7.0
    holds()
    monkeypatch.setattr(module, "MATRIX", np.asfortranarray(MATRIX * 2))
    holds()
    monkeypatch.setattr(module, "COLUMN", COLUMN * 3)
    holds()
    monkeypatch.setattr(module, "MATRIX", np.ascontiguousarray(MATRIX))
    MATRIX[2] = 9.0
    holds()
    COLUMN[:], MATRIX[:, 1], ALIAS[::-1] = 5.0, -1.0, 2.0
    holds()


def test_calls_with_a_view_with_gaps_run_no_python() -> None:
    for fun in (lambda x: x * MATRIX[:, 1], lambda x: x[ROWS[::2]]):
        compiled, x, events = aj.compile(fun), np.ones(6), []
        for _ in range(5):
            compiled(x)
        sys.setprofile(lambda frame, event, _, events=events: events.append(frame.f_code.co_name) if event == "call" else None)
        try:
            compiled(x)
        finally:
            sys.setprofile(None)
        assert events == []


def test_a_view_with_gaps_is_read_before_and_after_a_write_to_its_array() -> None:
    matrix = np.arange(9.0).reshape(3, 3)

    def fun(x):
        column = matrix[:, 1]
        y = x * column
        matrix[:, 1] = x
        return y + column * matrix[:, 2]

    x = np.array([1.0, -2.0, 0.5])
    for _ in range(3):
        before = matrix.copy()
        expected = fun(x)
        after = matrix.copy()
        matrix[:] = before
        np.testing.assert_array_equal(aj.compile(fun)(x), expected)
        np.testing.assert_array_equal(matrix, after)
