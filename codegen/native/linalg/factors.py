"""Steps of Cholesky and LU factors, and of what is solved with them.

Row-major matrices are passed as they are where LAPACK can take them for transposed ones: the lower triangle of rows is an upper one of
columns, and x of a x = b is, with rows for columns, x of x aᵀ = b.
"""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.linalg.blocks import BlockStep, Triangle
from adjit.codegen.native.linalg.lapack_step import BLOCK, LapackStep
from adjit.codegen.native.program_code import StepCode
from adjit.ir.graph import Op

Shared = Mapping[int, int]

MIN_SIZE = {"cholesky": 80, "lu": 72, "lu_inverse": 48, "inverse": 48, "triangular_solve": 48, "lu_solve": 48}
"""Rows from which our own blocks are faster than OpenBLAS, by op: of 100, 400 and 1000 rows they take, for float64 on a Zen 4 with one
thread, 0.85, 0.80 and 0.82 of the time for Cholesky factors, 0.78, 0.73 and 0.83 for LU factors, 0.53, 0.50 and 0.39 for an inverse, 0.49,
0.56 and 0.78 for triangular systems of as many right-hand sides. `inverse` is of symmetric matrices: 50 and 75 rows take 0.75 and 0.65."""

MIN_UNKNOWNS = 48 * 48
"""Unknowns of a triangular system from which blocks are faster, unless there is one right-hand side."""

TURNED = range(48, 80)
"""Sizes at which the lower factor of columns, with copies before and after it, takes OpenBLAS less than the upper one. For n = 32 it takes
1.5 of the time; complex matrices were not measured."""


def by_blocks(text: LapackStep, size: int, name: str = "") -> bool:
    """True if our own blocks are faster for the op of the step, or for a part of it that another op has this `name` for."""
    return not text.is_complex and size >= MIN_SIZE[name or text.op.name]


def lower_cholesky(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `cholesky`."""
    size = op.result.type.shape[-1]
    text = BlockStep(op, target, size ** 3 / 3)
    with text.each_matrix() as (a, factor):
        info = text.numbers(1, 4)
        if by_blocks(text, size):
            text.cholesky(a, factor, info)
        elif text.is_small(size) or (size in TURNED and not text.is_complex):
            matrix = text.numbers(size * size)
            text.turn(a, matrix, size, size)
            if text.is_small(size):
                text.small_cholesky(matrix, size, info)
            else:
                text.lapack("potrf", "L", size, matrix, size, info)
            text.turn(matrix, factor, size, size)
        else:
            text.copy(factor, a, size * size * text.size)
            text.lapack("potrf", "U", size, factor, size, info)
        with text.unless_failed(info, (factor, text.parts_each * size * size)), text.for_range(0, size) as row:
            begin = text.at(factor, text.size, (row.counter, size + 1), 1)
            text.zero(begin, text.sub(size - 1, row.counter))
    return text.finished()


def lower_triangular_solve(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `triangular_solve`."""
    rows, columns = op.result.type.shape[-2:]
    text = BlockStep(op, target, rows * rows * columns)
    attrs = op.attrs
    with text.each_matrix() as (a, b, x):
        text.copy(x, b, rows * columns * text.size)
        _solve(text, a, x, rows, columns, not attrs["lower"], not attrs["transpose"], attrs["unit"])
    return text.finished() if columns else ()


def _solve(text: BlockStep, a: str, x: str, rows: int, columns: int, lower: bool, transpose: bool, unit: bool) -> None:
    """Overwrite `x` with the solution of a x = x, for a triangle `a` of columns. What is not finite is left to BLAS: in products it would
    meet the zeros of the inverses."""
    if text.is_small(rows):
        if columns == 1:
            text.small_solve(a, x, rows, lower=lower, transpose=transpose, unit=unit)
        else:
            text.small_solve_matrix(a, x, rows, columns, lower=lower, transpose=transpose, unit=unit)
        return
    if columns == 1 or rows * columns < MIN_UNKNOWNS or not by_blocks(text, rows):
        _solve_by_blas(text, a, x, rows, columns, lower, transpose, unit)
        return
    blocks = Triangle(a, rows, lower != transpose, not transpose, unit)
    inverses, good = text.inverses(blocks)
    good = text.both(good, text.finite_sum(x, rows * columns))
    good = text.both(good, text.finite_sum(inverses, rows * blocks.width))
    with text.if_(good):
        text.negate(x, x, rows, columns, columns, columns)
        text.divide(blocks, inverses, x, columns, columns)
    with text.if_(text.not_(good)):
        _solve_by_blas(text, a, x, rows, columns, lower, transpose, unit)


def _solve_by_blas(text: LapackStep, a: str, x: str, rows: int, columns: int, lower: bool, transpose: bool, unit: bool) -> None:
    triangle, diagonal = "L" if lower else "U", "U" if unit else "N"
    if columns == 1:
        text.blas("trsv", triangle, "T" if transpose else "N", diagonal, rows, a, rows, x, 1)
    else:       # with rows for columns: x aᵀ = x
        text.blas("trsm", "R", triangle, "N" if transpose else "T", diagonal, columns, rows, 1.0, a, rows, x, columns)


def lower_lu(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `lu`."""
    rows, columns = op.operands[0].type.shape[-2:]
    count = min(rows, columns)
    text = BlockStep(op, target, 2.0 * rows * columns * count / (3 if rows == columns else 1.5))
    with text.each_matrix() as (a, factors, pivots, order):
        info, swaps = text.numbers(1, 4), text.numbers(count, 4)
        text.turn(a, factors, rows, columns)
        if rows == columns:
            _factor(text, factors, swaps, rows, info)
        else:
            text.lapack("getrf", rows, columns, factors, rows, swaps, info)
        text.integers_at(swaps, pivots, count, -1, widen=True)
        with text.for_range(0, rows) as row:
            text.store("i64", row.counter, text.at(order, "i64", row.counter))
        with text.for_range(0, count) as row:
            here = text.at(order, "i64", row.counter)
            there = text.at(order, "i64", text.load("i64", text.at(pivots, "i64", row.counter)))
            first, second = text.load("i64", here), text.load("i64", there)
            text.store("i64", second, here)
            text.store("i64", first, there)
    return text.finished()


def _factor(text: BlockStep, matrix: str, swaps: str, size: int, info: str) -> None:
    """Overwrite a square matrix of columns with its LU factors."""
    if text.is_small(size):
        text.small_lu(matrix, swaps, size)
    elif by_blocks(text, size, "lu"):
        text.lu(matrix, swaps)
    else:
        text.lapack("getrf", size, size, matrix, size, swaps, info)


def lower_lu_solve(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `lu_solve`."""
    rows, columns = op.result.type.shape[-2:]
    text = BlockStep(op, target, 2.0 * rows * rows * columns)
    with text.each_matrix() as (_, factors, order, b, x):
        if op.attrs["transpose"]:
            half = text.numbers(rows * columns)
            text.copy(half, b, rows * columns * text.size)
            _solve(text, factors, half, rows, columns, lower=False, transpose=True, unit=False)
            _solve(text, factors, half, rows, columns, lower=True, transpose=True, unit=True)
            _copy_rows(text, half, x, order, rows, columns, scatter=True)
        else:
            _copy_rows(text, b, x, order, rows, columns, scatter=False)
            _solve(text, factors, x, rows, columns, lower=True, transpose=False, unit=True)
            _solve(text, factors, x, rows, columns, lower=False, transpose=False, unit=False)
    return text.finished() if columns else ()


def _copy_rows(text: LapackStep, source: str, to: str, order: str, rows: int, columns: int, scatter: bool) -> None:
    """Copy rows `order[i]` to rows i, or, to scatter, rows i to rows `order[i]`."""
    with text.for_range(0, rows) as row:
        other = text.load("i64", text.at(order, "i64", row.counter))
        first, second = (row.counter, other) if scatter else (other, row.counter)
        text.copy(text.at(to, text.size, (second, columns)), text.at(source, text.size, (first, columns)), columns * text.size)


def lower_lu_inverse(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `lu_inverse`."""
    size = op.result.type.shape[-1]
    text = BlockStep(op, target, 4.0 / 3.0 * size ** 3)
    with text.each_matrix() as (_, factors, pivots, inverse):
        swaps = text.numbers(size, 4)
        text.integers_at(pivots, swaps, size, 1, widen=False)
        _invert(text, size, factors, pivots, swaps, inverse)
    return text.finished()


def _invert(text: BlockStep, size: int, factors: str, pivots: str, swaps: str, inverse: str) -> None:
    """Write the transposed inverse, by LU factors and swaps of rows, counted from 0 and, 32 bits wide, from 1."""
    info, working = text.numbers(1, 4), text.numbers(size * BLOCK)
    finite = text.finite_sum(factors, size * size)
    with text.if_(finite):
        small = text.is_small(size)
        if small or by_blocks(text, size, "lu_inverse"):
            good = text.small_lu_inverse(factors, inverse, size, pivots) if small else text.lu_inverse(factors, inverse, pivots)
            text.store("i32", text.let(f"zext i1 {text.not_(good)} to i32"), info)
        else:
            text.copy(inverse, factors, size * size * text.size)
            text.lapack("getri", size, inverse, size, swaps, working, size * BLOCK, info)
        with text.unless_failed(info, (inverse, text.parts_each * size * size)):
            pass
    with text.if_(text.not_(finite)):
        _invert_by_systems(text, size, factors, swaps, inverse)


def _invert_by_systems(text: BlockStep, size: int, factors: str, swaps: str, inverse: str) -> None:
    """Write the transposed inverse of what is not finite: `getri` loses infinities and NaN where systems of equations, which NumPy solves,
    do not."""
    info = text.numbers(1, 4)
    text.zero(inverse, size * size)
    with text.for_range(0, size) as row:
        text.store(text.real, text.one, text.at(inverse, text.size, (row.counter, size + 1)))
    text.lapack("getrs", "N", size, size, factors, size, swaps, inverse, size, info)


def lower_inverse(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `inverse`. If the matrix is finite, the transposed one is inverted, where the inverse is not to be transposed."""
    size = op.result.type.shape[-1]
    text = BlockStep(op, target, 2.0 * size ** 3)
    with text.each_matrix() as (a, inverse):
        info, factors = text.numbers(1, 4), text.numbers(size * size)
        swaps, pivots = text.numbers(size, 4), text.numbers(size, 8)
        text.store("i32", 1, info)
        if not text.is_complex:
            with text.if_(text.may_be_positive(a)):
                _invert_positive(text, size, a, inverse, factors, info)
        with text.if_(text.compare("ne", text.load("i32", info), 0, "i32")):
            finite = "true"
            if not op.attrs["transposed"]:
                finite = text.finite_sum(a, size * size)
                with text.if_(text.not_(finite)):
                    text.turn(a, factors, size, size)
                    text.lapack("getrf", size, size, factors, size, swaps, info)
                    _invert_by_systems(text, size, factors, swaps, inverse)
                    text.copy(factors, inverse, size * size * text.size)
                    text.turn(factors, inverse, size, size)
            with text.if_(finite):
                if op.attrs["transposed"]:
                    text.turn(a, factors, size, size)
                else:
                    text.copy(factors, a, size * size * text.size)
                _factor(text, factors, swaps, size, info)
                text.integers_at(swaps, pivots, size, -1, widen=True)
                _invert(text, size, factors, pivots, swaps, inverse)
    return text.finished()


def _invert_positive(text: BlockStep, size: int, a: str, inverse: str, working: str, info: str) -> None:
    """Write the inverse of a symmetric matrix; `info` is not 0 if it is not positive definite, or the inverse is not finite."""
    if by_blocks(text, size):
        text.symmetric_inverse(a, inverse, working, info)
    else:
        text.copy(inverse, a, size * size * text.size)
        text.lapack("potrf", "U", size, inverse, size, info)
        with text.if_(text.compare("eq", text.load("i32", info), 0, "i32")):
            text.lapack("potri", "U", size, inverse, size, info)
            text.mirror(inverse, size)
    finite = text.finite_sum(inverse, size * size)
    text.store("i32", text.select(finite, "i32", text.load("i32", info), 1), info)
