"""Steps of `argmax` and `argmin`: the best element so far and its index, in every lane."""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, element_type, power_of_two_below, split_iterations
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op

INDEX_BYTES = 8
MAX_VECTORS_AT_ONCE = 4
"""Maximum number of independent vectors in flight: each comparison waits for the one before it on the same vector."""

Best = tuple[str, str]
"""A vector of elements and a vector of their indices."""


@dataclass(frozen=True, slots=True)
class _Order:
    """Comparison that chooses the better of two elements."""

    element: str
    kind: str
    largest: bool
    index: str                 # type of indices during comparisons: as wide as the elements if that is enough for the axis

    def better(self, text: StepBuilder, lanes: int, x: str, best: str) -> str:
        """Mask of lanes in which `x` is strictly better. NaN is better than everything but NaN."""
        type = f"<{lanes} x {self.element}>"
        side = "gt" if self.largest else "lt"
        if self.kind != "f":
            return text.let(f"icmp {'s' if self.kind == 'i' else 'u'}{side} {type} {x}, {best}")
        beyond = text.let(f"fcmp u{side} {type} {x}, {best}")
        return text.let(f"and <{lanes} x i1> {beyond}, {text.let(f'fcmp ord {type} {best}, {best}')}")

    def choose(self, text: StepBuilder, lanes: int, taken: str, new: Best, old: Best) -> Best:
        """Element and index: those of `new` in the lanes of the mask `taken`, else those of `old`."""
        value = text.let(f"select <{lanes} x i1> {taken}, <{lanes} x {self.element}> {new[0]}, <{lanes} x {self.element}> {old[0]}")
        index = text.let(f"select <{lanes} x i1> {taken}, <{lanes} x {self.index}> {new[1]}, <{lanes} x {self.index}> {old[1]}")
        return value, index

    def first_of(self, text: StepBuilder, lanes: int, low: Best, high: Best) -> Best:
        """The better one of two, lane by lane; of equal elements the one with the smaller index."""
        better, worse = self.better(text, lanes, high[0], low[0]), self.better(text, lanes, low[0], high[0])
        mask = f"<{lanes} x i1>"
        either = text.let(f"or {mask} {better}, {worse}")
        earlier = text.let(f"icmp ult <{lanes} x {self.index}> {high[1]}, {low[1]}")
        return self.choose(text, lanes, text.let(f"select {mask} {either}, {mask} {better}, {mask} {earlier}"), high, low)

    def across(self, text: StepBuilder, lanes: int, best: Best) -> Best:
        """The best over all lanes; of equal elements the first."""
        while lanes > 1:
            half, types = lanes // 2, (f"<{lanes} x {self.element}>", f"<{lanes} x {self.index}>")
            (x, i), (y, j) = ([text.shuffle(type, vector, "poison", range(first, first + half))
                               for type, vector in zip(types, best, strict=True)] for first in (0, half))
            best, lanes = self.first_of(text, half, (x, i), (y, j)), half
        return best


def lower_argmax(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The step of `argmax` or `argmin`. Vectors lie along the dimensions after the axis, each lane a result; if there are none, along the
    axis."""
    type, axis = op.operands[0].type, op.attrs["axis"]
    if not op.result.type.size:
        return ()
    before, count, after = math.prod(type.shape[:axis]), type.shape[axis], math.prod(type.shape[axis + 1:])
    text, size = StepBuilder(target), type.dtype.itemsize
    order = _Order(element_type(type.dtype), type.dtype.kind, op.name == "argmax", "i32" if size < 8 and count < 1 << 31 else "i64")
    along_axis = after == 1
    line = count if along_axis else after
    lanes = text.width(line, size)
    vectors = min(MAX_VECTORS_AT_ONCE, power_of_two_below(line // lanes))
    chunk = lanes * vectors
    extents = (before, 1 if along_axis else max(after // chunk, 1))
    work = type.size * max(size / BYTES_PER_NS, 1.0 / chunk) + 5.0 * op.result.type.size / (1 if along_axis else lanes)
    task_split = split_iterations(extents, work)
    with text.step():
        source, to = text.place(0), text.place(1)
        for _, task in text.parts([task_split.tasks]):
            with text.iterations(task, extents, task_split) as (outer, block):
                if along_axis:
                    row = text.at(source, size, (outer, count))
                    best = _best(text, order, lanes, vectors, row, count, chunk, 1, size)
                    while len(best) > 1:
                        best = [order.first_of(text, lanes, *pair) for pair in zip(best[::2], best[1::2], strict=True)]
                    index = order.across(text, lanes, best[0])[1]
                    text.store("<1 x i64>", _as_i64(text, index, 1, order.index), text.at(to, INDEX_BYTES, (outer, 1)), align=INDEX_BYTES)
                    continue
                with text.for_range(text.times(block, chunk), text.ends_at(block, after, chunk), chunk) as loop:
                    column = loop.counter if after % chunk == 0 else text.smaller(loop.counter, after - chunk)
                    first = text.at(source, size, (outer, count * after), (column, 1))
                    goal = text.at(to, INDEX_BYTES, (outer, after), (column, 1))
                    for k, (_, index) in enumerate(_best(text, order, lanes, vectors, first, count, 1, after, size)):
                        at = text.at(goal, INDEX_BYTES, k * lanes)
                        text.store(f"<{lanes} x i64>", _as_i64(text, index, lanes, order.index), at, align=INDEX_BYTES)
    return (text.code(task_split.tasks, work),)


def _best(text: StepBuilder, order: _Order, lanes: int, vectors: int, first: str, count: int, step: int, stride: int,
          size: int) -> list[Best]:
    """The best of `count` positions and its index, for each lane of `vectors` adjacent vectors. `step` positions are consumed per
    iteration: 1, or, if the vectors lie along the axis, the number of all lanes."""
    vector, indices = f"<{lanes} x {order.element}>", f"<{lanes} x {order.index}>"

    def load(number: str) -> list[str]:
        at = text.at(first, size, (number, stride))
        return [text.load(vector, text.at(at, size, k * lanes), align=size) for k in range(vectors)]

    def numbers(k: int) -> str:
        return f"<{', '.join(f'{order.index} {k * lanes + lane if step > 1 else 0}' for lane in range(lanes))}>"

    start = [(x, numbers(k)) for k, x in enumerate(load("0"))]
    if count <= step:
        return start
    carried = [(type, value) for pair in start for type, value in zip((vector, indices), pair, strict=True)]
    with text.for_range(step, count, step, carried=carried) as loop:
        number = loop.counter if count % step == 0 else text.smaller(loop.counter, count - step)
        short = text.splat(order.index, number if order.index == "i64" else text.let(f"trunc i64 {number} to i32"), lanes)
        following: list[str] = []
        for k, x in enumerate(load(number)):
            old = (loop.values[2 * k], loop.values[2 * k + 1])
            here = text.let(f"add {indices} {short}, {numbers(k)}")
            following += order.choose(text, lanes, order.better(text, lanes, x, old[0]), (x, here), old)
        loop.following = following
    return [(following[2 * k], following[2 * k + 1]) for k in range(vectors)]


def _as_i64(text: StepBuilder, index: str, lanes: int, type: str) -> str:
    return index if type == "i64" else text.let(f"zext <{lanes} x {type}> {index} to <{lanes} x i64>")
