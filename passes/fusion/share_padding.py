"""Paddings of one array in several ways become slices of one padded array, which kernels read where they lie."""

from __future__ import annotations

from dataclasses import replace

from adjit.ir import ops
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, attribute_key, readers
from adjit.passes.fusion.absorb_slices import MIN_SLICE_BYTES
from adjit.passes.options import Options


def share_padding(graph: Graph, options: Options) -> Graph:
    """Pad an array once where it is padded in several ways for kernels: the cotangents of shifted slices, as stencils have them.

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
    reading, groups = readers(graph.ops), dict[object, list[Op]]()
    for op in pads:
        if op.result not in graph.results and _is_shareable(op) and all(
                reader.definition.kind in (Kind.ELEMENTWISE, Kind.REDUCTION) for reader in reading[op.result]):
            groups.setdefault((op.operands[0], attribute_key(op.attrs["value"])), []).append(op)
    whole: dict[Op, Op] = {}
    for group in groups.values():
        padded = _padded(group)
        if len(group) > 1 and padded.result.type.size <= 2 * group[0].result.type.size:
            whole.update(dict.fromkeys(group, padded))
    new = [made for op in graph.ops for made in (_parts(op, whole[op]) if op in whole else (op,))]
    return graph.with_ops(list(dict.fromkeys(new))) if whole else graph


def _is_shareable(op: Op) -> bool:
    return op.operands[0].type.nbytes >= MIN_SLICE_BYTES and not any(op.attrs["interior"])


def _padded(group: list[Op]) -> Op:
    """Padding of which all of a group are slices."""
    first = group[0]
    low, high = (tuple(map(max, zip(*(op.attrs[side] for op in group), strict=True))) for side in ("low", "high"))
    type = first.operands[0].type
    shape = tuple(map(sum, zip(low, type.shape, high, strict=True)))
    return replace(first, results=(Value(type.with_shape(shape)),), attrs={**first.attrs, "low": low, "high": high})


def _parts(op: Op, padded: Op) -> tuple[Op, Op]:
    """The padding of a group, and the slice of it that one of the group is."""
    start = tuple(most - low for most, low in zip(padded.attrs["low"], op.attrs["low"], strict=True))
    stop = tuple(map(sum, zip(start, op.result.type.shape, strict=True)))
    attrs = {"start": start, "stop": stop, "step": (1,) * len(start)}
    return padded, Op(ops.slice, padded.results, op.results, attrs, (), op.loc, op.role)
