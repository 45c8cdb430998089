"""Order of all passes, in one tuple, and the runner that checks, times and counts them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from adjit.ir.analysis.buffer_assignment import arena_bytes, tile_bytes
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import VerificationError
from adjit.ir.graph import Graph
from adjit.ir.memory_sizes import MAX_TILE_SCRATCH_BYTES
from adjit.ir.verifier import Stage
from adjit.ir.verifier import verify as verify_graph
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.autodiff.partition.choose_saved_values import choose_saved_values, describe_saved_values, recomputed_operations
from adjit.passes.autodiff.partition.narrow_saved_values import describe_narrow_values, narrow_saved_values
from adjit.passes.choose_layouts import choose_layouts
from adjit.passes.complex_numbers.split_complex import split_complex
from adjit.passes.fusion.absorb_slices import absorb_slices
from adjit.passes.fusion.fuse_epilogues import describe_epilogues, fuse_epilogues
from adjit.passes.fusion.fuse_kernels import fuse_kernels
from adjit.passes.fusion.share_padding import share_padding
from adjit.passes.fusion.share_rolls import share_rolls
from adjit.passes.index_from_end import index_from_end
from adjit.passes.loops.batch_loops import batch_loops
from adjit.passes.loops.divide_sums import divide_sums
from adjit.passes.loops.hoist_views import hoist_views
from adjit.passes.loops.roll_loops import describe_loops, roll_loops
from adjit.passes.memory.plan_memory import peak_bytes, plan_memory
from adjit.passes.options import Options
from adjit.passes.order_effects import order_effects
from adjit.passes.prove_indices import prove_indices
from adjit.passes.regions import in_regions
from adjit.passes.round_products import describe_products, round_products
from adjit.passes.schedule import schedule
from adjit.passes.simplify.common_subexpressions import eliminate_common_subexpressions, merge_repeats
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.lone_inverses import free_lone_inverses
from adjit.passes.simplify.loops import simplify_loops
from adjit.passes.simplify.select_branches import describe_selected, select_branches
from adjit.passes.simplify.simplify import simplify
from adjit.passes.simplify.stop_gradients import remove_stop_gradients
from adjit.passes.simplify.unneeded_results import drop_unneeded_results
from adjit.passes.tiling.tile_batch import describe_tiles, tile_batch
from adjit.passes.tiling.tile_weight_updates import describe_updates, tile_weight_updates

SCRATCH_RETRY_FACTOR = 4
"""Factor by which the cache size is divided if tiles need too much scratch memory and the passes run again."""

CACHE_DEPENDENT = choose_saved_values.__name__, tile_batch.__name__
"""Passes from the first of which the pipeline runs again: those before give the same graph for any size of the cache."""

Transform = Callable[[Graph, Options], Graph]


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass of the pipeline.

    `run` is pure and returns the same object if it changes nothing; its docstring shows the pass on text (`Before:`, `After:`). The
    resulting graph obeys the rules of the stage `ensures`. `describe(before, after, options)` returns a remark for the record. A `local`
    pass knows nothing of regions; it runs on the regions of loops and branches first.
    """

    name: str
    run: Transform
    ensures: Stage
    describe: Callable[[Graph, Graph, Options], str] | None = None
    local: bool = True

    def apply(self, graph: Graph, options: Options) -> Graph:
        """Run the pass."""
        if self.local:
            graph = in_regions(graph, lambda region: self.apply(region, replace(options, memory_budget=None)))
        return self.run(graph, options)


@dataclass(frozen=True, slots=True)
class PassRecord:
    """Record of one pass: its milliseconds, the milliseconds of verification, the number of ops before and after, a remark."""

    name: str
    milliseconds: float
    verify_milliseconds: float
    ops_before: int
    ops_after: int
    remark: str = ""

    def __str__(self) -> str:
        text = f"{self.name}: {self.ops_before} -> {self.ops_after} ops, {self.milliseconds:.2f} ms"
        return f"{text} ({self.remark})" if self.remark else text


@dataclass(frozen=True, slots=True)
class PipelineResult:
    """Graph at each stage, by name ("traced", "adjoint", "optimized", "fused", "planned"), and a record for each pass."""

    graphs: dict[str, Graph]
    records: tuple[PassRecord, ...]

    @property
    def final(self) -> Graph:
        """Graph after the last pass."""
        return next(reversed(self.graphs.values()))


SPLIT = Pass("split_complex", split_complex, Stage.OPTIMIZED, local=False)
"""Pass before simplification, so that pairs are simplified as what they are, reals."""

FINISH: tuple[Pass, ...] = (
    Pass("remove_stop_gradients", remove_stop_gradients, Stage.OPTIMIZED),
    Pass("order_effects", order_effects, Stage.OPTIMIZED, local=False),
    Pass("drop_unneeded_results", drop_unneeded_results, Stage.OPTIMIZED),
)
"""Passes after the last derivative."""

SIMPLIFY: tuple[Pass, ...] = (
    Pass("simplify", simplify, Stage.OPTIMIZED),
    Pass("eliminate_common_subexpressions", eliminate_common_subexpressions, Stage.OPTIMIZED),
    Pass("choose_layouts", choose_layouts, Stage.OPTIMIZED),
    Pass("simplify_again", simplify, Stage.OPTIMIZED),
    Pass("eliminate_dead_code", eliminate_dead_code, Stage.OPTIMIZED),
    Pass("simplify_loops", simplify_loops, Stage.OPTIMIZED, local=False),
)

LOWER: tuple[Pass, ...] = (
    Pass("free_lone_inverses", free_lone_inverses, Stage.OPTIMIZED),
    Pass("prove_indices", prove_indices, Stage.OPTIMIZED, local=False),
    Pass("index_from_end", index_from_end, Stage.OPTIMIZED),
    Pass("tile_batch", tile_batch, Stage.OPTIMIZED, describe_tiles, local=False),
    Pass("tile_weight_updates", tile_weight_updates, Stage.OPTIMIZED, describe_updates),
    Pass("divide_sums", divide_sums, Stage.OPTIMIZED),
    Pass("share_padding", share_padding, Stage.OPTIMIZED),
    Pass("share_rolls", share_rolls, Stage.OPTIMIZED),
    Pass("round_products", round_products, Stage.OPTIMIZED, describe_products),
    Pass("fuse_kernels", fuse_kernels, Stage.FUSED),
    Pass("fuse_epilogues", fuse_epilogues, Stage.FUSED, describe_epilogues, local=False),
    Pass("absorb_slices", absorb_slices, Stage.FUSED),
    Pass("schedule", schedule, Stage.FUSED),
    Pass("plan_memory", plan_memory, Stage.PLANNED, local=False),
)

ROLL: tuple[Pass, ...] = (
    Pass("select_branches", select_branches, Stage.TRACED, describe_selected, local=False),
    Pass("roll_loops", roll_loops, Stage.TRACED, describe_loops, local=False),
    Pass("hoist_views", hoist_views, Stage.TRACED, local=False),
    Pass("batch_loops", batch_loops, Stage.TRACED, local=False),
    Pass("merge_repeats", merge_repeats, Stage.TRACED, local=False),
)
"""Passes that make a traced graph small; the cache of programs knows graphs as they leave them."""

PIPELINE: tuple[Pass, ...] = (
    *ROLL,
    Pass("differentiate", differentiate, Stage.ADJOINT, local=False),
    *FINISH,
    SPLIT,
    *SIMPLIFY,
    Pass("choose_saved_values", choose_saved_values, Stage.OPTIMIZED, describe_saved_values),
    Pass("narrow_saved_values", narrow_saved_values, Stage.OPTIMIZED, describe_narrow_values, local=False),
    *LOWER,
)
"""Passes from a traced graph to a planned one."""

DERIVATIVES: tuple[Pass, ...] = PIPELINE[:len(ROLL) + 1]
"""Passes up to the last derivative, and those that follow them."""

AFTER_DERIVATIVES: tuple[Pass, ...] = PIPELINE[len(DERIVATIVES):]

EXCHANGE: tuple[Pass, ...] = (
    Pass("differentiate", differentiate, Stage.ADJOINT, local=False),
    *FINISH,
    *(step for step in SIMPLIFY if step.name in ("simplify", "eliminate_common_subexpressions", "eliminate_dead_code")),
)
"""Passes from a traced graph to one that other runtimes are given: small, with nothing that is meant for our own code."""

JOINT: tuple[Pass, ...] = tuple(replace(step, ensures=Stage.ADJOINT) for step in PIPELINE
                                if step not in (*ROLL, *LOWER, *FINISH, SPLIT))
"""Passes for a joint graph, made of a graph whose loops are rolled, that will be split. Stop-gradient marks stay, as the halves can be
differentiated again."""

HALF: tuple[Pass, ...] = (*FINISH, SPLIT, *SIMPLIFY, *LOWER)
"""Passes for one half of a joint graph."""


def run_pipeline(graph: Graph, options: Options, verify: bool, on_pass: Callable[[str, Graph], None] | None = None,
                 passes: Sequence[Pass] = PIPELINE, stage: Stage = Stage.TRACED) -> PipelineResult:
    """Run `passes` in order on a graph that has reached `stage`.

    `verify` checks the invariants of the IR before the first pass and after each one (`VerificationError` names the pass); `on_pass(name,
    graph)` is called with the input graph ("traced") and after each pass. If tiles need more scratch memory than a thread has, the passes
    run again for a smaller cache, and at last without tiles, from the first pass that reads the size of the cache. If the arena is larger
    than a memory budget of bytes, they run again from the choice of saved values on, which gets less.
    """
    if verify:
        verify_graph(graph, stage)
    if on_pass is not None:
        on_pass("traced", graph)
    done = _run(graph, [], options, verify, on_pass, passes)
    kept = next((index for index, step in enumerate(passes) if step.name in CACHE_DEPENDENT), len(passes))
    for smaller in (options.cache_bytes // SCRATCH_RETRY_FACTOR, None) if options.cache_bytes is not None else ():
        if not done or tile_bytes(done[-1][0]) <= MAX_TILE_SCRATCH_BYTES:
            break
        done = _run(graph, done[:kept], replace(options, cache_bytes=smaller), verify, on_pass, passes, done)
    done = _within_budget(done, passes, options, lambda known, choice, some=passes: _run(graph, known, choice, verify, on_pass, some))
    graphs = {Stage.TRACED.name.lower(): graph}
    graphs.update((step.ensures.name.lower(), after) for step, (after, _) in zip(passes, done, strict=True))
    return PipelineResult(graphs, tuple(record for _, record in done))


def run_rolling(graph: Graph, options: Options, verify: bool = False) -> PipelineResult:
    """Run `ROLL` alone on a traced graph, for what has to know the graph as it leaves them."""
    return run_pipeline(graph, options, verify, passes=ROLL)


Done = list[tuple[Graph, PassRecord]]
"""Graph after each pass, and the pass's record."""

SAVED_SHARES = (1.0, 0.75, 0.5, 0.375, 0.25, 0.1875, 0.125, 0.0625, 0.0)
SEGMENTS = (2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
"""Shares of the bytes that could be saved, and numbers of segments of the forward half, that are tried for a memory budget. From some
share down and some number up the working memory grows again, as more is alive while it is computed again."""

MAX_BUDGET_TRIES = 4
"""Most programs that are planned for a budget that none of them keeps to; of the others the peak is estimated alone."""


def _within_budget(done: Done, passes: Sequence[Pass], options: Options, run: Callable[..., Done]) -> Done:
    """What keeps to a memory budget where the arena is planned that holds the saved values: of the choices whose working memory is within
    it the one that computes the least again, else the smallest. A fraction is of what the program works in without a budget. Tiles, which
    keep all that the products after them need, are left out where they take more.
    """
    names = [step.name for step in passes]
    budget = options.memory_budget
    if budget is None or not {choose_saved_values.__name__, plan_memory.__name__} <= set(names) or not done:
        return done
    first = names.index(choose_saved_values.__name__)
    untiled = replace(options, cache_bytes=None)
    best = run(done[:first], replace(options, memory_budget=None))
    if isinstance(budget, float):
        budget = int(budget * _working_bytes(best))
    if _working_bytes(best) <= budget:
        return best
    choices: list[tuple[int, int, int, Done, Options]] = []
    for choice in (*(replace(untiled, memory_budget=share) for share in SAVED_SHARES),
                   *(replace(untiled, segments=count) for count in SEGMENTS)):
        chosen = run(done[:first], choice, passes[:first + 1])
        graph = chosen[-1][0]
        if all(graph != other[-1][0] for *_, other, _ in choices):
            choices.append((recomputed_operations(graph), peak_bytes(graph), len(choices), chosen, choice))
    choices.sort(key=lambda choice: choice[:3])
    likely = [choice for choice in choices if choice[1] <= 2 * budget]         # the estimate knows nothing of fusion
    smallest = sorted((choice for choice in choices if choice not in likely), key=lambda choice: choice[1])[:MAX_BUDGET_TRIES]
    for _, _, _, chosen, choice in (*likely, *smallest):
        tried = run(chosen, choice)
        if _working_bytes(tried) <= budget:
            return tried
        best = min(best, tried, key=_working_bytes)
    return best


def _working_bytes(done: Done) -> int:
    """Bytes of the arena and of the scratch memory of one thread."""
    return arena_bytes(done[-1][0]) + tile_bytes(done[-1][0])


def _guards(graph: Graph) -> list[int]:
    """Numbers of the guards of a graph: none may be lost, or a program goes on where Python went another way."""
    return sorted([op.attrs["number"] for op in graph.ops if op.definition.is_check])


def _run(graph: Graph, known: Done, options: Options, verify: bool, on_pass: Callable[[str, Graph], None] | None,
         passes: Sequence[Pass], before: Done | None = None) -> Done:
    """Run the passes that follow the `known` ones. `before` is the outcome for another size of the cache: it is returned if this size
    gives the same tiles, which then take the same scratch memory."""
    done = list(known)
    graph = done[-1][0] if done else graph
    for step in passes[len(known):]:
        old = graph
        begun = time.perf_counter()
        graph = step.apply(old, options)
        if step.name != schedule.__name__ and _guards(graph) != _guards(old):
            raise VerificationError(f"pass '{step.name}' loses a guard", hint="this is a defect of adjit")
        ended = time.perf_counter()
        verified = ended
        if verify:
            verify_graph(graph, step.ensures, after=step.name)
            verified = time.perf_counter()
        done.append((graph, PassRecord(
            step.name, (ended - begun) * 1e3, (verified - ended) * 1e3, len(old.ops), len(graph.ops),
            step.describe(old, graph, options) if step.describe else "")))
        if on_pass is not None:
            on_pass(step.name, graph)
        if before is not None and step.name == tile_batch.__name__ and graph == before[len(done) - 1][0]:
            return before
    return done
