"""Steps of gather and scatter ops: reads and writes at indices that are data.

The first step checks the indices, before anything is written; or the step that reads does, where
nobody sees what was written. Updates are applied in the order of the indices: each task owns its elements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjit.codegen.llvm.builder import Value
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.movement import copy_of
from adjit.codegen.native.arrays.strided_copy import lower_moves
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, element_type, split_iterations
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op

INDEX_BYTES = 8
CHECKED_INDICES = 1024
"""Indices that are checked before their rows are read: they are in the fastest cache then."""

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
    count = op.operands[1].type.size
    if not count or "in_range" in op.attrs:
        return ()
    text = StepBuilder(target)
    with text.step():
        _check(text, op, text.place(1), 0, count)
    return (text.code(1, count * INDEX_BYTES / BYTES_PER_NS, checks=True),)


def _check(text: StepBuilder, op: Op, indices: str, low: Value, high: Value) -> None:
    """Return from the step if one of the indices `low` to `high` is not within the axis, or another one that shares a vector with these."""
    count, size = op.operands[1].type.size, op.operands[0].type.shape[op.attrs["axis"]]
    width, from_end = text.width(count, INDEX_BYTES), "from_end" in op.attrs
    vector, mask = f"<{width} x i64>", f"<{width} x i1>"
    with text.for_range(low, high, width, carried=[(mask, "zeroinitializer")]) as loop:
        start = loop.counter if low == 0 and count % width == 0 else text.smaller(loop.counter, count - width)
        numbers = text.load(vector, text.at(indices, INDEX_BYTES, (start, 1)), align=INDEX_BYTES)
        if from_end:
            numbers = text.let(f"add {vector} {numbers}, splat (i64 {size})")
        wrong = text.let(f"icmp uge {vector} {numbers}, splat (i64 {2 * size if from_end else size})")
        loop.following = [text.let(f"or {mask} {loop.values[0]}, {wrong}")]
    found = text.call("i1", f"@llvm.vector.reduce.or.v{width}i1", (mask, loop.following[0]))
    with text.if_(found), text.for_range(0, count) as loop:
        number = _index(text, op, indices, (loop.counter, 1))
        with text.if_(text.compare("uge", number, size)):
            text.ret("i64", text.plus(loop.counter, 1))


def _index(text: StepBuilder, op: Op, indices: str, *at: tuple[Value, int]) -> Value:
    """The index at a place, counted from the start of the axis."""
    number = text.load("i64", text.at(indices, INDEX_BYTES, *at), align=INDEX_BYTES)
    if "from_end" not in op.attrs:
        return number
    size = op.operands[0].type.shape[op.attrs["axis"]]
    return text.select(text.compare("slt", number, 0), "i64", text.plus(number, size), number)


# -- reading


def lower_take(op: Op, shared: Mapping[int, int], target: Target, check_first: bool = False) -> tuple[StepCode, ...]:
    """The step of `take`: `before x count` rows at the indices. It checks them, too, unless they are read again for each position before
    the axis, or nothing may be written before all are checked (`check_first`)."""
    s, check = _Shape.of(op), lower_check(op, target)
    if not op.result.type.size:
        return check
    if check and s.before == 1 and not check_first:
        return (_checked_take(op, s, target),)
    text, extents, row = StepBuilder(target), (s.before, s.count), s.after * s.bytes
    task_split = split_iterations(extents, _take_work(op, s))
    with text.step():
        source, indices, to = text.place(0), text.place(1), text.place(2)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, position):
                number = _index(text, op, indices, (position, 1))
                text.copy(text.at(to, row, (outer, s.count), (position, 1)), text.at(source, row, (outer, s.size), (number, 1)), row)
    return (*check, text.code(task_split.tasks, _take_work(op, s)))


def _take_work(op: Op, s: _Shape) -> float:
    return op.result.type.size * max(s.bytes * 2 / BYTES_PER_NS, 1.5 / s.after)


def _checked_take(op: Op, s: _Shape, target: Target) -> StepCode:
    """The step of `take` along the first axis that checks indices, too: a chunk at a time, before its rows are read. A check of each index
    as its row is read would have fewer reads in flight."""
    text, row = StepBuilder(target), s.after * s.bytes
    task_split = split_iterations((s.count,), _take_work(op, s))
    per_task = task_split.per_task if task_split.loops else s.count
    with text.step():
        source, indices, to = text.place(0), text.place(1), text.place(2)
        for _, task in text.parts([task_split.tasks]):
            low: Value = "0" if task_split.tasks == 1 else text.times(task, per_task)
            high = str(s.count) if task_split.tasks == 1 else text.smaller(text.plus(low, per_task), s.count)
            with text.for_range(low, high, CHECKED_INDICES) as chunk:
                stop = text.smaller(text.plus(chunk.counter, CHECKED_INDICES), high)
                _check(text, op, indices, chunk.counter, stop)
                with text.for_range(chunk.counter, stop) as loop:
                    number = _index(text, op, indices, (loop.counter, 1))
                    text.copy(text.at(to, row, (loop.counter, 1)), text.at(source, row, (number, 1)), row)
    return text.code(task_split.tasks, _take_work(op, s), checks=True)


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
                number = _index(text, op, indices, *at)
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
                number = _index(text, op, indices, (position, 1))
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
                number = _index(text, op, indices, *at)
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
