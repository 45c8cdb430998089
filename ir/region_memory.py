"""The regions of planned ops: where they have their working memory, within the scratch memory of the op or on the stack, and their ops."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from adjit.ir.definition import RegionUse
from adjit.ir.graph import Graph, Op, Slot
from adjit.ir.layout import Handing, Layout, arena_bytes
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.traits import CONTROL_FLOW

Places = tuple[int | None, ...]
"""For each result of a region the byte of the scratch memory where it is handed over; None where that is the memory of the parameter that
it is the new content of."""


def region_memory(regions: Sequence[Graph]) -> tuple[list[Places], int]:
    """Where planned regions, which never run at the same time, hand over their results; and how many bytes they need. The arena of each
    begins where the scratch memory does."""
    found: list[Places] = []
    size = 0
    for region in regions:
        layout = Layout(region)
        end = aligned(layout.arena_bytes)
        places: list[int | None] = []
        for index, (home, value) in enumerate(zip(layout.homes, region.results, strict=True)):
            in_place = home.handing is Handing.DONATED and layout.places[value] == Slot("param", home.param)
            places.append(None if in_place and _takes(region, home.param, index) else end)
            end += 0 if places[-1] is None else aligned(value.type.nbytes)
        found.append(tuple(places))
        size = max(size, end)
    return found, size


def _takes(region: Graph, param: int, result: int) -> bool:
    """Whether a result is the new content of a parameter: the first parameters are carried, and take the last results."""
    return result == len(region.results) - region.param_roles.count("carried") + param


def scratch_bytes(op: Op) -> int:
    """How much scratch memory a planned loop or branch needs."""
    return region_memory(op.regions)[1]


def stack_bytes(graph: Graph) -> int:
    """The most bytes that `panels` of a planned graph, and panels within them, take of the stack of a thread."""
    return max((stack_bytes(region) + (arena_bytes(region) if op.definition.region_use is RegionUse.TILING else 0)
                for op in graph.ops for region in op.regions), default=0)


def nested_ops(op: Op) -> Iterator[tuple[Op, Layout]]:
    """The ops within the regions of a planned op, each followed by those of its own regions; and where their values lie."""
    for region in op.regions:
        layout = Layout(region)
        for inner in layout.ops:
            yield inner, layout
            if inner.name in CONTROL_FLOW:
                yield from nested_ops(inner)
