"""Builds the graph of one panel from the ops that run in it."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.ir.graph import Attributes, Op, Value
from adjit.passes.panel_axes import Axes
from adjit.passes.panel_rules import Needs, is_dropped, is_free, panel_attributes, panel_type, summed_axes


class PanelRegion:
    """The graph of one panel, under construction: what it takes, and its ops.

    `needs` has the ops, in order, `made` what makes each value outside.
    """

    def __init__(self, axes: Axes, count: int, made: Mapping[Value, Op], needs: Mapping[Op, Needs]) -> None:
        self.axes, self.count, self.made = axes, count, made
        self.params: list[Value] = []
        self.operands: list[Value] = []
        self.sliced: list[bool] = []
        self.ops: list[Op] = []
        self.mapping: dict[tuple[Value, int], Value] = {}       # what is known as a panel along an axis
        self.whole: dict[Value, Value] = {}                     # and as a whole
        for op, cuts in needs.items():
            self.add(op, axes[op.result], cuts)

    def add(self, op: Op, axis: int, needs: Needs) -> Value:
        result = Value(panel_type(op.result.type, axis, self.count), op.result.name)
        self.append(op, needs, result, panel_attributes(op, axis, needs, self.count))
        self.mapping[op.result, axis] = result
        return result

    def append(self, op: Op, needs: Needs, result: Value, attrs: Attributes) -> None:
        operands = tuple(self.entire(value) if cut is None else self.panel(value, cut)
                         for value, cut in zip(op.operands, needs, strict=True))
        self.ops.append(Op(op.definition, operands, (result,), attrs, op.regions, op.loc, op.role))

    def result(self, value: Value) -> Value:
        return self.mapping[value, self.axes[value]]

    def panel(self, value: Value, axis: int) -> Value:
        """A panel of `value`: made here, or an operand that is sliced."""
        if (value, axis) in self.mapping:
            return self.mapping[value, axis]
        maker = self.made.get(value)
        if maker is not None and is_free(maker, axis, self.count):
            return self.add(maker, axis, (None,) * len(maker.operands))
        self.mapping[value, axis] = self.param(value, Value(panel_type(value.type, axis, self.count), value.name), True)
        return self.mapping[value, axis]

    def entire(self, value: Value) -> Value:
        if value not in self.whole:
            self.whole[value] = self.param(value, Value(value.type, value.name), False)
        return self.whole[value]

    def param(self, outer: Value, inner: Value, cut: bool) -> Value:
        self.params.append(inner)
        self.operands.append(outer)
        self.sliced.append(cut)
        return inner

    def part(self, op: Op) -> Value:
        """What one panel adds to a sum over the axis."""
        cuts = summed_axes(op)
        if cuts is not None:
            result = Value(op.result.type)
            self.append(op, cuts, result, op.attrs)
            return result
        outer = op.operands[0]
        operand, cut = self.result(outer), self.axes[outer]
        axes = op.attrs["axes"]
        if is_dropped(outer.type, cut, self.count):
            axes = tuple(axis - (axis > cut) for axis in axes if axis != cut)
        if not axes:
            return operand
        (result,) = (Value(inferred) for inferred in op.definition.result_types([operand.type], {"axes": axes}))
        self.ops.append(Op(op.definition, (operand,), (result,), {"axes": axes}, (), op.loc, op.role))
        return result
