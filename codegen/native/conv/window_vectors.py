"""Vectors of neighbouring windows: loads of their elements at the window stride, and stores of results.

For each element of a window, one vector holds that element of neighbouring windows. With a small stride it is shuffled from whole vectors
of a row, else gathered. Positions outside of the array are not read but filled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from adjit.codegen.native.conv.window_builder import MAX_SHUFFLED_STRIDE, WindowBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.ops.window_geometry import WindowGeometry

MAX_UNROLLED_ELEMENTS = 16

Number = int | str
Step = Callable[[list[str], Number, "Element"], list[str]]
Add = Callable[[str, str], str]


@dataclass(slots=True)
class _Row:
    """A row that holds an element of the windows, its length (0 if the row is outside of the array), and vectors already loaded from it."""

    pointer: str
    length: str
    loaded: dict[int, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WindowWriter:
    """Writer of a step's code for one plane."""

    text: WindowBuilder
    window: WindowGeometry

    @property
    def numbers(self) -> str:
        return f"<{self.text.lanes} x i32>"

    @property
    def spread(self) -> tuple[int, ...]:
        return tuple(gap + 1 for gap in self.window.interior)

    # -- loops

    def windows(self, bounds: Sequence[int]) -> Iterator[WindowOffset]:
        """Loops over windows, a vector of them per iteration."""
        with self.text.for_range(0, bounds[0]) as depth, self.text.for_range(0, bounds[1]) as row, \
                self.text.for_range(0, bounds[2], self.text.lanes) as column:
            yield WindowOffset(depth.counter, row.counter, column.counter)

    def sweep(self, source: str, at: WindowOffset, state: Sequence[tuple[str, str]], step: Step, add: Add | None = None) -> list[str]:
        """The state after `step` for every element of the windows, in C order. With `add`, each row of a large window starts from the
        initial state, and the rows' states are added, so that sums round less often."""
        text, (deep, high, wide) = self.text, self.window.sizes
        if deep * high * wide <= MAX_UNROLLED_ELEMENTS:
            now = [value for _, value in state]
            for line in range(deep * high):
                row = self.row(source, at, *divmod(line, high))
                for along in range(wide):
                    now = step(now, line * wide + along, Element(self, row, at, along))
            return now
        with text.for_range(0, deep * high, 1, state) as outer:
            row = self.row(source, at, *text.digits(outer.counter, high))
            carried = list(state) if add else [(kind, value) for (kind, _), value in zip(state, outer.values, strict=True)]
            with text.for_range(0, wide, 1, carried) as inner:
                number = text.linear((outer.counter, wide), inner.counter)
                inner.following = step(list(inner.values), number, Element(self, row, at, inner.counter))
            outer.following = [add(a, b) for a, b in zip(outer.values, inner.following, strict=True)] if add else inner.following
        return list(outer.following)

    def row(self, source: str, at: WindowOffset, deep: Number, down: Number) -> _Row:
        """The row that holds element (`deep`, `down`) of the windows."""
        text, s = self.text, self.window
        plane, exists = self.element(0, at.depth, deep)
        line, inside = self.element(1, at.row, down)
        both = text.both(exists, inside)
        length = text.select(both, "i64", max((s.lengths[2] - 1) * self.spread[2] + 1, 0), 0)
        return _Row(text.at(source, text.scalar, text.linear((plane, s.lengths[1] * s.lengths[2]), (line, s.lengths[2]))), length)

    def element(self, axis: int, window: str, element: Number) -> tuple[str, str]:
        """The index of a window's element along an axis of the array, and true if it is inside of the array."""
        text, s, spread = self.text, self.window, self.spread[axis]
        position = text.linear((window, s.stride[axis]), (element, s.dilation[axis]), -s.low[axis])
        if spread == 1:
            return position, text.compare("ult", position, s.lengths[axis])
        number, rest = text.let(f"sdiv i64 {position}, {spread}"), text.let(f"srem i64 {position}, {spread}")
        inside, whole = text.compare("ult", number, s.lengths[axis]), text.compare("eq", rest, 0)
        return number, text.both(inside, whole)

    # -- vectors

    def filled(self, number: float) -> str:
        """`number` in every lane."""
        if number == 0:
            return "zeroinitializer"
        assert number == float("-inf")
        return f"<{', '.join([f'{self.text.scalar} 0xFFF0000000000000'] * self.text.lanes)}>"

    def number(self, number: Number) -> str:
        return self.text.spread_number(str(number))

    def select(self, mask: str, kind: str, a: str, b: str) -> str:
        return self.text.let(f"select <{self.text.lanes} x i1> {mask}, {kind} {a}, {kind} {b}")

    def better(self, element: str, best: str) -> str:
        """Mask of the lanes in which an element replaces the maximum so far."""
        text, vector = self.text, self.text.vector
        larger, missing = text.let(f"fcmp ogt {vector} {element}, {best}"), text.let(f"fcmp uno {vector} {element}, {element}")
        return text.let(f"or <{text.lanes} x i1> {larger}, {missing}")

    def winner(self, source: str, at: WindowOffset) -> str:
        """The indices of the maxima within the windows."""
        text, lowest = self.text, self.filled(float("-inf"))

        def step(state: list[str], number: Number, element: Element) -> list[str]:
            value = element.load(lowest)
            better = self.better(value, state[0])
            return [self.select(better, text.vector, value, state[0]), self.select(better, self.numbers, self.number(number), state[1])]

        return self.sweep(source, at, [(text.vector, lowest), (self.numbers, "zeroinitializer")], step)[1]

    def share(self, winner: str, number: Number, given: str, otherwise: str = "zeroinitializer") -> str:
        """`given` in the lanes of windows whose maximum has index `number`, else `otherwise`."""
        equal = self.text.let(f"icmp eq {self.numbers} {winner}, {self.number(number)}")
        return self.select(equal, self.text.vector, given, otherwise)

    def of_windows(self, pointer: str, at: WindowOffset) -> tuple[str, str]:
        """The address of the windows' elements in an array with one element per window, and the mask of existing windows."""
        text, (_, rows, columns) = self.text, self.window.counts
        inside = text.compare("slt", at.row, rows)
        left = text.select(inside, "i64", text.linear(columns, (at.column, -1)), 0)
        return text.at(pointer, text.scalar, text.linear((at.depth, rows * columns), (at.row, columns), at.column)), text.mask_below(left)

    def store(self, value: str, result: str, at: WindowOffset) -> None:
        pointer, mask = self.of_windows(result, at)
        self.text.masked_store(value, pointer, mask)


@dataclass(frozen=True, slots=True)
class WindowOffset:
    """Index of the first of a vector of windows."""

    depth: str
    row: str
    column: str


@dataclass(frozen=True, slots=True)
class Element:
    """Element `along` of the current row of each of a vector of windows."""

    writer: WindowWriter
    row: _Row
    at: WindowOffset
    along: Number

    @property
    def near(self) -> bool:
        return isinstance(self.along, int) and self.writer.spread[2] == 1 and self.writer.window.stride[2] <= MAX_SHUFFLED_STRIDE

    def load(self, filler: str) -> str:
        """Load the elements; `filler` outside of the array."""
        text, s = self.writer.text, self.writer.window
        stride = s.stride[2]
        if not self.near:
            start = text.linear((self.at.column, stride), (self.along, s.dilation[2]), -s.low[2])
            return text.row_elements(self.row.pointer, start, self.row.length, stride, self.writer.spread[2], filler)
        assert isinstance(self.along, int)
        ahead, first = divmod(self.along * s.dilation[2], stride)
        if ahead not in self.row.loaded:
            self.row.loaded[ahead] = [text.row_elements(self.row.pointer, self.start(ahead, number), self.row.length, 1, 1, filler)
                                      for number in range(stride)]
        return self.writer.text.picked(self.row.loaded[ahead], first)

    def start(self, ahead: int, number: int) -> str:
        s, text = self.writer.window, self.writer.text
        return text.linear((self.at.column, s.stride[2]), ahead * s.stride[2] + number * text.lanes - s.low[2])

    def in_place_of(self, array: str, other: str) -> Element:
        """The same element in another array of the same shape."""
        text = self.writer.text
        here, start = (text.let(f"ptrtoint ptr {pointer} to i64") for pointer in (self.row.pointer, array))
        pointer = text.at(other, 1, text.sub(here, start))
        return Element(self.writer, _Row(pointer, self.row.length), self.at, self.along)

    def add(self, amount: str) -> None:
        """Add `amount` to the elements in memory."""
        text, s = self.writer.text, self.writer.window
        stride = s.stride[2]
        if not self.near:
            start = text.linear((self.at.column, stride), (self.along, s.dilation[2]), -s.low[2])
            value = text.row_elements(self.row.pointer, start, self.row.length, stride, 1)
            mask = text.inside(start, self.row.length, stride)
            text.scatter(text.fadd(value, amount), text.at(self.row.pointer, text.scalar, start), stride, mask)
            return
        assert isinstance(self.along, int)
        ahead, first = divmod(self.along * s.dilation[2], stride)
        parts = [amount if part == first else "zeroinitializer" for part in range(stride)]
        for number in range(stride):
            start = self.start(ahead, number)
            mask, address = text.inside(start, self.row.length), text.at(self.row.pointer, text.scalar, start)
            text.masked_store(text.fadd(text.load_vector(address, mask), text.interleaved(parts, number)), address, mask)
