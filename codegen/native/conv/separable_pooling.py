"""Pooling with windows that overlap, one axis after the other: along rows first, then across them.

What a window has of one row serves all windows that reach over that row: a window of h x w elements costs h + w steps, not h * w. The
largest element of a window is the largest of its rows' largest, and the rules for equal elements and for NaN hold in each of both steps,
so what a window hands out goes to the row that was chosen, and there to the element that was chosen in the row.

A block of rows at a time, in memory on the stack: what lies outside of the array is written out there, so nothing is masked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

from adjit.codegen.native.conv.window_builder import MAX_SHUFFLED_STRIDE
from adjit.codegen.native.conv.window_vectors import MAX_UNROLLED_ELEMENTS, Number, WindowOffset, WindowWriter
from adjit.ir.dataclass import dataclass
from adjit.ir.ops.window_geometry import WindowGeometry

MAX_BUFFER_BYTES = 192 << 10
MAX_WINDOW_WIDTH = 32
"""The most elements along a row, whose sums are written out."""


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of an array in one block, the windows that reach into them, and the lines that these read.

    `first` and `last` are the windows (the latter excluded), counted from the one that begins with the block's first row where there is no
    padding. `margin` elements lie before the windows of a line in memory.
    """

    window: WindowGeometry
    rows: int
    margin: int
    pitch: int

    @property
    def first(self) -> int:
        s = self.window
        return -((s.reach[1] - 1 - s.low[1]) // s.stride[1])

    @property
    def last(self) -> int:
        s = self.window
        return (self.rows - 1 + s.low[1]) // s.stride[1] + 1

    @property
    def before(self) -> int:
        """Lines before that of the block's first row."""
        return self.window.low[1] - self.first * self.window.stride[1]

    @property
    def lines(self) -> int:
        s = self.window
        return max((self.last - self.first - 1) * s.stride[1] + s.reach[1], self.rows + self.before)

    @property
    def elements(self) -> int:
        return self.lines * self.pitch


def choose_block(window: WindowGeometry, lanes: int, nbytes: int) -> Block | None:
    """Blocks of all rows, or of as many as there is memory for with `nbytes` bytes for an element; None where windows do not overlap in a
    way that is worth it."""
    s = window
    (deep, high, wide), (_, down, along) = s.sizes, s.stride
    if deep > 1 or s.lengths[0] > 1 or any(s.interior) or not prod(s.counts) or high * wide < 2:
        return None
    if wide > MAX_WINDOW_WIDTH or along > MAX_SHUFFLED_STRIDE:
        return None
    if s.low[0] or s.high[0] or max(s.low[1], s.high[1]) >= s.reach[1] or (high <= down and wide <= along):
        return None
    ends = [(s.low[2] - element * s.dilation[2]) // along for element in range(wide)]
    margin = max(-min(ends), 0)
    vectors = max(-(-s.counts[2] // lanes), -(-max(-(-s.lengths[2] // along), 1) // lanes))
    pitch = margin + vectors * lanes + max((s.low[2] + along - 1) // along, 0)
    rows = -(-s.lengths[1] // down) * down
    while Block(s, rows, margin, pitch).elements * nbytes > MAX_BUFFER_BYTES:
        if rows == down:
            return None
        rows = max(-(-rows // 2 // down) * down, down)
    return Block(s, rows, margin, pitch)


class SeparablePooling:
    """Writes steps for planes. It is made outside of the loop over planes: its memory is that of the step."""

    def __init__(self, writer: WindowWriter, block: Block, pointers: bool):
        text = writer.text
        self.writer, self.block, self.text = writer, block, text
        s = block.window
        self.row_writer = WindowWriter(text, WindowGeometry(
            s.lengths, (1, 1, s.sizes[2]), (1, 1, s.stride[2]), (0, 0, s.low[2]), (0, 0, s.high[2]), (0, 0, 0), (1, 1, s.dilation[2])))
        self.lowest = writer.filled(float("-inf"))
        self.best = text.array(block.elements)
        self.scattered = self.argmax = ""
        if pointers:
            self.scattered = text.array(block.elements)
            self.argmax = text.alloca("i32", block.elements, 64)
            text.call("void", "@llvm.memset.p0.i64", ("ptr", self.argmax), ("i8", "0"), ("i64", str(4 * block.elements)), ("i1", "false"))

    def scatter(self, pointers: list[str]) -> None:
        """Each number of a plane, where the largest element of its window is."""
        source, given, result = pointers
        for begin in self.blocks():
            self.along_rows(source, begin)
            self.scatter_to_rows(given, begin)
            self.collect(result, begin)

    def largest(self, pointers: list[str]) -> None:
        """The largest element of each window of a plane."""
        source, result = pointers
        for begin in self.blocks():
            self.along_rows(source, begin)
            self.across_rows(
                begin, lambda row, column, corner, found: self.writer.store(found[0], result, WindowOffset("0", row, column)), False)

    def blocks(self) -> Iterator[str]:
        """Writes a loop over the blocks of a plane; where each begins."""
        with self.text.for_range(0, self.block.window.lengths[1], self.block.rows) as loop:
            yield loop.counter

    def along_rows(self, source: str, begin: str) -> None:
        """The largest element of a line in each window, and its number where places count."""
        text, block = self.text, self.block
        with text.for_range(0, block.lines) as line:
            row = text.linear(line.counter, begin, -block.before)
            for column in self.columns(block.window.counts[2]):
                at = WindowOffset("0", row, column)
                state = [(text.vector, self.lowest), *([(self.writer.numbers, "zeroinitializer")] if self.argmax else [])]
                found = self.row_writer.sweep(source, at, state, lambda state, number, element: self.chosen(
                    state, number, element.load(self.lowest)))
                offset = (line.counter, block.pitch), column, block.margin
                text.store_vector(found[0], text.at(self.best, text.scalar, *offset))
                if self.argmax:
                    self.store_numbers(found[1], text.linear(*offset))

    def columns(self, count: int) -> Iterator[str]:
        with self.text.for_range(0, count, self.text.lanes) as column:
            yield column.counter

    def chosen(self, state: list[str], number: Number, value: str) -> list[str]:
        w = self.writer
        better = w.better(value, state[0])
        return [w.select(better, w.text.vector, value, state[0]),
                *(w.select(better, w.numbers, w.number(number), old) for old in state[1:])]

    def across_rows(self, begin: str, use: Callable[[str, str, str, list[str]], None], numbers: bool) -> None:
        """What is largest, and the number of its row where `numbers` count, of each window that reaches into the block."""
        text, block, s = self.text, self.block, self.block.window
        start = text.linear(text.let(f"udiv i64 {begin}, {s.stride[1]}"), block.first)
        low = text.larger(start, 0)
        high = text.smaller(text.linear(start, block.last - block.first), s.counts[1])
        with text.for_range(low, high, empty=True) as row:
            line = text.linear((text.sub(row.counter, start), s.stride[1]))
            for column in self.columns(s.counts[2]):
                corner = text.linear((line, block.pitch), column, block.margin)

                def step(state: list[str], number: Number, corner: str = corner) -> list[str]:
                    return self.chosen(state, number, text.load_vector(text.at(self.best, text.scalar, corner, self.down(number))))

                state = [(text.vector, self.lowest), *([(self.writer.numbers, "zeroinitializer")] if numbers else [])]
                use(row.counter, column, corner, self.over_lines(state, step))

    def down(self, number: Number) -> tuple[Number, int]:
        return number, self.block.window.dilation[1] * self.block.pitch

    def over_lines(self, state: list[tuple[str, str]], step: Callable[[list[str], Number], list[str]]) -> list[str]:
        """The state after `step` for each line of a window."""
        high = self.block.window.sizes[1]
        if high <= MAX_UNROLLED_ELEMENTS:
            now = [value for _, value in state]
            for number in range(high):
                now = step(now, number)
            return now
        with self.text.for_range(0, high, 1, state) as loop:
            loop.following = step(list(loop.values), loop.counter)
        return list(loop.following)

    def scatter_to_rows(self, given: str, begin: str) -> None:
        """Add the number of each window to the row that has its largest element."""
        text = self.text
        text.clear(self.scattered, self.block.elements)

        def use(row: str, column: str, corner: str, found: list[str]) -> None:
            pointer, mask = self.writer.of_windows(given, WindowOffset("0", row, column))
            number = text.load_vector(pointer, mask)

            def step(state: list[str], line: Number) -> list[str]:
                target = text.at(self.scattered, text.scalar, corner, self.down(line))
                text.store_vector(text.fadd(text.load_vector(target), self.writer.share(found[1], line, number)), target)
                return []

            self.over_lines([], step)

        self.across_rows(begin, use, True)

    def collect(self, result: str, begin: str) -> None:
        """The numbers that were handed to each element of a row, from the windows that it lies in."""
        text, block, s = self.text, self.block, self.block.window
        along = s.stride[2]
        stop = text.smaller(text.linear(begin, block.rows), s.lengths[1])
        with text.for_range(begin, stop) as row:
            line = text.sub(row.counter, begin)
            for column in self.columns(-(-s.lengths[2] // along)):
                corner = text.linear((line, block.pitch), column, block.before * block.pitch + block.margin)
                parts = [self.sum_at(phase, corner) for phase in range(along)]
                for number in range(along):
                    start = text.linear((column, along), number * text.lanes)
                    value = parts[0] if along == 1 else text.interleaved(parts, number)
                    text.masked_store(value, text.at(result, text.scalar, (row.counter, s.lengths[2]), start),
                                      text.inside(start, str(s.lengths[2])))

    def sum_at(self, phase: int, corner: str) -> str:
        text, s = self.text, self.block.window
        total = "zeroinitializer"
        for element in range(s.sizes[2]):
            ahead, rest = divmod(phase + s.low[2] - element * s.dilation[2], s.stride[2])
            if rest:
                continue
            argmax = text.linear(corner, ahead)
            part = self.writer.share(self.load_numbers(argmax), element, text.load_vector(text.at(self.scattered, text.scalar, argmax)))
            total = part if total == "zeroinitializer" else text.fadd(total, part)
        return total

    # -- numbers of elements

    def numbers_at(self, argmax: str) -> str:
        return self.text.let(f"getelementptr i32, ptr {self.argmax}, i64 {argmax}")

    def store_numbers(self, value: str, argmax: str) -> None:
        self.text.do(f"store {self.writer.numbers} {value}, ptr {self.numbers_at(argmax)}, align 4")

    def load_numbers(self, argmax: str) -> str:
        return self.text.let(f"load {self.writer.numbers}, ptr {self.numbers_at(argmax)}, align 4")
