"""What is kept for the backward half of small networks, and how a memory budget changes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.types import F32, TensorType
from adjit.passes.autodiff.partition.choose_saved_values import (
    backward_ops,
    choose_saved_values,
    describe_saved_values,
    saved_bytes,
    saved_values,
)
from adjit.passes.autodiff.partition.minimum_cut import INFINITE, Network
from adjit.passes.options import Options
from adjit.passes.pipeline import PIPELINE, run_pipeline
from adjit.runtime.transforms import grad

BATCH, SIZES = 16, (8, 32, 24, 4)
UNTIL_CHOICE = PIPELINE[:[step.name for step in PIPELINE].index("choose_saved_values") + 1]
Activation = Callable[[Value], Value]


def relu(x: Value) -> Value:
    return ops.maximum(x, ops.full_like(x, 0.0))


def network(activation: Activation) -> Graph:
    """Loss and gradients of a small perceptron, as a `vjp` op."""
    shapes = [(BATCH, SIZES[0])]
    for rows, columns in pairwise(SIZES):
        shapes += [(rows, columns), (columns,)]
    types = [TensorType(F32, shape) for shape in shapes]

    def loss(x: Value, *params: Value) -> list[Value]:
        for layer in range(len(params) // 2):
            weight, bias = params[2 * layer:2 * layer + 2]
            product = ops.matmul(x, weight, transpose_a=False, transpose_b=False)
            x = ops.add(product, ops.broadcast(bias, shape=product.type.shape, axes=(1,)))
            if 2 * layer + 2 < len(params):
                x = activation(x)
        return [ops.reduce_sum(ops.square(x), axes=(0, 1))]

    region = trace_graph("loss", types, loss)

    def gradients(*arguments: Value) -> tuple[Value, ...]:
        one = ops.constant(value=1.0, dtype=F32, shape=())
        return ops.vjp.emit(*arguments, one, regions=(region,), wrt=tuple(range(1, len(types))), cotangents=(0,))

    return trace_graph("gradients", types, gradients)


def optimized(graph: Graph, budget: float | int | None = None) -> Graph:
    return run_pipeline(graph, Options(budget), verify=True, passes=UNTIL_CHOICE).final


def without_recomputing(graph: Graph) -> Graph:
    return run_pipeline(graph, Options(), verify=True, passes=UNTIL_CHOICE[:-1]).final


def test_relu_keeps_masks_and_what_matmuls_read() -> None:
    kept = Counter(str(value.type) for value in saved_values(optimized(network(relu))))
    assert kept == {"bool[16,32]": 2, "f32[16,32]": 1, "bool[16,24]": 2, "f32[16,24]": 1, "f32[16,4]": 1}


def test_tanh_keeps_its_results() -> None:
    """The derivative is written with the result, which the next matmul reads too."""
    kept = Counter(str(value.type) for value in saved_values(optimized(network(ops.tanh))))
    assert kept == {"f32[16,32]": 1, "f32[16,24]": 1, "f32[16,4]": 1}


def test_an_elementwise_chain_keeps_only_what_is_dear() -> None:
    def chain(x: Value, w: Value, b: Value) -> list[Value]:
        t = ops.add(ops.multiply(x, w), b)
        return [ops.reduce_sum(ops.square(ops.multiply(ops.sin(t), t)), axes=(0,))]

    types = [TensorType(F32, (64,))] * 3
    region = trace_graph("chain", types, chain)
    graph = trace_graph("gradients", types, lambda *args: ops.vjp.emit(
        *args, ops.constant(value=1.0, dtype=F32, shape=()), regions=(region,), wrt=(0, 1, 2), cotangents=(0,)))
    assert saved_bytes(without_recomputing(graph)) == 3 * 256
    assert [value.type.nbytes for value in saved_values(optimized(graph))] == [256]
    assert saved_bytes(optimized(graph, 0)) == 0


@pytest.mark.parametrize("activation", [relu, ops.tanh, ops.sigmoid], ids=["relu", "tanh", "sigmoid"])
@pytest.mark.parametrize("budget", [1.0, 0.75, 0.5, 0.25, 0.1, 0.0, 4000, 0])
def test_budget_is_kept_and_the_meaning_stays(activation: Activation, budget: float | int) -> None:
    graph = network(activation)
    plain, chosen = without_recomputing(graph), optimized(graph, budget)
    allowed = int(budget * saved_bytes(plain)) if isinstance(budget, float) else budget
    assert saved_bytes(chosen) <= allowed
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(value.type.shape).astype(value.type.dtype) for value in graph.params]
    for expected, got in zip(interpret(plain, arrays), interpret(chosen, arrays), strict=True):
        np.testing.assert_array_equal(got, expected)


def test_nothing_runs_more_than_twice_and_no_more_than_needed() -> None:
    graph = network(ops.tanh)
    plain = without_recomputing(graph)
    for budget in (None, 0.5, 0.25, 0.0):
        chosen = optimized(graph, budget)
        again = Counter(op.name for op in chosen.ops if op.role is Role.RECOMPUTE)
        forward = Counter(op.name for op in plain.ops if op not in backward_ops(plain))
        assert all(count <= forward[name] for name, count in again.items())
        assert (again["matmul"], again["tanh"]) == {None: (0, 0), 0.5: (1, 1), 0.25: (2, 2), 0.0: (3, 2)}[budget]


def test_the_choice_is_deterministic() -> None:
    for budget in (None, 0.5):
        assert optimized(network(relu), budget) == optimized(network(relu), budget)


def test_random_bits_are_kept_as_a_mask() -> None:
    """Dropout: neither the random words nor the scaled values are kept, and no word is drawn twice."""
    text = """\
graph @f(%x: f32[64], %c: u64[64], %k: u64[64], %ct: f32[64]) {
  %r: u64[64] = philox %c, %k
  %h: u64[64] = constant {dtype=u64, shape=(64,), value=9223372036854775808}
  %keep: bool[64] = less %r, %h
  %zero: f32[64] = constant {dtype=f32, shape=(64,), value=0.0}
  %two: f32[64] = constant {dtype=f32, shape=(64,), value=2.0}
  %s: f32[64] = select %keep, %two, %zero
  %y: f32[64] = multiply %x, %s
  %d: f32[64] = multiply %ct, %s  # adjoint
  return %y, %d
}
"""
    chosen = choose_saved_values(parse(text), Options())
    assert [str(value.type) for value in saved_values(chosen)] == ["bool[64]"]
    assert [op.name for op in chosen.ops].count("philox") == 1


UNREACHABLE = """\
graph @f(%x: f32[64], %ct: f32[64]) {
  %a: f32[64] = checkpoint %x [
    graph @g(%x: f32[64]) {
      return %x
    }
  ]
  %d: f32[64] = multiply %a, %ct  # adjoint
  return %d
}
"""


MASK_OF_MASKS = """\
graph @f(%x: f32[1], %y: f32[1], %z: f32[64], %ct: f32[64]) {
  %a: f32[1] = tanh %x
  %b: f32[1] = tanh %y
  %c: f32[64] = tanh %z
  %equal: bool[1] = equal %a, %b  # adjoint
  %infinite: bool[1] = isinf %a  # adjoint
  %both: bool[1] = logical_and %equal, %infinite  # adjoint
  %d: f32[1] = select %both, %a, %b  # adjoint
  %e: f32[64] = multiply %c, %ct  # adjoint
  return %d, %e
}
"""


def test_masks_of_masks_follow_what_they_are_made_of() -> None:
    """`isinf` moves to before `b`, where `equal` is not yet: the last mask of the two before is not the last one after."""
    chosen = choose_saved_values(parse(MASK_OF_MASKS), Options())
    assert [op.name for op in chosen.ops] == ["tanh", "isinf", "tanh", "equal", "logical_and", "tanh", "select", "multiply"]


def test_gradients_of_logaddexp_of_two_elements() -> None:
    assert_allclose(grad(lambda x: np.logaddexp(*np.sort(x)))(np.array([0.0, 0.0])), [0.5, 0.5])


def test_a_budget_that_cannot_be_reached_is_said() -> None:
    graph = parse(UNREACHABLE)
    chosen = choose_saved_values(graph, Options(100))
    assert chosen is graph
    assert describe_saved_values(graph, chosen, Options(100)).endswith("; over the memory budget of 100 bytes")
    assert "over" not in describe_saved_values(graph, chosen, Options(256))


def test_the_remark_counts_bytes() -> None:
    graph = network(relu)
    record = run_pipeline(graph, Options(0), verify=True, passes=UNTIL_CHOICE).records[-1]
    before = saved_bytes(without_recomputing(graph))
    assert record.remark == f"0 values of 0 bytes are saved for the backward half, {before:,} bytes without recomputing"


def test_long_chains() -> None:
    """No recursion, and no more than moderate time, for thousands of ops."""
    lines = [f"  %a{i + 1}: f32[8] = {'exp' if i % 3 == 0 else 'negative'} %a{i}" for i in range(3000)]
    lines += [f"  %d{i + 1}: f32[8] = multiply %d{i}, %a{3000 - i}  # adjoint" for i in range(3000)]
    graph = parse("graph @f(%a0: f32[8], %d0: f32[8]) {\n" + "\n".join(lines) + "\n  return %a3000, %d3000\n}")
    assert saved_bytes(choose_saved_values(graph, Options())) == 1000 * 32
    assert saved_bytes(choose_saved_values(graph, Options(0.25))) <= 3000 * 32 // 4
    assert saved_bytes(choose_saved_values(graph, Options(0))) == 0


EDGES = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 9)), max_size=16)


@settings(max_examples=200, deadline=None)
@given(EDGES)
def test_minimum_cut_against_all_cuts(edges: list[tuple[int, int, int]]) -> None:
    network = Network()
    for _ in range(4):
        network.node()
    for begin, end, capacity in edges:
        network.edge(begin, end, capacity)
    others = range(2, 6)
    sides = [{Network.SOURCE, *chosen} for count in range(5) for chosen in combinations(others, count)]
    costs = [sum(capacity for begin, end, capacity in edges if begin in side and end not in side) for side in sides]
    total, sink_side = network.cut()
    assert total == min(costs)
    assert sink_side == set(range(6)) - set().union(*(side for side, cost in zip(sides, costs, strict=True) if cost == total))


def test_a_cut_avoids_endless_edges() -> None:
    network = Network()
    a, b = network.node(), network.node()
    network.edge(Network.SOURCE, a)
    network.edge(a, b, 7)
    network.edge(b, Network.SINK)
    assert network.cut() == (7, {Network.SINK, b})
    assert INFINITE > 2 ** 60


def test_kinds_have_a_grade_or_are_never_run_again() -> None:
    """A new kind of op has to be thought about here."""
    assert set(Kind) == {Kind.ELEMENTWISE, Kind.MOVEMENT, Kind.REDUCTION, Kind.SCAN, Kind.INDEXING, Kind.CONTRACTION,
                         Kind.CREATION, Kind.REGION, Kind.MEMORY, Kind.CHECK, Kind.WINDOW, Kind.LINALG, Kind.EXTERNAL}


def test_printed_text_of_a_choice_parses() -> None:
    chosen = optimized(network(relu), 0.0)
    assert parse(print_graph(chosen)) == chosen
