"""Saves the values that the forward half keeps for the backward half as float16 or bfloat16: half the bytes, or a quarter.

The forward half computes as before; derivatives read rounded values. What is computed of them is float32 or float64, as before.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from adjit.ir import ops
from adjit.ir.definition import Kind
from adjit.ir.errors import Location, Role
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.types import F32, converts_at_once, is_float
from adjit.passes.autodiff.partition.choose_saved_values import backward_ops, saved_values
from adjit.passes.options import Options

MIN_PART = 1 / 16
"""Least elements of a value that is saved narrow, as part of the largest one: means and norms of rows take little memory and stay exact.
"""

_FUSING = (Kind.ELEMENTWISE, Kind.MOVEMENT, Kind.CREATION)


def narrow_saved_values(graph: Graph, options: Options) -> Graph:
    """Convert saved floats to `Options.saved_dtype` where they are made, and back where the backward half reads them.

    Before:
        graph @f(%x: f32[64], %ct: f32[64]) {
          %y: f32[64] = tanh %x  # model.py:1 in f
          %z: f32[64] = exp %y  # model.py:2 in f
          %s: f32[] = reduce_sum %z {axes=(0,)}  # model.py:3 in f
          %g: f32[64] = multiply %z, %ct  # adjoint
          return %s, %g
        }

    After:
        graph @f(%x: f32[64], %ct: f32[64]) {
          %y: f32[64] = tanh %x  # model.py:1 in f
          %z: f32[64] = exp %y  # model.py:2 in f
          %0: f16[64] = convert %z {dtype=f16}  # model.py:2 in f
          %s: f32[] = reduce_sum %z {axes=(0,)}  # model.py:3 in f
          %1: f32[64] = convert %0 {dtype=f32}  # model.py:2 in f, recompute
          %g: f32[64] = multiply %1, %ct  # adjoint
          return %s, %g
        }
    """
    return narrow_values(graph, options.saved_dtype)


def narrow_values(graph: Graph, dtype: np.dtype | None, stored: Sequence[Value] = ()) -> Graph:
    """Graph whose saved floats, and those of the parameters `stored`, are `dtype`; the same graph without a dtype."""
    if dtype is None:
        return graph
    backward = backward_ops(graph)
    read = {value for op in backward for value in op.operands}
    saved = [*(value for value in stored if value in read), *saved_values(graph)]
    floats = [value for value in saved if is_float(value.type.dtype) and not value.type.is_half and value.type.size > 1]
    least = MIN_PART * max((value.type.size for value in floats), default=0)
    narrow: dict[Value, Value | None] = {value: None for value in floats if value.type.size >= least}
    if not narrow:
        return graph
    made: list[Op] = []
    origin: dict[Value, Location | None] = {}
    for value in stored:
        if value in narrow:
            narrow[value], origin[value] = _converted(made, value, dtype, None, Role.PRIMAL), None
    wide: dict[Value, Value] = {}       # within a run of ops that become kernels: others get values of their own, which do not live on
    for op in graph.ops:
        if op not in backward:
            made.append(op)
            for value in op.results:
                if value in narrow:
                    narrow[value], origin[value] = _converted(made, value, dtype, op.loc, Role.PRIMAL), op.loc
            continue
        fuses = op.definition.kind in _FUSING
        if not fuses:
            wide.clear()
        for value in dict.fromkeys(op.operands):
            half = narrow.get(value)
            if half is not None and value not in wide:
                wide[value] = _converted(made, half, value.type.dtype, origin[value], Role.RECOMPUTE)
        made.append(op.with_operands(tuple(wide.get(value, value) for value in op.operands)) if not wide.keys().isdisjoint(op.operands)
                    else op)
        if not fuses:
            wide.clear()
    return graph.with_ops(made)


def _converted(made: list[Op], value: Value, dtype: np.dtype, loc: Location | None, role: Role) -> Value:
    """`value` in another dtype, by ops that are appended to `made`."""
    for target in (dtype,) if converts_at_once(value.type.dtype, dtype) else (F32, dtype):
        result = Value(value.type.with_dtype(target))
        made.append(Op(ops.convert, (value,), (result,), {"dtype": target}, (), loc, role))
        value = result
    return value


def describe_narrow_values(before: Graph, after: Graph, options: Options) -> str:
    """Summary line for the records of the pipeline."""
    if after is before:
        return ""
    nbytes = [sum(value.type.nbytes for value in saved_values(graph)) for graph in (before, after)]
    return f"{nbytes[1]:,} bytes are saved for the backward half in place of {nbytes[0]:,}"
