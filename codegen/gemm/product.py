"""Descriptions of matrix products (GEMM): sizes, orientation and strides of one product, or of a batch of equal products."""

from __future__ import annotations

from dataclasses import replace

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op
from adjit.ir.types import short_name

BYTES = {"f32": 4, "f64": 8}
"""Bytes of an element, by dtype; products exist for these dtypes only."""

PRODUCTS = "matmul", "complex_matmul"
"""Ops that are products."""

PARTS = {"c64": "f32", "c128": "f64"}
"""Dtype of the parts of complex numbers."""


@dataclass(frozen=True, slots=True)
class Product:
    """C = op(A) op(B), `[rows, inner] x [inner, columns]`, all row-major; op(A) is A transposed if `transpose_a`, and so for B.

    `lda`, `ldb`, `ldc` are leading dimensions: elements from one row of A, B, C in memory to the next. `batch_stride_a`, `batch_stride_b`,
    `batch_stride_c` are elements from one product of the batch to the next.

    A product of complex numbers is one of reals with `conjugates`: true for each operand of which the conjugate is taken. Parts alternate
    in memory. Rows of real and of imaginary parts of op(A), in turn, are multiplied with op(B), whose columns are parts; an element of C is
    made of two by two sums. `rows` and `columns` count parts, the leading dimensions and batch strides count complex numbers.

    `adds`: the product, of reals, is added to what C holds.
    """

    rows: int
    inner: int
    columns: int
    dtype: str
    transpose_a: bool
    transpose_b: bool
    lda: int
    ldb: int
    ldc: int
    batch: int = 1
    batch_stride_a: int = 0
    batch_stride_b: int = 0
    batch_stride_c: int = 0
    conjugates: tuple[bool, bool] | None = None
    adds: bool = False

    def __str__(self) -> str:
        rows, columns = self.rows // self.unit, self.columns // self.unit
        a = (self.inner, rows) if self.transpose_a else (rows, self.inner)
        b = (columns, self.inner) if self.transpose_b else (self.inner, columns)
        times = f"{self.batch} of " if self.batch > 1 else ""
        dtype = self.dtype if self.conjugates is None else next(name for name, part in PARTS.items() if part == self.dtype)
        marks = [" transposed" * transposed + " conjugated" * conjugated for transposed, conjugated in zip(
            (self.transpose_a, self.transpose_b), self.conjugates or (False, False), strict=True)]
        return f"{times}{dtype}[{a[0]},{a[1]}]{marks[0]} by [{b[0]},{b[1]}]{marks[1]}"

    @property
    def element_bytes(self) -> int:
        return BYTES[self.dtype]

    @property
    def unit(self) -> int:
        """Numbers of an element: 2 for a complex number."""
        return 1 if self.conjugates is None else 2

    @property
    def strides_a(self) -> tuple[int, int]:
        """Numbers from one row of op(A) to the next, on average, and from one column to the next."""
        return (1, self.unit * self.lda) if self.transpose_a else (self.lda, self.unit)

    @property
    def strides_b(self) -> tuple[int, int]:
        """Numbers from one row of op(B) to the next, and from one column to the next, on average."""
        return (self.unit, self.ldb) if self.transpose_b else (self.unit * self.ldb, 1)

    @property
    def batch_strides(self) -> tuple[int, int, int]:
        """Numbers from one product of the batch to the next, in A, B and C; 0 without a batch."""
        strides = self.batch_stride_a, self.batch_stride_b, self.batch_stride_c
        return tuple(self.unit * stride for stride in strides) if self.batch > 1 else (0, 0, 0)     # type: ignore[return-value]

    @property
    def multiplications(self) -> int:
        return self.batch * self.rows * self.inner * self.columns

    def as_rows(self) -> tuple[Product, bool]:
        """The same product, with vectors laid out as rows, so that the code reads and writes whole SIMD vectors; and true if A and B are
        swapped (a column C = A b is the row C' = b' A')."""
        p = self
        if p.columns == 1 and p.ldb == 1 and not p.transpose_b:
            p = replace(p, transpose_b=True, ldb=p.inner)
        if p.rows == 1 and p.lda == 1 and p.transpose_a:
            p = replace(p, transpose_a=False, lda=p.inner)
        if p.columns == 1 < p.rows and p.ldc == 1 and p.transpose_b:
            return replace(
                p, rows=1, columns=p.rows, transpose_a=False, transpose_b=not p.transpose_a, lda=p.ldb, ldb=p.lda, ldc=p.rows,
                batch_stride_a=p.batch_stride_b, batch_stride_b=p.batch_stride_a), True
        if p.inner == 1 and p.ldb == 1 and p.transpose_b and p.columns > 1:
            p = replace(p, transpose_b=False, ldb=p.columns)
        return p, False


def dense_product(rows: int, inner: int, columns: int, dtype: str, transpose_a: bool = False, transpose_b: bool = False,
                  batch: int = 1, conjugates: tuple[bool, bool] | None = None) -> Product:
    """The product of matrices without gaps between rows or between matrices; of complex numbers, whose parts have the `dtype`, if there are
    `conjugates`.

    >>> dense_product(2, 3, 4, "f32", transpose_a=True).lda
    2
    """
    unit = 1 if conjugates is None else 2
    return Product(
        unit * rows, inner, unit * columns, dtype, transpose_a, transpose_b, rows if transpose_a else inner,
        inner if transpose_b else columns, columns, batch, rows * inner, inner * columns, rows * columns, conjugates)


def product_of(op: Op) -> Product | None:
    """The product that a matmul of contiguous arrays computes; None for other ops, integers, bools and empty results."""
    if op.name not in PRODUCTS:
        return None
    dtype = short_name(op.result.type.dtype)
    part = PARTS.get(dtype, dtype)
    if part not in BYTES or not op.result.type.size:
        return None
    transpose_a, transpose_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows, columns = op.result.type.shape[-2:]
    inner, batch = op.operands[0].type.shape[-2 if transpose_a else -1], op.result.type.size // (rows * columns)
    conjugates = None if part == dtype else (op.attrs["conj_a"], op.attrs["conj_b"])
    return dense_product(rows, inner, columns, part, transpose_a, transpose_b, batch, conjugates)
