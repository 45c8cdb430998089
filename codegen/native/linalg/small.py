"""LU factors and triangular systems of small real matrices, for which a call of LAPACK takes longer than its arithmetic.

A column is a few vectors; each operation is done to all of it, and lanes outside of the triangle keep what they had.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.llvm.builder import Value
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.linalg.lapack_step import NS_PER_MATRIX, LapackStep
from adjit.codegen.native.step_builder import literal, power_of_two_below
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op
from adjit.ir.types import is_complex, short_name

MAX_SIZE = 47
"""Rows up to which these are used; then our own blocks are faster for systems of equations. Of OpenBLAS's time they take, for float64 on a
Zen 4 and 10 and 40 rows: LU factors 0.45 and 0.65, the gradient of a determinant 0.4 and 0.55, ten right-hand sides 0.3 and 0.7."""

NS_PER_SMALL_MATRIX = 50.0
"""Estimated time besides the arithmetic."""


@dataclass(frozen=True, slots=True)
class Part:
    """Consecutive rows of a column, in one vector."""

    start: int
    lanes: int

    @property
    def rows(self) -> Sequence[int]:
        return range(self.start, self.start + self.lanes)


class SmallStep(LapackStep):
    """A builder of a step that also works without LAPACK on matrices of few rows. They lie column by column."""

    def __init__(self, op: Op, target: Target, operations: float):
        type = op.operands[0].type
        small = not is_complex(type.dtype) and type.shape[-1] <= MAX_SIZE
        super().__init__(op, target, operations, NS_PER_SMALL_MATRIX if small else NS_PER_MATRIX)

    def is_small(self, size: int) -> bool:
        """True if a call of LAPACK would take longer than the work."""
        return not self.is_complex and size <= MAX_SIZE

    def small_lu(self, matrix: str, swaps: str, size: int) -> None:
        """Overwrite a matrix with its LU factors, and write the swaps of rows, counted from 1: by columns, from left to right, with partial
        pivoting. A column of zeros is left as it is."""
        parts = _parts(size, self.width(size, self.size))
        with self.for_range(0, size) as loop:
            number = loop.counter
            column = self.at(matrix, self.size, (number, size))
            row = self._largest(column, number, parts)
            self.store("i32", self.convert("trunc", "i64", self.add(row, 1), "i32"), self.at(swaps, "i32", number))
            with self.if_(self.compare("ne", row, number)), self.for_range(0, size) as columns:
                places = [self.at(matrix, self.size, index, (columns.counter, size)) for index in (number, row)]
                values = [self.load(self.real, place) for place in places]
                for value, place in zip(values, reversed(places), strict=True):
                    self.store(self.real, value, place)
            pivot = self._element(column, number)
            zero = self.let(f"fcmp oeq {self.real} {pivot}, {literal(0.0, self.precision)}")
            pivot = self.select(zero, self.real, self.one, pivot)
            below = [self._lanes("sgt", part, number) for part in parts]
            negated = []
            for part, mask in zip(parts, below, strict=True):
                before = self._load(column, part)
                factors = self.let(f"fdiv {self._vector(part)} {before}, {self.splat(self.real, pivot, part.lanes)}")
                self._store(column, part, mask, factors, before)
                negated.append(self.let(f"fneg {self._vector(part)} {factors}"))
            with self.for_range(self.add(number, 1), size, empty=True) as right:
                other = self.at(matrix, self.size, (right.counter, size))
                self._add_multiple(other, self._element(other, number), negated, parts, below)

    def small_cholesky(self, matrix: str, size: int, info: str) -> None:
        """Overwrite the lower triangle of a matrix with its Cholesky factor, column by column; other numbers are left above it. `info` is
        not 0 if the matrix is not positive definite."""
        parts = _parts(size, self.width(size, self.size))
        self.store("i32", 0, info)
        with self.for_range(0, size) as loop:
            number = loop.counter
            column = self.at(matrix, self.size, (number, size))
            pivot = self._element(column, number)
            with self.if_(self.let(f"fcmp ule {self.real} {pivot}, {literal(0.0, self.precision)}")):
                self.store("i32", 1, info)
                self.break_()
            root = self.call(self.real, f"@llvm.sqrt.{short_name(self.precision)}", (self.real, pivot))
            negated = []
            for part in parts:
                type = self._vector(part)
                values = self.let(f"fdiv {type} {self._load(column, part)}, {self.splat(self.real, root, part.lanes)}")
                self.store(type, values, self.at(column, self.size, part.start), align=self.size)
                negated.append(self.let(f"fneg {type} {values}"))
            with self.for_range(self.add(number, 1), size, empty=True) as right:
                other = self.at(matrix, self.size, (right.counter, size))
                self._add_multiple(other, self._element(column, right.counter), negated, parts)
            self.store(self.real, root, self.at(column, self.size, number))

    def small_solve(self, triangle: str, x: str, size: int, *, lower: bool, transpose: bool, unit: bool) -> None:
        """Overwrite b with x of T x = b or, to `transpose`, of Tᵀ x = b: the first by columns of T, the second by products with them."""
        parts = _parts(size, self.width(size, self.size))
        with self.for_range(0, size) as loop:
            row = loop.counter if lower != transpose else self.sub(size - 1, loop.counter)
            column = self.at(triangle, self.size, (row, size))
            others = [self._lanes("sgt" if lower else "slt", part, row) for part in parts]
            value = self._element(x, row)
            if transpose:
                for part, mask in zip(parts, others, strict=True):
                    type = self._vector(part)
                    products = self.let(f"fmul {type} {self._load(column, part)}, {self._load(x, part)}")
                    products = self.let(f"select {self._mask(part)} {mask}, {type} {products}, {type} zeroinitializer")
                    value = self.let(f"fsub {self.real} {value}, {self._sum(products, part.lanes)}")
            if not unit:
                value = self.let(f"fdiv {self.real} {value}, {self._element(column, row)}")
            if not transpose:
                negated = [self.let(f"fneg {self._vector(part)} {self._load(column, part)}") for part in parts]
                self._add_multiple(x, value, negated, parts, others)
            for part in parts:      # whole vectors, since the next round loads them: a load has to wait for narrower stores
                self._store(x, part, self._lanes("eq", part, row), self.splat(self.real, value, part.lanes), self._load(x, part))

    def small_solve_matrix(self, triangle: str, x: str, size: int, columns: int, *, lower: bool, transpose: bool, unit: bool) -> None:
        """Overwrite B with X of T X = B or Tᵀ X = B, both row by row: each finished row is taken from those that wait."""
        forward = lower != transpose
        with self.for_range(0, size) as loop:
            number = loop.counter if forward else self.sub(size - 1, loop.counter)
            line = self.at(x, self.size, (number, columns))
            diagonal = self.one if unit else self._element(triangle, self.mul(number, size + 1))
            first, last = (self.add(number, 1), size) if forward else (0, number)
            for start, lanes in self.blocks(columns, self.width(columns, self.size)):
                type, here = f"<{lanes} x {self.real}>", self.at(line, self.size, start)
                values = self.load(type, here, align=self.size)
                if not unit:
                    values = self.let(f"fdiv {type} {values}, {self.splat(self.real, diagonal, lanes)}")
                    self.store(type, values, here, align=self.size)
                values = self.let(f"fneg {type} {values}")
                with self.for_range(first, last, empty=True) as other:
                    row, column = (number, other.counter) if transpose else (other.counter, number)
                    factor = self._element(triangle, self.add(self.mul(column, size), row))
                    place = self.at(x, self.size, (other.counter, columns), start)
                    operands = values, self.splat(self.real, factor, lanes), self.load(type, place, align=self.size)
                    after = self.call(type, f"@llvm.fmuladd.{self.suffix(lanes, self.real)}", *((type, operand) for operand in operands))
                    self.store(type, after, place, align=self.size)

    def small_lu_inverse(self, factors: str, inverse: str, size: int, pivots: str) -> str:
        """Write the inverse of a matrix by its LU factors. Returns whether that was possible: whether no pivot is zero."""
        good = self.variable(1)
        self.zero(inverse, size * size)
        with self.for_range(0, size) as loop:
            self.store(self.real, self.one, self.at(inverse, self.size, (loop.counter, size + 1)))
            pivot = self._element(factors, self.mul(loop.counter, size + 1))
            with self.if_(self.let(f"fcmp oeq {self.real} {pivot}, {literal(0.0, self.precision)}")):
                good.set(0)
        for lower in (False, True):     # rows of the inverse's transpose are its columns
            self.small_solve_matrix(factors, inverse, size, size, lower=lower, transpose=True, unit=lower)
        self.swap_back(inverse, size, pivots)
        return self.compare("ne", good.value, 0)

    def swap_back(self, matrix: str, size: int, pivots: str) -> None:
        """Swap rows with those that the pivots name, the last ones first."""
        line = self.numbers(size)
        with self.for_range(0, size) as loop:
            last = self.sub(size - 1, loop.counter)
            other = self.load("i64", self.at(pivots, "i64", last))
            rows = [self.at(matrix, self.size, (row, size)) for row in (last, other)]
            with self.if_(self.compare("ne", last, other)):
                for to, source in ((line, rows[0]), (rows[0], rows[1]), (rows[1], line)):
                    self.copy(to, source, size * self.size)

    def _largest(self, column: str, first: str, parts: Sequence[Part]) -> str:
        """The row, from `first` on, of the element of the largest absolute value: of its bits, by which NaN is larger than all."""
        bits, found = f"i{8 * self.size}", []
        for part in parts:
            type, integers = self._vector(part), f"<{part.lanes} x {bits}>"
            size = self.call(type, f"@llvm.fabs.{self.suffix(part.lanes, self.real)}", (type, self._load(column, part)))
            size = self.let(f"bitcast {type} {size} to {integers}")
            size = self.let(f"select {self._mask(part)} {self._lanes('sge', part, first)}, {integers} {size}, {integers} splat ({bits} -1)")
            found.append((integers, size, self.call(bits, f"@llvm.vector.reduce.smax.v{part.lanes}{bits}", (integers, size))))
        largest = found[0][2]
        for _, _, other in found[1:]:
            largest = self.select(self.compare("sgt", other, largest, bits), bits, other, largest)
        row = ""
        for part, (integers, size, _) in reversed(list(zip(parts, found, strict=True))):
            word = f"i{part.lanes}"
            same = self.let(f"icmp eq {integers} {size}, {self.splat(bits, largest, part.lanes)}")
            same = self.let(f"bitcast {self._mask(part)} {same} to {word}")
            lane = self.call(word, f"@llvm.cttz.{word}", (word, same), ("i1", "false"))
            here = self.add(self.convert("zext", word, lane, "i64"), part.start)
            row = self.select(self.compare("ne", same, 0, word), "i64", here, row) if row else here
        return row

    def _add_multiple(self, column: str, factor: str, values: Sequence[str], parts: Sequence[Part],
                      masks: Sequence[str] = ()) -> None:
        """Add a multiple of a vector to the rows of a column, or to those of the masks."""
        for part, value, mask in zip(parts, values, masks or [""] * len(parts), strict=True):
            type, before = self._vector(part), self._load(column, part)
            operands = value, self.splat(self.real, factor, part.lanes), before
            after = self.call(type, f"@llvm.fmuladd.{self.suffix(part.lanes, self.real)}", *((type, operand) for operand in operands))
            self._store(column, part, mask, after, before)

    def _sum(self, vector: str, lanes: int) -> str:
        while lanes > 1:
            type, half = f"<{lanes} x {self.real}>", lanes // 2
            low, high = (self.shuffle(type, vector, "poison", range(start, start + half)) for start in (0, half))
            vector, lanes = self.let(f"fadd <{half} x {self.real}> {low}, {high}"), half
        return self.let(f"extractelement <1 x {self.real}> {vector}, i32 0")

    # -- parts of a column

    def _vector(self, part: Part) -> str:
        return f"<{part.lanes} x {self.real}>"

    def _mask(self, part: Part) -> str:
        return f"<{part.lanes} x i1>"

    def _element(self, column: str, row: Value) -> str:
        return self.load(self.real, self.at(column, self.size, row))

    def _load(self, column: str, part: Part) -> str:
        return self.load(self._vector(part), self.at(column, self.size, part.start), align=self.size)

    def _store(self, column: str, part: Part, mask: str, yes: str, no: str) -> None:
        """Store the values of `yes` in the lanes of the mask, if there is one, and those of `no` in the others."""
        type = self._vector(part)
        chosen = self.let(f"select {self._mask(part)} {mask}, {type} {yes}, {type} {no}") if mask else yes
        self.store(type, chosen, self.at(column, self.size, part.start), align=self.size)

    def _lanes(self, how: str, part: Part, row: str) -> str:
        """The mask of the rows that compare so with `row`. As wide as the elements, since masks are, before AVX-512."""
        integer = f"i{8 * self.size}"
        rows = ", ".join([f"{integer} {index}" for index in part.rows])
        bound = row if integer == "i64" else self.convert("trunc", "i64", row, integer)
        return self.let(f"icmp {how} <{part.lanes} x {integer}> <{rows}>, {self.splat(integer, bound, part.lanes)}")


def _parts(size: int, lanes: int) -> list[Part]:
    """The parts of a column: full vectors, then smaller ones.

    >>> _parts(11, 8)
    [Part(start=0, lanes=8), Part(start=8, lanes=2), Part(start=10, lanes=1)]
    """
    parts, start = [], 0
    while start < size:
        lanes = min(lanes, power_of_two_below(size - start))
        parts.append(Part(start, lanes))
        start += lanes
    return parts
