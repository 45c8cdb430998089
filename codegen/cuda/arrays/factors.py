"""Factors of matrices, and systems of equations that they solve. A block of threads factors a matrix of a stack, step by step in the memory
of the result; a thread solves for one right-hand side. This is for stacks of small matrices: a large one keeps one multiprocessor busy."""

from __future__ import annotations

import math
from collections.abc import Callable

from adjit.codegen.cuda.arrays.matrix_text import MatrixText
from adjit.codegen.cuda.arrays.positions import element_number
from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.target import FLAT_THREADS
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op
from adjit.ir.types import I64

Element = tuple[str, Index]
"""A pointer, and the number of an element there."""


def lower_cholesky(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `cholesky`: a block a matrix, which takes a column of the factor out of the rest in each step."""
    type = op.result.type
    size, stack = type.shape[-1], math.prod(type.shape[:-2])
    if not stack:
        return []
    text = MatrixText(op)
    (source,), (target,), thread = text.given, text.made, text.thread()
    base = text.times(text.block_number(), size * size)

    def at(row: Index, column: Index) -> Index:
        return text.plus(base, text.plus(text.times(row, size), column))

    with text.shared_out(thread, size * size) as number:
        row, column = text.let(f"udiv i64 {number}, {size}"), text.let(f"urem i64 {number}, {size}")
        kept = text.compare("ule", column, row)
        text.put(text.select(kept, text.type, text.get(source, text.plus(base, number)), text.zero), target, text.plus(base, number))
    with text.for_range(0, size, 1, [("i1", "true")]) as step:
        k = step.counter
        pivot = text.real_part(text.get(target, at(k, k)))
        positive = text.let(f"fcmp ogt {text.part} {pivot}, {text.literal(0, text.real)}")
        root = text.applied("sqrt", text.real, pivot)
        text.barrier()
        with text.shared_out(thread, size, k) as row:
            quotient = text.let(f"fdiv {text.type} {text.get(target, at(row, k))}, {text.twice(root)}")
            text.put(text.select(text.compare("eq", row, k), text.type, text.of_parts(root), quotient), target, at(row, k))
        rest = text.sub(text.sub(size, 1), k)
        with text.shared_out(thread, text.mul(rest, rest)) as number:
            row, column = (text.add(text.let(f"{code} i64 {number}, {rest}"), text.add(k, 1)) for code in ("udiv", "urem"))
            with text.where(text.compare("ule", column, row)):
                other = text.conjugated(text.get(target, at(column, k)))
                text.put(text.less_product(text.get(target, at(row, column)), text.get(target, at(row, k)), other), target, at(row, column))
        step.following = [text.both(step.values[0], positive)]
    with text.where(text.not_(step.values[0])), text.shared_out(thread, size * size) as number:
        text.put(text.twice(text.literal(math.nan, text.real)), target, text.plus(base, number))
    return text.launched("cholesky", stack, stack)


def lower_lu(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `lu`: a block a matrix. Each thread finds the pivot by itself; rows are swapped and eliminated together."""
    a = op.operands[0].type
    (rows, columns), stack = a.shape[-2:], math.prod(a.shape[:-2])
    if not stack:
        return []
    text, count = MatrixText(op), min(rows, columns)
    (source,), (factors, pivots, order), thread, block = text.given, text.made, text.thread(), text.block_number()
    base, first_pivot, first_row = (text.times(block, number) for number in (rows * columns, count, rows))

    def at(row: Index, column: Index) -> Index:
        return text.plus(base, text.plus(text.times(column, rows), row))        # the factors are transposed

    with text.shared_out(thread, rows * columns) as number:
        row, column = text.let(f"udiv i64 {number}, {columns}"), text.let(f"urem i64 {number}, {columns}")
        text.put(text.get(source, text.plus(base, number)), factors, at(row, column))
    with text.shared_out(thread, rows) as row:
        text.write([row], order, I64, text.plus(first_row, row))
    with text.for_range(0, count) as step:
        k = step.counter
        start = text.size_of(text.get(factors, at(k, k)))
        with text.for_range(k, rows, 1, [(text.part, start), ("i64", k)]) as search:
            here = text.size_of(text.get(factors, at(search.counter, k)))
            better = text.let(f"fcmp ogt {text.part} {here}, {search.values[0]}")
            search.following = [text.select(better, text.part, here, search.values[0]),
                                text.select(better, "i64", search.counter, search.values[1])]
        chosen = search.values[1]
        text.barrier()
        with text.where(text.compare("eq", thread, 0)):
            text.write([chosen], pivots, I64, text.plus(first_pivot, k))
            _swap(lambda row: text.read(order, I64, text.plus(first_row, row))[0],
                  lambda value, row: text.write([value], order, I64, text.plus(first_row, row)), k, chosen)
        with text.shared_out(thread, columns) as column:
            _swap(lambda row: text.get(factors, at(row, column)),
                  lambda value, row: text.put(value, factors, at(row, column)), k, chosen)
        pivot = text.get(factors, at(k, k))
        is_zero = text.let(f"fcmp oeq {text.part} {text.size_of(pivot)}, {text.literal(0, text.real)}")
        next = text.add(k, 1)
        with text.shared_out(thread, rows, next) as row:
            old = text.get(factors, at(row, k))
            text.put(text.select(is_zero, text.type, old, text.applied("divide", text.number_dtype, old, pivot)), factors, at(row, k))
        below, right = text.sub(rows, next), text.sub(columns, next)
        with text.shared_out(thread, text.mul(below, right)) as number:
            row = text.add(text.let(f"urem i64 {number}, {below}"), next)
            column = text.add(text.let(f"udiv i64 {number}, {below}"), next)
            new = text.less_product(text.get(factors, at(row, column)), text.get(factors, at(row, k)), text.get(factors, at(k, column)))
            text.put(new, factors, at(row, column))
    return text.launched("lu", stack, stack)


def _swap(get: Callable[[str], str], put: Callable[[str, str], None], a: str, b: str) -> None:
    first, second = get(a), get(b)
    put(second, a)
    put(first, b)


def _substituted(text: MatrixText, size: int, lower: bool, unit: bool, factor: Callable[[str, str], str], start: Callable[[str], str],
                 x: Callable[[str], Element]) -> None:
    """Solve a triangular system for one right-hand side: `start(row)` is its element, `x(row)` the place of the solution's. `factor(row,
    column)` is an element of the matrix; it is not read outside of the triangle."""
    with text.for_range(0, size) as step:
        row = step.counter if lower else text.sub(size - 1, step.counter)
        with text.for_range(0, step.counter, 1, [(text.type, start(row))], empty=True) as sum:
            column = sum.counter if lower else text.sub(size - 1, sum.counter)
            sum.following = [text.less_product(sum.values[0], factor(row, column), text.get(*x(column)))]
        found = sum.values[0] if unit else text.applied("divide", text.number_dtype, sum.values[0], factor(row, row))
        text.put(found, *x(row))


def lower_triangular_solve(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `triangular_solve`: a thread a right-hand side."""
    size, columns = op.result.type.shape[-2:]
    lower, transpose = op.attrs["lower"], op.attrs["transpose"]

    def solve(text: MatrixText, matrix: Index, base: Index, column: str) -> None:
        (a, b), (target,) = text.given, text.made

        def factor(row: str, column: str) -> str:
            row, column = (column, row) if transpose else (row, column)
            return text.get(a, text.plus(matrix, text.plus(text.times(row, size), column)))

        def of_row(row: str) -> Index:
            return text.plus(base, text.plus(text.times(row, columns), column))

        _substituted(text, size, lower != transpose, op.attrs["unit"], factor, lambda row: text.get(b, of_row(row)),
                     lambda row: (target, of_row(row)))

    return _for_right_sides(op, solve)


def lower_lu_solve(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `lu_solve`: a thread a right-hand side."""
    size, columns = op.result.type.shape[-2:]

    def solve(text: MatrixText, matrix: Index, base: Index, column: str) -> None:
        (_, factors, order, b), (target,) = text.given, text.made

        def packed(row: str, column: str) -> str:
            return text.get(factors, text.plus(matrix, text.plus(text.times(column, size), row)))

        def of_row(row: str) -> Index:
            return text.plus(base, text.plus(text.times(row, columns), column))

        def ordered(row: str) -> str:
            first = text.times(text.let(f"udiv i64 {element_of}, {columns}"), size)
            return text.read(order, I64, text.plus(first, row))[0]

        element_of = text.thread_number
        if op.attrs["transpose"]:       # rows of x in the order of the rows of the factors
            _substituted(text, size, True, False, lambda row, column: packed(column, row), lambda row: text.get(b, of_row(row)),
                         lambda row: (target, of_row(ordered(row))))
            _substituted(text, size, False, True, lambda row, column: packed(column, row),
                         lambda row: text.get(target, of_row(ordered(row))), lambda row: (target, of_row(ordered(row))))
            return
        _substituted(text, size, True, True, packed, lambda row: text.get(b, of_row(ordered(row))), lambda row: (target, of_row(row)))
        _substituted(text, size, False, False, packed, lambda row: text.get(target, of_row(row)), lambda row: (target, of_row(row)))

    return _for_right_sides(op, solve)


def lower_lu_inverse(op: Op, memory: Memory) -> list[Launch]:
    """The launch of `lu_inverse`: a thread a column of the inverse, which is a row of the result."""
    size = op.result.type.shape[-1]

    def solve(text: MatrixText, matrix: Index, base: Index, column: str) -> None:
        (_, factors, pivots), (target,) = text.given, text.made
        first = text.times(text.let(f"udiv i64 {text.thread_number}, {size}"), size)

        def packed(row: str, column: str) -> str:
            return text.get(factors, text.plus(matrix, text.plus(text.times(column, size), row)))

        def of_row(row: str) -> tuple[str, Index]:
            return target, text.plus(base, text.plus(text.times(column, size), row))

        with text.for_range(0, size, 1, [("i64", column), ("i1", "false")]) as step:      # where the swaps take the row of the 1
            k, place = step.counter, step.values[0]
            (pivot,) = text.read(pivots, I64, text.plus(first, k))
            moved = text.select(text.compare("eq", place, pivot), "i64", k, place)
            diagonal = text.size_of(packed(k, k))
            is_zero = text.let(f"fcmp oeq {text.part} {diagonal}, {text.literal(0, text.real)}")
            step.following = [text.select(text.compare("eq", place, k), "i64", pivot, moved), text.either(step.values[1], is_zero)]
        place, singular = step.values
        one = text.of_parts(text.literal(1, text.real))
        _substituted(text, size, True, True, packed, lambda row: text.select(text.compare("eq", row, place), text.type, one, text.zero),
                     of_row)
        _substituted(text, size, False, False, packed, lambda row: text.get(*of_row(row)), of_row)
        with text.where(singular), text.for_range(0, size) as loop:
            text.put(text.twice(text.literal(math.nan, text.real)), *of_row(loop.counter))

    return _for_right_sides(op, solve)


def _for_right_sides(op: Op, solve: Callable[[MatrixText, Index, Index, str], None]) -> list[Launch]:
    """The launch that calls `solve(text, matrix, right, column)` for each column of a stack of right-hand sides: the numbers of the first
    elements of its square matrix and of its right-hand sides, and the number of the column."""
    *stack, rows, columns = op.result.type.shape
    total = math.prod(stack) * columns
    if not total:
        return []
    text = MatrixText(op)
    number = text.thread_number = element_number(text)
    with text.where(text.compare("slt", number, text.count)):
        matrix = text.let(f"udiv i64 {number}, {columns}")
        solve(text, text.times(matrix, rows * rows), text.times(matrix, rows * columns), text.let(f"urem i64 {number}, {columns}"))
    return text.launched(op.name, -(-total // FLAT_THREADS), total)
