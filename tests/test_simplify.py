"""The exceptions of `simplify` to "every bit" are as small as its files say, and rules that are wrong are noticed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.graph import Op, Value
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.types import F32, TensorType
from adjit.passes.options import Options
from adjit.passes.rewrite import Rewriter, RuleTable, rewrite
from adjit.passes.simplify import simplify


@pytest.mark.parametrize(("exponent", "ulps"), [(1, 0.0), (2, 0.5), (3, 1.5), (4, 2.0)])
def test_small_powers_are_near_the_exact_ones(exponent: int, ulps: float) -> None:
    x = np.random.default_rng(0).uniform(-8, 8, 100_000).astype(F32)
    graph = simplify(trace_graph("f", [TensorType(F32, x.shape)], lambda v: [ops.power(v, ops.full_like(v, float(exponent)))]), Options())
    assert "power" not in [op.name for op in graph.ops]
    (got,) = interpret(graph, [x])
    exact = x.astype(np.float64) ** exponent
    assert np.max(np.abs(got - exact) / np.spacing(np.abs(exact).astype(F32))) <= ulps + 1e-3


def test_a_sum_of_equal_numbers_is_the_nearest_to_the_exact_sum() -> None:
    x = np.random.default_rng(0).standard_normal(1000).astype(F32)
    graph = trace_graph("f", [TensorType(F32, x.shape)], lambda v: [
        ops.reduce_sum(ops.broadcast(v, shape=(37, 1000), axes=(1,)), axes=(0,))])
    (got,) = interpret(simplify(graph, Options()), [x])
    np.testing.assert_array_equal(got, (x.astype(np.float64) * 37).astype(F32))


def test_a_rule_that_changes_the_type_is_named() -> None:
    table = RuleTable()

    @table.rule("exp")
    def forget_the_axis(op: Op, graph: Rewriter) -> Value | None:
        return ops.reduce_sum(op.operands[0], axes=(0,))

    graph = parse("graph @f(%x: f32[2]) {\n  %a: f32[2] = exp %x\n  return %a\n}")
    with pytest.raises(AssertionError, match=r"forget_the_axis makes f32\[\] of f32\[2\]"):
        rewrite(graph, table)


def test_emitted_ops_have_location_role_and_name_of_what_they_replace() -> None:
    graph = simplify(parse("""\
graph @f(%x: f32[2]) {
  %c: f32[2] = constant {dtype=f32, shape=(2,), value=4.0}  # model.py:1 in f
  %a: f32[2] = divide %x, %c  # model.py:2 in g, adjoint
  return %a
}
"""), Options())
    constant, product = graph.ops[1:]
    assert (constant.name, product.name, product.result.name) == ("constant", "multiply", "a")
    for op in (constant, product):
        assert (str(op.loc), op.role.value) == ("model.py:2 in g", "adjoint")


def test_what_a_rule_makes_is_simplified_too() -> None:
    """Many steps in one walk: the transposes cancel, then the broadcasts, then the sums are products."""
    graph = simplify(parse("""\
graph @f(%x: f32[3]) {
  %b: f32[3,4] = broadcast %x {axes=(0,), shape=(3, 4)}
  %t: f32[4,3] = transpose %b {permutation=(1, 0)}
  %n: f32[4,3] = negative %t
  %m: f32[4,3] = negative %n
  %s: f32[3] = reduce_sum %m {axes=(0,)}
  return %s
}
"""), Options())
    used = {value for op in graph.ops for value in op.operands} | set(graph.results)
    assert [op.name for op in graph.ops if op.result in used and op.name != "constant"][-1:] == ["multiply"]
    assert graph.ops[-1].operands[0] is graph.params[0]


def test_time_grows_with_the_number_of_ops() -> None:
    """Chains of 20 000 ops, also of rules that look back, take about a second and no recursion."""
    calls = ("negative %a{}", "reshape %a{} {{shape=(4,)}}")
    lines = [f"  %a{i + 1}: f32[4] = {calls[i % 2].format(i)}" for i in range(20_000)]
    graph = parse("graph @f(%a0: f32[4]) {\n" + "\n".join(lines) + "\n  return %a20000\n}")
    begun = time.perf_counter()
    out = simplify(graph, Options())
    assert time.perf_counter() - begun < 10
    assert out.results == graph.params
