"""NumPy functions that are compositions of others: values, dtypes and shapes as NumPy's, traced and on plain arrays; derivatives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.each import for_each
from support.tracing import assert_same

import adjit as aj

RNG = np.random.default_rng(0)
X = RNG.standard_normal(12)
M = RNG.standard_normal((4, 5))
Q = np.array([0.1, 0.5, 0.9])
N = np.arange(6)
K = np.array([[3, 1, 2], [0, 5, 2]])
F = M.astype(np.float32)
XN, MN = X.copy(), M.copy()
XN[[2, 7]] = MN[1, 2] = MN[:, 3] = np.nan
Z = RNG.standard_normal(6)


def _after(write, array):
    """What `write` leaves of a copy of the array."""
    copy = array.copy()
    write(copy)
    return copy


# Each function gets the namespace: NumPy's for traced arrays, adjit's for plain ones.
VALUES = {
    "interp": (lambda np, x, q: (
        np.interp(q, np.sort(x), x), np.interp(x, np.arange(5.0) - 2, np.arange(5.0) ** 2, left=-1.0, right=9.0),
        np.interp(0.3, np.sort(x), x), np.interp(x, np.linspace(-3, 3, 40), np.linspace(-3, 3, 40) ** 2),
        np.interp(x * 4, [0.0, 1.0, 2.0], [1.0, 2.0, 5.0], period=3.0),
    ), (X, Q)),
    "searchsorted": (lambda np, x, q: (
        np.searchsorted(np.sort(x), q), np.searchsorted(np.sort(x), x, side='right'), np.searchsorted(np.linspace(-3, 3, 50), x),
        np.digitize(x, [-1.0, 0.0, 1.0]), np.digitize(x, [1.0, 0.0, -1.0], right=True),
    ), (X, Q)),
    "bincount": (lambda np, x, q: (
        np.bincount(np.array([0, 1, 1, 3, 0, 2, 2, 2, 1, 1, 5, 5]), weights=x),
    ), (X, Q)),
    "histogram": (lambda np, x, q: (
        np.histogram(x, 5), np.histogram(x, [-1.0, 0.0, 0.5, 2.0]), np.histogram(x, 4, (-1, 1), weights=x),
        np.histogram(x, 6, density=True), np.histogram2d(x, x ** 2, [3, 4]), np.histogram_bin_edges(x, 4),
    ), (X, Q)),
    "convolve": (lambda np, x, q: (
        np.convolve(x, q), np.convolve(x, q, 'same'), np.convolve(q, x, 'valid'), np.convolve(q, x, 'same'), np.correlate(x, q),
        np.correlate(x, q, 'full'), np.correlate(q, x, 'same'), np.correlate(q, x, 'full'), np.convolve(x[:4], q[:2], 'same'),
    ), (X, Q)),
    "median": (lambda np, x, q: (
        np.median(x), np.median(x[:5]), np.quantile(x, 0.3), np.quantile(x, [0.1, 0.2, 0.77]), np.percentile(x, 30),
        np.percentile(x, [25, 75]), np.quantile(x, 0.3, method='lower'), np.quantile(x, 0.3, method='midpoint'),
        np.quantile(x, 0.4, method='nearest'), np.quantile(x, q),
    ), (X, Q)),
    "gradient": (lambda np, x, q: (
        np.gradient(x), np.gradient(x, 0.1), np.gradient(x, np.arange(12.0) ** 2), np.gradient(x, edge_order=2),
        np.gradient(x, np.arange(12.0) ** 2, edge_order=2),
    ), (X, Q)),
    "poly": (lambda np, x, q: (
        np.polyval(q, x), np.polyval([1, 2.0, 3], x), np.polyder(x), np.polyint(q), np.polyadd(q, x), np.polysub(x, q), np.polymul(q, x),
        np.vander(q), np.vander(q, 4, increasing=True), np.polyder(q, 2), np.polyint(q, 2),
    ), (X, Q)),
    "misc1": (lambda np, x, q: (
        np.unwrap(x * 5), np.i0(x), np.ediff1d(x), np.ediff1d(x, to_begin=0.0, to_end=q), np.sinc(x), np.cumulative_sum(x),
        np.cumulative_sum(x, include_initial=True), np.cumulative_prod(q),
    ), (X, Q)),
    "nd": (lambda np, X: (
        np.median(X, axis=0), np.median(X, axis=1, keepdims=True), np.quantile(X, [0.2, 0.8], axis=1), np.quantile(X, 0.5, axis=(0, 1)),
        np.quantile(X, [0.5, 0.1], axis=0, keepdims=True), np.gradient(X), np.gradient(X, axis=1), np.cov(X), np.cov(X[0], X[1]),
        np.cov(X, rowvar=False), np.cov(X, bias=True), np.corrcoef(X), np.corrcoef(X[0], X[1]), np.cov(X[0]),
        np.cov(X, aweights=np.arange(5.0) + 1),
    ), (M,)),
    "nan": (lambda np, x, X: (
        np.nansum(x), np.nanmean(x), np.nanstd(x), np.nanvar(x, ddof=1), np.nanmax(x), np.nanmin(x), np.nanmedian(x), np.nanprod(x),
        np.nancumsum(x), np.nancumprod(x), np.nanargmax(x), np.nanargmin(x), np.nanquantile(x, 0.3), np.nanpercentile(x, [10, 60]),
        np.median(x), np.nanmean(X, axis=0), np.nanmedian(X, axis=0), np.nanmax(X, axis=0), np.nanstd(X, axis=1),
        np.nansum(X, axis=1, keepdims=True), np.nanmedian(X, axis=1), np.nanquantile(X, [0.2, 0.4], axis=1), np.quantile(X, 0.5, axis=1),
        np.nanvar(X, axis=0, ddof=3),
    ), (XN, MN)),
    "int": (lambda np, N, n: (
        np.median(N), np.median(N, axis=0), np.quantile(N, 0.3), np.convolve(n, n), np.nanmean(N), np.nanmax(N), np.gradient(n),
        np.polyval([1, 2], n), np.polyder(n), np.vander(n, 3), np.unwrap(n, period=4), np.interp(n, [0, 5], [1, 2]), np.cov(N),
        np.histogram(n, 3), np.ediff1d(n), np.trim_zeros(n).sum(), np.partition(n, 2), np.digitize(n, [1, 3]),
        np.digitize(n, [3, 1, 0], right=True), np.digitize(n, [3, 1, 0]),
    ), (K, N)),
    "f32": (lambda np, f: (
        np.median(f), np.quantile(f, 0.3), np.quantile(f, [0.3]), np.percentile(f, 25), np.nanmean(f), np.nanstd(f),
        np.convolve(f[0], f[1]), np.gradient(f[0]), np.polyval(f[0], f[1]), np.cov(f), np.interp(f[0], [0.0, 1.0], [2.0, 3.0]),
        np.quantile(f, [0.2, 0.3], method="hazen"), np.nanquantile(f, 0.3, method="weibull"), np.sort_complex(f[0]),
        np.nanpercentile(f, np.array(30), method="averaged_inverted_cdf"), np.quantile(f > 0, 0.6, method="nearest"),
        np.geomspace(f[0, 0] ** 2, 2.0, 4), np.linspace(f[0, 0], 2, 4), np.logspace(0, f[0, 0], 3), np.arange(f[0, 0], f[0, 0] + 2),
        np.histogram(f, 4), np.nanmax(f), np.cross(f[:, :3], f[:, :3][::-1]), np.polyint(f[0]), np.unwrap(f[0]),
    ), (F,)),
    "write": (lambda np, x, X: (
        _after(lambda y: np.put(y, [1, 3, -1], [5.0, 6.0]), x), _after(lambda y: np.putmask(y, y > 0, x[:2]), x),
        _after(lambda y: np.place(y, y > 0, [1.0, 2.0]), x), _after(lambda y: np.fill_diagonal(y, x[0]), X),
        _after(lambda y: np.put_along_axis(y, np.argmax(y, axis=1)[:, None], 99.0, axis=1), X),
        _after(lambda y: np.copyto(y, x[0], where=y > 0), X),
    ), (X, M)),
    "assemble": (lambda np, x, X, n: (
        np.delete(x, 2), np.delete(X, [0, 2], axis=1), np.delete(X, slice(0, 2), axis=0), np.delete(X, 1), np.insert(x, 2, x[0]),
        np.insert(x, [1, 1, 5], [1.0, 2.0, 3.0]), np.insert(X, 1, x[0], axis=1), np.insert(X, 2, x[:5], axis=0),
        np.insert(X, [1, 2], x[:4, None], axis=1), np.insert(X, [1], x[:4, None], axis=1), np.insert(x, -1, 0.0),
        np.block([[X, X], [X * 2, X + 1]]), np.block([x, 1.0, x[:2]]), np.unstack(X), np.unstack(X, axis=1), np.resize(x, (3, 7)),
        np.resize(x, 4), np.append(x, 1.0), np.append(X, X, axis=0), np.dsplit(X[None].repeat(2, 0)[:, :, :4], 2), np.array_split(x, 5),
        np.delete(x, n[2]), np.insert(x, n[2], 5.0), np.matrix_transpose(X), np.choose(n % 3, [x[:6], 2 * x[:6], x[6:]]),
        np.piecewise(x, [x < 0, x > 1], [lambda v: -v, lambda v: v ** 2, 5.0]), np.piecewise(x, [x < 0], [lambda v: -v, 0]),
        np.apply_along_axis(lambda v: v - v.mean(), 0, X), np.apply_along_axis(np.sum, 1, X), np.apply_over_axes(np.sum, X, [0, 1]),
        np.isreal(x), np.cross(X[:, :3], X[:, 1:4]), np.cross(X[0, :2], X[1, :2]), np.cross(X[:, :2], X[:, :3]),
        np.cross(X[:3].T, X[1:].T, axis=1), np.select([x > 0, x < -1], [x, 2 * x], 0.0),
    ), (X, M, N)),
}

METHODS = {
    "bincount": (lambda np, x, q: (
        np.bincount(np.floor(np.abs(x)).astype(int), weights=x, minlength=6),
    ), (X, Q)),
    "ufm": (lambda np, x, q: (
        np.maximum.accumulate(x), np.minimum.accumulate(np.concatenate([x, x, x[::-1]])), np.logaddexp.reduce(x),
        np.logaddexp.accumulate(x), np.subtract.reduce(x), np.add.reduceat(x, [0, 3, 2, 8]), np.maximum.reduceat(x, [0, 5]),
        np.hypot.reduce(x), np.fmax.reduce(x), np.multiply.outer(q, x), np.logaddexp.reduce(np.concatenate([x, x])),
        np.divide.accumulate(q), np.add.reduceat(x, [1, 4, 6]),
    ), (X, Q)),
    "nd": (lambda np, X: (
        np.maximum.accumulate(X, axis=1), np.logaddexp.reduce(X, axis=1), np.hypot.reduce(X, axis=0),
    ), (M,)),
    "int": (lambda np, N, n: (
        np.maximum.accumulate(N, axis=0), np.bitwise_or.reduce(n), np.logical_and.reduce(N), np.add.reduce(n),
    ), (K, N)),
    "f32": (lambda np, f: (
        np.maximum.accumulate(f),
    ), (F,)),
    "write": (lambda np, x, X: (
        _after(lambda y: np.add.at(y, [0, 0, 1], 1.0), x), _after(lambda y: np.add.at(y, ([0, 0], [1, 1]), [1.0, 2.0]), X),
        _after(lambda y: np.multiply.at(y, [0, 0, 1, 3], [2.0, 3.0, 4.0, 5.0]), x),
        _after(lambda y: np.maximum.at(y, [0, 0, 1, 2], x[:4] * 3), x), _after(lambda y: np.minimum.at(y, [0, 0, 1, 2], x[:4] * 3), x),
        _after(lambda y: np.subtract.at(y, [0, 0, 1], x[:3]), x), _after(lambda y: np.add.at(y, slice(1, 3), 2.0), x),
        _after(lambda y: np.negative.at(y, [1, 2]), x), _after(lambda y: np.add.at(y, [1, 1], x[:5]), X),
        _after(lambda y: y.put([0, 1], x[2]), X), _after(lambda y: np.fill_diagonal(y.T, [1.0, 2.0]), X),
        _after(lambda y: y.partition(2), x), _after(lambda y: y.sort(axis=0), X), _after(lambda y: y.fill(x[1]), X),
        _after(lambda y: y.flat.__setitem__(slice(2, 5), x[:3]), X), _after(lambda y: y.flat.__setitem__([1, 2], 7.0), X), X.flat[3],
        X.flat[2:6], sum(v for v in x.flat), _after(lambda y: np.divide.at(y, [0, 0], [2.0, 4.0]), x),
    ), (X, M)),
    "assemble": (lambda np, x, X, n: (
        np.real(x), np.imag(x), x.imag, x.real, np.linalg.matrix_transpose(X), X.astype(float, copy=False),
    ), (X, M, N)),
    "linalg": (lambda np, S, T, b, T4: (
        np.linalg.multi_dot([S, S, S[:, 0]]), np.linalg.vector_norm(T), np.linalg.vector_norm(T, axis=1, keepdims=True),
        np.linalg.vector_norm(T4, axis=(0, 2), ord=1), np.linalg.matrix_norm(S), np.linalg.matrix_norm(S, ord=1), np.linalg.trace(T4),
        np.linalg.outer(b, b), np.linalg.diagonal(S), np.linalg.cross(T, T * T), np.linalg.vecdot(T, T), np.linalg.cond(S, 1),
        np.linalg.cond(S, 'fro'), np.linalg.lstsq(T, b)[0], np.linalg.lstsq(T, b)[1], np.linalg.lstsq(T, T * 2)[0], np.linalg.pinv(T),
        np.linalg.pinv(T.T), np.linalg.matrix_transpose(T), np.linalg.matmul(S, S), np.linalg.tensordot(S, S),
        np.polyfit(np.arange(7.0), b, 2), np.polyfit(np.arange(7.0), b, 3, w=np.arange(7.0) + 1), np.linalg.tensorinv(S, 1),
    ), (M[:, :4], RNG.standard_normal((7, 3)), X[:7], RNG.standard_normal((2, 3, 3, 2)))),
}

DERIVATIVES = {
    "lstsq": lambda x: np.sum(np.linalg.lstsq(np.stack([x, x ** 2, np.ones(6)], axis=1), Z)[0] ** 2),
    "interp": lambda x: np.sum(np.interp(x, np.linspace(-3, 3, 7), np.linspace(-3, 3, 7) ** 3)),
    "interp_fp": lambda x: np.sum(np.interp(np.linspace(0, 4.9, 9), np.arange(6.0), x) ** 2),
    "interp_xp": lambda x: np.sum(np.interp(np.linspace(0, 1, 5), np.cumsum(np.exp(x)), np.arange(6.0)) ** 2),
    "convolve": lambda x: np.sum(np.convolve(x, x[:3], 'same') ** 2),
    "correlate": lambda x: np.sum(np.correlate(x, x[1:4]) ** 3),
    "median": lambda x: np.median(x) ** 2 + np.quantile(x, 0.3) ** 2 + np.percentile(x, 70) ** 3,
    "gradient": lambda x: np.sum(np.gradient(x) ** 2) + np.sum(np.gradient(np.arange(6.0) ** 2, np.cumsum(np.exp(x)))),
    "hist": lambda x: (np.sum(np.histogram(np.arange(6.0), 3, weights=x)[0] ** 2) + np.sum(np.bincount(np.array([0, 1, 1, 2, 0, 2]),
        weights=x) ** 2)),
    "at": lambda x: (lambda y: (np.add.at(y, [0, 0, 1], x[:3] ** 2), np.multiply.at(y, [2, 2, 3], x[1:4]), np.maximum.at(y, [4, 4,
        5], x[:3]), np.sum(y ** 2))[-1])(x.copy()),
    "acc": lambda x: (np.sum(np.maximum.accumulate(np.concatenate([x, x ** 2, np.sin(x), x])) ** 2) + np.logaddexp.reduce(x)
        + np.sum(np.logaddexp.accumulate(x))),
    "cov": lambda x: np.sum(np.cov(x.reshape(2, 3)) ** 2) + np.corrcoef(x.reshape(2, 3))[0, 1],
    "poly": lambda x: np.sum(np.polyval(x[:3], x) ** 2) + np.sum(np.polyder(x) ** 2) + np.sum(np.vander(x, 3)),
    "nan": lambda x: (np.nanmean(np.where(x > 0.5, np.nan, x) ** 2) + np.nanstd(np.where(x > 0.5, np.nan, x))
        + np.nanmedian(np.where(x > 0.5, np.nan, x) ** 2) + np.nanmax(np.where(x > 0.5, np.nan, x))),
    "put": lambda x: (lambda y: (np.put(y, [0, 1], x[2] ** 2), np.putmask(y, y > 0, x ** 3), np.place(y, y < 0, x[:2]),
        np.sum(y ** 2))[-1])(x.copy()),
    "cross": lambda x: np.sum(np.cross(x[:3], x[3:] ** 2) ** 2),
    "block": lambda x: np.sum(np.block([[x[:3], x[3:]], [x[3:], x[:3]]]) @ x ** 2),
    "piece": lambda x: np.sum(np.piecewise(x, [x < 0, x > 0.5], [lambda v: v ** 2, lambda v: np.log(v), lambda v: v ** 3])),
    "unwrap": lambda x: np.sum(np.unwrap(x * 4) ** 2),
    "ins": lambda x: np.sum(np.insert(np.delete(x, 1), 2, x[0] ** 2) ** 2 * np.arange(6.0)),
    "mmed": lambda x: np.median(x[x > -1]) ** 2 + np.quantile(x[x > -1], 0.3) ** 2,
    "polyfit": lambda x: np.sum(np.polyfit(np.arange(6.0), x, 2) ** 2),
    "multi": lambda x: np.sum(np.linalg.multi_dot([x.reshape(2, 3), x.reshape(3, 2), x[:2]]) ** 2),
    "pinv": lambda x: np.sum(np.linalg.pinv(x.reshape(3, 2)) ** 2),
    "red": lambda x: (np.add.reduceat(x ** 2, [0, 2, 4]) @ np.array([1.0, 2.0, 3.0]) + np.sum(np.partition(x ** 3, 2)[:2])
        + np.sum(np.i0(x))),
}


def _compare(fun, args, actual):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = _leaves(fun(np, *args))
        single = any(array.dtype == np.float32 for array in args)
        assert_same(_leaves(actual(fun, args)), expected, 2e-6 if single else 1e-12)


def _leaves(tree):
    return [leaf for part in tree for leaf in _leaves(part)] if isinstance(tree, (tuple, list)) else [tree]


EDGES = {
    "empty": lambda np, x, s: (np.median(x[:0]), np.nansum(x[:0]), np.convolve(x, x[:1]), np.searchsorted(x[:0], x),
                               np.bincount(np.arange(0)),
                               np.histogram(x[:0], 3)[0], np.insert(x[:0], 0, 1.0), np.resize(x[:0], 2),
                               np.interp(x[:0], [0.0, 1.0], [1.0, 2.0]), np.nanmean(x[:0]), np.vander(x[:0]), np.polyval(x[:0], x),
                               np.polymul(x[:0], [1.0, 2.0]), np.nanquantile(x[:0], 0.3), np.argpartition(x[:0], 2), np.partition(x[:0], 2),
                               np.nanpercentile(x[:0, None], 3, axis=1), np.linalg.cond(np.zeros((0, 2, 2)) * s),
                               np.linalg.norm(x[:0, None], 2), np.linalg.norm(x[:0, None], np.inf), np.linalg.norm(x[None, :0], 1),
                               np.linalg.slogdet(np.zeros((0, 2, 2)) * 1j * s)),
    "no dimension": lambda np, x, s: (np.interp(s, [0.0, 1.0], [1.0, 2.0]), np.searchsorted(np.sort(x), s), np.digitize(s, [0.0, 1.0]),
                                      np.median(s),
                                      np.nanmean(s), np.polyval([1.0, 2.0], s), np.piecewise(s, [s > 0], [1.0, 2.0]), np.quantile(s, 0.5),
                                      np.nanmax(s), np.append(s, x), np.cov(x, x * s), np.isin(s, x), np.append(x, s), np.block([s, x])),
    "special numbers": lambda np, x, s: (np.nanmax(x), np.nanmin(x[3:4]), np.median(x), np.maximum(x, 0.0),
                                         np.nancumsum(x), np.unique(x).size,
                                         np.interp(x, [-np.inf, 0.0, 1.0], [1.0, 2.0, 4.0]), np.isnan(x),
                                         np.searchsorted([-1.0, 0.0, np.inf, np.nan], x),
                                         np.histogram(x, [0.0, 1.0, np.inf])[0], np.nanmedian(x), np.gradient(x), np.ediff1d(x),
                                         np.isin(x, [np.nan, -0.0, np.inf]), np.interp(1.0, [0.0, 1.0], [0.0, np.inf])),
}


def test_values_are_numpys():
    for_each({**{f"{name} (method)": sample for name, sample in METHODS.items()}, **VALUES},
             lambda fun, args: _compare(fun, args, lambda fun, args: aj.compile(lambda *args: fun(np, *args), backend="interpret")(*args)))


def test_values_of_plain_arrays():
    for_each(VALUES, lambda fun, args: _compare(fun, args, lambda fun, args: fun(aj.numpy, *args)))


VECTORIZED = {
    "(n)->()": (lambda v: np.vectorize(lambda a: a @ a, signature="(n)->()")(v)),
    "(n),(m)->(n,m)": (lambda v: np.vectorize(np.outer, signature="(n),(m)->(n,m)")(v, np.arange(6.0).reshape(3, 2))),
    "(n),(m)->(k)": (lambda v: np.vectorize(np.convolve, signature="(n),(m)->(k)")(v, [1.0, 2.0])),
    "(n),()->(),(n)": (lambda v: np.vectorize(lambda a, b: (a.sum(), a * b), signature="(n),()->(),(n)")(v, np.arange(3.0))),
    "excluded": (lambda v: np.vectorize(lambda c, a: np.polyval(c, a), excluded=[0], signature="(n)->(n)")(v[0], v)),
    "otypes": (lambda v: np.vectorize(lambda a: a.sum(), otypes=[np.float32], signature="(n)->()")(v)),
}


@pytest.mark.parametrize("name", VECTORIZED)
def test_vectorized_by_a_signature(name: str) -> None:
    function, v = VECTORIZED[name], np.sin(np.arange(12.0)).reshape(3, 4)
    found, expected = aj.compile(function, backend="interpret")(v), function(v)
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (found, expected)), strict=True):
        np.testing.assert_array_equal(one, other)
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
    with pytest.raises(ValueError, match=r"inconsistent size for core dimension 'n': 3 vs 4"):
        aj.compile(lambda v: np.vectorize(np.dot, signature="(n),(n)->()")(v, np.ones(3)))(v)


def test_edges():
    special = np.array([0.0, -0.0, np.inf, np.nan, -np.inf, 1.0, np.nan, 0.0])

    def check(fun):
        for x in (special, X):
            _compare(fun, (x, np.float64(0.5)), lambda fun, args: aj.compile(lambda *args: fun(np, *args), backend="interpret")(*args))

    for_each(EDGES, check)


def _by_element(x, n, s):
    affine = np.vectorize(lambda v, w=1.0: v * w + 1)
    pair = np.vectorize(lambda v, w: (v * w, v > w), otypes=[float, bool])
    power = np.vectorize(lambda v, k: v ** k, excluded={1})
    total, filled = 0.0, np.zeros((2, 3))
    for (i, j), v in np.ndenumerate(x.reshape(2, 3)):
        total = total + i * v + j
    for place, v in np.ndenumerate(filled):
        filled[place] = x[place[1]] + v
    return (affine(x), affine(x, w=2.0), np.vectorize(np.sin)(x.reshape(2, 3)), pair(x, 2.0), power(x, 3), total, filled,
            np.vectorize(lambda k: k // 2)(n), affine(x[0]), affine(s), affine(np.arange(3.0)))


def test_functions_are_called_for_each_element():
    args = X[:6], N, F[0]
    assert_same(_leaves(aj.compile(_by_element, backend="interpret")(*args)), _leaves(_by_element(*args)), 2e-7)


def test_long_arrays_are_combined_by_halves():
    x = RNG.standard_normal(3000)

    def fun(x):
        bins = np.zeros_like(x, shape=7)
        np.multiply.at(bins, np.arange(3000) % 5, x)
        np.maximum.at(bins, np.arange(3000) % 6, x)
        return (np.maximum.accumulate(x), np.minimum.accumulate(x[:35]), np.logaddexp.reduce(x), np.logaddexp.accumulate(x)[-1], bins,
                np.add.reduceat(x, np.arange(0, 3000, 10)), np.bitwise_xor.reduce(np.arange(100) + np.zeros_like(x, dtype=int)[0]))

    assert_same(aj.compile(fun, backend="interpret")(x), fun(x), 1e-11)


def test_derivatives():
    """Gradients against differences of values; their derivatives along a line against differences of gradients."""
    x, line, steps = RNG.standard_normal(6), RNG.standard_normal(6), np.eye(6) * 1e-6

    def check(fun):
        gradient = aj.compile(aj.grad(fun), backend="interpret")
        second = aj.compile(aj.grad(lambda x: np.dot(aj.grad(fun)(x), line)), backend="interpret")
        np.testing.assert_allclose(gradient(x), [(fun(x + step) - fun(x - step)) / 2e-6 for step in steps], rtol=1e-5, atol=1e-6)
        difference = (gradient(x + 1e-6 * line) - gradient(x - 1e-6 * line)) / 2e-6
        np.testing.assert_allclose(second(x), difference, rtol=1e-5, atol=1e-5)

    for_each(DERIVATIVES, check, share=2)
