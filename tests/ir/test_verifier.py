"""The verifier finds every kind of broken graph: one written by hand for each way to break an invariant.

In the texts the op that is to be blamed has the location `model.py:7 in f`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from adjit.ir import ops, verifier
from adjit.ir.definition import Kind, OpDefinition
from adjit.ir.errors import Location, VerificationError
from adjit.ir.graph import Graph, Op, Slot, Value
from adjit.ir.parser import parse
from adjit.ir.types import F32, TensorType
from adjit.ir.verifier import Stage, verify

VECTOR = TensorType(F32, (4,))
HERE = Location("model.py", 7, "f")
BLAME = "  # model.py:7 in f"


def complaint(graph: Graph, stage: Stage = Stage.TRACED, after: str | None = None) -> VerificationError:
    with pytest.raises(VerificationError) as caught:
        verify(graph, stage, after)
    return caught.value


def check(graph: Graph, message: str, stage: Stage = Stage.TRACED) -> None:
    """The complaint says `message`, and that alone; below the op to be blamed; and has its location."""
    error = complaint(graph, stage)
    summary, *lines = error.message.splitlines()
    assert message in summary
    assert "; V" not in summary
    assert error.location == HERE
    blamed = next(index for index, line in enumerate(lines) if line.endswith(BLAME))
    depth = 0
    while (depth := depth + lines[blamed].count("[" + BLAME) - (lines[blamed].strip() == "]")) > 0:      # its regions
        blamed += 1
    assert lines[blamed + 1].strip() == f"// {summary}"


def body(*lines: str, params: str = "%x: f32[4], %y: f32[4]", results: str = "%r") -> Graph:
    return parse("\n".join([f"graph @g({params}) {{", *lines, f"return {results}".rstrip(), "}"]))


def test_a_sound_graph_passes() -> None:
    for stage in Stage:
        if stage is not Stage.PLANNED:
            verify(body("%r: f32[4] = add %x, %y"), stage)


def test_the_pass_is_named_and_everything_is_reported() -> None:
    graph = body("%a: f32[5] = add %x, %y" + BLAME, "%b: f32[4] = flip %x", "%r: f32[4] = sin %y")
    error = complaint(graph, after="break_everything")
    assert error.message.splitlines()[0] == (
        "after pass 'break_everything': V4 stored f32[5], inferred f32[4]; V2 attributes [], expected ['axes']")
    assert error.location == HERE
    assert "defect of adjit" in str(error)
    assert str(error).index("model.py:7 in f") > 0


def test_every_invariant_of_the_list_is_tested_here() -> None:
    listed = {line[:2] for line in (verifier.__doc__ or "").splitlines() if line.startswith("V")}
    tested = {name.split("_")[1].upper() for name in globals() if name.startswith("test_v")}
    assert tested == listed


# -- V1: a value is defined once

def test_v1_a_parameter_is_listed_twice() -> None:
    x = Value(VECTOR, "x")
    error = complaint(Graph("g", (x, x), (), (x,)))
    assert error.message.startswith("V1 parameter <Value x: f32[4]> is listed twice\n")
    assert error.location is None


def test_v1_two_ops_define_a_value() -> None:
    x, y = Value(VECTOR, "x"), Value(VECTOR, "y")
    check(Graph("g", (x,), (Op(ops.sin, (x,), (y,)), Op(ops.cos, (x,), (y,), loc=HERE)), (y,)), "V1 <Value y: f32[4]> is defined twice")


def test_v1_an_op_defines_a_parameter() -> None:
    x = Value(VECTOR, "x")
    check(Graph("g", (x,), (Op(ops.sin, (x,), (x,), loc=HERE),), (x,)), "V1 <Value x: f32[4]> is defined twice")


# -- V2: an op is as its record asks

def test_v2_the_op_is_not_registered() -> None:
    x, y = Value(VECTOR, "x"), Value(VECTOR, "y")
    stranger = OpDefinition(name="sin", kind=Kind.MOVEMENT, doc="Not the real one.", infer=lambda x: x, evaluate=np.sin, vjp=None,
                            batch=None, samples=lambda: iter(()), arity=1)
    check(Graph("g", (x,), (Op(stranger, (x,), (y,), loc=HERE),), (y,)), "V2 'sin' is not a registered op")


@pytest.mark.parametrize(("line", "message"), [
    ("%r: f32[4] = add %x", "V2 1 operands, expected 2"),
    ("%r: f32[4] = sin %x, %y", "V2 2 operands, expected 1"),
    ("%r: f32[4] = flip %x", "V2 attributes [], expected ['axes']"),
    ("%r: f32[4] = sin %x {axes=(0,)}", "V2 attributes ['axes'], expected []"),
    ("%r: f32[4] = flip %x {axes=0}", "V2 attribute axes is 0, expected <class 'tuple'>"),
    ("%r: f32[4] = constant {dtype=f32, shape=(4,), value=\"1\"}", "V2 attribute value is '1', expected"),
    ("%r: f32[4] = checkpoint %x", "V2 0 regions, expected 1"),
])
def test_v2_signature(line: str, message: str) -> None:
    check(body(line + BLAME), message)


# -- V3: definition comes before use

def test_v3_an_operand_is_defined_later() -> None:
    x, y, z = (Value(VECTOR, name) for name in "xyz")
    late = Graph("g", (x,), (Op(ops.add, (x, y), (z,), loc=HERE), Op(ops.sin, (x,), (y,))), (z,))
    check(late, "V3 use before definition: <Value y: f32[4]>")


def test_v3_an_operand_is_defined_nowhere() -> None:
    x, y, z = (Value(VECTOR, name) for name in "xyz")
    check(Graph("g", (x,), (Op(ops.add, (x, y), (z,), loc=HERE),), (z,)), "V3 use before definition: <Value y: f32[4]>")


def test_v3_a_result_is_defined_nowhere() -> None:
    error = complaint(Graph("g", (), (), (Value(VECTOR, "y"),)))
    assert error.message.startswith("V3 result <Value y: f32[4]> is not defined\n")


# -- V4: stored types are inferred types

@pytest.mark.parametrize(("line", "message"), [
    ("%r: f32[5] = add %x, %y", "V4 stored f32[5], inferred f32[4]"),
    ("%r: f64[4] = sin %x", "V4 stored f64[4], inferred f32[4]"),
    ("%r: f32[4], %s: f32[4] = sin %x", "V4 stored f32[4], f32[4], inferred f32[4]"),
    ("%r: f32[4] = reshape %x {shape=(5,)}", "V4 the type rule refuses: f32[4] has 4 elements and cannot get the shape (5,)"),
    ("%r: f32[4] = logical_not %x", "V4 the type rule refuses: the bool dtype is needed, got f32[4]"),
])
def test_v4_types(line: str, message: str) -> None:
    check(body(line + BLAME), message)


# -- V5: regions are closed, and sound

def test_v5_a_region_uses_a_value_of_the_graph_around_it() -> None:
    x, y, inner, result = Value(VECTOR, "x"), Value(VECTOR, "y"), Value(VECTOR), Value(VECTOR)
    region = Graph("region", (inner,), (Op(ops.add, (inner, x), (y,)),), (y,))
    graph = Graph("g", (x,), (Op(ops.checkpoint, (x,), (result,), regions=(region,), loc=HERE),), (result,))
    check(graph, "V5 in region @region: V3 use before definition: <Value x: f32[4]>")


def test_v5_a_region_is_broken_inside() -> None:
    lines = ["%r: f32[4] = checkpoint %x [" + BLAME, "graph @region(%a: f32[4]) {", "%b: f32[3] = sin %a", "return %a", "}", "]"]
    check(body(*lines), "V5 in region @region: V4 stored f32[3], inferred f32[4]")


# -- V6: only ops of the stage

REGION = ("graph @region(%a: f32[4]) {", "%b: f32[4] = sin %a", "return %b", "}", "]")


@pytest.mark.parametrize(("lines", "stage", "message"), [
    (["%r: f32[4] = checkpoint %x [", *REGION], Stage.ADJOINT, "V6 checkpoint in stage adjoint"),
    (["%r: f32[4], %s: f32[4] = vjp %x, %y {cotangents=(0,), wrt=(0,)} [", *REGION], Stage.OPTIMIZED, "V6 vjp in stage optimized"),
    (["%r: f32[4] = stop_gradient %x"], Stage.OPTIMIZED, "V6 stop_gradient in stage optimized"),
    (["%r: f32[4] = fused %x {columns=4, in_place=(), rows=1, scratch_bytes=0} [", *REGION], Stage.OPTIMIZED,
     "V6 fused in stage optimized"),
    (["%r: f32[4] @ arena+0 = sin %x"], Stage.FUSED, "V6 slots in stage fused"),
])
def test_v6_stages(lines: list[str], stage: Stage, message: str) -> None:
    blamed = [lines[0] + BLAME, *lines[1:]]
    check(body(*blamed), message, stage)


def test_v6_free_before_the_plan() -> None:
    check(body("%r: f32[4] = sin %x", "%a: f32[4] = sin %x", "free %a" + BLAME), "V6 free in stage fused", Stage.FUSED)


def test_v6_stop_gradient_may_stay_in_the_adjoint() -> None:
    verify(body("%r: f32[4] = stop_gradient %x"), Stage.ADJOINT)


# -- V7 and V8: planned graphs; all ways to break a plan are in test_verifier_memory.py

def test_v7_a_value_is_used_after_free() -> None:
    lines = ["%a: f32[4] @ arena+0 = sin %x", "free %a", "%r: f32[4] @ result+0 = cos %a" + BLAME]
    check(body(*lines), "V7 used after free: <Value a: f32[4]>", Stage.PLANNED)


def test_v7_a_value_is_never_freed() -> None:
    lines = ["%a: f32[4] @ arena+0 = sin %x" + BLAME, "%r: f32[4] @ result+0 = cos %a"]
    check(body(*lines), "V7 never freed: <Value a: f32[4]>", Stage.PLANNED)


def test_v8_live_values_overlap() -> None:
    lines = ["%a: f32[4] @ arena+0 = sin %x", "%b: f32[4] @ arena+8 = sin %y" + BLAME, "%r: f32[4] @ result+0 = negative %b", "free %b"]
    check(body(*lines), "V8 arena+8 overlaps a live value: <Value a: f32[4]>", Stage.PLANNED)


@pytest.mark.parametrize(("line", "message"), [
    ("%b: f32[4] @ arena+4 = sin %a", "V8 arena+4 overlaps a live value: <Value a: f32[4]>"),
    ("%b: f32[4] @ arena+0 = flip %a {axes=(0,)}", "V8 arena+0 overlaps a live value: <Value a: f32[4]>"),
])
def test_v8_what_is_no_writing_in_place(line: str, message: str) -> None:
    """A place that is shifted, and an op that reads elsewhere than it writes."""
    lines = ["%a: f32[4] @ arena+0 = sin %x", line + BLAME, "%r: f32[4] @ result+0 = negative %b", "free %b"]
    check(body(*lines), message, Stage.PLANNED)


def test_v8_a_memory_that_text_cannot_name() -> None:
    graph = body("%r: f32[4] @ result+0 = sin %x" + BLAME)
    (op,) = graph.ops
    error = complaint(replace(graph, ops=(replace(op, slots=(Slot("heap", 0),)),)), Stage.PLANNED)
    assert error.message.startswith("V8 unknown memory space")
    assert error.location == HERE
