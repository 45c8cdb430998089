"""Errors in traced functions that the function's own handlers catch: NumPy's as NumPy's, refusals not at all."""

import contextlib

import numpy as np
import pytest

import adjit as aj
from adjit.errors import AdjitError, UnsupportedError

X = np.arange(3.0) + 0.5
KINDS = (IndexError, ValueError, TypeError, np.exceptions.AxisError, np.linalg.LinAlgError, RuntimeError, ArithmeticError, KeyError)


@pytest.mark.parametrize("use", [
    lambda x: x[7],
    lambda x: x[0, 0],
    lambda x: x["a"],
    lambda x: x[1.5],
    lambda x: x[np.array([True])],
    lambda x: x[..., ...],
    lambda x: x[[9]],
    lambda x: np.take(x, 9),
    lambda x: x.item(9),
    lambda x: np.delete(x, 9),
    lambda x: np.insert(x, 9, 1.0),
    lambda x: np.put(x, [9], 1.0),
    lambda x: np.add.at(x, [9], 1.0),
    lambda x: x.__setitem__(9, 1.0),
    lambda x: x.__setitem__(slice(0, 2), np.ones(3)),
    lambda x: x.sum(3),
    lambda x: np.swapaxes(x, 0, 4),
    lambda x: np.expand_dims(x, 5),
    lambda x: x + np.ones(7),
    lambda x: x @ np.ones(8),
    lambda x: x.reshape(5, 5),
    lambda x: np.concatenate([x, np.ones((2, 2))]),
    lambda x: np.linalg.inv(np.ones((2, 3)) * x[0]),
    lambda x: x & x,
    lambda x: x.astype(int) ** -1,
    lambda x: bool(x),
])
def test_handlers_catch_what_they_catch_of_numpy(use):
    def caught(x):
        numbers = []
        for kind in KINDS:
            try:
                use(x)
            except kind:
                numbers.append(1.0)
            except Exception:
                numbers.append(0.0)
        return np.array(numbers)

    expected = caught(X.copy())
    assert expected.any()
    np.testing.assert_array_equal(aj.compile(caught)(X.copy()), expected)


def test_an_index_error_goes_to_its_own_handler():
    def double(x):
        try:
            return x[4] * 2.0
        except ValueError:
            return -1.0
        except IndexError:
            return -2.0

    assert aj.compile(double)(X) == double(X) == -2.0


def _by_exception(x):
    try:
        return np.is_busday(x)
    except Exception:
        return x * 2.0


def _by_everything(x):
    try:
        return np.is_busday(x)
    except:  # noqa: E722
        return x * 2.0


def _by_builtin(x):
    try:
        return x.sum() + x.ctypes.data
    except (KeyError, NotImplementedError):
        return x * 2.0


def _by_suppress(x):
    with contextlib.suppress(Exception):
        return np.is_busday(x)
    return x * 2.0


def _in_a_caller(x):
    def inner():
        return np.is_busday(x)
    try:
        return inner()
    except Exception:
        return x * 2.0


@pytest.mark.parametrize("fun", [_by_exception, _by_everything, _by_builtin, _by_suppress, _in_a_caller])
def test_a_refusal_that_the_function_catches_is_raised_at_its_end(fun):
    compiled = aj.compile(fun)
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"has no rule(.|\n)*test_caught_refusals\.py(.|\n)*the function caught this error"):
            compiled(X)


def test_a_handler_that_names_adjits_errors_decides():
    for kind in (UnsupportedError, AdjitError):
        def double(x, kind=kind):
            try:
                return np.is_busday(x)
            except kind:
                return x * 2.0

        np.testing.assert_array_equal(aj.compile(double)(X), X * 2.0)


def test_what_adjit_itself_catches_is_no_refusal():
    def count(x):
        try:
            return np.bincount(x, minlength=9) + aj.numpy.sum(x)
        except Exception:
            return x * 2

    numbers = np.array([1, 2, 2])
    np.testing.assert_array_equal(aj.compile(count)(numbers), count(numbers))


@pytest.mark.parametrize("use", [
    lambda x: x[7], lambda x: x.__setitem__(9, 1.0), lambda x: x.sum(3), lambda x: np.expand_dims(x, 5), lambda x: x + np.ones(7),
    lambda x: x @ np.ones(8), lambda x: x.reshape(5, 5), lambda x: np.concatenate([x, np.ones((2, 2))]),
    lambda x: np.linalg.inv(np.ones((2, 3)) * x[0]), lambda x: x & x, lambda x: x.__delitem__(0), lambda x: -(x > 0)])
def test_errors_that_handlers_catch_read_as_numpys(use):
    found = []

    def described(x):
        try:
            use(x)
        except Exception as error:
            found.append((type(error).__name__, type(error).__module__, str(error), repr(error)))
        return x

    described(X.copy())
    aj.compile(described)(X.copy())
    assert found[0] == found[1]


def test_a_handler_that_names_adjits_errors_gets_adjits():
    def described(x):
        try:
            return x.reshape(7)
        except aj.errors.ShapeError as error:
            return x * len(str(error).split("\n"))

    assert aj.compile(described)(X)[0] > X[0]


@pytest.mark.parametrize("use", [
    lambda x: x.astype(np.longdouble), lambda x: np.add(x, 1, dtype=np.longdouble), lambda x: np.array(x, object)])
def test_a_dtype_that_numpy_has_is_a_refusal(use):
    def caught(x):
        try:
            return use(x)
        except Exception:
            return x

    with pytest.raises(aj.errors.DTypeError, match="the function caught this error"):
        aj.compile(caught)(X)


@pytest.mark.parametrize("use", [lambda x: x[x > 3].max(), lambda x: np.min(x[x > 3]), lambda x: x[x > 3].argmax()])
def test_an_empty_maximum_of_chosen_elements_raises_as_numpys(use):
    def caught(x):
        try:
            return use(x)
        except ValueError:
            return -7.0

    compiled, uncaught = aj.compile(caught), aj.compile(use)
    for x in (X, X + 2, X - 1, X + 1.5):
        assert compiled(x) == caught(x)
        if (x > 3).any():
            assert uncaught(x) == use(x)
        else:
            with pytest.raises(ValueError) as plain:
                use(x)
            with pytest.raises(ValueError, match=str(plain.value)):
                uncaught(x)
