"""Tiles matrix products and the ops between them along the batch, so that values inside a tile stay in the cache.

A product whose rows belong to different examples, an activation, a softmax, an attention: for a slice of the batch, each needs only this
slice and whole parameters. Such ops become one op, `tiled`: each tile runs through all of them, in one thread, without waiting for other
tiles. The values between the ops are as large as one tile. Sums over the batch are split: each tile computes a partial sum. If one tile is
still too large for the cache, it is tiled again (by the heads of an attention).

The axis and the tile count follow from a small cost model (`cost_model.py`): bytes that no longer go through memory, against whole operands
that every tile reads again.

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
      %0: f32[8,64] = tiled %x, %w, %u {count=8, shapes=((8, 64),), sliced=(true, false, false)} [
        graph @tile(%x: f32[64,64], %w: f32[64,2048], %u: f32[2048,64]) {
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
from adjit.ir.ops import reduce_sum, tiled
from adjit.ir.ops.traits import CONTROL_FLOW, FREE_IN_TILES
from adjit.ir.types import TensorType
from adjit.passes.options import Options
from adjit.passes.regions import in_regions
from adjit.passes.tiling.axes import Axes, batch_axes, loop_axes
from adjit.passes.tiling.cost_model import may_save_traffic, peak_bytes, traffic_saved
from adjit.passes.tiling.graph_slicing import GraphSlicing
from adjit.passes.tiling.groups import MIN_TILE_ROWS, DefUses, TileGroup, TileGroups, has_products
from adjit.passes.tiling.region import TileRegion
from adjit.passes.tiling.rematerialize import rematerialize

MAX_TILES = 64

MIN_TILES = 2


def tile_batch(graph: Graph, options: Options) -> Graph:
    """Gather ops into `tiled`; the same graph if tiling gains nothing, or if `options.cache_bytes` is None."""
    return graph if options.cache_bytes is None else _tile_regions(_tile_loops(graph, options.cache_bytes), options.cache_bytes)


def _tile_regions(graph: Graph, cache_bytes: int) -> Graph:
    """Tiled graph, with tiled regions of the loops and branches that are not in tiles themselves."""
    graph = in_regions(graph, lambda region: _tile_regions(region, cache_bytes), CONTROL_FLOW)
    return _tile(graph, cache_bytes, 2)


def _tile_loops(graph: Graph, cache_bytes: int) -> Graph:
    """Graph with loops that run tile by tile, each tile through all iterations, if the iterations do not mix the examples of a batch."""
    best: _Tiling | None = None
    if not any(op.name == "scan" and has_products(op) for op in graph.ops):
        return graph
    uses = DefUses(graph)
    if not may_save_traffic(uses, cache_bytes):
        return graph
    for axes in loop_axes(graph, MIN_TILES * MIN_TILE_ROWS):
        cuts = GraphSlicing(graph, axes, uses.producer)
        for count in range(MIN_TILES, min(MAX_TILES, axes.batch // MIN_TILE_ROWS) + 1):
            tiling = _Tiling(uses, cuts, count, cache_bytes) if axes.batch % count == 0 else None
            if tiling is not None and tiling.groups and (best is None or tiling.gain > best.gain):
                best = tiling
            if tiling is not None and tiling.fits:
                break
    return graph if best is None else best.rebuild()


def _tile(graph: Graph, cache_bytes: int, min_rank: int) -> Graph:
    """Graph tiled along an axis of its products of at least this rank, if that gains something."""
    best: _Tiling | None = None
    if not any(op.definition.kind is Kind.CONTRACTION for op in graph.ops):
        return graph
    uses = DefUses(graph)
    if not may_save_traffic(uses, cache_bytes):
        return graph
    for axes in batch_axes(graph, min_rank):
        lengths = _lengths(graph, axes, min_rank)
        if not lengths:
            continue
        cuts = GraphSlicing(graph, axes, uses.producer)
        for count in range(MIN_TILES, MAX_TILES + 1):
            if not any(length % count == 0 and count <= most for length, most in lengths.items()):
                continue
            tiling = _Tiling(uses, cuts, count, cache_bytes)
            if tiling.groups and (best is None or tiling.gain > best.gain):
                best = tiling
            if tiling.fits and all(length % count == 0 for length in lengths):
                break       # more tiles gain no more
    return graph if best is None else best.rebuild()


def describe_tiles(before: Graph, after: Graph, options: Options) -> str:
    """Number and size of the tiles, and the bytes that stay in the cache by the cost model."""
    found = [op for op in after.ops if op.name == "tiled"]
    if not found:
        return ""
    results = {value for op in found for value in op.regions[0].results}
    inside = sum(v.type.nbytes * op.attrs["count"] for op in found for inner in op.regions[0].ops for v in inner.results
                 if v not in results and inner.name not in FREE_IN_TILES)
    return "; ".join(f"{op.attrs['count']} tiles of {len(op.regions[0].ops)} ops" for op in found) + (
        f"; {inside / 2**20:.3g} MiB stay in the cache")


def _lengths(graph: Graph, axes: Axes, min_rank: int) -> dict[int, int]:
    """Lengths of the tiled axes of products, each with the largest tile count that leaves some product enough rows."""
    longest: dict[int, int] = {}
    for op in graph.ops:
        rank = op.results[0].type.rank if op.definition.kind is Kind.CONTRACTION else 0
        axis = axes.get(op.results[0]) if rank >= min_rank else None
        if axis is not None and not (rank == 2 and axis == 0 and op.attrs["transpose_a"]):
            length = op.result.type.shape[axis]
            longest[length] = max(longest.get(length, 0), length if axis < rank - 2 else length // MIN_TILE_ROWS)
    return longest


class _Tiling:
    """Groups for one axis and one tile count that gain something. `fits` is True if all groups gain, and their tiles fit the cache."""

    def __init__(self, uses: DefUses, cuts: GraphSlicing, count: int, cache_bytes: int) -> None:
        self.graph, self.producer, self.axes, self.count, self.cache_bytes = uses.graph, uses.producer, cuts.axes, count, cache_bytes
        self.assigned = TileGroups(uses, cuts, count)
        gains = [traffic_saved(self.assigned, group, cache_bytes) for group in self.assigned.found]
        self.groups = [group for group, gain in zip(self.assigned.found, gains, strict=True) if gain > 0]
        self.gain = sum(gains)
        self.fits = bool(gains) and all(gains) and not any(map(self._is_too_large, self.groups))

    def _is_too_large(self, group: TileGroup) -> bool:
        return peak_bytes(self.assigned, group) > self.cache_bytes / 2

    def rebuild(self) -> Graph:
        """Graph with a `tiled` op for each group."""
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
                new += self._tiled_op(by_number[number])
        return self.graph.with_ops(_without_dead_views(new, self.graph.results))

    def _tiled_op(self, group: TileGroup) -> list[Op]:
        """Op that runs the group, and the ops that add up its partial sums."""
        region = TileRegion(self.axes, self.count, self.producer, {op: group.operand_axes[op] for op in group.ops})
        results = [value for op in group.ops for value in op.results if value in self.axes and self.assigned.is_used_outside(value, group)]
        rematerialized = rematerialize(self.graph, results, self.producer, group.operand_axes)
        results = [value for value in dict.fromkeys((*results, *rematerialized.kept)) if value not in rematerialized.values]
        inner = [region.result(value) for value in results]
        given = [region.joined(value) for value in results]
        parts, sums = [], [(op.result, region.partial_sum(op), op) for op in group.sums]
        sums += [(value, partial_sum, self.producer[value]) for value, partial_sum in region.sums.items()
                 if self.assigned.is_used_outside(value, group)]
        for _, partial_sum, _ in sums:
            parts.append(Value(TensorType(partial_sum.type.dtype, (self.count, *partial_sum.type.shape))))
            inner.append(partial_sum)
        graph = Graph("tile", tuple(region.params), tuple(region.ops), tuple(inner))
        if self._is_too_large(group) and not self.axes.batch:
            graph = _tile(graph, self.cache_bytes, 3)     # by the heads of an attention: fewer rows would not make it much smaller
        last = group.ops[-1]
        outer = (*(value for value, _ in given), *parts)
        attrs = {"count": self.count, "sliced": tuple(region.sliced), "shapes": tuple(value.type.shape for value in outer)}
        op = Op(tiled, tuple(region.operands), outer, attrs, (graph,))
        made = [*region.relayouts, op, *(op for _, swapped in given for op in swapped)]
        made = [replace(op, loc=last.loc, role=last.role) for op in made]
        for (value, _, op), partial_sum in zip(sums, parts, strict=True):
            total = op.definition if op.definition.kind is Kind.REDUCTION else reduce_sum
            made.append(Op(total, (partial_sum,), (value,), {"axes": (0,)}, (), op.loc, op.role))
        return made + rematerialized.ops


def _without_dead_views(new: Sequence[Op], results: Iterable[Value]) -> list[Op]:
    """Ops without views that no op reads any more: tiles made their own."""
    others = (value for op in new if op.name not in FREE_IN_TILES for value in op.results)
    return needed_ops(new, (*results, *others))
