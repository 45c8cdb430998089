"""Strided copies and fills, of which every movement op is made.

A `Move` is simplified to as few dimensions as possible, then written as loops around one of these: a block copy, a fill, a reversed copy,
the transpose of a tile in registers, or single elements.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, TaskSplit, power_of_two_below, split_iterations
from adjit.ir.dataclass import dataclass

MIN_CUT_ROW_BYTES = 1 << 15
"""Bytes of a row from which the row is cut, to be shared among tasks."""

LONG_ROW_BYTES, LONG_CUT_BYTES = 1 << 22, 1 << 20
"""Bytes of a row from which on it is cut into longer pieces: libraries copy these past the caches, in half the time."""

CACHE_LINE = 64
MAX_TILE = {1: 4, 2: 4, 4: 8, 8: 4}
"""Rows and columns of a tile, by element size: for larger tiles LLVM takes long over the shuffles, and they run no faster."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of a move: its size, and its strides, in elements, in the source and in the target."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Move:
    """Copy of elements of `size` bytes from operand number `operand` to the result, or fill of the result with the number with these
    `bits`.

    `source` and `target` are offsets in elements. With `added`, the LLVM type of an element, the elements are added to those of the result.
    `operands` consecutive operands of one type are copied one after the other, each `operand_step` elements further in the target.
    """

    size: int
    axes: tuple[Axis, ...]
    source: int = 0
    target: int = 0
    operand: int = 0
    bits: int | None = None
    operands: int = 1
    operand_step: int = 0
    added: str = ""

    @property
    def count(self) -> int:
        """Number of elements written."""
        return math.prod(axis.size for axis in self.axes) * self.operands


def lower_moves(moves: Sequence[Move], result: int, target: Target) -> tuple[StepCode, ...]:
    """One step that does all `moves`, which write disjoint elements of argument number `result`; no step if there is nothing to do.

    The program adds the offsets of a single move, so that slices at different offsets share one text.
    """
    offsets: tuple[tuple[int, int], ...] = ()
    if len(moves) == 1 and moves[0].operands == 1:
        (move,) = moves
        offsets = tuple((arg, count * move.size) for arg, count in ((move.operand, move.source), (result, move.target)) if count)
        moves = [replace(move, source=0, target=0)]
    parts = [part for move in moves if move.count for part in _cut(simplified(move))]
    if not parts:
        return ()
    plans = [_plan(part, target) for part in parts]
    text = StepBuilder(target)
    with text.step():
        to = text.place(result)
        for index, task in text.parts([plan.task_split.tasks for plan in plans]):
            plans[index].write(text, task, to)
    return (text.code(sum(plan.task_split.tasks for plan in plans), sum(plan.work for plan in plans), offsets=offsets),)


def write_move(text: StepBuilder, move: Move, source: str, to: str) -> None:
    """Write a move from `source` (unless it is a fill) to `to` as part of a task of another step."""
    plan = _plan(simplified(move), text.target)
    with text.nest(plan.extents) as (_, *counters):
        plan.write_inner(text, source, to, counters)


# -- fewer dimensions


def simplified(move: Move) -> Move:
    """The move without dimensions of size 1, and with dimensions merged that are contiguous to each other."""
    axes: list[Axis] = []
    for axis in move.axes:
        if axis.size == 1:
            continue
        last = axes[-1] if axes else None
        if last is not None and last.source == axis.source * axis.size and last.target == axis.target * axis.size:
            axes[-1] = Axis(last.size * axis.size, axis.source, axis.target)
        else:
            axes.append(axis)
    return replace(move, axes=tuple(axes))


def _cut(move: Move) -> Iterator[Move]:
    """A long row as two dimensions, and its remainder as a second move."""
    row = move.axes[-1] if move.axes else Axis(1, 0, 1)
    block = (LONG_CUT_BYTES if row.size * move.size >= LONG_ROW_BYTES else MIN_CUT_ROW_BYTES) // move.size
    if row.size < 2 * block or _transposed_axis(move) is not None:
        yield move
        return
    blocks, left = divmod(row.size, block)
    yield replace(move, axes=(*move.axes[:-1], Axis(blocks, row.source * block, row.target * block), replace(row, size=block)))
    if left:
        done = row.size - left
        yield replace(move, axes=(*move.axes[:-1], replace(row, size=left)), source=move.source + done * row.source,
                      target=move.target + done * row.target)


def _transposed_axis(move: Move) -> int | None:
    """The dimension along which the source is contiguous, if it is not the one along which the target is."""
    if move.bits is not None or not move.axes or move.axes[-1].target != 1 or move.axes[-1].source in (0, 1, -1):
        return None
    return next((index for index, axis in enumerate(move.axes[:-1]) if axis.source == 1), None)


# -- loops


def _plan(move: Move, target: Target) -> _Rows:
    transposed = _transposed_axis(move)
    if transposed is not None and not move.added and move.size in MAX_TILE:
        return _Tiles(move, target, transposed)
    return _Rows(move, target)


class _Rows:
    """Loops around rows: the innermost dimension is copied as a whole."""

    def __init__(self, move: Move, target: Target):
        self.move, self.target = move, target
        self.row = move.axes[-1] if move.axes else Axis(1, 0, 1)
        self.outer: tuple[Axis, ...] = move.axes[:-1]
        self.extents: tuple[int, ...] = (move.operands, *(axis.size for axis in self.outer))
        self.task_split: TaskSplit = split_iterations(self.extents, self.work)

    @property
    def work(self) -> float:
        """Estimated nanoseconds on one thread."""
        m, row = self.move, self.row
        in_vectors = row.target == 1 and row.source in (0, 1, -1)
        each = m.size / BYTES_PER_NS * (1 if m.bits is not None else 2)
        return m.count * (each if in_vectors else max(each, 0.7)) + 2 * m.count / row.size

    def write(self, text: StepBuilder, task: str, to: str) -> None:
        """The iterations of one task; `to` points to the result."""
        m = self.move
        to = text.at(to, m.size, m.target)
        source = ""
        if m.bits is None and m.operands == 1:
            source = text.at(text.place(m.operand), m.size, m.source)
        with text.iterations(task, self.extents, self.task_split) as (operand, *counters):
            if m.bits is None and m.operands > 1:
                source = text.at(text.place(text.plus(operand, m.operand)), m.size, m.source)
            to = text.at(to, m.size, (operand, m.operand_step))
            self.write_inner(text, source, to, counters)

    def write_inner(self, text: StepBuilder, source: str, to: str, counters: Sequence[str]) -> None:
        size, row = self.move.size, self.row
        to = text.at(to, size, *((c, axis.target) for c, axis in zip(counters, self.outer, strict=True)))
        if source:
            source = text.at(source, size, *((c, axis.source) for c, axis in zip(counters, self.outer, strict=True)))
        if self.move.added:
            _add(text, self.move, source, to, row)
        elif row.target == 1 and row.source == 1 and source:
            text.copy(to, source, row.size * size)
        elif row.target == 1 and (row.source == 0 or not source):
            _fill(text, size, source, to, row.size, self.move.bits)
        elif row.target == 1 and row.source == -1:
            _reverse(text, size, source, to, row.size)
        else:
            _one_by_one(text, size, source, to, row, self.move.bits)


class _Tiles(_Rows):
    """Loops around tiles that are transposed in registers; the source is contiguous along the dimension `transposed`."""

    def __init__(self, move: Move, target: Target, transposed: int):
        row, column = move.axes[-1], move.axes[transposed]
        self.column = column
        self.tile = min(power_of_two_below(min(row.size, column.size)), target.lanes(move.size), MAX_TILE[move.size])
        self.block = max(self.tile, CACHE_LINE // move.size)          # of the column: whole cache lines of the source are used at once
        self.strip = 32 * self.block                                  # of the row
        super().__init__(move, target)
        self.outer = (*move.axes[:transposed], *move.axes[transposed + 1:-1])
        blocks, strips = max(column.size // self.block, 1), max(row.size // self.strip, 1)
        self.extents = (move.operands, *(axis.size for axis in self.outer), blocks, strips)
        self.task_split = split_iterations(self.extents, self.work)

    @property
    def work(self) -> float:
        return self.move.count * max(self.move.size * 2 / BYTES_PER_NS, 1.0 / self.tile) + 2.0 * self.move.count / self.tile ** 2

    def write_inner(self, text: StepBuilder, source: str, to: str, counters: Sequence[str]) -> None:
        size, tile, row, column = self.move.size, self.tile, self.row, self.column
        *others, block, strip = counters
        source = text.at(source, size, *((c, axis.source) for c, axis in zip(others, self.outer, strict=True)))
        to = text.at(to, size, *((c, axis.target) for c, axis in zip(others, self.outer, strict=True)))
        vector = f"<{tile} x i{8 * size}>"
        row_end, column_end = (text.ends_at(c, axis.size, step)
                               for c, axis, step in ((strip, row, self.strip), (block, column, self.block)))
        with (text.for_range(text.times(strip, self.strip), row_end, tile) as along_row,
              text.for_range(text.times(block, self.block), column_end, tile) as along_column):
            x, y = (loop.counter if axis.size % tile == 0 else text.smaller(loop.counter, axis.size - tile)
                    for loop, axis in ((along_row, row), (along_column, column)))
            corner = text.at(source, size, (x, row.source), (y, column.source))
            lines = [text.load(vector, text.at(corner, size, k * row.source), align=size) for k in range(tile)]
            corner = text.at(to, size, (x, row.target), (y, column.target))
            for k, line in enumerate(_transposed(text, vector, lines)):
                text.store(vector, line, text.at(corner, size, k * column.target), align=size)


def _transposed(text: StepBuilder, vector: str, lines: list[str]) -> list[str]:
    """The square of vectors transposed: blocks of 1, 2, 4, ... are swapped across the diagonal."""
    lines, count = list(lines), len(lines)
    distance = 1
    while distance < count:
        upper = [lane if not lane & distance else count + lane - distance for lane in range(count)]
        lower = [count + lane if lane & distance else lane + distance for lane in range(count)]
        for k in range(count):
            if not k & distance:
                a, b = lines[k], lines[k + distance]
                lines[k], lines[k + distance] = text.shuffle(vector, a, b, upper), text.shuffle(vector, a, b, lower)
        distance *= 2
    return lines


# -- rows


def _fill(text: StepBuilder, size: int, source: str, to: str, count: int, bits: int | None) -> None:
    """Fill of `count` elements with the number with these bits, or with the element at `source`."""
    element, width = f"i{8 * size}", text.width(count, size)
    vector = f"<{width} x {element}>"
    value = f"splat ({element} {bits})" if bits is not None else text.splat(element, text.load(element, source, align=size), width)
    with text.chunks(count, width) as start:
        text.store(vector, value, text.at(to, size, (start, 1)), align=size)


def _reverse(text: StepBuilder, size: int, source: str, to: str, count: int) -> None:
    width = text.width(count, size)
    vector = f"<{width} x i{8 * size}>"
    with text.chunks(count, width) as start:
        line = text.load(vector, text.at(source, size, (start, -1), 1 - width), align=size)
        text.store(vector, text.shuffle(vector, line, "poison", range(width - 1, -1, -1)), text.at(to, size, (start, 1)), align=size)


def _one_by_one(text: StepBuilder, size: int, source: str, to: str, row: Axis, bits: int | None) -> None:
    element, width = f"i{8 * size}", min(4, power_of_two_below(row.size))
    with text.chunks(row.size, width) as start:
        to = text.at(to, size, (start, row.target))
        if bits is None:
            source = text.at(source, size, (start, row.source))
            values = [text.load(element, text.at(source, size, k * row.source), align=size) for k in range(width)]
        else:
            values = [str(bits)] * width
        for k, value in enumerate(values):
            text.store(element, value, text.at(to, size, k * row.target), align=size)


def _add(text: StepBuilder, move: Move, source: str, to: str, row: Axis) -> None:
    size, in_vectors = move.size, row.source == row.target == 1
    for start, lanes in text.blocks(row.size, text.width(row.size, size) if in_vectors else 1):
        type = f"<{lanes} x {move.added}>"
        goal = text.at(to, size, (start, row.target))
        a, b = text.load(type, goal, align=size), text.load(type, text.at(source, size, (start, row.source)), align=size)
        text.store(type, text.let(f"{'add' if move.added[0] == 'i' else 'fadd'} {type} {a}, {b}"), goal, align=size)
