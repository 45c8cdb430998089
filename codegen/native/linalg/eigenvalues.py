"""The step of eigenvalues and eigenvectors of general matrices, with the routines that NumPy calls."""

from __future__ import annotations

from collections.abc import Mapping

from adjit.codegen.llvm.target import Target
from adjit.codegen.native.linalg.lapack_step import BLOCK, LapackStep
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import literal
from adjit.ir.graph import Op

Shared = Mapping[int, int]


def lower_eig(op: Op, shared: Shared, target: Target) -> tuple[StepCode, ...]:
    """The step of `eig` and `eigvals`. Numbers that are not finite never reach LAPACK, which may not come to an end with them."""
    size, vectors = op.results[0].type.shape[-1], len(op.results) > 1
    text = LapackStep(op, target, (27.0 if vectors else 10.0) * size ** 3)
    length = (4 + 2 * BLOCK) * size
    with text.each_matrix() as (a, w, *v):
        info, matrix, working = text.numbers(1, 4), text.numbers(size * size), text.numbers(length)
        found = text.numbers(size * size if vectors and not text.is_complex else 1)
        numbers = text.numbers(2 * size)
        finite = text.finite_sum(a, size * size)
        text.store("i32", text.select(finite, "i32", 0, 1), info)
        job = "V" if vectors else "N"
        with text.if_(finite):
            text.turn(a, matrix, size, size)
            if text.is_complex:
                right = text.numbers(size * size if vectors else 1)
                text.lapack("geev", "N", job, size, matrix, size, w, working, 1, right, size, working, length, text.reals(2 * size), info)
                if vectors:
                    text.turn(right, v[0], size, size)
            else:
                real, imaginary = numbers, text.at(numbers, text.size, size)
                text.lapack("geev", "N", job, size, matrix, size, real, imaginary, working, 1, found, size, working, length, info)
                _join(text, real, imaginary, w, size)
                if vectors:
                    _unpack(text, found, imaginary, v[0], size)
        with text.unless_failed(info, (w, 2 * size), *((pointer, 2 * size * size) for pointer in v)):
            pass
    return text.finished()


def _join(text: LapackStep, real: str, imaginary: str, to: str, count: int) -> None:
    """Write complex numbers of `count` parts."""
    with text.for_range(0, count) as loop:
        for source, part in ((real, 0), (imaginary, 1)):
            number = text.load(text.real, text.at(source, text.size, loop.counter))
            text.store(text.real, number, text.at(to, text.size, (loop.counter, 2), part))


def _unpack(text: LapackStep, columns: str, imaginary: str, to: str, size: int) -> None:
    """Write complex vectors, row by row: LAPACK keeps those of a pair of conjugate eigenvalues, of which the first has the positive
    imaginary part, as two columns, real and imaginary parts."""
    zero = literal(0.0, text.precision)
    with text.for_range(0, size) as column:
        part = text.load(text.real, text.at(imaginary, text.size, column.counter))
        first, second = (text.let(f"fcmp {comparison} {text.real} {part}, {zero}") for comparison in ("ogt", "olt"))
        left = text.sub(column.counter, text.select(second, "i64", 1, 0))
        right = text.add(left, text.select(text.either(first, second), "i64", 1, 0))
        with text.for_range(0, size) as row:
            real, imag = (text.load(text.real, text.at(columns, text.size, text.add(text.mul(source, size), row.counter)))
                          for source in (left, right))
            turned = text.let(f"fneg {text.real} {imag}")
            imag = text.select(first, text.real, imag, text.select(second, text.real, turned, zero))
            place = text.add(text.mul(row.counter, size), column.counter)
            text.store(text.real, real, text.at(to, 2 * text.size, place))
            text.store(text.real, imag, text.at(to, 2 * text.size, place), text.size)
