"""`argmax` and `argmin` as steps: the best element so far and its place, in every lane."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from adjit.codegen.native.step_code import StepCode
from adjit.codegen.native.step_text import BYTES_A_NANOSECOND, StepText, element_type, share_rounds
from adjit.codegen.target import Target
from adjit.ir.graph import Op

INDEX_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Order:
    """Which of two elements is the better one."""

    element: str
    kind: str
    largest: bool
    place: str                 # the type of places while they are compared: as wide as the elements, where that is enough

    def better(self, text: StepText, lanes: int, x: str, best: str) -> str:
        """Whether `x` is strictly better; NaN is better than all but NaN."""
        type = f"<{lanes} x {self.element}>"
        side = "gt" if self.largest else "lt"
        if self.kind != "f":
            return text.let(f"icmp {'s' if self.kind == 'i' else 'u'}{side} {type} {x}, {best}")
        beyond = text.let(f"fcmp u{side} {type} {x}, {best}")
        return text.let(f"and <{lanes} x i1> {beyond}, {text.let(f'fcmp ord {type} {best}, {best}')}")

    def choose(self, text: StepText, lanes: int, taken: str, new: tuple[str, str], old: tuple[str, str]) -> tuple[str, str]:
        """The element and the place, both new or both old."""
        value = text.let(f"select <{lanes} x i1> {taken}, <{lanes} x {self.element}> {new[0]}, <{lanes} x {self.element}> {old[0]}")
        place = text.let(f"select <{lanes} x i1> {taken}, <{lanes} x {self.place}> {new[1]}, <{lanes} x {self.place}> {old[1]}")
        return value, place

    def across(self, text: StepText, lanes: int, best: tuple[str, str]) -> tuple[str, str]:
        """The best of all lanes; of equal ones the first."""
        while lanes > 1:
            half, types = lanes // 2, (f"<{lanes} x {self.element}>", f"<{lanes} x {self.place}>")
            low, high = (tuple(text.shuffle(type, vector, "poison", range(first, first + half))
                               for type, vector in zip(types, best, strict=True)) for first in (0, half))
            better, worse = self.better(text, half, high[0], low[0]), self.better(text, half, low[0], high[0])
            either = text.let(f"or <{half} x i1> {better}, {worse}")
            earlier = text.let(f"icmp ult <{half} x {self.place}> {high[1]}, {low[1]}")
            taken = text.let(f"select <{half} x i1> {either}, <{half} x i1> {better}, <{half} x i1> {earlier}")
            best, lanes = self.choose(text, half, taken, (high[0], high[1]), (low[0], low[1])), half
        return best


def lower_extremum_place(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `argmax` or `argmin`. Vectors lie along what follows the axis, each lane a result; or, where nothing does, along the axis."""
    type, axis = op.operands[0].type, op.attrs["axis"]
    if not op.result.type.size:
        return ()
    before, count, after = math.prod(type.shape[:axis]), type.shape[axis], math.prod(type.shape[axis + 1:])
    text, size = StepText(target), type.dtype.itemsize
    order = _Order(element_type(type.dtype), type.dtype.kind, op.name == "argmax", "i32" if size < 8 and count < 1 << 31 else "i64")
    along_axis = after == 1
    lanes = text.width(count if along_axis else after, size)
    extents = (before, max(after // lanes, 1))
    work = type.size * max(size / BYTES_A_NANOSECOND, 1.5 / lanes)
    share = share_rounds(extents, work)
    with text.step():
        source, to = text.place(0), text.place(1)
        for _, task in text.parts([share.tasks]):
            with text.rounds(task, extents, share) as (outer, block):
                if along_axis:
                    row = text.at(source, size, (outer, count))
                    numbers = f"<{', '.join(f'{order.place} {lane}' for lane in range(lanes))}>"
                    best = _best(text, order, lanes, row, numbers, count, lanes, 1, size)
                    _, place = order.across(text, lanes, best)
                    text.store("<1 x i64>", _as_i64(text, place, 1, order.place), text.at(to, INDEX_BYTES, (outer, 1)), INDEX_BYTES)
                    continue
                with text.loop(text.times(block, lanes), text.ends_at(block, after, lanes), lanes) as loop:
                    column = loop.counter if after % lanes == 0 else text.smaller(loop.counter, after - lanes)
                    first = text.at(source, size, (outer, count * after), (column, 1))
                    _, place = _best(text, order, lanes, first, "zeroinitializer", count, 1, after, size)
                    goal = text.at(to, INDEX_BYTES, (outer, after), (column, 1))
                    text.store(f"<{lanes} x i64>", _as_i64(text, place, lanes, order.place), goal, INDEX_BYTES)
    return (text.code(share.tasks, work),)


def _best(text: StepText, order: _Order, lanes: int, first: str, numbers: str, count: int, step: int, stride: int,
          size: int) -> tuple[str, str]:
    """The best of `count` places and where it is, in each lane; `step` places go by with each vector, the first ones are `numbers`."""
    vector, places = f"<{lanes} x {order.element}>", f"<{lanes} x {order.place}>"
    start = (text.load(vector, first, size), numbers)
    if count <= step:
        return start
    with text.loop(step, count, step, carried=[(vector, start[0]), (places, start[1])]) as loop:
        number = loop.counter if count % step == 0 else text.smaller(loop.counter, count - step)
        line = text.load(vector, text.at(first, size, (number, stride)), size)
        short = number if order.place == "i64" else text.let(f"trunc i64 {number} to i32")
        here = text.let(f"add {places} {text.splat(order.place, short, lanes)}, {numbers}")
        best = (loop.values[0], loop.values[1])
        loop.following = order.choose(text, lanes, order.better(text, lanes, line, best[0]), (line, here), best)
    return loop.following[0], loop.following[1]


def _as_i64(text: StepText, place: str, lanes: int, type: str) -> str:
    return place if type == "i64" else text.let(f"zext <{lanes} x {type}> {place} to <{lanes} x i64>")
