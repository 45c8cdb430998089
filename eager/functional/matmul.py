"""Products of vectors and matrices under PyTorch's names, which fix how many dimensions the operands have."""

from __future__ import annotations

from typing import Any

import numpy as np

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


def mm(a: Array, b: Array) -> Array:
    """Matrix times matrix."""
    return np.matmul(*_checked("mm", a, 2, b, 2))


def bmm(a: Array, b: Array) -> Array:
    """Stack of matrices times stack of matrices of the same number."""
    a, b = _checked("bmm", a, 3, b, 3)
    if len(a) != len(b):
        raise ShapeError(f"bmm: stacks of different sizes, {a.shape} and {b.shape}", find_user_location())
    return np.matmul(a, b)


def mv(a: Array, b: Array) -> Array:
    """Matrix times vector."""
    return np.matmul(*_checked("mv", a, 2, b, 1))


def dot(a: Array, b: Array) -> Array:
    """The inner product of two vectors."""
    return np.matmul(*_checked("dot", a, 1, b, 1))


def outer(a: Array, b: Array) -> Array:
    """Products of all pairs of elements of two vectors."""
    return np.outer(*_checked("outer", a, 1, b, 1))


def addmm(bias: Array, a: Array, b: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * bias + alpha * (a @ b)`."""
    product, bias = mm(a, b), as_traced(bias)
    product = product if alpha == 1 else alpha * product
    return (bias if beta == 1 else beta * bias) + product


def baddbmm(bias: Array, a: Array, b: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * bias + alpha * (a @ b)`, of stacks."""
    product, bias = bmm(a, b), as_traced(bias)
    product = product if alpha == 1 else alpha * product
    return (bias if beta == 1 else beta * bias) + product


def addmv(bias: Array, a: Array, b: Array, beta: Any = 1, alpha: Any = 1) -> Array:
    """`beta * bias + alpha * (a @ b)`, of a matrix and a vector."""
    product, bias = mv(a, b), as_traced(bias)
    product = product if alpha == 1 else alpha * product
    return (bias if beta == 1 else beta * bias) + product
