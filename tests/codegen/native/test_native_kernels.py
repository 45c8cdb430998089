"""Native kernels against the meaning of their ops: every elementwise op and reduction, every place, every target of this machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from support.fusion_cases import CASES as PROGRAMS
from support.kernel_runs import CASES, check_numbers, kernel_of, overwriting
from support.native_steps import TARGET_CASES, run_steps

from adjit.codegen.native.kernels.fused import lower_fused
from adjit.codegen.target import Target
from adjit.ir import kernel_schedule
from adjit.ir.definition import OpDefinition, Sample
from adjit.ir.evaluator import evaluate
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.passes.fuse_kernels import fuse_kernels
from adjit.passes.options import Options


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize(("definition", "sample"), CASES)
def test_kernel_equals_numpy(definition: OpDefinition, sample: Sample, target: Target) -> None:
    op = kernel_of(definition, sample)
    if op is None:
        pytest.skip("no kernel runs this reduction alone")
    arrays = [np.array(array, order="C") for array in sample.arrays]
    (wanted,) = evaluate(definition, arrays, sample.attrs)
    (found,) = run_steps(lower_fused(op, {}, target), arrays, [op.result.type], op.attrs["scratch_bytes"], target)
    check_numbers(definition, found, wanted)


# -- kernels of several ops: all places, sizes and dtypes

ROW_PROGRAM = """
graph @g(%x: {t}[{r},{c}], %row: {t}[{r}], %column: {t}[{c}], %one: {t}[]) {{
  %b: {t}[{r},{c}] = broadcast %row {{axes=(0,), shape=({r}, {c})}}
  %d: {t}[{r},{c}] = broadcast %column {{axes=(1,), shape=({r}, {c})}}
  %o: {t}[{r},{c}] = broadcast %one {{axes=(), shape=({r}, {c})}}
  %u: {t}[{r},{c}] = multiply %x, %d
  %v: {t}[{r},{c}] = add %u, %b
  %m: {t}[{r}] = reduce_max %v {{axes=(1,)}}
  %n: {t}[{r},{c}] = broadcast %m {{axes=(0,), shape=({r}, {c})}}
  %w: {t}[{r},{c}] = subtract %v, %n
  %e: {t}[{r},{c}] = exp %w
  %s: {t}[{r}] = reduce_sum %e {{axes=(1,)}}
  %p: {t}[{r},{c}] = broadcast %s {{axes=(0,), shape=({r}, {c})}}
  %q: {t}[{r},{c}] = divide %e, %p
  %y: {t}[{r},{c}] = multiply %q, %o
  %k: {t}[{c}] = reduce_sum %q {{axes=(0,)}}
  %l: {t}[{c}] = multiply %k, %column
  %z: {t}[] = reduce_sum %l {{axes=(0,)}}
  %a: {t}[] = reduce_max %y {{axes=(0, 1)}}
  %h: {t}[] = reduce_min %s {{axes=(0,)}}
  return %y, %k, %z, %a, %h, %s
}}"""

FLAT_PROGRAM = """
graph @g(%x: {t}[{n}], %one: {t}[]) {{
  %o: {t}[{n}] = broadcast %one {{axes=(), shape=({n},)}}
  %a: {t}[{n}] = multiply %x, %o
  %b: {t}[{n}] = add %a, %x
  %c: bool[{n}] = less %b, %x
  %s: {t}[] = reduce_sum %b {{axes=(0,)}}
  %m: {t}[] = reduce_min %a {{axes=(0,)}}
  %n: bool[] = reduce_and %c {{axes=(0,)}}
  %d: f64[{n}] = convert %b {{dtype=f64}}
  %e: {t}[] = add %s, %m
  return %b, %c, %e, %n, %d
}}"""

ELSEWHERE = """
graph @g(%x: f32[{a},{b},{c}], %w: f32[{b}], %v: f32[{a},{c}], %u: f32[{b},{c}], %s: i32[{c}]) {{
  %k: f32[{a},{b},{c}] = broadcast %w {{axes=(1,), shape=({a}, {b}, {c})}}
  %l: f32[{a},{b},{c}] = broadcast %v {{axes=(0, 2), shape=({a}, {b}, {c})}}
  %m: f32[{a},{b},{c}] = broadcast %u {{axes=(1, 2), shape=({a}, {b}, {c})}}
  %i: i32[{a},{b},{c}] = iota {{axis={axis}, dtype=i32, shape=({a}, {b}, {c})}}
  %j: i32[{a},{b},{c}] = broadcast %s {{axes=(2,), shape=({a}, {b}, {c})}}
  %e: bool[{a},{b},{c}] = less %i, %j
  %p: f32[{a},{b},{c}] = multiply %x, %k
  %q: f32[{a},{b},{c}] = add %p, %l
  %r: f32[{a},{b},{c}] = select %e, %q, %m
  return %r, %e
}}"""


def operands_for(graph: Graph) -> list[np.ndarray]:
    generator = np.random.default_rng(len(graph.ops))
    return [np.asarray(generator.uniform(-2, 2, value.type.shape) if value.type.dtype.kind == "f"
                       else generator.integers(0, 5, value.type.shape)).astype(value.type.dtype) for value in graph.params]


def check_kernels(text: str, target: Target, elements_per_block: int | None = None) -> None:
    """The kernels of a program against its meaning: tasks at once and one by one, in fresh memory and in place of operands."""
    graph = parse(text)
    arrays = operands_for(graph)
    wanted = interpret(graph, arrays)
    with pytest.MonkeyPatch.context() as patch:
        if elements_per_block:
            patch.setattr(kernel_schedule, "ELEMENTS_PER_BLOCK", elements_per_block)
        check_fused(fuse_kernels(graph, Options()), arrays, wanted, target)


def check_fused(graph: Graph, arrays: Sequence[np.ndarray], wanted: Sequence[np.ndarray], target: Target) -> None:
    known = dict(zip(graph.params, arrays, strict=True))
    kernels = 0
    for op in graph.ops:
        operands = [np.ascontiguousarray(known[value]).reshape(value.type.shape) for value in op.operands]
        if op.name != "fused":
            known.update(zip(op.results, map(np.asarray, evaluate(op.definition, operands, op.attrs)), strict=True))
            continue
        kernels += 1
        types, scratch = [value.type for value in op.results], op.attrs["scratch_bytes"]
        steps = lower_fused(op, {}, target)
        found = run_steps(steps, operands, types, scratch, target)
        again = run_steps(steps, operands, types, scratch, target, one_at_a_time=True)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in again]
        shared = overwriting(op)
        if shared:
            over = run_steps(lower_fused(op, shared, target), operands, types, scratch, target, shared=shared)
            assert [array.tobytes() for array in found] == [array.tobytes() for array in over]
        known.update(zip(op.results, found, strict=True))
    assert kernels
    for value, array in zip(graph.results, wanted, strict=True):
        if array.dtype.kind == "f":
            tolerance = 1e-5 if array.dtype == np.float32 else 1e-13
            np.testing.assert_allclose(known[value], array, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(array).max())))
        else:
            np.testing.assert_array_equal(known[value], array)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(("rows", "columns"), [
    (1, 2), (7, 3), (5, 10), (40, 16), (3, 17), (130, 25), (2, 100), (600, 64), (33, 127), (4, 513), (9, 2048), (3, 4099)])
def test_rows_of_every_length(rows: int, columns: int, dtype: str, target: Target) -> None:
    check_kernels(ROW_PROGRAM.format(t=dtype, r=rows, c=columns), target, 512)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i8", "u16", "i32", "i64"])
@pytest.mark.parametrize(("size", "elements_per_block"), [
    (2, None), (15, None), (64, None), (129, 3), (1000, 64), (1024, 256), (16385, None), (40000, None)])
def test_one_column_of_every_length(size: int, elements_per_block: int | None, dtype: str, target: Target) -> None:
    check_kernels(FLAT_PROGRAM.format(t=dtype, n=size), target, elements_per_block)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize(("a", "b", "c"), [(2, 3, 4), (5, 3, 16), (2, 4, 33), (3, 2, 1), (2, 16, 2), (7, 1, 5)])
def test_elements_that_lie_elsewhere(a: int, b: int, c: int, axis: int, target: Target) -> None:
    check_kernels(ELSEWHERE.format(a=a, b=b, c=c, axis=axis), target, 16)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_fused_programs(name: str, target: Target) -> None:
    if name != "a path through matmul keeps kernels apart":        # its numbers grow beyond what can be compared
        check_kernels(PROGRAMS[name][0], target)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("target", TARGET_CASES)
def test_quotients_by_one_number_are_rounded_as_quotients(target: Target, dtype: str) -> None:
    """Divisors of whole rows are inverted, where there is much to divide: zeros, infinities, and what is tiny or lies halfway included."""
    kind = np.float32 if dtype == "f32" else np.float64
    choose, most = np.random.default_rng(0), np.finfo(kind).maxexp
    numbers = np.ldexp(choose.uniform(1, 2, 400), choose.integers(-most - 20, most, 400)) * choose.choice([-1, 1], 400)
    numbers[::7] = choose.uniform(-4, 4, numbers[::7].size)
    numbers[:8] = 0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 8388600.0, 13421772.0
    limits = np.finfo(kind)
    divisors = np.array([3.0, -7.0, 0.0, -0.0, np.inf, -np.inf, np.nan, 0.1, 1e-30, 1e30, 16777215.0, 2.0 ** (20 - most),
                         2.0 ** (most - 20), limits.smallest_subnormal, limits.max, limits.tiny], kind)
    shape = f"{divisors.size},{numbers.size}"
    graph = parse(f"""graph @g(%x: {dtype}[{shape}], %d: {dtype}[{divisors.size}]) {{
  %b: {dtype}[{shape}] = broadcast %d {{axes=(0,), shape=({divisors.size}, {numbers.size})}}
  %q: {dtype}[{shape}] = divide %x, %b
  %s: {dtype}[{shape}] = strong_divide %x, %b
  return %q, %s
}}""")
    with np.errstate(all="ignore"):
        arrays = [np.tile(numbers.astype(kind), (divisors.size, 1)), divisors]
        wanted = interpret(graph, arrays)
    fused = fuse_kernels(graph, Options())
    (op,) = fused.ops
    assert op.operands == fused.params
    for found, array in zip(run_steps(lower_fused(op, {}, target), arrays, [v.type for v in op.results], 0, target), wanted, strict=True):
        np.testing.assert_array_equal(found, array)
        usable = ~np.isnan(array)
        np.testing.assert_array_equal(np.signbit(found)[usable], np.signbit(array)[usable])


def test_long_sums_are_better_than_a_chain() -> None:
    x = np.random.default_rng(0).uniform(0, 1, 1 << 20).astype(np.float32)
    graph = parse(f"""graph @g(%x: f32[{x.size}]) {{
  %y: f32[{x.size}] = square %x
  %s: f32[] = reduce_sum %y {{axes=(0,)}}
  return %s
}}""")
    (op,) = fuse_kernels(graph, Options()).ops
    target = TARGET_CASES[0].values[0]
    (found,) = run_steps(lower_fused(op, {}, target), [x], [op.result.type], op.attrs["scratch_bytes"], target)
    assert abs(found / np.sum(x.astype(np.float64)**2) - 1) < 1e-7


@pytest.mark.parametrize("target", [case for case in TARGET_CASES if case.values[0].vector_bytes > 16])
def test_kernels_of_all_sizes_share_their_code(target: Target) -> None:
    shared = []
    for size in (33, 1000, 200000):
        graph = parse(f"""graph @g(%x: f32[{size}], %y: f32[{size}], %a: f32[]) {{
  %b: f32[{size}] = broadcast %a {{axes=(), shape=({size},)}}
  %c: f32[{size}] = multiply %y, %b
  %d: f32[{size}] = subtract %x, %c
  return %d
}}""")
        (op,) = fuse_kernels(graph, Options()).ops
        (step,) = lower_fused(op, {}, target)
        check_kernels(print_graph(graph), target)
        shared.append(step.shared)
    assert shared[0] == shared[1] == shared[2]
    assert len(shared[0]) == 1
