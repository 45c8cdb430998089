"""How each op of a graph is cut along given axes, found once for all numbers of panels that are tried."""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, Value
from adjit.passes.panels.axes import Axes
from adjit.passes.panels.rules import Needs, free_length, operand_axes


@dataclass(frozen=True, slots=True, eq=False)
class OpCut:
    """What panels of an op's result take.

    needs      for each operand the axis along which a panel of it is enough; None where panels are no use
    makers     the op that makes each operand; None for parameters
    divisor    the numbers of panels are those that divide it
    without    a number of panels that is none
    free       panels whose number divides it make a copy of the result of their own
    """

    op: Op
    needs: Needs | None
    makers: tuple[Op | None, ...]
    divisor: int
    without: int
    free: int

    def needs_for(self, count: int) -> Needs | None:
        """What one of `count` panels takes; None where there are none."""
        return self.needs if self.divisor % count == 0 and self.without != count else None

    def is_free(self, count: int) -> bool:
        """Whether each of `count` panels makes a copy of the result of its own."""
        return self.free % count == 0


class PanelCuts:
    """The cuts of all ops of a graph along `axes`."""

    def __init__(self, graph: Graph, axes: Axes, maker: Mapping[Value, Op]) -> None:
        self.axes = axes
        self.ops = []
        for op in graph.ops:
            makers = tuple([maker.get(value) for value in op.operands])
            if op in axes.loops:
                self.ops.append(OpCut(op, axes.loops[op].needs, makers, axes.batch, axes.batch, 1))
            else:
                self.ops.append(cut_of(op, axes.get(op.results[0]) if op.results else None, makers, axes.batch))


def cut_of(op: Op, axis: int | None, makers: tuple[Op | None, ...], batch: int = 0) -> OpCut:
    """The cut of an op along an axis of its result, which may be several times a `batch`."""
    needs = None if axis is None else operand_axes(op, axis, batch)
    if axis is not None and needs is not None and batch:
        return OpCut(op, needs, makers, batch, batch, free_length(op, axis))
    if axis is None or needs is None:
        return OpCut(op, None, makers, 1, 0, 1)
    cut = [(op.result.type, axis), *((value.type, place) for value, place in zip(op.operands, needs, strict=True) if place is not None)]
    if not all(type.size and type.rank > place for type, place in cut):
        return OpCut(op, None, makers, 1, 0, 1)
    shape = op.result.type.shape
    without = shape[axis] if op.name == "matmul" and axis >= len(shape) - 2 else 0
    return OpCut(op, needs, makers, gcd(*(type.shape[place] for type, place in cut)), without, free_length(op, axis))
