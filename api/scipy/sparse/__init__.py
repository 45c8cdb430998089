"""Products and systems of SciPy's sparse arrays of plain numbers with traced vectors and matrices.

    >>> import numpy as np
    >>> import scipy.sparse
    >>> import adjit as aj
    >>> A = scipy.sparse.diags_array([1.0, 2.0, 3.0])
    >>> aj.grad(lambda x: x @ (A @ x))(np.ones(3))
    array([2., 4., 6.])

In traced functions the operators of SciPy's classes, `dot` and `scipy.sparse.linalg.spsolve` come here. What the array stores is read at
every call; another pattern of its elements is another program. A sparse array of traced elements cannot be made.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import UnsupportedError
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.functions.indexing import as_index, fixed, freeze
from adjit.tracer.lowering import constant
from adjit.tracer.user_location import find_user_location

__all__ = ["matmul"]


def matmul(A: Any, x: Any) -> Any:
    """Product of a sparse array [m, n] and a traced vector [n] or matrix [n, k], as `A @ x`.

    Terms of an element are added in the order in which the array stores them, as in SciPy. Raises `ValueError` for shapes that do not
    fit, `UnsupportedError` for formats that hold Python objects (`lil`, `dok`).
    """
    x = as_traced(x)
    rows, columns, data = _entries(A)
    size = A.shape[-1]
    if x.ndim not in (1, 2) or x.shape[0] != size:
        raise ValueError(f"matmul: dimension mismatch with signature (n,k={size}),(k={x.shape[0] if x.ndim else 1},m)->(n,m)")
    values: Any = as_traced(data)
    terms: Any = (values if x.ndim == 1 else values[:, None]) * wrap(ops.take(x.value, as_index(columns, size, 0), axis=0), scalar=False)
    base = constant(0, terms.dtype, (A.shape[0], *x.shape[1:]) if A.ndim == 2 else (1, *x.shape[1:]))
    total = wrap(ops.scatter_add(base, as_index(rows, base.type.shape[0], 0), terms.value, axis=0), scalar=False)
    return total if A.ndim == 2 else total[0]


def _entries(A: Any) -> tuple[np.ndarray, ...]:
    """Rows, columns and values of the stored elements, in the order in which SciPy's product adds them up."""
    if A.format in ("csr", "csc"):
        freeze(A.indices)
        freeze(A.indptr)
        along = np.repeat(np.arange(A.indptr.size - 1), np.diff(A.indptr))
        rows, columns = (along, A.indices) if A.format == "csr" else (A.indices, along)
        return fixed(rows), fixed(columns.astype(np.int64)), A.data
    if A.format == "coo" and A.ndim == 2:
        freeze(A.row)
        freeze(A.col)
        return fixed(A.row.astype(np.int64)), fixed(A.col.astype(np.int64)), A.data
    if A.format not in ("dia", "bsr") or A.ndim != 2:
        raise UnsupportedError(f"the product of a sparse array of {A.ndim} dimensions in the format {A.format} and a traced array",
                               find_user_location(), hint="convert it outside of the function: A = A.tocsr()")
    for name in ("data", "offsets", "indices", "indptr"):
        freeze(getattr(A, name, A.data))
    if A.format == "dia":
        (m, n), stored = A.shape, A.data.shape[1]
        rows = [np.arange(max(0, -offset), min(m, n - offset, stored - offset)) for offset in A.offsets.tolist()]
        columns = [row + offset for row, offset in zip(rows, A.offsets.tolist(), strict=True)]
        values = [line[column] for line, column in zip(A.data, columns, strict=True)]
        return tuple(fixed(np.concatenate([none, *each])) for none, each in ((_NONE, rows), (_NONE, columns), (A.data[0, :0], values)))
    made = A.tocsr()
    return fixed(np.repeat(np.arange(made.shape[0]), np.diff(made.indptr))), fixed(made.indices.astype(np.int64)), fixed(made.data)


_NONE = np.zeros(0, np.int64)
