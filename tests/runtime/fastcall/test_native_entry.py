"""Calls that go straight to machine code: what is taken, what is left to Python, and that it is told what it was before."""

from __future__ import annotations

import collections
import gc
import pickle
import weakref

import numpy as np
import pytest
from support.native_calls import V, X, hot, needs_entry, runs_natively, transpose

import adjit
from adjit.codegen.fastcall import object_layout
from adjit.codegen.fastcall.compile_fastcall import compile_fastcall, fastcall_text
from adjit.runtime.compiled import CompiledFunction
from adjit.runtime.fastcall import program_descriptor
from adjit.runtime.fastcall.callable_type import callable_type
from adjit.runtime.fastcall.descriptors import MAX_PROGRAMS

pytestmark = needs_entry

OFFSET = np.array([1.0, 2.0, 3.0])
SCALE = 2.0


def test_the_text_is_valid_and_compiles() -> None:
    assert compile_fastcall(fastcall_text(24)).object_code == compile_fastcall(fastcall_text(24)).object_code
    assert fastcall_text(16) != fastcall_text(24)


def test_results_are_those_of_python() -> None:
    def function(tree, *, scale):
        return {"t": (tree["a"].T, None, [tree["b"][0] @ tree["a"]]), "n": 3, "w": scale * tree["a"].T, "s": tree["b"][0] @ tree["b"][0]}

    tree = {"a": X, "b": (np.arange(2.0), None)}
    found = hot(function, tree, scale=0.5)(tree, scale=0.5)
    wanted = function(tree, scale=0.5)
    assert list(found) == list(wanted)
    assert found["n"] == 3
    assert type(found["t"]) is tuple
    assert found["t"][1] is None
    assert type(found["t"][2]) is list
    assert type(found["s"]) is np.float64
    for a, b in ((found["t"][0], wanted["t"][0]), (found["t"][2][0], wanted["t"][2][0]), (found["w"], wanted["w"])):
        assert type(a) is np.ndarray
        assert a.flags.owndata
        assert a.flags.c_contiguous
        assert a.flags.writeable
        np.testing.assert_array_equal(a, b)
    assert found["s"] == wanted["s"]


@pytest.mark.parametrize("count", [40, 170, 171, 172, 700])
def test_calls_of_any_number_of_values_are_taken(count: int) -> None:
    """Short lists of addresses lie on the stack, long ones in a block."""
    arrays = [np.full(2, float(k)) for k in range(count)]
    function = hot(lambda arrays, scale: [array * scale for array in arrays[:40]] + [arrays[-1][0], np.concatenate(arrays).sum()],
                   arrays, 2.0)
    for scale in (1.0, 3.0):
        *found, last, total = function(arrays, scale)
        assert [array.tolist() for array in found] == [[scale * k] * 2 for k in range(40)]
        assert (last, total) == (count - 1, count * (count - 1))
    assert runs_natively(function, arrays, 4.0)
    assert not runs_natively(function, [*arrays[:-1], np.zeros(3)], 4.0)
    with pytest.raises(TypeError):
        function(arrays)


def test_arguments_of_many_kinds_are_taken() -> None:
    text = "abc" * 50

    def function(x, w, s, n, name, flag, nothing):
        return x.T * (w * s + n) if flag and name and nothing is None else x

    def arguments():
        return X, 0.25, np.float64(3.0), int("100000"), "".join(list(text)), True, None

    function_ = hot(function, *arguments())
    assert runs_natively(function_, *arguments())
    np.testing.assert_array_equal(function_(*arguments()), X.T * (0.25 * 3.0 + 100000))
    assert runs_natively(function_, X, 0.5, np.float64(7.0), 100000, text, True, None)
    np.testing.assert_array_equal(function_(X, 0.5, np.float64(7.0), 100000, text, True, None), X.T * (0.5 * 7.0 + 100000))
    traces = function_.cache_info().traces
    for other in ((X, 0.5, np.float64(3.0), 100001, text, True, None), (X, 0.5, np.float64(3.0), 100000, text, 1, None),
                  (X, 0.5, np.float64(3.0), 100000, text + "d", True, None), (X, 1, np.float64(3.0), 100000, text, True, None),
                  (X, 0.5, np.float32(3.0), 100000, text, True, None), (X, 0.5, np.array(3.0), 100000, text, True, None)):
        assert not runs_natively(function_, *other)
        traces += 1
        assert function_.cache_info().traces == traces


@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8", "u1", "?"])
def test_every_dtype_and_its_scalars(dtype: str) -> None:
    def function(x, s):
        return x.T, s.reshape(1), s

    x, scalar = np.arange(6).reshape(2, 3).astype(dtype), np.dtype(dtype).type(1)
    for s in (scalar, np.array(scalar)):
        function_ = hot(function, x, s)
        assert runs_natively(function_, x, s)
        a, b, c = function_(x, s)
        np.testing.assert_array_equal(a, x.T)
        assert a.dtype == b.dtype == dtype
        assert b[0] == scalar
        assert type(c) is np.dtype(dtype).type
        assert c == scalar


def other_arrays() -> dict[str, np.ndarray]:
    unaligned = np.zeros(49, np.uint8)[1:].view(np.float64).reshape(2, 3)
    unaligned[:] = X
    return {"float32": X.astype(np.float32), "int64": X.astype(np.int64), "shape": X.T.copy(), "rank": X.reshape(1, 2, 3),
            "strides": np.repeat(X, 2, axis=1)[:, ::2], "order": np.asfortranarray(X), "bytes": X.astype(">f8"), "unaligned": unaligned,
            "empty": np.zeros((0, 3)), "reversed": X[::-1]}


@pytest.mark.parametrize("name", other_arrays())
def test_other_arrays_are_left_to_python(name: str) -> None:
    function, other = hot(transpose, X), other_arrays()[name]
    assert not runs_natively(function, other)
    found = function(other)
    np.testing.assert_array_equal(found, other.T)
    assert found.dtype == other.dtype.newbyteorder("=")
    np.testing.assert_array_equal(function(X), X.T)


def test_an_array_with_an_equal_dtype_is_taken() -> None:
    loaded = pickle.loads(pickle.dumps(X))
    assert loaded.dtype is not X.dtype
    assert runs_natively(hot(transpose, X), loaded)


def test_what_is_no_array_is_refused_as_ever() -> None:
    class Subclass(np.ndarray):
        pass

    class Table(dict):
        pass

    function = hot(transpose, X)
    for wrong in (X.view(Subclass), np.ma.array(X), X.tolist(), "x", None, object(), b"x"):
        with pytest.raises(Exception) as plain:      # whatever it is that a function never called before says
            adjit.compile(transpose, backend="native")(wrong)
        with pytest.raises(type(plain.value)) as error:
            function(wrong)
        assert str(error.value).splitlines()[0] == str(plain.value).splitlines()[0]
    take = hot(lambda tree: tree["a"].T, {"a": X})
    for other in (collections.OrderedDict(a=X), Table(a=X)):
        assert not runs_natively(take, other)
        np.testing.assert_array_equal(take(other), X.T)


def test_the_structure_counts() -> None:
    def function(tree):
        return next(iter(tree.values())).T

    function_ = hot(function, {"a": X, "b": V})
    assert runs_natively(function_, {"a": X, "b": V})
    assert runs_natively(function_, {"".join(["", "a"]): X, "b": V})
    for other in ({"a": X}, {"a": X, "b": V, "c": V}, {"a": X, "c": V}, {"b": V, "a": X}, {"a": X, "b": (V,)}, {"a": X, 1: V}):
        assert not runs_natively(function_, other)
        np.testing.assert_array_equal(function_(other), function(other))
    listed = hot(lambda items: items[0].T, [X, V])
    for items in ((X, V), [X], [X, V, V], [V, X]):
        assert not runs_natively(listed, items)


def test_keywords() -> None:
    def function(x, y=V, *, z=V):
        return x.T, y + z

    function_ = hot(function, X, z=OFFSET)
    np.testing.assert_array_equal(function_(X, z=OFFSET)[1], V + OFFSET)
    assert not runs_natively(function_, X, y=OFFSET)
    np.testing.assert_array_equal(function_(X, y=OFFSET)[1], V + OFFSET)
    np.testing.assert_array_equal(function_(X, **{"".join(["", "z"]): V, "y": V})[1], V + V)
    assert not runs_natively(function_, x=X, z=V)
    assert runs_natively(hot(function_, x=X, z=V), x=X, z=V)
    for args, kwargs in (((), {}), ((X, V, V), {"z": V}), ((X,), {"w": V}), ((X,), {"x": X})):
        with pytest.raises(TypeError, match=r"function\(\)"):
            function_(*args, **kwargs)


def test_donated_arrays_come_back_themselves() -> None:
    @adjit.compile(backend="native", donate="state")
    def step(state, x):
        return {"a": state["a"] @ x, "b": state["b"]}, x.T

    def state() -> dict[str, np.ndarray]:
        return {"a": np.eye(3), "b": np.ones(3)}

    given, x = state(), np.arange(9.0).reshape(3, 3)
    hot(step, given, x)
    given = state()
    found, _ = step(given, x)
    assert found["a"] is given["a"]
    assert found["b"] is given["b"]
    np.testing.assert_array_equal(found["a"], x)
    assert runs_natively(step, state(), x)

    locked = state()
    locked["a"].flags.writeable = False
    shared = state()
    shared["b"] = shared["a"][1]
    for wrong, other in ((locked, x), (shared, x), (state(), None), ({"a": np.eye(3).T[::-1], "b": np.ones(3)}, x)):
        before = {name: array.copy() for name, array in wrong.items()}
        with pytest.raises(adjit.errors.DonationError):
            step(wrong, wrong["a"] if other is None else other)
        for name, array in wrong.items():
            np.testing.assert_array_equal(array, before[name])
    overlapping = np.zeros(17)
    with pytest.raises(adjit.errors.DonationError):
        step({"a": overlapping[:9].reshape(3, 3), "b": np.ones(3)}, overlapping[8:].reshape(3, 3))
    neighbours = np.zeros(18)
    assert runs_natively(step, {"a": neighbours[:9].reshape(3, 3), "b": np.ones(3)}, neighbours[9:].reshape(3, 3))


def test_what_the_function_reaches_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    number = 3.0
    table = [1.0, 2.0]

    def function(x):
        return x * number * SCALE * table[0] + OFFSET * len(table)

    function_ = hot(function, X)
    np.testing.assert_array_equal(function_(X), function(X))
    changed = np.array([5.0, 6.0, 7.0])
    monkeypatch.setitem(globals(), "OFFSET", changed)
    np.testing.assert_array_equal(function_(X), function(X))
    changed[:] = 0
    np.testing.assert_array_equal(hot(function_, X)(X), function(X))
    monkeypatch.setitem(globals(), "SCALE", 5.0)
    assert not runs_natively(function_, X)
    np.testing.assert_array_equal(hot(function_, X)(X), function(X))
    number = 4.0
    np.testing.assert_array_equal(hot(function_, X)(X), function(X))
    table[0] = 8.0
    np.testing.assert_array_equal(hot(function_, X)(X), function(X))
    table.append(1.0)
    np.testing.assert_array_equal(function_(X), function(X))
    monkeypatch.delitem(globals(), "SCALE")
    with pytest.raises(NameError):
        function_(X)


@pytest.mark.parametrize("kind", [np.int64, np.float64, np.int32])
def test_vectors_that_decide_shapes_are_compared(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """By machine code, without Python."""
    looked = []
    holds = program_descriptor._all_holds
    monkeypatch.setattr(program_descriptor, "_all_holds", lambda guards: looked.append(guards) or holds(guards))
    bounds = np.array([0, 2, 3], kind)

    def function(v):
        return np.sum(v[:int(bounds[1])]) + 10 * np.sum(v[int(bounds[1]):int(bounds[2])])

    vector = np.array([1.0, 2.0, 4.0])
    function_ = hot(function, vector)
    assert runs_natively(function_, vector)
    assert not looked
    assert function_(vector) == 43
    bounds[1] = 1
    assert function_(vector) == 61
    assert hot(function_, vector)(vector) == 61
    bounds[1] = 2
    assert function_(vector) == 43
    bounds.resize(2, refcheck=False)
    with pytest.raises(IndexError):
        function_(vector)


def test_what_only_python_can_look_at() -> None:
    class Settings:
        def __init__(self) -> None:
            self.scale = 2.0

    settings = Settings()

    def function(x):
        return x.T * settings.scale

    function_ = hot(function, X)
    settings.scale = 3.0
    np.testing.assert_array_equal(function_(X), X.T * 3)
    np.testing.assert_array_equal(hot(function_, X)(X), X.T * 3)


def test_a_trace_under_way_takes_the_function_in() -> None:
    inner = hot(transpose, X)

    def outer(x):
        return inner(X) + inner(x)

    before = inner._cache.record.hits
    compiled = adjit.compile(outer, backend="native")
    np.testing.assert_array_equal(compiled(X), X.T * 2)
    assert inner._cache.record.hits == before
    np.testing.assert_array_equal(adjit.grad(lambda x: inner(x).sum())(X), np.ones_like(X))
    assert runs_natively(inner, X)


def test_whether_gradients_are_recorded_counts() -> None:
    def function(x):
        return x.T * (2.0 if adjit.is_grad_enabled() else 3.0)

    function_ = hot(function, X)
    with adjit.no_grad():
        np.testing.assert_array_equal(function_(X), X.T * 3)
        np.testing.assert_array_equal(hot(function_, X)(X), X.T * 3)
    np.testing.assert_array_equal(function_(X), X.T * 2)
    assert runs_natively(function_, X)


def test_counts_and_reports_are_those_of_all_calls() -> None:
    function = hot(transpose, X)
    other = V.reshape(1, 3)
    for _ in range(4):
        function(other)
    for _ in range(5):
        function(X)
    assert function.cache_info()[:3] == (10, 2, 2)      # 3 and 5 of the first, 4 of the second, without the first of each
    assert [program.calls for program in function.programs()] == [8, 4]
    assert "f64[2,3]" in function.ir()
    function(other)
    assert "f64[1,3]" in function.ir()
    assert "5 calls" in function.explain()
    function.clear_cache()
    assert function.cache_info()[:3] == (0, 0, 0)
    np.testing.assert_array_equal(function(X), X.T)


def test_the_programs_used_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ADJIT_SIGNATURES", "2")
    function = adjit.compile(transpose, backend="native")
    arrays = [np.zeros((1, n)) for n in range(1, 5)]
    for array in (arrays[0], arrays[1]):
        hot(function, array)
    for array in (arrays[0], arrays[2]):
        function(array)
    assert [program.signature.leaf_keys[0][1] for program in function.programs()] == [(1, 1), (1, 3)]
    assert runs_natively(function, arrays[0])
    assert not runs_natively(function, arrays[1])


@pytest.mark.filterwarnings("ignore:.* was traced 16 times")
def test_more_signatures_than_the_entry_tries() -> None:
    function = adjit.compile(transpose, backend="native")
    arrays = [np.arange(n + 1.0).reshape(1, -1) for n in range(2 * MAX_PROGRAMS)]
    for _ in range(4):
        for array in arrays:
            np.testing.assert_array_equal(function(array), array.T)
    recent = arrays[-MAX_PROGRAMS:]
    assert all(runs_natively(function, array) for array in (*recent, *reversed(recent)))
    assert function.cache_info().traces == len(arrays)


def test_methods_and_static_arguments() -> None:
    class Model:
        def __init__(self, scale: float):
            self.scale = scale

        @adjit.compile(backend="native", static="power")
        def predict(self, x, power):
            return self.scale * x.T ** power

    models = [Model(2.0), Model(3.0)]
    for _ in range(4):
        for model in models:
            np.testing.assert_array_equal(model.predict(X, 2), model.scale * X.T ** 2)
    before = Model.predict._cache.record.hits
    assert [model.predict(X, 2)[0, 1] for model in models] == [18.0, 27.0]
    assert Model.predict._cache.record.hits == before + 2
    models[0].scale = 5.0
    np.testing.assert_array_equal(models[0].predict(X, 2), 5 * X.T ** 2)
    with pytest.raises(TypeError):
        models[0].predict(X)
    method = models[1].predict
    models.clear()
    gc.collect()
    np.testing.assert_array_equal(method(X, 2), 3 * X.T ** 2)
    np.testing.assert_array_equal(Model(4.0).predict(X, 2), 4 * X.T ** 2)
    power = adjit.compile(lambda x, how: x.T * how[0], backend="native", static="how")
    for how in ([2.0], [3.0]):
        for _ in range(3):
            np.testing.assert_array_equal(power(X, how), X.T * how[0])
    how[0] = 7.0
    np.testing.assert_array_equal(power(X, how), X.T * 7)


def test_results_that_python_builds() -> None:
    point = collections.namedtuple("point", "a b")
    function = hot(lambda x: point(x.T, {"c": x + 1}), X)
    found = function(X)
    assert type(found) is point
    np.testing.assert_array_equal(found.a, X.T)
    np.testing.assert_array_equal(found.b["c"], X + 1)


def test_functions_are_freed_with_their_programs() -> None:
    function = hot(lambda x: x.T + OFFSET[:2], X)
    watched = [weakref.ref(thing) for thing in (function, function._cache.last, function._cache.last.record, function.fun)]
    del function
    gc.collect()
    assert [reference() for reference in watched] == [None] * 4


def test_without_an_entry_python_does_it_all(monkeypatch: pytest.MonkeyPatch) -> None:
    callable_type.cache_clear()
    monkeypatch.setattr(object_layout, "known", lambda: False)
    try:
        function = adjit.compile(transpose, backend="native")
        for _ in range(4):
            np.testing.assert_array_equal(function(X), X.T)
        assert type(function) is CompiledFunction
        assert function._cache.record.hits == 0
        assert function.cache_info().hits == 3
    finally:
        callable_type.cache_clear()


def test_the_callable_type_is_a_subclass_that_is_called_in_python_at_first() -> None:
    function = adjit.compile(transpose, backend="native")
    assert isinstance(function, CompiledFunction)
    assert (type(function).__name__, type(function).__module__, function.__name__) == (
        "CompiledFunction", CompiledFunction.__module__, "transpose")
    np.testing.assert_array_equal(function(X), X.T)
    assert function._cache.record.hits == 0
    assert callable_type(CompiledFunction) is type(function)
