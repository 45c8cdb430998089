"""Sparse matrices of traced elements, in places that are known while tracing.

What moves elements (formats, slices, blocks, diagonals) is done by SciPy itself, to a matrix of the same pattern that has the numbers of
the elements, 1, 2, ..., in place of their values: afterwards it says which element is where.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import UnsupportedError
from adjit.scipy.mirror import scipys
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import HoldsTraced
from adjit.tracer.fresh_array import has_traced, plain_of
from adjit.tracer.functions.indexing import as_index, fixed, freeze
from adjit.tracer.lowering import constant
from adjit.tracer.trees import NAMESPACE, optree
from adjit.tracer.user_location import find_user_location

FORMATS = ("csr", "csc", "coo", "dia", "bsr")


class SparseArray(HoldsTraced):
    """What `scipy.sparse` has as `csr_array`, `csc_matrix`, ...: `numbers` is SciPy's array of the pattern, which stores 1, 2, ..., and
    `data` holds the traced element of each number. `matrix` is True for SciPy's older classes, whose `*` is the product.

    >>> import numpy as np
    >>> import scipy.sparse
    >>> import adjit as aj
    >>> def energy(stiffness, x):
    ...     K = scipy.sparse.csr_array((stiffness, ([0, 0, 1], [0, 1, 1])))
    ...     return x @ (K @ x)
    >>> aj.grad(energy)(np.array([2.0, 1.0, 3.0]), np.array([1.0, 2.0]))
    array([1., 2., 4.])
    """

    ndim = 2
    __array_ufunc__ = None      # operators of arrays leave it to this class

    def __init__(self, numbers: Any, data: Any, format: str, matrix: bool):
        self.numbers, self.elements, self.format, self.matrix = numbers, data, format, matrix

    @property       # type: ignore[misc]
    def __class__(self) -> type:        # `isinstance` reads it
        return getattr(scipys("sparse"), f"{self.format}_{'matrix' if self.matrix else 'array'}")      # type: ignore[no-any-return]

    # -- what is stored

    @property
    def shape(self) -> tuple[int, int]:
        return self.numbers.shape       # type: ignore[no-any-return]

    @property
    def dtype(self) -> np.dtype:
        return self.elements.dtype      # type: ignore[no-any-return]

    @property
    def nnz(self) -> int:
        return int(self.numbers.nnz)

    size = nnz

    @property
    def data(self) -> Any:
        self._has_lists("data")
        return self.elements

    @property
    def indices(self) -> np.ndarray:
        return self._of_pattern("indices", ("csr", "csc"))

    @property
    def indptr(self) -> np.ndarray:
        return self._of_pattern("indptr", ("csr", "csc"))

    @property
    def row(self) -> np.ndarray:
        return self._of_pattern("row", ("coo",))

    @property
    def col(self) -> np.ndarray:
        return self._of_pattern("col", ("coo",))

    def _of_pattern(self, name: str, formats: Sequence[str]) -> np.ndarray:
        if self.format not in formats:
            raise AttributeError(f"a sparse array in the format {self.format} has no {name}")
        return fixed(getattr(self.numbers, name))

    def _has_lists(self, what: str) -> None:
        if self.format in ("dia", "bsr"):
            raise UnsupportedError(f"the {what} of a sparse array of traced elements in the format {self.format}", find_user_location(),
                                   hint="convert it first: .tocsr() or .tocoo()")

    def entries(self) -> tuple[np.ndarray, np.ndarray, Any]:
        """Rows, columns and values of the elements, in the order in which they are stored."""
        pattern = self.numbers.tocoo()
        return fixed(pattern.row.astype(np.int64)), fixed(pattern.col.astype(np.int64)), self.elements

    def summed(self) -> SparseArray:
        """The same matrix, with one element in each place."""
        keys, places = np.unique(_keys(self.numbers), return_inverse=True)
        if keys.size == self.nnz:
            return self
        data = _summed(self.elements, places, keys.size)
        numbers = scipys("sparse").coo_array((_count(keys.size), (keys // self.shape[1], keys % self.shape[1])), self.shape)
        return _moved(numbers.asformat(self.numbers.format), data, self.format, self.matrix)

    def like(self, data: Any) -> SparseArray:
        """Matrix of the same pattern, of other elements."""
        return SparseArray(self.numbers, data, self.format, self.matrix)

    def moved(self, change: Callable[[Any], Any], format: str = "") -> Any:
        """What SciPy makes of the matrix by a change that moves elements: a matrix, an array, or an element."""
        summed = self.summed()
        return _moved(change(summed.numbers), summed.elements, format, self.matrix)

    # -- formats

    def asformat(self, format: str | None, copy: bool = False) -> SparseArray:
        if format is None or format == self.format:
            return self
        if format not in FORMATS:
            raise UnsupportedError(f"a sparse array of traced elements in the format {format}", find_user_location(),
                                   hint=f"formats: {', '.join(FORMATS)}")
        if format == "coo":
            return _moved(self.numbers.tocoo(), self.elements, "coo", self.matrix)
        return self.moved(lambda numbers: numbers.asformat(format if format in ("csr", "csc") else "csr"), format)      # type: ignore[no-any-return]

    def tocsr(self, copy: bool = False) -> SparseArray:
        return self.asformat("csr")

    def tocsc(self, copy: bool = False) -> SparseArray:
        return self.asformat("csc")

    def tocoo(self, copy: bool = False) -> SparseArray:
        return self.asformat("coo")

    def todia(self, copy: bool = False) -> SparseArray:
        return self.asformat("dia")

    def tobsr(self, blocksize: Any = None, copy: bool = False) -> SparseArray:
        return self.asformat("bsr")

    def toarray(self, order: str | None = None, out: None = None) -> Any:
        rows, columns, data = self.entries()
        return np.reshape(_summed(data, rows * self.shape[1] + columns, math.prod(self.shape)), self.shape)

    def todense(self, order: str | None = None, out: None = None) -> Any:
        self._is_no_matrix("todense()", "write .toarray()")
        return self.toarray()

    def _is_no_matrix(self, what: str, hint: str) -> None:
        if self.matrix:
            raise UnsupportedError(f"{what} of a sparse matrix is an np.matrix, and there is none of traced elements", find_user_location(),
                                   hint=f"{hint}, or use {self.format}_array")

    def copy(self) -> SparseArray:
        return self.like(self.elements.copy())

    def astype(self, dtype: Any, casting: str = "unsafe", copy: bool = True) -> SparseArray:
        return self.like(self.elements.astype(dtype))

    def sum_duplicates(self) -> None:
        summed = self.summed()
        self.numbers, self.elements = summed.numbers, summed.elements

    def sort_indices(self) -> None:
        sorted_ = self.moved(lambda numbers: numbers.tocsr().tocsc().tocsr() if self.format == "csr" else numbers.tocsc().tocsr().tocsc())
        if self.format in ("csr", "csc"):
            self.numbers, self.elements = sorted_.numbers, sorted_.elements

    # -- parts

    @property
    def T(self) -> SparseArray:
        return self.transpose()

    def transpose(self, axes: Any = None, copy: bool = False) -> SparseArray:
        format = {"csr": "csc", "csc": "csr"}.get(self.format, self.format)
        return _moved(self.numbers.T, self.elements, format, self.matrix)

    def __getitem__(self, key: Any) -> Any:
        if has_traced(key):
            raise UnsupportedError("a sparse array of traced elements at traced indices", find_user_location(),
                                   hint="indices of sparse arrays are plain numbers")
        for index in key if isinstance(key, tuple) else (key,):
            if isinstance(index, np.ndarray):
                freeze(index)
        key = tuple(map(plain_of, key)) if isinstance(key, tuple) else plain_of(key)
        kind = "csc" if self.format == "csc" else "csr"
        return self.moved(lambda numbers: _of_kind(numbers, kind, self.matrix)[key], self.format)

    def __setitem__(self, key: Any, value: Any) -> None:
        raise UnsupportedError("elements of a sparse array of traced elements are set", find_user_location(),
                               hint="choose them where the array is made: coo_array((values, (rows, columns))), with np.where")

    def diagonal(self, k: int = 0) -> Any:
        return self.moved(lambda numbers: numbers.diagonal(k))

    def trace(self, offset: int = 0) -> Any:
        return np.sum(self.diagonal(offset))

    def getrow(self, i: int) -> SparseArray:
        return self.moved(lambda numbers: _of_kind(numbers, "csr", True)[[i], :], "csr")       # type: ignore[no-any-return]

    def getcol(self, j: int) -> SparseArray:
        return self.moved(lambda numbers: _of_kind(numbers, "csc", True)[:, [j]], "csc")       # type: ignore[no-any-return]

    # -- arithmetic

    def conj(self, copy: bool = True) -> SparseArray:
        return self.like(np.conj(self.elements))

    conjugate = conj

    @property
    def H(self) -> SparseArray:
        return self.T.conj()

    def getH(self) -> SparseArray:
        return self.T.conj()

    @property
    def real(self) -> SparseArray:
        return self.like(np.real(self.elements))

    @property
    def imag(self) -> SparseArray:
        return self.like(np.imag(self.elements))

    def __neg__(self) -> SparseArray:
        return self.like(-self.elements)

    def __abs__(self) -> SparseArray:
        summed = self.summed()
        return summed.like(np.abs(summed.elements))

    def power(self, n: Any, dtype: Any = None) -> SparseArray:
        summed = self.summed()
        return summed.like(summed.elements ** n)

    def __pow__(self, n: Any) -> Any:
        if not self.matrix:
            return self.power(n)
        if not isinstance(n, int) or n < 1:
            raise UnsupportedError(f"the power {n!r} of a sparse matrix of traced elements", find_user_location(),
                                   hint="positive integers are supported")
        return self if n == 1 else self @ self ** (n - 1)

    def _times(self, factor: Any) -> SparseArray:
        return self.like(self.elements * factor)

    def multiply(self, other: Any) -> Any:
        if np.ndim(other) == 0:
            return self._times(other)
        own = self.summed()
        rows, columns, data = own.entries()
        if is_sparse(other):
            if other.shape != self.shape:
                raise ValueError("inconsistent shapes")
            theirs = as_sparse(other).summed()
            common, left, right = np.intersect1d(_keys(own.numbers), _keys(theirs.numbers), assume_unique=True, return_indices=True)
            found = own.elements[fixed(left)] * theirs.elements[fixed(right)]
            return _of_places(found, common // self.shape[1], common % self.shape[1], self.shape, "csr", self.matrix)
        try:
            table = np.broadcast_to(as_traced(other), self.shape)
        except ValueError:
            raise ValueError("inconsistent shapes") from None
        return _of_places(data * table[rows, columns], rows, columns, self.shape, "coo", self.matrix)

    def __mul__(self, other: Any) -> Any:
        if np.ndim(other) == 0 and not is_sparse(other):
            return self._times(other)
        return self @ other if self.matrix else self.multiply(other)

    def __rmul__(self, other: Any) -> Any:
        if np.ndim(other) == 0:
            return self._times(other)
        return self.__rmatmul__(other) if self.matrix else self.multiply(other)

    def __truediv__(self, other: Any) -> Any:
        if np.ndim(other) or is_sparse(other):
            raise UnsupportedError("a sparse array divided by an array", find_user_location(), hint="A.multiply(1 / x), or A.toarray() / x")
        return self.like(self.elements / other)

    def __add__(self, other: Any) -> Any:
        if not is_sparse(other):
            if np.ndim(other) == 0 and not isinstance(other, TracedArray) and other == 0:      # of sum(...)
                return self
            if np.ndim(other) == 0:
                raise NotImplementedError("adding a nonzero scalar to a sparse array is not supported")
            self._is_no_matrix("the sum with an array", "add .toarray()")
            return self.toarray() + other
        if other.shape != self.shape:
            raise ValueError(f"inconsistent shapes {self.shape} and {other.shape}")
        parts = [self.entries(), as_sparse(other).entries()]
        rows, columns = (np.concatenate([part[axis] for part in parts]) for axis in (0, 1))
        format = self.format if self.format in ("csr", "csc") else "csr"
        return _of_places(np.concatenate([part[2] for part in parts]), rows, columns, self.shape, format, self.matrix)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + (-other)

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def dot(self, other: Any) -> Any:
        return self._times(other) if np.ndim(other) == 0 and not is_sparse(other) else self @ other

    def __matmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return _product(self, as_sparse(other))
        return product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        if is_sparse(other):
            return _product(as_sparse(other), self)
        return product(self.T, np.transpose(as_traced(other))).T

    def sum(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        if axis is None:
            return np.sum(self.elements)
        self._is_no_matrix(f"sum(axis={axis})", "multiply with a vector of ones")
        return product(self, np.ones(self.shape[1])) if axis in (1, -1) else product(self.T, np.ones(self.shape[0]))

    def mean(self, axis: Any = None, dtype: Any = None, out: None = None) -> Any:
        count = math.prod(self.shape) if axis is None else self.shape[axis]
        return self.sum(axis) / count

    def _compared(self, other: Any) -> Any:
        raise UnsupportedError("comparisons of sparse arrays of traced elements", find_user_location(),
                               hint="compare their dense arrays, A.toarray()")

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _compared
    __hash__ = object.__hash__

    def __array_function__(self, function: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = function.__name__
        if name in ("ndim", "shape", "size"):
            return getattr(self, name)
        if name in ("sum", "mean", "trace", "diagonal", "transpose") and args and args[0] is self:      # NumPy asks for the methods
            return getattr(self, name)(*args[1:], **kwargs)
        raise UnsupportedError(f"np.{name} of a sparse array of traced elements", find_user_location(),
                               hint="call its methods, or NumPy's functions of A.toarray()")

    def __repr__(self) -> str:
        kind = "matrix" if self.matrix else "array"
        return f"<{self.format} sparse {kind} of shape {self.shape}, {self.nnz} traced elements>"

    def __bool__(self) -> bool:
        raise ValueError("The truth value of an array with more than one element is ambiguous. Use a.any() or a.all().")

    def __len__(self) -> int:
        raise TypeError("sparse array length is ambiguous; use getnnz() or shape[0]")

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_") and hasattr(scipys("sparse").csr_array, name):
            raise UnsupportedError(f"{name} of a sparse array of traced elements", find_user_location(),
                                   hint="it has products, sums, slices, formats and toarray()")
        raise AttributeError(f"a sparse array of traced elements has no attribute {name!r}")


class _Pattern:
    """All of a sparse array but its elements: the structure of a node of a tree."""

    def __init__(self, numbers: Any, format: str, matrix: bool):
        self.numbers, self.format, self.matrix = numbers, format, matrix

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Pattern) and (self.format, self.matrix, self.numbers.shape) == (
            other.format, other.matrix, other.numbers.shape) and np.array_equal(_keys(self.numbers), _keys(other.numbers))

    def __hash__(self) -> int:
        return hash((self.numbers.shape, self.numbers.nnz, self.format))

    def around(self, elements: Any) -> Any:
        """The sparse array with these elements, which is SciPy's where they are numbers, as results are."""
        if not isinstance(elements, np.ndarray) or elements.shape != (self.numbers.nnz,):
            return SparseArray(self.numbers, elements, self.format, self.matrix)
        kind, numbers = "matrix" if self.matrix else "array", self.numbers
        given = (numbers.row.copy(), numbers.col.copy()) if numbers.format == "coo" else (numbers.indices.copy(), numbers.indptr.copy())
        arrays = (elements, given) if numbers.format == "coo" else (elements, *given)
        return getattr(scipys("sparse"), f"{numbers.format}_{kind}")(arrays, numbers.shape).asformat(self.format)


def _children(A: Any) -> tuple[tuple[Any, ...], Any, tuple[str, ...]]:
    return (A.elements,), _Pattern(A.numbers, A.format, A.matrix), ("data",)


def _of_children(pattern: Any, children: Any) -> Any:
    return pattern.around(*children)


optree.register_pytree_node(SparseArray, _children, _of_children, path_entry_type=optree.GetAttrEntry, namespace=NAMESPACE)      # type: ignore[arg-type]


def is_sparse(x: Any) -> bool:
    """True for sparse arrays, SciPy's and those of traced elements."""
    return type(x) is SparseArray or (not isinstance(x, (TracedArray, np.ndarray)) and bool(scipys("sparse").issparse(x)))


def as_sparse(A: Any) -> SparseArray:
    """A sparse array of SciPy's as one of traced elements, which are read at every call; another pattern is another program."""
    if type(A) is SparseArray:
        return A
    rows, columns, data = entries(A)
    format = A.format if A.format in FORMATS else "csr"
    return _of_places(as_traced(data), rows, columns, A.shape, format, isinstance(A, scipys("sparse").spmatrix))


def entries(A: Any) -> tuple[Any, ...]:
    """Rows, columns and values of the stored elements, in the order in which SciPy's product adds them up."""
    if type(A) is SparseArray:
        return A.entries()
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


def product(A: Any, x: Any) -> Any:
    """Product of a sparse array [m, n] and a vector [n] or matrix [n, k]; the terms of an element are added in the order in which the
    array stores them."""
    x = as_traced(x)
    rows, columns, data = entries(A)
    size = A.shape[-1]
    if x.ndim not in (1, 2) or x.shape[0] != size:
        raise ValueError(f"matmul: dimension mismatch with signature (n,k={size}),(k={x.shape[0] if x.ndim else 1},m)->(n,m)")
    values: Any = as_traced(data)
    terms: Any = (values if x.ndim == 1 else values[:, None]) * wrap(ops.take(x.value, as_index(columns, size, 0), axis=0), scalar=False)
    base = constant(0, terms.dtype, (A.shape[0], *x.shape[1:]) if A.ndim == 2 else (1, *x.shape[1:]))
    total = wrap(ops.scatter_add(base, as_index(rows, base.type.shape[0], 0), terms.value, axis=0), scalar=False)
    return total if A.ndim == 2 else total[0]


def _product(A: SparseArray, B: SparseArray) -> SparseArray:
    """Product of sparse arrays."""
    if A.shape[1] != B.shape[0]:
        raise ValueError(f"matmul: dimension mismatch with signature (n,k={A.shape[1]}),(k={B.shape[0]},m)->(n,m)")
    left, right = A.summed().asformat("csr"), B.summed().asformat("csr")
    inner = left.numbers.indices                       # rows of B that the elements of A meet
    starts, counts = right.numbers.indptr[inner], np.diff(right.numbers.indptr)[inner]
    of_left = np.repeat(np.arange(inner.size), counts)
    of_right = np.arange(of_left.size) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(starts, counts)
    rows = np.repeat(np.arange(A.shape[0]), np.diff(left.numbers.indptr))[of_left]
    data = left.elements[fixed(of_left)] * right.elements[fixed(of_right)]
    return _of_places(data, rows, right.numbers.indices[of_right], (A.shape[0], B.shape[1]), "csr", A.matrix)


def _keys(numbers: Any) -> np.ndarray:
    """Places of the elements, as numbers, in the order in which they are stored."""
    pattern = numbers.tocoo()
    return np.asarray(pattern.row.astype(np.int64) * numbers.shape[1] + pattern.col)


def _count(n: int) -> np.ndarray:
    return np.arange(1, n + 1)


def _of_kind(numbers: Any, format: str, matrix: bool) -> Any:
    """SciPy's array in a format, of the older classes if they are asked for: those have other shapes of parts."""
    return getattr(scipys("sparse"), f"{format}_{'matrix' if matrix else 'array'}")(numbers)


def _summed(data: Any, places: np.ndarray, size: int) -> Any:
    """Vector with each element of `data` added in its place."""
    data = as_traced(data)
    return wrap(ops.scatter_add(constant(0, data.dtype, (size,)), as_index(fixed(places.astype(np.int64)), size, 0), data.value, axis=0),
                scalar=False)


def _moved(found: Any, data: Any, format: str, matrix: bool) -> Any:
    """What SciPy made of the numbers of elements, with the elements in their place."""
    if not scipys("sparse").issparse(found):
        found = np.array(found, np.int64)
        taken = data[fixed(np.maximum(found, 1) - 1)] if data.size else np.zeros(found.shape, data.dtype)
        return taken if found.all() else np.where(found > 0, taken, data.dtype.type(0))
    if found.ndim != 2:
        raise UnsupportedError("a sparse array of one dimension of traced elements", find_user_location(),
                               hint="keep both dimensions: A[[i]] in place of A[i]; or .toarray() before")
    if found.format not in ("csr", "csc", "coo"):
        found = found.tocoo()
    found = found.copy()
    stored = found.data.astype(np.int64)        # SciPy makes floats of diagonals
    found.data = _count(stored.size)
    if not np.array_equal(stored, found.data) or stored.size != data.size:
        data = data[fixed(stored - 1)]
    return SparseArray(found, data, format or found.format, matrix)


def _of_places(data: Any, rows: Any, columns: Any, shape: Any, format: str, matrix: bool) -> SparseArray:
    """Matrix of elements in places, of which several may be one, in a format."""
    numbers = scipys("sparse").coo_array((_count(data.size), (rows, columns)), shape)
    made = SparseArray(numbers, data, "coo", matrix)
    return made if format == "coo" else made.asformat(format)


# -- what makes them

def known(x: Any, what: str) -> np.ndarray:
    """Numbers that decide where elements are: they have to be known while tracing."""
    if has_traced(x):
        raise UnsupportedError(f"the {what} of a sparse array are traced", find_user_location(),
                               hint="the pattern has to be known while tracing: have the function close over these arrays")
    if isinstance(x, np.ndarray):
        freeze(x)
    return np.array(plain_of(x))


def make(name: str, given: Any, shape: Any = None, dtype: Any = None, copy: bool = False, blocksize: Any = None, **options: Any
         ) -> SparseArray:
    """What SciPy's class of this name makes of arguments, some of which are traced."""
    format, kind = name.split("_")
    matrix, sparse = kind == "matrix", scipys("sparse")
    if is_sparse(given):
        found = as_sparse(given).asformat(format)
        made = SparseArray(found.numbers, found.elements, format, matrix)
    elif format == "dia" and isinstance(given, tuple) and len(given) == 2 and shape is not None:
        made = _diagonals(as_traced(given[0]), known(given[1], "offsets"), shape, format, matrix)
    elif format in ("csr", "csc") and isinstance(given, tuple) and len(given) == 3:
        data = as_traced(given[0])
        numbers = getattr(sparse, f"{format}_array")((_count(data.size), known(given[1], "indices"), known(given[2], "indptr")), shape)
        made = SparseArray(numbers, data, format, matrix)
    elif format in ("csr", "csc", "coo") and isinstance(given, tuple) and len(given) == 2 and len(given[1]) == 2:
        rows, columns = (known(each, "places of elements") for each in given[1])
        made = _of_places(np.ravel(as_traced(given[0])), rows, columns, shape, format, matrix)
    else:
        raise UnsupportedError(f"scipy.sparse.{name} of a traced array, whose values decide which elements are stored",
                               find_user_location(),
                               hint="use the dense array itself, or pass the elements with their places: (data, (rows, columns))")
    return made if dtype is None else made.astype(dtype)


def _diagonals(data: Any, offsets: np.ndarray, shape: Any, format: str, matrix: bool) -> SparseArray:
    numbers = scipys("sparse").dia_array((np.reshape(_count(data.size), data.shape), offsets), shape)
    return _moved(numbers, np.ravel(data), "dia", matrix).asformat(format or "dia")      # type: ignore[no-any-return]


def _diags(diagonals: Any, offsets: Any, shape: Any, format: str | None, dtype: Any, matrix: bool) -> SparseArray:
    if np.ndim(offsets) == 0 and not (isinstance(diagonals, (list, tuple)) and len(diagonals) == 1 and np.ndim(diagonals[0])):
        diagonals = [diagonals]
    parts = [np.atleast_1d(as_traced(diagonal)) for diagonal in diagonals]
    if any(part.ndim != 1 for part in parts):
        raise ValueError("diagonals have to be vectors")
    ends = np.cumsum([part.size for part in parts])
    numbers = [np.arange(end - part.size, end) + 1.0 for part, end in zip(parts, ends, strict=True)]
    offsets = known(offsets, "offsets")
    found = scipys("sparse").diags_array(numbers, offsets=np.atleast_1d(offsets), shape=shape)
    made = _moved(found, np.concatenate(parts), "dia", matrix).asformat(format or "dia")
    return made if dtype is None else made.astype(dtype)        # type: ignore[no-any-return]


def diags(diagonals: Any, offsets: Any = 0, shape: Any = None, format: str | None = None, dtype: Any = None) -> SparseArray:
    """Equivalent of `scipy.sparse.diags` for traced diagonals."""
    return _diags(diagonals, offsets, shape, format, dtype, True)


def diags_array(diagonals: Any, /, *, offsets: Any = 0, shape: Any = None, format: str | None = None, dtype: Any = None) -> SparseArray:
    """Equivalent of `scipy.sparse.diags_array` for traced diagonals."""
    return _diags(diagonals, offsets, shape, format, dtype, False)


def spdiags(data: Any, diags: Any, m: Any = None, n: Any = None, format: str | None = None) -> SparseArray:
    """Equivalent of `scipy.sparse.spdiags` for traced data."""
    shape = m if m is not None and n is None else (m, n)
    data = np.atleast_2d(as_traced(data))
    return _diagonals(data, np.atleast_1d(known(diags, "offsets")), shape, format or "dia", True)


def moving(name: str) -> Callable[..., Any]:
    """Equivalent of a function of `scipy.sparse` that moves elements of the sparse arrays that it gets."""
    def call(*args: Any, **kwargs: Any) -> Any:
        parts: list[Any] = []
        count = 0

        def numbered(x: Any) -> Any:
            nonlocal count
            if isinstance(x, (list, tuple)):
                return type(x)(map(numbered, x))
            if isinstance(x, TracedArray):
                raise UnsupportedError(f"scipy.sparse.{name} of a dense traced array", find_user_location(),
                                       hint="make a sparse array of it first, from elements and their places")
            if not is_sparse(x):
                return x
            part = as_sparse(x).summed()
            numbers = part.numbers.copy()
            numbers.data = numbers.data + count
            count += part.nnz
            parts.append(part)
            return _of_kind(numbers, numbers.format, part.matrix)

        given = [numbered(x) for x in args]
        found = getattr(scipys("sparse"), name)(*given, **{key: numbered(x) for key, x in kwargs.items()})
        matrix = isinstance(found, scipys("sparse").spmatrix)
        return _moved(found, np.concatenate([part.elements for part in parts]), found.format, matrix)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"Equivalent of `scipy.sparse.{name}` for sparse arrays of traced elements."
    return call


def kron(A: Any, B: Any, format: str | None = None) -> SparseArray:
    """Equivalent of `scipy.sparse.kron` for sparse arrays of traced elements."""
    left, right = as_sparse(A).summed(), as_sparse(B).summed()
    (rows, columns, data), (their_rows, their_columns, their_data) = left.entries(), right.entries()
    (m, n), shape = right.shape, (left.shape[0] * right.shape[0], left.shape[1] * right.shape[1])
    found = np.ravel(data[:, None] * their_data)
    places = (np.add.outer(rows * m, their_rows).ravel(), np.add.outer(columns * n, their_columns).ravel())
    return _of_places(found, *places, shape, format or "csr", left.matrix and right.matrix)
