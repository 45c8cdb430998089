"""NumPy's universal functions on traced arrays give what NumPy gives, values and dtypes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.tracing import assert_as_numpy, assert_same, run_traced

import adjit as aj
from adjit.tracer.trace import trace_function

DTYPES = [np.float32, np.float64, np.int32, np.int64, np.bool_]
UNARY = [
    np.negative,
    np.positive,
    np.absolute,
    np.fabs,
    np.sign,
    np.square,
    np.reciprocal,
    np.exp,
    np.exp2,
    np.expm1,
    np.log,
    np.log2,
    np.log10,
    np.log1p,
    np.sqrt,
    np.cbrt,
    np.sin,
    np.cos,
    np.tan,
    np.arcsin,
    np.arccos,
    np.arctan,
    np.sinh,
    np.cosh,
    np.tanh,
    np.arcsinh,
    np.arccosh,
    np.arctanh,
    np.deg2rad,
    np.rad2deg,
    np.floor,
    np.ceil,
    np.trunc,
    np.rint,
    np.isnan,
    np.isinf,
    np.isfinite,
    np.signbit,
    np.conjugate,
    np.logical_not,
    np.invert,
    np.round,
    np.sinc,
    np.nan_to_num,
    np.modf,
]
BINARY = [
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.floor_divide,
    np.remainder,
    np.mod,
    np.fmod,
    np.power,
    np.float_power,
    np.maximum,
    np.minimum,
    np.fmax,
    np.fmin,
    np.arctan2,
    np.hypot,
    np.logaddexp,
    np.logaddexp2,
    np.copysign,
    np.heaviside,
    np.equal,
    np.not_equal,
    np.less,
    np.less_equal,
    np.greater,
    np.greater_equal,
    np.logical_and,
    np.logical_or,
    np.logical_xor,
    np.bitwise_and,
    np.bitwise_or,
    np.bitwise_xor,
    np.left_shift,
    np.right_shift,
    np.divmod,
    np.isclose,
]


def sample(dtype: type, seed: int = 0) -> np.ndarray:
    """Small numbers of both signs, and for floats the special ones."""
    if dtype is np.bool_:
        return np.array([True, False, True, True, False, False])
    values = np.random.default_rng(seed).uniform(-3, 3, 8)
    if np.dtype(dtype).kind == "f":
        special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5])
        return np.concatenate([values, special if seed == 0 else special[::-1]]).astype(dtype)
    return np.concatenate([values.round(), [0, 1]]).astype(dtype)


def numpy_refuses(fun, *args) -> bool:
    with np.errstate(all="ignore"):
        try:
            fun(*args)
        except TypeError:
            return True
    return False


@parametrize_within("dtype", DTYPES)
@pytest.mark.parametrize("fun", UNARY, ids=lambda fun: fun.__name__)
def test_unary(fun, dtype):
    x = sample(dtype)
    if numpy_refuses(fun, x):
        with pytest.raises(TypeError):
            run_traced(lambda x: fun(x), x)
        return
    if fun is np.reciprocal and x.dtype.kind == "i":
        x = np.where(x == 0, 3, x).astype(dtype)  # NumPy's 1 // 0 is up to the machine
    for shape in ((-1,), (2, -1)):
        assert_as_numpy(lambda x: fun(x), x.reshape(shape))
    assert_as_numpy(lambda x: fun(x), x[:0])
    assert_as_numpy(lambda x: fun(x), x[0])


@parametrize_within("dtype", DTYPES)
@pytest.mark.parametrize("fun", BINARY, ids=lambda fun: fun.__name__)
def test_binary_broadcasts(fun, dtype):
    x, y = sample(dtype), sample(dtype, seed=1)
    if fun in (np.left_shift, np.right_shift, np.power) and np.dtype(dtype).kind == "i":
        y = np.abs(y)
    if numpy_refuses(fun, x, y):
        with pytest.raises(TypeError):
            run_traced(lambda x, y: fun(x, y), x, y)
        return
    assert_as_numpy(lambda x, y: fun(x, y), x, y)
    assert_as_numpy(lambda x, y: fun(x, y), x.reshape(2, 1, -1), y.reshape(-1, 1)[:3])
    assert_as_numpy(lambda x, y: fun(x, y), x[:0], y[:1])
    assert_as_numpy(lambda x, y: fun(x, y), x[1], y)
    if not isinstance(fun, np.ufunc):
        return
    plain = sample(dtype, seed=1) if y is not np.abs(y) else y
    assert_as_numpy(lambda x: fun(x, np.abs(plain)), np.abs(x))  # a plain array beside a traced one
    assert_as_numpy(lambda x: fun(np.abs(plain), x), np.abs(x))


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_python_operators_on_both_sides(dtype):
    def operators(x, y):
        results = [x + y, x - y, x * y, x // y, x % y, -x, +x, abs(x), x < y, x <= y, x > y, x >= y, x == y, x != y]
        results += [2 + x, 2 - x, 2 * x, 2 // x, 2 % x, 1 / x, x / 2, x + 2.5, 3**x, x**2, x < 2, x == 2]
        results += list(divmod(x, y)) + list(divmod(7, y))
        if x.dtype.kind == "i":
            results += [x & y, x | y, x ^ y, ~x, x << 2, 5 & x, 5 | x, 5 ^ x, 1 << x, 64 >> x]
        return results

    assert_as_numpy(operators, np.array([1, 2, 3], dtype), np.array([3, 2, 5], dtype))


def test_numpy_scalars_and_plain_arrays_on_the_left():
    x = np.arange(6.0, dtype=np.float32).reshape(2, 3)
    plain = np.arange(4, dtype=np.float64).reshape(2, 2)
    assert_as_numpy(
        lambda x: [np.float64(2) * x, np.int32(3) + x, np.float32(1) / (x + 1), plain @ x, plain[:, :1] + x, plain[0, 0] - x], x
    )
    assert_as_numpy(lambda x: [np.add(x, [1, 2, 3]), x * [[2.0], [3.0]], [1, 2, 3] - x], x)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, 1.5, 2.0, -1.0])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_with_constant_exponent_are_bitwise_those_of_numpy_where_it_has_shortcuts(dtype, exponent):
    x = np.array([-2.0, -0.0, 0.0, 0.3, 1.0, 2.0, np.inf, -np.inf, np.nan], dtype)
    assert_as_numpy(lambda x: x**exponent, x)
    with np.errstate(all="ignore"):
        result, expected = run_traced(lambda x: x**exponent, x), x**exponent
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(expected[known]))


def test_integer_powers():
    assert_as_numpy(lambda x: [x**2, x**3, x**0, x**1, x**0.5, x**2.0], np.array([0, 1, 2, 3], np.int32))


def test_dtype_out_and_where():
    x, y = np.arange(3.0, dtype=np.float32), np.array([5.0, 0.0, 2.0], np.float32)

    def with_out(x, y):
        into = np.zeros_like(x)
        same = np.add(x, y, out=into)
        np.multiply(x, y, into, where=x > 0.5)
        np.sum(x, out=into[0, ...])
        table = np.ones_like(x, shape=(2, 3))
        np.subtract(x, y[:1], out=table)
        table[0] += 1
        return into, same, table, np.add(x, y, dtype=np.float64)

    assert_as_numpy(with_out, x, y)
    np.testing.assert_array_equal(run_traced(lambda x, y: np.add(x, y, where=x > 0), x, y)[1:], (x + y)[1:])
    with pytest.raises(TypeError, match="cannot cast the result from float32 to int32"):
        run_traced(lambda x: np.add(x, 1, out=x.astype(np.int32)), x)
    with pytest.raises(ValueError, match=r"out= has the shape \(2,\), the result \(3,\)"):
        run_traced(lambda x: np.sin(x, out=np.zeros_like(x, shape=2)), x)


def test_ufunc_methods():
    x = np.arange(6.0).reshape(2, 3)
    assert_as_numpy(
        lambda x: [
            np.add.reduce(x),
            np.add.reduce(x, axis=None),
            np.multiply.reduce(x, 1),
            np.maximum.reduce(x, axis=1),
            np.minimum.reduce(x, axis=(0, 1)),
            np.logical_or.reduce(x),
            np.logical_and.reduce(x, axis=1),
            np.add.accumulate(x),
            np.multiply.accumulate(x, 1),
            np.add.outer(x, x[0]),
            np.maximum.outer(x[0], x[1]),
        ],
        x,
    )


def test_clip_where_round():
    x = np.array([-2.5, -1.5, 0.25, 0.5, 1.5, np.nan, np.inf], np.float32)
    assert_as_numpy(
        lambda x: [
            np.clip(x, -1, 1),
            x.clip(0),
            x.clip(None, 0.5),
            np.clip(x, x[::-1], 1.0),
            np.round(x),
            np.round(x, 1),
            x.round(2),
            np.round(x * 100, -1),
            np.where(x > 0, x, 0),
            np.where(x > 0, 1, 2),
            np.where(x, x, np.float64(1)),
            np.where(x > 0, 1.5, x),
        ],
        x,
    )
    n = np.array([-17, 4, 25, 35], np.int32)
    assert_as_numpy(
        lambda n: [
            np.clip(n, 0, 10),
            np.clip(n, 0.5, 2.5),
            np.round(n),
            np.round(n, 2),
            np.round(n, -1),
            np.where(n > 0, n, 1),
            np.where(n > 0, n, 1.5),
        ],
        n,
    )
    with pytest.raises(NotImplementedError, match="depends on values"):
        run_traced(lambda x: np.where(x > 0), x)


def test_comparison_of_mixed_and_out_of_range_integers_is_exact():
    small = np.array([0, 5, 255], np.uint8)
    assert_as_numpy(lambda x: [x < 300, x > 300, x == 300, x != -1, x >= -1, x < 300, x >= -5], small)
    signed, unsigned = np.array([-1, 2, 2**62 + 1]), np.array([2**64 - 1, 2, 2**62], np.uint64)
    assert_as_numpy(
        lambda a, b: [
            fun(*pair)
            for fun in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal)
            for pair in ((a, b), (b, a))
        ],
        signed,
        unsigned,
    )
    with pytest.raises(OverflowError):
        run_traced(lambda x: x + 300, small)


def test_signs_of_zero_survive():
    x = np.array([0.0, -0.0])
    result = run_traced(lambda x: [x * 1.0, -x, np.copysign(x, [-1.0, 1.0]), np.modf(x - 1)[0], x + 0.0], x)
    expected = [x * 1.0, -x, np.copysign(x, [-1.0, 1.0]), np.modf(x - 1)[0], x + 0.0]
    for a, e in zip(result, expected, strict=True):
        np.testing.assert_array_equal(np.signbit(a), np.signbit(e))


def test_selecting_functions():
    x = np.array([1.0, -2.0, 3.0])
    assert_as_numpy(
        lambda x: [
            np.select([x > 2, x > 0], [x, -x], default=9.0),
            np.select([x > 2, x > 0], [x.astype(np.float32), x > 1]), np.select([x > 0], [x.astype(np.float32)], 0.5),
            np.array_equal(x, x),
            np.allclose(x, x + 1e-9),
            np.isclose(x, [1, 2, 3]),
        ],
        x,
    )


def test_copyto_and_fill():
    def fun(x):
        y = np.zeros_like(x)
        np.copyto(y, x[0], where=x > 2)
        z = np.empty_like(x)
        z.fill(3)
        return y, z

    assert_as_numpy(fun, np.arange(6.0).reshape(2, 3))


def test_copyto_takes_bools_and_axes_of_one_element_in_front():
    def fun(x):
        mask, y = np.zeros_like(x, dtype=bool), np.zeros_like(x)
        np.copyto(mask, x > 1)
        np.copyto(y, x[None])
        np.copyto(y[:1], 7)
        return mask, y

    assert_as_numpy(fun, np.arange(3.0, dtype=np.float32))
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        run_traced(lambda x: np.copyto(x.copy(), 300), np.zeros(2, np.uint8))


def test_what_a_mask_leaves_out_keeps_all_digits():
    def fun(x):
        third, large = np.full_like(x, 1 / 3, dtype=np.float64), np.full_like(x, 300, dtype=np.int64)
        np.add(x, x, out=third, where=x > 1)
        np.copyto(third[:1], x[:1], where=x[:1] > 1)
        np.add((x > 1).astype(np.int8), np.int8(1), out=large, where=x > 1)
        return third, large

    assert_as_numpy(fun, np.arange(3.0, dtype=np.float32))


def test_bounds_of_clip_that_the_dtype_does_not_hold_are_none():
    x = np.array([0, 5, 255], np.uint8)
    assert_as_numpy(lambda x: [np.clip(x, -1, 7), x.clip(3, 300), np.clip(x, -1, 300), x.clip(-1, x), np.clip(x, -0.5, 300)], x)
    with pytest.raises(OverflowError, match="300 out of bounds for uint8"):
        run_traced(lambda x: np.clip(x, 300, 400), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_ufuncs_of_scipy(dtype):
    special = pytest.importorskip("scipy.special")
    x = (
        np.array([0.0, 0.25, 0.5, 1.0, 3.0, -2.0, 700.0, np.nan]).astype(dtype)
        if np.dtype(dtype).kind == "f"
        else np.arange(-2, 4, dtype=dtype)
    )
    assert_as_numpy(
        lambda x: [
            special.erf(x),
            special.expit(x),
            special.logit(x),
            special.log_expit(x),
            special.xlogy(x, x),
            special.xlogy(x, 2.0),
            special.xlog1py(x, x[::-1]),
        ],
        x,
        rtol=1e-6,
    )
    with pytest.raises(NotImplementedError, match="obl_cv has no rule"):
        run_traced(lambda x: special.obl_cv(1.0, 2.0, x), x)


def test_results_are_ndarrays_and_scalars_outside_of_a_trace():
    from adjit import numpy as anp

    total = anp.sum(np.arange(3.0, dtype=np.float32))
    assert type(total) is np.float32
    assert total == 3
    assert type(anp.exp([0.0])) is np.ndarray
    source = np.ones(3)
    copied = anp.positive(source)
    copied[0] = 5
    assert source[0] == 1
    viewed = anp.reshape(source, (3, 1))
    viewed[0] = 7
    assert source[0] == 7
    target = np.zeros(3)
    assert anp.add(source, 1, out=target) is target
    assert_same(target, source + 1)


def test_steps_of_a_loop_are_traced_by_few_calls() -> None:
    """Those of further steps: what a trace looks up once depends on what else the module holds."""
    def calls_and_ops(steps: int) -> tuple[int, int]:
        def oscillator(y: Any, a: Any, h: Any) -> Any:
            for step in range(steps):
                y[1:] = y[1:] * 0.5 + np.sin(a[0] @ y) * (step * h)
            return y

        calls = 0

        def count(frame: Any, event: str, _: Any) -> None:
            nonlocal calls
            calls += event == "call"

        sys.setprofile(count)
        try:
            trace = trace_function(oscillator, (np.ones(3), np.ones((2, 2, 3)), 0.1), {})
        finally:
            sys.setprofile(None)
        return calls, len(trace.graph.ops)

    calls_and_ops(2)        # what is looked up is known from now on
    few, many = calls_and_ops(10), calls_and_ops(60)
    assert many[0] - few[0] <= 30 * (many[1] - few[1])       # 23; more by way of the general call


def test_reductions_that_leave_out_nan_are_one_pass() -> None:
    """As NumPy's, NaN of nothing but NaN, of integers and bools too; halves were a pass each."""
    x = np.arange(120.0).reshape(40, 3)
    x[3, 1], x[:, 2] = np.nan, np.nan

    def function(x: Any) -> Any:
        return (np.fmax.reduce(x), np.fmin.reduce(x, axis=None), np.fmin.reduce(x, initial=-9.0),
                np.fmax.reduce(x, axis=(0, 1), keepdims=True), np.fmax.reduce(x.astype(np.float32)), np.fmin.reduce(x > 7),
                np.fmax.reduce((x > 7).astype(int)))

    compiled = aj.compile(function)
    for ours, theirs in zip(compiled(x), function(x), strict=True):
        np.testing.assert_array_equal(ours, theirs, strict=True)
    assert "fmax" not in compiled.ir("traced")
