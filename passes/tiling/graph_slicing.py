"""Slice rules of all ops of a graph along given axes, computed once for all tile counts that are tried."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, Value
from adjit.passes.tiling.axes import Axes
from adjit.passes.tiling.slice_rules import OperandAxes, infer_operand_axes, replication_divisor


@dataclass(frozen=True, slots=True, eq=False)
class SliceRule:
    """Operands that a tile of an op's result needs.

    operand_axes  for each operand the axis along which a tile of it is enough; None if the op has no tiles
    producers     the op that makes each operand; None for parameters
    divisor       tile counts must divide this number
    excluded_count  tile count that is not allowed although it divides `divisor`
    replicable_divisor  each tile may recompute the result if the tile count divides this number
    """

    op: Op
    operand_axes: OperandAxes | None
    producers: tuple[Op | None, ...]
    divisor: int
    excluded_count: int
    replicable_divisor: int

    def axes_for(self, count: int) -> OperandAxes | None:
        """Axes of the operands for one of `count` tiles; None if the op cannot be cut into so many."""
        return self.operand_axes if self.divisor % count == 0 and self.excluded_count != count else None

    def is_replicable(self, count: int) -> bool:
        """True if each of `count` tiles may recompute the result."""
        return self.replicable_divisor % count == 0


class GraphSlicing:
    """Slice rules of all ops of a graph along `axes`."""

    def __init__(self, graph: Graph, axes: Axes, producer: Mapping[Value, Op]) -> None:
        self.axes = axes
        self.ops = []
        for op in graph.ops:
            producers = tuple([producer.get(value) for value in op.operands])
            if op in axes.loops:
                self.ops.append(SliceRule(op, axes.loops[op].operand_axes, producers, axes.batch, axes.batch, 1))
            else:
                self.ops.append(slice_rule(op, axes.get(op.results[0]) if op.results else None, producers, axes.batch))


def slice_rule(op: Op, axis: int | None, producers: tuple[Op | None, ...], batch: int = 0) -> SliceRule:
    """Slice rule of an op along an axis of its result, whose length may be a multiple of `batch`."""
    operand_axes = None if axis is None else infer_operand_axes(op, axis, batch)
    if axis is not None and operand_axes is not None and batch:
        return SliceRule(op, operand_axes, producers, batch, batch, replication_divisor(op, axis))
    if axis is None or operand_axes is None:
        return SliceRule(op, None, producers, 1, 0, 1)
    cut = [(op.result.type, axis)]
    cut += [(value.type, operand_axis) for value, operand_axis in zip(op.operands, operand_axes, strict=True) if operand_axis is not None]
    if not all(type.size and type.rank > operand_axis for type, operand_axis in cut):
        return SliceRule(op, None, producers, 1, 0, 1)
    shape = op.result.type.shape
    excluded_count = shape[axis] if op.name == "matmul" and axis >= len(shape) - 2 else 0
    divisor = gcd(*(type.shape[operand_axis] for type, operand_axis in cut))
    return SliceRule(op, operand_axes, producers, divisor, excluded_count, replication_divisor(op, axis))
