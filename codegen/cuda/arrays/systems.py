"""Systems of linear equations with banded matrices: a block of threads for each matrix of a stack."""

from __future__ import annotations

import math

from adjit.codegen.cuda.arrays.matrix_text import Matrix, MatrixText, Number
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op


class _Band:
    """The elements of a matrix near its diagonal, row by row; rows have room for `lower` more elements above, which swaps of rows take."""

    def __init__(self, text: MatrixText, base: Index, lower: int, upper: int):
        self.lower, self.above, self.width = lower, lower + upper, 2 * lower + upper + 1
        self.memory = Matrix(text, text.work, base, self.width, 1)
        self.text = text

    def get(self, i: str, j: str) -> Number:
        return self.memory.get(i, self.text.add(self.text.sub(j, i), self.lower))

    def put(self, i: str, j: str, value: Number) -> None:
        self.memory.put(i, self.text.add(self.text.sub(j, i), self.lower), value)


def lower_banded_solve(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `banded_solve`: elimination with swaps of rows, then a thread solves for its right-hand sides. NaN if a pivot is 0."""
    *stack_sizes, size, columns = op.result.type.shape
    stack = math.prod(stack_sizes)
    if not op.result.type.size:
        return []
    dtype, high, transpose = op.operands[0].type.dtype, op.operands[0].type.shape[-2], op.attrs["transpose"]
    below, above = op.attrs["lower"], op.attrs["upper"]
    lower, upper = (above, below) if transpose else (below, above)
    width = 2 * lower + upper + 1
    threads = WARP if (lower + 1) * (lower + upper + columns) <= WARP else FLAT_THREADS
    text = MatrixText(op, threads, stack * size * width * dtype.itemsize)
    thread, block = text.thread(), text.block_number()
    bands = Matrix(text, text.given[0], text.times(block, high * size), size, 1)
    given = Matrix(text, text.given[1], text.times(block, size * columns), columns, 1)
    x = Matrix(text, text.made[0], text.times(block, size * columns), columns, 1)
    band = _Band(text, text.times(block, size * width), lower, upper)

    with text.shared_out(thread, size * width) as number:
        i, place = text.divided(number, width)
        j = text.sub(text.add(i, place), lower)
        row, column = (text.sub(j, i), i) if transpose else (text.sub(i, j), j)
        row = text.add(row, above)
        inside = text.both(text.compare("ult", j, size), text.compare("ult", row, high))
        value = bands.get(text.select(inside, "i64", row, 0), text.select(inside, "i64", column, 0))
        band.memory.put(i, place, value.where(inside, 0.0))
    with text.shared_out(thread, size * columns) as number:
        i, c = text.divided(number, columns)
        x.put(i, c, given.get(i, c))
    with text.for_range(0, size, 1, [("i1", "false")]) as step:
        k = step.counter
        last_row = text.smaller(text.add(k, lower + 1), size)
        last_column = text.smaller(text.add(k, band.above + 1), size)
        start = text.size_of(band.get(k, k).name)
        with text.for_range(text.add(k, 1), last_row, 1, [(text.part, start), ("i64", k)], empty=True) as search:
            here = text.size_of(band.get(search.counter, k).name)
            better = text.let(f"fcmp ogt {text.part} {here}, {search.values[0]}")
            search.following = [text.select(better, text.part, here, search.values[0]),
                                text.select(better, "i64", search.counter, search.values[1])]
        largest, chosen = text.real_of(search.values[0]), search.values[1]
        text.barrier()
        with text.where(text.compare("ne", chosen, k)):
            with text.shared_out(thread, last_column, k) as j:
                a, b = band.get(k, j), band.get(chosen, j)
                band.put(k, j, b)
                band.put(chosen, j, a)
            with text.shared_out(thread, columns) as c:
                a, b = x.get(k, c), x.get(chosen, c)
                x.put(k, c, b)
                x.put(chosen, c, a)
        next = text.add(k, 1)
        wide = text.sub(last_column, next)
        total = text.add(wide, columns)
        with text.shared_out(thread, text.mul(text.sub(last_row, next), total)) as number:
            i = text.add(text.let(f"udiv i64 {number}, {total}"), next)
            place = text.let(f"urem i64 {number}, {total}")
            factor = band.get(i, k) / band.get(k, k)
            of_band = text.compare("slt", place, wide)
            with text.where(of_band):
                j = text.add(place, next)
                band.put(i, j, band.get(i, j) - factor * band.get(k, j))
            with text.where(text.not_(of_band)):
                c = text.sub(place, wide)
                x.put(i, c, x.get(i, c) - factor * x.get(k, c))
        step.following = [text.either(step.values[0], largest.is_zero())]
    with text.shared_out(thread, columns) as c, text.for_range(0, size) as back:
        k = text.sub(size - 1, back.counter)
        end = text.smaller(text.add(k, band.above + 1), size)
        with text.for_range(text.add(k, 1), end, 1, [(text.type, x.get(k, c).name)], empty=True) as sum:
            sum.following = [(text.of(sum.values[0]) - band.get(k, sum.counter) * x.get(sum.counter, c)).name]
        x.put(k, c, text.of(sum.values[0]) / band.get(k, k))
    text.fill_with_nan(thread, step.values[0], block)
    return text.launched("bands", stack, stack)
