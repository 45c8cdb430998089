"""The memory plan: every value in its place, nothing destroyed that is still needed."""

from __future__ import annotations

import textwrap

import numpy as np
import pytest
from support.memory_simulation import simulate

from adjit.ir.analysis.buffer_assignment import arena_bytes
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.memory.donation import match_donations
from adjit.passes.memory.plan_memory import live_bytes, peak_bytes, plan_memory
from adjit.passes.options import Options
from adjit.passes.schedule import schedule


def graph_of(text: str) -> Graph:
    return parse(textwrap.dedent(text))


def arrays_for(graph: Graph, seed: int = 0) -> list[np.ndarray]:
    generator = np.random.default_rng(seed)
    return [generator.normal(size=value.type.shape).astype(value.type.dtype) for value in graph.params]


def plan(graph: Graph, reorder: bool = False) -> Graph:
    """Plan, verify, and compare a run in poisoned memory with the interpreter."""
    ordered = schedule(graph, Options()) if reorder else graph
    planned = plan_memory(ordered, Options())
    verify(planned, Stage.PLANNED, after="plan_memory")
    assert parse(print_graph(planned)) == planned
    arrays = arrays_for(graph)
    found, memory = simulate(planned, arrays)
    for result, expected in zip(found, interpret(graph, arrays), strict=True):
        np.testing.assert_array_equal(result, expected)
    for i, (array, role) in enumerate(zip(arrays, graph.param_roles, strict=True)):
        if role != "donated":
            assert memory.buffers[f"param+{i}"].tobytes() == array.tobytes()
    assert arena_bytes(planned) >= peak_bytes(ordered)
    return planned


def places(graph: Graph) -> list[str]:
    """Where each result of the graph ends; parameters as `input`."""
    slots = {value: str(slot) for op in graph.ops for value, slot in zip(op.results, op.slots, strict=False)}
    return [slots.get(value, "input") for value in graph.results]


def copies(graph: Graph) -> int:
    slots = {value: slot for op in graph.ops for value, slot in zip(op.results, op.slots, strict=False)}
    return sum(op.name == "reshape" and slots[op.result] != slots.get(op.operands[0]) and op.result.type == op.operands[0].type
               for op in graph.ops)


def test_chain_runs_in_place() -> None:
    planned = plan(graph_of("""
        graph @chain(%x: f32[100]) {
          %a: f32[100] = exp %x
          %b: f32[100] = sin %a
          %c: f32[100] = cos %b
          %d: f32[] = reduce_sum %c {axes=(0,)}
          return %d
        }"""))
    assert arena_bytes(planned) == 448      # 400 bytes, up to the next cache line
    assert [op.name for op in planned.ops].count("free") == 1


def test_result_is_written_where_it_ends() -> None:
    planned = plan(graph_of("""
        graph @chain(%x: f32[100]) {
          %a: f32[100] = exp %x
          %b: f32[100] = sin %a
          %c: f32[10,10] = reshape %b {shape=(10, 10)}
          return %c
        }"""))
    assert arena_bytes(planned) == 0
    assert {str(slot) for op in planned.ops for slot in op.slots} == {"result+0"}


def test_reshape_is_an_alias_that_keeps_memory_alive() -> None:
    planned = plan(graph_of("""
        graph @alias(%x: f32[100]) {
          %a: f32[100] = exp %x
          %v: f32[10,10] = reshape %a {shape=(10, 10)}
          %b: f32[100] = sin %a
          %s: f32[10] = reduce_sum %v {axes=(0,)}
          %t: f32[] = reduce_sum %b {axes=(0,)}
          return %s, %t
        }"""))
    sin = next(op for op in planned.ops if op.name == "sin")
    reshape = next(op for op in planned.ops if op.name == "reshape")
    exp = next(op for op in planned.ops if op.name == "exp")
    assert reshape.slots == exp.slots != sin.slots


def test_alias_of_an_input_is_not_returned_as_it_is() -> None:
    planned = plan(graph_of("""
        graph @alias(%x: f32[4]) {
          %a: f32[2,2] = reshape %x {shape=(2, 2)}
          return %a
        }"""))
    assert places(planned) == ["result+0"]


def test_alias_of_a_result_is_a_copy() -> None:
    planned = plan(graph_of("""
        graph @two(%x: f32[4]) {
          %y: f32[4] = exp %x
          %a: f32[2,2] = reshape %y {shape=(2, 2)}
          %b: f32[4,1] = reshape %a {shape=(4, 1)}
          return %a, %y, %b, %x, %a
        }"""))
    assert places(planned) == ["result+0", "result+1", "result+2", "input", "result+0"]


def test_operand_read_twice_in_different_shapes_is_not_written_over() -> None:
    """A fused op may read an alias of its in-place operand elsewhere than at the element that it writes."""
    planned = plan(graph_of("""
        graph @twice(%x: f32[4]) {
          %a: f32[4] = exp %x
          %r: f32[2,2] = reshape %a {shape=(2, 2)}
          %y: f32[4] = fused %a, %r {columns=1, in_place=(0,), rows=4, scratch_bytes=0} [
            graph @kernel(%p: f32[4], %q: f32[2,2]) {
              %s: f32[2] = reduce_sum %q {axes=(0,)}
              %b: f32[2,2] = broadcast %s {axes=(1,), shape=(2, 2)}
              %c: f32[4] = reshape %b {shape=(4,)}
              %o: f32[4] = add %p, %c
              return %o
            }
          ]
          %t: f32[] = reduce_sum %y {axes=(0,)}
          return %t
        }"""))
    slots = {op.name: op.slots for op in planned.ops}
    assert slots["fused"] != slots["exp"]


def test_two_results_of_one_op_take_different_operands() -> None:
    planned = plan(graph_of("""
        graph @adam(%p: f32[8] donated, %m: f32[8] donated, %x: f32[8]) {
          %g: f32[8] = cos %x
          %mn: f32[8], %pn: f32[8] = fused %m, %g, %p {columns=8, in_place=(0, 1, 2), rows=1, scratch_bytes=64} [
            graph @update(%m: f32[8], %g: f32[8], %p: f32[8]) {
              %a: f32[8] = add %m, %g
              %b: f32[8] = subtract %p, %a
              return %a, %b
            }
          ]
          return %mn, %pn
        }"""))
    assert places(planned) == ["param+1", "param+0"]
    assert copies(planned) == 0
    fused = next(op for op in planned.ops if op.name == "fused")
    gradient = planned.ops[0].slots[0]
    assert fused.slots[2].space == gradient.space == "arena"
    assert fused.slots[2] != gradient


def test_result_of_another_size_is_not_written_over_an_operand() -> None:
    planned = plan(graph_of("""
        graph @add_captures(%x: f32[8]) {
          %a: f32[8] = exp %x
          %y: f64[8] = fused %a {columns=8, in_place=(0,), rows=1, scratch_bytes=0} [
            graph @kernel(%a: f32[8]) {
              %w: f64[8] = convert %a {dtype=f64}
              return %w
            }
          ]
          %s: f64[] = reduce_sum %y {axes=(0,)}
          return %s
        }"""))
    assert arena_bytes(planned) == 128


def test_parameters_that_are_not_donated_are_never_written() -> None:
    planned = plan(graph_of("""
        graph @read(%x: f32[8], %c: f32[8] captured) {
          %y: f32[8] = add %x, %c
          return %y
        }"""))
    assert places(planned) == ["result+0"]


def test_empty_and_scalar_values() -> None:
    planned = plan(graph_of("""
        graph @small(%x: f32[0,3], %s: f32[] donated) {
          %a: f32[0,3] = exp %x
          %b: f32[0,3] = sin %a
          %c: f32[3] = reduce_sum %b {axes=(0,)}
          %t: f32[] = sin %s
          %u: f32[] = exp %t
          return %c, %u
        }"""))
    assert places(planned) == ["result+0", "param+1"]


def test_unused_results_have_a_place_of_their_own() -> None:
    plan(graph_of("""
        graph @unused(%x: f32[8]) {
          %a: f32[8] = exp %x
          %dead: f32[8] = sin %a
          %b: f32[8] = cos %a
          return %b
        }"""))


def test_update_is_written_into_its_dying_base() -> None:
    planned = plan(graph_of("""
        graph @update(%cache: f32[8] donated, %x: f32[2]) {
          %e: f32[2] = exp %x
          %n: f32[8] = update_slice %cache, %e {start=(3,), step=(1,)}
          return %n
        }"""))
    assert places(planned) == ["param+0"]
    assert copies(planned) == 0


DONATIONS = {
    "returned in swapped order": ("""
        graph @swap(%a: f32[4] donated, %b: f32[4] donated) {
          return %b, %a
        }""", ["input", "input"], 0),
    "computed and swapped": ("""
        graph @swap(%a: f32[4] donated, %b: f32[4] donated) {
          %x: f32[4] = exp %b
          %y: f32[4] = sin %a
          return %x, %y
        }""", ["param+1", "param+0"], 0),
    "both read by both": ("""
        graph @both(%a: f32[4] donated, %b: f32[4] donated) {
          %x: f32[4] = add %a, %b
          %y: f32[4] = subtract %a, %b
          return %x, %y
        }""", ["param+0", "param+1"], 1),
    "swapped through reshapes": ("""
        graph @shapes(%a: f32[2,3] donated, %b: f32[3,2] donated) {
          %x: f32[2,3] = reshape %b {shape=(2, 3)}
          %y: f32[3,2] = reshape %a {shape=(3, 2)}
          return %x, %y
        }""", ["param+0", "param+1"], 1),
    "returned unchanged": ("""
        graph @same(%a: f32[4] donated, %b: f32[4]) {
          %x: f32[4] = add %a, %b
          return %a, %x
        }""", ["input", "result+1"], 0),
    "read late": ("""
        graph @late(%a: f32[4] donated, %b: f32[4]) {
          %x: f32[4] = exp %a
          %y: f32[] = reduce_sum %a {axes=(0,)}
          %z: f32[] = reduce_sum %x {axes=(0,)}
          return %x, %y, %z
        }""", ["param+0", "result+1", "result+2"], 1),
    "two results depend on it": ("""
        graph @two(%a: f32[4] donated) {
          %x: f32[4] = exp %a
          %y: f32[4] = sin %a
          return %x, %y
        }""", ["param+0", "result+1"], 1),
    "reshaped and returned": ("""
        graph @reshaped(%a: f32[4] donated) {
          %x: f32[2,2] = reshape %a {shape=(2, 2)}
          return %x
        }""", ["result+0"], 0),
    "reshaped there and back": ("""
        graph @back(%a: f32[4] donated) {
          %x: f32[2,2] = reshape %a {shape=(2, 2)}
          %y: f32[4] = reshape %x {shape=(4,)}
          %s: f32[2] = reduce_sum %x {axes=(0,)}
          return %y, %s
        }""", ["param+0", "result+1"], 0),
    "read through a reshape after the new content is made": ("""
        graph @view(%a: f32[4] donated, %b: f32[4]) {
          %v: f32[2,2] = reshape %a {shape=(2, 2)}
          %x: f32[4] = add %a, %b
          %s: f32[2] = reduce_sum %v {axes=(0,)}
          return %x, %s
        }""", ["param+0", "result+1"], 1),
    "replaced by a matmul of itself": ("""
        graph @square(%a: f32[3,3] donated) {
          %x: f32[3,3] = matmul %a, %a {transpose_a=false, transpose_b=false}
          return %x
        }""", ["param+0"], 1),
    "chain in its buffer": ("""
        graph @chain(%a: f32[4] donated) {
          %x: f32[4] = exp %a
          %y: f32[4] = sin %x
          %z: f32[4] = cos %y
          return %z
        }""", ["param+0"], 0),
    "chain that is read again": ("""
        graph @chain(%a: f32[4] donated) {
          %x: f32[4] = exp %a
          %y: f32[4] = sin %x
          %z: f32[4] = multiply %x, %y
          return %z
        }""", ["param+0"], 0),
    "replaced by something unrelated": ("""
        graph @other(%a: f32[4] donated, %b: f32[4]) {
          %s: f32[] = reduce_sum %a {axes=(0,)}
          %x: f32[4] = exp %b
          return %x, %s
        }""", ["param+0", "result+1"], 0),
    "never read": ("""
        graph @unread(%a: f32[4] donated, %b: f32[4]) {
          %x: f32[4] = exp %b
          %y: f32[4] = sin %x
          return %y
        }""", ["param+0"], 0),
    "used again after the copy": ("""
        graph @later(%a: f32[4] donated) {
          %x: f32[4] = exp %a
          %s: f32[] = reduce_sum %a {axes=(0,)}
          %y: f32[4] = sin %x
          return %x, %y, %s
        }""", ["param+0", "result+1", "result+2"], 1),
    "three in a circle": ("""
        graph @circle(%a: f32[2,3] donated, %b: f32[3,2] donated, %c: f32[6] donated) {
          %x: f32[2,3] = reshape %b {shape=(2, 3)}
          %y: f32[3,2] = reshape %c {shape=(3, 2)}
          %z: f32[6] = reshape %a {shape=(6,)}
          return %x, %y, %z
        }""", ["param+0", "param+1", "param+2"], 1),
}


@pytest.mark.parametrize("case", DONATIONS)
def test_donation_never_corrupts(case: str) -> None:
    text, expected, copied = DONATIONS[case]
    planned = plan(graph_of(text))
    assert places(planned) == expected
    assert copies(planned) == copied


@pytest.mark.parametrize("case", ["read late", "read through a reshape after the new content is made", "two results depend on it"])
def test_schedule_saves_the_copy_where_an_order_exists(case: str) -> None:
    text, expected, _ = DONATIONS[case]
    planned = plan(graph_of(text), reorder=True)
    assert places(planned) == expected
    assert copies(planned) == 0


def test_moments_do_not_take_the_buffer_of_the_weights() -> None:
    graph = graph_of("""
        graph @adam(%m: f32[8] donated, %p: f32[8] donated, %g: f32[8]) {
          %a: f32[8] = add %m, %g
          %b: f32[8] = subtract %p, %a
          return %b, %a
        }""")
    assert match_donations(graph).matches == {0: graph.results[1], 1: graph.results[0]}
    assert copies(plan(graph)) == 0


def test_live_bytes_by_hand() -> None:
    graph = graph_of("""
        graph @live(%x: f32[16]) {
          %a: f32[16] = exp %x
          %b: f32[32] = concatenate %a, %a {axis=0}
          %c: f32[32] = sin %b
          %d: f32[] = reduce_sum %c {axes=(0,)}
          return %d
        }""")
    assert live_bytes(graph) == [64, 192, 128, 128]
    assert peak_bytes(graph) == 192
    assert arena_bytes(plan(graph)) == 192


def test_a_constant_for_a_donated_buffer_waits_for_what_reads_the_old_content() -> None:
    graph = parse("""
graph @f(%w: i64[3,4] donated) {
  %zero: i64[3,4] = constant {dtype=i64, shape=(3, 4), value=0}
  %a: i64[3,4] = flip %w {axes=(0,)}
  %b: i64[3,4] = cumprod %a {axis=0, reverse=true}
  %c: i64[3,4,4] = take %b, %zero {axis=0}
  %d: i64[3,4] = scatter_add %b, %zero, %c {axis=0}
  %p: i64[3] = reduce_prod %w {axes=(1,)}
  return %zero, %p, %d
}""")
    ordered = schedule(graph, Options())
    verify(ordered, Stage.FUSED)
    assert peak_bytes(ordered) <= peak_bytes(graph)
