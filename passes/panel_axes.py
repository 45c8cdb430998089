"""Which axis of each value belongs to the batch: the axis along which a program could be cut into panels.

Most programs have the batch first, everywhere. Where a chain has it elsewhere, it is followed, from an axis of a product, through all ops
that have the same axis in operands and results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value
from adjit.passes.panel_rules import operand_axes

Axes = Mapping[Value, int]
"""The axis of each value that has one."""

MOST_AXES = 3
"""How many axes of a graph are followed."""


def batch_axes(graph: Graph, least_rank: int) -> Iterator[Axes]:
    """Ways to cut a graph with products of at least this rank: along the first axis of everything; and, but for panels of panels, along
    the longest axes of batches of products, where something that lies in memory has one of these first, so that its panels can be read in
    place."""
    values = [*graph.params, *(value for op in graph.ops for value in op.results)]
    yield {value: 0 for value in values if value.type.rank}
    found: list[Axes] = []
    for op in graph.ops if least_rank == 2 else ():
        shape = op.result.type.shape if op.name == "matmul" else ()
        axis = max(range(len(shape)), key=shape.__getitem__) if len(shape) > 2 else 0
        if axis and len(found) < MOST_AXES and not any(axes.get(op.result) == axis for axes in found):
            found.append(_followed(graph, op.result, axis))
            if any(found[-1].get(value) == 0 for value in graph.params):
                yield found[-1]


def _followed(graph: Graph, value: Value, axis: int) -> Axes:
    """The axes that are the same as `axis` of `value`."""
    maker: dict[Value, Op] = {result: op for op in graph.ops for result in op.results}
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        if op.definition.kind is not Kind.REGION:
            for operand in op.operands:
                readers.setdefault(operand, []).append(op)
    axes, waiting = {value: axis}, [value]

    def reach(other: Value, place: int | None) -> None:
        if place is not None and other not in axes:
            axes[other] = place
            waiting.append(other)

    while waiting:
        here = waiting.pop()
        made = maker.get(here)
        needs = operand_axes(made, axes[here]) if made is not None else None
        for other, place in zip(made.operands if made is not None and needs is not None else (), needs or (), strict=True):
            reach(other, place)
        for op in readers.get(here, ()):
            for place in range(op.results[0].type.rank):
                needs = operand_axes(op, place)
                if needs is not None and any(v is here and cut == axes[here] for v, cut in zip(op.operands, needs, strict=True)):
                    reach(op.result, place)
    return axes
