"""Solutions of systems with sparse matrices: SciPy's, called by the program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.ir.types import is_complex
from adjit.runtime.compile_function import compile
from adjit.runtime.pure_callback import pure_callback
from adjit.scipy.mirror import outside_scipys, scipys, without_rule
from adjit.scipy.sparse.matrices import SparseArray, as_sparse, is_sparse
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.indexing import fixed
from adjit.tracer.user_location import find_user_location

__all__ = ["bicg", "bicgstab", "cg", "factorized", "gmres", "lgmres", "minres", "norm", "splu", "spsolve"]

_others = without_rule("sparse.linalg", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)


def spsolve(A: Any, b: Any, permc_spec: Any = None, use_umfpack: bool = True) -> Any:
    """Solution x of `A x = b` by `scipy.sparse.linalg.spsolve`, for a sparse array A [n, n] and b [n] or [n, k], of which one is traced.

    SciPy factorises the array whenever the program comes to this place; derivatives go to the elements of `A`, if they are traced, and to
    `b`, to any order in reverse mode.
    """
    if is_sparse(b):
        raise UnsupportedError("spsolve with a sparse right-hand side", find_user_location(), hint="pass b.toarray()")
    linalg, b = scipys("sparse.linalg"), as_traced(b)
    dtype = np.result_type(b.dtype, A.dtype, np.float32)
    if type(A) is not SparseArray:

        def solve(b: np.ndarray) -> Any:
            return np.reshape(linalg.spsolve(A, b, permc_spec, use_umfpack), b.shape)

        return pure_callback(solve, (b.shape, dtype), b, vjp=compile(
            lambda ct, x, b: _in(b, spsolve(A.T.conj().tocsc(), ct, permc_spec, use_umfpack))))
    A = A.summed().asformat("csc")
    rows, columns, data = A.entries()
    indices, indptr = fixed(A.numbers.indices), fixed(A.numbers.indptr)

    def solve_with(data: np.ndarray, b: np.ndarray) -> Any:
        matrix = scipys("sparse").csc_array((data, indices, indptr), A.shape)
        return np.reshape(linalg.spsolve(matrix, b, permc_spec, use_umfpack), b.shape)

    def derivative(ct: Any, x: Any, data: Any, b: Any) -> Any:
        adjoint = spsolve(A.like(data).T.conj(), ct, permc_spec, use_umfpack)
        terms = adjoint[rows] * np.conj(x[columns])
        return _in(data, -(terms if terms.ndim == 1 else np.sum(terms, axis=1))), _in(b, adjoint)

    return pure_callback(solve_with, (b.shape, dtype), data, b, vjp=compile(derivative))


def _in(x: Any, cotangent: Any) -> Any:
    """The cotangent in the dtype of its argument."""
    return (cotangent if is_complex(x.dtype) else np.real(cotangent)).astype(x.dtype)


class Factors:
    """What `scipy.sparse.linalg.splu` gives of traced elements: each `solve` factorises them."""

    def __init__(self, A: SparseArray, permc_spec: Any = None):
        self.matrix, self.permc_spec, self.shape = A, permc_spec, A.shape

    def solve(self, rhs: Any, trans: str = "N") -> Any:
        """Solution for a right-hand side; of the transposed matrix for "T", its conjugate for "H"."""
        matrix = {"N": self.matrix, "T": self.matrix.T, "H": self.matrix.H}[trans]
        return spsolve(matrix, rhs, self.permc_spec)


def splu(A: Any, permc_spec: Any = None, *options: Any, **more: Any) -> Factors:
    """Equivalent of `scipy.sparse.linalg.splu` for a sparse array of traced elements."""
    return Factors(as_sparse(A), permc_spec)


def factorized(A: Any) -> Callable[[Any], Any]:
    """Equivalent of `scipy.sparse.linalg.factorized` for a sparse array of traced elements."""
    return Factors(as_sparse(A)).solve


def solved(factors: Any, rhs: Any, trans: str = "N") -> Any:
    """`factors.solve(rhs, trans)` of factors that SciPy made of plain elements, for a traced right-hand side."""
    rhs = as_traced(rhs)
    like = factors.solve(np.zeros(rhs.shape, rhs.dtype), trans)

    def derivative(ct: Any, x: Any, rhs: Any) -> Any:
        return solved(factors, ct, {"N": "H", "H": "N"}[trans]) if trans != "T" else np.conj(solved(factors, np.conj(ct)))

    return pure_callback(lambda rhs: factors.solve(rhs, trans), (like.shape, like.dtype), rhs, vjp=compile(derivative))


def norm(x: Any, ord: Any = None, axis: Any = None) -> Any:
    """Equivalent of `scipy.sparse.linalg.norm` for a sparse array of traced elements: the norms of the dense one."""
    if ord in (None, "fro", "f") and axis is None:
        return np.sqrt(np.sum(np.abs(as_sparse(x).summed().elements) ** 2))
    return np.linalg.norm(as_sparse(x).toarray(), ord, axis)


def _iterative(name: str) -> Callable[..., Any]:
    def call(A: Any, b: Any, x0: Any = None, **options: Any) -> tuple[Any, Any]:
        b = as_traced(b)
        guess = np.zeros(b.shape, np.result_type(b.dtype, A.dtype)) if x0 is None else x0
        return _iterated(name, A, b, guess, options)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"""Equivalent of `scipy.sparse.linalg.{name}`, with the derivatives of the solution. Options take plain values."""
    return call


bicg, bicgstab, cg, gmres, lgmres, minres = map(_iterative, ("bicg", "bicgstab", "cg", "gmres", "lgmres", "minres"))


def _iterated(name: str, A: Any, b: Any, x0: Any, options: dict[str, Any]) -> tuple[Any, Any]:
    """Solution and state of an iterative solver; the adjoint system is solved by the same one."""
    dtype = np.result_type(b.dtype, A.dtype, np.float32)
    traced = type(A) is SparseArray
    if traced:
        A = A.summed().asformat("csr")
        rows, columns, data = A.entries()
        pattern = A.numbers
    elif isinstance(A, TracedArray):
        raise UnsupportedError(f"scipy.sparse.linalg.{name} with a dense traced matrix", find_user_location(),
                               hint="call np.linalg.solve, or make a sparse array of elements and their places")

    def solve(b: np.ndarray, x0: np.ndarray, *data: np.ndarray) -> Any:
        matrix = scipys("sparse").csr_array((data[0], pattern.indices, pattern.indptr), A.shape) if traced else A
        x, info = getattr(scipys("sparse.linalg"), name)(matrix, b, np.array(x0, dtype), **options)
        return x.astype(dtype).reshape(b.shape), np.int64(info)

    def derivative(ct: Any, found: Any, b: Any, x0: Any, *data: Any) -> Any:
        M = options.get("M")
        given = options if M is None else options | {"M": M.H if hasattr(M, "H") else M.T.conj()}
        adjoint, _ = _iterated(name, A.like(data[0]).H if traced else A.T.conj(), ct[0], np.zeros(b.shape, dtype), given)
        of_data = [_in(data[0], -adjoint[rows] * np.conj(found[0][columns]))] if traced else []
        return _in(b, adjoint), None, *of_data

    x, info = pure_callback(solve, ((b.shape, dtype), ((), np.int64)), b, x0, *([data] if traced else []), vjp=compile(derivative))
    return x, info


def _outside_scipys(name: str) -> Any:
    return outside_scipys("sparse.linalg")(globals()[name])


globals().update({name: _outside_scipys(name) for name in __all__})
