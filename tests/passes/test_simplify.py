"""The exceptions of `simplify` to "every bit" are as small as its files say, and rules that are wrong are noticed."""

from __future__ import annotations

import time

import numpy as np
import pytest

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.types import F32, TensorType
from adjit.passes.options import Options
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.rewrite import Rewriter, RuleTable, rewrite
from adjit.passes.simplify.simplify import simplify


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


def sum_of_product(axes: tuple[int, ...], transpose_a: bool, transpose_b: bool, role: str) -> Graph:
    """-(a b + x) of 3 products of 4 by 5 by 6, summed."""
    a, b = "3,5,4" if transpose_a else "3,4,5", "3,6,5" if transpose_b else "3,5,6"
    left = ",".join(size for axis, size in enumerate("346") if axis not in axes)
    flags = f"transpose_a={str(transpose_a).lower()}, transpose_b={str(transpose_b).lower()}"
    return parse(f"""\
graph @f(%a: f64[{a}], %b: f64[{b}], %x: f64[3,4,6]) {{
  %p: f64[3,4,6] = matmul %a, %b {{{flags}}}  # model.py:1 in f, {role}
  %s: f64[3,4,6] = add %p, %x  # model.py:1 in f, {role}
  %n: f64[3,4,6] = negative %s  # model.py:1 in f, {role}
  %r: f64[{left}] = reduce_sum %n {{axes={axes}}}  # model.py:1 in f, {role}
  return %r
}}
""")


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(("axes", "rows", "columns"), [
    ((0,), 4, 6), ((1,), 1, 6), ((2,), 4, 1), ((0, 1), 1, 6), ((0, 2), 4, 1), ((1, 2), 1, 1), ((0, 1, 2), 1, 1)], ids=str)
def test_sums_of_products_are_products_of_sums_in_gradients(
        axes: tuple[int, ...], rows: int, columns: int, transpose_a: bool, transpose_b: bool) -> None:
    before = sum_of_product(axes, transpose_a, transpose_b, "adjoint")
    after = eliminate_dead_code(simplify(before, Options()), Options())
    (product,) = [op for op in after.ops if op.name == "matmul"]
    assert product.result.type.shape[-2:] == (rows, columns)
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(param.type.shape) for param in before.params]
    np.testing.assert_allclose(interpret(after, arrays)[0], interpret(before, arrays)[0], rtol=1e-12, atol=1e-12)


def test_sums_of_products_that_the_user_wrote_stay() -> None:
    before = sum_of_product((1, 2), False, False, "primal")
    assert [op.name for op in simplify(before, Options()).ops] == ["matmul", "add", "negative", "reduce_sum"]


def test_a_product_that_something_else_reads_stays() -> None:
    before = sum_of_product((1,), False, False, "adjoint")
    before = before.with_ops(before.ops, (*before.results, before.ops[0].result))
    assert [op.result.type.shape for op in simplify(before, Options()).ops if op.name == "matmul"] == [(3, 4, 6)]


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
    product, total = [op for op in graph.ops if op.result in used and op.name != "constant"][-2:]
    assert (product.name, total.name) == ("multiply", "add")      # with 0.0: a sum is never -0.0
    assert product.operands[0] is graph.params[0]


def test_time_grows_with_the_number_of_ops() -> None:
    """Chains of 20 000 ops, also of rules that look back, take about a second and no recursion."""
    calls = ("negative %a{}", "reshape %a{} {{shape=(4,)}}")
    lines = [f"  %a{i + 1}: f32[4] = {calls[i % 2].format(i)}" for i in range(20_000)]
    graph = parse("graph @f(%a0: f32[4]) {\n" + "\n".join(lines) + "\n  return %a20000\n}")
    begun = time.thread_time()
    out = simplify(graph, Options())
    assert time.thread_time() - begun < 10
    assert out.results == graph.params
