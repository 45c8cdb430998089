"""Arguments: trees, static and traced leaves, cache keys, and what is said when they change. Regions."""

from __future__ import annotations

import dataclasses
import enum
from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from support.tracing import assert_as_numpy, assert_same, checked_trace, run_traced

import adjit as aj
from adjit.ir import ops
from adjit.ir.errors import TraceError, UnsupportedError
from adjit.ir.verifier import verify
from adjit.tracer.region_trace import trace_region
from adjit.tracer.signature import describe_difference, flatten_call
from adjit.tracer.trace import is_tracing, trace_function, wrap

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)


def function(params, x, n=2, *rest, lr=0.1, mode="train"):
    return x


def signature(*args, static=(), fun=function, **kwargs):
    return flatten_call(fun, args, kwargs, frozenset(static))


def example(**changes):
    params = {"w1": np.ones((784, 512), np.float32), "b": [np.ones(512), np.ones(3)]}
    values = {"params": params, "x": np.ones((4, 784)), **changes}
    return signature(values["params"], values["x"], values.get("n", 2), lr=values.get("lr", 0.1), mode=values.get("mode", "train"))


def test_paths_and_descriptions():
    call = example()
    assert call.descriptions() == [
        "params['w1']: f32[784,512]",
        "params['b'][0]: f64[512]",
        "params['b'][1]: f64[3]",
        "x: f64[4,784]",
        "n: 2",
        "lr: a Python float",
        "mode: 'train'",
    ]
    assert call.value_names() == ["params.w1", "params.b.0", "params.b.1", "x", "lr"]
    assert [str(call.leaf_type(i)) for i in range(4)] == ["f32[784,512]", "f64[512]", "f64[3]", "f64[4,784]"]
    assert [leaf.shape for leaf in call.leaves] == [(784, 512), (512,), (3,), (4, 784), ()]
    assert signature({}, 1.0, 2, 3.0, np.ones(2)).traced_paths() == ["x", "rest[0]", "rest[1]"]


def test_equal_keys_for_new_values_and_other_layouts():
    assert example().key == example(params={"w1": np.zeros((784, 512), np.float32), "b": [np.zeros(512), np.zeros(3)]}).key
    assert hash(example().key) == hash(example().key)
    assert example().key == example(x=np.ones((784, 4)).T).key
    assert example().key == example(x=np.ones((4, 784), ">f8")).key
    assert example().key == example(lr=0.7).key
    assert signature({}, np.float64(1)).key == signature({}, np.float64(2)).key != signature({}, np.array(1.0)).key
    assert example(x=np.ones((4, 784), ">f8")).leaves[3].dtype.isnative


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"x": np.ones((5, 784))}, "x changed from f64[4,784] to f64[5,784]"),
        ({"x": np.ones((4, 784), np.float32)}, "x changed from f64[4,784] to f32[4,784]"),
        ({"n": 3}, "the static value of n changed from 2 to 3"),
        ({"n": True}, "the static value of n changed from 2 to True (bool)"),
        ({"mode": "test"}, "the static value of mode changed from 'train' to 'test'"),
        ({"lr": np.float32(0.1)}, "lr changed from a Python float to f32[]"),
        ({"lr": 1}, "lr changed from a Python float to 1"),
        (
            {"params": {"w1": np.ones((784, 512), np.float32), "b": [np.ones(512), np.ones(4)]}},
            "params['b'][1] changed from f64[3] to f64[4]",
        ),
        (
            {"params": {"w1": np.ones((784, 512), np.float32), "b": [np.ones(512)]}},
            "the structure of the arguments changed: params['b'][1] gone",
        ),
        (
            {"params": {"w1": np.ones((784, 512), np.float32), "b": [np.ones(512), np.ones(3)], "c": 1.0}},
            "the structure of the arguments changed: params['c'] added",
        ),
        (
            {"params": {"w1": np.ones((784, 512), np.float32), "b": (np.ones(512), np.ones(3))}},
            "the structure of the arguments changed: from (({",
        ),
    ],
)
def test_differences_are_explained(changes, sentence):
    old, new = example(), example(**changes)
    assert old.key != new.key
    assert describe_difference(old, new).startswith(sentence)


def test_static_values_that_python_calls_equal_are_told_apart():
    keys = [
        signature({}, 1.0, value, static=("n",)).key for value in (
            1, True, 1.0, 0.0, -0.0, (1,), (True,), [1], "1", None, np.float32, len, np.int64(1), np.float64(1.0), np.float32(0.0),
            np.float32(-0.0), 1 + 0j, complex(1, -0.0))
    ]
    assert len(set(keys)) == len(keys)
    for nan in (float("nan"), np.float32("nan")):
        assert signature({}, 1.0, nan, static=("n",)).key == signature({}, 1.0, -nan, static=("n",)).key
    assert signature({}, 1.0, {"a": [1, 2]}, static=("n",)).key == signature({}, 1.0, {"a": [1, 2]}, static=("n",)).key


def test_static_values_are_described_as_they_are_written():
    values = [1.5, (1, 2.5), (True,), [1, "a"], {"a": [None, np.float32(0.5)]}, ()]
    for old, new in zip(values, values[1:] + values[:1], strict=True):
        sentence = describe_difference(signature({}, 1.0, old, static=("n",)), signature({}, 1.0, new, static=("n",)))
        words = [repr(value).replace("True", "True (bool)") for value in (old, new)]
        assert sentence == f"the static value of n changed from {words[0]} to {words[1]}"


def test_static_arguments_by_position_and_name():
    seen = []

    def fun(x, sizes, *, scale):
        seen.append((sizes, scale))
        return x * scale

    trace = trace_function(fun, (np.ones(2), {"a": (3, 4.0)}), {"scale": 2.5}, static_names=frozenset({"sizes", "scale"}))
    assert seen == [({"a": (3, 4.0)}, 2.5)]
    assert len(trace.graph.params) == 1
    with pytest.raises(UnsupportedError, match="the static argument sizes is a ndarray, which has no hash"):
        trace_function(fun, (np.ones(2), np.ones(2)), {"scale": 1.0}, static_names=frozenset({"sizes"}))


class Color(enum.Enum):
    RED = 1


class Level(enum.IntEnum):
    LOW = 1


def test_what_is_static():
    def fun(x, *others):
        assert others == static
        return x

    static = (True, 3, "a", None, Color.RED, Level.LOW, np.tanh, np.float32, np.dtype("f4"), b"x", range(3), slice(1, None), ...)
    run_traced(fun, np.ones(2), *static)


def test_slices_and_ranges_are_part_of_the_program():
    cut = aj.compile(lambda x, where, rounds: sum((x[where] * i for i in rounds), np.zeros(1)))
    x = np.arange(5.0)
    for where, rounds in [(slice(1, 2), range(3)), (slice(2, 3), range(3)), (slice(2, 3), range(1, 4)), (slice(1, 2), range(3))]:
        assert_same(cut(x, where, rounds), x[where] * sum(rounds))
    assert cut.cache_info().traces == 3
    assert "slice(1, 2, None) to slice(2, 3, None)" in cut.explain(x, slice(2, 3), range(3))


Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass(frozen=True)
class State:
    weights: dict
    step: object
    name: str = "state"

    def __post_init__(self):
        assert isinstance(self.weights, dict)


def test_trees_of_all_kinds_go_in_and_come_out():
    def fun(state, pair, ordered, nested):
        weights = {name: w * 2 for name, w in state.weights.items()}
        return (
            dataclasses.replace(state, weights=weights, step=state.step + 1),
            Pair(pair.second, pair.first),
            OrderedDict(reversed(ordered.items())),
            [nested, None, (), 3, "x", 1.5],
        )

    state = State({"b": np.ones(2), "a": np.zeros(3)}, np.int64(1))
    ordered = OrderedDict(z=np.ones(1), a=np.ones(2))
    new, pair, swapped, nested = run_traced(fun, state, Pair(np.ones(1), 2.0), ordered, ({"k": (np.ones(2),)}, []))
    assert isinstance(new, State)
    assert list(new.weights) == ["b", "a"]
    assert_same(new.weights["b"], np.full(2, 2.0))
    assert new.step == 2
    assert new.name == "state"
    assert pair.first == 2.0
    assert isinstance(pair, Pair)
    assert list(swapped) == ["a", "z"]
    assert nested[1:] == [None, (), 3, "x", 1.5]
    assert_same(nested[0][0]["k"][0], np.ones(2))
    call = flatten_call(fun, (state, Pair(np.ones(1), 2.0), ordered, ({"k": (np.ones(2),)}, [])), {})
    assert call.traced_paths() == [
        "state.weights['b']",
        "state.weights['a']",
        "state.step",
        "pair.first",
        "pair.second",
        "ordered['z']",
        "ordered['a']",
        "nested[0]['k'][0]",
    ]


def test_the_order_of_a_dict_is_part_of_the_program():
    def first(params):
        return next(iter(params.values())) * 2

    one, other = {"a": np.ones(2), "b": np.zeros(2)}, {"b": np.zeros(2), "a": np.ones(2)}
    assert flatten_call(first, (one,), {}).key != flatten_call(first, (other,), {}).key
    for params in (one, other):
        assert_as_numpy(first, params)


def test_methods_are_told_apart_by_their_object():
    class Model:
        def __init__(self, w):
            self.w = w

        def call(self, x):
            return x * self.w

    first, second = Model(np.ones(2)), Model(np.ones(2))
    assert flatten_call(first.call, (np.ones(2),), {}).key == flatten_call(first.call, (np.ones(2),), {}).key
    assert flatten_call(first.call, (np.ones(2),), {}).key != flatten_call(second.call, (np.ones(2),), {}).key
    assert flatten_call(first.call, (np.ones(2),), {}).traced_paths() == ["x"]


def test_layouts_that_work():
    base = np.arange(24.0).reshape(2, 3, 4)
    for x in (
        base,
        base.T,
        base[::-1],
        base[:, ::2, ::-1],
        np.asfortranarray(base),
        base.astype(">f4"),
        base.astype(">i4"),
        base[:0],
        np.array(3.0),
        np.zeros((2, 0, 3)),
        np.broadcast_to(base[0], (2, 3, 4)),
    ):
        expected = np.asarray(x, x.dtype.newbyteorder("=")) * 2 + 1
        assert_same(run_traced(lambda x: x * 2 + 1, x), expected)


def test_results_may_be_arguments_constants_or_the_same_twice():
    plain = np.arange(2.0)

    def fun(x):
        y = x + 1
        return x, y, y, plain, 7, np.float32(2)

    assert_as_numpy(fun, np.ones(2))


def test_is_tracing():
    assert not is_tracing()
    seen = []
    checked_trace(lambda x: seen.append(is_tracing()) or x, np.ones(1))
    assert seen == [True]
    with pytest.raises(ZeroDivisionError):
        trace_function(lambda x: 1 // 0, (np.ones(1),), {})
    assert not is_tracing()


# -- regions


def call_region(region):
    """A region, run where it stands, by an op that owns it."""
    values = ops.checkpoint.emit(*region.operands, regions=(region.graph,))
    return region.rebuild(values)


OUTER = np.full(3, 2.0)


def test_a_region_is_closed_over_what_it_uses():
    regions = []

    def fun(x, params):
        scale = x.sum()

        def inner(params, factor, flag):
            assert flag == "on"
            hidden = params["w"] * scale + OUTER
            return {"out": np.tanh(hidden) * factor, "none": None, "number": 3}

        regions.append(trace_region(inner, (params, 0.5), {"flag": "on"}))
        return call_region(regions[-1])

    x, params = np.arange(3.0), {"w": np.ones(3, np.float32)}
    trace = checked_trace(fun, x, params)
    (region,) = regions
    verify(region.graph)
    assert region.argument_count == 2
    assert [str(value.type) for value in region.graph.params] == ["f32[3]", "f64[]", "f64[]", "f64[3]"]
    assert [value.type for value in region.operands] == [value.type for value in region.graph.params]
    assert trace.graph.param_roles == ("input", "input", "captured")
    result = run_traced(fun, x, params)
    assert_same(result["out"], np.tanh(params["w"] * x.sum() + OUTER) * 0.5)
    assert result["number"] == 3


def test_regions_nest():
    def fun(x):
        def outer(y):
            def inner(z):
                return z * x + y.sum() + OUTER

            return call_region(trace_region(inner, (y * 2,)))

        return call_region(trace_region(outer, (x + 1,)))

    def reference(x):
        return (x + 1) * 2 * x + (x + 1).sum() + OUTER

    x = np.arange(3.0)
    assert_same(run_traced(fun, x), reference(x))


def test_writes_stay_within_their_region():
    def write_outer(x):
        y = x.copy()

        def inner(z):
            y[0] = z[0]
            return z

        return call_region(trace_region(inner, (x,)))

    with pytest.raises(TraceError, match="made outside of a differentiated or control-flow function is written to"):
        run_traced(write_outer, np.ones(3))

    def write_own(x):
        y = x.copy()
        view = y[1:]
        y[1] = 7

        def inner(z):
            w = z.copy()
            w[0] = view[0]  # a view of the outer array, read here
            return w

        result = call_region(trace_region(inner, (x,)))
        y[1] = 8
        return result, view

    assert_same(run_traced(write_own, np.ones(3)), (np.array([7.0, 1.0, 1.0]), np.array([8.0, 1.0])))


def test_values_of_a_region_do_not_leave_it():
    kept = []

    def fun(x):
        call_region(trace_region(lambda z: kept.append(z * 2) or z, (x,)))
        return kept[0] + 1

    with pytest.raises(TraceError, match="used after the end of its trace"):
        run_traced(fun, np.ones(3))


def test_wrapping_a_value():
    def fun(x):
        return wrap(ops.negative(x.value))

    assert_same(run_traced(fun, np.ones(3)), -np.ones(3))
    with pytest.raises(TraceError, match="a region is traced outside of a trace"):
        trace_region(lambda x: x, (np.ones(3),))


def test_static_objects_that_are_equal_by_less_than_they_hold():
    class Species:
        __slots__ = ("__dict__", "mass", "name")

        def __init__(self, name, mass, charges=(1, 2.0)):
            self.name, self.mass, self.charges = name, mass, charges

        def __eq__(self, other):
            return self.name == other.name

        def __hash__(self):
            return hash(self.name)

    compiled = aj.compile(lambda x, species: x * species.mass * species.charges[0], static="species", backend="interpret")
    heavy, light = Species("He", 4.0), Species("He", 3.0)
    assert [compiled(1.0, each) for each in (heavy, light, Species("He", 4.0), Species("He", 4.0, (2, 2.0)))] == [4.0, 3.0, 4.0, 8.0]
    assert compiled.cache_info().traces == 3
    light.mass = 5.0
    assert compiled(1.0, light) == 5.0
