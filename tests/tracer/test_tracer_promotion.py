"""NEP 50: dtypes of mixed operands, weak Python scalars, and arguments that are Python floats."""

from __future__ import annotations

import numpy as np
import pytest
from support.tracing import assert_as_numpy, checked_trace, run_traced

DTYPES = [np.bool_, np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, np.float16, np.float32, np.float64]
UFUNCS = [
    np.add,
    np.subtract,
    np.multiply,
    np.divide,
    np.power,
    np.maximum,
    np.floor_divide,
    np.remainder,
    np.less,
    np.arctan2,
    np.bitwise_or,
    np.left_shift,
    np.hypot,
]


def outcome(function, *args):
    """The dtype of the result, or that there is none we could have."""
    try:
        dtype = np.asarray(function(*args)).dtype
    except (TypeError, OverflowError) as error:
        return "OverflowError" if isinstance(error, OverflowError) else "TypeError"
    return dtype


@pytest.mark.share(5)
@pytest.mark.parametrize("ufunc", UFUNCS, ids=lambda ufunc: ufunc.__name__)
def test_table_of_dtypes(ufunc):
    for first in DTYPES:
        x = np.ones(2, first)
        for second in DTYPES:
            y = np.ones(2, second)
            assert outcome(lambda x, y: run_traced(lambda x, y: ufunc(x, y), x, y), x, y) == outcome(ufunc, x, y), (first, second)
            scalar = second(1)
            assert outcome(lambda x, scalar=scalar: run_traced(lambda x: ufunc(x, scalar), x), x) == outcome(ufunc, x, scalar), (
                first,
                scalar,
            )
        for number in (True, 1, 1.0, 300, -1):
            if number == -1 and ufunc is np.power and x.dtype.kind in "biu":
                continue  # NumPy refuses negative powers of integers when it sees the values
            for order in (lambda a, b: ufunc(a, b), lambda a, b: ufunc(b, a)):
                assert outcome(lambda x, order=order, number=number: run_traced(lambda x: order(x, number), x), x) == outcome(
                    order, x, number
                ), (first, number)


@pytest.mark.parametrize("dtype", DTYPES)
def test_other_functions_promote_alike(dtype):
    x = np.array([1, 0, 1], dtype)
    for other in DTYPES:
        y = np.array([1, 1, 0], other)
        assert_as_numpy(lambda x, y: [np.where(x, x, y), np.concatenate([x, y]), np.stack([x, y]), np.einsum("i,i->i", x, y)], x, y)
    assert_as_numpy(
        lambda x: [np.where(x, x, 1), np.concatenate([x, [1.0]]), np.cumsum(x), x.sum(), x.mean(), x.prod(), np.var(x), np.append(x, 2)], x
    )


def test_a_python_float_argument_is_weak():
    def fun(x, rate):
        assert isinstance(rate, float) or rate.weak
        return [
            x * rate,
            rate * x,
            x * (2 * rate + 1) ** 2,
            x / -rate,
            np.where(x > 0, x, rate),
            np.sin(rate),
            rate + 1,
            np.maximum(x, abs(rate)),
            rate < 2,
            np.float32(2) * rate,
        ]

    for x in (np.ones(2, np.float32), np.ones(2), np.ones(2, np.int32)):
        assert_as_numpy(fun, x, 0.5)
    trace = checked_trace(fun, np.ones(2, np.float32), 0.5)
    assert [str(value.type) for value in trace.graph.params] == ["f32[2]", "f64[]"]
    again = trace.signature.key
    assert again == checked_trace(fun, np.ones(2, np.float32), 0.7).signature.key


def test_a_python_float_can_be_updated_in_place():
    def fun(x, rate):
        rate *= 0.5
        rate -= 0.1
        return x * rate

    assert_as_numpy(fun, np.ones(2, np.float32), 0.5)


def test_a_numpy_scalar_argument_is_strong():
    assert_as_numpy(lambda x, s: [x * s, s + 1, s**2, s / 3], np.ones(2, np.float32), np.float64(0.5))
    assert_as_numpy(lambda x, s: [x * s, s + 1, s**2, s / 3], np.ones(2, np.float32), np.int16(3))


def test_integers_and_bools_are_static():
    def fun(x, axis, flag):
        assert type(axis) is int
        assert flag is True
        return x.sum(axis=axis)

    assert_as_numpy(fun, np.ones((2, 3)), 1, True)


def test_results_of_other_dtypes_are_refused_with_the_line():
    with pytest.raises(TypeError, match=r"sin of float64 is (longdouble|float128) in NumPy, which is not supported") as caught:
        run_traced(lambda x: np.sin(x, dtype=np.longdouble), np.ones(2))
    assert "np.sin(x" in str(caught.value)
    assert ".astype(np.float32)" in str(caught.value)


@pytest.mark.parametrize("dtype", [np.longdouble, np.clongdouble, "datetime64[s]", object, str])
def test_astype_to_something_unsupported(dtype):
    with pytest.raises(TypeError, match="this dtype is not supported"):
        run_traced(lambda x: x.astype(dtype), np.ones(2))
