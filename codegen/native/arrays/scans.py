"""Steps of cumulative sums, products and extremes: one element after the other, several lines at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.combiner import Combiner
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import BYTES_PER_NS, StepBuilder, literal, power_of_two_below, split_iterations
from adjit.ir import ops
from adjit.ir.graph import Op

MAX_LINES_AT_ONCE = 4
"""Maximum number of lines in flight: within a line each addition waits for the one before it."""

NS_PER_ADDITION = 1.5

REDUCTIONS = {"cumsum": ops.reduce_sum, "cumprod": ops.reduce_prod, "cummax": ops.reduce_max, "cummin": ops.reduce_min}


def lower_cumulative(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The steps of `cumsum`, `cumprod`, `cummax` or `cummin`, with the same order of additions as NumPy's."""
    type, axis = op.result.type, op.attrs["axis"]
    if not type.size:
        return ()
    before, count, after = math.prod(type.shape[:axis]), type.shape[axis], math.prod(type.shape[axis + 1:])
    text = StepBuilder(target)
    c = Combiner.of(REDUCTIONS[op.name], type.dtype)
    if c.is_rounded:
        c = replace(c, neutral=literal(-0.0, type.dtype))      # preserves a first element of -0.0
    # The lines: adjacent vectors along the dimensions after the axis; or, if there are none, single elements of rows.
    lanes = text.width(after, c.size) if after > 1 else 1
    units, unit_step = (after, lanes) if after > 1 else (before, 1)
    lines = min(MAX_LINES_AT_ONCE, power_of_two_below(units // unit_step))
    chunk = lines * unit_step
    extents = ((before if after > 1 else 1), max(units // chunk, 1))
    distance = lanes if after > 1 else count
    work = type.size * max(2 * c.size / BYTES_PER_NS, NS_PER_ADDITION / (lanes * lines))
    task_split = split_iterations(extents, work)
    vector, row = c.type(lanes), after if after > 1 else 1
    with text.step():
        source, to = text.place(0), text.place(1)
        for _, task in text.parts([task_split.tasks]):
            with (text.iterations(task, extents, task_split) as (outer, block),
                  text.for_range(text.times(block, chunk), text.ends_at(block, units, chunk), chunk) as group):
                unit = group.counter if units % chunk == 0 else text.smaller(group.counter, units - chunk)
                begin = ((outer, count * after), (unit, 1 if after > 1 else count))
                first, goal = text.at(source, c.size, *begin), text.at(to, c.size, *begin)
                with text.for_range(0, count, carried=[(vector, c.neutrals(lanes))] * lines) as loop:
                    index = text.sub(count - 1, loop.counter) if op.attrs["reverse"] else loop.counter
                    here, there = text.at(first, c.size, (index, row)), text.at(goal, c.size, (index, row))
                    elements = [text.load(vector, text.at(here, c.size, k * distance), align=c.size) for k in range(lines)]
                    loop.following = [c.combine(text, lanes, a, b) for a, b in zip(loop.values, elements, strict=True)]
                    for k, total in enumerate(loop.following):
                        text.store(vector, total, text.at(there, c.size, k * distance), align=c.size)
    return (text.code(task_split.tasks, work),)
