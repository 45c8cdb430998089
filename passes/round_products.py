"""Products of float32 in fewer digits, where the user asks for them: cards have more arithmetic for those."""

from __future__ import annotations

from dataclasses import replace

from adjit.ir.graph import Graph, Op
from adjit.ir.types import F32
from adjit.passes.options import Options

MARKS = {"high": "tf32x3", "tf32": "tf32", "bf16": "bf16"}
"""Mark of products, by the user's word."""

MIN_SIDE = 8
"""Rows and columns from which a product is rounded: one with fewer takes as long as its matrix takes to be read, whatever its digits."""


def round_products(graph: Graph, options: Options) -> Graph:
    """Mark products of float32 by the digits of their factors, as `Options.matmul_precision` says, after the last derivative.

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
    mark = MARKS.get(options.matmul_precision)
    if mark is None or not any(_is_rounded(op, mark) for op in graph.ops):
        return graph
    return graph.with_ops([replace(op, attrs={**op.attrs, mark: True}) if _is_rounded(op, mark) else op for op in graph.ops])


def describe_products(before: Graph, after: Graph, options: Options) -> str:
    """Number of products that are rounded."""
    count = sum(any(mark in op.attrs for mark in MARKS.values()) for op in after.ops if op.name == "matmul")
    return f"{count} product{'s' * (count > 1)} in {options.matmul_precision}" if count else ""


def _is_rounded(op: Op, mark: str) -> bool:
    return op.name == "matmul" and op.result.type.dtype == F32 and mark not in op.attrs and min(op.result.type.shape[-2:]) >= MIN_SIDE
