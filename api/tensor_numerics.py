"""Functions of tensors that are no methods, by PyTorch's names: integrals, distances, searches, decompositions, complex numbers.

>>> import adjit as aj
>>> aj.trapezoid(aj.tensor([1.0, 2.0, 3.0]))
tensor(4.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.checks import check_parameter
from adjit.eager.functional import shapes
from adjit.eager.generator import Generator
from adjit.eager.modes import modes
from adjit.eager.node_names import raw
from adjit.eager.tensor import Tensor, as_tensor
from adjit.ir import ops
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError
from adjit.ir.types import is_float, is_inexact, real_dtype
from adjit.linalg import decompositions, products, pytorch
from adjit.tensor_creation import randn
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.functions.composites import vector_norm
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location

Array = Any


def _tensors(several: tuple[Any, ...]) -> list[Tensor]:
    """Return the tensors that are given one by one, or as one sequence."""
    given = several[0] if len(several) == 1 and isinstance(several[0], (tuple, list)) else several
    return [as_tensor(each) for each in given]


# -- statistics


def std_mean(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> tuple[Tensor, Tensor]:
    """Standard deviation and mean, with the arguments of `std`.

    >>> import adjit as aj
    >>> aj.std_mean(aj.tensor([1.0, 3.0]))
    (tensor(1.4142), tensor(2.))
    """
    x = as_tensor(input)
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    return x.std(dim, unbiased, keepdim, correction=correction), x.mean(dim, keepdim)


def var_mean(input: Any, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> tuple[Tensor, Tensor]:
    """Variance and mean, with the arguments of `var`.

    >>> import adjit as aj
    >>> aj.var_mean(aj.tensor([1.0, 3.0]))
    (tensor(2.), tensor(2.))
    """
    x = as_tensor(input)
    dim, unbiased = (None, dim) if isinstance(dim, bool) else (dim, unbiased)
    return x.var(dim, unbiased, keepdim, correction=correction), x.mean(dim, keepdim)


def _segments(data: Array, lengths: Array, axis: int, reduce: str, initial: Any) -> Array:
    data, lengths = as_traced(data), as_traced(lengths)
    data = np.moveaxis(data, axis, 0)
    count = lengths.shape[0]
    segment = np.searchsorted(np.cumsum(lengths), np.arange(data.shape[0]), side="right")
    ufunc, start = {"sum": (np.add, 0), "mean": (np.add, 0), "prod": (np.multiply, 1), "max": (np.maximum, -np.inf),
                    "min": (np.minimum, np.inf)}[reduce]
    found = np.full((count, *data.shape[1:]), start if initial is None else initial, data.dtype)
    made: Array = np.copy(as_traced(found))
    ufunc.at(made, segment, data)
    if reduce == "mean":
        made = made / np.reshape(lengths, (-1,) + (1,) * (data.ndim - 1)).astype(data.dtype)
    return np.moveaxis(made, 0, axis)


def segment_reduce(data: Any, reduce: str, *, lengths: Any = None, axis: int = 0, unsafe: bool = False, initial: Any = None) -> Tensor:
    """Reduce segments of the first dimension, of these lengths: "sum", "mean", "max", "min" or "prod".

    >>> import adjit as aj
    >>> aj.segment_reduce(aj.tensor([1.0, 2.0, 3.0]), "sum", lengths=aj.tensor([2, 1]))
    tensor([3., 3.])
    """
    if reduce not in ("sum", "mean", "max", "min", "prod"):
        raise ArgumentError(f"segment_reduce: reduce is 'sum', 'mean', 'max', 'min' or 'prod', got {reduce!r}", find_user_location())
    if lengths is None:
        raise ArgumentError("segment_reduce needs lengths=", find_user_location())
    return apply(_segments, (as_tensor(data), as_tensor(lengths), axis, reduce, initial))    # type: ignore[no-any-return]


# -- integrals and differences


def as_floats(x: Any) -> Tensor:
    """`x` as a tensor, integers in the default dtype of floats."""
    x = as_tensor(x)
    return x if is_inexact(x.dtype) else x.to(modes.default_float)      # type: ignore[no-any-return]


def trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Integral along `dim` by the trapezoidal rule, at the points `x` or at distances `dx`.

    >>> import adjit as aj
    >>> aj.trapezoid(aj.tensor([1.0, 2.0, 3.0]), dx=2.0)
    tensor(8.)
    """
    return apply(raw(np.trapezoid), (as_floats(y), None if x is None else as_floats(x), dx, dim))        # type: ignore[no-any-return]


def trapz(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Integral by the trapezoidal rule, as `trapezoid`.

    >>> import adjit as aj
    >>> aj.trapz(aj.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    return trapezoid(y, x, dx=dx, dim=dim)


def _cumulative(y: Array, x: Array, dx: float, dim: int) -> Array:
    y = as_traced(y)
    before = (slice(None),) * normalize_axis(dim, y.ndim)
    pairs = (y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]) * 0.5
    if x is None:
        return np.cumsum(pairs * dx, axis=dim)
    steps = np.diff(as_traced(x), axis=dim if as_traced(x).ndim > 1 else -1)
    if steps.ndim == 1:
        steps = np.reshape(steps, tuple(-1 if axis == len(before) else 1 for axis in range(y.ndim)))
    return np.cumsum(pairs * steps, axis=dim)


def cumulative_trapezoid(y: Any, x: Any = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """Cumulative integrals along `dim` by the trapezoidal rule.

    >>> import adjit as aj
    >>> aj.cumulative_trapezoid(aj.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    return apply(_cumulative, (as_floats(y), None if x is None else as_floats(x), dx, dim))      # type: ignore[no-any-return]


def gradient(input: Any, *, spacing: Any = 1, dim: int | Sequence[int] | None = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Differences of second order along each of `dim`, by default all; `spacing` is one distance, or distances or places for each.

    >>> import adjit as aj
    >>> aj.gradient(aj.tensor([1.0, 4.0, 9.0]))
    (tensor([3., 4., 5.]),)
    """
    x = as_floats(input)
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    places = list(spacing) if isinstance(spacing, (tuple, list)) else [spacing] * len(dims)
    if len(places) != len(dims):
        raise ArgumentError(f"gradient: {len(places)} spacings for {len(dims)} dimensions", find_user_location())
    found = []
    for axis, place in zip(dims, places, strict=True):
        found.append(apply(raw(np.gradient), (x, place), {"axis": axis, "edge_order": edge_order}))
    return tuple(found)


# -- products, norms, distances


def tensordot(a: Any, b: Any, dims: Any = 2) -> Tensor:
    """Sum of products over the last `dims` dimensions of `a` and the first ones of `b`; or over two lists of dimensions.

    >>> import adjit as aj
    >>> aj.tensordot(aj.tensor([1.0, 2.0]), aj.tensor([3.0, 4.0]), dims=1)
    tensor(11.)
    """
    axes = dims if isinstance(dims, int) else tuple(tuple(each) if isinstance(each, (tuple, list)) else each for each in dims)
    return apply(raw(np.tensordot), (as_tensor(a), as_tensor(b), axes))        # type: ignore[no-any-return]


def chain_matmul(*matrices: Any) -> Tensor:
    """Product of several matrices, in the order that takes the fewest multiplications.

    >>> import adjit as aj
    >>> aj.chain_matmul(aj.eye(2), aj.eye(2), aj.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    several = _tensors(matrices)
    return several[0] if len(several) == 1 else products.multi_dot(several)     # type: ignore[no-any-return]


def block_diag(*tensors: Any) -> Tensor:
    """Matrix with these matrices on its diagonal, and zeros elsewhere.

    >>> import adjit as aj
    >>> aj.block_diag(aj.ones(1, 1), aj.ones(1, 2))
    tensor([[1., 0., 0.],
            [0., 1., 1.]])
    """
    return apply(_on_diagonal, (_tensors(tensors),))        # type: ignore[no-any-return]


def _on_diagonal(arrays: Sequence[Array]) -> Array:
    matrices = [np.atleast_2d(as_traced(array)) for array in arrays]
    columns, start, rows = sum(matrix.shape[1] for matrix in matrices), 0, []
    for matrix in matrices:
        rows.append(np.pad(matrix, ((0, 0), (start, columns - start - matrix.shape[1]))))
        start += matrix.shape[1]
    return np.concatenate(rows, axis=0)


def _distances(a: Array, b: Array, p: float) -> Array:
    a, b = as_traced(a), as_traced(b)
    return vector_norm(a[..., :, None, :] - b[..., None, :, :], p, -1, False)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Tensor:
    """The `p`-norms of the differences of each row of `x1` and each row of `x2`: (..., n, m) for (..., n, d) and (..., m, d). The
    derivative at 0 is 0.

    >>> import adjit as aj
    >>> aj.cdist(aj.zeros(1, 2), aj.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[5., 1.]])
    """
    a, b = as_tensor(x1), as_tensor(x2)
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-1]:
        raise ShapeError(f"cdist takes rows of one length, got the shapes {a.shape} and {b.shape}", find_user_location())
    return apply(_distances, (a, b, float(p)))      # type: ignore[no-any-return]


def pdist(input: Any, p: float = 2.0) -> Tensor:
    """The `p`-norms of the differences of each row and those after it.

    >>> import adjit as aj
    >>> aj.pdist(aj.tensor([[0.0, 0.0], [3.0, 4.0]]))
    tensor([5.])
    """
    x = as_tensor(input)
    first, second = np.triu_indices(x.shape[0], 1)
    return apply(_row_norms, (x[first], x[second], float(p)))       # type: ignore[no-any-return]


def _row_norms(a: Array, b: Array, p: float) -> Array:
    return vector_norm(as_traced(a) - as_traced(b), p, 1, False)


def norm_except_dim(v: Any, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but `dim`, which are kept with size 1; over all of them with `dim=-1`.

    >>> import adjit as aj
    >>> aj.norm_except_dim(aj.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """
    x = as_tensor(v)
    if dim == -1:
        return x.norm(pow)
    return x.norm(pow, [axis for axis in range(x.ndim) if axis != dim], keepdim=True)


def nuclear_norm(input: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Sum of the singular values.

    >>> import adjit as aj
    >>> aj.nuclear_norm(aj.eye(2))
    tensor(2.)
    """
    return products.matrix_norm(as_tensor(input), "nuc", tuple(dim), keepdim)       # type: ignore[no-any-return]


def frobenius_norm(input: Any, dim: Any = (), keepdim: bool = False) -> Tensor:
    """Square root of the sum of squares over `dim`, by default all dimensions.

    >>> import adjit as aj
    >>> aj.frobenius_norm(aj.tensor([[3.0, 4.0]]), (0, 1))
    tensor(5.)
    """
    return as_tensor(input).norm(2, tuple(dim) if isinstance(dim, (tuple, list)) and dim else None if dim == () else dim, keepdim)


def matrix_rank(input: Any, tol: Any = None, symmetric: bool = False) -> Tensor:
    """Number of singular values above a tolerance.

    >>> import adjit as aj
    >>> aj.matrix_rank(aj.ones(2, 2))
    tensor(1)
    """
    return decompositions.matrix_rank(as_tensor(input), tol, symmetric)     # type: ignore[no-any-return]


def lu_unpack(LU_data: Any, LU_pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """P, L and U of what `lu` gives.

    >>> import adjit as aj
    >>> P, L, U = aj.lu_unpack(*aj.tensor([[2.0, 4.0], [1.0, 3.0]]).lu())
    >>> U
    tensor([[2., 4.],
            [0., 1.]])
    """
    return pytorch.lu_unpack(as_tensor(LU_data), as_tensor(LU_pivots))


def svd_lowrank(A: Any, q: int = 6, niter: int = 2, M: Any = None) -> tuple[Tensor, Tensor, Tensor]:
    """Approximate singular value decomposition of rank `q`: by random vectors and `niter` subspace iterations.

    Source: Halko, Martinsson and Tropp, Finding structure with randomness, arXiv:0909.4061, as in `torch.svd_lowrank`.

    >>> import adjit as aj
    >>> u, s, v = aj.svd_lowrank(aj.ones(3, 2), q=1)
    >>> s
    tensor([2.4495])
    """
    a = as_tensor(A) if M is None else as_tensor(A) - as_tensor(M)
    if a.shape[-2] < a.shape[-1]:
        u, s, v = svd_lowrank(a.mT, q, niter)
        return v, s, u
    basis, _ = decompositions.qr(a @ randn(*a.shape[:-2], a.shape[-1], q, dtype=a.dtype, device=a.device))
    for _step in range(niter):
        basis, _ = decompositions.qr(a.mT @ basis)
        basis, _ = decompositions.qr(a @ basis)
    u, s, vh = decompositions.svd(basis.mT @ a, full_matrices=False)
    return basis @ u, s, vh.mT


def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    """Principal components of rows, as `svd_lowrank` of the matrix, its columns centred.

    >>> import adjit as aj
    >>> aj.pca_lowrank(aj.tensor([[1.0, 0.0], [3.0, 0.0]]), q=1)[1]
    tensor([1.4142])
    """
    a = as_tensor(A)
    rank = min(6, *a.shape[-2:]) if q is None else q
    return svd_lowrank(a - a.mean(-2, keepdim=True) if center else a, rank, niter)


# -- searches


def searchsorted(sorted_sequence: Any, input: Any, *, out_int32: bool = False, right: bool = False, side: str | None = None,
                 sorter: Any = None) -> Tensor:
    """Indices in rows of ascending numbers before which the elements of `input` belong; with `right`, after equal ones.

    >>> import adjit as aj
    >>> aj.searchsorted(aj.tensor([1.0, 3.0, 5.0]), aj.tensor([3.0, 6.0]))
    tensor([1, 3])
    """
    if side not in (None, "left", "right"):
        raise ArgumentError(f"searchsorted: side is 'left' or 'right', got {side!r}", find_user_location())
    rows, values = as_tensor(sorted_sequence).detach(), as_tensor(input).detach()
    if rows.ndim > 1 and (rows.ndim != values.ndim or rows.shape[:-1] != values.shape[:-1]):
        raise ShapeError(f"searchsorted: rows of shape {rows.shape} and values of shape {values.shape} have the same leading dimensions, "
                         "or the sequence is one row", find_user_location())
    found: Tensor = apply(_places, (rows, values, right or side == "right", sorter))
    return found.int() if out_int32 else found


def _places(rows: Array, values: Array, right: bool, sorter: Array) -> Array:
    rows, values = as_traced(rows), as_traced(values)
    if sorter is not None:
        order: Array = as_traced(sorter)
        rows = np.take_along_axis(rows, order, axis=-1)
    if rows.ndim == 1:
        return np.searchsorted(rows, values, side="right" if right else "left").astype(np.int64)
    compare = np.less_equal if right else np.less
    return np.sum(compare(rows[..., None, :], values[..., :, None]), axis=-1)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """Index of the bucket of each element, between ascending boundaries; with `right`, a boundary belongs to the bucket above it.

    >>> import adjit as aj
    >>> aj.bucketize(aj.tensor([0.0, 3.0]), aj.tensor([1.0, 3.0, 5.0]))
    tensor([0, 1])
    """
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Tensor:
    """True where an element is among `test_elements`.

    >>> import adjit as aj
    >>> aj.isin(aj.tensor([1, 2]), aj.tensor([2, 3]))
    tensor([False,  True])
    """
    return apply(raw(np.isin), (as_tensor(elements).detach(), as_tensor(test_elements).detach(), assume_unique, invert))   # type: ignore[no-any-return]


def histogram(input: Any, bins: Any, *, range: Any = None, weight: Any = None, density: bool = False) -> tuple[Tensor, Tensor]:
    """Numbers of elements in bins, and the edges of the bins: so many of one width, or a tensor of edges.

    >>> import adjit as aj
    >>> aj.histogram(aj.tensor([1.0, 2.0, 2.5]), bins=2, range=(1.0, 3.0))
    (tensor([1., 2.]), tensor([1., 2., 3.]))
    """
    x = as_tensor(input).detach()
    counts, edges = apply(raw(np.histogram), (x.reshape(-1), bins, None if range is None else tuple(range), density,
                                              None if weight is None else as_tensor(weight).reshape(-1)))
    return counts.to(x.dtype), edges.to(x.dtype)


def histogramdd(input: Any, bins: Any, *, range: Sequence[float] | None = None, weight: Any = None,
                density: bool = False) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Numbers of points, the rows of `input`, in bins of each dimension, and the edges of the bins: so many, as many for each dimension, or
    a tensor of edges for each. `range` has the least and the largest edge of each dimension, one after the other. Counts have the dtype of
    `input`, and a derivative by `weight`, one number a point.

    >>> import adjit as aj
    >>> counts, (first, second) = aj.histogramdd(aj.tensor([[0.0, 1.0], [1.0, 0.0], [2.0, 2.0]]), bins=[2, 1])
    >>> counts, first
    (tensor([[1.],
            [2.]]), tensor([0., 1., 2.]))
    """
    x = as_tensor(input).detach()
    points = x.reshape(-1, x.shape[-1])
    limits = None if range is None else tuple(zip(range[::2], range[1::2], strict=True))
    counts, edges = apply(raw(np.histogramdd), (points, bins, limits, density, None if weight is None else as_tensor(weight).reshape(-1)))
    return counts.to(x.dtype), tuple(edge.to(x.dtype) for edge in edges)


# -- complex numbers


def _complex(real: Array, imag: Array) -> Array:
    real, imag = as_traced(real), as_traced(imag)
    shape = np.broadcast_shapes(real.shape, imag.shape)
    parts: list[Any] = [np.broadcast_to(part, shape) for part in (real, imag)]
    return wrap(ops.complex(*(part.value for part in parts)))


def complex(real: Any, imag: Any) -> Tensor:
    """Complex numbers of real and imaginary parts of one dtype.

    >>> import adjit as aj
    >>> aj.complex(aj.tensor([1.0]), aj.tensor([2.0]))
    tensor([(1+2j)], dtype=complex64)
    """
    x, y = as_tensor(real), as_tensor(imag)
    if x.dtype != y.dtype or not is_float(x.dtype):
        raise DTypeError(f"complex: the parts have one floating-point dtype, got {x.dtype} and {y.dtype}", find_user_location())
    return apply(_complex, (x, y))      # type: ignore[no-any-return]


def polar(abs: Any, angle: Any) -> Tensor:
    """Complex numbers of magnitude and angle.

    >>> import adjit as aj
    >>> aj.polar(aj.tensor([2.0]), aj.tensor([0.0]))
    tensor([(2+0j)], dtype=complex64)
    """
    size, phase = as_tensor(abs), as_tensor(angle)
    return complex(size * phase.cos(), size * phase.sin())


def view_as_real(input: Any) -> Tensor:
    """Real and imaginary parts as a new last dimension of size 2: a view.

    >>> import adjit as aj
    >>> aj.view_as_real(aj.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    z = as_tensor(input)
    return apply(shapes.view_dtype, (z.unsqueeze(-1), real_dtype(z.dtype)))      # type: ignore[no-any-return]


def view_as_complex(input: Any) -> Tensor:
    """Complex numbers of a last dimension of size 2, real and imaginary parts: a view.

    >>> import adjit as aj
    >>> aj.view_as_complex(aj.tensor([[1.0, 2.0]]))
    tensor([(1+2j)], dtype=complex64)
    """
    x = as_tensor(input)
    if not x.ndim or x.shape[-1] != 2:
        raise ShapeError(f"view_as_complex takes a last dimension of size 2, got the shape {x.shape}", find_user_location())
    dtype = np.dtype(np.complex64 if x.dtype == np.float32 else np.complex128)
    return apply(shapes.view_dtype, (x, dtype)).squeeze(-1)      # type: ignore[no-any-return]


# -- random


def normal(mean: Any, std: Any = 1.0, size: Any = None, *, dtype: Any = None, generator: Generator | None = None,
           device: Any = None) -> Tensor:
    """Draw numbers of normal distributions: of means and standard deviations for each, or `normal(mean, std, size)` of one, on a `device`.

    >>> import adjit as aj
    >>> aj.normal(aj.zeros(3), 0.1).shape, aj.normal(0.0, 1.0, (2,)).shape
    ((3,), (2,))
    """
    check_parameter("normal", "std", std, ">= 0")
    if size is not None:
        return randn(size, dtype=dtype, generator=generator, device=device) * std + mean
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    given = [each for each in (mean, std) if isinstance(each, Tensor)]
    device = next((each.device for each in given if each.is_cuda), None) if device is None else device
    of = given[0].dtype if given and dtype is None else dtype
    return (randn(shape, dtype=of, device=device, generator=generator) * std + mean).detach()


def rsub(input: Any, other: Any, *, alpha: Any = 1) -> Tensor:
    """`other - alpha * input`.

    >>> import adjit as aj
    >>> aj.rsub(aj.tensor([1.0]), 3.0)
    tensor([2.])
    """
    return as_tensor(other) - alpha * as_tensor(input) if isinstance(other, Tensor) else other - alpha * as_tensor(input)


__all__ = [
    "block_diag", "bucketize", "cdist", "chain_matmul", "complex", "cumulative_trapezoid", "frobenius_norm", "gradient",
    "histogram", "histogramdd", "isin", "lu_unpack", "matrix_rank", "norm_except_dim", "normal", "nuclear_norm",
    "pca_lowrank", "pdist", "polar", "rsub", "searchsorted", "segment_reduce", "std_mean", "svd_lowrank", "tensordot",
    "trapezoid", "trapz", "var_mean", "view_as_complex", "view_as_real",
]
