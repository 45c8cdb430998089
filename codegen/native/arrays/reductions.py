"""Reductions outside of kernels, over any dimensions.

Dimensions are merged until reduced and kept ones alternate. Vectors lie along the innermost dimension. If it is kept, each lane is a result
of its own; if it is reduced, lanes are combined at the end; if it is a short reduced window, vectors lie along the kept elements around it,
sorted out of their windows in registers. Float sums are sums over short blocks (`llvm/compensated_sums.py`). The order of additions depends
on the shape and the target alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from adjit.codegen.llvm.compensated_sums import BLOCK_ADDITIONS, add_block, compensated_total
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.movement import copy_of
from adjit.codegen.native.arrays.strided_copy import Axis, Move, lower_moves
from adjit.codegen.native.combiner import Combiner
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, element_bits, power_of_two_below, split_iterations
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op

MAX_UNROLLED = 4
"""Maximum size of a dimension that is unrolled, and maximum number of vectors that are reduced independently."""

Values = list[str]
Inner = Callable[[str, Values], Values]


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of the operand: `size` elements at distance `stride`; if kept, the elements of the result are `result` apart."""

    size: int
    stride: int
    result: int
    reduced: bool


def lower_reduction(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of a reduction."""
    operand, result = op.operands[0].type, op.result.type
    if not result.size:
        return ()
    assert op.definition.identity is not None
    if not operand.size:
        bits = element_bits(op.definition.identity(result.dtype), result.dtype)
        return lower_moves([Move(result.dtype.itemsize, (Axis(result.size, 0, 1),), bits=bits)], 1, target)
    dimensions = dimensions_of(op)
    if not any(dimension.reduced for dimension in dimensions):
        return lower_moves([copy_of(op, 0)], 1, target)
    work = operand.nbytes / BYTES_PER_NS + result.size * 2.0
    return (_Reduction(Combiner.of(op.definition, operand.dtype), dimensions, StepBuilder(target)).lower(work),)


def dimensions_of(op: Op) -> list[Dimension]:
    """Dimensions of the operand without those of size 1. Neighbours that are both reduced, or both kept, are merged."""
    merged: list[tuple[int, bool]] = []
    for axis, size in enumerate(op.operands[0].type.shape):
        reduced = axis in op.attrs["axes"]
        if size == 1:
            continue
        if merged and merged[-1][1] == reduced:
            merged[-1] = (merged[-1][0] * size, reduced)
        else:
            merged.append((size, reduced))
    return [Dimension(size, math.prod(other for other, _ in merged[index + 1:]),
                       math.prod(other for other, lost in merged[index + 1:] if not lost), reduced)
            for index, (size, reduced) in enumerate(merged)]


class _Reduction:
    """Writer of one reduction."""

    def __init__(self, combiner: Combiner, dimensions: Sequence[Dimension], text: StepBuilder):
        self.c, self.text = combiner, text
        self.kept = [dimension for dimension in dimensions if not dimension.reduced]
        self.reduced = [dimension for dimension in dimensions if dimension.reduced]
        self.window = 1
        if dimensions[-1].reduced and self.kept and dimensions[-1].size <= MAX_UNROLLED:
            self.window = self.reduced.pop().size
        self.along_row = self.window == 1 and dimensions[-1].reduced

    def lower(self, work: float) -> StepCode:
        return self._rows(work) if self.along_row else self._columns(work)

    # -- vectors along kept elements: each lane a result of its own

    def _columns(self, work: float) -> StepCode:
        text, c, line = self.text, self.c, self.kept[-1]
        lanes = text.width(line.size, c.size)
        vectors = 1 if self.window > 1 else min(MAX_UNROLLED, power_of_two_below(line.size // lanes))
        chunk = lanes * vectors
        outer = self.kept[:-1]
        extents = (*(dimension.size for dimension in outer), max(line.size // chunk, 1))
        task_split = split_iterations(extents, work)
        with text.step():
            source, to = text.place(0), text.place(1)
            for _, task in text.parts([task_split.tasks]):
                with text.iterations(task, extents, task_split) as (*counters, block):
                    source = text.at(source, c.size, *((i, d.stride) for i, d in zip(counters, outer, strict=True)))
                    to = text.at(to, c.size, *((i, d.result) for i, d in zip(counters, outer, strict=True)))
                    with text.for_range(text.times(block, chunk), text.ends_at(block, line.size, chunk), chunk) as loop:
                        first = loop.counter if line.size % chunk == 0 else text.smaller(loop.counter, line.size - chunk)
                        start = [c.neutrals(lanes)] * vectors
                        corner = text.at(source, c.size, (first, line.stride))
                        totals = self._over(self.reduced, corner, start, lanes, self.window,
                                            lambda at, sums: self._add_columns(at, sums, lanes))
                        for k, total in enumerate(totals):
                            text.store(c.type(lanes), total, text.at(to, c.size, (first, 1), k * lanes), align=c.size)
        return text.code(task_split.tasks, work)

    def _add_columns(self, pointer: str, sums: Values, lanes: int) -> Values:
        text, c, type = self.text, self.c, self.c.type(lanes)
        lines = [text.load(type, text.at(pointer, c.size, k * lanes), align=c.size) for k in range(self.window * len(sums))]
        if self.window == 1:
            return [c.combine(text, lanes, total, line) for total, line in zip(sums, lines, strict=True)]
        (total,) = sums
        for position in range(self.window):
            total = c.combine(text, lanes, total, self._every(lines, position, lanes))
        return [total]

    def _every(self, lines: Values, position: int, lanes: int) -> str:
        """The elements at this position of consecutive windows, one window a lane."""
        sources = [divmod(lane * self.window + position, lanes) for lane in range(lanes)]
        found = lines[0]
        for number, line in enumerate(lines):
            # Source of each lane: already found (in the first iteration: in this line), in this line, or in a later line.
            order = [(lane if number else lane_of) if vector < max(number, 1) else lanes + lane_of if vector == number else -1
                     for lane, (vector, lane_of) in enumerate(sources)]
            found = self.text.shuffle(self.c.type(lanes), found, line if number else "poison", order)
        return found

    # -- vectors along reduced elements: all lanes are one result

    def _rows(self, work: float) -> StepCode:
        text, c, row = self.text, self.c, self.reduced[-1]
        lanes = text.width(row.size, c.size)
        vectors = min(MAX_UNROLLED, power_of_two_below(row.size // lanes))
        extents = tuple(dimension.size for dimension in self.kept)
        task_split = split_iterations(extents, work)
        with text.step():
            source, to = text.place(0), text.place(1)
            for _, task in text.parts([task_split.tasks]):
                with text.iterations(task, extents, task_split) as counters:
                    source = text.at(source, c.size, *((i, d.stride) for i, d in zip(counters, self.kept, strict=True)))
                    to = text.at(to, c.size, *((i, d.result) for i, d in zip(counters, self.kept, strict=True)))
                    start = [c.neutrals(lanes)] * vectors
                    sums = self._over(self.reduced[:-1], source, start, lanes, row.size // (lanes * vectors),
                                      lambda at, sums: self._add_row(at, sums, lanes, row.size))
                    text.store(c.element, c.combine_lanes(text, lanes, c.combine_vectors(text, lanes, sums)), to, align=c.size)
        return text.code(task_split.tasks, work)

    def _add_row(self, pointer: str, sums: Values, lanes: int, size: int) -> Values:
        """Add a whole row: full chunks in a loop, then the remaining vectors and elements."""
        text, c, chunk = self.text, self.c, lanes * len(sums)
        type = c.type(lanes)

        def add(at: str, sums: Values) -> Values:
            lines = [text.load(type, text.at(at, c.size, k * lanes), align=c.size) for k in range(len(sums))]
            return [c.combine(text, lanes, total, line) for total, line in zip(sums, lines, strict=True)]

        chunks = size // chunk
        sums = self._over([Dimension(chunks, chunk, 0, True)], pointer, sums, lanes, 1, add)
        rest = text.at(pointer, c.size, chunks * chunk)
        left, tail = divmod(size - chunks * chunk, lanes)
        for k in range(left):
            sums[k] = c.combine(text, lanes, sums[k], text.load(type, text.at(rest, c.size, k * lanes), align=c.size))
        if tail:
            sums[left] = c.combine(text, lanes, sums[left], self._tail(text.at(rest, c.size, left * lanes), lanes, tail))
        return sums

    def _tail(self, pointer: str, lanes: int, count: int) -> str:
        """The first `count` lanes from memory, the neutral element in the others."""
        text, c, type = self.text, self.c, self.c.type(lanes)
        mask = f"<{', '.join(f'i1 {int(lane < count)}' for lane in range(lanes))}>"
        suffix = f"v{lanes}{'f' if c.kind == 'f' else 'i'}{8 * c.size}"
        return text.call(type, f"@llvm.masked.load.{suffix}.p0", ("ptr", pointer), ("i32", str(c.size)), (f"<{lanes} x i1>", mask),
                         (type, c.neutrals(lanes)))

    # -- loops over the reduced dimensions

    def _over(self, dimensions: Sequence[Dimension], pointer: str, sums: Values, lanes: int, additions: int, inner: Inner) -> Values:
        """Loops over these dimensions around `inner`, a function of an address and sums that returns the sums after `additions`
        additions."""
        if not dimensions:
            return inner(pointer, sums)
        text, c, (first, *rest) = self.text, self.c, dimensions

        def deeper(number: str | int, sums: Values) -> Values:
            at = text.at(pointer, c.size, number * first.stride if isinstance(number, int) else (number, first.stride))
            return self._over(rest, at, sums, lanes, additions, inner)

        if first.size <= MAX_UNROLLED:
            for number in range(first.size):
                sums = deeper(number, sums)
            return sums
        type = c.type(lanes)
        below = additions * math.prod(dimension.size for dimension in rest)
        step = max(BLOCK_ADDITIONS // (below if below <= BLOCK_ADDITIONS else 1), 1)
        if not c.is_rounded or first.size <= step:
            with text.for_range(0, first.size, carried=[(type, total) for total in sums]) as loop:
                loop.following = deeper(loop.counter, list(loop.values))
            return list(loop.following)
        neutral = [(type, c.neutrals(lanes))] * len(sums)
        parts = 1 if self.along_row else len(sums)
        with text.for_range(0, first.size, step, carried=neutral[:1] * (2 * parts)) as block_loop:
            end = text.smaller(text.plus(block_loop.counter, step), first.size)
            with text.for_range(block_loop.counter, end, carried=neutral) as loop:
                loop.following = deeper(loop.counter, list(loop.values))
            found = [c.combine_vectors(text, lanes, loop.following)] if self.along_row else list(loop.following)
            block_loop.following = [name for number, part in enumerate(found)
                                   for name in add_block(text, type, *block_loop.values[2 * number:2 * number + 2], part)]
        last = block_loop.following
        totals = [compensated_total(text, type, *last[2 * number:2 * number + 2]) for number in range(parts)]
        return [c.combine(text, lanes, a, b) for a, b in zip(sums, totals, strict=False)] + sums[parts:]
