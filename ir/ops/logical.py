"""Elementwise logic on bools and on the bits of integers. No derivatives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from adjit.ir.definition import Kind, OpCost, OpDefinition, Rounding, Sample, define
from adjit.ir.ops.rules import INTEGER, same_as_operands
from adjit.ir.ops.sampling import INTEGERS, edge_pairs, edges
from adjit.ir.types import BOOL


def _unary(dtypes: Sequence[np.dtype]) -> Iterator[Sample]:
    for dtype in dtypes:
        yield Sample((edges(dtype),))
        yield Sample((np.ones((), dtype),))
        yield Sample((np.zeros((2, 0), dtype),))


def _binary(dtypes: Sequence[np.dtype]) -> Iterator[Sample]:
    for dtype in dtypes:
        yield Sample(edge_pairs(dtype))
        yield Sample((np.zeros((2, 0), dtype), np.zeros((2, 0), dtype)))
        yield Sample((np.ones((), dtype), np.zeros((), dtype)))


def _shifts() -> Iterator[Sample]:
    """Shifts by less than the width of the number, by the width, and by more."""
    for dtype in INTEGERS:
        values = edges(dtype)
        width = 8 * dtype.itemsize
        shifts = np.array([0, 1, 3, width - 1, width, width + 1], dtype)
        left, right = np.meshgrid(values, shifts, indexing="ij")
        yield Sample((np.ascontiguousarray(left), np.ascontiguousarray(right)))
        yield Sample((np.ones((), dtype), np.ones((), dtype)))
        yield Sample((np.ones((0, 2), dtype), np.ones((0, 2), dtype)))


logical_not: OpDefinition = define(
    "logical_not", Kind.ELEMENTWISE, arity=1, numpy=np.logical_not, doc="not x.", vjp=None,
    infer=same_as_operands("b"), evaluate=np.logical_not, scalar="logical_not({0})",
    cost=OpCost.CHEAP, rounding=Rounding.NONE, same_alone=True,
    samples=lambda: _unary((BOOL,)))

logical_and, logical_or, logical_xor = (
    define(name, Kind.ELEMENTWISE, arity=2, numpy=function, doc=doc, vjp=None, cost=cost, rounding=Rounding.NONE, same_alone=True,
           commutative=True, infer=same_as_operands("b"), evaluate=function,
           scalar=f"{name}({{0}}, {{1}})", samples=lambda: _binary((BOOL,)))
    for name, function, doc, cost in (
        ("logical_and", np.logical_and, "x and y.", OpCost.CHEAP), ("logical_or", np.logical_or, "x or y.", OpCost.CHEAP),
        ("logical_xor", np.logical_xor, "Either x or y.", OpCost.MODERATE)))

invert: OpDefinition = define(
    "invert", Kind.ELEMENTWISE, arity=1, numpy=np.invert, doc="Every bit inverted; for bools, not.", vjp=None,
    infer=same_as_operands("biu"), evaluate=np.invert, scalar="invert({0})", samples=lambda: _unary((*INTEGERS, BOOL)),
    cost=OpCost.MODERATE, rounding=Rounding.NONE, same_alone=True)

bitwise_and, bitwise_or, bitwise_xor = (
    define(name, Kind.ELEMENTWISE, arity=2, numpy=function, doc=doc, vjp=None, cost=OpCost.MODERATE, rounding=Rounding.NONE,
           same_alone=True, commutative=True, infer=same_as_operands("biu"), evaluate=function,
           scalar=f"({{0}} {symbol} {{1}})", samples=lambda: _binary((*INTEGERS, BOOL)))
    for name, function, symbol, doc in (
        ("bitwise_and", np.bitwise_and, "&", "The bits that both have."), ("bitwise_or", np.bitwise_or, "|", "The bits that one has."),
        ("bitwise_xor", np.bitwise_xor, "^", "The bits that only one has.")))

left_shift: OpDefinition = define(
    "left_shift", Kind.ELEMENTWISE, arity=2, numpy=np.left_shift, doc="x with its bits moved up by y; 0 from the width of x on.", vjp=None,
    infer=same_as_operands(INTEGER), evaluate=np.left_shift, scalar="left_shift({0}, {1})", samples=_shifts,
    cost=OpCost.MODERATE, rounding=Rounding.NONE)

right_shift: OpDefinition = define(
    "right_shift", Kind.ELEMENTWISE, arity=2, numpy=np.right_shift, vjp=None,
    doc="x with its bits moved down by y, the sign filled in; from the width of x on 0, or -1 where x is negative.",
    infer=same_as_operands(INTEGER), evaluate=np.right_shift, scalar="right_shift({0}, {1})", samples=_shifts,
    cost=OpCost.MODERATE, rounding=Rounding.NONE)
