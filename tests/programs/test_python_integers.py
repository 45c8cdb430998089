"""Python integers that a dtype cannot hold: they wrap around where NumPy's do, and raise an error with the line where NumPy's raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.tracing import assert_as_numpy, run_traced

import adjit as aj
from adjit.errors import AdjitError, IntegerOverflowError

DTYPES = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_where_and_select_wrap_around(dtype: str) -> None:
    x = np.array([100, 1], dtype)
    for number in (-2, 300, 2**40, -(2**63)):
        assert_as_numpy(lambda x, number=number: [np.where(x > 3, x, number), np.select([x > 3], [x], number)], x)


def test_where_wraps_in_tensors_too() -> None:
    x = aj.tensor(np.array([200, 1], np.uint8))
    assert np.where(x > 3, x, -2).numpy().tolist() == [200, 254]


def assigned(number: Any, at: Any = 0) -> Callable[[Any], Any]:
    def fun(x: Any) -> Any:
        y = x.copy()
        y[at] = number
        return y

    return fun


def added_in_place(x: Any) -> Any:
    y = x.copy()
    y += 300
    return y


RAISING: dict[str, Callable[[Any], Any]] = {
    "x + 300": lambda x: x + 300, "300 - x": lambda x: 300 - x, "x % 300": lambda x: x % 300, "maximum": lambda x: np.maximum(x, 300),
    "x & 300": lambda x: x & 300, "clip": lambda x: np.clip(x, 300, None), "full_like": lambda x: np.full_like(x, 300),
    "x[0] = 300": assigned(300), "x[0] = -300": assigned(-300), "x[0] = 300.5": assigned(300.5),
    "x[:] = [300, 1]": assigned([300, 1], slice(None)), "x[index] = 300": assigned(300, np.array([1])),
    "x += 300": added_in_place, "initial": lambda x: np.sum(x, initial=300, dtype=x.dtype),
    "where": lambda x: np.where(x > 3, x, 2**70),
}


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("name", RAISING)
def test_what_does_not_fit_raises_an_error_with_the_line(name: str, dtype: str) -> None:
    x = np.array([100, 1], dtype)
    with pytest.raises(OverflowError):
        RAISING[name](x)
    with pytest.raises(AdjitError) as caught:
        aj.compile(RAISING[name])(x)
    assert isinstance(caught.value, IntegerOverflowError)
    assert caught.value.location is not None
    assert caught.value.location.file.endswith("test_python_integers.py")
    assert ".astype" in (caught.value.hint or "")


def test_floats_are_truncated_and_wrap_where_numpy_lets_them() -> None:
    x = np.array([100, 1], np.uint8)
    assert_as_numpy(lambda x: [np.full_like(x, 30.7), np.full_like(x, 300.7), np.full_like(x, np.int64(300))], x)
    assert_as_numpy(lambda x: [assigned(np.int64(300))(x), assigned([3.7, True], slice(None))(x), assigned(30.7)(x)], x)
    with pytest.raises(ValueError, match="NaN") as caught:
        aj.compile(assigned(float("nan")))(x)
    assert isinstance(caught.value, AdjitError)


def test_outer_takes_numbers_for_arrays() -> None:
    for dtype in ("uint8", "int32", "float32"):
        x = np.array([100, 1], dtype)
        assert_as_numpy(lambda x: [np.multiply.outer(x, 300), np.add.outer(0.5, x), np.add.outer(x, x)], x)
    traced = run_traced(lambda x, rate: np.multiply.outer(x, rate), np.ones(2, np.float32), 0.5)
    assert traced.dtype == np.float64
