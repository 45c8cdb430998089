"""Sorting along an axis; equal elements keep their order, and NaN comes last.

In a short line, or in a short run of a long one, a thread counts the elements that come before its own: that is its place. Runs of a long
line are merged, two by two in each launch, as numbers of elements in working memory: the place of an element is that in its own run, and
the number of those in the other run that come before it, by bisection.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op
from adjit.ir.types import I64, is_float

MAX_COUNTED = 1 << 10
"""Most elements of a line that are all compared with one another."""

RUN = 1 << 8
"""Elements of the runs of a longer line that are compared with one another, before runs are merged."""

Less = Callable[[str, str], str]


def lower_sort(op: Op, memory: Memory) -> list[Launch]:
    """The launches of `sort` or `argsort`, or of `partition` or `argpartition`, which compare sides of the pivot."""
    operand, axis = op.operands[0].type, op.attrs["axis"]
    if not op.result.type.size:
        return []
    length = operand.shape[axis]
    if length <= MAX_COUNTED:
        return [_Sort(op).count(length, None).launch("sort")]
    half = 8 * operand.size
    launches = [_Sort(op).count(RUN, half).launch("runs")]
    width, step = RUN, 0
    while width < length:
        start, end = (step % 2) * half, (step + 1) % 2 * half
        is_last = 2 * width >= length
        launches.append(_Sort(op).merge(width, start, None if is_last else end, half).launch("merge"))
        width, step = 2 * width, step + 1
    return launches


class _Sort:
    """Text of a kernel with a thread for each element of the operand."""

    def __init__(self, op: Op):
        self.op, self.operand, self.axis = op, op.operands[0].type, op.attrs["axis"]
        self.dtype, self.length = self.operand.dtype, self.operand.shape[self.axis]
        self.after = math.prod(self.operand.shape[self.axis + 1:])
        self.first: int = op.attrs["first"] if op.name == "sort" else 0
        self.places: int = op.attrs["count"] if op.name == "sort" else self.length
        self.text = KernelText(FLAT_THREADS)
        self.arguments: list[Pointer] = []
        self.numbers = [self.operand.size]
        self.source = self.pointer("read", Pointer("operand", 0, self.operand.nbytes))
        self.pivots = self.pointer("read", Pointer("operand", 1, op.operands[1].type.nbytes)) if len(op.operands) > 1 else ""

    def pointer(self, access: Literal["read", "write"], argument: Pointer) -> str:
        self.arguments.append(argument)
        return self.text.pointer(access)

    def target(self, start: int | None, nbytes: int) -> str:
        """Where the order goes: working memory, or the result."""
        if start is None:
            return self.pointer("write", Pointer("result", 0, self.op.result.type.nbytes))
        return self.pointer("write", Pointer("work", 0, nbytes, start))

    def launch(self, label: str) -> Launch:
        return Launch(self.text.kernel(label), -(-self.operand.size // FLAT_THREADS), tuple(self.arguments), tuple(self.numbers))

    def element(self, line: Index, index: Index) -> str:
        return self.text.read(self.source, self.dtype, self.text.plus(line, self.text.times(index, self.after)), constant=True)[0]

    def side(self, element: str, beside: Index) -> str:
        """What is compared: -1, 0 or 1 for an element below, beside or above the pivot; the element itself if there is none."""
        if not self.pivots:
            return element
        text = self.text
        (pivot,) = text.read(self.pivots, self.dtype, beside, constant=True)
        above, below = (text.convert("zext", "i1", self.is_less(*pair), "i64") for pair in ((pivot, element), (element, pivot)))
        return text.sub(above, below)

    def comes_before(self, a: str, b: str) -> str:
        """True if an element is to come before another one, by their sides."""
        return self.text.compare("slt", a, b) if self.pivots else self.is_less(a, b)

    def is_less(self, a: str, b: str) -> str:
        text, dtype = self.text, self.dtype
        type = text.element(dtype)
        if not is_float(dtype):
            return text.let(f"icmp {'s' if dtype.kind == 'i' else 'u'}lt {type} {a}, {b}")
        is_last = text.both(text.let(f"fcmp uno {type} {b}, {b}"), text.let(f"fcmp ord {type} {a}, {a}"))
        return text.either(text.let(f"fcmp olt {type} {a}, {b}"), is_last)

    def lines(self, number: str) -> list[Index]:
        """Of an element of the order: the first element of its line, its place in the line, the line's place among lines of one element,
        and the line in the result."""
        sizes = (math.prod(self.operand.shape[:self.axis]), self.after, self.length)
        return offsets_of(self.text, number, sizes, [(self.length * self.after, 1, 0), (0, 0, 1), (self.after, 1, 0),
                                                    (self.places * self.after, 1, 0)])

    def put(self, target: str, is_result: bool, place: str, index: Index, value: str, goal: Index, base: Index) -> None:
        """Store the element at its place in the result, or its number in working memory."""
        text = self.text
        if not is_result:
            text.write([str(index)], target, I64, text.plus(base, place))
            return
        place = text.sub(place, self.first)
        with text.where(text.compare("ult", place, self.places)):
            found = str(index) if self.op.name.startswith("arg") else value
            text.write([found], target, self.op.result.type.dtype, text.plus(goal, text.times(place, self.after)))

    def count(self, run: int, half: int | None) -> _Sort:
        """Find the place of each element in its run; the order goes to the first half of the working memory, or to the result."""
        text, target = self.text, self.target(None if half is None else 0, half or 0)
        number, elements = element_number(text), text.number()
        with text.where(text.compare("slt", number, elements)):
            line, own, beside, goal = self.lines(number)
            mine = self.element(line, own)
            side = self.side(mine, beside)
            start: Index = 0
            stop: Index = self.length
            if half is not None:
                start = text.let(f"and i64 {own}, {-run}")
                stop = text.smaller(text.plus(start, run), self.length)
            with text.for_range(start, stop, 1, [("i64", str(start))]) as loop:
                other = self.side(self.element(line, loop.counter), beside)
                is_earlier = text.compare("slt", loop.counter, own)
                before = text.select(is_earlier, "i1", text.not_(self.comes_before(side, other)), self.comes_before(other, side))
                loop.following = [text.add(loop.values[0], text.convert("zext", "i1", before, "i64"))]
            self.put(target, half is None, loop.values[0], own, mine, goal, text.sub(number, own))
        return self

    def merge(self, width: int, start: int, end: int | None, half: int) -> _Sort:
        """Merge runs of `width` elements."""
        text = self.text
        order = self.pointer("read", Pointer("work", 0, half, start))
        target = self.target(end, half)
        number, elements, run = element_number(text), text.number(), text.number()
        self.numbers.append(width)
        with text.where(text.compare("slt", number, elements)):
            line, own, beside, goal = self.lines(number)
            base = text.sub(number, own)
            (index,) = text.read(order, I64, number)
            mine = self.element(line, index)
            side = self.side(mine, beside)
            which = text.let(f"udiv i64 {own}, {run}")
            is_second = text.convert("trunc", "i64", which, "i1")
            first = text.mul(which, run)
            other = text.smaller(text.mul(text.let(f"xor i64 {which}, 1"), run), self.length)
            stop = text.smaller(text.add(other, run), self.length)
            with text.if_(text.compare("slt", other, stop), [("i64", other)]) as some:
                with text.do_while([("i64", other), ("i64", stop)]) as search:
                    low, high = search.values
                    middle = text.lshr(text.add(low, high), 1)
                    there = self.side(self.element(line, text.read(order, I64, text.plus(base, middle))[0]), beside)
                    is_behind = text.select(is_second, "i1", text.not_(self.comes_before(side, there)), self.comes_before(there, side))
                    low = text.select(is_behind, "i64", text.add(middle, 1), low)
                    high = text.select(is_behind, "i64", high, middle)
                    search.following, search.again = [low, high], text.compare("slt", low, high)
                some.following = [search.values[0]]
            place = text.add(text.smaller(first, other), text.add(text.sub(own, first), text.sub(some.values[0], other)))
            self.put(target, end is None, place, index, mine, goal, base)
        return self
