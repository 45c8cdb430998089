"""Distances of `scipy.spatial.distance`, for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy.spatial import distance
    >>> aj.grad(lambda x: np.sum(distance.pdist(x)))(np.array([[0.0, 0.0], [3.0, 4.0]]))
    array([[-0.6, -0.8],
           [ 0.6,  0.8]])

The derivative of a distance that is the root of a sum is 0 where the distance is 0. Float32 arrays give float32 distances, where SciPy
gives float64. What else SciPy's module has takes plain arrays alone (`docs/scipy.md`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, ShapeError
from adjit.runtime.vmap import vmap
from adjit.scipy.mirror import mirrors, without_rule
from adjit.scipy.sliding import inexact
from adjit.special import rel_entr
from adjit.tracer.array import as_traced
from adjit.tracer.user_location import find_user_location

__all__ = [
    "braycurtis", "canberra", "cdist", "chebyshev", "cityblock", "correlation", "cosine", "dice", "euclidean", "hamming", "jaccard",
    "jensenshannon", "mahalanobis", "minkowski", "pdist", "rogerstanimoto", "russellrao", "seuclidean", "sokalsneath", "sqeuclidean",
    "squareform", "yule",
]

_others = without_rule("spatial.distance", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)


Metric = Callable[..., Any]
"""Distance of vectors along the last axes of two arrays that are broadcast; `w` are weights of the elements or None."""


def _sum(x: Any, w: Any = None) -> Any:
    return np.sum(x if w is None else x * w, axis=-1)


def _root(x: Any, power: float = 0.5) -> Any:
    """Root of what is not negative, with the derivative 0 at 0."""
    return np.where(x == 0, 0.0, np.sqrt(x) if power == 0.5 else np.power(x, power))


def _over(a: Any, b: Any) -> Any:
    """Quotient, 0 where `b` is 0."""
    nothing = b == 0
    return np.where(nothing, 0.0, a / np.where(nothing, 1.0, b))


def _minkowski(u: Any, v: Any, w: Any = None, p: Any = 2) -> Any:
    difference = np.abs(u - v)
    if p == 2:
        return _root(_sum(difference ** 2, w))
    if p == 1:
        return _sum(difference, w)
    if p == math.inf:
        return _chebyshev(u, v, w)
    nothing = difference == 0
    powers = np.where(nothing, 0.0, np.power(np.where(nothing, 1.0, difference), p))
    return _root(_sum(powers, w), 1.0 / p)


def _chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    difference = np.abs(u - v)
    return np.max(difference if w is None else np.where(w > 0, difference, 0.0), axis=-1)


def _correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    if w is not None:
        w = w / np.sum(w)
    if centered:
        u, v = (x - (np.mean(x, axis=-1, keepdims=True) if w is None else np.sum(x * w, axis=-1, keepdims=True)) for x in (u, v))
    return np.clip(1.0 - _sum(u * v, w) / np.sqrt(_sum(u * u, w) * _sum(v * v, w)), 0.0, 2.0)


def _mahalanobis(u: Any, v: Any, w: Any = None, VI: Any = None) -> Any:
    difference = u - v
    return _root(_sum((difference @ VI) * difference))


def _jensenshannon(u: Any, v: Any, w: Any = None, base: Any = None) -> Any:
    u, v = u / np.sum(u, axis=-1, keepdims=True), v / np.sum(v, axis=-1, keepdims=True)
    middle = (u + v) / 2.0
    divergence = _sum(rel_entr(u, middle)) + _sum(rel_entr(v, middle))
    return _root(np.maximum(divergence if base is None else divergence / np.log(base), 0.0) / 2.0)


def _differing(u: Any, v: Any) -> Any:
    return (u != v).astype(u.dtype)


def _hamming(u: Any, v: Any, w: Any = None) -> Any:
    return np.mean(_differing(u, v), axis=-1) if w is None else _sum(_differing(u, v), w / np.sum(w))


def _jaccard(u: Any, v: Any, w: Any = None) -> Any:
    there = (u != 0), (v != 0)
    return _over(_sum((there[0] ^ there[1]).astype(u.dtype), w), _sum((there[0] | there[1]).astype(u.dtype), w))


def _counts(u: Any, v: Any, w: Any) -> tuple[Any, Any, Any, Any]:
    """Sums where neither, only the second, only the first and both of two truth values (1 or 0) hold."""
    return _sum((1 - u) * (1 - v), w), _sum((1 - u) * v, w), _sum(u * (1 - v), w), _sum(u * v, w)


def _dice(u: Any, v: Any, w: Any = None) -> Any:
    _, second, first, both = _counts(u, v, w)
    return (first + second) / (2.0 * both + first + second)


def _rogerstanimoto(u: Any, v: Any, w: Any = None) -> Any:
    neither, second, first, both = _counts(u, v, w)
    return 2.0 * (first + second) / (both + neither + 2.0 * (first + second))


def _russellrao(u: Any, v: Any, w: Any = None) -> Any:
    total = float(u.shape[-1]) if w is None else np.sum(w)
    return (total - _sum(u * v, w)) / total


def _sokalsneath(u: Any, v: Any, w: Any = None) -> Any:
    _, second, first, both = _counts(u, v, w)
    return 2.0 * (first + second) / (both + 2.0 * (first + second))


def _yule(u: Any, v: Any, w: Any = None) -> Any:
    neither, second, first, both = _counts(u, v, w)
    half = first * second
    return np.where(half == 0, 0.0, _over(2.0 * half, both * neither + half))


_METRICS: dict[str, Metric] = {
    "braycurtis": lambda u, v, w=None: _sum(np.abs(u - v), w) / _sum(np.abs(u + v), w),
    "canberra": lambda u, v, w=None: _sum(_over(np.abs(u - v), np.abs(u) + np.abs(v)), w),
    "chebyshev": _chebyshev, "cityblock": lambda u, v, w=None: _sum(np.abs(u - v), w), "correlation": _correlation,
    "cosine": lambda u, v, w=None: _correlation(u, v, w, False), "dice": _dice, "euclidean": _minkowski, "hamming": _hamming,
    "jaccard": _jaccard, "jensenshannon": _jensenshannon, "mahalanobis": _mahalanobis, "minkowski": _minkowski,
    "rogerstanimoto": _rogerstanimoto, "russellrao": _russellrao, "seuclidean": lambda u, v, w=None, V=None: _root(_sum((u - v) ** 2 / V)),
    "sokalsneath": _sokalsneath, "sqeuclidean": lambda u, v, w=None: _sum((u - v) ** 2, w), "yule": _yule,
}
_ALIASES = {alias: name for name, aliases in {
    "chebyshev": "ch cheb cheby chebychev", "cityblock": "c cb cblock", "correlation": "co", "cosine": "cos", "euclidean": "e eu euclid",
    "hamming": "h ha hamm matching", "jaccard": "j ja jacc", "jensenshannon": "js", "mahalanobis": "mah mahal",
    "minkowski": "m mi pnorm", "seuclidean": "s se", "sqeuclidean": "sqe sqeuclid",
}.items() for alias in aliases.split()}


def _real(*arrays: Any) -> tuple[Any, ...]:
    found = inexact(*arrays)
    if any(x.dtype.kind == "c" for x in found):
        raise DTypeError("distances of complex numbers, of which SciPy drops the imaginary parts", find_user_location(),
                         hint="give the real and the imaginary parts as elements of their own")
    return found


def _vectors(u: Any, v: Any, w: Any) -> tuple[Any, Any, Any]:
    u, v = _real(u, v)
    if u.ndim != 1 or v.ndim != 1:
        raise ValueError("Input vector should be 1-D.")
    return u, v, None if w is None else as_traced(w).astype(u.dtype)


def _of_vectors(u: Any, v: Any, w: Any, name: str, **options: Any) -> Any:
    u, v, w = _vectors(u, v, w)
    return _METRICS[name](u, v, w, **options)


# -- distances of two vectors


@mirrors("spatial.distance")
def euclidean(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.euclidean`.

    >>> float(euclidean([0.0, 0.0], [3.0, 4.0]))
    5.0
    """
    return _of_vectors(u, v, w, "euclidean")


@mirrors("spatial.distance")
def sqeuclidean(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.sqeuclidean`.

    >>> float(sqeuclidean([0.0, 0.0], [3.0, 4.0]))
    25.0
    """
    return _of_vectors(u, v, w, "sqeuclidean")


@mirrors("spatial.distance")
def cityblock(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.cityblock`.

    >>> float(cityblock([0.0, 0.0], [3.0, 4.0]))
    7.0
    """
    return _of_vectors(u, v, w, "cityblock")


@mirrors("spatial.distance")
def chebyshev(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.chebyshev`.

    >>> float(chebyshev([0.0, 0.0], [3.0, 4.0]))
    4.0
    """
    return _of_vectors(u, v, w, "chebyshev")


@mirrors("spatial.distance")
def minkowski(u: Any, v: Any, p: float = 2, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.minkowski`, of a known order `p`.

    >>> float(minkowski([0.0, 0.0], [3.0, 4.0], 1))
    7.0
    """
    if p <= 0:
        raise ValueError("p must be greater than 0")
    return _of_vectors(u, v, w, "minkowski", p=p)


@mirrors("spatial.distance")
def seuclidean(u: Any, v: Any, V: Any) -> Any:
    """Equivalent of `scipy.spatial.distance.seuclidean`: differences are divided by standard deviations, `V` being variances.

    >>> float(seuclidean([0.0, 0.0], [6.0, 4.0], [4.0, 1.0]))
    5.0
    """
    return _of_vectors(u, v, None, "seuclidean", V=as_traced(V))


@mirrors("spatial.distance")
def mahalanobis(u: Any, v: Any, VI: Any) -> Any:
    """Equivalent of `scipy.spatial.distance.mahalanobis`; `VI` is the inverse of a covariance matrix.

    >>> import numpy as np
    >>> float(mahalanobis([0.0, 0.0], [3.0, 4.0], np.eye(2)))
    5.0
    """
    return _of_vectors(u, v, None, "mahalanobis", VI=as_traced(VI))


@mirrors("spatial.distance")
def cosine(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.cosine`.

    >>> float(cosine([1.0, 0.0], [0.0, 2.0]))
    1.0
    """
    return _of_vectors(u, v, w, "cosine")


@mirrors("spatial.distance")
def correlation(u: Any, v: Any, w: Any = None, centered: bool = True) -> Any:
    """Equivalent of `scipy.spatial.distance.correlation`.

    >>> float(correlation([1.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 0.0]))
    1.0
    """
    return _of_vectors(u, v, w, "correlation", centered=centered)


@mirrors("spatial.distance")
def braycurtis(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.braycurtis`.

    >>> float(braycurtis([1.0, 0.0], [0.0, 1.0]))
    1.0
    """
    return _of_vectors(u, v, w, "braycurtis")


@mirrors("spatial.distance")
def canberra(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.canberra`.

    >>> float(canberra([1.0, 0.0], [0.0, 1.0]))
    2.0
    """
    return _of_vectors(u, v, w, "canberra")


@mirrors("spatial.distance")
def jensenshannon(p: Any, q: Any, base: float | None = None, *, axis: int = 0, keepdims: bool = False) -> Any:
    """Equivalent of `scipy.spatial.distance.jensenshannon`.

    >>> float(jensenshannon([1.0, 0.0], [0.0, 1.0], 2.0))
    1.0
    """
    u, v = _real(p, q)
    found = _jensenshannon(np.moveaxis(u, axis, -1), np.moveaxis(v, axis, -1), None, base)
    return np.expand_dims(found, axis) if keepdims else found


@mirrors("spatial.distance")
def hamming(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.hamming`; its derivative in the vectors is 0.

    >>> float(hamming([1.0, 0.0], [1.0, 1.0]))
    0.5
    """
    return _of_vectors(u, v, w, "hamming")


@mirrors("spatial.distance")
def jaccard(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.jaccard`; its derivative in the vectors is 0.

    >>> float(jaccard([1, 0, 0], [1, 1, 0]))
    0.5
    """
    return _of_vectors(u, v, w, "jaccard")


@mirrors("spatial.distance")
def dice(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.dice`.

    >>> float(dice([1, 0, 1], [0, 1, 1]))
    0.5
    """
    return _of_vectors(u, v, w, "dice")


@mirrors("spatial.distance")
def rogerstanimoto(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.rogerstanimoto`.

    >>> round(float(rogerstanimoto([1, 0], [1, 1])), 6)
    0.666667
    """
    return _of_vectors(u, v, w, "rogerstanimoto")


@mirrors("spatial.distance")
def russellrao(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.russellrao`.

    >>> float(russellrao([1, 0], [1, 1]))
    0.5
    """
    return _of_vectors(u, v, w, "russellrao")


@mirrors("spatial.distance")
def sokalsneath(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.sokalsneath`; NaN for vectors that are false throughout.

    >>> round(float(sokalsneath([1, 0], [1, 1])), 6)
    0.666667
    """
    return _of_vectors(u, v, w, "sokalsneath")


@mirrors("spatial.distance")
def yule(u: Any, v: Any, w: Any = None) -> Any:
    """Equivalent of `scipy.spatial.distance.yule`.

    >>> float(yule([1, 0, 0, 1], [1, 1, 0, 0]))
    1.0
    """
    return _of_vectors(u, v, w, "yule")


# -- distances of many vectors


def _rows(x: Any, name: str) -> Any:
    (x,) = _real(x)
    if x.ndim != 2:
        raise ShapeError(f"{name} has to be a matrix of vectors, got the shape {x.shape}", find_user_location())
    return x


def _chosen(metric: Any, kwargs: dict[str, Any], rows: Any) -> Metric:
    """The distance by this name, with its options; those that follow from the vectors are made from `rows`."""
    name = _ALIASES.get(metric.lower(), metric.lower())
    if name not in _METRICS:
        raise ValueError(f"Unknown Distance Metric: {metric}")
    options = {key: value for key, value in kwargs.items() if value is not None}
    for key in ("w", "V", "VI"):
        if key in options:
            options[key] = as_traced(options[key]).astype(rows.dtype)
    if name == "seuclidean" and "V" not in options:
        options["V"] = np.var(rows, axis=0, ddof=1)
    if name == "mahalanobis" and "VI" not in options:
        options["VI"] = np.linalg.inv(np.atleast_2d(np.cov(rows.T))).T.astype(rows.dtype)
    return lambda u, v: _METRICS[name](u, v, **options)


@mirrors("spatial.distance")
def cdist(XA: Any, XB: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """Equivalent of `scipy.spatial.distance.cdist`, without `out`: distances of each row of `XA` to each row of `XB`.

    >>> import numpy as np
    >>> cdist(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0], [0.0, 1.0]]))
    array([[5., 1.]])
    """
    a, b = _real(_rows(XA, "XA"), _rows(XB, "XB"))
    if a.shape[1] != b.shape[1]:
        raise ValueError("XA and XB must have the same number of columns (i.e. feature dimension.)")
    if callable(metric):
        return vmap(lambda u: vmap(lambda v: metric(u, v, **kwargs))(b))(a)
    return _chosen(metric, kwargs, np.concatenate([a, b]))(a[:, None], b[None])


@mirrors("spatial.distance")
def pdist(X: Any, metric: Any = "euclidean", *, out: Any = None, **kwargs: Any) -> Any:
    """Equivalent of `scipy.spatial.distance.pdist`, without `out`: distances of each row to those after it.

    >>> import numpy as np
    >>> pdist(np.array([[0.0, 0.0], [3.0, 4.0], [0.0, 1.0]])).round(6)
    array([5.      , 1.      , 4.242641])
    """
    x = _rows(X, "X")
    first, second = np.triu_indices(x.shape[0], 1)
    if callable(metric):
        return vmap(lambda u, v: metric(u, v, **kwargs))(np.take(x, first, axis=0), np.take(x, second, axis=0))
    whole = _chosen(metric, kwargs, x)(x[:, None], x[None])      # its rows lie in the cache, those of pairs would be copies
    return np.take(np.ravel(whole), first * x.shape[0] + second)


@mirrors("spatial.distance")
def squareform(X: Any, force: str = "no", checks: bool = True) -> Any:
    """Equivalent of `scipy.spatial.distance.squareform`; whether a matrix is symmetric, with zeros on its diagonal, is not checked.

    >>> import numpy as np
    >>> squareform(np.array([1.0, 2.0, 3.0]))
    array([[0., 1., 2.],
           [1., 0., 3.],
           [2., 3., 0.]])
    """
    x = as_traced(X)
    if x.ndim not in (1, 2):
        raise ValueError(f"The first argument must be one or two dimensional array. A {x.ndim}-dimensional array is not permitted")
    if (force.lower() == "tomatrix" and x.ndim != 1) or (force.lower() == "tovector" and x.ndim != 2):
        raise ValueError(f"Forcing {force!r} but input X is not a distance {'vector' if x.ndim == 2 else 'matrix'}.")
    if x.ndim == 2:
        if x.shape[0] != x.shape[1]:
            raise ValueError("The matrix argument must be square.")
        first, second = np.triu_indices(x.shape[0], 1)
        return np.take(np.ravel(x), first * x.shape[0] + second)
    count = math.ceil(math.sqrt(2 * x.size)) if x.size else 1
    if count * (count - 1) != 2 * x.size:
        raise ValueError("Incompatible vector size. It must be a binomial coefficient n choose 2 for some integer n >= 2.")
    places = np.full((count, count), x.size)
    places[np.triu_indices(count, 1)] = np.arange(x.size)
    places = np.minimum(places, places.T)
    return np.take(np.concatenate([x, np.zeros_like(x, shape=(1,))]), places)
