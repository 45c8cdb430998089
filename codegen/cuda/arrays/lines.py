"""Ops along one axis for which the order of the elements counts.

Cumulative ops: a thread a line, in NumPy's order. Where lines are long and few, a thread takes a piece of a line: totals of pieces, then
what comes before each piece, then the elements. Places of extremes: a block of threads a line, or a piece of a long one; the first of equal
extremes is found.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from adjit.codegen.cuda.arrays.positions import element_number, offsets_of
from adjit.codegen.cuda.kernel import Access, Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.arrays.scans import REDUCTIONS
from adjit.codegen.native.kernels.builder import Index
from adjit.codegen.native.kernels.scalar_templates import template
from adjit.ir.graph import Op
from adjit.ir.types import I64, is_float, short_name

LONG, FEW = 1 << 9, 1 << 13
"""Elements of a line from which on it is cut in pieces, where there are fewer lines than a card has threads to do."""

PIECE = 1 << 12
"""Elements of a piece of a line in which a block looks for the extreme."""


class _Lines:
    """Text of a kernel with a thread for each line along the axis, or for each of some pieces of it."""

    def __init__(self, op: Op, pieces: int = 1, length: int = 0):
        self.op, type, axis = op, op.operands[0].type, op.attrs["axis"]
        self.before, self.count, self.after = math.prod(type.shape[:axis]), type.shape[axis], math.prod(type.shape[axis + 1:])
        self.pieces, self.length = pieces, length or self.count
        self.text = KernelText(FLAT_THREADS)
        self.arguments: list[Pointer] = []
        self.threads = self.before * self.after * pieces

    def pointer(self, access: Access, argument: Pointer) -> str:
        self.arguments.append(argument)
        return self.text.pointer(access)

    def operand(self) -> str:
        self.source = self.pointer("read", Pointer("operand", 0, self.op.operands[0].type.nbytes))
        return self.source

    def result(self) -> str:
        return self.pointer("write", Pointer("result", 0, self.op.result.type.nbytes))

    @contextmanager
    def each(self) -> Iterator[tuple[str, Index, Index, Index]]:
        """The number of the thread; the first element of its line; where its piece begins and ends."""
        text, total = self.text, self.text.number()
        number = element_number(text)
        with text.where(text.compare("slt", number, total)):
            line, piece = offsets_of(text, number, (self.before, self.after, self.pieces), [(self.count * self.after, 1, 0), (0, 0, 1)])
            begin = text.times(piece, self.length)
            yield number, line, begin, text.smaller(text.plus(begin, self.length), self.count) if self.pieces > 1 else self.count

    def element(self, line: Index, index: Index) -> str:
        """An element of a line."""
        place = self.text.plus(line, self.text.times(index, self.after))
        return self.text.read(self.source, self.op.operands[0].type.dtype, place, constant=True)[0]

    def launch(self, label: str) -> Launch:
        return Launch(self.text.kernel(label), -(-self.threads // FLAT_THREADS), tuple(self.arguments), (self.threads,))


def lower_cumulative(op: Op, memory: Memory) -> list[Launch]:
    """The launches of `cumsum`, `cumprod`, `cummax` or `cummin`."""
    type = op.result.type
    if not type.size:
        return []
    count = type.shape[op.attrs["axis"]]
    if count < LONG or type.size // count >= FEW:
        return [_scan(op, _Lines(op), 0)]
    length = 1 << (count.bit_length() + 1) // 2
    pieces = -(-count // length)
    nbytes = type.size // count * pieces * type.dtype.itemsize
    return [_totals(op, _Lines(op, pieces, length), nbytes), _starts(op, _Lines(op), pieces, nbytes),
            _scan(op, _Lines(op, pieces, length), nbytes)]


def _step(op: Op, text: KernelText) -> tuple[tuple[str, str], Callable[[str, str], str]]:
    """The type and the value that a total begins with, and how an element is added."""
    reduction, dtype = REDUCTIONS[op.name], op.result.type.dtype
    assert reduction.identity is not None
    is_sum = op.name == "cumsum" and is_float(dtype)
    neutral = text.literal(-0.0 if is_sum else dtype.type(reduction.identity(dtype)).item(), dtype)     # a first element of -0.0 stays
    step = template(reduction.name, (short_name(dtype),) * 2, "", 1, text.target)
    return (text.element(dtype), neutral), lambda total, element: text.instantiate(step, (total, element))


def _at(op: Op, lines: _Lines, position: str) -> Index:
    """The index of a position in the order in which elements are added."""
    return lines.text.sub(lines.count - 1, position) if op.attrs["reverse"] else position


def _totals(op: Op, lines: _Lines, nbytes: int) -> Launch:
    text, dtype = lines.text, op.result.type.dtype
    start, add = _step(op, text)
    lines.operand()
    target = lines.pointer("write", Pointer("work", 0, nbytes))
    with lines.each() as (number, line, begin, end):
        with text.for_range(begin, end, 1, [start]) as loop:
            loop.following = [add(loop.values[0], lines.element(line, _at(op, lines, loop.counter)))]
        text.write([loop.values[0]], target, dtype, number)
    return lines.launch("totals")


def _starts(op: Op, lines: _Lines, pieces: int, nbytes: int) -> Launch:
    """Totals become what comes before them in their line."""
    text, dtype = lines.text, op.result.type.dtype
    start, add = _step(op, text)
    totals = lines.pointer("update", Pointer("work", 0, nbytes))
    with lines.each() as (number, *_), text.for_range(0, pieces, 1, [start]) as loop:
        place = text.plus(text.times(number, pieces), loop.counter)
        (total,) = text.read(totals, dtype, place)
        text.write([loop.values[0]], totals, dtype, place)
        loop.following = [add(loop.values[0], total)]
    return lines.launch("starts")


def _scan(op: Op, lines: _Lines, nbytes: int) -> Launch:
    text, dtype = lines.text, op.result.type.dtype
    start, add = _step(op, text)
    lines.operand()
    starts = lines.pointer("read", Pointer("work", 0, nbytes)) if nbytes else ""
    target = lines.result()
    with lines.each() as (number, line, begin, end):
        if starts:
            start = start[0], text.read(starts, dtype, number, constant=True)[0]
        with text.for_range(begin, end, 1, [start]) as loop:
            index = _at(op, lines, loop.counter)
            total = add(loop.values[0], lines.element(line, index))
            text.write([total], target, dtype, text.plus(line, text.times(index, lines.after)))
            loop.following = [total]
    return lines.launch("scan")


def lower_argmax(op: Op, memory: Memory) -> list[Launch]:
    """The launches of `argmax` or `argmin`. NaN is better than everything but NaN."""
    if not op.result.type.size:
        return []
    lines = _Lines(op)
    if lines.count < 2 * WARP or (lines.after > 1 and lines.threads >= FEW):
        return [_place_in_line(op, lines)]
    pieces = -(-lines.count // PIECE)
    launches = [_place_in_block(op, pieces)]
    if pieces > 1:
        launches.append(_place_of_pieces(op, pieces))
    return launches


def _better(op: Op, text: KernelText, x: str, best: str) -> str:
    dtype = op.operands[0].type.dtype
    element, side = text.element(dtype), "gt" if op.name == "argmax" else "lt"
    if is_float(dtype):
        return text.both(text.let(f"fcmp u{side} {element} {x}, {best}"), text.let(f"fcmp ord {element} {best}, {best}"))
    return text.let(f"icmp {'s' if dtype.kind == 'i' else 'u'}{side} {element} {x}, {best}")


def _better_place(op: Op, lines: _Lines, line: Index, a: str, b: str) -> str:
    """Of two places in a line that of the better element, or the first of equal ones."""
    text = lines.text
    x, y = lines.element(line, a), lines.element(line, b)
    is_second = text.either(_better(op, text, y, x), text.both(text.not_(_better(op, text, x, y)), text.compare("slt", b, a)))
    return text.select(is_second, "i64", b, a)


def _place_in_line(op: Op, lines: _Lines) -> Launch:
    text, dtype = lines.text, op.operands[0].type.dtype
    lines.operand()
    target = lines.result()
    with lines.each() as (number, line, begin, end):
        with text.for_range(begin, end, 1, [(text.element(dtype), lines.element(line, begin)), ("i64", "0")]) as loop:
            best, place = loop.values
            x = lines.element(line, loop.counter)
            better = _better(op, text, x, best)
            loop.following = [text.select(better, text.element(dtype), x, best), text.select(better, "i64", loop.counter, place)]
        text.write([loop.values[1]], target, op.result.type.dtype, number)
    return lines.launch("place")


def _place_in_block(op: Op, pieces: int) -> Launch:
    """A block finds the place in its piece of a line."""
    lines = _Lines(op, pieces, PIECE)
    text, dtype = lines.text, op.operands[0].type.dtype
    lines.operand()
    target = lines.result() if pieces == 1 else lines.pointer("write", Pointer("work", 0, 8 * lines.threads))
    thread, block = text.thread(), text.block_number()
    line, piece = offsets_of(text, block, (lines.before, lines.after, pieces), [(lines.count * lines.after, 1, 0), (0, 0, 1)])
    begin = text.times(piece, PIECE)
    end = text.smaller(text.plus(begin, PIECE), lines.count)
    first = text.smaller(text.plus(begin, thread), text.plus(end, -1))
    own = lines.element(line, first)
    carried = [(text.element(dtype), own), ("i64", first)]
    with text.for_range(text.plus(first, FLAT_THREADS), end, FLAT_THREADS, carried, empty=True) as loop:
        best, place = loop.values
        x = lines.element(line, loop.counter)
        better = _better(op, text, x, best)
        loop.following = [text.select(better, text.element(dtype), x, best), text.select(better, "i64", loop.counter, place)]

    def combine(a: str, b: str) -> str:
        return _better_place(op, lines, line, a, b)

    place = text.over_warps(combine, text.over_lanes(combine, loop.values[1], I64, WARP), I64, thread)
    with text.where(text.compare("eq", thread, 0)):
        text.write([place], target, I64, block)
    return Launch(text.kernel("place"), lines.threads, tuple(lines.arguments))


def _place_of_pieces(op: Op, pieces: int) -> Launch:
    lines = _Lines(op)
    text = lines.text
    lines.operand()
    places = lines.pointer("read", Pointer("work", 0, 8 * lines.threads * pieces))
    target = lines.result()
    with lines.each() as (number, line, *_):
        start = text.times(number, pieces)
        with text.for_range(1, pieces, 1, [("i64", text.read(places, I64, start, constant=True)[0])]) as loop:
            (other,) = text.read(places, I64, text.plus(start, loop.counter), constant=True)
            loop.following = [_better_place(op, lines, line, loop.values[0], other)]
        text.write([loop.values[0]], target, I64, number)
    return lines.launch("place")
