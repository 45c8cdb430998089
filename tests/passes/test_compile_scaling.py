"""Programs that a Python loop makes long: the compiler's work grows in proportion, and fusion computes nothing twice.

Work is counted, not timed: lines of the compiler that are executed. The programs are those of `benchmarks/unrolled_loops.py`.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from types import FrameType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.fusion_cases import CASES
from support.project import ROOT

import adjit as aj
from adjit.codegen.llvm.target import TARGETS
from adjit.codegen.native import program
from adjit.ir import verifier
from adjit.ir.builder import GraphBuilder
from adjit.ir.definition import OpDefinition
from adjit.ir.graph import Graph, Op, Slot, Value, structural_key, walk
from adjit.ir.ops.region import fused
from adjit.ir.ops.traits import FREE_IN_KERNELS
from adjit.ir.parser import parse
from adjit.ir.types import TensorType
from adjit.ir.verifier import Stage, in_place_operands
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.fusion import fusion_groups, topological_order
from adjit.passes.fusion.fuse_kernels import fuse_kernels
from adjit.passes.fusion.fusion_groups import MAX_OPS
from adjit.passes.fusion.topological_order import TopologicalOrder
from adjit.passes.loops.roll_loops import roll_loops
from adjit.passes.memory.plan_memory import plan_memory
from adjit.passes.memory.share_buffers import share_buffers
from adjit.passes.options import Options, RollingRule
from adjit.passes.pipeline import PIPELINE, Pass, run_pipeline
from adjit.passes.simplify.rewrite import Rewriter, Rule, RuleTable, rewrite
from adjit.passes.simplify.simplify import RULES
from adjit.tracer import user_location
from adjit.tracer.trace import trace_function
from adjit.tracer.user_location import is_ours

sys.path.insert(0, str(ROOT / "benchmarks"))

from unrolled_loops import PROGRAMS, traced

STEPS = {"stencil": 12, "ring": 12, "orbit": 4, "sensitivity": 4, "oscillators": 4, "recurrent": 24, "optimizer": 40, "chain": 60,
         "residual_layers": 4}
"""Of the shorter of two programs; the longer one has twice as many."""

FIXED = 3000
"""Lines that a stage may take whatever the length of the program."""


class Lines:
    """Counts the lines of adjit that run within the block."""

    def __init__(self) -> None:
        self.count = 0
        self._ours = {str(Path(package.__file__ or "").parent) for package in sys.modules.copy().values()
                      if getattr(package, "__name__", "").partition(".")[0] == "adjit" and getattr(package, "__file__", None)}
        self._is_ours: dict[str, bool] = {}

    def __enter__(self) -> Lines:
        self._before = sys.gettrace()
        sys.settrace(self._enter_frame)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.settrace(self._before)

    def _enter_frame(self, frame: FrameType, event: str, arg: Any) -> Any:
        name = frame.f_code.co_filename
        is_ours = self._is_ours.get(name)
        if is_ours is None:
            is_ours = self._is_ours[name] = os.path.dirname(name) in self._ours
        return self._line if is_ours else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
        return self._line


def work(name: str, steps: int) -> Counter[str]:
    """Lines that the trace and each pass execute."""
    lines: Counter[str] = Counter()
    with Lines() as counter:
        graph = traced(name, steps)
    lines["trace"] = counter.count
    for step in PIPELINE:
        with Lines() as counter:
            graph = step.run(graph, Options())
        lines[step.name] = counter.count
    return lines


def filtered(steps: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """A Kalman filter of two states: `np.linalg` at each step, at one line for solve and one for det; the gradient of its likelihood."""
    def likelihood(noise: Any, seen: Any) -> Any:
        x, variance, total = np.zeros(2), np.eye(2), 0.0
        for y in seen:
            spread = variance + noise
            gain = np.linalg.solve(spread, variance)
            total = total - (y - x) @ gain @ (y - x) - np.log(np.linalg.det(spread))
            x, variance = x + gain @ (y - x), variance - gain @ variance
        return total
    return aj.grad(likelihood), (0.3 * np.eye(2), np.ones((steps, 2)))


def test_rules_of_linear_algebra_are_traced_once_for_each_line(monkeypatch: pytest.MonkeyPatch) -> None:
    emitted: list[str] = []
    emit = GraphBuilder.emit

    def counted(self: GraphBuilder, definition: OpDefinition, *rest: Any) -> Any:
        emitted.append(definition.name)
        return emit(self, definition, *rest)

    monkeypatch.setattr(GraphBuilder, "emit", counted)

    def ops_emitted(steps: int) -> int:
        emitted.clear()
        trace_function(*filtered(steps), {})
        return len(emitted)

    short, long = ops_emitted(4), ops_emitted(8)
    assert long - short < 4 * 40        # a trace of the rules emits some thousand ops


def test_calls_of_one_rule_share_its_regions() -> None:
    traced_graph = trace_function(*filtered(6), {}).graph
    function = next(op.regions[0] for op in traced_graph.ops if op.name == "vjp")
    calls = [op for op in function.ops if op.name == "custom_call"]
    assert len(calls) == 6
    assert len({tuple(map(id, op.regions)) for op in calls}) == 1


def test_no_garbage_is_collected_while_a_program_is_traced() -> None:
    """Each collection would walk all ops that were traced before."""
    events: list[str] = []

    def noted(phase: str, info: dict[str, int]) -> None:
        events.append(phase)

    def unrolled(x: Any) -> Any:
        gc.callbacks.append(noted)
        for _ in range(2000):
            x = np.sin(x) + 1.0
        gc.callbacks.remove(noted)
        return x

    assert gc.isenabled()
    aj.compile(unrolled, backend="interpret")(np.ones(2))
    assert not events
    assert gc.isenabled()


def test_the_name_of_a_module_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for each frame of ours that lies between an op and the user's line."""
    modules: list[str] = []
    monkeypatch.setattr(user_location, "is_ours", lambda module: modules.append(module) or is_ours(module))

    def looks(steps: int) -> int:
        modules.clear()
        assert len(list(walk(traced("chain", steps)))) > steps
        return sum(map(is_ours, modules))

    looks(1)
    assert looks(10) == 0


def test_passes_run_once_over_regions_that_ops_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many steps of a filter, each with loops of its own, are no more graphs for any pass, nor for the verifier."""
    graphs: Counter[str] = Counter()
    apply, check = Pass.apply, verifier._Check.graph

    def counted(self: Pass, graph: Graph, options: Options) -> Graph:
        graphs[self.name] += 1
        return apply(self, graph, options)

    def checked(self: Any, graph: Graph) -> None:
        graphs["verify"] += self.stage < Stage.FUSED        # kernels are regions of their own
        check(self, graph)

    monkeypatch.setattr(Pass, "apply", counted)
    monkeypatch.setattr(verifier._Check, "graph", checked)

    def graphs_seen(steps: int) -> Counter[str]:
        graphs.clear()
        run_pipeline(trace_function(*filtered(steps), {}).graph, Options(), verify=True)
        return graphs.copy()

    assert graphs_seen(12) == graphs_seen(6)


@pytest.mark.parametrize(("rows", "columns", "runs"), [(32, 2048, 2), (64, 1024, 3)])
def test_passes_run_again_from_the_first_that_reads_the_cache_size(rows: int, columns: int, runs: int) -> None:
    """Tiles that take too much stack: passes before them run once, those behind them only where a smaller cache gives other tiles."""
    def deep(x: Any, w: Any) -> Any:
        hidden = x @ w
        for _ in range(60):
            hidden = np.sin(hidden) + hidden * 0.01
        return np.sum(np.tanh(hidden @ w.T) @ w * hidden)

    graph = trace_function(aj.grad(deep, argnums=(0, 1)), (np.zeros((rows, 64)), np.zeros((64, columns))), {}).graph
    seen: Counter[str] = Counter()
    result = run_pipeline(graph, Options(cache_bytes=1 << 21), verify=False, on_pass=lambda name, _: seen.update([name]))
    assert (seen["traced"], seen["differentiate"], seen["simplify_loops"]) == (1, 1, 1)
    assert (seen["choose_saved_values"], seen["tile_batch"], seen["fuse_kernels"]) == (3, 3, runs)
    assert [record.name for record in result.records] == [step.name for step in PIPELINE]


@cache
def stages(name: str, steps: int) -> dict[str, Graph]:
    return run_pipeline(traced(name, steps), Options(), verify=False).graphs


def computing(graph: Graph) -> Counter[str]:
    """How often each kind of op that costs something is in the graph, kernels taken apart."""
    return Counter(op.name for op in walk(graph) if op.name not in FREE_IN_KERNELS | {"fused"})


@pytest.mark.share(6)
@pytest.mark.parametrize("name", STEPS)
def test_work_grows_in_proportion(name: str) -> None:
    traced(name, 1)       # what is made once in a process
    short, long = work(name, STEPS[name]), work(name, 2 * STEPS[name])
    superlinear = {stage: (short[stage], long[stage]) for stage in long if long[stage] > 2.3 * short[stage] + FIXED}
    assert not superlinear
    assert sum(long.values()) < 2.3 * sum(short.values())


@pytest.mark.parametrize("name", STEPS)
def test_about_one_rule_is_tried_in_vain_for_an_op(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """There are some hundred rules: those that the makers of the operands rule out are not tried (that would be four)."""
    counts: Counter[str] = Counter()
    look = Rewriter._replacement

    def counted(rule: Rule) -> Rule:
        def apply(op: Op, graph: Rewriter) -> Any:
            value = rule(op, graph)
            counts["in vain"] += value is None
            return value
        return apply

    def look_counted(self: Rewriter, op: Op) -> Any:
        counts["ops"] += 1
        return look(self, op)

    table = RuleTable()
    table.entries = {op: [replace(entry, rule=counted(entry.rule)) for entry in entries] for op, entries in RULES.entries.items()}
    monkeypatch.setattr(Rewriter, "_replacement", look_counted)
    rewrite(differentiate(traced(name, STEPS[name]), Options()), table)
    assert counts["in vain"] < 1.3 * counts["ops"]
    assert len(table.found) < 200         # combinations of makers, found once each


def test_work_for_an_op_does_not_grow_with_the_order_of_derivatives() -> None:
    """Each order has some 2.7 times as many ops, in kernels that read and give many values."""
    def total(x: Any) -> Any:
        for _ in range(4):
            x = np.tanh(x * 1.5 + np.sin(x))
        return x.sum()

    def lines_an_op(order: int) -> float:
        function = total
        for _ in range(order):
            function = summed_gradient(function)
        graph = trace_function(function, (np.ones(8),), {}).graph
        ops, lines = 0, 0
        for step in PIPELINE:
            with Lines() as counter:
                graph = step.run(graph, Options())
            lines += counter.count
            ops = len(graph.ops) if step.name == "differentiate" else ops
        return lines / ops

    assert lines_an_op(4) < 1.5 * lines_an_op(3)


def test_compiling_a_rolled_loop_takes_no_longer_for_more_iterations() -> None:
    """But for finding the loop, which takes some lines an op."""
    def total(n: int) -> Callable[..., Any]:
        def f(x: Any, w: Any) -> Any:
            h = 0.0 * x[0]
            for i in range(n):
                h = np.tanh(w @ h + x[i]) + 0.1 * i
            return np.sum(h)
        return f

    def lines(n: int) -> tuple[int, int, int]:
        function = aj.value_and_grad(total(n), argnums=(0, 1))
        graph = trace_function(function, (np.ones((n, 4)), np.ones((4, 4))), {}).graph
        count = sum(1 for _ in walk(graph))
        with Lines() as finding:
            graph = roll_loops(graph, Options(rolling=RollingRule(4, 12)))
        with Lines() as counter:
            run_pipeline(graph, Options(), verify=False)
        return finding.count, counter.count, count

    (_, compiling, _), (finding, compiling_long, ops) = lines(10), lines(1000)
    assert compiling_long < 1.2 * compiling
    assert finding < 45 * ops


def summed_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x: aj.grad(function)(x).sum()


@pytest.mark.parametrize("name", STEPS)
def test_fusion_computes_nothing_twice(name: str) -> None:
    graphs = stages(name, 2 * STEPS[name])
    assert computing(graphs["fused"]) <= computing(graphs["optimized"])     # less where a kernel finds that two of its ops are one


@pytest.mark.parametrize("name", STEPS)
def test_each_op_runs_again_at_most_once(name: str) -> None:
    graphs = stages(name, 2 * STEPS[name])
    ops = [op for op in graphs["optimized"].ops if op.name not in FREE_IN_KERNELS]
    again = Counter(op.name for op in ops if op.role.name == "RECOMPUTE")
    first = Counter(op.name for op in stages(name, 2 * STEPS[name])["adjoint"].ops if op.role.name == "PRIMAL")
    assert again <= first


def test_a_long_chain_of_stencils_is_one_kernel_a_step() -> None:
    def kernels(steps: int) -> list[Op]:
        return [op for op in stages("stencil", steps)["fused"].ops if op.name == "fused"]

    sizes = [len([op for op in kernel.regions[0].ops if op.name not in FREE_IN_KERNELS]) for kernel in kernels(40)]
    assert len(kernels(40)) - len(kernels(20)) == 40       # a step forward and one backward
    assert max(sizes) <= 12


def test_an_unrolled_program_of_numbers_is_few_kernels() -> None:
    graph = stages("orbit", 24)["fused"]
    kernels = [op for op in graph.ops if op.name == "fused"]
    count = sum(computing(graph).values())
    assert count > 1500
    assert len(kernels) <= 2 * count / MAX_OPS + 1
    assert all(len(kernel.regions[0].ops) <= MAX_OPS for kernel in kernels)


def test_a_question_about_paths_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """With few looks a merge is given up where a path cannot be excluded; what comes out is another program that means the same."""
    graph = stages("ring", 12)["optimized"]
    monkeypatch.setattr(topological_order, "MAX_VISITS", 1)
    few = fuse_kernels(graph, Options())
    monkeypatch.undo()
    assert computing(few) == computing(graph)
    assert len(few.ops) > len(fuse_kernels(graph, Options()).ops)


def test_what_a_growing_group_knows_of_itself_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group made of parts is legal over the same rows and columns as one whose ops are all looked at."""
    made = []
    choose = fusion_groups.choose_iteration_space

    def both(group: fusion_groups.FusionGroup, parts: Any = ()) -> bool:
        anew = fusion_groups.FusionGroup(group.size, group.ops, group.maps, group.loads, group.origin)
        legal, found = choose(group, parts), choose(anew)
        made.append(legal)
        assert legal == found
        assert not legal or (group.rows, group.columns, group.lengths, group.post) == (anew.rows, anew.columns, anew.lengths, anew.post)
        return legal

    monkeypatch.setattr(fusion_groups, "choose_iteration_space", both)
    for graph in (*(stages(name, 4)["optimized"] for name in PROGRAMS), *(parse(text) for text, _ in CASES.values())):
        fuse_kernels(graph, Options())
    assert set(made) == {True, False}


def test_a_path_through_others_is_found() -> None:
    """0 -> 1 -> 2, 0 -> 2, and 3 on its own."""
    nodes = TopologicalOrder([[], [0], [0, 1], []])
    for unit, reads in enumerate([[], [0], [0, 1], []]):
        nodes.add(unit, reads)
    assert nodes.dependents(0, 2) is None
    assert nodes.dependents(0, 2, excluding=1) == set()
    assert nodes.dependents(0, 3) == {1, 2}
    assert nodes.dependents(1, 3) == {2}


def test_what_needs_the_earlier_unit_moves_behind_the_later() -> None:
    """1 and 2 read 0; 3 is on its own, then made one with 0."""
    reads: list[list[int]] = [[], [0], [1], []]
    nodes = TopologicalOrder(reads)
    for unit, read in enumerate(reads):
        nodes.add(unit, read)
    between = nodes.dependents(0, 3)
    assert between == {1, 2}
    nodes.merge(0, 3, between, [])
    assert list(nodes) == [3, 1, 2]
    assert nodes.members[3] == [0, 3]
    assert nodes.producers(1) == [3]
    assert nodes.dependents(3, 2) is None


def test_what_many_read_is_asked_about_without_a_look_at_all_of_them() -> None:
    """Each unit reads the one before it and the first: a constant that all steps of a recurrence take."""
    class Owners(dict[int, int]):
        looks = 0

        def __getitem__(self, op: int) -> int:
            self.looks += 1
            return super().__getitem__(op)

    count = 1000
    reads = [[], *([0, op] for op in range(count))]
    nodes = TopologicalOrder(reads)
    for unit, read in enumerate(reads):
        nodes.add(unit, read)
    nodes.owner = owners = Owners(nodes.owner)
    for unit in range(2, count + 1):
        assert nodes.dependents(0, unit) is None
    assert owners.looks < 10 * count


def test_the_order_survives_any_merges() -> None:
    """Of random graphs; what may be merged is found by looking at all paths."""
    for seed in range(30):
        dice = Random(seed)
        count = 14
        reads = [sorted({dice.randrange(op) for _ in range(dice.randrange(3))}) if op else [] for op in range(count)]
        nodes = TopologicalOrder(reads)
        for unit, read in enumerate(reads):
            nodes.add(unit, read)
        while len(order := list(nodes)) > 3 and dice.random() < 0.98:
            first, second = dice.sample(order, 2)
            if nodes.comes_before(second, first):
                first, second = second, first
            between = nodes.dependents(first, second)
            assert (between is None) == leads_through_others(reads, nodes, first, second)
            if between is not None:
                merged = {nodes.owner[op] for unit in (first, second) for op in nodes.members[unit]}
                read = {source for unit in (first, second) for source in nodes.reads[unit] if nodes.owner[source] not in merged}
                nodes.merge(first, second, between, sorted(read))
            order = list(nodes)
            for unit in order:
                assert all(order.index(nodes.owner[source]) < order.index(unit) for source in nodes.reads[unit])


def leads_through_others(reads: list[list[int]], nodes: TopologicalOrder, first: int, second: int) -> bool:
    """Whether a way from unit `first` to `second` passes another unit."""
    def needs(unit: int) -> set[int]:
        return {nodes.owner[source] for op in nodes.members[unit] for source in reads[op]} - {unit}

    reached: set[int] = set()
    waiting = [unit for unit in needs(second) if unit != first]
    while waiting:
        unit = waiting.pop()
        if unit not in reached:
            reached.add(unit)
            waiting += needs(unit)
    return first in reached


def test_the_text_of_like_steps_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A recurrent network of more steps takes no more machine code but for the calls."""
    made: list[str] = []
    lower = program.lower_step

    def counted(op: Op, *rest: Any) -> Any:
        made.append(op.name)
        return lower(op, *rest)

    monkeypatch.setattr(program, "lower_step", counted)

    def lowered(steps: int) -> tuple[int, int]:
        made.clear()
        code = program.lower_program(stages("recurrent", steps)["planned"], TARGETS["sse2"])
        functions = {call.function for call in code.calls if call.name != "slice"}
        return len(made) - made.count("slice"), len(functions)      # slices are each at a place of its own

    assert lowered(24) == lowered(12)


def test_slots_of_an_op_with_many_operands_are_found_by_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tile has thousands of operands and results: looking for each result among all operands would take millions of comparisons."""
    count, compared = 1000, Counter[str]()
    same = Slot.__eq__

    def counted(self: Slot, other: object) -> bool:
        compared["slots"] += 1
        return same(self, other)

    monkeypatch.setattr(Slot, "__eq__", counted)
    values = [Value(TensorType(np.dtype("f4"), ())) for _ in range(2 * count)]
    slots = {value: Slot("arena", 64 * (index // 2)) for index, value in enumerate(values)}
    results = tuple(Slot("arena", 64 * index) for index in range(count))
    op = Op(fused, tuple(values), tuple(values[:count]), {"rows": 1, "columns": 1, "in_place": (), "scratch_bytes": 0}, (), slots=results)
    operation = program._operation(op, SimpleNamespace(slots=slots), {}, False)
    assert operation.shared == {index: 2 * index for index in range(count)}     # the first operand in each slot
    assert compared["slots"] < 10 * count


def wide_kernel(count: int) -> Graph:
    """A kernel of `count` operands that die there, and as many results, each of which may be written over any operand."""
    names = range(count)
    inner = "".join(f"        %r{i}: f32[4] = negative %p{i}\n" for i in names)
    return parse(
        f"graph @wide({', '.join(f'%x{i}: f32[4]' for i in names)}) {{\n"
        + "".join(f"  %y{i}: f32[4] = sin %x{i}\n" for i in names)
        + f"  {', '.join(f'%z{i}: f32[4]' for i in names)} = fused {', '.join(f'%y{i}' for i in names)} "
        + f"{{columns=1, in_place={tuple(names)}, rows=4, scratch_bytes=0}} [\n"
        + f"      graph @kernel({', '.join(f'%p{i}: f32[4]' for i in names)}) {{\n{inner}"
        + f"        return {', '.join(f'%r{i}' for i in names)}\n      }}\n    ]\n"
        + f"  return {', '.join(f'%z{i}' for i in names)}\n}}")


def test_memory_of_a_wide_kernel_is_shared_in_proportion() -> None:
    def lines(count: int) -> int:
        graph = wide_kernel(count)
        with Lines() as counter:
            sharing = share_buffers(graph)
        assert sum(len(buffer.allocations) == 2 for buffer in sharing.buffers) == count
        return counter.count

    lines(10)
    assert lines(400) < 2.3 * lines(200)


def test_the_verifier_asks_once_what_an_op_may_write_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not once for each of thousands of results: for a tile the answer takes a walk through its ops."""
    planned = plan_memory(wide_kernel(20), Options())
    asked: list[Op] = []
    monkeypatch.setattr(verifier, "in_place_operands", lambda op: asked.append(op) or in_place_operands(op))
    verifier.verify(planned, Stage.PLANNED)
    assert len(asked) == len(set(asked)) == 21


def test_what_ops_mean() -> None:
    """Names, roles and lines do not count; operands that are the same value, types, attributes and what is in a region do."""
    graph = parse("""
graph @g(%x: f32[4], %y: f32[4]) {
  %a: f32[4] = add %x, %y  # model.py:1 in f
  %b: f32[4] = add %a, %x  # model.py:2 in f, adjoint
  %c: f32[4] = add %x, %x
  %d: f32[4] = flip %x {axes=(0,)}
  %r: f32[2,2] = reshape %x {shape=(2, 2)}
  %e: f32[2,2] = flip %r {axes=(0,)}
  %h: f32[2,2] = flip %r {axes=(1,)}
  %t: f32[4] = tanh %x
  %u: f32[4] = tanh %y
  %s: f32[4] = sin %y
  return %a, %b, %c, %d, %e, %h, %t, %u, %s
}""")
    a, b, c, d, _, e, h, *_ = graph.ops
    assert structural_key(a) == structural_key(b)
    assert len({structural_key(op) for op in (a, c, d, e, h)}) == 5
    kernels = [parse(f"graph @k(%p: f32[4], %q: f32[4]) {{\n  %{name}: f32[4] = {op} %p, %q\n  return %{name}\n}}")
               for name, op in (("z", "add"), ("w", "add"), ("z", "subtract"))]
    attrs = {"rows": 4, "columns": 1, "in_place": (), "scratch_bytes": 0}
    first, second, third = (structural_key(Op(fused, graph.params, (graph.results[0],), attrs, (kernel,))) for kernel in kernels)
    assert first == second != third
