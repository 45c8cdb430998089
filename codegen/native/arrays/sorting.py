"""Step of `argsort`: a stable merge sort of the indices, which needs no memory but the result.

The result has 64-bit indices. Their halves serve as two arrays of 32-bit indices, and merges alternate between the two, whatever the stride
along the axis. The last pass widens the sorted array to 64 bits.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder, element_type, split_iterations
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Op

INDEX_BYTES = 8
HALF_BYTES = 4
NS_PER_COMPARISON = 5.0


@dataclass(frozen=True, slots=True)
class _Lines:
    """Lines to sort: `count` elements of `size` bytes, `distance` elements apart."""

    element: str
    kind: str
    size: int
    count: int
    distance: int

    @property
    def passes(self) -> int:
        """Number of merge passes until one sorted run is left."""
        return (self.count - 1).bit_length()


def lower_argsort(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `argsort`."""
    type, axis = op.operands[0].type, op.attrs["axis"]
    if not type.size:
        return ()
    if type.shape[axis] >= 1 << 31:
        raise UnsupportedError(f"argsort: the axis has {type.shape[axis]} elements, the limit is 2**31 - 1", op.loc,
                               hint="sort slices of the axis")
    before, after = math.prod(type.shape[:axis]), math.prod(type.shape[axis + 1:])
    lines = _Lines(element_type(type.dtype), type.dtype.kind, type.dtype.itemsize, type.shape[axis], after)
    text, extents = StepBuilder(target), (before, after)
    work = type.size * (1.0 + lines.passes * NS_PER_COMPARISON)
    task_split = split_iterations(extents, work)
    with text.step():
        source, to = text.place(0), text.place(1)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, column):
                keys = text.at(source, lines.size, (outer, lines.count * after), (column, 1))
                indices = text.at(to, INDEX_BYTES, (outer, lines.count * after), (column, 1))
                _sort(text, lines, keys, indices)
    return (text.code(task_split.tasks, work),)


def _sort(text: StepBuilder, lines: _Lines, keys: str, indices: str) -> None:
    with text.for_range(0, lines.count) as loop:
        text.store("i64", loop.counter, _index_address(text, lines, indices, loop.counter), align=INDEX_BYTES)
    if lines.count == 1:
        return
    with text.for_range(0, lines.passes) as merging:
        forth = text.let(f"and i64 {merging.counter}, 1")
        there = text.times(text.let(f"xor i64 {forth}, 1"), HALF_BYTES)
        source = text.at(indices, 1, text.times(forth, HALF_BYTES))
        goal = text.at(indices, 1, there)
        run_length = text.shl(1, merging.counter)
        twice = text.shl(run_length, 1)
        pairs = text.let(f"udiv i64 {lines.count}, {twice}")
        with text.for_range(0, pairs, empty=True) as pair:
            low = text.mul(pair.counter, twice)
            _merge_pair(text, lines, keys, source, goal, low, run_length)
        low = text.mul(pairs, twice)
        _merge_rest(text, lines, keys, source, goal, low, text.smaller(text.add(low, run_length), lines.count))
    with text.for_range(0, lines.count) as loop:
        index = _index_address(text, lines, indices, loop.counter)
        half = text.load("i32", text.at(index, HALF_BYTES, lines.passes % 2), align=HALF_BYTES)
        text.store("i64", text.let(f"zext i32 {half} to i64"), index, align=INDEX_BYTES)


def _merge_pair(text: StepBuilder, lines: _Lines, keys: str, source: str, goal: str, low: str, run_length: str) -> None:
    """Merge two sorted runs of equal length, the first from `low` on. Both ends are merged at once, and neither can leave its half of the
    output."""
    middle = text.add(low, run_length)
    end = text.add(middle, run_length)
    ends = [low, middle, text.sub(middle, 1), text.sub(end, 1)]
    with text.for_range(0, run_length, carried=[("i64", number) for number in ends]) as loop:
        left, right, left_end, right_end = loop.values
        first = text.add(low, loop.counter)
        later = _choose(text, lines, keys, source, left, right, _index_address(text, lines, goal, first), False)
        last = text.sub(text.sub(end, 1), loop.counter)
        sooner = _choose(text, lines, keys, source, left_end, right_end, _index_address(text, lines, goal, last), True)
        loop.following = [text.sub(text.plus(left, 1), later), text.add(right, later),
                          text.sub(left_end, sooner), text.add(text.plus(right_end, -1), sooner)]


def _merge_rest(text: StepBuilder, lines: _Lines, keys: str, source: str, goal: str, low: str, middle: str) -> None:
    """Merge the sorted run from `low` to `middle` with the run behind it, which ends with the line."""
    high, starts = lines.count, [("i64", low), ("i64", middle)]
    with (text.if_(text.compare("slt", middle, high), starts) as merged, text.do_while(starts) as loop):
        left, right = loop.values
        target = _index_address(text, lines, goal, _merged(text, left, right, middle))
        later = _choose(text, lines, keys, source, left, right, target, False)
        loop.following = merged.following = [text.sub(text.plus(left, 1), later), text.add(right, later)]
        loop.again = text.both(text.compare("slt", loop.following[0], middle), text.compare("slt", loop.following[1], high))
    left, right = merged.values
    on_left = text.compare("slt", left, middle)
    start = text.select(on_left, "i64", left, right)
    stop = text.select(on_left, "i64", middle, high)
    moved = text.sub(_merged(text, left, right, middle), start)
    with text.for_range(start, stop, empty=True) as loop:
        value = text.load("i32", _index_address(text, lines, source, loop.counter), align=HALF_BYTES)
        text.store("i32", value, _index_address(text, lines, goal, text.add(loop.counter, moved)), align=HALF_BYTES)


def _choose(text: StepBuilder, lines: _Lines, keys: str, source: str, left: str, right: str, goal: str, largest: bool) -> str:
    """Write the index at position `left` or `right` to `goal`: the one of the smaller element, or, with `largest`, of the larger. Returns 1
    if the right element is the smaller, else 0. Of equal elements the left one counts as the smaller."""
    a, b = (text.load("i32", _index_address(text, lines, source, at), align=HALF_BYTES) for at in (left, right))
    x, y = (text.load(lines.element, text.at(keys, lines.size, (text.let(f"zext i32 {index} to i64"), lines.distance)), align=lines.size)
            for index in (a, b))
    swapped = _less(text, lines, y, x)
    first, second = (a, b) if largest else (b, a)
    text.store("i32", text.let(f"select i1 {swapped}, i32 {first}, i32 {second}"), goal, align=HALF_BYTES)
    return text.let(f"zext i1 {swapped} to i64")


def _merged(text: StepBuilder, left: str, right: str, middle: str) -> str:
    """Position of the next element in the output: the number of elements taken from both runs, plus `low`."""
    return text.sub(text.add(left, right), middle)


def _index_address(text: StepBuilder, lines: _Lines, indices: str, number: str) -> str:
    return text.at(indices, INDEX_BYTES, (number, lines.distance))


def _less(text: StepBuilder, lines: _Lines, a: str, b: str) -> str:
    """True if `a` comes before `b`; NaN comes last."""
    if lines.kind != "f":
        return text.let(f"icmp {'slt' if lines.kind == 'i' else 'ult'} {lines.element} {a}, {b}")
    below = text.let(f"fcmp ult {lines.element} {a}, {b}")
    return text.both(below, text.let(f"fcmp ord {lines.element} {a}, {a}"))
