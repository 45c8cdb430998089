"""Paddings of one array in several ways become slices of one padded array, which kernels read where they lie."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from adjit.ir import ops
from adjit.ir.definition import Kind
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, attribute_key, needed_ops, number_of, producers, readers
from adjit.passes.fusion.absorb_slices import MIN_SLICE_BYTES
from adjit.passes.options import Options


def share_padding(graph: Graph, options: Options) -> Graph:
    """Pad an array once where it, or a multiple of it, is padded in several ways for kernels: the cotangents of shifted slices, as stencils
    have them.

    Before:
        graph @f(%x: f64[9,16], %y: f64[9,18]) {
          %0: f64[9,18] = pad %x {high=(0, 0), interior=(0, 0), low=(0, 2), value=0.0}
          %1: f64[9,18] = pad %x {high=(0, 1), interior=(0, 0), low=(0, 1), value=0.0}
          %2: f64[9,18] = add %0, %1
          return %2
        }

    After:
        graph @f(%x: f64[9,16], %y: f64[9,18]) {
          %0: f64[9,19] = pad %x {high=(0, 1), interior=(0, 0), low=(0, 2), value=0.0}
          %1: f64[9,18] = slice %0 {start=(0, 0), step=(1, 1), stop=(9, 18)}
          %2: f64[9,18] = slice %0 {start=(0, 1), step=(1, 1), stop=(9, 19)}
          %3: f64[9,18] = add %1, %2
          return %3
        }
    """
    pads = [op for op in graph.ops if op.name == "pad"]
    if not options.only_kernels or len(pads) < 2:
        return graph
    reading, producer, groups = readers(graph.ops), producers(graph), dict[object, list[Op]]()
    sources = {op: _source(op, producer) for op in pads}
    for op in pads:
        if op.result not in graph.results and _is_shareable(op) and all(
                reader.definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION) for reader in reading[op.result]):
            groups.setdefault((sources[op][0], attribute_key(op.attrs["value"])), []).append(op)
    whole: dict[Op, Op] = {}
    for group in groups.values():
        padded = _padded(group, sources[group[0]][0])
        if len(group) > 1 and padded.result.type.size <= 2 * group[0].result.type.size:
            whole.update(dict.fromkeys(group, padded))
    if not whole:
        return graph
    new = [made for op in graph.ops for made in (_parts(op, whole[op], sources[op][1]) if op in whole else (op,))]
    return graph.with_ops(needed_ops(list(dict.fromkeys(new)), graph.results))


def _source(op: Op, producer: Mapping[Value, Op]) -> tuple[Value, float | None]:
    """What a padded array is a multiple of, and the factor; the array itself, and None. Of cotangents alone, since the padding would be a
    negative multiple of 0.0."""
    (value,) = op.operands
    product = producer.get(value)
    if product is not None and product.name == "multiply" and op.role is Role.ADJOINT and op.attrs["value"] == 0:
        factor = number_of(producer.get(product.operands[1]))
        if isinstance(factor, float) and math.isfinite(factor):
            return product.operands[0], factor
    return value, None


def _is_shareable(op: Op) -> bool:
    return op.operands[0].type.nbytes >= MIN_SLICE_BYTES and not any(op.attrs["interior"])


def _padded(group: list[Op], value: Value) -> Op:
    """Padding of a value of which all of a group are slices, or multiples of slices."""
    first = group[0]
    low, high = (tuple(map(max, zip(*(op.attrs[side] for op in group), strict=True))) for side in ("low", "high"))
    shape = tuple(map(sum, zip(low, value.type.shape, high, strict=True)))
    attrs = {**first.attrs, "low": low, "high": high}
    return replace(first, operands=(value,), results=(Value(value.type.with_shape(shape)),), attrs=attrs)


def _parts(op: Op, padded: Op, factor: float | None) -> list[Op]:
    """The padding of a group, and the slice of it that one of the group is, or is a multiple of."""
    start = tuple(most - low for most, low in zip(padded.attrs["low"], op.attrs["low"], strict=True))
    stop = tuple(map(sum, zip(start, op.result.type.shape, strict=True)))
    attrs = {"start": start, "stop": stop, "step": (1,) * len(start)}
    if factor is None:
        return [padded, Op(ops.slice, padded.results, op.results, attrs, (), op.loc, op.role)]
    type = op.result.type
    part = Op(ops.slice, padded.results, (Value(type),), attrs, (), op.loc, op.role)
    number = Op(ops.constant, (), (Value(type),), {"value": factor, "dtype": type.dtype, "shape": type.shape}, (), op.loc, op.role)
    return [padded, part, number, Op(ops.multiply, (part.result, number.result), op.results, {}, (), op.loc, op.role)]
