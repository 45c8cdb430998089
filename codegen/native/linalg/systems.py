"""Steps of Sylvester's equation and of systems with banded matrices."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.linalg.lapack_step import BLOCK, LapackStep
from adjit.codegen.native.program_code import StepCode
from adjit.ir.graph import Op

Shared = Mapping[int, int]


def lower_sylvester(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `sylvester`: by the Schur forms of both matrices (Bartels and Stewart, 1972)."""
    rows, columns = op.result.type.shape[-2:]
    text = LapackStep(op, target, 25.0 * (rows ** 3 + columns ** 3) + 5.0 * rows * columns * (rows + columns))
    with text.each_matrix() as (a, b, q, x):
        info, scale = text.numbers(1, 4), text.numbers(1)
        finite = text.let(f"and i1 {text.finite_sum(a, rows * rows)}, {text.finite_sum(b, columns * columns)}")
        finite = text.both(finite, text.finite_sum(q, rows * columns))
        forms = [text.numbers(2 * size * size) for size in (rows, columns)]
        largest = max(rows, columns)
        working, values, half = text.numbers(largest * BLOCK), text.numbers(3 * largest), text.numbers(rows * columns)
        reals = text.parts_each * rows * columns
        text.store("i32", text.select(finite, "i32", 0, 1), info)
        with text.unless_failed(info, (x, reals)):
            for matrix, form, size in ((a, forms[0], rows), (b, forms[1], columns)):
                _schur(text, matrix, form, size, working, largest * BLOCK, values, info)
            (upper_a, vectors_a), (upper_b, vectors_b) = ((form, text.at(form, text.size, size * size))
                                                           for form, size in zip(forms, (rows, columns), strict=True))
            solution = text.numbers(rows * columns)
            text.turn(q, solution, rows, columns)
            text.blas("gemm", text.adjoint, "N", rows, columns, rows, 1.0, vectors_a, rows, solution, rows, 0.0, half, rows)
            text.blas("gemm", "N", "N", rows, columns, columns, 1.0, half, rows, vectors_b, columns, 0.0, solution, rows)
            text.lapack("trsyl", "N", "N", 1, rows, columns, upper_a, rows, upper_b, columns, solution, rows, scale, info)
            text.blas("gemm", "N", "N", rows, columns, rows, 1.0, vectors_a, rows, solution, rows, 0.0, half, rows)
            text.blas("gemm", "N", text.adjoint, rows, columns, columns, 1.0, half, rows, vectors_b, columns, 0.0, solution, rows)
            text.turn(solution, x, columns, rows)
            factor = text.let(f"fdiv {text.real} {text.one}, {text.load(text.real, scale)}")
            with text.for_range(0, reals) as loop:
                place = text.at(x, text.real_size, loop.counter)
                text.store(text.real, text.let(f"fmul {text.real} {text.load(text.real, place)}, {factor}"), place)
    return text.finished()


def _schur(text: LapackStep, matrix: str, form: str, size: int, working: str, length: int, values: str, info: str) -> None:
    """The upper form, and behind it the vectors, both column by column."""
    vectors = text.at(form, text.size, size * size)
    real, imaginary, scales = (text.at(values, text.size, k * size) for k in range(3))
    text.turn(matrix, form, size, size)
    text.lapack("gehrd", size, 1, size, form, size, scales, working, length, info)
    text.copy(vectors, form, size * size * text.size)
    text.lapack("orghr", size, 1, size, vectors, size, scales, working, length, info)
    numbers = (real,) if text.is_complex else (real, imaginary)
    text.lapack("hseqr", "S", "V", size, 1, size, form, size, *numbers, vectors, size, working, length, info)


def lower_banded_solve(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `banded_solve`."""
    size, columns = op.result.type.shape[-2:]
    lower, upper = op.attrs["lower"], op.attrs["upper"]
    height = 2 * lower + upper + 1
    text = LapackStep(op, target, 2.0 * size * (lower + 1) * (lower + upper + 1) + 4.0 * size * columns * height)
    with text.each_matrix() as (bands, b, x):
        matrix, swaps, info = text.numbers(height * size), text.numbers(size, 4), text.numbers(1, 4)
        right = text.numbers(size * columns)
        text.zero(matrix, height * size)
        text.turn(bands, text.at(matrix, text.size, lower), lower + upper + 1, size, to_rows=height)
        text.turn(b, right, size, columns)
        text.lapack("gbtrf", size, size, lower, upper, matrix, height, swaps, info)
        with text.unless_failed(info, (x, text.parts_each * size * columns)):
            text.lapack("gbtrs", "T" if op.attrs["transpose"] else "N", size, lower, upper, columns, matrix, height, swaps, right, size,
                        info)
            text.turn(right, x, columns, size)
    return text.finished()
