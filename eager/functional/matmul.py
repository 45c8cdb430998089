"""Products of vectors and matrices under PyTorch's names, which fix how many dimensions the operands have."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.eager.functional.reductions import norm
from adjit.ir.errors import ShapeError
from adjit.tracer.array import as_traced
from adjit.tracer.user_location import find_user_location

Array = Any


def _checked(name: str, a: Array, a_ndim: int, b: Array, b_ndim: int) -> tuple[Array, Array]:
    a, b = as_traced(a), as_traced(b)
    if (a.ndim, b.ndim) != (a_ndim, b_ndim):
        raise ShapeError(f"{name} takes tensors of {a_ndim} and {b_ndim} dimensions, got the shapes {a.shape} and {b.shape}",
                         find_user_location(), hint="matmul (@) takes all numbers of dimensions")
    return a, b


def mm(x: Array, mat2: Array) -> Array:
    """Matrix times matrix."""
    return np.matmul(*_checked("mm", x, 2, mat2, 2))


def bmm(x: Array, mat2: Array) -> Array:
    """Stack of matrices times stack of matrices of the same number."""
    x, mat2 = _checked("bmm", x, 3, mat2, 3)
    if len(x) != len(mat2):
        raise ShapeError(f"bmm: stacks of different sizes, {x.shape} and {mat2.shape}", find_user_location())
    return np.matmul(x, mat2)


def mv(x: Array, vec: Array) -> Array:
    """Matrix times vector."""
    return np.matmul(*_checked("mv", x, 2, vec, 1))


def dot(x: Array, tensor: Array) -> Array:
    """The inner product of two vectors."""
    return np.matmul(*_checked("dot", x, 1, tensor, 1))


def outer(x: Array, vec2: Array) -> Array:
    """Products of all pairs of elements of two vectors."""
    return np.outer(*_checked("outer", x, 1, vec2, 1))


def addmm(x: Array, mat1: Array, mat2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * x + alpha * (mat1 @ mat2)`."""
    return _sum(x, mm(mat1, mat2), beta, alpha)


def baddbmm(x: Array, batch1: Array, batch2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * x + alpha * (batch1 @ batch2)`, of stacks."""
    return _sum(x, bmm(batch1, batch2), beta, alpha)


def addmv(x: Array, mat: Array, vec: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * x + alpha * (mat @ vec)`, of a matrix and a vector."""
    return _sum(x, mv(mat, vec), beta, alpha)


def addbmm(x: Array, batch1: Array, batch2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * x + alpha * sum(batch1 @ batch2)`, the products of stacks summed over the stack."""
    return _sum(x, np.sum(bmm(batch1, batch2), axis=0), beta, alpha)


def addr(x: Array, vec1: Array, vec2: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * x + alpha * outer(vec1, vec2)`."""
    return _sum(x, outer(vec1, vec2), beta, alpha)


def vdot(x: Array, other: Array) -> Array:
    """The inner product of two vectors, the first one conjugated."""
    x, other = _checked("vdot", x, 1, other, 1)
    return np.matmul(np.conjugate(x), other)


def kron(x: Array, other: Array) -> Array:
    """Kronecker product."""
    return np.kron(as_traced(x), as_traced(other))


def cross(x: Array, other: Array, dim: int | None = None) -> Array:
    """Cross products of vectors of three elements along `dim`, by default the first dimension of size 3."""
    x, other = as_traced(x), as_traced(other)
    shape = np.broadcast_shapes(x.shape, other.shape)
    if dim is None:
        dim = next((axis for axis, size in enumerate(shape) if size == 3), None)
    if dim is None or shape[dim] != 3:
        raise ShapeError(f"cross takes vectors of three elements, got the shapes {x.shape} and {other.shape}", find_user_location())
    x, other = (np.moveaxis(np.broadcast_to(array, shape), dim, 0) for array in (x, other))
    (a, b, c), (d, e, f) = x, other
    return np.stack([b * f - c * e, c * d - a * f, a * e - b * d], axis=dim)


def dist(x: Array, other: Array, p: float = 2) -> Array:
    """The `p`-norm of the difference, all elements as one vector; its derivative at 0 is 0."""
    return norm(as_traced(x) - as_traced(other), p)


def _sum(x: Array, product: Array, beta: Any, alpha: Any) -> Array:
    x, product = as_traced(x), product if alpha == 1 else alpha * product
    return (x if beta == 1 else beta * x) + product


def einsum_of_one(x: Array, equation: str) -> Array:
    """`numpy.einsum` of one operand: a view if nothing is summed up; sums of bools and integers are int64."""
    x = as_traced(x)
    given, arrow, wanted = equation.replace(" ", "").partition("->")
    labels = given.replace(".", "")
    kept = set(wanted) if arrow else {label for label in labels if labels.count(label) == 1}
    summed = not kept.issuperset(labels) or (bool(arrow) and "." in given and "." not in wanted)
    return np.einsum(equation, x.astype(np.int64) if summed and x.dtype.kind in "biu" else x)
