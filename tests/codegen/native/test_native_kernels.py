"""Native kernels against the meaning of their ops: every elementwise op and reduction, every place, every target of this machine."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
import pytest
from support.each import for_each
from support.fusion_cases import CASES as PROGRAMS
from support.kernel_runs import CASES, check_numbers, kernel_of, overwriting
from support.native_steps import BEST, TARGET_CASES, LoadedSteps, load_together, run_steps, some

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.fused import lower_fused
from adjit.ir.analysis.kernel_schedule import KernelRule
from adjit.ir.definition import OpDefinition, Sample
from adjit.ir.graph import Graph, Op
from adjit.ir.interpreter import evaluate, interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.passes.fusion.fuse_kernels import fuse_kernels
from adjit.passes.options import Options


@pytest.mark.share(5)
@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("part", range(6))
def test_kernel_equals_numpy(part: int, target: Target, exhaustive: bool) -> None:
    """All samples of some ops on the best target that this machine has, on others the first one of each dtype."""
    alone: dict[str, tuple[OpDefinition, Sample, Op]] = {}
    for cases in list(CASES.values())[part::6]:
        dtypes: set[tuple[np.dtype, ...]] = set()
        for name, definition, sample in cases:
            op, dtype = kernel_of(definition, sample), tuple(array.dtype for array in sample.arrays)
            if op is not None and (exhaustive or target is BEST or dtype not in dtypes):      # None: no kernel runs this reduction alone
                dtypes.add(dtype)
                alone[name] = definition, sample, op
    codes = load_together([lower_fused(op, {}, target) for *_, op in alone.values()], target)

    def check(definition: OpDefinition, sample: Sample, op: Op, code: LoadedSteps) -> None:
        arrays = [np.array(array, order="C") for array in sample.arrays]
        (wanted,) = evaluate(definition, arrays, sample.attrs)
        (found,) = run_steps(code, arrays, [op.result.type], op.attrs["scratch_bytes"], target)
        check_numbers(definition, found, wanted)

    for_each(((name, (*case, code)) for (name, case), code in zip(alone.items(), codes, strict=True)), check)


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


Kernels = dict[Op, tuple[LoadedSteps, LoadedSteps | None]]
"""The code of fused ops: with results in fresh memory, and where some may lie in that of operands, with these there."""


def check_kernels(texts: Mapping[str, str], target: Target, elements_per_block: int | None = None) -> None:
    """The kernels of programs against their meaning: tasks at once and one by one, in fresh memory and in place of operands."""
    with pytest.MonkeyPatch.context() as patch:
        if elements_per_block:
            patch.setattr(KernelRule, "elements_per_block", elements_per_block)
        graphs = {name: parse(text) for name, text in texts.items()}
        fused = {name: fuse_kernels(graph, Options()) for name, graph in graphs.items()}
        kernels = [op for graph in fused.values() for op in graph.ops if op.name == "fused"]
        in_place = [op for op in kernels if overwriting(op)]
        codes = iter(load_together([*(lower_fused(op, {}, target) for op in kernels),
                                    *(lower_fused(op, overwriting(op), target) for op in in_place)], target))
    fresh = {op: next(codes) for op in kernels}
    over = {op: next(codes) for op in in_place}
    for_each(((name, (graphs[name], graph)) for name, graph in fused.items()),
             lambda graph, in_kernels: check_fused(graph, in_kernels, {op: (fresh[op], over.get(op)) for op in fresh}, target))


def check_fused(graph: Graph, fused: Graph, kernels: Kernels, target: Target) -> None:
    arrays = operands_for(graph)
    known = dict(zip(fused.params, arrays, strict=True))
    assert any(op.name == "fused" for op in fused.ops)
    for op in fused.ops:
        operands = [np.ascontiguousarray(known[value]).reshape(value.type.shape) for value in op.operands]
        if op.name != "fused":
            known.update(zip(op.results, map(np.asarray, evaluate(op.definition, operands, op.attrs)), strict=True))
            continue
        types, scratch = [value.type for value in op.results], op.attrs["scratch_bytes"]
        code, in_place = kernels[op]
        found = run_steps(code, operands, types, scratch, target)
        again = run_steps(code, operands, types, scratch, target, one_at_a_time=True)
        assert [array.tobytes() for array in found] == [array.tobytes() for array in again]
        if in_place:
            over = run_steps(in_place, operands, types, scratch, target, shared=overwriting(op))
            assert [array.tobytes() for array in found] == [array.tobytes() for array in over]
        known.update(zip(op.results, found, strict=True))
    for value, array in zip(fused.results, interpret(graph, arrays), strict=True):
        if array.dtype.kind == "f":
            tolerance = 1e-5 if array.dtype == np.float32 else 1e-13
            np.testing.assert_allclose(known[value], array, rtol=tolerance, atol=tolerance * max(1.0, float(np.abs(array).max())))
        else:
            np.testing.assert_array_equal(known[value], array)


@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows_of_every_length(dtype: str, target: Target, exhaustive: bool) -> None:
    shapes = ((1, 2), (7, 3), (5, 10), (40, 16), (3, 17), (130, 25), (2, 100), (600, 64), (33, 127), (4, 513), (9, 2048), (3, 4099))
    check_kernels({f"{rows} x {columns}": ROW_PROGRAM.format(t=dtype, r=rows, c=columns)
                   for rows, columns in some(shapes, target, exhaustive, target.vector_bytes // 16 + (dtype == "f64"))}, target, 512)


@pytest.mark.share(2)
@pytest.mark.parametrize("target", TARGET_CASES)
@pytest.mark.parametrize(("sizes", "elements_per_block"), [((2, 15, 64, 16385, 40000), None), ((129,), 3), ((1000,), 64), ((1024,), 256)])
def test_one_column_of_every_length(sizes: tuple[int, ...], elements_per_block: int | None, target: Target, exhaustive: bool) -> None:
    cases = [(size, dtype) for dtype in ("f32", "f64", "i8", "u16", "i32", "i64") for size in sizes]
    check_kernels({f"{size} of {dtype}": FLAT_PROGRAM.format(t=dtype, n=size)
                   for size, dtype in some(cases, target, exhaustive, len(sizes) + target.vector_bytes // 16)}, target, elements_per_block)


@pytest.mark.parametrize("target", TARGET_CASES)
def test_elements_that_lie_elsewhere(target: Target, exhaustive: bool) -> None:
    shapes = ((2, 3, 4), (5, 3, 16), (2, 4, 33), (3, 2, 1), (2, 16, 2), (7, 1, 5))
    check_kernels({f"{a} x {b} x {c}, axis {axis}": ELSEWHERE.format(a=a, b=b, c=c, axis=axis)
                   for axis, (a, b, c) in some(itertools.product(range(3), shapes), target, exhaustive, 0)}, target, 16)


@pytest.mark.parametrize("target", TARGET_CASES)
def test_fused_programs(target: Target) -> None:
    apart = "a path through matmul keeps kernels apart"        # its numbers grow beyond what can be compared
    check_kernels({name: text for name, (text, _) in PROGRAMS.items() if name != apart}, target)


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
        check_kernels({"this size": print_graph(graph)}, target)
        shared.append(step.shared)
    assert shared[0] == shared[1] == shared[2]
    assert len(shared[0]) == 1
