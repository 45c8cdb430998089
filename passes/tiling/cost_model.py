"""Cost model of tiling: bytes that no longer go through memory if a group of ops runs in tiles."""

from __future__ import annotations

from collections.abc import Container

from adjit.ir.definition import Kind
from adjit.ir.graph import Value
from adjit.ir.ops.traits import FREE_IN_TILES
from adjit.passes.tiling.groups import DefUses, TileGroup, TileGroups
from adjit.passes.tiling.slice_rules import batches_before

SYNC_COST_BYTES = 1 << 15
"""Bytes that a core could move in the time that it waits for the other cores between two iterations of a loop."""


def may_save_traffic(uses: DefUses, cache_bytes: int) -> bool:
    """True if any group of any tiles of the graph could gain something; false for small programs, which are not searched."""
    made = sum(value.type.nbytes for value in uses.stored if value in uses.producer)
    iterations = sum(int(op.attrs["length"]) for op in uses.graph.ops if op.name == "scan")
    return 2.0 * made + SYNC_COST_BYTES * iterations >= cache_bytes


def traffic_saved(groups: TileGroups, group: TileGroup, cache_bytes: int) -> float:
    """Bytes that no longer go through memory, less the bytes of whole operands that tiles read again; 0 if the tiles do not fit the
    cache."""
    loops = [op for op in group.ops if op in groups.axes.loops]
    carried = sum(op.results[index - op.attrs["carries"]].type.nbytes for op in loops for index in groups.axes.loops[op].sums)
    if carried > cache_bytes / 4:
        return 0.0      # every iteration of every tile would read and write all of it
    saved = 2.0 * sum(value.type.nbytes for value in _stored(groups, group) if not groups.is_used_outside(value, group))
    saved -= 2.0 * groups.count * sum(op.result.type.nbytes for op in group.sums if op.definition.kind is Kind.CONTRACTION)
    saved += float(SYNC_COST_BYTES) * sum(int(op.attrs["length"]) for op in loops)
    saved -= 2.0 * sum(value.type.nbytes for value in _relayouted(groups, group))
    whole = _whole_operands(groups, group)
    if sum(value.type.nbytes for value in whole) > cache_bytes / 2:
        saved -= float(sum(value.type.nbytes * times for value, times in whole.items())) * (groups.count - 1)
    peak = peak_bytes(groups, group)
    if peak > 2 * cache_bytes:
        peak = peak_bytes(groups, group, _shapes_of_heads(groups, group))
    if saved < cache_bytes or peak + _bytes_in_loops(groups, group) > 2 * cache_bytes:
        return 0.0      # too little saved: it stays in the cache anyway; or too much: it does not fit
    return saved * min(1.0, cache_bytes / 2 / max(peak, 1))      # bytes that do not fit with the whole operands are read again


def peak_bytes(groups: TileGroups, group: TileGroup, by_heads: Container[tuple[int, ...]] = ()) -> int:
    """Most bytes of a tile that are live at once; values of the shapes `by_heads` are live one head at a time."""
    stored = _stored(groups, group)
    last = {value: index for index, op in enumerate(group.ops) for value in op.operands}
    alive = peak = 0
    ending: dict[int, int] = {}
    for index, op in enumerate(group.ops):
        for value in stored.intersection(op.results):
            size = value.type.nbytes // groups.count
            if value.type.shape in by_heads:
                size //= value.type.shape[1]
            alive += size
            end = last.get(value, index)
            ending[end] = ending.get(end, 0) + size
        peak = max(peak, alive)
        alive -= ending.get(index, 0)
    return peak


def _shapes_of_heads(groups: TileGroups, group: TileGroup) -> set[tuple[int, ...]]:
    """Shapes of products with a second batch axis, along which tiles of single examples are tiled again: the heads of attentions."""
    products = (op.result.type.shape for op in group.ops if op.name == "matmul" and not groups.axes.batch)
    return {shape for shape in products if len(shape) > 3 and shape[0] == groups.count}


def _stored(groups: TileGroups, group: TileGroup) -> set[Value]:
    """Values of the group that lie in memory, rather than inside a kernel."""
    return {value for op in group.ops for value in op.results if value in groups.uses.stored}


def _whole_operands(groups: TileGroups, group: TileGroup) -> dict[Value, int]:
    """Operands that each tile reads as a whole, and how often."""
    whole: dict[Value, int] = {}
    for op in group.ops:
        for value, cut in zip(op.operands, group.operand_axes[op], strict=True):
            if cut is None:
                whole[value] = max(whole.get(value, 0), op.attrs["length"] if op in groups.axes.loops else 1)
    return whole


def _relayouted(groups: TileGroups, group: TileGroup) -> set[Value]:
    """Values that are brought into another layout outside, as a tile of them is not contiguous."""
    axes = groups.axes
    if not axes.batch:
        return set()
    ends = {(value, axes[value]) for op in group.ops for value in op.results if value in axes and groups.is_used_outside(value, group)}
    ends.update((value, cut) for op in group.ops for value, cut in zip(op.operands, group.operand_axes[op], strict=True)
                if cut is not None and groups.producer.get(value) not in group.operand_axes and not groups.is_replicated(value, cut))
    return {value for value, axis in ends if batches_before(value.type, axis, axes.batch) > 1}


def _bytes_in_loops(groups: TileGroups, group: TileGroup) -> int:
    """Upper bound for the bytes that the bodies of loops need for one tile."""
    loops = groups.axes.loops
    return sum(value.type.nbytes // (groups.count if value in loops[op].body else 1)
               for op in group.ops if op in loops
               for inner in op.regions[0].ops if inner.name not in FREE_IN_TILES for value in inner.results)
