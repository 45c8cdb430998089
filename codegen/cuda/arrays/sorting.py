"""Sorting along an axis: a thread an element, which counts the elements that come before it. That is its place, so equal elements keep
their order."""

from __future__ import annotations

import math

from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.types import is_float

MAX_LINE = 1 << 14
"""Most elements of a line: each is compared with all others."""


def lower_sort(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `sort` or `argsort`, or of `partition` or `argpartition`, which compare sides of the pivot; NaN comes last."""
    operand, result, axis = op.operands[0].type, op.result.type, op.attrs["axis"]
    if not result.size:
        return []
    length, after = operand.shape[axis], math.prod(operand.shape[axis + 1:])
    if length > MAX_LINE:
        raise UnsupportedError(f"{op.name} of lines of {length} elements has no code for the device 'cuda' yet: they may have {MAX_LINE}",
                               op.loc, hint="omit device= to compile for the CPU")
    first, count = (op.attrs["first"], op.attrs["count"]) if op.name == "sort" else (0, length)
    text = KernelText(FLAT_THREADS)
    source, pivots = text.pointer("read"), text.pointer("read") if len(op.operands) > 1 else ""
    target, elements = text.pointer("write"), text.number()
    number = element_number(text)
    with text.where(text.compare("slt", number, elements)):
        sizes = (math.prod(operand.shape[:axis]), length, after)
        line, own, goal, beside = offsets_of(text, number, sizes, [(length * after, 0, 1), (0, 1, 0), (count * after, 0, 1), (after, 0, 1)])
        (mine,) = text.read(source, operand.dtype, number, constant=True)
        pivot = text.read(pivots, operand.dtype, beside, constant=True)[0] if pivots else ""
        side = _side(text, op, mine, pivot)
        with text.for_range(0, length, 1, [("i64", "0")]) as loop:
            (other,) = text.read(source, operand.dtype, text.plus(line, text.times(loop.counter, after)), constant=True)
            earlier, of_other = text.compare("slt", loop.counter, own), _side(text, op, other, pivot)
            less = (lambda a, b: text.compare("slt", a, b)) if pivots else (lambda a, b: _less(text, op, a, b))
            before = text.select(earlier, "i1", text.not_(less(side, of_other)), less(of_other, side))
            loop.following = [text.add(loop.values[0], text.convert("zext", "i1", before, "i64"))]
        place = text.sub(loop.values[0], first)
        with text.where(text.compare("ult", place, count)):
            value = str(own) if op.name.startswith("arg") else mine
            text.write([value], target, result.dtype, text.plus(goal, text.times(place, after)))
    pointers = *(Pointer("operand", i, value.type.nbytes) for i, value in enumerate(op.operands)), Pointer("result", 0, result.nbytes)
    return [Launch(text.kernel("sort"), -(-operand.size // FLAT_THREADS), pointers, (operand.size,))]


def _side(text: KernelText, op: Op, element: str, pivot: str) -> str:
    """-1, 0 or 1 for an element below, beside or above the pivot; the element itself if there is none."""
    if not pivot:
        return element
    above, below = (text.convert("zext", "i1", _less(text, op, *pair), "i64") for pair in ((pivot, element), (element, pivot)))
    return text.sub(above, below)


def _less(text: KernelText, op: Op, a: str, b: str) -> str:
    dtype = op.operands[0].type.dtype
    type = text.element(dtype)
    if not is_float(dtype):
        return text.let(f"icmp {'s' if dtype.kind == 'i' else 'u'}lt {type} {a}, {b}")
    is_last = text.both(text.let(f"fcmp uno {type} {b}, {b}"), text.let(f"fcmp ord {type} {a}, {a}"))
    return text.either(text.let(f"fcmp olt {type} {a}, {b}"), is_last)
