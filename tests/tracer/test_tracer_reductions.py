"""Reductions, cumulative functions and sorting on traced arrays give what NumPy gives."""

from __future__ import annotations

import numpy as np
import pytest
from support.tracing import assert_as_numpy, assert_same, run_traced

import adjit as aj
from adjit import numpy as anp

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_]
REDUCTIONS = [np.sum, np.prod, np.mean, np.max, np.min, np.var, np.std, np.any, np.all, np.ptp]
AXES = [None, 0, 1, -1, (0, 2), (-1, 0), ()]


def array(dtype, shape=(2, 3, 4), seed=0):
    values = np.random.default_rng(seed).uniform(-2, 2, shape)
    return (
        (values > 0)
        if dtype is np.bool_
        else (values * 3 if np.dtype(dtype).kind == "i" else np.abs(values) * 3 if dtype is np.uint8 else values).astype(dtype)
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fun", REDUCTIONS, ids=lambda fun: fun.__name__)
def test_reductions(fun, dtype):
    x = array(dtype)
    if fun is np.ptp and dtype is np.bool_:
        with pytest.raises(TypeError):
            run_traced(lambda x: fun(x), x)
        return
    for axis in AXES:
        if fun is np.ptp and axis == ():
            continue
        for keepdims in (False, True):
            assert_as_numpy(
                lambda x, axis=axis, keepdims=keepdims: fun(x, axis=axis, keepdims=keepdims), x, rtol=1e-5 if dtype is np.float32 else 1e-12
            )
    assert_as_numpy(lambda x: fun(x), x[0, 0, 0])
    assert_as_numpy(lambda x: fun(x, 0), x[:, :0])


@pytest.mark.parametrize("fun", [np.sum, np.prod, np.mean, np.any, np.all, np.var], ids=lambda fun: fun.__name__)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_reductions_of_nothing(fun):
    for dtype in (np.float32, np.int64):
        assert_as_numpy(lambda x: fun(x), np.zeros((0,), dtype))
        assert_as_numpy(lambda x: fun(x, axis=1), np.zeros((2, 0), dtype))


def test_extrema_of_nothing_and_of_nan():
    with pytest.raises(ValueError, match="zero-size array to reduction operation maximum which has no identity"):
        run_traced(lambda x: x.max(), np.zeros(0))
    with pytest.raises(ValueError, match="attempt to get argmax of an empty sequence"):
        run_traced(lambda x: x.argmax(), np.zeros(0))
    assert_as_numpy(lambda x: [x.max(), x.min(0), x.argmax(), x.argmin(), np.max(x, initial=10.0)], np.array([1.0, np.nan, 3.0, -np.inf]))
    assert_as_numpy(lambda x: [np.max(x, initial=-1.0), np.sum(x, initial=2.5)], np.zeros(0))


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_dtype_initial_where_and_out(dtype):
    x = array(dtype)

    def fun(x):
        out = np.zeros_like(x, shape=(2, 4))
        kept = np.sum(x, axis=1, dtype=x.dtype, out=out)
        mask = x > 0
        return [
            out,
            kept,
            np.sum(x, dtype=np.float64),
            np.prod(x, axis=0, dtype=np.float32),
            np.sum(x, initial=3),
            np.sum(x, axis=0, where=mask),
            np.prod(x, axis=0, where=mask),
            np.max(x, axis=0, where=mask, initial=-5),
            np.min(x, axis=0, where=mask, initial=5),
            np.any(x, axis=0, where=mask),
            np.all(x, axis=0, where=mask),
            np.mean(x, axis=(0, 1), where=x == x),
            np.mean(x, dtype=np.float32),
            np.var(x, ddof=1),
            np.std(x, axis=0, ddof=1, keepdims=True),
            np.sum(x, dtype=bool),
        ]

    assert_as_numpy(fun, x, rtol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.bool_])
def test_what_a_reduction_begins_with_takes_its_dtype(dtype):
    x = array(dtype)
    for initial in (2.5, -2.5, np.float64(2.5), 3, True, np.array(2)):
        assert_as_numpy(lambda x, initial=initial: [fun(x, initial=initial) for fun in (np.sum, np.prod, np.max, np.min)], x, rtol=1e-5)
    with pytest.raises((TypeError, ValueError), match=r"initial= has the shape \(2,\)"):       # NumPy's, by dtype
        run_traced(lambda x: np.max(x, initial=[1, 2]), x)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("fun", [np.argmax, np.argmin], ids=lambda fun: fun.__name__)
def test_places(fun, dtype):
    for axis in (None, 0, -1):
        for keepdims in (False, True):
            assert_as_numpy(lambda x, axis=axis, keepdims=keepdims: fun(x, axis=axis, keepdims=keepdims), array(dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_cumulative_and_sorting(dtype):
    def fun(x):
        results = [
            np.cumsum(x),
            np.cumsum(x, axis=1),
            x.cumprod(-1),
            np.cumsum(x, axis=0, dtype=np.float64),
            np.sort(x),
            np.sort(x, axis=0),
            np.sort(x, axis=None),
            x.sum(),
            np.argsort(x, kind="stable"),
            x.argsort(axis=0, stable=True),
            np.diff(x),
            np.diff(x, 2, axis=0),
        ]
        y = x.copy()
        y.sort(axis=1)
        return [*results, y, np.count_nonzero(x, axis=0)]

    assert_as_numpy(fun, array(dtype), rtol=1e-5)


def test_nan_sorts_last():
    assert_as_numpy(
        lambda x: [np.sort(x), np.argsort(x, stable=True), np.diff(x, prepend=0, append=[1.0, 2.0])],
        np.array([2.0, np.nan, -1.0, np.inf, -np.inf]),
    )


def test_average_and_trapezoid():
    x = array(np.float64)
    assert_as_numpy(
        lambda x: [
            np.average(x),
            np.average(x, axis=1, weights=np.array([1, 2, 3])),
            np.average(x, weights=x * x),
            *np.average(x, axis=0, returned=True),
            np.average(x, axis=(0, 2), weights=np.ones((2, 4))),
        ],
        x,
        rtol=1e-12,
    )
    if hasattr(np, "trapezoid"):
        assert_as_numpy(lambda x: [np.trapezoid(x), np.trapezoid(x, dx=0.5, axis=0), np.trapezoid(x, x=np.array([0.0, 1, 3, 4]))], x)


def test_variance_is_stable_for_a_large_mean():
    x = np.random.default_rng(1).normal(1e6, 1.0, 1000).astype(np.float32)
    assert_as_numpy(lambda x: x.var(), x, rtol=1e-4)


def reference_logsumexp(x, axis):
    with np.errstate(all="ignore"):
        return np.log(np.sum(np.exp(x.astype(np.longdouble)), axis=axis)).astype(x.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logsumexp_and_softmax(dtype):
    x = array(dtype)
    for axis in (None, 0, -1, (0, 2)):
        np.testing.assert_allclose(run_traced(lambda x, axis=axis: anp.logsumexp(x, axis=axis), x), reference_logsumexp(x, axis), rtol=1e-5)
        exact = np.exp(x.astype(np.longdouble))
        soft = (exact / exact.sum(axis=axis, keepdims=True)).astype(dtype)
        np.testing.assert_allclose(run_traced(lambda x, axis=axis: anp.softmax(x, axis=axis), x), soft, rtol=1e-5)
        np.testing.assert_allclose(run_traced(lambda x, axis=axis: anp.log_softmax(x, axis=axis), x), np.log(soft), rtol=1e-4, atol=1e-6)
    assert run_traced(lambda x: anp.logsumexp(x, axis=1, keepdims=True), x).shape == (2, 1, 4)
    assert run_traced(lambda x: anp.logsumexp(x), np.arange(3)).dtype == np.float64


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([-np.inf, -np.inf], -np.inf),
        ([np.inf, 1.0], np.inf),
        ([1e4, 1e4], 1e4 + np.log(2)),
        ([np.nan, 0.0], np.nan),
        ([-np.inf, 3.0], 3.0),
        ([], -np.inf),
        ([-1e4, -1e4], -1e4 + np.log(2)),
    ],
)
def test_logsumexp_of_extremes(row, expected):
    np.testing.assert_allclose(run_traced(lambda x: anp.logsumexp(x), np.array(row, float)), expected)


def test_the_logsumexp_of_a_vector_is_a_scalar_which_is_rebound():
    def fun(x):
        first = total = aj.special.logsumexp(x)
        total += x
        return first, total

    first, total = run_traced(fun, np.array([0.0, 0.0]))
    assert_same([first, total], [np.log(2.0), np.full(2, np.log(2.0))])


def test_softmax_of_large_numbers_does_not_overflow():
    np.testing.assert_allclose(run_traced(lambda x: anp.softmax(x), np.array([1000.0, 1000.0, -np.inf])), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(run_traced(lambda x: anp.log_softmax(x), np.array([0.0, 2000.0])), [-2000.0, 0.0])
