"""Products, norms and rearrangements of `numpy.linalg` that are made of other functions."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError
from adjit.linalg.functions import inv, norm, solve, stands_for
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.shapes import as_array, expand_dims, normalize_axes
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.user_location import find_user_location


def _forward(name: str) -> None:
    """Register NumPy's function of the main namespace under its name in `numpy.linalg`."""
    if hasattr(np.linalg, name) and hasattr(np, name):
        FUNCTIONS[getattr(np.linalg, name)] = FUNCTIONS[getattr(np, name)]


for _name in ("matmul", "matrix_transpose", "tensordot", "vecdot"):
    _forward(_name)


def _linalg(name: str, *keywords: str) -> Any:
    """Register a function that older versions of NumPy do not have."""
    return stands_for(getattr(np.linalg, name), *keywords) if hasattr(np.linalg, name) else lambda function: function


@_linalg("outer")
def outer(x1: Any, x2: Any, /) -> Any:
    """Equivalent of `numpy.linalg.outer`, of two vectors."""
    x, y = as_traced(x1), as_traced(x2)
    if x.ndim != 1 or y.ndim != 1:
        raise ValueError(f"Input arrays must be one-dimensional, but they are x1.ndim={x.ndim} and x2.ndim={y.ndim}.")
    return FUNCTIONS[np.outer](x, y)


@_linalg("cross")
def cross(x1: Any, x2: Any, /, *, axis: int = -1) -> Any:
    """Equivalent of `numpy.linalg.cross`, of vectors with three elements; `axis` may be named `dim`.

    >>> import numpy as np
    >>> cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    array([0., 0., 1.])
    """
    x, y = as_traced(x1), as_traced(x2)
    if x.shape[axis] != 3 or y.shape[axis] != 3:
        raise ValueError("Both input arrays must be (arrays of) 3-dimensional vectors, "
                         f"but they are {x.shape[axis]} and {y.shape[axis]} dimensional instead.")
    return FUNCTIONS[np.cross](x, y, axis=axis)


@_linalg("diagonal")
def diagonal(x: Any, /, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """Equivalent of `numpy.linalg.diagonal`, of the last two axes; for traced arrays and tensors also of two others.

    >>> import numpy as np
    >>> diagonal(np.eye(2))
    array([1., 1.])
    """
    return FUNCTIONS[np.diagonal](x, offset, dim1, dim2)


@_linalg("trace")
def trace(x: Any, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """Equivalent of `numpy.linalg.trace`, of the last two axes."""
    return FUNCTIONS[np.trace](x, offset, -2, -1, dtype)


@_linalg("vector_norm", "ord", "axis", "keepdims")
def vector_norm(x: Any, ord: float = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """Equivalent of `numpy.linalg.vector_norm`; the derivative of a norm of 0 is 0. `axis` and `keepdims` may be named `dim` and `keepdim`.

    >>> import numpy as np
    >>> float(vector_norm(np.array([3.0, 4.0])))
    5.0
    """
    array = as_array(x)
    axes = normalize_axes(tuple(axis) if isinstance(axis, list) else axis, array.ndim)
    others = tuple(i for i in range(array.ndim) if i not in axes)
    front = FUNCTIONS[np.transpose](array, (*axes, *others))
    flat = FUNCTIONS[np.reshape](front, (math.prod(array.shape[i] for i in axes), *(array.shape[i] for i in others)))
    result = norm(flat, ord, axis=0)
    return expand_dims(result, tuple(sorted(axes))) if keepdims and axes else result


@_linalg("matrix_norm", "ord", "axis", "keepdims")
def matrix_norm(x: Any, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False) -> Any:
    """Equivalent of `numpy.linalg.matrix_norm`, as `norm`. For traced arrays and tensors, two other axes may be given, also as `dim`.

    >>> import numpy as np
    >>> float(matrix_norm(np.array([[3.0, 0.0], [0.0, 4.0]])))
    5.0
    """
    return norm(x, ord, axis=tuple(axis), keepdims=keepdims)


@stands_for(np.linalg.multi_dot)
def multi_dot(arrays: Any, *, out: Any = None) -> Any:
    """Equivalent of `numpy.linalg.multi_dot`: products in the order that takes the fewest multiplications.

    >>> import numpy as np
    >>> multi_dot([np.eye(2), np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 1.0])])
    array([3., 7.])
    """
    matrices = [as_traced(array) for array in arrays]
    if len(matrices) < 2:
        raise ValueError("Expecting at least two arrays.")
    first, last = matrices[0].ndim == 1, matrices[-1].ndim == 1
    matrices[0] = FUNCTIONS[np.atleast_2d](matrices[0])
    matrices[-1] = matrices[-1][:, None] if last else matrices[-1]
    for matrix in matrices:
        if matrix.ndim != 2:
            raise np.linalg.LinAlgError(f"{matrix.ndim}-dimensional array given. Array must be two-dimensional")
    product = _in_best_order(matrices)
    result = product[0, 0] if first and last else product[0] if first else product[:, 0] if last else product
    if out is not None:
        out[...] = result
        return out
    return result


def _in_best_order(matrices: list[TracedArray]) -> TracedArray:
    sizes = [matrices[0].shape[0], *(matrix.shape[1] for matrix in matrices)]
    count = len(matrices)
    cost: dict[tuple[int, int], tuple[int, int]] = {(i, i): (0, i) for i in range(count)}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            cost[i, j] = min((cost[i, k][0] + cost[k + 1, j][0] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j))

    def multiplied(i: int, j: int) -> TracedArray:
        if i == j:
            return matrices[i]
        k = cost[i, j][1]
        return FUNCTIONS[np.matmul](multiplied(i, k), multiplied(k + 1, j))     # type: ignore[no-any-return]

    return multiplied(0, count - 1)


@stands_for(np.linalg.tensorsolve)
def tensorsolve(a: Any, b: Any, axes: Any = None) -> Any:
    """Equivalent of `numpy.linalg.tensorsolve`.

    >>> import numpy as np
    >>> tensorsolve(np.array([[2.0, 0.0], [0.0, 4.0]]), np.array([1.0, 2.0]))
    array([0.5, 0.5])
    """
    x, y = as_array(a), as_array(b)
    if axes is not None:
        kept = [k for k in range(x.ndim) if k not in axes]
        x = FUNCTIONS[np.transpose](x, (*kept, *axes))
    shape = x.shape[-(x.ndim - y.ndim):] if x.ndim > y.ndim else ()
    count = math.prod(shape)
    if x.size != count * count:
        raise ShapeError(f"tensorsolve: {x.shape} is no square matrix of {count} unknowns", find_user_location())
    return FUNCTIONS[np.reshape](solve(FUNCTIONS[np.reshape](x, (count, count)), FUNCTIONS[np.ravel](y)), shape)


@stands_for(np.linalg.tensorinv)
def tensorinv(a: Any, ind: int = 2) -> Any:
    """Equivalent of `numpy.linalg.tensorinv`.

    >>> import numpy as np
    >>> tensorinv(np.array([[2.0, 0.0], [0.0, 4.0]]), 1)
    array([[0.5 , 0.  ],
           [0.  , 0.25]])
    """
    x = as_array(a)
    if operator.index(ind) <= 0:
        raise ValueError("Invalid ind argument.")
    rows = math.prod(x.shape[ind:])
    return FUNCTIONS[np.reshape](inv(FUNCTIONS[np.reshape](x, (rows, -1))), x.shape[ind:] + x.shape[:ind])
