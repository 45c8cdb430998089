"""Descriptions of matrix products (GEMM): sizes, orientation and strides of one product, or of a batch of equal products."""

from __future__ import annotations

from dataclasses import replace

from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op
from adjit.ir.types import short_name

BYTES = {"f32": 4, "f64": 8}
"""Bytes of an element, by dtype; products exist for these dtypes only."""


@dataclass(frozen=True, slots=True)
class Product:
    """C = op(A) op(B), `[rows, inner] x [inner, columns]`, all row-major; op(A) is A transposed if `transpose_a`, and so for B.

    `lda`, `ldb`, `ldc` are leading dimensions: elements from one row of A, B, C in memory to the next. `batch_stride_a`, `batch_stride_b`,
    `batch_stride_c` are elements from one product of the batch to the next.
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

    def __str__(self) -> str:
        a = (self.inner, self.rows) if self.transpose_a else (self.rows, self.inner)
        b = (self.columns, self.inner) if self.transpose_b else (self.inner, self.columns)
        times = f"{self.batch} of " if self.batch > 1 else ""
        return (f"{times}{self.dtype}[{a[0]},{a[1]}]{' transposed' if self.transpose_a else ''} by "
                f"[{b[0]},{b[1]}]{' transposed' if self.transpose_b else ''}")

    @property
    def element_bytes(self) -> int:
        return BYTES[self.dtype]

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
                  batch: int = 1) -> Product:
    """The product of matrices without gaps between rows or between matrices.

    >>> dense_product(2, 3, 4, "f32", transpose_a=True).lda
    2
    """
    return Product(
        rows, inner, columns, dtype, transpose_a, transpose_b, rows if transpose_a else inner, inner if transpose_b else columns, columns,
        batch, rows * inner, inner * columns, rows * columns)


def product_of(op: Op) -> Product | None:
    """The product that a matmul of contiguous arrays computes; None for integers, bools and empty results."""
    dtype = short_name(op.result.type.dtype)
    if dtype not in BYTES or not op.result.type.size:
        return None
    transpose_a, transpose_b = op.attrs["transpose_a"], op.attrs["transpose_b"]
    rows, columns = op.result.type.shape[-2:]
    inner, batch = op.operands[0].type.shape[-2 if transpose_a else -1], op.result.type.size // (rows * columns)
    return dense_product(rows, inner, columns, dtype, transpose_a, transpose_b, batch)
