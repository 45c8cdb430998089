"""Naive loops for products of integer and bool matrices, and for products with an empty inner dimension."""

from __future__ import annotations

import math
from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.strided_copy import Axis, Move, lower_moves
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder, element_type, power_of_two_below, split_iterations
from adjit.ir.graph import Op

MAX_VECTORS_AT_ONCE = 4
"""Maximum vectors of a row of the result that are computed at once."""

_CODES = {"b": ("and", "or"), "i": ("mul", "add"), "u": ("mul", "add"), "f": ("fmul", "fadd")}


def lower_naive_matmul(op: Op, shared: Mapping[int, int], target: Target) -> tuple[StepCode, ...]:
    """The product as a step. Integers wrap around; for bools it is "or" of "and"; an empty inner dimension gives 0."""
    type = op.result.type
    if not type.size:
        return ()
    transpose_a, transpose_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows, columns = type.shape[-2:]
    inner = op.operands[0].type.shape[-2 if transpose_a else -1]
    if not inner:
        return lower_moves([Move(type.dtype.itemsize, (Axis(type.size, 0, 1),), bits=0)], 2, target)
    row_a, inner_a = (1, rows) if transpose_a else (inner, 1)
    inner_b, column_b = (1, inner) if transpose_b else (columns, 1)
    text, size, element = StepBuilder(target), type.dtype.itemsize, element_type(type.dtype)
    lanes = 1 if transpose_b else text.width(columns, size)
    vectors = min(MAX_VECTORS_AT_ONCE, power_of_two_below(columns // lanes))
    chunk, vector = lanes * vectors, f"<{lanes} x {element}>"
    times, plus = _CODES[type.dtype.kind]
    extents = (math.prod(type.shape[:-2]), rows, max(columns // chunk, 1))
    work = type.size * inner * 1.0 / lanes
    task_split = split_iterations(extents, work)
    with text.step():
        from_a, from_b, to = text.place(0), text.place(1), text.place(2)
        for _, task in text.parts([task_split.tasks]):
            with (text.iterations(task, extents, task_split) as (product, row, block),
                  text.for_range(text.times(block, chunk), text.ends_at(block, columns, chunk), chunk) as loop):
                column = loop.counter if columns % chunk == 0 else text.smaller(loop.counter, columns - chunk)
                left = text.at(from_a, size, (product, rows * inner), (row, row_a))
                right = text.at(from_b, size, (product, inner * columns), (column, column_b))
                with text.for_range(0, inner, carried=[(vector, "zeroinitializer")] * vectors) as along:
                    factor = text.splat(element, text.load(element, text.at(left, size, (along.counter, inner_a)), align=size), lanes)
                    line = text.at(right, size, (along.counter, inner_b))
                    others = [text.load(vector, text.at(line, size, k * lanes * column_b), align=size) for k in range(vectors)]
                    terms = [text.let(f"{times} {vector} {factor}, {other}") for other in others]
                    along.following = [text.let(f"{plus} {vector} {a}, {b}") for a, b in zip(along.values, terms, strict=True)]
                goal = text.at(to, size, (product, rows * columns), (row, columns), (column, 1))
                for k, total in enumerate(along.following):
                    text.store(vector, total, text.at(goal, size, k * lanes), align=size)
    return (text.code(task_split.tasks, work),)
