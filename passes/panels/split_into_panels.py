"""Runs chains of matrix products and what lies between them panel by panel, so that what lives inside a panel stays in the cache.

A product whose rows belong to different examples, an activation, a softmax, an attention: for a slice of the batch they take nothing but
that slice, and whole parameters. Such ops become one op, `panels`: each panel runs through all of them, in one thread, without waiting for
the others. The values between them are as large as one panel. Sums over the batch are split: each panel leaves its part. Where one panel
is still too large for the cache, it is split again (the heads of an attention).

Which axis, and how many panels, follows from a small cost model (`gain.py`): bytes that do not go through memory any more, against
whole operands that every panel reads again.

Before:
    graph @net(%x: f32[512,64], %w: f32[64,2048], %u: f32[2048,64]) {
      %h: f32[512,2048] = matmul %x, %w {transpose_a=false, transpose_b=false}
      %a: f32[512,2048] = relu %h
      %y: f32[512,64] = matmul %a, %u {transpose_a=false, transpose_b=false}
      %s: f32[64] = reduce_sum %y {axes=(0,)}
      return %s
    }
After:
    graph @net(%x: f32[512,64], %w: f32[64,2048], %u: f32[2048,64]) {
      %0: f32[8,64] = panels %x, %w, %u {count=8, shapes=((8, 64),), sliced=(true, false, false)} [
        graph @panel(%x: f32[64,64], %w: f32[64,2048], %u: f32[2048,64]) {
          %h: f32[64,2048] = matmul %x, %w {transpose_a=false, transpose_b=false}
          %a: f32[64,2048] = relu %h
          %y: f32[64,64] = matmul %a, %u {transpose_a=false, transpose_b=false}
          %0: f32[64] = reduce_sum %y {axes=(0,)}
          return %0
        }
      ]
      %s: f32[64] = reduce_sum %0 {axes=(0,)}
      return %s
    }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, needed_ops
from adjit.ir.ops import panels, reduce_sum
from adjit.ir.ops.traits import CONTROL_FLOW, FREE_IN_PANELS
from adjit.ir.types import TensorType
from adjit.passes.options import Options
from adjit.passes.panels.axes import Axes, batch_axes, loop_axes
from adjit.passes.panels.cuts import PanelCuts
from adjit.passes.panels.gain import may_gain, panel_gain, peak_bytes
from adjit.passes.panels.groups import FEWEST_ROWS, Group, PanelGroups, Uses, has_products
from adjit.passes.panels.made_again import made_again
from adjit.passes.panels.region import PanelRegion
from adjit.passes.regions import in_regions

MOST_PANELS = 64

FEWEST_PANELS = 2


def split_into_panels(graph: Graph, options: Options) -> Graph:
    """Gather ops into `panels`; the same graph where that gains nothing, or where `options.cache_bytes` is None."""
    return graph if options.cache_bytes is None else _split_regions(_split_loops(graph, options.cache_bytes), options.cache_bytes)


def _split_regions(graph: Graph, cache_bytes: int) -> Graph:
    """The graph, and the loops and branches that are not in panels, split."""
    graph = in_regions(graph, lambda region: _split_regions(region, cache_bytes), CONTROL_FLOW)
    return _split(graph, cache_bytes, 2)


def _split_loops(graph: Graph, cache_bytes: int) -> Graph:
    """The graph with loops that run panel by panel, with all of their runs, where these do not mix the examples of a batch."""
    best: _Split | None = None
    if not any(op.name == "scan" and has_products(op) for op in graph.ops):
        return graph
    uses = Uses(graph)
    if not may_gain(uses, cache_bytes):
        return graph
    for axes in loop_axes(graph, FEWEST_PANELS * FEWEST_ROWS):
        cuts = PanelCuts(graph, axes, uses.maker)
        for count in range(FEWEST_PANELS, min(MOST_PANELS, axes.batch // FEWEST_ROWS) + 1):
            split = _Split(uses, cuts, count, cache_bytes) if axes.batch % count == 0 else None
            if split is not None and split.groups and (best is None or split.gain > best.gain):
                best = split
            if split is not None and split.fits:
                break
    return graph if best is None else best.rebuild()


def _split(graph: Graph, cache_bytes: int, least_rank: int) -> Graph:
    """The graph split along an axis of its products of at least this rank, where that gains something."""
    best: _Split | None = None
    if not any(op.definition.kind is Kind.CONTRACTION for op in graph.ops):
        return graph
    uses = Uses(graph)
    if not may_gain(uses, cache_bytes):
        return graph
    for axes in batch_axes(graph, least_rank):
        lengths = _lengths(graph, axes, least_rank)
        if not lengths:
            continue
        cuts = PanelCuts(graph, axes, uses.maker)
        for count in range(FEWEST_PANELS, MOST_PANELS + 1):
            if not any(length % count == 0 and count <= most for length, most in lengths.items()):
                continue
            split = _Split(uses, cuts, count, cache_bytes)
            if split.groups and (best is None or split.gain > best.gain):
                best = split
            if split.fits and all(length % count == 0 for length in lengths):
                break       # more panels gain no more
    return graph if best is None else best.rebuild()


def describe_panels(before: Graph, after: Graph, options: Options) -> str:
    """What was gathered, and what it saves by the cost model."""
    found = [op for op in after.ops if op.name == "panels"]
    if not found:
        return ""
    inside = sum(v.type.nbytes * op.attrs["count"] for op in found for inner in op.regions[0].ops for v in inner.results
                 if v not in op.regions[0].results and inner.name not in FREE_IN_PANELS)
    return "; ".join(f"{op.attrs['count']} panels of {len(op.regions[0].ops)} ops" for op in found) + (
        f"; {inside / 2**20:.3g} MiB stay in the cache")


def _lengths(graph: Graph, axes: Axes, least_rank: int) -> dict[int, int]:
    """The lengths of the axes of products, and the most panels of each that leave one of them enough rows."""
    longest: dict[int, int] = {}
    for op in graph.ops:
        rank = op.results[0].type.rank if op.definition.kind is Kind.CONTRACTION else 0
        axis = axes.get(op.results[0]) if rank >= least_rank else None
        if axis is not None and not (rank == 2 and axis == 0 and op.attrs["transpose_a"]):
            length = op.result.type.shape[axis]
            longest[length] = max(longest.get(length, 0), length if axis < rank - 2 else length // FEWEST_ROWS)
    return longest


class _Split:
    """The groups for one axis and one number of panels that gain something; `fits`: whether all could, and their panels the cache."""

    def __init__(self, uses: Uses, cuts: PanelCuts, count: int, cache_bytes: int) -> None:
        self.graph, self.maker, self.axes, self.count, self.cache_bytes = uses.graph, uses.maker, cuts.axes, count, cache_bytes
        self.assigned = PanelGroups(uses, cuts, count)
        gains = [panel_gain(self.assigned, group, cache_bytes) for group in self.assigned.found]
        self.groups = [group for group, gain in zip(self.assigned.found, gains, strict=True) if gain > 0]
        self.gain = sum(gains)
        self.fits = bool(gains) and all(gains) and not any(map(self._is_too_large, self.groups))

    def _is_too_large(self, group: Group) -> bool:
        return peak_bytes(self.assigned, group) > self.cache_bytes / 2

    def rebuild(self) -> Graph:
        """The graph with a `panels` op for each group."""
        grouped = {op for group in self.groups for op in (*group.ops, *group.sums)}
        rest: dict[int, list[Op]] = {}
        for op in self.graph.ops:
            if op not in grouped:
                rest.setdefault(self.assigned.number[op], []).append(op)
        by_number = {group.number: group for group in self.groups}
        new: list[Op] = []
        for number in sorted(rest.keys() | by_number.keys()):
            new += rest.get(number, [])
            if number in by_number:
                new += self._panels(by_number[number])
        return self.graph.with_ops(_without_dead_views(new, self.graph.results))

    def _panels(self, group: Group) -> list[Op]:
        """The op that runs the group, and those that add up the parts it leaves."""
        region = PanelRegion(self.axes, self.count, self.maker, {op: group.needs[op] for op in group.ops})
        results = [value for op in group.ops for value in op.results if value in self.axes and self.assigned.is_wanted(value, group)]
        again = made_again(self.graph, results, self.maker, group.needs)
        results = [value for value in dict.fromkeys((*results, *again.small)) if value not in again.values]
        inner = [region.result(value) for value in results]
        given = [region.joined(value) for value in results]
        parts, sums = [], [(op.result, region.part(op), op) for op in group.sums]
        sums += [(value, part, self.maker[value]) for value, part in region.sums.items() if self.assigned.is_wanted(value, group)]
        for _, part, _ in sums:
            parts.append(Value(TensorType(part.type.dtype, (self.count, *part.type.shape))))
            inner.append(part)
        graph = Graph("panel", tuple(region.params), tuple(region.ops), tuple(inner))
        if self._is_too_large(group) and not self.axes.batch:
            graph = _split(graph, self.cache_bytes, 3)     # by the heads of an attention: rows alone would not make it much smaller
        last = group.ops[-1]
        outer = (*(value for value, _ in given), *parts)
        attrs = {"count": self.count, "sliced": tuple(region.sliced), "shapes": tuple(value.type.shape for value in outer)}
        made = [*region.before, Op(panels, tuple(region.operands), outer, attrs, (graph,)), *(op for _, turned in given for op in turned)]
        made = [replace(op, loc=last.loc, role=last.role) for op in made]
        for (value, _, op), part in zip(sums, parts, strict=True):
            total = op.definition if op.definition.kind is Kind.REDUCTION else reduce_sum
            made.append(Op(total, (part,), (value,), {"axes": (0,)}, (), op.loc, op.role))
        return made + again.ops


def _without_dead_views(new: Sequence[Op], results: Iterable[Value]) -> list[Op]:
    """The ops without views that nobody reads any more, as panels made their own."""
    others = (value for op in new if op.name not in FREE_IN_PANELS for value in op.results)
    return needed_ops(new, (*results, *others))
