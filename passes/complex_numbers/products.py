"""Products of complex matrices as they are in memory, for backends that have code for them.

Matrices times vectors read the matrix once, as reals: from the vector two real ones are made, for the real parts of the result and for the
imaginary ones. Dot products are sums of elementwise products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adjit.ir import ops
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value
from adjit.passes.complex_numbers.arithmetic import Pair

MAX_SHORT_VECTOR = 8
"""Elements of a vector up to which a matrix times the vector is a product like others: 0.5 to 0.9 of the time of four real products, where
two rows of reals take 1.0 to 3.6, since they are made first. For 16 elements two rows take 0.4 to 0.85, and a product like others 0.6 to
1.2."""


@dataclass(frozen=True, slots=True)
class Factor:
    """A factor: a value of the graph, whether its last two axes change places, and whether its conjugate is meant."""

    value: Value
    transposed: bool
    conjugate: bool


def factors_of(op: Op, producers: Mapping[Value, Op]) -> tuple[Factor, Factor]:
    """The factors of a product, before transpositions and conjugates that the product can do itself."""
    a, b = (_source(Factor(value, op.attrs[name], False), producers)
            for value, name in zip(op.operands, ("transpose_a", "transpose_b"), strict=True))
    return a, b


def _source(factor: Factor, producers: Mapping[Value, Op]) -> Factor:
    op, rank = producers.get(factor.value), factor.value.type.rank
    if op is not None and op.name == "conj":
        return _source(Factor(op.operands[0], factor.transposed, not factor.conjugate), producers)
    if op is not None and op.name == "transpose" and op.attrs["permutation"] == (*range(rank - 2), rank - 1, rank - 2):
        return _source(Factor(op.operands[0], not factor.transposed, factor.conjugate), producers)
    return factor


def multiply_whole(op: Op, a: Factor, b: Factor, whole: Callable[[Value], Value], parts: Callable[[Value], Pair]) -> Pair | Value:
    """The product. `whole` and `parts` give a value as it is in memory, or its real and imaginary parts."""
    shape, inner = op.result.type.shape, a.value.type.shape[-2 if a.transposed else -1]
    if shape[-2:] == (1, 1):
        return _dot_product(parts(a.value), a.conjugate, parts(b.value), b.conjugate, inner, shape)
    if shape[-1] == 1 and not a.transposed and inner > MAX_SHORT_VECTOR:
        return _times_vector(whole(a.value), a.conjugate, parts(b.value), b.conjugate, shape)
    if shape[-2] == 1 and b.transposed and inner > MAX_SHORT_VECTOR:
        return _times_vector(whole(b.value), b.conjugate, parts(a.value), a.conjugate, shape)
    if shape[-1] == 1 and a.transposed:      # a row times a matrix reads whole rows of the matrix
        row = ops.reshape(whole(b.value), shape=(*shape[:-2], 1, a.value.type.shape[-2]))
        made = ops.complex_matmul(row, whole(a.value), transpose_a=False, transpose_b=False, conj_a=b.conjugate, conj_b=a.conjugate)
        return ops.reshape(made, shape=shape)
    return ops.complex_matmul(whole(a.value), whole(b.value), transpose_a=a.transposed, transpose_b=b.transposed, conj_a=a.conjugate,
                              conj_b=b.conjugate)


def _dot_product(a: Pair, conj_a: bool, b: Pair, conj_b: bool, inner: int, shape: tuple[int, ...]) -> Pair:
    """The sums of products, in one pass over both vectors."""
    (x, y), (u, v) = ([ops.reshape(part, shape=(*shape[:-2], inner)) for part in pair] for pair in (a, b))
    y, v = ops.negative(y) if conj_a else y, ops.negative(v) if conj_b else v
    terms = ops.subtract(ops.multiply(x, u), ops.multiply(y, v)), ops.add(ops.multiply(x, v), ops.multiply(y, u))
    real, imag = (ops.reshape(ops.reduce_sum(each, axes=(len(shape) - 2,)), shape=shape) for each in terms)
    return real, imag


def _times_vector(matrix: Value, of_conjugate: bool, vector: Pair, conjugate: bool, shape: tuple[int, ...]) -> Pair:
    """A matrix, `[rows, inner]`, or its conjugate, times a vector, or its conjugate. With rows (a, b, ...) of parts in memory, and a vector
    (c, d, ...): the sums of ac - bd and of ad + bc."""
    *batch, rows, inner = matrix.type.shape
    real, imag = (ops.reshape(part, shape=(*batch, inner)) for part in vector)
    minus_imag = ops.negative(imag)
    if conjugate:
        imag, minus_imag = minus_imag, imag
    lines = (ops.complex(real, imag), ops.complex(imag, ops.negative(real))) if of_conjugate else (
        ops.complex(real, minus_imag), ops.complex(imag, real))
    line = (*batch, 1, 2 * inner)
    both = ops.concatenate(*(ops.reshape(ops.view_as_real(value), shape=line) for value in lines), axis=len(batch))
    sums = ops.matmul(both, ops.reshape(ops.view_as_real(matrix), shape=(*batch, rows, 2 * inner)), transpose_a=False, transpose_b=True)
    first, last = (0,) * len(batch), tuple(batch)
    of_real, of_imag = (ops.reshape(ops.slice(sums, start=(*first, part, 0), stop=(*last, part + 1, rows), step=(1,) * (len(batch) + 2)),
                                    shape=shape) for part in (0, 1))
    return of_real, of_imag
