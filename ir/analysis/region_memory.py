"""The regions of planned ops: where they have their working memory, within the scratch memory of the op or on the stack, and their ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adjit.ir.analysis.buffer_assignment import BufferAssignment, ResultKind, arena_bytes
from adjit.ir.definition import RegionUse
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.traits import CONTROL_FLOW

ResultOffsets = tuple[int | None, ...]
"""For each result of a region the byte of the scratch memory where it is handed over; None where that is the memory of the parameter that
it is the new content of."""


def region_memory(regions: Sequence[Graph]) -> tuple[list[ResultOffsets], int]:
    """Where planned regions, which never run at the same time, hand over their results; and how many bytes they need. The arena of each
    begins where the scratch memory does."""
    found: list[ResultOffsets] = []
    size = 0
    for region in regions:
        assignment = BufferAssignment(region)
        end = aligned(assignment.arena_bytes)
        offsets: list[int | None] = []
        for index, (location, value) in enumerate(zip(assignment.result_locations, region.results, strict=True)):
            in_place = location.kind is ResultKind.DONATED and assignment.slots[value] == Slot("param", location.param)
            offsets.append(None if in_place and _is_own_update(region, location.param, index) else end)
            end += 0 if offsets[-1] is None else aligned(value.type.nbytes)
        found.append(tuple(offsets))
        size = max(size, end)
    return found, size


def _is_own_update(region: Graph, param: int, result: int) -> bool:
    """Whether a result is the new content of a parameter: the first parameters are carried, and take the last results."""
    return result == len(region.results) - region.param_roles.count("carried") + param


def scratch_bytes(op: Op) -> int:
    """How much scratch memory a planned loop or branch needs."""
    return region_memory(op.regions)[1]


def stack_bytes(graph: Graph) -> int:
    """The most bytes that `tiled` of a planned graph, and tiles within them, take of the stack of a thread."""
    return max((stack_bytes(region) + (arena_bytes(region) if op.definition.region_use is RegionUse.TILING else 0)
                for op in graph.ops for region in op.regions), default=0)


def nested_ops(op: Op) -> Iterator[tuple[Op, BufferAssignment]]:
    """The ops within the regions of a planned op, each followed by those of its own regions; and where their values lie."""
    for region in op.regions:
        assignment = BufferAssignment(region)
        for inner in assignment.ops:
            yield inner, assignment
            if inner.name in CONTROL_FLOW:
                yield from nested_ops(inner)
