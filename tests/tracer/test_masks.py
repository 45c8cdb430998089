"""Reads and writes by masks that depend on values, and what functions make of what a mask chose."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from support.each import for_each
from support.tracing import assert_same, run_traced

import adjit as aj
from adjit.ir.errors import UnsupportedError
from adjit.tracer.masked_array import is_lazy

X = np.array([0.5, -1.0, 2.0, np.nan, -0.0, 3.5, -2.25, 0.75])
A = np.array([1.5, 0.25, -3.0, 1.0, np.inf, 0.5, 2.0, -1.0])
M = np.arange(24.0).reshape(8, 3) * 0.37 - 4
N = np.array([3, 0, -2, 7, 7, 1, 0, 5])


def _written(x, a, m, n):
    y, z, u, v, w = a.copy(), a.copy(), x.copy(), a.copy(), x.copy()
    y[x > 0] += 2.0
    z[x > 0] = np.exp(x[x > 0]) * a[x > 0]
    u[x > 0] **= 2
    v[x > 1] = v[~(x > 1)][0]
    w[np.isnan(w)] = 0
    w[w < 0] *= -1
    return y, z, u, v, w


def _written_rows(x, a, m, n):
    keep = x > 0
    y, z, v, t = m.copy(), m.copy(), m.T.copy(), m.copy()
    y[keep] = m[keep] * 2 + m[0]
    y[~keep] = m[0]
    z[keep, 0] = x[keep]
    z[keep, 1] += 1
    z[keep, 1:] *= 2
    v[:, keep] *= 3
    v[0, keep] = 0
    t[keep] = 7
    t[:, m[0] < -3.9] = 1.0
    return y, z, v, t


def _written_copies(x, a, m, n):
    s = x[x > 0]
    s *= 2
    s[s > 1] = 0.5
    s[s < 1] += 1
    rows = m[x > 0]
    rows[:, 0] += 10
    rows[:, 1] = 0
    column = rows[:, 2]
    column *= 2
    back = x.copy()
    back[x > 0] = s
    return back, rows.sum(axis=0), column.sum(), x


def _places(x, a, m, n):
    i, j, (rows, columns) = np.where(x > 0), np.flatnonzero(n), np.nonzero(m > 0)
    y, z, grid = x.copy(), x.copy(), m.copy()
    y[i] = 0
    z[j] = 3
    grid[rows, columns] = a[0]
    return (y, z, grid, x[i].sum(), j.sum(), j[0], j[-1], x[j[1]], m[j].sum(axis=0), m[rows, columns].mean(), m[j, 0].sum(),
            m[0, columns].sum())


VALUES = {
    "sums": lambda x, a, m, n: (x[x > 0].sum(), np.mean(x[x > 0]), np.sum(m[m > 0]), m[x > 0].sum(axis=0), m[x > 0].sum(axis=1).sum(),
                                m[m > 0].mean(), n[n > 0].sum(), n[n > 0].mean(), m[x > 0].mean(), np.add.reduce(x[x > 0])),
    "spread": lambda x, a, m, n: (np.std(x[x > 0]), np.var(x[x > 0], ddof=1), m[x > 0].std(axis=0), np.ptp(n[n > 0]), n[n > 2].var()),
    "extrema": lambda x, a, m, n: (x[x > 0].max(), np.min(a[x > 0]), m[x > 0].max(axis=0), n[n < 5].max(), n[n > 0].min(),
                                   np.max(x[x > 0], initial=9.0), np.argmax(x[x > 0]), np.argmin(n[n > 0]), np.max(a[a > 1]),
                                   (n > 0)[n > 0].max(), m[x > 0].max(axis=1).sum(), np.max(x[~np.isnan(x)])),
    "products": lambda x, a, m, n: (np.prod(x[x > 0]), x[x > 0] @ x[x > 0], np.dot(x[x > 0], a[x > 0]), m[x > 0].T @ m[x > 0],
                                    m[x > 0].T @ x[x > 0], (m[x > 0] @ m[0]).sum(), (m[0] @ m[x > 0].T).sum(), np.linalg.norm(x[x > 0]),
                                    np.linalg.norm(m[x > 0], axis=1).sum(), np.linalg.norm(x[x > 0], 1), np.linalg.norm(x[x > 0], np.inf),
                                    np.inner(x[x > 0], x[x > 0]), np.vdot(x[x > 0], x[x > 0])),
    "quantifiers": lambda x, a, m, n: (np.any(x[x > 0] > 3), np.all(x[x > 0] > 0.5), (n[n > 0] > 6).any(), np.count_nonzero(n[x > 0]),
                                       np.all(x[x > 99] > 0), np.any(x[x > 99] > 0)),
    "none chosen": lambda x, a, m, n: (x[x > 99].sum(), np.mean(x[x > 99]), np.std(x[x > 99]), x[x > 99].prod(), n[n > 99].sum()),
    "parts": lambda x, a, m, n: (x[x > 0][0], x[x > 0][-1], x[x > 0][1], m[x > 0][2], m[x > 0][1, 2], m[x > 0][:, 1].sum(),
                                 m[x > 0, 1].sum(), x[x > 0][x[x > 0] > 1].sum(), m.T[:, x > 0].sum(axis=1), m[x > 0, 1:].sum(),
                                 m[(x > 0) & (n > 1)].sum(axis=0), m.reshape(2, 4, 3)[:, x[:4] > 0].sum(axis=1)),
    "order": lambda x, a, m, n: (np.sort(x[x > 0])[0], np.sort(x[x > 0])[-2], np.cumsum(x[x > 0])[-1], np.sort(n[n > 0]).sum(),
                                 np.unique(n).sum(), np.unique(n[n > 0]).sum(), np.unique(n, return_inverse=True)[1],
                                 np.unique(n, return_counts=True)[1].max(), np.unique(x, return_index=True)[1].sum(),
                                 np.unique(x)[-1], np.union1d(n, [9, 9]).sum()),
    "joined": lambda x, a, m, n: (np.concatenate([x[x > 0], a[:2]]).sum(), np.append(x[x > 0], 0.1).max(), np.hstack([n[n > 0], n]).mean(),
                                  np.concatenate([m[x > 0], m]).sum(axis=0), np.concatenate([n[n > 0], n[n <= 0]])[3]),
    "slices": lambda x, a, m, n: (x[x > 0][1:].sum(), x[x > 0][:-1].prod(), x[x > 0][1:-1].max(), np.diff(x[x > 0]).sum(),
                                  (x[x > 0][1:] * x[x > 0][:-1]).sum(), np.diff(np.flatnonzero(n)).max(), x[x > 0][::-1][0],
                                  x[x > 99][1:].sum(),
                                  np.diff(n[n > 99]).sum(), x[x > 0][9:].sum()),
    "others": lambda x, a, m, n: (np.average(x[x > 0], weights=a[x > 0]), np.argwhere(m > 0).sum(axis=0), np.extract(x > 0, x).sum(),
                                  np.compress(x > 0, m, axis=0).sum(axis=0), np.compress(n > 2, n).sum(), np.trim_zeros(n * (n > 5)).sum(),
                                  np.where(x[x > 0] > 1, x[x > 0], a[x > 0]).sum(), np.clip(x[x > 0], 0.6, 2).sum(),
                                  x[x > 0].astype(np.float32).sum(), (x[x > 0] / a[x > 0]).max(), x[x > 0].ravel().sum(),
                                  (m[x > 0] * m[0]).sum(), (m[x > 0] - m[x > 0].mean(axis=0)).sum(axis=0), np.isin(n, [7, 0]),
                                  np.isin(x, [0.0, 2.0], invert=True), np.isin(n, x)),
    "written": _written, "written rows": _written_rows, "written copies": _written_copies, "places": _places,
}


def test_masks_read_and_write_as_in_numpy():
    def check(fun):
        with np.errstate(all="ignore"):
            expected = fun(X, A, M, N)
        assert_same(aj.compile(fun, backend="interpret")(X, A, M, N), expected)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # NumPy's, of means of nothing
        for_each(VALUES, check)


def test_one_program_serves_all_masks():
    """Nothing but the values of a mask changes: there is no other trace."""
    @aj.compile
    def fun(x):
        y = x.copy()
        y[x > 0] -= np.mean(x[x > 0])
        return y, x[x > 0].size, x[x > 0].max()

    for x in (X[:3], -X[:3], X[5:], np.array([1.0, 2.0, 3.0])):
        y, size, largest = fun(x)
        wanted = x.copy()
        wanted[x > 0] -= np.mean(x[x > 0])
        assert_same((y, largest), (wanted, x[x > 0].max()))
        assert size == np.sum(x > 0)
    assert fun.cache_info().traces == 1


def _squares(x):
    y = x.copy()
    y[y > 0] **= 2
    return np.sum(y[~np.isnan(y)])


def _rows(x):
    m = np.stack([x, x * x, x + 1], axis=1)
    chosen = m[x > 0]
    return np.sum((chosen.T @ chosen) * np.arange(9.0).reshape(3, 3)) + np.linalg.norm(chosen, axis=1).sum() + chosen[1, 2] ** 3


DERIVATIVES = {
    "log": lambda x: np.log(x[x > 0]).sum(),
    "mean of roots": lambda x: np.mean(np.sqrt(x[x > 0])) * np.sum(x[np.where(x > 0)] ** 3),
    "standard deviation": lambda x: np.std(x[~np.isnan(x)]) + np.var(x[x > 0], ddof=1),
    "norm": lambda x: np.linalg.norm(x[~np.isnan(x)]),
    "extrema": lambda x: x[~np.isnan(x)].max() ** 2 * np.min(np.exp(x[x > 0])),
    "products": lambda x: np.dot(x[x > 0], np.exp(x[x > 0])) + np.prod(x[x > 0]),
    "order": lambda x: (np.sum(np.cumsum(x[x > 0]) ** 2) + np.sort(x[x > 0])[0] ** 2 + x[x > 0][-1] ** 3
                        + x[x > 0][np.argmax(x[x > 0])] ** 2),
    "set": lambda x: np.sum(np.unique(x[x > 0]) ** 3),
    "squares in place": _squares,
    "rows": _rows,
}


def test_derivatives_of_what_a_mask_chose():
    """Elements that are left out are NaN, or make NaN or infinity of the functions: their cotangents are 0."""
    step = 1e-6

    def check(fun):
        gradient = aj.grad(fun)
        first, second = gradient(X), aj.hessian(fun)(X)
        with np.errstate(all="ignore"):
            for i, row in enumerate(np.eye(X.size) * step):
                if not np.isnan(X[i]) and X[i]:
                    np.testing.assert_allclose(first[i], (fun(X + row) - fun(X - row)) / (2 * step), rtol=1e-6, atol=1e-6)
                    np.testing.assert_allclose(second[i], (gradient(X + row) - gradient(X - row)) / (2 * step), rtol=1e-5, atol=1e-5)
                else:
                    assert np.isfinite(first[i])
                    assert np.isfinite(second[i]).all()

    for_each(DERIVATIVES, check, share=2)


def test_a_table_for_the_places_of_a_mask():
    @aj.compile
    def fun(x, mask, other, table):
        y, z = x.copy(), x.copy()
        y[mask] = table
        z[mask] = x[other]
        return y, z

    x, table = np.arange(5.0), np.array([10.0, 20.0])
    mask, other = np.array([True, False, False, True, False]), np.array([False, False, True, False, True])
    y, z = fun(x, mask, other, table)
    np.testing.assert_array_equal(y, [10, 1, 2, 20, 4])
    np.testing.assert_array_equal(z, [2, 1, 2, 4, 4])
    with pytest.raises(IndexError):
        fun(x, ~mask, ~other, table)
    with pytest.raises(IndexError):
        fun(x, mask, ~other, table)


def test_elements_that_are_not_there_raise():
    first, largest = aj.compile(lambda x: x[x > 0][0]), aj.compile(lambda x: np.max(x[x > 0]))
    for fun, error in ((first, IndexError), (largest, ValueError)):
        assert fun(np.array([-1.0, 3.0, 2.0])) == 3
        with pytest.raises(error):
            fun(np.array([-1.0, -3.0, -2.0]))


def test_the_mask_stays_where_nothing_asks_for_the_count():
    def fun(x, a):
        chosen = [x[x > 0], np.exp(x[x > 0]) * 2 + a[x > 0], x[x > 0] > 1, np.nonzero(x)[0], np.unique(x), x[x > 0][x[x > 0] > 1]]
        assert all(map(is_lazy, chosen))
        assert chosen[1].dtype == np.float64
        assert chosen[1].ndim == 1
        assert isinstance(chosen[0], np.ndarray)
        return x

    run_traced(fun, X, A)


def _added_at(x):
    sums = np.zeros(9)
    np.add.at(sums, np.abs(x[x > 0]).astype(int), x[x > 0])
    return sums


def _placed(x):
    z = x[x > 0]
    np.place(z, z > 1, [0.5])
    return z


COUNTED = {
    "results": lambda x: (x[x > 0], np.nonzero(x), np.argwhere(x > 0), np.where(x > 1), np.unique(x), np.outer(x, x)[x > 0][:, x < 1]),
    "numbers": lambda x: (x[x > 0].shape[0] * x, x * len(np.unique(x)), np.arange(x[x > 0].size) * x[0], np.zeros((x > 0).sum()),
                          sum(i * v for i, v in enumerate(x[x > 0])), [x[0]] * (x > 0).sum(), [int(i) for i in np.flatnonzero(x > 0)]),
    "joined": lambda x: (np.concatenate([x[x < 0], x[x >= 0]]), np.vstack([x[x > 0], x[x > 0]]), np.column_stack([x[x > 0]] * 2),
                         np.append(x[x > 0], 1.0), np.array([x[x > 0], -x[x > 0]])),
    "lists": lambda x: ([0] * np.argmax(x), np.argmin(x) * [x[0]], np.argsort(x)[-2:] * [1, 2]),
    "shapes": lambda x: (x[x > 0].reshape(-1, 1), np.diag(x[x > 0]), np.tile(x[x > 0], 2), np.roll(x[x > 0], 1), x[x > 0][::2]),
    "sets": lambda x: (np.unique(np.round(x), return_counts=True), np.unique(x, return_index=True, return_inverse=True),
                       np.intersect1d(x, x[::2]), np.setdiff1d(x, x[::2]), np.union1d(x, np.round(x))),
    "statistics": lambda x: (np.median(x[x > 0]), np.percentile(x[x > 0], 30), np.cov(x[x > 0]), np.nansum(x[x > 0]), np.nanmax(x[x > 0]),
                             np.maximum.reduce(x[x > 0]), np.histogram(x, bins=(x > 0).sum() + 1)),
    "deleted": lambda x: (np.delete(x, np.where(x > 1)[0]), np.delete(x, [0, np.argmax(x), -1])),
    "inserted": lambda x: (np.insert(x, np.where(x > 0)[0], 0.5), np.insert(x, np.argsort(x, kind="stable")[:3] - 2, [1.0, 2.0, 3.0]),
                           np.insert(x, x > 1, -x[x > 1])),
    "repeated": lambda x: (np.repeat(x, (x > 0) + 1), np.repeat(x, (x > 0).sum()), np.repeat(x[None], np.abs(x).astype(int), axis=1)),
    "counts": lambda x: (np.bincount(np.abs(x).astype(int)), np.bincount(np.abs(x).astype(int), x, 2)),
    "ranges": lambda x: (np.arange(np.argmax(x), x.size), np.arange(x[0], x[0] + 1, 0.3)),
    "written": lambda x: (_added_at(x), _placed(x)),
}


def test_counts_are_those_of_the_call():
    """What needs a count as a Python number gets that of the call: a call with another count goes another way."""
    calls = [np.random.default_rng(seed).normal(size=7) * 2 for seed in range(4)]
    calls[2][2:4] = 0

    def check(fun):
        compiled = aj.compile(fun, backend="interpret")
        for x in (*calls, calls[0]):
            assert_same(compiled(x), fun(x))

    for_each(COUNTED, check)


def test_derivatives_with_guarded_counts():
    def fun(x):
        z = np.delete(np.repeat(x[x > 0], 2), [np.argmin(x[x > 0])])
        w = np.insert(z, np.flatnonzero(z > 1), z[z > 1] ** 2)
        return np.sum(np.concatenate([w, w ** 2]) * np.arange(2 * len(w))) + np.sum(np.setdiff1d(x, x[:2]) ** 3)

    gradient = aj.compile(aj.grad(fun), backend="interpret")
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=6)
        expected = [(fun(x + row) - fun(x - row)) / 2e-6 for row in np.eye(6) * 1e-6]
        np.testing.assert_allclose(gradient(x), expected, rtol=1e-6, atol=1e-6)


def test_errors_of_counts():
    for error, message, fun in (
            (ValueError, "negative", lambda x: np.repeat(x, (x > 9) - 1)), (ValueError, "negative", lambda x: np.repeat(x, x.astype(int))),
            (ValueError, "negative elements", lambda x: np.bincount(x.astype(int))),
            (IndexError, None, lambda x: np.insert(x, x.astype(int) * 9, 0.0)),
            (IndexError, None, lambda x: np.delete(x, x.astype(int) * 9))):
        with pytest.raises(error, match=message):
            aj.compile(fun, backend="interpret")(np.arange(-3.0, 3.0))


def test_a_count_in_a_loop_is_refused():
    def fun(x):
        return aj.scan(lambda total, v: (total + len(x[x > v]), v), 0, x)

    with pytest.raises(UnsupportedError, match=r"depends on values(.|\n)*np.where\(mask, x, other\)"):
        aj.compile(fun)(X)


def test_what_asks_for_the_count_is_refused_without_values():
    for_each({
        "result": lambda x: x[x > 0], "shape": lambda x: np.sum(x[x > 0].shape[0] * x), "length": lambda x: x * len(np.unique(x)),
        "vstack": lambda x: np.vstack([x[x > 0], x[x > 0]]), "other masks": lambda x: np.sum(x[x > 0] + x[x < 0]),
    }, _refuses_the_count)


def _refuses_the_count(fun):
    with pytest.raises(UnsupportedError, match=r"depends on values(.|\n)*np.where\(mask, x, other\)"):
        run_traced(fun, X)


@pytest.mark.parametrize("function", [np.compress, np.extract])
def test_conditions_that_are_not_traced_give_as_many_elements_as_they_say(function):
    keep, x = np.array([True, False, True]), np.arange(3.0)
    compiled = aj.compile(lambda x: (function(keep, x), function([0, 1, 0], x) * 2), backend="interpret")
    for content in ([True, False, True], [True, True, True], [False, False, False], [False, False, False]):
        keep[:] = content
        chosen, second = compiled(x)
        np.testing.assert_array_equal(chosen, x[keep])
        np.testing.assert_array_equal(second, [2.0])
    assert compiled.cache_info().traces == 3


def _trimmed(write):
    def fun(x):
        y = np.array([0.0, 1.0, 2.0, 0.0, 3.0, 0.0]) * x[1]
        view = np.trim_zeros(y)
        write(view, y)
        return y, view.copy(), view.sum()

    return fun


def test_trim_zeros_gives_a_view():
    x = X[:3]
    for_each({
        "fill": lambda v, y: v.fill(4.0), "all": lambda v, y: v.__setitem__(..., 7), "in place": lambda v, y: v.__iadd__(1),
        "element": lambda v, y: v.__setitem__(0, 9), "mask": lambda v, y: v.__setitem__(v < -2, 5), "end": lambda v, y: v[1:3].__imul__(2),
        "base": lambda v, y: y.__setitem__(1, 8), "out": lambda v, y: np.multiply(v, 2, out=v),
        "length": lambda v, y: v[len(v) - 1:].fill(1), "sorted": lambda v, y: v.sort(),
    }, lambda write: assert_same(aj.compile(_trimmed(write), backend="interpret")(x), _trimmed(write)(x)))


def test_parts_of_what_a_mask_chose_are_written_to():
    def fun(x, length):
        z = x[x > 0]
        if length:
            len(z)
        part = z[1:]
        part[0] = 3.0
        return z

    with pytest.raises(UnsupportedError, match=r"z\[1:\](.|\n)*len\(z\) first"):
        aj.compile(fun, static="length")(X, False)
    assert_same(aj.compile(fun, static="length", backend="interpret")(X, True), fun(X, True))


@pytest.mark.parametrize("write", [
    lambda z, x: z.__setitem__(slice(1, None), x[1]), lambda z, x: z.__setitem__(slice(None, 2), 0.0),
    lambda z, x: add_to(z, slice(1, None), x[1]), lambda z, x: add_to(z, slice(None, -1), 1.0), lambda z, x: add_to(z, 0, x[2]),
    lambda z, x: add_to(z, slice(None, None, 2), 1.0)])
@pytest.mark.parametrize("choose", [lambda x: x[x > 0], lambda x: np.concatenate([x[x > 0], x[x <= 0]])])
def test_slices_of_what_a_mask_chose_are_written(write, choose):
    def program(x):
        z = choose(x)
        write(z, x)
        return z

    compiled = aj.compile(program)
    for x in (np.array([1.0, -2.0, 3.0, -4.0, 5.0]), np.array([1.0, 2.0, 3.0, -4.0, -5.0]), np.array([1.0, 2.0, 3.0, 4.0, -5.0])):
        assert np.array_equal(compiled(x), program(x))

    def loss(x):
        return np.sum(program(x) ** 2)

    x = np.array([1.0, -2.0, 3.0, 0.5, 5.0])
    known = [(loss(x + step) - loss(x - step)) / 2e-6 for step in 1e-6 * np.eye(5)]
    np.testing.assert_allclose(aj.grad(loss)(x), known, rtol=1e-6, atol=1e-8)


def add_to(z, index, value):
    z[index] += value
