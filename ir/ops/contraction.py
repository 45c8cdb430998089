"""`matmul`: all contractions but convolutions are matmuls of transposed and reshaped operands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod

import numpy as np

from adjit.ir.batching import batched_operands, emit_again, reshaped, spread_all
from adjit.ir.definition import Kind, OpDefinition, Sample, define
from adjit.ir.errors import DTypeError, ShapeError
from adjit.ir.graph import Attributes, Op, Value
from adjit.ir.ops.arithmetic import multiply
from adjit.ir.ops.broadcasting import broadcast
from adjit.ir.ops.movement import transpose
from adjit.ir.ops.rules import COMPLEX, require, require_dtype
from adjit.ir.ops.sampling import uniform
from adjit.ir.types import BOOL, C64, C128, F32, I32, TensorType


def _rows_and_columns(type: TensorType, transposed: bool) -> tuple[int, int]:
    rows, columns = type.shape[-2:]
    return (columns, rows) if transposed else (rows, columns)


PRECISIONS = ("tf32x3", "tf32", "bf16")
"""Marks of a product of float32, of which it has one at most. Its factors are rounded to 11 digits in base 2 (tf32), to 8 (bf16), or to
sums of two numbers of 11 digits (tf32x3), of whose products the smallest is left out. What is multiplied then is exact, and added in
float32."""


def _infer_matmul(a: TensorType, b: TensorType, *, transpose_a: bool, transpose_b: bool, **marks: bool) -> TensorType:
    require_dtype(a, b)
    if marks and a.dtype != F32:
        raise DTypeError(f"products of {a.dtype} are not rounded: {', '.join(marks)}")
    if a.rank < 2 or b.rank < 2:
        raise ShapeError(f"matrices are needed, got {a} and {b}")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(f"batches of different shapes: {a} and {b}")
    (rows, inner_a), (inner_b, columns) = _rows_and_columns(a, transpose_a), _rows_and_columns(b, transpose_b)
    if inner_a != inner_b:
        words = (" transposed" if transpose_a else ""), (" transposed" if transpose_b else "")
        raise ShapeError(f"inner sizes differ, {inner_a} and {inner_b}: {a}{words[0]} times {b}{words[1]}")
    return a.with_shape((*a.shape[:-2], rows, columns))


def _evaluate_matmul(a: np.ndarray, b: np.ndarray, *, transpose_a: bool, transpose_b: bool, **marks: bool) -> np.ndarray:
    a, b = a.swapaxes(-1, -2) if transpose_a else a, b.swapaxes(-1, -2) if transpose_b else b
    if not marks:
        return np.asarray(np.matmul(a, b))
    (x, rest_x), (y, rest_y) = (_rounded(factor, 8 if "bf16" in marks else 11) for factor in (a, b))
    if "tf32x3" not in marks:
        return np.asarray(np.matmul(x, y))
    return np.asarray(np.matmul(rest_x, y) + np.matmul(x, rest_y) + np.matmul(x, y))


def _rounded(x: np.ndarray, digits: int) -> tuple[np.ndarray, np.ndarray]:
    """float32 to the nearest number of so many digits in base 2, and what is left, to the nearest one too. Ties go to the larger of two
    numbers, by size, as a card rounds to 11 digits; to the even one of 8 digits."""
    def nearest(x: np.ndarray) -> np.ndarray:
        bits, dropped = x.view(np.uint32), 24 - digits
        half = (1 << dropped - 1) - ((bits >> dropped & 1) ^ 1 if digits == 8 else 0)
        return np.where(np.isfinite(x), (bits + np.uint32(half) >> dropped << dropped).view(F32), x)

    x = np.ascontiguousarray(x)
    whole = nearest(x)
    with np.errstate(invalid="ignore", over="ignore"):
        return whole, nearest(np.where(np.isfinite(whole), x - whole, F32.type(0)))


def _matmul_vjp(ct: Value, operands: tuple[Value, ...], results: tuple[Value, ...], attrs: Attributes) -> tuple[Value, ...]:
    """dA = ct B' and dB = A' ct. The gradient of a transposed operand is transposed by swapping the factors."""
    a, b = operands
    transpose_a, transpose_b = attrs["transpose_a"], attrs["transpose_b"]
    if transpose_a:
        ct_a = matmul(b, ct, transpose_a=transpose_b, transpose_b=True)
    else:
        ct_a = matmul(ct, b, transpose_a=False, transpose_b=not transpose_b)
    if transpose_b:
        ct_b = matmul(ct, a, transpose_a=True, transpose_b=transpose_a)
    else:
        ct_b = matmul(a, ct, transpose_a=not transpose_a, transpose_b=False)
    return ct_a, ct_b


def _batch_matmul(op: Op, operands: Sequence[Value], size: int) -> Sequence[Value]:
    """One product for all examples if they share a matrix: the others are its further rows, or its columns. Else a batch of products;
    those of a column and a row are elementwise."""
    (a, b), transpose_a, transpose_b = operands, op.attrs["transpose_a"], op.attrs["transpose_b"]
    flags = batched_operands(op, operands)
    if flags == [True, False] and b.type.rank == 2:
        return (times_shared(a, transpose_a, b, transpose_b),)
    if flags == [False, True] and a.type.rank == 2 and not _repeats_are_cheaper(op):        # (A B)' = B' A'
        product = times_shared(b, not transpose_b, a, not transpose_a)
        size, columns, rows = product.type.shape
        return (reshaped(product, (size, rows, 1)) if columns == 1 else transpose(product, permutation=(0, 2, 1)),)
    a, b = spread_all(op, operands, size)
    (rows, inner), (_, columns) = _rows_and_columns(a.type, transpose_a), _rows_and_columns(b.type, transpose_b)
    if inner != 1 or 1 in (rows, columns):
        return emit_again(op, (a, b))
    batch = a.type.shape[:-2]
    axes, shape = tuple(range(len(batch))), (*batch, rows, columns)
    return (multiply(broadcast(reshaped(a, (*batch, rows)), shape=shape, axes=(*axes, len(batch))),
                     broadcast(reshaped(b, (*batch, columns)), shape=shape, axes=(*axes, len(batch) + 1))),)


COST_OF_REPEATING = 3
"""Elements that a product of transposes may transpose for each one that a batch of products would repeat: each of the batch prepares its
matrices by itself. (Measured with layers of 2 x 32 to 784 x 128, for 32 to 256 rows that 32 networks share.)"""


def _repeats_are_cheaper(op: Op) -> bool:
    """True if a shared left matrix is better repeated than multiplied from the right: there the others and the result are transposed."""
    (rows, inner), columns = _rows_and_columns(op.operands[0].type, op.attrs["transpose_a"]), op.result.type.shape[-1]
    others = 0 if op.attrs["transpose_b"] or 1 in (inner, columns) else inner * columns
    result = 0 if 1 in (rows, columns) else rows * columns
    return COST_OF_REPEATING * rows * inner < others + result


def times_shared(a: Value, transpose_a: bool, b: Value, transpose_b: bool) -> Value:
    """Product of each matrix of the batch `a` with the matrix `b`, as one product of matrices."""
    if transpose_a:
        *batch, inner, rows = a.type.shape
        order = (*range(len(batch)), len(batch) + 1, len(batch))
        a = reshaped(a, (*batch, rows, inner)) if 1 in (inner, rows) else transpose(a, permutation=order)
    *batch, rows, inner = a.type.shape
    product = matmul(reshaped(a, (prod(batch) * rows, inner)), b, transpose_a=False, transpose_b=transpose_b)
    return reshaped(product, (*batch, rows, product.type.shape[1]))


def _matmul_samples() -> Iterator[Sample]:
    for transpose_a in (False, True):
        for transpose_b in (False, True):
            attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b}
            shape_a, shape_b = (4, 3) if transpose_a else (3, 4), (2, 4) if transpose_b else (4, 2)
            yield Sample((uniform(shape_a), uniform(shape_b, seed=1)), attrs, differentiable=(0, 1))
            yield Sample((uniform((2, *shape_a)), uniform((2, *shape_b), seed=1)), attrs, differentiable=(0, 1))
            yield Sample((uniform(shape_a, dtype=F32), uniform(shape_b, dtype=F32, seed=1)), attrs)
    plain = {"transpose_a": False, "transpose_b": False}
    yield Sample((uniform((2, 0)), uniform((0, 3))), plain)
    yield Sample((uniform((0, 2, 3)), uniform((0, 3, 1))), plain)
    yield Sample((np.arange(6, dtype=I32).reshape(2, 3), np.arange(6, dtype=I32).reshape(3, 2)), plain)
    yield Sample((np.eye(2, dtype=BOOL), np.ones((2, 2), BOOL)), plain)


matmul: OpDefinition = define(
    "matmul", Kind.CONTRACTION, arity=2, attributes={"transpose_a": bool, "transpose_b": bool}, marks=PRECISIONS,
    doc="The matrix product over the last two dimensions, each operand transposed first where asked; the others are a batch.",
    infer=_infer_matmul, evaluate=_evaluate_matmul, vjp=_matmul_vjp, samples=_matmul_samples, batch=_batch_matmul,
    terms=lambda shapes, result, attrs: shapes[0][-2 if attrs["transpose_a"] else -1])


def _infer_complex_matmul(a: TensorType, b: TensorType, *, transpose_a: bool, transpose_b: bool, conj_a: bool, conj_b: bool) -> TensorType:
    require(a, COMPLEX)
    return _infer_matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _evaluate_complex_matmul(a: np.ndarray, b: np.ndarray, *, transpose_a: bool, transpose_b: bool,
                             conj_a: bool, conj_b: bool) -> np.ndarray:
    return _evaluate_matmul(a.conj() if conj_a else a, b.conj() if conj_b else b, transpose_a=transpose_a, transpose_b=transpose_b)


def _complex_matmul_samples() -> Iterator[Sample]:
    def numbers(shape: tuple[int, ...], seed: int) -> np.ndarray:
        return np.asarray(uniform(shape, seed=seed) + 1j * uniform(shape, seed=seed + 1))

    for transpose_a, transpose_b, conj_a, conj_b in product((False, True), repeat=4):
        attrs = {"transpose_a": transpose_a, "transpose_b": transpose_b, "conj_a": conj_a, "conj_b": conj_b}
        a, b = numbers((2, 4, 3) if transpose_a else (2, 3, 4), 1), numbers((2, 2, 4) if transpose_b else (2, 4, 2), 3)
        yield Sample((a, b), attrs)
        yield Sample((a[0].astype(C64), b[0].astype(C64)), attrs)
    yield Sample((np.zeros((2, 0), C128), np.zeros((0, 3), C128)), dict.fromkeys(("transpose_a", "transpose_b", "conj_a", "conj_b"), False))


complex_matmul: OpDefinition = define(
    "complex_matmul", Kind.LINALG, arity=2, vjp=None, infer=_infer_complex_matmul, evaluate=_evaluate_complex_matmul,
    attributes={"transpose_a": bool, "transpose_b": bool, "conj_a": bool, "conj_b": bool}, samples=_complex_matmul_samples,
    doc="The matrix product of complex numbers as they are in memory, each operand transposed and conjugated first where asked: made of "
        "`matmul` after the last derivative.")
