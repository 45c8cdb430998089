"""Steps of QR factors, singular values and eigenvalues, with the routines that NumPy calls, on the same matrices of columns: signs and bits
are NumPy's."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.linalg.lapack_step import BLOCK, LapackStep
from adjit.codegen.native.program_code import StepCode
from adjit.ir.graph import Op

Shared = Mapping[int, int]


def lower_qr(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `qr`."""
    rows, columns = op.operands[0].type.shape[-2:]
    count, wide = min(rows, columns), op.results[0].type.shape[-1]
    text = LapackStep(op, target, 4.0 * rows * columns * count)
    with text.each_matrix() as (a, q, r):
        matrix, scales = text.numbers(rows * max(columns, wide)), text.numbers(count)
        length = max(columns, wide) * BLOCK
        working, info = text.numbers(length), text.numbers(1, 4)
        text.turn(a, matrix, rows, columns)
        text.lapack("geqrf", rows, columns, matrix, rows, scales, working, length, info)
        text.turn(matrix, r, columns, wide, source_columns=rows)
        with text.for_range(0, wide) as row:
            text.zero(text.at(r, text.size, (row.counter, columns)), text.smaller(row.counter, columns))
        text.lapack("orgqr", rows, wide, count, matrix, rows, scales, working, length, info)
        text.turn(matrix, q, wide, rows)
    return text.finished()


def lower_qr_raw(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `qr_raw`."""
    rows, columns = op.operands[0].type.shape[-2:]
    text = LapackStep(op, target, 2.0 * rows * columns * min(rows, columns))
    with text.each_matrix() as (a, packed, scales):
        working, info = text.numbers(columns * BLOCK), text.numbers(1, 4)
        text.turn(a, packed, rows, columns)
        text.lapack("geqrf", rows, columns, packed, rows, scales, working, columns * BLOCK, info)
    return text.finished()


def lower_column_order(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `column_order`."""
    rows, columns = op.operands[0].type.shape[-2:]
    text = LapackStep(op, target, 2.0 * rows * columns * min(rows, columns))
    length = 2 * columns + (columns + 1) * BLOCK
    with text.each_matrix() as (a, order):
        matrix, scales, working = text.numbers(rows * columns), text.numbers(min(rows, columns)), text.numbers(length)
        reals = (text.reals(2 * columns),) if text.is_complex else ()
        numbers, info = text.numbers(columns, 4), text.numbers(1, 4)
        text.zero_bytes(numbers, 4 * columns)       # no column is bound to be the first
        text.turn(a, matrix, rows, columns)
        text.lapack("geqp3", rows, columns, matrix, rows, numbers, scales, working, length, *reals, info)
        text.integers_at(numbers, order, columns, -1, widen=True)
    return text.finished()


def lower_svd(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `svd`."""
    rows, columns = op.operands[0].type.shape[-2:]
    count, (wide, tall) = min(rows, columns), (op.results[0].type.shape[-1], op.results[2].type.shape[-2])
    text = LapackStep(op, target, 20.0 * rows * columns * count)
    with text.each_matrix() as (a, u, s, vh):
        matrix, left, right = (text.numbers(number) for number in (rows * columns, rows * wide, tall * columns))
        working, integers, info = text.numbers(_svd_length(rows, columns)), text.numbers(8 * count, 4), text.numbers(1, 4)
        text.turn(a, matrix, rows, columns)
        text.lapack("gesdd", "A" if (wide, tall) == (rows, columns) else "S", rows, columns, matrix, rows, s, left, rows, right, tall,
                    working, _svd_length(rows, columns), *_svd_reals(text, rows, columns), integers, info)
        parts = text.parts_each
        with text.unless_failed(info, (u, parts * rows * wide), (s, count), (vh, parts * tall * columns)):
            text.turn(left, u, wide, rows)
            text.turn(right, vh, columns, tall)
    return text.finished()


def lower_svdvals(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `svdvals`."""
    rows, columns = op.operands[0].type.shape[-2:]
    count = min(rows, columns)
    text = LapackStep(op, target, 4.0 * rows * columns * count)
    with text.each_matrix() as (a, s):
        matrix, working = text.numbers(rows * columns), text.numbers(_svd_length(rows, columns))
        integers, info = text.numbers(8 * count, 4), text.numbers(1, 4)
        text.turn(a, matrix, rows, columns)
        text.lapack("gesdd", "N", rows, columns, matrix, rows, s, working, 1, working, 1, working, _svd_length(rows, columns),
                    *_svd_reals(text, rows, columns), integers, info)
        with text.unless_failed(info, (s, count)):
            pass
    return text.finished()


def _svd_length(rows: int, columns: int) -> int:
    """At least the optimal working memory of `gesdd`, in elements."""
    count = min(rows, columns)
    return 4 * count * count + 10 * count + (rows + columns) * BLOCK


def _svd_reals(text: LapackStep, rows: int, columns: int) -> tuple[str, ...]:
    """The working memory of reals, which `gesdd` of complex matrices needs."""
    count, largest = min(rows, columns), max(rows, columns)
    return (text.reals(max(5 * count * count + 7 * count, 2 * (largest + count) * count + count)),) if text.is_complex else ()


def lower_eigh(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `eigh` and `eigvalsh`."""
    size, vectors = op.results[0].type.shape[-1], len(op.results) > 1
    text = LapackStep(op, target, (9.0 if vectors else 4.0 / 3.0) * size ** 3)
    length = 1 + 6 * size + 2 * size * size + BLOCK * size if vectors else 1 + (2 + BLOCK) * size
    with text.each_matrix() as (a, w, *v):
        matrix, working = text.numbers(size * size), text.numbers(length)
        integers, info = text.numbers(3 + 5 * size, 4), text.numbers(1, 4)
        text.turn(a, matrix, size, size)
        reals = (text.reals(1 + 5 * size + 2 * size * size), 1 + 5 * size + 2 * size * size) if text.is_complex else ()
        text.lapack("syevd", "V" if vectors else "N", "L" if op.attrs["lower"] else "U", size, matrix, size, w, working, length, *reals,
                    integers, 3 + 5 * size, info)
        with text.unless_failed(info, (w, size), *((pointer, text.parts_each * size * size) for pointer in v)):
            for pointer in v:
                text.turn(matrix, pointer, size, size)
    return text.finished()
