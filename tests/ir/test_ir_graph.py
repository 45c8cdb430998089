"""Types, graphs and the builder: what is inferred, kept, closed over and counted."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder, trace_graph
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.emitter import emitters, emitting
from adjit.ir.errors import DTypeError, Location, Role, TraceError
from adjit.ir.graph import Graph, Op, Value, attribute_key, last_uses, live_ops, needed_ops, positions, producers, readers, use_counts, walk
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.types import F32, F64, SHORT_NAMES, TensorType, check_dtype, short_name

VECTOR = TensorType(F64, (3,))
FIRST, SECOND = Location("a.py", 1, "f"), Location("b.py", 2, "g")


# -- types

def test_types() -> None:
    matrix = TensorType(F32, (2, 3))
    assert (str(matrix), matrix.rank, matrix.size, matrix.nbytes) == ("f32[2,3]", 2, 6, 24)
    assert str(TensorType(F64, ())) == "f64[]"
    assert TensorType(F64, (0, 5)).nbytes == 0
    assert matrix.with_shape([6]) == TensorType(F32, (6,))
    assert matrix.with_dtype(F64) == TensorType(F64, (2, 3))


def test_names_of_dtypes() -> None:
    assert {short_name(dtype): dtype for dtype in SHORT_NAMES.values()} == SHORT_NAMES
    for dtype in SHORT_NAMES.values():
        assert check_dtype(dtype.newbyteorder(">")) == dtype
    for strange in ("g", "G", "O", "U3", "M8[s]"):
        with pytest.raises(DTypeError, match="is not supported"):
            check_dtype(np.dtype(strange))


# -- the builder

def test_location_and_role_of_what_is_emitted() -> None:
    builder = GraphBuilder("g", locate=lambda: FIRST)
    x = builder.param(VECTOR)
    with emitting(builder):
        found = ops.sin(x)
        with builder.at(SECOND):
            given = ops.sin(x)
            with builder.at(role=Role.ADJOINT):
                inner = ops.sin(x)
            after = ops.sin(x)
        outside = ops.sin(x)
    made = producers(builder.build([x]))
    assert [(made[v].loc, made[v].role) for v in (found, given, inner, after, outside)] == [
        (FIRST, Role.PRIMAL), (SECOND, Role.PRIMAL), (SECOND, Role.ADJOINT), (SECOND, Role.PRIMAL), (FIRST, Role.PRIMAL)]


def test_an_emitter_leaves_after_an_error() -> None:
    builder = GraphBuilder("g")
    with pytest.raises(RuntimeError), emitting(builder):
        raise RuntimeError
    assert emitters() == []


def test_a_region_lifts_outer_values_once() -> None:
    outer = GraphBuilder("outer")
    x, y = outer.param(VECTOR, "x"), outer.param(VECTOR, "y")
    inner = GraphBuilder("inner", parent=outer)
    z = inner.param(VECTOR, "z")
    with emitting(inner):
        result = ops.add(ops.multiply(z, y), ops.multiply(y, x))
    region = inner.build([result, x])
    assert list(inner.captures) == [y, x]
    assert [value.name for value in region.params] == ["z", "y", "x"]
    assert region.results[1] is inner.captures[x]
    with emitting(outer):
        results = ops.checkpoint.emit(x, *inner.captures, regions=(region,))
    arrays = np.array([1.0, 2, 3]), np.array([4.0, 5, 6])
    found = interpret(outer.build(results), arrays)
    np.testing.assert_array_equal(found[0], arrays[0] * arrays[1] + arrays[1] * arrays[0])
    np.testing.assert_array_equal(found[1], arrays[0])


def test_lifting_goes_through_every_level() -> None:
    outer = GraphBuilder("outer")
    x = outer.param(VECTOR, "x")
    middle = GraphBuilder("middle", parent=outer)
    inner = GraphBuilder("inner", parent=middle)
    with emitting(inner):
        region = inner.build([ops.sin(x)])
    assert len(region.params) == 1
    assert list(middle.captures) == [x]
    stranger = GraphBuilder("stranger").param(VECTOR)
    with pytest.raises(TraceError, match="outside of the trace that made it"), emitting(inner):
        ops.sin(stranger)


def test_inlining_keeps_lines_and_roles_unless_told() -> None:
    part = GraphBuilder("part")
    a = part.param(VECTOR)
    with emitting(part), part.at(FIRST, Role.UPDATE):
        graph = part.build([ops.sin(a), a])
    builder = GraphBuilder("g", locate=lambda: SECOND)
    x = builder.param(VECTOR)
    (kept, same), (changed, _) = builder.inline(graph, [x]), builder.inline(graph, [x], role=Role.RECOMPUTE)
    made = producers(builder.build([kept, changed]))
    assert same is x
    assert (made[kept].loc, made[kept].role) == (FIRST, Role.UPDATE)
    assert (made[changed].loc, made[changed].role) == (FIRST, Role.RECOMPUTE)
    with pytest.raises(ValueError, match="zip"):
        builder.inline(graph, [x, x])


# -- graphs

TEXT = """\
graph @g(%x: f64[3], %unused: f64[3]) {
  %a: f64[3] = sin %x
  %b: f64[3] = checkpoint %a [
    graph @region(%p: f64[3]) {
      %q: f64[3] = cos %p
      return %q
    }
  ]
  %c: f64[3] = multiply %a, %a
  %d: f64[3] = exp %x
  return %b, %c, %c
}
"""


def test_uses() -> None:
    graph = parse(TEXT)
    x, unused = graph.params
    a, b, c, d = (op.result for op in graph.ops)
    assert [op.name for op in walk(graph)] == ["sin", "cos", "checkpoint", "multiply", "exp"]
    assert producers(graph) == {op.result: op for op in graph.ops}
    assert use_counts(graph) == {x: 2, a: 3, b: 1, c: 2}
    assert last_uses(graph) == {x: 3, unused: -1, a: 2, b: 4, c: 4, d: 3}
    assert positions(graph.ops) == {a: 0, b: 1, c: 2, d: 3}
    assert readers(graph.ops) == {value: [op for op in graph.ops for operand in op.operands if operand is value] for value in (x, a)}
    assert needed_ops(graph.ops, [c]) == [graph.ops[0], graph.ops[2]]
    assert needed_ops(graph.ops, [c], {a}) == [graph.ops[2]]
    assert live_ops(graph) == [op for op in graph.ops if op.result is not d]


def test_graphs_are_equal_by_structure() -> None:
    graph = parse(TEXT)
    assert parse(TEXT) == graph
    assert hash(parse(TEXT)) == hash(graph)
    for old, new in (("sin", "tan"), ("cos", "tan"), ("multiply %a, %a", "multiply %a, %x"), ("%b, %c, %c", "%c, %b, %c"), ("@g", "@h"),
                     ("%unused: f64", "%unused: f32"), ("sin %x", "sin %unused"), ("exp %x", "exp %x  # a.py:1 in f"),
                     ("exp %x", "exp %x  # adjoint"), ("%x: f64[3]", "%x: f64[3] donated"), ("%d: f64[3]", "%d: f64[3] @ arena+0")):
        assert old in TEXT
        assert parse(TEXT.replace(old, new, 1)) != graph
    assert parse(TEXT.replace("%a", "%other")) == graph


# -- the interpreter

def test_the_interpreter_runs_regions_and_returns_parameters() -> None:
    x = np.array([0.5, -1.0, np.nan])
    graph = parse(TEXT.replace("return %b, %c, %c", "return %b, %c, %x"))
    b, c, same = interpret(graph, [x, x])
    np.testing.assert_array_equal(b, np.cos(np.sin(x)))
    np.testing.assert_array_equal(c, np.sin(x) * np.sin(x))
    assert same is x
    for arrays in ([x], [x, x, x]):
        with pytest.raises(ValueError, match=f"takes 2 arrays, got {len(arrays)}"):
            interpret(graph, arrays)


def test_the_interpreter_drops_values_after_their_last_use() -> None:
    alive: list[int] = []
    references: list[weakref.ref[np.ndarray]] = []

    def evaluate(x: np.ndarray) -> np.ndarray:
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        out = x + 1
        references.append(weakref.ref(out))
        return out

    step = OpDefinition(name="step", kind=Kind.MOVEMENT, doc="x + 1.", infer=lambda x: x, evaluate=evaluate, vjp=None, batch=None,
                        samples=lambda: iter(()), arity=1)
    graph = trace_graph("g", [VECTOR], lambda x: [step(step(step(step(x))))])
    (found,) = interpret(graph, [np.zeros(3)])
    assert found.tolist() == [4, 4, 4]
    assert alive == [0, 1, 1, 1]


def test_op_helpers() -> None:
    x, y = Value(VECTOR), Value(VECTOR)
    op = Op(ops.sin, (x,), (y,), loc=FIRST)
    assert (op.name, op.result) == ("sin", y)
    moved = op.with_operands([y])
    assert moved.operands == (y,)
    assert (moved.loc, moved.results) == (FIRST, op.results)
    with pytest.raises(ValueError, match="unpack"):
        _ = Op(ops.free, (x,), ()).result
    assert str(Graph("g", (x,), (op,), (y,))) == "<Graph g: 1 params, 1 ops, 1 results>"


@pytest.mark.parametrize(("one", "other", "same"), [
    (float("nan"), -float("nan"), True), ((float("nan"),), (float("nan"),), True), ((0.0,), (-0.0,), False), ((True,), (1,), False),
    ((1, 2), (1, 2), True), ((1, (2.0,)), (1, (2,)), False), (1, True, False), (0.0, -0.0, False), (0.0, np.float64(0.0), False)])
def test_attributes_are_equal_where_they_are_identical(one: object, other: object, same: bool) -> None:
    assert (attribute_key(one) == attribute_key(other)) is same
