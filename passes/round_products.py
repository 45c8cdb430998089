"""Products of float32 in fewer digits, where the user asks for them, or factors have no more: cards compute those faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.types import F16, F32
from adjit.passes.options import Options

MARKS: dict[str | None, str] = {"high": "tf32x3", "tf32": "tf32", "bf16": "bf16"}
"""Mark of products, by the user's word."""

FILLING = frozenset(("pad",))
"""Movement that adds numbers of its own."""

MIN_SIDE = 8
"""Rows and columns from which a product is rounded: one with fewer takes as long as its matrix takes to be read, whatever its digits."""


def round_products(graph: Graph, options: Options) -> Graph:
    """Mark products of float32 by the digits of their factors, after the last derivative: those that `Options.matmul_precision` asks for,
    or those that both factors have, which were bfloat16 or float16.

    Before:
        graph @f(%x: f32[64,32], %w: f32[32,48], %y: f64[64,32], %v: f64[32,48]) {
          %0: f32[64,48] = matmul %x, %w {transpose_a=false, transpose_b=false}
          %1: f64[64,48] = matmul %y, %v {transpose_a=false, transpose_b=false}
          return %0, %1
        }

    After:
        graph @f(%x: f32[64,32], %w: f32[32,48], %y: f64[64,32], %v: f64[32,48]) {
          %0: f32[64,48] = matmul %x, %w {tf32=true, transpose_a=false, transpose_b=false}
          %1: f64[64,48] = matmul %y, %v {transpose_a=false, transpose_b=false}
          return %0, %1
        }
    """
    if options.matmul_precision is None:
        return graph
    mark, producer = MARKS.get(options.matmul_precision), producers(graph)
    marks = {op: found for op in graph.ops if _may_be_rounded(op) and (found := _of_halves(op, producer) or mark)}
    return graph.with_ops([replace(op, attrs={**op.attrs, marks[op]: True}) if op in marks else op for op in graph.ops]) if marks else graph


def describe_products(before: Graph, after: Graph, options: Options) -> str:
    """Number of products by the mark of their digits."""
    kinds = Counter(mark for op in after.ops if op.name == "matmul" for mark in MARKS.values() if mark in op.attrs)
    return ", ".join(f"{count} product{'s' * (count > 1)} in {mark}" for mark, count in kinds.items())


def _may_be_rounded(op: Op) -> bool:
    return (op.name == "matmul" and op.result.type.dtype == F32 and op.attrs.keys().isdisjoint(MARKS.values())
            and min(op.result.type.shape[-2:]) >= MIN_SIDE)


def _of_halves(op: Op, producer: Mapping[Value, Op]) -> str | None:
    """The mark of a product that rounds neither factor, since both were halves; None if one was not."""
    halves = [_half(value, producer) for value in op.operands]
    if None in halves:
        return None
    return "tf32" if F16 in halves else "bf16"


def _half(value: Value, producer: Mapping[Value, Op]) -> np.dtype | None:
    """The half that float32 was converted from, before its elements moved."""
    op = producer.get(value)
    while op is not None and op.definition.kind is Kind.MOVEMENT and len(op.operands) == 1 and op.name not in FILLING:
        op = producer.get(op.operands[0])
    return op.operands[0].type.dtype if op is not None and op.name == "convert" and op.operands[0].type.is_half else None
