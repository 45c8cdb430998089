"""Python loops that tracing unrolled become `scan` ops again, before differentiation.

1. Every op gets a letter: its name, its line, its shape (`number_values.py`). Iterations of a loop are tandem repeats of the letters
   (`find_repeats.py`).
2. Operands at the same place of all repetitions have one relation: the same value, made some iterations before, or another one each time
   (`match_operands.py`). Repetitions that differ stay in front of the loop or behind it.
3. The loop is written (`emit_loop.py`): carried values; rows of what differs, read from an array where it was sliced from one, computed or
   in a table where it is numbers (`moving_slices.py`); rows of what is used later.
4. Inner loops come first; a rolled loop is one op of the loop around it.

Every op rounds as before, so values keep every bit, as long as no later pass moves products out of the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, needed_ops, walk_distinct
from adjit.ir.ops.traits import KERNELS, NESTED_PROGRAMS, TRANSFORMS
from adjit.passes.loops.emit_loop import REGION_NAME, CostsCopyError, LoopEmitter, NotALoopError
from adjit.passes.loops.find_repeats import Stretch, find_repeats, rotate
from adjit.passes.loops.lift_differences import lift_differences
from adjit.passes.loops.match_operands import Match, Regions, match_iterations
from adjit.passes.loops.number_values import NumberedGraph, OpCounter
from adjit.passes.loops.slice_groups import join_slices
from adjit.passes.options import Options, RollingRule
from adjit.passes.regions import in_regions

EFFECTS = "Python loops are not rolled: what adjit.debug calls keeps its order among their iterations"
FUSED_KINDS = Kind.ELEMENTWISE, Kind.MOVEMENT
OWN_REGIONS = (NESTED_PROGRAMS | TRANSFORMS) - KERNELS


def roll_loops(graph: Graph, options: Options) -> Graph:
    """Roll the loops of a graph, also within its regions.

    Before:
        graph @f(%x: f32[2], %w: f32[4,2]) {
          %s0: f32[1,2] = slice %w {start=(0, 0), step=(1, 1), stop=(1, 2)}  # loop.py:3 in f
          %r0: f32[2] = reshape %s0 {shape=(2,)}  # loop.py:3 in f
          %m0: f32[2] = multiply %x, %r0  # loop.py:4 in f
          %s1: f32[1,2] = slice %w {start=(1, 0), step=(1, 1), stop=(2, 2)}  # loop.py:3 in f
          %r1: f32[2] = reshape %s1 {shape=(2,)}  # loop.py:3 in f
          %m1: f32[2] = multiply %m0, %r1  # loop.py:4 in f
          %s2: f32[1,2] = slice %w {start=(2, 0), step=(1, 1), stop=(3, 2)}  # loop.py:3 in f
          %r2: f32[2] = reshape %s2 {shape=(2,)}  # loop.py:3 in f
          %m2: f32[2] = multiply %m1, %r2  # loop.py:4 in f
          %s3: f32[1,2] = slice %w {start=(3, 0), step=(1, 1), stop=(4, 2)}  # loop.py:3 in f
          %r3: f32[2] = reshape %s3 {shape=(2,)}  # loop.py:3 in f
          %m3: f32[2] = multiply %m2, %r3  # loop.py:4 in f
          return %m3
        }

    After:
        graph @f(%x: f32[2], %w: f32[4,2]) {
          %0: f32[4,1,2] = reshape %w {shape=(4, 1, 2)}  # loop.py:3 in f
          %m3: f32[2] = scan %x, %0 {carries=1, length=4, reverse=false, scratch_bytes=0, slices=1} [  # loop.py:3 in f
            graph @python_loop(%0: f32[2] carried, %1: f32[1,2]) {
              %r0: f32[2] = reshape %1 {shape=(2,)}  # loop.py:3 in f
              %m0: f32[2] = multiply %0, %r0  # loop.py:4 in f
              return %m0
            }
          ]
          return %m3
        }
    """
    if options.rolling is None or options.memory_budget is not None:      # a budget chooses among values that are not in a loop
        return graph
    return _Roller(options.rolling).roll(graph)


def describe_loops(before: Graph, after: Graph, options: Options) -> str:
    """Number of rolled loops, of their iterations and of the line of each: a remark for the pass's record."""
    found = dict.fromkeys(f"{op.attrs['length']} x {len(op.regions[0].ops)} ops{'' if op.loc is None else f' at {op.loc}'}"
                          for op in walk_distinct(after) if op.name == "scan" and op.regions[0].name == REGION_NAME)
    return f"Python loops: {'; '.join(found)}" if found else ""


def find_refusals(graph: Graph, rule: RollingRule) -> list[str]:
    """Reasons why repetitions that are left in a graph, as rolled by `roll_loops`, are no loops: a line for each."""
    roller = _Roller(rule)
    roller.roll(graph)
    return list(roller.refusals)


class _Roller:
    """Runs the rounds on a graph and its regions, and keeps what was refused."""

    def __init__(self, rule: RollingRule):
        self.rule = rule
        self.regions = Regions()
        self.refusals: dict[str, None] = {}
        self.refused: list[Stretch] = []        # of this round

    def roll(self, graph: Graph) -> Graph:
        """Graph with its loops rolled, innermost first."""
        graph = in_regions(graph, self.roll, OWN_REGIONS)
        if graph.has_effects:
            self.refusals.setdefault(EFFECTS)
            return graph
        count = OpCounter().count
        if count(graph) < self.rule.min_ops:
            return graph
        lifted = lift_differences(graph, self.rule.min_trips)
        rolled = self._all_rounds(graph)
        return rolled if lifted is graph else min(self._all_rounds(lifted), rolled, key=count)

    def _all_rounds(self, graph: Graph) -> Graph:
        while (rolled := self._round(graph)) is not None:
            graph = join_slices(rolled)
        return graph

    def _round(self, graph: Graph) -> Graph | None:
        """Graph with all loops that do not contain each other; None if there is none."""
        numbered = NumberedGraph(graph)
        self.refused = []
        chosen: list[LoopEmitter] = []
        costly: list[Match] = []
        for match in self._matches(numbered, chosen):
            try:
                chosen.append(LoopEmitter(numbered, match, 0))
            except CostsCopyError:
                costly.append(match)
            except NotALoopError as error:
                self._refuse(numbered, match.stretch, str(error))
        if not chosen:          # a copy is made only where nothing else is left: a multiple of the period may need none
            for match in costly:
                if any(match.stretch.overlaps(loop.stretch) for loop in chosen):
                    continue
                try:
                    chosen.append(LoopEmitter(numbered, match, self.rule.max_copied_bytes))
                except NotALoopError as error:
                    self._refuse(numbered, match.stretch, str(error))
        return _replaced(numbered, chosen) if chosen else None

    def _matches(self, numbered: NumberedGraph, chosen: Sequence[LoopEmitter]) -> Iterator[Match]:
        """Stretches that are loops, inner ones first, but for those that overlap the `chosen` ones."""
        rule = self.rule
        for period, begin, end in find_repeats(numbered.letters, numbered.sizes, rule.min_trips, rule.min_ops):
            whole = Stretch(begin, 1, end - begin)
            if any(whole.overlaps(loop.stretch) for loop in chosen):
                continue
            body = numbered.sequence[begin:begin + period]
            if all(op.definition.kind is Kind.MOVEMENT for op in body):
                continue
            start = rotate(numbered, period, begin, end)
            stretch = Stretch(start, period, (end - start) // period)
            if stretch.trips < rule.min_trips:
                continue
            if self._fuses(body):
                self._refuse(numbered, stretch, f"elementwise ops on more than {rule.max_fused_bytes >> 10} kB, which become one "
                                                "kernel for all iterations")
                continue
            refuse = partial(self._refuse, numbered, stretch)
            for match in match_iterations(numbered, stretch, rule.min_trips, self.regions, refuse):
                if numbered.sizes[match.stretch.end] - numbered.sizes[match.stretch.start] >= rule.min_ops:
                    yield match

    def _fuses(self, body: Sequence[Op]) -> bool:
        """True if all iterations would become one kernel over large arrays."""
        return all(op.definition.kind in FUSED_KINDS for op in body) \
            and max(value.type.nbytes for op in body for value in op.results) > self.rule.max_fused_bytes

    def _refuse(self, numbered: NumberedGraph, stretch: Stretch, reason: str) -> None:
        if any(stretch.overlaps(other) for other in self.refused):
            return          # a multiple of the period
        self.refused.append(stretch)
        loc = numbered.sequence[stretch.start].loc
        where = f" at {loc}" if loc is not None else ""
        self.refusals.setdefault(f"{stretch.trips} repetitions of {stretch.period} ops{where} are not rolled: {reason}")


def _replaced(numbered: NumberedGraph, loops: Sequence[LoopEmitter]) -> Graph:
    """Graph in which loops take the place of their stretches, without the ops that nothing needs then."""
    heads = {id(numbered.sequence[loop.stretch.start]): loop for loop in loops}
    inside = {id(op) for loop in loops for op in numbered.sequence[loop.stretch.start:loop.stretch.end]}
    new: list[Op] = []
    for op in numbered.graph.ops:
        if id(op) not in inside:
            new.append(op)
        elif id(op) in heads:
            new += heads[id(op)].run()
    return numbered.graph.with_ops(needed_ops(new, numbered.graph.results))
