"""Builds the graph of one tile from the ops that run in it."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.ir.graph import Attributes, Graph, Op, Value, producers
from adjit.ir.ops import reshape, transpose
from adjit.ir.types import TensorType
from adjit.passes.tiling.axes import Axes, LoopSlicing
from adjit.passes.tiling.slice_rules import (
    OperandAxes,
    batches_before,
    infer_operand_axes,
    is_dropped,
    is_replicable,
    summed_axes,
    tile_attributes,
    tile_type,
)


class TileRegion:
    """Graph of one tile, under construction: its parameters and ops.

    `operand_axes` has the ops, in order; `producer` the op that makes each value outside. `relayouts` are ops that copy operands whose
    tiles are not contiguous.
    """

    def __init__(self, axes: Axes, count: int, producer: Mapping[Value, Op], operand_axes: Mapping[Op, OperandAxes]) -> None:
        self.axes, self.count, self.producer = axes, count, producer
        self.params: list[Value] = []
        self.operands: list[Value] = []
        self.sliced: list[bool] = []
        self.ops: list[Op] = []
        self.relayouts: list[Op] = []
        self.sums: dict[Value, Value] = {}                      # partial sums in the carries of loops
        self.mapping: dict[tuple[Value, int], Value] = {}       # tiles in this region, by the value and the axis
        self.whole: dict[Value, Value] = {}                     # whole values in this region
        for op, cuts in operand_axes.items():
            if op in axes.loops:
                self.add_loop(op, axes.loops[op])
            else:
                self.add(op, axes[op.result], cuts)

    def add(self, op: Op, axis: int, operand_axes: OperandAxes) -> Value:
        result = Value(tile_type(op.result.type, axis, self.count), op.result.name)
        self.append(op, operand_axes, result, tile_attributes(op, axis, operand_axes, self.count))
        self.mapping[op.result, axis] = result
        return result

    def add_loop(self, op: Op, cut: LoopSlicing) -> None:
        results = []
        for value, axis in zip(op.results, cut.results, strict=True):
            results.append(Value(value.type if axis is None else tile_type(value.type, axis, self.count), value.name))
            if axis is not None:
                self.mapping[value, axis] = results[-1]
        first = len(op.results) - op.attrs["carries"]
        self.sums.update((op.results[first + index], results[first + index]) for index in cut.sums)
        body = _body(op.regions[0], cut.body, self.count)
        self.ops.append(Op(op.definition, self.inner_operands(op, cut.operand_axes), tuple(results), op.attrs, (body,), op.loc, op.role))

    def append(self, op: Op, operand_axes: OperandAxes, result: Value, attrs: Attributes) -> None:
        self.ops.append(Op(op.definition, self.inner_operands(op, operand_axes), (result,), attrs, op.regions, op.loc, op.role))

    def inner_operands(self, op: Op, operand_axes: OperandAxes) -> tuple[Value, ...]:
        return tuple(self.whole_value(value) if cut is None else self.tile(value, cut)
                     for value, cut in zip(op.operands, operand_axes, strict=True))

    def result(self, value: Value) -> Value:
        return self.mapping[value, self.axes[value]]

    def tile(self, value: Value, axis: int) -> Value:
        """Tile of `value`: made in the region, or a sliced operand."""
        if (value, axis) in self.mapping:
            return self.mapping[value, axis]
        producer = self.producer.get(value)
        if producer is not None and is_replicable(producer, axis, self.count):
            return self.add(producer, axis, (None,) * len(producer.operands))
        inner = Value(tile_type(value.type, axis, self.count), value.name)
        batches = batches_before(value.type, axis, self.axes.batch) if self.axes.batch else 1
        outer = value
        if batches > 1:
            outer = Value(TensorType(value.type.dtype, (self.count, *inner.type.shape)))
            self.relayouts += _swapped_blocks(value, (batches, self.count), outer)
        self.mapping[value, axis] = self.param(outer, inner, True)
        return self.mapping[value, axis]

    def joined(self, value: Value) -> tuple[Value, list[Op]]:
        """Value that `tiled` returns for a value made in the region, and the ops that turn the former into the latter."""
        axis = self.axes[value]
        batches = batches_before(value.type, axis, self.axes.batch) if self.axes.batch else 1
        if batches == 1:
            return value, []
        stacked = Value(TensorType(value.type.dtype, (self.count, *tile_type(value.type, axis, self.count).shape)))
        return stacked, _swapped_blocks(stacked, (self.count, batches), value)

    def whole_value(self, value: Value) -> Value:
        if value not in self.whole:
            self.whole[value] = self.param(value, Value(value.type, value.name), False)
        return self.whole[value]

    def param(self, outer: Value, inner: Value, cut: bool) -> Value:
        self.params.append(inner)
        self.operands.append(outer)
        self.sliced.append(cut)
        return inner

    def partial_sum(self, op: Op) -> Value:
        """Summand of one tile in a sum over the axis."""
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


def _swapped_blocks(value: Value, parts: tuple[int, int], result: Value) -> list[Op]:
    """Ops that swap the two leading block axes (lengths `parts`) of a value."""
    type, (first, second) = value.type, parts
    flat = Value(type.with_shape((first, second, type.size // (first * second))))
    swapped = Value(type.with_shape((second, first, flat.type.shape[2])))
    return [Op(reshape, (value,), (flat,), {"shape": flat.type.shape}), Op(transpose, (flat,), (swapped,), {"permutation": (1, 0, 2)}),
            Op(reshape, (swapped,), (result,), {"shape": result.type.shape})]


def _body(body: Graph, axes: Axes, count: int) -> Graph:
    """Body of a loop for one tile."""
    region, params = TileRegion(axes, count, producers(body), {}), []
    for param in body.params:
        if param in axes:
            params.append(Value(tile_type(param.type, axes[param], count), param.name))
            region.mapping[param, axes[param]] = params[-1]
        else:
            params.append(Value(param.type, param.name))
            region.whole[param] = params[-1]
    for op in body.ops:
        axis = axes.get(op.results[0])
        operand_axes = None if axis is None else infer_operand_axes(op, axis, axes.batch)
        if axis is None and any(value in axes for value in op.operands):
            region.whole[op.result] = region.partial_sum(op)
        elif axis is None:
            results = tuple(Value(value.type, value.name) for value in op.results)
            region.ops.append(op.with_operands(region.inner_operands(op, (None,) * len(op.operands)), results))
            region.whole.update(zip(op.results, results, strict=True))
        elif axis is not None and operand_axes is not None:         # an op without operand axes is a constant, made where it is read
            region.add(op, axis, operand_axes)
    results = tuple(region.tile(value, axes[value]) if value in axes else region.whole_value(value) for value in body.results)
    return Graph(body.name, tuple(params), tuple(region.ops), results, body.param_roles)
