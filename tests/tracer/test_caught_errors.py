"""Exceptions that Python or NumPy raises for values, where the function catches them: the compiled function goes the same way."""

from __future__ import annotations

import contextlib
import math

import numpy as np
import pytest

import adjit as aj


def ratio(a, b):
    try:
        return a / b
    except ZeroDivisionError:
        return 99.0 * a


def several(a, b):
    try:
        rest = a % b + a // b + sum(divmod(a, b))
        rest /= b
    except (KeyError, ArithmeticError):
        rest = -a
    return rest * 2


def power(a, b):
    try:
        return a**b
    except ZeroDivisionError:
        return 1.0 * a
    except OverflowError:
        return 2.0 * b


def nested(a, b):
    def divide():
        with np.errstate(all="ignore"):
            return b / a
    try:
        try:
            a = divide()
        except KeyError:
            a = 5.0
        finally:
            b = b + 1
    except Exception as error:
        return b * len(str(error))
    return a + b


def bare(a, b):
    try:
        return 1 / (a - b)
    except:     # noqa: E722
        return a * b


def root(a, b):
    try:
        return math.sqrt(a) + math.log(b)
    except ValueError as error:
        return a * len(error.args)


def exponential(a, b):
    try:
        return math.exp(100 * a) + math.pow(a, b) + math.floor(a)
    except OverflowError:
        return b * 3
    except ValueError:
        return b * 4


def clause_in_the_loop(a, b):
    total = 0.0
    for x in (a, b, a - b):
        try:
            total += 1.0 / x
        except ZeroDivisionError:
            continue
        finally:
            total += a
    return total


def suppressed(a, b):
    result = -1.0
    with contextlib.suppress(ZeroDivisionError):
        result = b / a
    return result + b


NUMBERS = (1.0, 0.0, -2.0, 1.0, 1e300, 9.0)
FUNCTIONS = [ratio, several, power, nested, bare, root, exponential, clause_in_the_loop, suppressed]


@pytest.mark.share(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore:calls of")
@pytest.mark.parametrize("function", FUNCTIONS)
def test_caught_exceptions_of_floats_are_raised(function):
    compiled, gradient = aj.compile(function), aj.compile(aj.value_and_grad(function))
    for a in NUMBERS:
        for b in (2.0, 0.0, -1.0):
            expected = function(a, b)
            if isinstance(expected, complex):
                continue
            np.testing.assert_allclose(compiled(a, b), expected, rtol=1e-14)
            np.testing.assert_allclose(gradient(a, b)[0], expected, rtol=1e-14)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numpys_numbers_divide_as_in_numpy():
    for a, b in ((np.float64(1), np.float64(0)), (np.ones(2), np.zeros(2)), (np.float32(3), np.float32(0))):
        np.testing.assert_array_equal(aj.compile(ratio)(a, b), ratio(a, b))
    assert aj.compile(ratio)(np.float64(1), np.float64(0)) == np.inf


def inverse(a):
    try:
        return np.linalg.inv(a)
    except np.linalg.LinAlgError:
        return a + 1


def solved(a):
    try:
        return np.linalg.solve(a, a[0])
    except Exception:
        return a[0] * 2


def factor(a):
    jitter = 0.0
    while True:
        try:
            return np.linalg.cholesky(a + jitter * np.eye(len(a)))
        except np.linalg.LinAlgError:
            jitter = 10 * jitter + 0.5


@pytest.mark.parametrize("function", [inverse, solved, factor])
def test_caught_errors_of_matrices_are_raised(function):
    compiled = aj.compile(function)
    gradient = aj.compile(aj.grad(lambda a: np.sum(function(a))))
    for a in (np.array([[2.0, 1.0], [1.0, 2.0]]), np.zeros((2, 2)), np.array([[1.0, 2.0], [2.0, 1.0]]), np.ones((2, 2))):
        np.testing.assert_allclose(compiled(a), function(a), rtol=1e-12)
        assert np.isfinite(gradient(a)).all()


def test_a_division_that_nothing_catches_is_no_decision():
    compiled = aj.compile(lambda a, b: a / b + math.sqrt(a))
    assert compiled(1.0, 2.0) == 1.5
    assert compiled(1.0, 0.0) == np.inf
    assert compiled.cache_info().traces == 1


def test_in_a_loop_of_the_program_it_is_refused():
    def body(i, c):
        try:
            return c / (c - 1.0)
        except ZeroDivisionError:
            return c
    with pytest.raises(aj.errors.TraceError, match=r"aj\.cond|not known"):
        aj.compile(lambda x: aj.fori_loop(0, 3, body, x))(1.5)


def test_an_error_state_that_raises_is_refused_where_it_decides():
    def inside(a, b):
        with np.errstate(divide="raise"):
            try:
                return a / b
            except FloatingPointError:
                return a

    def around(a, b):
        try:
            with np.errstate(all="raise"):
                return a / b
        except ArithmeticError:
            return a

    def alone(a, b):
        with np.errstate(divide="raise", under="ignore"):
            return a / b

    for function in (inside, around):
        with pytest.raises(aj.errors.TraceError, match="raises no FloatingPointError") as caught:
            aj.compile(function)(np.ones(2), np.ones(2))
        assert "np.errstate" in caught.value.location.source()
    with pytest.warns(UserWarning, match="raises no FloatingPointError"):
        assert aj.compile(alone)(np.ones(2), np.zeros(2))[0] == np.inf
    with np.errstate(all="raise"):
        assert aj.compile(lambda a: 2 * a)(1.0) == 2.0


TABLE = np.array([1.0, 2.0, 4.0])


def counted_index(x):
    n = 0
    while x > 1:
        x, n = x / 2, n + 1
    try:
        return TABLE[n] * x
    except IndexError:
        return -x


def traced_index(x):
    try:
        return TABLE[np.argmax(np.array([x, 3.0])) * 3] + x
    except LookupError:
        return -x


def taken(x):
    try:
        return np.take(TABLE, [0, np.argmin(np.array([x, 3.0])) * 5]).sum()
    except IndexError:
        return -x


def written(x):
    y = np.zeros(2)
    try:
        y[np.argmax(np.array([x, 3.0])) * 2] = x
    except IndexError:
        y[0] = -x
    return y.sum()


def until_the_end(x):
    total, i = 0.0, 0
    try:
        while total < 20:
            total = total + TABLE[i] * x
            i += 1
    except IndexError:
        return -total
    return total


@pytest.mark.parametrize("function", [counted_index, traced_index, taken, written, until_the_end])
def test_caught_errors_of_indices_are_raised(function):
    compiled = aj.compile(function, backend="interpret")
    for x in (2.0, 16.0, 0.5, 2.0, 4.0, 16.0):
        assert compiled(x) == function(np.float64(x))
    with pytest.raises(IndexError):
        aj.compile(lambda x: TABLE[np.argmax(np.array([x, 3.0])) * 3])(2.0)


def whole(x):
    try:
        return [10.0, 20.0, 30.0][int(x)]
    except OverflowError:
        return -1.0
    except ValueError:
        return -2.0


def rounded(x):
    try:
        return round(x) * 2
    except (OverflowError, ValueError) as error:
        return len(str(error))


@pytest.mark.parametrize("function", [whole, rounded])
def test_numbers_that_are_no_integers_raise_where_it_is_caught(function):
    for numbers in ((1.5, math.inf, math.nan, 0.5, -math.inf), (math.inf, 1.0, math.nan, 2.0), (math.nan, 1.0, math.inf)):
        compiled = aj.compile(function)
        assert [compiled(number) for number in numbers] == [function(number) for number in numbers]
