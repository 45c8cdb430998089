"""Factors and triangular systems of large real matrices by blocks of rows: our products do the bulk, LAPACK the blocks on the
diagonal.

A triangle is divided by with the inverses of its blocks, so that nothing but products is left; OpenBLAS's own solution takes two to four
times as long for such narrow blocks. Matrices are row-major.

    x = b;    for each block i:    x[i] = inverse of T[i, i] times (x[i] - T[i, done] x[done])

No matrix is ever negated: products are added only, and the inverses are negated, which are small. From -b on that gives x, from b on -x.
"""

from __future__ import annotations

from collections.abc import Iterator

from adjit.codegen.gemm.lower import write_product
from adjit.codegen.gemm.product import Product
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.strided_copy import Axis, Move, write_move
from adjit.codegen.native.linalg.small import SmallStep
from adjit.codegen.native.matmul import matmul_step
from adjit.codegen.native.program_code import LAUNCH, Call, StepCode, launch_function
from adjit.codegen.native.step_builder import literal
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op
from adjit.ir.memory_sizes import ALIGNMENT

PACKING = "step.packing"
"""Constant with the offset of the memory for packed panels in scratch memory."""

TURNED_ROWS = 8
"""Rows that are compared with columns at once."""


def block_width(size: int) -> int:
    """Rows of a block: few, since LAPACK's small blocks take longer for the same work, and so many that a large matrix has at most 32
    blocks, for each of which a program has code."""
    return 16 if size <= 256 else 24 if size <= 512 else max(32, 16 * -(-size // 512))


@dataclass(frozen=True, slots=True)
class Triangle:
    """A triangle T of the square matrix at `pointer`: T or its transpose is `lower`, and `unit` if the diagonal is not read but 1. With
    `transposed`, T is the transpose of what lies in memory."""

    pointer: str
    size: int
    lower: bool
    transposed: bool = False
    unit: bool = False

    @property
    def width(self) -> int:
        return block_width(self.size)

    @property
    def blocks(self) -> Iterator[tuple[int, int, int, int]]:
        """Blocks of rows in the order in which a system is solved: first row, number of rows; first row and number of those before."""
        starts = range(0, self.size, self.width)
        for start in starts if self.lower else reversed(starts):
            count = min(self.width, self.size - start)
            yield (start, count, 0, start) if self.lower else (start, count, start + count, self.size - start - count)


class BlockStep(SmallStep):
    """A builder of a step that works by blocks."""

    def __init__(self, op: Op, target: Target, operations: float):
        super().__init__(op, target, operations)
        self._products: dict[Product, Call] = {}
        self._places = self.scratch_bytes       # of the pointers to the matrices of a product
        self.scratch_bytes += ALIGNMENT
        self._packing_bytes = 0

    def finished(self) -> tuple[StepCode, ...]:
        """The step, with scratch memory for packed panels, which all products share."""
        if self._products:
            self.functions[PACKING] = Definition(PACKING, f"@{PACKING} = internal constant i64 {self.scratch_bytes}")
            self.scratch(self._packing_bytes)
        return super().finished()

    def multiply(self, a: str, b: str, c: str, rows: int, inner: int, columns: int, lda: int, ldb: int, ldc: int, *,
                 transpose_a: bool = False, transpose_b: bool = False, adds: bool = False) -> None:
        """C = op(A) op(B), or C += op(A) op(B); C shares no element with A or B."""
        if not (rows and inner and columns):
            return
        dtype = {4: "f32", 8: "f64"}[self.size]
        product = Product(rows, inner, columns, dtype, transpose_a, transpose_b, lda, ldb, ldc, adds=adds)
        if product not in self._products:
            self._products[product] = self._define(product)
        step = self._products[product]
        places = self.at("%scratch", 1, self._places)
        for number, matrix in enumerate((a, b, c)):
            self.store("ptr", matrix, self.at(places, "ptr", number))
        packing = self.at("%scratch", 1, self.load("i64", self.use(f"@{PACKING}"), align=8))
        if step.parallel:
            self.shared[LAUNCH] = launch_function()
            self.call("i64", f"@{LAUNCH}", ("ptr", self.pool), ("ptr", self.use(f"@{step.function}")), ("ptr", places),
                      ("i64", step.code.tasks), ("ptr", packing))
        else:
            self.call("i64", f"@{step.function}", ("ptr", places), ("i64", 0), ("i64", step.code.tasks), ("ptr", packing))

    def _define(self, product: Product) -> Call:
        """The step of a product within this one, which other threads may share."""
        code = matmul_step(write_product(product, self.target), 2)
        number = len(self._products)
        for definition in code.functions:
            renamed = definition.renamed("step", f"step.product{number}")
            self.functions[renamed.name] = renamed
        self.shared.update(code.shared)
        self._declarations |= code.declarations
        self._packing_bytes = max(self._packing_bytes, code.scratch_bytes)
        return Call(f"step.product{number}", code, (), -1, "")

    @property
    def pool(self) -> str:
        """The thread pool, behind the operands, the results and the slot for memory of the op."""
        return self.place(len(self.op.operands) + len(self.op.results) + 1)

    # -- parts of matrices

    def cell(self, matrix: str, row: int, column: int, pitch: int) -> str:
        """The address of an element; rows are `pitch` elements apart."""
        return self.at(matrix, self.size, row * pitch + column)

    def copy_part(self, source: str, to: str, rows: int, columns: int, source_pitch: int, pitch: int) -> None:
        write_move(self, Move(self.size, (Axis(rows, source_pitch, pitch), Axis(columns, 1, 1))), source, to)

    def negate(self, source: str, to: str, rows: int, columns: int, source_pitch: int, pitch: int) -> None:
        """Copy a matrix with all signs changed, possibly to where it is."""
        if source_pitch == pitch == columns:
            rows, columns = 1, rows * columns
        with self.for_range(0, rows) as row:
            begin, goal = (self.at(matrix, self.size, (row.counter, apart)) for matrix, apart in ((source, source_pitch), (to, pitch)))
            for start, lanes in self.blocks(columns, self.width(columns, self.size)):
                type = f"<{lanes} x {self.real}>"
                value = self.load(type, self.at(begin, self.size, start), align=self.size)
                self.store(type, self.let(f"fneg {type} {value}"), self.at(goal, self.size, start), align=self.size)

    def inverse(self, triangle: Triangle, start: int, count: int, to: str, info: str) -> None:
        """Write minus the inverse of a block on the diagonal, as it lies in memory, with zeros in the other triangle. `info` is 0 unless
        the block is singular."""
        n, lower = triangle.size, triangle.lower != triangle.transposed
        self.copy_part(self.cell(triangle.pointer, start, start, n), to, count, count, n, count)
        self.lapack("trtri", "U" if lower else "L", "U" if triangle.unit else "N", count, to, count, info)
        self.negate(to, to, count, count, count, count)
        with self.for_range(0, count) as row:
            line = self.at(to, self.size, (row.counter, count))
            if lower:
                self.zero(self.at(line, self.size, row.counter, 1), self.sub(count - 1, row.counter))
            else:
                self.zero(line, row.counter)
            if triangle.unit:
                self.store(self.real, f"0x{0xBFF0000000000000:016X}", self.at(line, self.size, row.counter))

    def inverses(self, triangle: Triangle) -> tuple[str, str]:
        """Minus the inverses of all blocks on the diagonal, one after the other; and true if no block is singular."""
        found, info = self.numbers(triangle.size * triangle.width), self.numbers(1, 4)
        good = "true"
        for start, count, _, _ in triangle.blocks:
            self.inverse(triangle, start, count, self.cell(found, start, 0, triangle.width), info)
            good = self.both(good, self.compare("eq", self.load("i32", info), 0, "i32"))
        return found, good

    def divide(self, triangle: Triangle, inverses: str, x: str, columns: int, pitch: int, first: int = 0) -> None:
        """Overwrite -b with x of T x = b, or b with -x. The rows before `first` are zero."""
        n, waiting = triangle.size, self.numbers(triangle.width * columns)
        for start, count, before, done in triangle.blocks:
            if start < first:
                continue
            before, done = (max(before, first), done - first) if triangle.lower else (before, done)
            part = self.cell(triangle.pointer, *((before, start) if triangle.transposed else (start, before)), n)
            rows = self.cell(x, start, 0, pitch)
            self.multiply(part, self.cell(x, before, 0, pitch), rows, count, done, columns, n, pitch, pitch,
                          transpose_a=triangle.transposed, adds=True)
            self.multiply(self.cell(inverses, start, 0, triangle.width), rows, waiting, count, count, columns, count, pitch, columns,
                          transpose_a=triangle.transposed)
            self.copy_part(waiting, rows, count, columns, columns, pitch)

    # -- factors

    def cholesky(self, a: str, factor: str, info: str) -> None:
        """Write the lower factor of a matrix of which the lower triangle is read; above it there are other numbers. `info` is not 0 if the
        matrix is not positive definite. Each column of blocks of -a is added what the columns before it give."""
        n = self.op.result.type.shape[-1]
        width = block_width(n)
        corner, inverse, below, failed = (self.numbers(count) for count in (width * width, width * width, n * width, 1))
        self.negate(a, factor, n, n, n, n)
        self.store("i32", 0, info)
        for start in range(0, n, width):
            count = min(width, n - start)
            here, rest = self.cell(factor, start, start, n), n - start - count
            row = self.cell(factor, start, 0, n)
            self.multiply(row, row, here, n - start, start, count, n, n, n, transpose_b=True, adds=True)
            self.negate(here, corner, count, count, n, count)
            self.lapack("potrf", "U", count, corner, count, failed)
            self.store("i32", self.let(f"or i32 {self.load('i32', info)}, {self.load('i32', failed)}"), info)
            self.copy_part(corner, here, count, count, count, n)
            if rest:
                self.inverse(Triangle(corner, count, lower=True), 0, count, inverse, failed)
                panel = self.cell(factor, start + count, start, n)
                self.multiply(panel, inverse, below, rest, count, count, n, count, count, transpose_b=True)
                self.copy_part(below, panel, rest, count, count, n)

    def lu(self, factors: str, swaps: str) -> None:
        """Overwrite a transposed matrix with its transposed LU factors, and write the swaps of rows, counted from 1."""
        n = self.op.operands[0].type.shape[-1]
        width = block_width(n)
        info, inverse, beside = self.numbers(1, 4), self.numbers(width * width), self.numbers(n * width)
        for start in range(0, n, width):
            count = min(width, n - start)
            here, rest, local = self.cell(factors, start, start, n), n - start - count, self.at(swaps, "i32", start)
            self.lapack("getrf", n - start, count, here, n, local, info)
            for columns, first in ((start, 0), (rest, start + count)):
                if columns:
                    self.lapack("laswp", columns, self.cell(factors, first, start, n), n, 1, count, local, 1)
            with self.for_range(0, count) as loop:
                place = self.at(local, "i32", loop.counter)
                self.store("i32", self.let(f"add i32 {self.load('i32', place)}, {start}"), place)
            if rest:        # rows of U, which are columns here, then what they take away from the rest
                panel = self.cell(factors, start + count, start, n)
                self.inverse(Triangle(here, n, lower=False, unit=True), 0, count, inverse, info)
                self.multiply(panel, inverse, beside, rest, count, count, n, count, count)
                self.multiply(beside, self.cell(factors, start, start + count, n), self.cell(factors, start + count, start + count, n),
                              rest, count, rest, count, n, n, adds=True)
                self.negate(beside, panel, rest, count, count, n)

    def may_be_positive(self, a: str) -> str:
        """True if a matrix equals its transpose, and its diagonal is positive."""
        n = self.op.result.type.shape[-1]
        width = min(n, TURNED_ROWS)
        strip, result = self.numbers(width * n), self.variable(1)
        with self.for_range(0, n) as row:
            here = self.load(self.real, self.at(a, self.size, (row.counter, n + 1)), align=self.size)
            with self.if_(self.let(f"fcmp ule {self.real} {here}, {literal(0.0, self.precision)}")):
                result.set(0)
                self.break_()
        with self.if_(self.compare("ne", result.value, 0)), self.for_range(0, n, width) as loop:
            start = self.smaller(loop.counter, n - width)
            self.turn(self.at(a, self.size, start), strip, n, width, source_columns=n)
            rows = self.at(a, self.size, (start, n))
            for place, lanes in self.blocks(width * n, self.width(width * n, self.size)):
                type = f"<{lanes} x {self.real}>"
                pair = [self.load(type, self.at(matrix, self.size, place), align=self.size) for matrix in (rows, strip)]
                differ = self.let(f"bitcast <{lanes} x i1> {self.let(f'fcmp une {type} {pair[0]}, {pair[1]}')} to i{lanes}")
                with self.if_(self.compare("ne", differ, 0, f"i{lanes}")):
                    result.set(0)
            with self.if_(self.compare("eq", result.value, 0)):
                self.break_()
        return self.compare("ne", result.value, 0)

    def symmetric_inverse(self, a: str, inverse: str, working: str, info: str) -> None:
        """Write the inverse of a symmetric matrix, if it is positive definite, else a number other than 0 to `info`: by the inverse of
        the Cholesky factor, W, as Wᵀ W."""
        n = self.op.result.type.shape[-1]
        self.cholesky(a, inverse, info)
        with self.if_(self.compare("eq", self.load("i32", info), 0, "i32")):
            factor = Triangle(inverse, n, lower=True)
            blocks, _ = self.inverses(factor)
            self.invert_lower(factor, blocks, working)
            count = 2 * factor.width
            for start in range(0, n, count):
                rows = min(count, n - start)
                line = self.cell(inverse, start, 0, n)
                self.multiply(self.cell(working, start, start, n), self.cell(working, start, 0, n), line, rows, n - start, start + rows,
                              n, n, n, transpose_a=True)
                if start:
                    self.turn(line, self.cell(inverse, 0, start, n), rows, start, n, n)
            self.mirror(inverse, count)

    def invert_lower(self, lower: Triangle, blocks: str, x: str) -> None:
        """Write minus the inverse of a lower triangle, with zeros above it."""
        n = lower.size
        self.zero(x, n * n)
        with self.for_range(0, n) as row:
            self.store(self.real, self.one, self.at(x, self.size, (row.counter, n + 1)))
        group = 4 * lower.width     # of columns: between its diagonal and its end, zeros are multiplied
        for first in range(0, n, group):
            self.divide(lower, blocks, self.at(x, self.size, first), min(group, n - first), n, first)

    def mirror(self, matrix: str, width: int) -> None:
        """Copy the lower triangle of each block on the diagonal, of `width` rows, to its upper one."""
        n = self.op.result.type.shape[-1]
        with self.for_range(0, n) as row:
            start = self.sub(row.counter, self.let(f"urem i64 {row.counter}, {width}"))
            with self.for_range(start, row.counter, empty=True) as column:
                value = self.load(self.real, self.at(self.at(matrix, self.size, (row.counter, n)), self.size, column.counter))
                self.store(self.real, value, self.at(self.at(matrix, self.size, (column.counter, n)), self.size, row.counter))

    def lu_inverse(self, factors: str, inverse: str, pivots: str) -> str:
        """Write the transposed inverse of a matrix. Returns whether that was possible: whether no pivot is zero."""
        n = self.op.result.type.shape[-1]
        lower, upper = Triangle(factors, n, lower=True), Triangle(factors, n, lower=False, unit=True)
        blocks, good = self.inverses(lower)
        with self.if_(good):
            self.invert_lower(lower, blocks, inverse)
            blocks, _ = self.inverses(upper)
            self.divide(upper, blocks, inverse, n, n)
            self.swap_back(inverse, n, pivots)
        return good
