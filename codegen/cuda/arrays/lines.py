"""Ops along one axis for which the order of the elements counts: a thread a line. Cumulative sums, products and extremes add in NumPy's
order; the first of equal extremes is found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.arrays.scans import REDUCTIONS
from adjit.codegen.native.kernels.builder import Index
from adjit.codegen.native.kernels.scalar_templates import template
from adjit.ir.graph import Op
from adjit.ir.types import is_float, short_name


class _Lines:
    """Text of a kernel with a thread for each line along the axis: `places` are addresses of the operand and of the result."""

    def __init__(self, op: Op, strides: tuple[int, int]):
        self.op, type, axis = op, op.operands[0].type, op.attrs["axis"]
        self.before, self.count, self.after = math.prod(type.shape[:axis]), type.shape[axis], math.prod(type.shape[axis + 1:])
        self.text = text = KernelText(FLAT_THREADS)
        self.source, self.target, self.lines = text.pointer("read"), text.pointer("write"), text.number()
        self.strides = strides

    @contextmanager
    def each(self) -> Iterator[tuple[Index, Index]]:
        """The first element of a line in the operand, and in the result."""
        text, number = self.text, element_number(self.text)
        with text.where(text.compare("slt", number, self.lines)):
            first, goal = offsets_of(text, number, (self.before, self.after), [(self.count * self.after, 1), self.strides])
            yield first, goal

    def element(self, first: Index, index: str) -> str:
        """An element of a line."""
        place = self.text.plus(first, self.text.mul(index, self.after))
        return self.text.read(self.source, self.op.operands[0].type.dtype, place, constant=True)[0]

    def launch(self, label: str) -> list[Launch]:
        lines = self.before * self.after
        pointers = Pointer("operand", 0, self.op.operands[0].type.nbytes), Pointer("result", 0, self.op.result.type.nbytes)
        return [Launch(self.text.kernel(label), -(-lines // FLAT_THREADS), pointers, (lines,))]


def lower_cumulative(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `cumsum`, `cumprod`, `cummax` or `cummin`."""
    type = op.result.type
    if not type.size:
        return []
    axis, dtype = op.attrs["axis"], type.dtype
    after = math.prod(type.shape[axis + 1:])
    lines = _Lines(op, (type.shape[axis] * after, 1))
    text, reduction = lines.text, REDUCTIONS[op.name]
    assert reduction.identity is not None
    is_sum = op.name == "cumsum" and is_float(dtype)
    neutral = text.literal(-0.0 if is_sum else dtype.type(reduction.identity(dtype)).item(), dtype)     # a first element of -0.0 stays
    step = template(reduction.name, (short_name(dtype),) * 2, "", 1, text.target)
    with lines.each() as (first, goal), text.for_range(0, lines.count, 1, [(text.element(dtype), neutral)]) as loop:
        index = text.sub(lines.count - 1, loop.counter) if op.attrs["reverse"] else loop.counter
        total = text.instantiate(step, (loop.values[0], lines.element(first, index)))
        text.write([total], lines.target, dtype, text.plus(goal, text.mul(index, after)))
        loop.following = [total]
    return lines.launch("scan")


def lower_argmax(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `argmax` or `argmin`. NaN is better than everything but NaN."""
    type = op.operands[0].type
    if not op.result.type.size:
        return []
    lines = _Lines(op, (math.prod(type.shape[op.attrs["axis"] + 1:]), 1))
    text, element, dtype = lines.text, lines.text.element(type.dtype), type.dtype
    side = "gt" if op.name == "argmax" else "lt"
    with lines.each() as (first, goal):
        begin = lines.element(first, "0")
        with text.for_range(0, lines.count, 1, [(element, begin), ("i64", "0")]) as loop:
            best, place = loop.values
            x = lines.element(first, loop.counter)
            if is_float(dtype):
                better = text.both(text.let(f"fcmp u{side} {element} {x}, {best}"), text.let(f"fcmp ord {element} {best}, {best}"))
            else:
                sign = "s" if dtype.kind == "i" else "u"
                better = text.let(f"icmp {sign}{side} {element} {x}, {best}")
            loop.following = [text.select(better, element, x, best), text.select(better, "i64", loop.counter, place)]
        text.write([loop.values[1]], lines.target, op.result.type.dtype, goal)
    return lines.launch("place")
