"""Gather and scatter ops: reads and writes at indices that are data.

Indices that are not proven to be within the axis are checked first, by a launch of its own; nothing reads or writes at them before what
it finds is known. Updates are applied in the order of the indices: one thread owns all elements that it writes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from adjit.codegen.cuda.arrays.movement import base_of
from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.nodes import CHECK_WORDS
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op
from adjit.ir.types import I64, short_name

_MOST = (1 << 63) - 1
"""The largest index that there may be."""


def axis_sizes(op: Op) -> tuple[int, int, int, int]:
    """The first operand as `before x size x after`, where `size` is the axis, and the number of indices for each position before it."""
    shape, axis, indices = op.operands[0].type.shape, op.attrs["axis"], op.operands[1].type
    count = indices.shape[axis] if op.name.endswith("_along_axis") else indices.size
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:]), count


def lower_check(op: Op) -> list[Launch]:
    """The launch that finds the lowest and the highest index: with whether one of them is out of range, they are the words of the check."""
    indices, size = op.operands[1].type, op.operands[0].type.shape[op.attrs["axis"]]
    if not indices.size or "in_range" in op.attrs:
        return []
    text = KernelText(FLAT_THREADS)
    source, target, count, bound = text.pointer("read"), text.pointer("write"), text.number(), text.number()
    thread = text.thread()
    with text.for_range(thread, count, FLAT_THREADS, [("i64", str(_MOST)), ("i64", str(-_MOST - 1))], empty=True) as loop:
        (index,) = text.read(source, I64, loop.counter, constant=True)
        loop.following = [text.smaller(loop.values[0], index), text.larger(loop.values[1], index)]
    lowest, highest = [text.over_warps(combine, text.over_lanes(combine, value, I64, WARP), I64, thread)
                       for combine, value in zip((text.smaller, text.larger), loop.values, strict=True)]
    with text.where(text.compare("eq", thread, 0)):
        outside = text.either(text.compare("slt", lowest, 0), text.compare("sge", highest, bound))
        text.write([text.convert("zext", "i1", outside, "i64")], target, I64)
        text.write([lowest], target, I64, 1)
        text.write([highest], target, I64, 2)
    return [Launch(text.kernel("check"), 1, (Pointer("operand", 1, indices.nbytes), Pointer("check", 0, 8 * CHECK_WORDS)),
                   (indices.size, size))]


def lower_take(op: Op, memory: Memory) -> list[Launch]:
    """The launches of `take` and `take_along_axis`: a thread an element."""
    before, size, after, count = axis_sizes(op)
    type, dtype = op.result.type, op.result.type.dtype
    if not type.size:
        return []
    along = op.name.endswith("_along_axis")
    text = KernelText(FLAT_THREADS)
    source, indices, target, elements = text.pointer("read"), text.pointer("read"), text.pointer("write"), text.number()
    number = element_number(text)
    with text.where(text.compare("slt", number, elements)):
        place, position = offsets_of(text, number, (before, count, after), [(size * after, 0, 1), (0, 1, 0)])
        (index,) = text.read(indices, I64, number if along else position, constant=True)
        (value,) = text.read(source, dtype, text.plus(place, text.times(index, after)), constant=True)
        text.write([value], target, dtype, number)
    pointers = (*_operands(op), Pointer("result", 0, type.nbytes))
    return [Launch(text.kernel("take"), -(-type.size // FLAT_THREADS), pointers, (type.size,))]


def lower_scatter(op: Op, memory: Memory) -> list[Launch]:
    """The launches of ops that add or set rows or elements at the indices: a thread a column, which goes through the indices in order."""
    before, size, after, count = axis_sizes(op)
    type, dtype, updates = op.result.type, op.result.type.dtype, op.operands[2].type
    start = base_of(op, memory)
    if not updates.size:
        return start
    along = op.name.endswith("_along_axis")
    text = KernelText(FLAT_THREADS)
    indices, source, target, columns = text.pointer("read"), text.pointer("read"), text.pointer("update"), text.number()
    number = element_number(text)
    with text.where(text.compare("slt", number, columns)):
        goal, given = offsets_of(text, number, (before, after), [(size * after, 1), (count * after, 1)])
        with text.for_range(0, count) as loop:
            element = text.plus(given, text.mul(loop.counter, after))
            (index,) = text.read(indices, I64, element if along else loop.counter, constant=True)
            (value,) = text.read(source, dtype, element, constant=True)
            place: Index = text.plus(goal, text.times(index, after))
            if op.name != "scatter_set":
                (old,) = text.read(target, dtype, place)
                value = _sum(text, dtype, old, value)
            text.write([value], target, dtype, place)
    pointers = (*_operands(op)[1:], Pointer("result", 0, type.nbytes))
    return [*start, Launch(text.kernel("scatter"), -(-before * after // FLAT_THREADS), pointers, (before * after,))]


def _operands(op: Op) -> Sequence[Pointer]:
    return [Pointer("operand", number, value.type.nbytes) for number, value in enumerate(op.operands)]


def _sum(text: KernelText, dtype: np.dtype, a: str, b: str) -> str:
    code = "fadd" if short_name(dtype)[0] in "fc" else "add"
    return text.let(f"{code} {text.element(dtype)} {a}, {b}")
