"""Fusion: which ops share a kernel, over which space, and that the kernel means the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pytest
from support.fusion_cases import CASES
from support.kernel_runs import as_python, compiled, run_fused, run_kernel

from adjit.ir.graph import Graph, Op
from adjit.ir.interpreter import evaluate, interpret
from adjit.ir.ops.guard import GuardMiss
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.verifier import Stage, verify
from adjit.passes.fusion.fuse_kernels import MAX_LIVE_INPUTS, fuse_kernels
from adjit.passes.memory.plan_memory import peak_bytes
from adjit.passes.options import Options
from adjit.passes.schedule import schedule


def fused(text: str) -> tuple[Graph, Graph]:
    graph = parse(text)
    verify(graph)
    result = fuse_kernels(graph, Options())
    verify(result, Stage.FUSED)
    assert parse(print_graph(result)) == result
    return graph, result


def arrays_for(graph: Graph) -> list[np.ndarray]:
    generator = np.random.default_rng(3)
    return [(generator.integers(1, 6, value.type.shape) if value.type.dtype.kind == "i" else generator.normal(size=value.type.shape) + 1.5)
            .astype(value.type.dtype) for value in graph.params]


def assert_same(got: tuple[np.ndarray, ...], wanted: tuple[np.ndarray, ...]) -> None:
    for a, b in zip(got, wanted, strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a, b, rtol=1e-12 if a.dtype == np.float64 else 2e-5, atol=1e-12 if a.dtype == np.float64 else 1e-6)


@pytest.mark.share(3)
@pytest.mark.parametrize("name", CASES)
def test_kernels_mean_the_same(name: str) -> None:
    text, spaces = CASES[name]
    graph, result = fused(text)
    assert [(op.attrs["rows"], op.attrs["columns"]) for op in result.ops if op.name == "fused"] == spaces
    arrays = arrays_for(graph)
    wanted = interpret(graph, arrays)
    assert_same(interpret(result, arrays), wanted)
    assert_same(run_fused(result, arrays, as_python), wanted)
    assert_same(run_fused(result, arrays, compiled, splits=3), wanted)


def test_the_split_over_threads_does_not_change_a_bit() -> None:
    graph, result = fused(CASES["bias, mask and column sums"][0].replace("40", "4000"))
    arrays = arrays_for(graph)
    one, three = (run_fused(result, arrays, compiled, splits) for splits in (1, 3))
    assert all(a.tobytes() == b.tobytes() for a, b in zip(one, three, strict=True))


def test_a_single_cheap_op_is_left_to_numpy() -> None:
    _, result = fused("graph @g(%x: f32[4], %y: f32[4]) {\n %a: f32[4] = add %x, %y\n return %a\n}")
    assert [op.name for op in result.ops] == ["add"]


def test_empty_arrays_are_left_to_numpy() -> None:
    _, result = fused("graph @g(%x: f32[0,4]) {\n %a: f32[0,4] = exp %x\n %b: f32[0,4] = exp %a\n return %b\n}")
    assert [op.name for op in result.ops] == ["exp", "exp"]


def test_the_forward_kernel_keeps_only_what_was_chosen() -> None:
    _, result = fused(CASES["what only the backward half needs is computed there"][0])
    forward, _, backward = result.ops
    assert len(forward.results) == 2
    assert [op.name for op in backward.regions[0].ops] == ["exp", "negative", "multiply"]


def test_views_that_only_kernels_read_are_gone() -> None:
    _, result = fused(CASES["softmax of rows"][0])
    assert [op.name for op in result.ops] == ["fused"]


def test_in_place_operands_are_read_before_they_are_written() -> None:
    # %x is read by the second loop of a row too, after which the exponentials lie in a buffer.
    _, result = fused(CASES["softmax of rows"][0])
    assert result.ops[0].attrs["in_place"] == (0,)
    # Here the first loop stores %a, and the second one reads %x again.
    _, result = fused("""
graph @g(%x: f32[7,5]) {
  %a: f32[7,5] = square %x
  %s: f32[7] = reduce_sum %a {axes=(1,)}
  %b: f32[7,5] = broadcast %s {axes=(0,), shape=(7, 5)}
  %y: f32[7,5] = multiply %x, %b
  return %a, %y
}""")
    assert result.ops[0].attrs["in_place"] == ()


OVERWRITING = {
    "the second result reads what the first may lie over": """
graph @g(%x: f64[9,7], %y: f64[9,7], %b: f64[7]) {
  %k: f64[9,7] = constant {dtype=f64, shape=(9, 7), value=1.0}
  %a: f64[9,7] = subtract %k, %x
  %c: f64[9,7] = broadcast %b {axes=(1,), shape=(9, 7)}
  %d: f64[9,7] = add %y, %c
  %e: f64[9,7] = multiply %d, %a
  return %a, %e
}""",
    "a number a row that only a later loop reads": """
graph @g(%x: f64[4,3], %u: f64[4], %w: f64[4]) {
  %s: f64[4] = square %u
  %b: f64[4,3] = broadcast %s {axes=(0,), shape=(4, 3)}
  %y: f64[4,3] = multiply %x, %b
  %m: f64[4] = reduce_sum %y {axes=(1,)}
  %v: f64[4] = add %m, %w
  %c: f64[4,3] = broadcast %v {axes=(0,), shape=(4, 3)}
  %z: f64[4,3] = multiply %y, %c
  return %s, %v, %z
}""",
}


def overwritings(op: Op) -> Iterator[dict[int, int]]:
    """Every way to lay results of a fused op over operands of which that is allowed."""
    same_size = [[i for i in op.attrs["in_place"] if op.operands[i].type.nbytes == value.type.nbytes] for value in op.results]
    for choice in itertools.product(*([None, *operands] for operands in same_size)):
        shared = {j: i for j, i in enumerate(choice) if i is not None}
        if len(set(shared.values())) == len(shared):
            yield shared


@pytest.mark.parametrize("text", [*(text for text, _ in CASES.values()), *OVERWRITING.values()], ids=[*CASES, *OVERWRITING])
def test_a_result_over_an_operand_means_the_same(text: str) -> None:
    graph, result = fused(text)
    known = dict(zip(graph.params, arrays_for(graph), strict=True))
    for op in result.ops:
        operands = [known[value] for value in op.operands]
        wanted = evaluate(op.definition, operands, op.attrs, op.regions)
        known.update(zip(op.results, wanted, strict=True))
        for shared in overwritings(op) if op.name == "fused" and op.attrs["rows"] * op.attrs["columns"] < 1000 else ():
            assert_same(tuple(run_kernel(op, [array.copy() for array in operands], as_python, 1, shared)), tuple(wanted))


def test_the_cases_of_overwriting_overwrite() -> None:
    for text in OVERWRITING.values():
        (op,) = fused(text)[1].ops
        assert max(len(shared) for shared in overwritings(op)) >= 2


def test_an_operand_that_is_read_twice_is_never_overwritten() -> None:
    _, result = fused(CASES["all pairs"][0])
    x = result.params[0]
    assert all(result.ops[0].operands[i] is not x for i in result.ops[0].attrs["in_place"])


def test_locations_and_roles_survive() -> None:
    _, result = fused("""
graph @g(%x: f32[4]) {
  %a: f32[4] = exp %x  # model.py:3 in loss
  %b: f32[4] = square %a  # model.py:4 in loss, adjoint
  %c: f32[4] = exp %b  # model.py:5 in loss, adjoint
  return %c
}""")
    op = result.ops[0]
    assert str(op.loc) == "model.py:5 in loss"
    assert op.role.value == "adjoint"
    assert [(str(inner.loc), inner.role.value) for inner in op.regions[0].ops] == [
        ("model.py:3 in loss", "primal"), ("model.py:4 in loss", "adjoint"), ("model.py:5 in loss", "adjoint")]


def test_sums_and_products_of_bools_are_bools() -> None:
    graph, result = fused("""
graph @g(%x: bool[4], %y: bool[4]) {
  %a: bool[4] = add %x, %y
  %b: bool[4] = multiply %x, %a
  return %a, %b
}""")
    arrays = [np.array([True, True, False, False]), np.array([True, False, True, False])]
    for runner in (as_python, compiled):
        for found, wanted in zip(run_fused(result, arrays, runner), interpret(graph, arrays), strict=True):
            assert found.view(np.uint8).tolist() == wanted.view(np.uint8).tolist()


def test_a_sum_of_many_matmuls_does_not_wait_for_all_of_them() -> None:
    """The gradient of a weight that is used in every step of a loop."""
    lines, total = [], "%p0"
    for i in range(40):
        lines.append(f"%p{i}: f32[64,64] = matmul %x{i}, %y {{transpose_a=false, transpose_b=false}}")
        if i:
            lines.append(f"%s{i}: f32[64,64] = add {total}, %p{i}")
            total = f"%s{i}"
    params = ", ".join(f"%x{i}: f32[64,64]" for i in range(40))
    body = "\n  ".join(lines)
    _, result = fused(f"graph @g({params}, %y: f32[64,64]) {{\n  {body}\n  return {total}\n}}")
    assert any(op.name == "fused" for op in result.ops)
    assert peak_bytes(result) <= (MAX_LIVE_INPUTS + 1) * 64 * 64 * 4


def test_single_ops_are_kernels_where_there_is_nothing_else() -> None:
    graph = parse("""
graph @g(%x: f32[64,70000], %z: f32[9]) {
  %s: f32[] = reduce_sum %x {axes=(0, 1)}
  %y: f32[9] = negative %z
  return %s, %y
}""")
    assert [op.name for op in fuse_kernels(graph, Options()).ops] == ["reduce_sum", "negative"]
    assert {op.name for op in fuse_kernels(graph, Options(only_kernels=True)).ops} == {"fused"}


def test_guards_stay_before_what_they_protect() -> None:
    """A kernel of what a guard needs and of what comes behind an index check would have the check come first."""
    _, result = fused("""
        graph @f(%x: f64[9], %t: f64[], %n: i64[]) {
          %0: f64[] = constant {dtype=f64, shape=(), value=2.0}
          %1: f64[] = multiply %t, %0
          %2: bool[] = less %1, %t
          guard %2 {expected=true, number=0}
          %3: f64[] = take %x, %n {axis=0}
          %4: f64[] = multiply %3, %t
          %5: bool[] = less %4, %1
          guard %5 {expected=true, number=1}
          %6: f64[] = add %4, %1
          return %6
        }""")
    with pytest.raises(GuardMiss):
        interpret(schedule(result, Options()), [np.zeros(9), np.array(1.0), np.array(9)])
