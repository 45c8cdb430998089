"""Steps of gather and scatter ops: reads and writes at indices that are data.

The first step checks the indices, before anything is written. Updates are applied in the order of the indices: each task owns its elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.movement import copy_of, lower_moves
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, element_type, split_iterations
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op

INDEX_BYTES = 8
MIN_TASK_COLUMN_BYTES = 256
"""Minimum bytes of a scattered row that one task writes."""


@dataclass(frozen=True, slots=True)
class _Shape:
    """The first operand as `before x size x after`, where `size` is the axis; `count` indices for each position before the axis."""

    before: int
    size: int
    after: int
    count: int
    element: str
    bytes: int

    @classmethod
    def of(cls, op: Op) -> _Shape:
        shape, axis, dtype = op.operands[0].type.shape, op.attrs["axis"], op.operands[0].type.dtype
        indices = op.operands[1].type
        along = op.name.endswith("_along_axis")
        return cls(math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1:]), indices.shape[axis] if along else indices.size,
                   element_type(dtype), dtype.itemsize)


def lower_check(op: Op, target: Target) -> tuple[StepCode, ...]:
    """The step that checks that all indices (the second operand) are within the axis; none if there are no indices, or if they are
    proven to be."""
    count, size = op.operands[1].type.size, op.operands[0].type.shape[op.attrs["axis"]]
    if not count or "in_range" in op.attrs:
        return ()
    text = StepBuilder(target)
    width = text.width(count, INDEX_BYTES)
    vector, mask = f"<{width} x i64>", f"<{width} x i1>"
    with text.step():
        indices = text.place(1)
        with text.for_range(0, count, width, carried=[(mask, "zeroinitializer")]) as loop:
            start = loop.counter if count % width == 0 else text.smaller(loop.counter, count - width)
            numbers = text.load(vector, text.at(indices, INDEX_BYTES, (start, 1)), align=INDEX_BYTES)
            wrong = text.let(f"icmp uge {vector} {numbers}, splat (i64 {size})")
            loop.following = [text.let(f"or {mask} {loop.values[0]}, {wrong}")]
        found = text.call("i1", f"@llvm.vector.reduce.or.v{width}i1", (mask, loop.following[0]))
        with text.if_(found), text.for_range(0, count) as loop:
            number = text.load("i64", text.at(indices, INDEX_BYTES, (loop.counter, 1)), align=INDEX_BYTES)
            with text.if_(text.compare("uge", number, size)):
                text.ret("i64", text.plus(loop.counter, 1))
    return (text.code(1, count * INDEX_BYTES / BYTES_PER_NS, checks=True),)


# -- reading


def lower_take(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `take`: `before x count` rows at the indices."""
    s, check = _Shape.of(op), lower_check(op, target)
    if not op.result.type.size:
        return check
    text, extents, row = StepBuilder(target), (s.before, s.count), s.after * s.bytes
    work = op.result.type.size * max(s.bytes * 2 / BYTES_PER_NS, 1.5 / s.after)
    task_split = split_iterations(extents, work)
    with text.step():
        source, indices, to = text.place(0), text.place(1), text.place(2)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, position):
                number = text.load("i64", text.at(indices, INDEX_BYTES, (position, 1)), align=INDEX_BYTES)
                text.copy(text.at(to, row, (outer, s.count), (position, 1)), text.at(source, row, (outer, s.size), (number, 1)), row)
    return (*check, text.code(task_split.tasks, work))


def lower_take_along_axis(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `take_along_axis`: `before x count x after` single elements at the indices."""
    s, check = _Shape.of(op), lower_check(op, target)
    if not op.result.type.size:
        return check
    text, extents = StepBuilder(target), (s.before, s.count, s.after)
    work = op.result.type.size * 1.5
    task_split = split_iterations(extents, work)
    with text.step():
        source, indices, to = text.place(0), text.place(1), text.place(2)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, position, column):
                at = ((outer, s.count * s.after), (position, s.after), (column, 1))
                number = text.load("i64", text.at(indices, INDEX_BYTES, *at), align=INDEX_BYTES)
                value = text.load(s.element, text.at(source, s.bytes, (outer, s.size * s.after), (number, s.after), (column, 1)),
                                  align=s.bytes)
                text.store(s.element, value, text.at(to, s.bytes, *at), align=s.bytes)
    return (*check, text.code(task_split.tasks, work))


# -- writing


def lower_scatter(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step that adds or sets rows at the indices, one index after the other. Tasks divide the positions before the axis and the
    columns."""
    s, check = _Shape.of(op), lower_check(op, target)
    start = (*check, *_base(op, shared, target))
    if not op.operands[2].type.size:
        return start
    text = StepBuilder(target)
    width, columns = text.width(s.after, s.bytes), _columns(s)
    extents = (s.before, s.after // columns)
    work = op.operands[2].type.size * max(s.bytes * 3 / BYTES_PER_NS, 1.5 / s.after)
    task_split = split_iterations(extents, work)
    with text.step():
        indices, updates, to = text.place(1), text.place(2), text.place(3)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, part), text.nest([s.count]) as (position,):
                number = text.load("i64", text.at(indices, INDEX_BYTES, (position, 1)), align=INDEX_BYTES)
                source = text.at(updates, s.bytes, (outer, s.count * s.after), (position, s.after), (part, columns))
                goal = text.at(to, s.bytes, (outer, s.size * s.after), (number, s.after), (part, columns))
                if op.name == "scatter_set":
                    text.copy(goal, source, columns * s.bytes)
                    continue
                for first, lanes in text.blocks(columns, width):
                    _add(text, s, lanes, text.at(source, s.bytes, (first, 1)), text.at(goal, s.bytes, (first, 1)))
    return (*start, text.code(task_split.tasks, work))


def lower_scatter_along_axis(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step that adds single elements at the indices, in order. Tasks divide the positions before the axis and the columns after it."""
    s, check = _Shape.of(op), lower_check(op, target)
    start = (*check, *_base(op, shared, target))
    if not op.operands[2].type.size:
        return start
    text, columns = StepBuilder(target), _columns(s)
    extents = (s.before, s.after // columns)
    work = op.operands[2].type.size * 2.0
    task_split = split_iterations(extents, work)
    with text.step():
        indices, updates, to = text.place(1), text.place(2), text.place(3)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, part), text.nest([s.count, columns]) as (position, column):
                at = ((outer, s.count * s.after), (position, s.after), (part, columns), (column, 1))
                number = text.load("i64", text.at(indices, INDEX_BYTES, *at), align=INDEX_BYTES)
                goal = text.at(to, s.bytes, (outer, s.size * s.after), (number, s.after), (part, columns), (column, 1))
                _add(text, s, 1, text.at(updates, s.bytes, *at), goal)
    return (*start, text.code(task_split.tasks, work))


def _base(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step that copies the base to the result."""
    return () if shared.get(0) == 0 else lower_moves([copy_of(op, 0)], len(op.operands), target)


def _columns(s: _Shape) -> int:
    """Columns of a row that one task writes: few, so that tasks divide the row, but at least `MIN_TASK_COLUMN_BYTES`."""
    fewest = max(MIN_TASK_COLUMN_BYTES // s.bytes, 1)
    return fewest if s.after % fewest == 0 else s.after


def _add(text: StepBuilder, s: _Shape, lanes: int, source: str, goal: str) -> None:
    type = f"<{lanes} x {s.element}>"
    a, b = text.load(type, goal, align=s.bytes), text.load(type, source, align=s.bytes)
    code = "add" if s.element[0] == "i" else "fadd"
    text.store(type, text.let(f"{code} {type} {a}, {b}"), goal, align=s.bytes)
