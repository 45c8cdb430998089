"""Pooling with overlapping windows, one axis after the other: along rows first, then across rows.

The maximum over a row's segment serves all windows that include the segment: a window of h x w elements costs h + w steps, not h * w. The
maximum of a window is the maximum of its rows' maxima. The rules for ties and for NaN hold in both steps, so a window's cotangent goes to
the row that was chosen, and there to the element that was chosen in the row.

A block of rows is processed at a time, in scratch memory. Padding is written out there, so nothing is masked.
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
"""Maximum width of a window: loops along the width are unrolled."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block of rows of an array, the windows that reach into the rows, and the lines that the windows read.

    `first` and `last` (excluded) are the windows, relative to the window that begins, without padding, in the block's first row. `margin`
    elements precede the windows of a line in the buffer.
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
        """Number of lines before the line of the block's first row."""
        return self.window.low[1] - self.first * self.window.stride[1]

    @property
    def lines(self) -> int:
        s = self.window
        return max((self.last - self.first - 1) * s.stride[1] + s.reach[1], self.rows + self.before)

    @property
    def elements(self) -> int:
        return self.lines * self.pitch


def choose_block(window: WindowGeometry, lanes: int, nbytes: int) -> Block | None:
    """Blocks of all rows, or of as many rows as fit into the buffer with `nbytes` bytes per element. None if windows do not overlap enough
    to gain."""
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
    """Writer of steps for planes. Create it outside of the loop over planes: its buffers belong to the step."""

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
            self.argmax = text.scratch(4 * block.elements)
            text.call("void", "@llvm.memset.p0.i64", ("ptr", self.argmax), ("i8", "0"), ("i64", str(4 * block.elements)), ("i1", "false"))

    def scatter(self, pointers: list[str]) -> None:
        """Add each cotangent of a plane to the largest element of its window."""
        source, given, result = pointers
        for begin in self.blocks():
            self.along_rows(source, begin)
            self.scatter_to_rows(given, begin)
            self.collect(result, begin)

    def largest(self, pointers: list[str]) -> None:
        """The maximum of each window of a plane."""
        source, result = pointers
        for begin in self.blocks():
            self.along_rows(source, begin)
            self.across_rows(
                begin, lambda row, column, corner, found: self.writer.store(found[0], result, WindowOffset("0", row, column)), False)

    def blocks(self) -> Iterator[str]:
        """A loop over the blocks of a plane. Yields the first row of each."""
        with self.text.for_range(0, self.block.window.lengths[1], self.block.rows) as loop:
            yield loop.counter

    def along_rows(self, source: str, begin: str) -> None:
        """The maximum of each window over a single line, and, for scatters, the index of the maximum."""
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
        """The maximum of each window that reaches into the block, and, with `numbers`, the index of its row in the window."""
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
        """Add the cotangent of each window to the row that has the window's maximum."""
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
        """Sum the cotangents that the windows gave to each element of a row."""
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

    # -- indices of elements

    def numbers_at(self, argmax: str) -> str:
        return self.text.let(f"getelementptr i32, ptr {self.argmax}, i64 {argmax}")

    def store_numbers(self, value: str, argmax: str) -> None:
        self.text.do(f"store {self.writer.numbers} {value}, ptr {self.numbers_at(argmax)}, align 4")

    def load_numbers(self, argmax: str) -> str:
        return self.text.let(f"load {self.writer.numbers}, ptr {self.numbers_at(argmax)}, align 4")
