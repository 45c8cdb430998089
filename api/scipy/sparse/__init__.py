"""SciPy's sparse arrays in traced functions: of plain elements, with traced vectors and matrices, and of traced elements.

    >>> import numpy as np
    >>> import scipy.sparse
    >>> import adjit as aj
    >>> A = scipy.sparse.diags_array([1.0, 2.0, 3.0])
    >>> aj.grad(lambda x: x @ (A @ x))(np.ones(3))
    array([2., 4., 6.])
    >>> aj.grad(lambda k: np.sum(scipy.sparse.diags_array([k, -k[1:]], offsets=[0, 1]) @ np.ones(3)))(np.ones(3))
    array([1., 0., 0.])

In traced functions SciPy's classes, `diags`, `kron`, `vstack` and kin, the operators, `dot`, and `scipy.sparse.linalg.spsolve` and `splu`
come here. What an array of plain elements stores is read at every call; another pattern of its elements is another program. Where traced
elements are has to be known while tracing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from adjit.scipy.mirror import outside_scipys, without_rule
from adjit.scipy.sparse import matrices
from adjit.scipy.sparse.matrices import SparseArray, make, moving
from adjit.scipy.sparse.matrices import as_sparse as as_sparse
from adjit.scipy.sparse.matrices import product as matmul

__all__ = ["SparseArray", "block_array", "block_diag", "bmat", "diags", "diags_array", "hstack", "kron", "make", "matmul", "spdiags",
           "tril", "triu", "vstack"]

block_array, block_diag, bmat, hstack, tril, triu, vstack = (
    outside_scipys("sparse")(moving(name)) for name in ("block_array", "block_diag", "bmat", "hstack", "tril", "triu", "vstack"))
diags, diags_array, kron, spdiags = (
    outside_scipys("sparse")(each) for each in (matrices.diags, matrices.diags_array, matrices.kron, matrices.spdiags))

_others = without_rule("sparse", __all__)


def __getattr__(name: str) -> Any:
    """Import `linalg` when it is first used; return what else SciPy's module has under this name, for plain arrays."""
    return import_module("adjit.scipy.sparse.linalg") if name == "linalg" else _others(name)
