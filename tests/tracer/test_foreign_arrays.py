"""Arrays of other libraries as arguments: pandas, xarray, PyTorch, JAX, and whatever has `__dlpack__` or `__array__`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import DTypeError, UnsupportedError

VALUES = np.arange(6.0).reshape(3, 2)


class OfDlpack:
    """An array that only DLPack gives away."""

    def __init__(self, array: np.ndarray, device: int = 1) -> None:
        self.array, self.device = array, device

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device, 0


class OfArray:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array


def of_pandas(array: np.ndarray) -> Any:
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(array, columns=["a", "b"])


def of_xarray(array: np.ndarray) -> Any:
    return pytest.importorskip("xarray", reason="xarray is not installed").DataArray(array, dims=("x", "y"))


def of_torch(array: np.ndarray) -> Any:
    return pytest.importorskip("torch", reason="torch is not installed").from_numpy(array)


def of_jax(array: np.ndarray) -> Any:
    return pytest.importorskip("jax", reason="jax is not installed").numpy.asarray(array, "float32")


@pytest.mark.parametrize("made", [OfDlpack, OfArray, of_pandas, of_xarray, of_torch, of_jax])
@pytest.mark.share(1)
def test_as_arguments(made: Callable[[np.ndarray], Any]) -> None:
    given = made(VALUES.copy())
    function = aj.compile(lambda x, w: np.sum(np.exp(-x) * w))
    for w in (2.0, 3.0):
        assert float(function(given, w)) == pytest.approx(np.sum(np.exp(-VALUES)) * w, rel=1e-6)
    assert function.cache_info().traces == 1
    assert f"given as {type(given).__module__.partition('.')[0]}.{type(given).__qualname__}" in function.explain()
    np.testing.assert_allclose(aj.grad(lambda x: np.sum(x ** 2))(given), 2 * VALUES)
    np.testing.assert_allclose(aj.vmap(lambda row: np.sum(row) ** 2)(given), np.sum(VALUES, axis=1) ** 2)
    total = aj.compile(lambda rows: aj.scan(lambda carry, row: (carry + row[0], None), np.zeros_like(rows[0, 0]), rows)[0])(given)
    assert float(total) == np.sum(VALUES[:, 0])


@pytest.mark.parametrize("made", [OfDlpack, OfArray, of_pandas, of_xarray, of_torch, of_jax])
@pytest.mark.share(1)
def test_in_closures(made: Callable[[np.ndarray], Any]) -> None:
    given = made(VALUES.copy())
    assert float(aj.compile(lambda w: np.sum(w * given))(2.0)) == 30.0
    assert float(aj.grad(lambda w: np.sum(np.exp(given * w)))(0.1)) == pytest.approx(np.sum(VALUES * np.exp(0.1 * VALUES)), rel=1e-6)
    np.testing.assert_allclose(aj.compile(lambda w: w + given)(np.ones((3, 2))), VALUES + 1)
    np.testing.assert_allclose(aj.compile(lambda w: given - w)(np.ones((3, 2))), VALUES - 1)


@pytest.mark.parametrize("form", [lambda w, given: np.sum(w * given), lambda w, given: np.sum(w * np.asarray(given))],
                         ids=["operator", "asarray"])
@pytest.mark.share(1)
def test_changes_of_closures_are_followed(form: Callable[[Any, Any], Any]) -> None:
    class Copies:
        """Each array it gives is another one, as those of frames of several kinds."""

        def __init__(self) -> None:
            self.numbers = [1.0, 2.0]

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            return np.array(self.numbers)

    def set_first(given: Any, value: float) -> None:
        given.numbers = [value, 2.0]

    cases: list[tuple[Any, Callable[[Any, float], None]]] = [(Copies(), set_first)]
    for name, make in (("pandas", lambda library: library.DataFrame({"a": [1.0], "b": [2]})),
                       ("xarray", lambda library: library.DataArray(np.array([1.0, 2.0])))):
        try:
            library = __import__(name)
        except ImportError:
            continue
        cases.append((make(library), (lambda frame, value: frame.iloc.__setitem__((0, 0), value)) if name == "pandas"
                      else (lambda array, value: array.__setitem__(0, value))))
    for given, change in cases:
        function = aj.compile(lambda w: form(w, FRAMES[0]))
        FRAMES[0] = given
        assert function(2.0) == 6.0
        assert function(3.0) == 9.0
        change(given, 10.0)
        assert function(2.0) == 24.0


FRAMES: list[Any] = [None]


def test_labels_and_columns_of_closures_are_followed() -> None:
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3.0, 5.0], "n": [1, 2]})
    FRAMES[0] = frame
    total = aj.compile(lambda w: np.sum(w * FRAMES[0]["a"].to_numpy()) + FRAMES[0]["b"].loc[0])

    def check() -> None:
        assert total(2.0) == total(2.0) == 2.0 * np.sum(frame["a"].to_numpy()) + frame["b"].loc[0]

    check()
    for change in (lambda: setattr(frame, "columns", ["b", "a", "n"]), lambda: setattr(frame, "index", [1, 0]),
                   lambda: frame.iloc.__setitem__((0, 1), 7.0), lambda: frame.__setitem__("a", [9.0, 4.0]),
                   lambda: frame.__setitem__("b", frame["n"] * 2), lambda: frame.pop("n"), lambda: frame.insert(0, "m", [1.5, 2.5])):
        change()
        check()
    series = frame["a"].copy()
    FRAMES[0] = series
    last = aj.compile(lambda w: w * FRAMES[0].loc[0])
    assert last(2.0) == 2.0 * series.loc[0]
    series.index = series.index[::-1]
    assert last(2.0) == 2.0 * series.loc[0]


def test_labels_of_xarray_in_closures_are_followed() -> None:
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    FRAMES[0] = xarray.DataArray(np.array([1.0, 2.0]), dims="x", coords={"x": [10, 20]})
    function = aj.compile(lambda w: w * float(FRAMES[0].sel(x=10)))
    assert function(2.0) == 2.0
    FRAMES[0]["x"] = [20, 10]
    assert function(2.0) == 4.0


def test_memory_is_read_at_each_call() -> None:
    values = VALUES.copy()
    given, function = OfDlpack(values), aj.compile(lambda x: np.sum(x))
    assert function(given) == 15.0
    values[0, 0] = 100.0
    assert function(given) == 115.0
    assert function(values) == 115.0            # the same program
    assert function.cache_info().traces == 1


@pytest.mark.parametrize(("given", "error", "words"), [
    (OfDlpack(VALUES, device=2), UnsupportedError, "the argument x is a .*OfDlpack in the memory of a device"),
    (OfArray(np.array(["a", 1.0], object)), DTypeError, "OfArray of Python objects"),
    (OfArray(np.array(["a", "b"])), DTypeError, "the argument x"),
    (object(), UnsupportedError, "neither an array nor a tree of arrays")])
@pytest.mark.share(1)
def test_what_is_no_array(given: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        aj.compile(lambda x: x)(given)


def test_tensors_with_gradients_of_other_libraries() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    with pytest.raises(UnsupportedError, match=r"torch.Tensor, which gives no array[\s\S]*detach"):
        aj.compile(lambda x: x * 2.0)(torch.ones(3, requires_grad=True))
