"""Pooling as native steps: vectors of neighbouring windows, whose elements are loaded with the stride and taken apart.

A task has some planes. Of each element of a window, a vector is loaded for as many neighbouring windows: where the stride is small, from
whole vectors of a row, else one by one. What lies outside of the array is not read but filled in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from math import prod

from adjit.codegen.native.convolution_panels import NEAR, PanelText
from adjit.codegen.native.step_code import StepCode
from adjit.codegen.target import Target
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op
from adjit.ir.ops.sliding import ATTRIBUTES, Sliding
from adjit.ir.types import short_name

UNROLLED = 16
TASKS, NANOSECONDS_A_TASK = 64, 8000

Number = int | str
Step = Callable[[list[str], Number, "Element"], list[str]]


def lower_windows(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of a sum or an extremum of windows; none where the result is empty."""
    x, attrs = op.operands[0].type, op.attrs
    rank = len(attrs["sizes"])
    if rank > 3:
        raise UnsupportedError(f"{op.name}: windows over {rank} axes have no native code", op.loc, hint="use backend='numba'")
    if not op.result.type.size:
        return ()
    missing = 3 - rank
    given = {name: (0 if name in ("low", "high", "interior") else 1,) * missing + attrs[name] for name in ("sizes", *ATTRIBUTES)}
    sliding = Sliding((1,) * missing + x.shape[x.rank - rank:], **given)
    text = PanelText(target, short_name(x.dtype))
    planes, elements, windows = prod(x.shape[:x.rank - rank]), prod(sliding.lengths), prod(sliding.counts)
    work = prod(sliding.sizes) * windows * planes / text.lanes * 0.7 + planes * elements * text.bytes / 8
    tasks = max(min(planes, TASKS, int(work / NANOSECONDS_A_TASK) + 1), 1)
    write, sizes = {
        "window_sum": (_sum, (elements, windows)), "window_max": (_max, (elements, windows)),
        "window_max_take": (_take, (elements, elements, windows)),
        "window_max_scatter": (_scatter, (elements, windows, elements)),
        "window_max_share": (_share, (elements, windows, elements))}[op.name]
    with text.step():
        places = [text.place(number) for number in range(len(sizes))]
        low, high = (text.let(f"udiv i64 {text.linear((bound, planes))}, {tasks}") for bound in ("%low", "%high"))
        with text.loop(low, high, empty=True) as plane:
            write(_Writer(text, sliding), [text.at(place, (plane.counter, size)) for place, size in zip(places, sizes, strict=True)])
    return (text.code(tasks, work),)


@dataclass(slots=True)
class _Row:
    """A row that some element of the windows lies in, its length (0 where there is none), and vectors that were loaded from it."""

    pointer: str
    length: str
    loaded: dict[int, list[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes what a step does to one plane."""

    text: PanelText
    sliding: Sliding

    @property
    def numbers(self) -> str:
        return f"<{self.text.lanes} x i32>"

    @property
    def spread(self) -> tuple[int, ...]:
        return tuple(gap + 1 for gap in self.sliding.interior)

    # -- loops

    def windows(self, bounds: Sequence[int]) -> Iterator[Place]:
        """Writes loops over windows, a vector of them at a time."""
        with self.text.loop(0, bounds[0]) as depth, self.text.loop(0, bounds[1]) as row, \
                self.text.loop(0, bounds[2], self.text.lanes) as column:
            yield Place(depth.counter, row.counter, column.counter)

    def sweep(self, source: str, at: Place, state: Sequence[tuple[str, str]], step: Step) -> list[str]:
        """The state after `step` for every element of the windows, in C order."""
        text, (deep, high, wide) = self.text, self.sliding.sizes
        if deep * high * wide <= UNROLLED:
            now = [value for _, value in state]
            for line in range(deep * high):
                row = self.row(source, at, *divmod(line, high))
                for along in range(wide):
                    now = step(now, line * wide + along, Element(self, row, at, along))
            return now
        with text.loop(0, deep * high, 1, state) as outer:
            row = self.row(source, at, *text.split(outer.counter, high))
            carried = [(kind, value) for (kind, _), value in zip(state, outer.values, strict=True)]
            with text.loop(0, wide, 1, carried) as inner:
                number = text.linear((outer.counter, wide), inner.counter)
                inner.following = step(list(inner.values), number, Element(self, row, at, inner.counter))
            outer.following = inner.following
        return list(outer.following)

    def row(self, source: str, at: Place, deep: Number, down: Number) -> _Row:
        """The row that has this element of the windows."""
        text, s = self.text, self.sliding
        plane, exists = self.element(0, at.depth, deep)
        line, inside = self.element(1, at.row, down)
        both = text.let(f"and i1 {exists}, {inside}")
        length = text.let(f"select i1 {both}, i64 {max((s.lengths[2] - 1) * self.spread[2] + 1, 0)}, i64 0")
        return _Row(text.at(source, text.linear((plane, s.lengths[1] * s.lengths[2]), (line, s.lengths[2]))), length)

    def element(self, axis: int, window: str, element: Number) -> tuple[str, str]:
        """The number of an element along an axis, and whether it is one of the array."""
        text, s, spread = self.text, self.sliding, self.spread[axis]
        position = text.linear((window, s.stride[axis]), (element, s.dilation[axis]), -s.low[axis])
        if spread == 1:
            return position, text.let(f"icmp ult i64 {position}, {s.lengths[axis]}")
        number, rest = text.let(f"sdiv i64 {position}, {spread}"), text.let(f"srem i64 {position}, {spread}")
        inside, whole = text.let(f"icmp ult i64 {number}, {s.lengths[axis]}"), text.let(f"icmp eq i64 {rest}, 0")
        return number, text.let(f"and i1 {inside}, {whole}")

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
        """Where an element takes the place of the largest so far."""
        text, vector = self.text, self.text.vector
        larger, missing = text.let(f"fcmp ogt {vector} {element}, {best}"), text.let(f"fcmp uno {vector} {element}, {element}")
        return text.let(f"or <{text.lanes} x i1> {larger}, {missing}")

    def winner(self, source: str, at: Place) -> str:
        """The numbers of the largest elements of the windows."""
        text, lowest = self.text, self.filled(float("-inf"))

        def step(state: list[str], number: Number, element: Element) -> list[str]:
            value = element.load(lowest)
            better = self.better(value, state[0])
            return [self.select(better, text.vector, value, state[0]), self.select(better, self.numbers, self.number(number), state[1])]

        return self.sweep(source, at, [(text.vector, lowest), (self.numbers, "zeroinitializer")], step)[1]

    def share(self, winner: str, number: Number, given: str, otherwise: str = "zeroinitializer") -> str:
        """`given` for the windows whose largest element has this number."""
        equal = self.text.let(f"icmp eq {self.numbers} {winner}, {self.number(number)}")
        return self.select(equal, self.text.vector, given, otherwise)

    def of_windows(self, pointer: str, at: Place) -> tuple[str, str]:
        """Where the numbers of these windows lie, and which lanes have one."""
        text, (_, rows, columns) = self.text, self.sliding.counts
        inside = text.let(f"icmp slt i64 {at.row}, {rows}")
        left = text.let(f"select i1 {inside}, i64 {text.linear(columns, (at.column, -1))}, i64 0")
        return text.at(pointer, text.linear((at.depth, rows * columns), (at.row, columns), at.column)), text.mask_below(left)

    def store(self, value: str, result: str, at: Place) -> None:
        pointer, mask = self.of_windows(result, at)
        self.text.masked_store(value, pointer, mask)


@dataclass(frozen=True, slots=True)
class Place:
    """The first of a vector of windows."""

    depth: str
    row: str
    column: str


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a vector of windows: number `along` of those in one row."""

    writer: _Writer
    row: _Row
    at: Place
    along: Number

    @property
    def near(self) -> bool:
        return isinstance(self.along, int) and self.writer.spread[2] == 1 and self.writer.sliding.stride[2] <= NEAR

    def load(self, filler: str) -> str:
        """The elements; `filler` outside of the array."""
        text, s = self.writer.text, self.writer.sliding
        stride = s.stride[2]
        if not self.near:
            start = text.linear((self.at.column, stride), (self.along, s.dilation[2]), -s.low[2])
            return text.strided(self.row.pointer, start, self.row.length, stride, self.writer.spread[2], filler)
        assert isinstance(self.along, int)
        ahead, first = divmod(self.along * s.dilation[2], stride)
        if ahead not in self.row.loaded:
            self.row.loaded[ahead] = [text.strided(self.row.pointer, self.start(ahead, number), self.row.length, 1, 1, filler)
                                      for number in range(stride)]
        return self.writer.text.picked(self.row.loaded[ahead], first)

    def start(self, ahead: int, number: int) -> str:
        s, text = self.writer.sliding, self.writer.text
        return text.linear((self.at.column, s.stride[2]), ahead * s.stride[2] + number * text.lanes - s.low[2])

    def in_place_of(self, array: str, other: str) -> Element:
        """The same element of another array of this shape."""
        text = self.writer.text
        here, start = (text.let(f"ptrtoint ptr {pointer} to i64") for pointer in (self.row.pointer, array))
        pointer = text.let(f"getelementptr i8, ptr {other}, i64 {text.let(f'sub i64 {here}, {start}')}")
        return Element(self.writer, _Row(pointer, self.row.length), self.at, self.along)

    def add(self, amount: str) -> None:
        """Add to the elements."""
        text, s = self.writer.text, self.writer.sliding
        stride = s.stride[2]
        if not self.near:
            start = text.linear((self.at.column, stride), (self.along, s.dilation[2]), -s.low[2])
            value = text.strided(self.row.pointer, start, self.row.length, stride, 1)
            mask = text.inside(start, self.row.length, stride)
            text.scatter(text.add(value, amount), text.at(self.row.pointer, start), stride, mask)
            return
        assert isinstance(self.along, int)
        ahead, first = divmod(self.along * s.dilation[2], stride)
        parts = [amount if part == first else "zeroinitializer" for part in range(stride)]
        for number in range(stride):
            start = self.start(ahead, number)
            mask, place = text.inside(start, self.row.length), text.at(self.row.pointer, start)
            text.masked_store(text.add(text.masked_load(place, mask), text.interleaved(parts, number)), place, mask)


def _sum(w: _Writer, places: list[str]) -> None:
    for at in w.windows(w.sliding.counts):
        (total,) = w.sweep(places[0], at, [(w.text.vector, "zeroinitializer")],
                           lambda state, number, element: [w.text.add(state[0], element.load("zeroinitializer"))])
        w.store(total, places[1], at)


def _max(w: _Writer, places: list[str]) -> None:
    lowest = w.filled(float("-inf"))

    def step(state: list[str], number: Number, element: Element) -> list[str]:
        value = element.load(lowest)
        return [w.select(w.better(value, state[0]), w.text.vector, value, state[0])]

    for at in w.windows(w.sliding.counts):
        (most,) = w.sweep(places[0], at, [(w.text.vector, lowest)], step)
        w.store(most, places[1], at)


def _take(w: _Writer, places: list[str]) -> None:
    for at in w.windows(w.sliding.counts):
        winner = w.winner(places[0], at)

        def step(state: list[str], number: Number, element: Element, winner: str = winner) -> list[str]:
            return [w.share(winner, number, element.load("zeroinitializer"), state[0])]

        (taken,) = w.sweep(places[1], at, [(w.text.vector, "zeroinitializer")], step)
        w.store(taken, places[2], at)


def _scatter(w: _Writer, places: list[str]) -> None:
    """Each number, where the largest element of its window is."""
    source, given, result = places
    for at in _windows_to_write(w, result):
        winner = w.winner(source, at)
        pointer, mask = w.of_windows(given, at)
        number = w.text.masked_load(pointer, mask)
        if _lie_apart(w.sliding):
            _write_parts(w, result, at, [w.share(winner, index, number) for index in range(prod(w.sliding.sizes))])
            continue

        def step(state: list[str], index: Number, element: Element, winner: str = winner, number: str = number) -> list[str]:
            element.add(w.share(winner, index, number))
            return []

        w.sweep(result, at, [], step)


def _share(w: _Writer, places: list[str]) -> None:
    """Each number, divided among the elements of its window that are not less than the largest."""
    text, vector = w.text, w.text.vector
    source, given, result = places
    lowest, one = w.filled(float("-inf")), f"<{', '.join([f'{text.scalar} 1.0'] * text.lanes)}>"

    def is_less(element: Element, largest: str) -> str:
        return text.let(f"fcmp olt {vector} {element.load(lowest)}, {largest}")

    def larger(state: list[str], number: Number, element: Element) -> list[str]:
        value = element.load(lowest)
        return [w.select(w.better(value, state[0]), vector, value, state[0])]

    for at in _windows_to_write(w, result):
        (largest,) = w.sweep(source, at, [(vector, lowest)], larger)

        def counted(state: list[str], number: Number, element: Element, largest: str = largest) -> list[str]:
            return [w.select(is_less(element, largest), vector, state[0], text.add(state[0], one))]

        (count,) = w.sweep(source, at, [(vector, "zeroinitializer")], counted)
        pointer, mask = w.of_windows(given, at)
        amount = text.let(f"fdiv {vector} {text.masked_load(pointer, mask)}, {count}")

        def handed(state: list[str], number: Number, element: Element, largest: str = largest, amount: str = amount) -> list[str]:
            part = w.select(is_less(element, largest), vector, "zeroinitializer", amount)
            if not _lie_apart(w.sliding):
                element.in_place_of(source, result).add(part)
                return []
            return [*state, part]

        shares = w.sweep(source, at, [], handed)
        if shares:
            _write_parts(w, result, at, shares)


def _lie_apart(s: Sliding) -> bool:
    """Whether windows do not meet, and are small: then they write all rows and columns up to the next."""
    deep, high, wide = s.sizes
    return (deep == s.stride[0] == s.lengths[0] == 1 and s.low[0] == s.high[0] == 0 and high <= s.stride[1] <= UNROLLED
            and wide <= s.stride[2] <= NEAR and high * wide <= UNROLLED
            and all(size == 1 or dilation == 1 for size, dilation in zip(s.sizes, s.dilation, strict=True)))


def _windows_to_write(w: _Writer, result: str) -> Iterator[Place]:
    """Writes loops over windows, and over what lies behind the last, where they write that too; else the result is zeros first."""
    s = w.sliding
    if _lie_apart(s):
        return w.windows([-(-(length + low) // stride) for length, low, stride in zip(s.lengths, s.low, s.stride, strict=True)])
    w.text.clear(result, prod(s.lengths))
    return w.windows(s.counts)


def _write_parts(w: _Writer, result: str, at: Place, shares: Sequence[str]) -> None:
    """What each element of the windows gets, in C order, and zeros up to the next windows."""
    text, s = w.text, w.sliding
    _, high, wide = s.sizes
    for down in range(s.stride[1]):
        row = w.row(result, at, 0, down)
        parts = [shares[down * wide + along] if down < high and along < wide else "zeroinitializer" for along in range(s.stride[2])]
        for number in range(s.stride[2]):
            start = Element(w, row, at, 0).start(0, number)
            text.masked_store(text.interleaved(parts, number), text.at(row.pointer, start), text.inside(start, row.length))
