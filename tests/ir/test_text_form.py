"""The text form: `parse` and `print_graph` are inverse, and what cannot be read is refused at its place."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder, trace_graph
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.emitter import emitting
from adjit.ir.errors import Location, ParseError, Role
from adjit.ir.graph import Graph, Op, Slot, Value
from adjit.ir.parser import parse
from adjit.ir.printer import attribute, graph_text, print_graph
from adjit.ir.types import F32, F64, SHORT_NAMES, TensorType

VECTOR = TensorType(F64, (3,))

CANONICAL = """\
graph @step(%w: f32[3,4] donated, %x: f32[3,4], %limits: i64[] captured) {
  %0: f32[3,4] = constant {dtype=f32, shape=(3, 4), value=-0.0}
  %y: f32[3,4] = multiply %x, %0  # model.py:3 in loss
  %1: f32[4] = reduce_sum %y {axes=(0,)}  # my model.py:4 in <lambda>, adjoint
  %2: f32[] = reduce_sum %1 {axes=(0,)}  # update
  return %2, %w
}
"""

PLANNED = """\
graph @step(%x: f32[4] donated, %y: f32[4]) {
  %0: f32[4] @ arena+64, %1: f32[] @ result+1 = fused %x, %y scratch @ arena+128 {columns=4, in_place=(0,), rows=1, scratch_bytes=16} [
    graph @kernel(%x: f32[4], %y: f32[4]) {
      %0: f32[4] = add %x, %y
      %1: f32[] = reduce_sum %0 {axes=(0,)}
      return %0, %1
    }
  ]
  %2: f32[4] @ param+0 = negative %0
  free %0
  return %2, %1
}
"""


@pytest.mark.parametrize("text", [CANONICAL, PLANNED])
def test_canonical_text_comes_back(text: str) -> None:
    graph = parse(text)
    assert print_graph(graph) == text
    assert parse(print_graph(graph)) == graph


def test_what_the_text_says() -> None:
    graph = parse(CANONICAL)
    assert graph.name == "step"
    assert graph.param_roles == ("donated", "input", "captured")
    assert [value.name for value in graph.params] == ["w", "x", "limits"]
    assert str(graph.params[0].type) == "f32[3,4]"
    constant, multiply, inner, outer = graph.ops
    assert constant.attrs == {"dtype": F32, "shape": (3, 4), "value": 0.0}
    assert math.copysign(1, constant.attrs["value"]) == -1
    assert multiply.operands == (graph.params[1], constant.result)
    assert multiply.loc == Location("model.py", 3, "loss")
    assert (inner.loc, inner.role) == (Location("my model.py", 4, "<lambda>"), Role.ADJOINT)
    assert (outer.loc, outer.role) == (None, Role.UPDATE)
    assert graph.results == (outer.result, graph.params[0])


def test_slots_scratch_and_regions() -> None:
    fused, negative, _ = parse(PLANNED).ops
    assert fused.slots == (Slot("arena", 64), Slot("result", 1), Slot("arena", 128))
    assert negative.slots == (Slot("param", 0),)
    assert [op.name for op in fused.regions[0].ops] == ["add", "reduce_sum"]


def test_notes_empty_lines_and_comments_are_read_over() -> None:
    text = "\n// a note\n" + CANONICAL.replace("  return", "  // V1 what the verifier says\n\n  # a comment\n  return") + "\n"
    assert parse(text) == parse(CANONICAL)


def test_keys_leave_out_lines_and_roles() -> None:
    text = print_graph(parse(CANONICAL), locations=False)
    assert "#" not in text
    moved = CANONICAL.replace("model.py:3", "other.py:77")
    assert print_graph(parse(moved), locations=False) == text
    assert parse(moved) != parse(CANONICAL)


def test_notes_stand_below_their_op() -> None:
    graph = parse(CANONICAL)
    lines = print_graph(graph, notes={graph.ops[1]: "look here"}).splitlines()
    assert lines[3] == "  // look here"


def test_names_are_kept_where_they_are_unique() -> None:
    first, second, third, fourth = (Value(VECTOR, name) for name in ("x", "x", "not a name", None))
    graph = Graph("names", (first, second, third, fourth), (), (second,))
    assert print_graph(graph).splitlines()[0] == "graph @names(%x: f64[3], %0: f64[3], %1: f64[3], %2: f64[3]) {"
    assert parse(print_graph(graph)) == graph


def test_numbers_do_not_collide_with_hints() -> None:
    graph = parse("graph @g(%1: f64[3]) {\n  %0: f64[3] = negative %1\n  %x1: f64[3] = negative %0\n  return %x1\n}")
    assert parse(print_graph(graph)) == graph


def test_regions_within_regions() -> None:
    inner = trace_graph("inner", [VECTOR], lambda x: [ops.sin(x)])
    outer = GraphBuilder("outer")
    x = outer.param(VECTOR, "x")
    with emitting(outer), outer.at(Location("f.py", 1, "f"), Role.RECOMPUTE):
        (y,) = ops.checkpoint.emit(x, regions=(inner,))
        region = trace_graph("middle", [VECTOR], lambda z: ops.checkpoint.emit(z, regions=(inner,)))
        (z,) = ops.checkpoint.emit(y, regions=(region,))
    graph = outer.build([z])
    assert parse(print_graph(graph)) == graph


# -- attributes

PROBE = OpDefinition(name="probe", kind=Kind.MOVEMENT, doc="For this test.", infer=lambda: VECTOR, evaluate=lambda: None, vjp=None,
                     batch=None, samples=lambda: iter(()), attributes={"value": object})


def probe_graph(value: Any) -> Graph:
    result = Value(VECTOR)
    return Graph("probe", (), (Op(PROBE, (), (result,), {"value": value}, loc=Location("a # b.py", 1, "f")),), (result,))


ATTRIBUTES = st.recursive(
    st.one_of(st.booleans(), st.integers(), st.floats(), st.text(), st.binary(), st.none(), st.sampled_from(list(SHORT_NAMES.values()))),
    lambda inner: st.lists(inner, max_size=4).map(tuple))


@settings(deadline=None)
@given(ATTRIBUTES)
def test_every_attribute_comes_back(value: Any) -> None:
    graph = probe_graph(value)
    assert parse(print_graph(graph), {"probe": PROBE}) == graph


@pytest.mark.parametrize(("value", "text"), [
    (0.1, "0.1"), (1.0, "1.0"), (1, "1"), (-0.0, "-0.0"), (1e300, "1e+300"), (5e-324, "5e-324"), (float("inf"), "inf"),
    (float("-inf"), "-inf"), (float("nan"), "nan"), (b"", "0x"), (b"\x00\xff", "0x00ff"), (True, "true"),
    (None, "none"), (np.dtype("f4"), "f32"), ((), "()"), ((1,), "(1,)"),
    ((1, (2.0, False)), "(1, (2.0, false))"), ('a "quoted" # \\ text', r'"a \"quoted\" # \\ text"'),
])
def test_text_of_attributes(value: Any, text: str) -> None:
    assert attribute(value) == text
    graph = probe_graph(value)
    assert parse(print_graph(graph), {"probe": PROBE}) == graph


def test_equal_is_not_enough() -> None:
    """Graphs differ where an attribute prints differently, though Python calls it equal."""
    for one, other in ((0.0, -0.0), (1, 1.0), (1, True), (0, False)):
        assert probe_graph(one) != probe_graph(other)
    assert probe_graph(float("nan")) == probe_graph(float("nan"))


def test_an_attribute_without_text_is_refused() -> None:
    with pytest.raises(TypeError, match="no text form for the attribute"):
        print_graph(probe_graph(np.ones(3)))


# -- errors

def refusal(text: str) -> str:
    with pytest.raises(ParseError) as caught:
        parse(text)
    return str(caught.value)


HEAD = "graph @g(%x: f32[2]) {\n"
TAIL = "  return %x\n}"


@pytest.mark.parametrize(("text", "message"), [
    ("¦grph @g() {", "expected 'graph'"),
    ("graph ¦g() {", "expected a name that starts with '@'"),
    ("graph @g(%x¦) {", "expected ':'"),
    ("graph @g(%x: ¦f24[2]) {", "unknown dtype (one of bool, i8"),
    ("graph @g(%x: f32[¦2.5]) {", "expected a size"),
    ("graph @g(%x: f32[¦-2]) {", "expected a size"),
    ("graph @g(%x: f32[2,¦]) {", "expected a size"),
    ("graph @g(%x: f32[2] ¦owned) {", "unknown role (one of input, donated, updated, carried, captured)"),
    ("graph @g(%x: f32[2], ¦%x: f32[2]) {", "%x is defined twice"),
    ("graph @g(%x: f32[2]) { ¦return", "expected the end of the line"),
    (HEAD + "  %y: f32[2] = ¦sine %x\n" + TAIL, "unknown op 'sine'"),
    (HEAD + "  %y: f32[2] = sin ¦%z\n" + TAIL, "%z is not defined"),
    (HEAD + "  ¦%x: f32[2] = sin %x\n" + TAIL, "%x is defined twice"),
    (HEAD + "  %y ¦= sin %x\n" + TAIL, "expected ':'"),
    (HEAD + "  %y: f32[2] ¦sin %x\n" + TAIL, "expected '='"),
    (HEAD + "  %y: f32[2] = sin %x,¦\n" + TAIL, "expected a value"),
    (HEAD + "  %y: f32[2] = sin %x ¦%x\n" + TAIL, "expected ','"),
    (HEAD + "  %y: f32[2] = sin %x ¦2\n" + TAIL, "expected the end of the line"),
    (HEAD + "  %y: f32[2] = flip %x {axes¦}\n" + TAIL, "expected '='"),
    (HEAD + "  %y: f32[2] = flip %x {axes=¦oops}\n" + TAIL, "expected an attribute"),
    (HEAD + "  %y: f32[2] = flip %x {axes=(0 ¦1)}\n" + TAIL, "expected ','"),
    (HEAD + "  %y: f32[2] = flip %x {axes=(), ¦axes=()}\n" + TAIL, "attribute axes is given twice"),
    (HEAD + "  %y: f32[2] = flip %x {axes=¦\"\\q\"}\n" + TAIL, "a string that cannot be read"),
    (HEAD + "  %y: f32[2] = flip %x {axes=¦\"open}\n" + TAIL, "unexpected character"),
    (HEAD + "  %y: f32[2] @ ¦heap+0 = sin %x\n" + TAIL, "unknown memory space (one of arena, param, result)"),
    (HEAD + "  %y: f32[2] @ arena¦-8 = sin %x\n" + TAIL, "expected '+' and an offset"),
    (HEAD + "  %y: f32[2] @ arena¦+1.5 = sin %x\n" + TAIL, "expected '+' and an offset"),
    (HEAD + "  ¦$\n" + TAIL, "unexpected character"),
    (HEAD + "¦}", "expected the name of an op"),
    (HEAD + TAIL + "\n¦more", "expected the end of the text"),
])
def test_errors_point_at_the_place(text: str, message: str) -> None:
    """The place is marked by a broken bar."""
    before, _, after = text.partition("¦")
    line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
    first, shown, caret = refusal(before + after).splitlines()
    assert first.startswith(f"line {line}, column {column}: {message}")
    assert shown == (before + after).splitlines()[line - 1]
    assert caret == " " * (column - 1) + "^"


@pytest.mark.parametrize(("text", "message"), [
    ("", "expected 'graph'"), (HEAD + "  return %x\n", "expected '}'"), (HEAD + "  %y: f32[2] = sin %x\n", "expected 'return'")])
def test_text_that_ends_too_early(text: str, message: str) -> None:
    assert refusal(text) == f"end of text: {message}"


@settings(deadline=None)
@given(st.data())
def test_damaged_text_is_refused_or_read_but_never_breaks_the_parser(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from([CANONICAL, PLANNED]))
    place = data.draw(st.integers(0, len(text) - 1))
    length = data.draw(st.integers(0, 5))
    damaged = text[:place] + data.draw(st.text(alphabet='%@#"(){}[],:=+-.0a1 \n', max_size=3)) + text[place + length:]
    try:
        graph = parse(damaged)
    except ParseError:
        return
    assert parse(print_graph(graph)) == graph


def test_text_of_a_key_prints_a_shared_region_once() -> None:
    one, other = (parse(f"graph @part(%x: f64[3]) {{\n  %y: f64[3] = {name} %x\n  return %y\n}}") for name in ("exp", "log"))

    def calls(*regions: Graph) -> Graph:
        builder = GraphBuilder("f")
        value = builder.param(VECTOR)
        with emitting(builder):
            for region in regions:
                (value,) = ops.checkpoint.emit(value, regions=(region,))
        return builder.build([value])

    texts = [graph_text(calls(*regions)) for regions in ((one, other, one), (one, other, other), (one, one, other), (one, one, one))]
    assert len(set(texts)) == len(texts)
    assert texts[0].count(" exp ") == texts[0].count(" log ") == 1
    assert print_graph(calls(one, other, one)).count(" exp ") == 2
    assert graph_text(calls(one, other)) == graph_text(calls(one, other))
