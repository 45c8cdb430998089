"""How each op of a graph is cut along given axes, found once for all numbers of tiles that are tried."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, Value
from adjit.passes.tiling.axes import Axes
from adjit.passes.tiling.slice_rules import OperandAxes, infer_operand_axes, replication_divisor


@dataclass(frozen=True, slots=True, eq=False)
class SliceRule:
    """What tiles of an op's result take.

    operand_axes  for each operand the axis along which a tile of it is enough; None where tiles are no use
    producers     the op that makes each operand; None for parameters
    divisor       the numbers of tiles are those that divide it
    excluded_count  a number of tiles that is none
    replicable_divisor  tiles whose number divides it make a copy of the result of their own
    """

    op: Op
    operand_axes: OperandAxes | None
    producers: tuple[Op | None, ...]
    divisor: int
    excluded_count: int
    replicable_divisor: int

    def axes_for(self, count: int) -> OperandAxes | None:
        """What one of `count` tiles takes; None where there are none."""
        return self.operand_axes if self.divisor % count == 0 and self.excluded_count != count else None

    def is_replicable(self, count: int) -> bool:
        """Whether each of `count` tiles makes a copy of the result of its own."""
        return self.replicable_divisor % count == 0


class GraphSlicing:
    """The cuts of all ops of a graph along `axes`."""

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
    """The cut of an op along an axis of its result, which may be several times a `batch`."""
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
