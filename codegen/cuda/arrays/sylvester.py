"""Sylvester's equation a x + x b = q: a block of threads works on the matrices of a stack, as complex ones, in working memory.

By the Schur forms of a and b (Bartels and Stewart, 1972), with triangles in place of LAPACK's blocks: column after column is solved for.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from adjit.codegen.cuda.arrays.eigenvalues import Operand, Schur
from adjit.codegen.cuda.arrays.matrix_text import Matrix, MatrixText, Number
from adjit.codegen.cuda.arrays.orthogonal import block_text, is_bad, scale_of
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op
from adjit.ir.types import complex_dtype, is_complex

Element = Callable[[Index, Index], Number]


def lower_sylvester(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `sylvester`. NaN if an operand is not finite."""
    *sizes, rows, columns = op.result.type.shape
    result = op.result.type.dtype
    stack, dtype = math.prod(sizes), result if is_complex(result) else complex_dtype(result)
    if not op.result.type.size:
        return []
    squares, whole = rows * rows, columns * columns
    each = 2 * (squares + whole + rows * columns)
    text = block_text(op, max(rows, columns), 3 * (rows + columns) * dtype.itemsize // 2, each * stack * dtype.itemsize, dtype)
    thread, block = text.thread(), text.block_number()
    start, places = text.times(block, each), [0]

    def matrix(height: int, width: int) -> Matrix:
        places.append(places[-1] + height * width)
        return Matrix(text, text.work, text.plus(start, places[-2]), width, 1)

    given = [Operand(text, pointer, text.times(block, height * width), width, 1)
             for pointer, height, width in zip(text.given, (rows, columns, rows), (rows, columns, columns), strict=True)]
    bad = "false"
    for operand, height, width in zip(given, (rows, columns, rows), (rows, columns, columns), strict=True):
        bad = text.either(bad, is_bad(text, thread, operand, height, width))
    triangles: list[Element] = []
    vectors, largest = [], text.real_of(0.0)
    for operand, size in zip(given[:2], (rows, columns), strict=True):
        form, turned = matrix(size, size), matrix(size, size)
        power, inverse = scale_of(text, thread, operand, size, size)
        with text.shared_out(thread, size * size) as number:
            i, j = text.divided(number, size)
            form.put(i, j, operand.get(i, j) * inverse)
            turned.put(i, j, text.real_of(1.0).where(text.compare("eq", i, j), 0.0))
        schur = Schur(text, thread, form, turned, size)
        schur.reduce()
        bad = text.either(bad, schur.solve())
        triangles.append(lambda i, j, form=form, power=power: form.get(i, j) * power)       # type: ignore[misc]
        vectors.append(turned)
        largest = power.where(power.over(largest), largest)
    x, between = matrix(rows, columns), matrix(rows, columns)
    (t, s), (u, v) = triangles, vectors

    def product(goal: Callable[[Index, Index, Number], None], inner: int, left: Element, right: Element) -> None:
        with text.shared_out(thread, rows * columns) as number:
            i, j = text.divided(number, columns)
            with text.for_range(0, inner, 1, [(text.type, text.zero)]) as sum:
                sum.following = [(text.of(sum.values[0]) + left(i, sum.counter) * right(sum.counter, j)).name]
            goal(i, j, text.of(sum.values[0]))

    product(between.put, columns, given[2].get, v.get)
    product(x.put, rows, lambda i, k: u.get(k, i).conjugate(), between.get)
    _solve_triangles(text, thread, x, t, s, largest * float(np.finfo(text.real).eps), rows, columns)
    product(between.put, rows, u.get, x.get)
    base = text.times(block, rows * columns)

    def keep(i: Index, j: Index, value: Number) -> None:
        name = value.name if result == text.number_dtype else value.real.name
        text.write([name], text.made[0], result, text.plus(base, text.plus(text.times(i, columns), j)))

    product(keep, columns, between.get, lambda k, j: v.get(j, k).conjugate())
    text.fill_with_nan(thread, bad, block)
    return text.launched("sylvester", stack, stack)


def _solve_triangles(text: MatrixText, thread: str, x: Matrix, t: Element, s: Element, least: Number, rows: int, columns: int) -> None:
    """Solve t x + x s = x for upper triangles, in place. A sum of two eigenvalues that is nothing but rounding is `least`, as LAPACK's."""
    with text.for_range(0, columns) as over_columns:
        j = over_columns.counter
        with text.shared_out(thread, rows) as i:
            with text.for_range(0, j, 1, [(text.type, x.get(i, j).name)], empty=True) as sum:
                sum.following = [(text.of(sum.values[0]) - x.get(i, sum.counter) * s(sum.counter, j)).name]
            x.put(i, j, text.of(sum.values[0]))
        with text.for_range(0, rows) as back:
            i = text.sub(rows - 1, back.counter)
            total = t(i, i) + s(j, j)
            found = x.get(i, j) / total.where(abs(total).over(least), text.of(text.of_parts(least.name)))
            text.barrier()
            with text.where(text.compare("eq", thread, 0)):
                x.put(i, j, found)
            with text.shared_out(thread, i) as above:
                x.put(above, j, x.get(above, j) - t(above, i) * found)
