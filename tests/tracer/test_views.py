"""What NumPy gives as a view is a view in a trace: writes to it are seen in the array that it shows; and what is a copy is a copy."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.tracing import run_traced

import adjit as aj
from adjit.errors import AdjitError, TraceError

CUBE, MATRIX, VECTOR = np.arange(1.0, 25).reshape(2, 3, 4), np.arange(1.0, 17).reshape(4, 4), np.arange(1.0, 7)
STACK = np.arange(8.0).reshape(2, 2, 2)
ANY, SQUARE, FLAT, CUBES = (CUBE, MATRIX, VECTOR), (MATRIX,), (VECTOR,), (STACK,)
Function = Callable[[Any], Any]


def method(name: str, *args: Any, **kwargs: Any) -> Function:
    return lambda y: getattr(y, name)(*args, **kwargs)


def function(name: str, *args: Any, **kwargs: Any) -> Function:
    return lambda y: getattr(np, name)(y, *args, **kwargs)


def einsum(subscripts: str, **kwargs: Any) -> Function:
    return lambda y: np.einsum(subscripts, y, **kwargs)


FUNCTIONS: dict[str, tuple[Function, tuple[np.ndarray, ...]]] = {
    **{f"y.{name}": (method(name), ANY) for name in ("conj", "conjugate", "copy", "ravel", "flatten", "squeeze", "transpose", "round",
                                                     "cumsum", "__pos__", "__copy__")},
    **{f"np.{name}": (function(name), ANY) for name in (
        "conj", "positive", "ravel", "squeeze", "transpose", "atleast_1d", "atleast_2d", "atleast_3d", "copy", "flip", "sort", "round",
        "nan_to_num", "broadcast_arrays", "diff")},
    **{f"np.{name}": (function(name), (CUBE, MATRIX)) for name in ("flipud", "fliplr", "rot90", "tril", "diagonal")},
    "y.real": (lambda y: y.real, ANY), "y.T": (lambda y: y.T, ANY), "y.mT": (lambda y: y.mT, SQUARE),
    "next(iter(y))": (lambda y: next(iter(y)), ANY),
    "astype": (method("astype", float), ANY), "astype(copy=False)": (method("astype", float, copy=False), ANY),
    "astype to another": (method("astype", "float32", copy=False), ANY),
    "reshape": (method("reshape", -1), ANY), "reshape in F order": (method("reshape", -1, order="F"), ANY),
    "reshape(copy=True)": (function("reshape", -1, copy=True), ANY), "ravel in F order": (method("ravel", "F"), ANY),
    "expand_dims": (function("expand_dims", 0), ANY), "moveaxis": (function("moveaxis", 0, -1), ANY),
    "rollaxis": (function("rollaxis", -1), ANY),
    "swapaxes": (method("swapaxes", 0, -1), ANY), "roll": (function("roll", 1), ANY), "rot90 twice": (function("rot90", 2), (CUBE, MATRIX)),
    "rot90 by nothing": (function("rot90", 4), (CUBE, MATRIX)), "flip no axis": (function("flip", ()), ANY),
    "broadcast_to": (function("broadcast_to", (2, 4, 4)), SQUARE), "broadcast_to itself": (lambda y: np.broadcast_to(y, y.shape), ANY),
    "nan_to_num(copy=False)": (function("nan_to_num", copy=False), ANY),
    "split": (lambda y: np.split(y, 2)[1], ANY), "array_split": (lambda y: np.array_split(y, 2, -1)[0], ANY),
    "hsplit": (lambda y: np.hsplit(y, 2)[1], SQUARE), "vsplit": (lambda y: np.vsplit(y, 2)[1], SQUARE),
    "take": (method("take", [0], 0), ANY), "y[...]": (lambda y: y[...], ANY), "y[()]": (lambda y: y[()], ANY),
    "y[None]": (lambda y: y[None], ANY),
    "y[0]": (lambda y: y[0], ANY), "y[1:]": (lambda y: y[1:], ANY), "y[::-1]": (lambda y: y[::-1], ANY), "y[[0]]": (lambda y: y[[0]], ANY),
    "diag": (function("diag"), SQUARE), "where": (lambda y: np.where(True, y, 0.0), ANY), "clip": (function("clip", None, None), ANY),
    "y**1": (lambda y: y**1, ANY), "sum over nothing": (function("sum", axis=()), ANY), "max over nothing": (function("max", axis=()), ANY),
    "tile": (function("tile", 1), ANY), "pad": (function("pad", 0), ANY), "concatenate": (lambda y: np.concatenate([y]), ANY),
    "stack": (lambda y: np.stack([y]), ANY), "diff of order 0": (function("diff", 0), ANY),
    "select": (lambda y: np.select([y > 0], [y]), ANY),
    "maximum": (function("maximum", 0.0), ANY), "repeat": (function("repeat", 1, 0), ANY),
    "meshgrid": (lambda y: np.meshgrid(y, y)[0], FLAT), "sparse meshgrid": (lambda y: np.meshgrid(y, y, sparse=True)[1], FLAT),
    "sparse meshgrid(copy=False)": (lambda y: np.meshgrid(y, y, sparse=True, copy=False)[1], FLAT),
    "meshgrid of one(copy=False)": (lambda y: np.meshgrid(y, copy=False)[0], FLAT),
    "ii->i": (einsum("ii->i"), SQUARE), "ij->ji": (einsum("ij->ji"), SQUARE), "i->i": (einsum("i->i"), FLAT), "ji": (einsum("ji"), SQUARE),
    "ij->ji in C order": (einsum("ij->ji", order="C"), SQUARE), "ii->i with optimize": (einsum("ii->i", optimize=True), SQUARE),
    "iij->ij": (einsum("iij->ij"), CUBES), "iij->ji": (einsum("iij->ji"), CUBES), "iji->ij": (einsum("iji->ij"), CUBES),
    "iii->i": (einsum("iii->i"), CUBES), "...ii->...i": (einsum("...ii->...i"), (STACK, MATRIX)), "...->...": (einsum("...->..."), ANY),
    "iijj->ij": (einsum("iijj->ij"), (np.arange(16.0).reshape(2, 2, 2, 2),)),
    "einsum of lists": (lambda y: np.einsum(y, [0, 0], [0]), SQUARE),
    "ij->i": (einsum("ij->i"), SQUARE), "matrix_power 0": (lambda y: np.linalg.matrix_power(y, 0), SQUARE),
    "matrix_power 1": (lambda y: np.linalg.matrix_power(y, 1), SQUARE), "conj of no dimension": (method("conj"), (np.array(3.0),)),
    "... of no dimension": (lambda y: y[...], (np.array(3.0),)), "reshape of no dimension": (method("reshape", 1), (np.array(3.0),)),
}
LAYOUTS: dict[str, Function] = {
    "C": lambda x: x.copy(),
    "transposed": lambda x: x.copy().T, "every second": lambda x: np.concatenate([x, x])[::2] if x.ndim else x.copy(),
}


def outcome(view_of: Function, lay_out: Function) -> Function:
    """The array after a write to what `view_of` gives, which then shows it or not; its negative where NumPy refuses the write."""
    def run(x: Any) -> Any:
        y = lay_out(x)
        view = view_of(y)
        view = view[0] if isinstance(view, (tuple, list)) else view
        before = y + 0.0
        try:
            view[...] = 7.0
        except (ValueError, TypeError):     # it is read-only, or a scalar
            return y, -1.0 * y
        y *= 2.0
        return before, y, view

    return run


@pytest.mark.share(3)
@parametrize_within("layout", LAYOUTS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_write_is_seen_where_numpy_shows_it(name: str, layout: str) -> None:
    view_of, inputs = FUNCTIONS[name]
    for x in inputs:
        run = outcome(view_of, LAYOUTS[layout])
        for found, expected in zip(run_traced(run, x), run(x), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("copy", [True, False, None])
def test_arrays_of_adjit_numpy_are_copied_as_those_of_numpy(copy: bool | None) -> None:
    def run(array: Any, x: Any) -> Any:
        y = x * 1.0
        z = array(y, copy=copy)
        z[:] = 7.0
        return y

    np.testing.assert_array_equal(run_traced(lambda x: run(aj.numpy.array, x), VECTOR), run(np.array, VECTOR))
    for wrong in ({"dtype": np.float32}, {}):
        with pytest.raises(ValueError, match="copy") as caught:
            run_traced(lambda x, wrong=wrong: aj.numpy.array(x if wrong else [x, x], copy=False, **wrong), VECTOR)
        assert isinstance(caught.value, AdjitError)


def test_the_function_astype_has_its_arguments() -> None:
    if hasattr(np, "astype"):
        run = outcome(lambda y: np.astype(y, float, copy=False), LAYOUTS["C"])
        np.testing.assert_array_equal(run_traced(run, VECTOR)[1], run(VECTOR)[1])


def test_repeated_elements_of_a_meshgrid_are_not_written_to() -> None:
    """NumPy does, with a warning that it will not for long: each write is seen along the axis."""
    def run(x):
        np.meshgrid(x * 1.0, x, copy=False)[0][0, 0] = 1.0

    with pytest.raises(ValueError, match="read-only") as caught:
        run_traced(run, VECTOR)
    assert isinstance(caught.value, AdjitError)


@pytest.mark.parametrize("shuffle", [np.random.shuffle, np.random.default_rng(0).shuffle, np.random.RandomState(0).shuffle])
def test_shuffle_does_not_double_rows(shuffle: Any) -> None:
    class Library:
        pass

    library: Any = Library
    library.shuffle = staticmethod(shuffle)

    def run(x):
        y = x * 1.0
        library.shuffle(y)
        return y

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(TraceError, match="shuffle swaps the rows") as caught:
            aj.compile(run)(MATRIX)
        assert "aj.random.permutation" in (caught.value.hint or "")
        assert caught.value.location is not None
        assert caught.value.location.function == "run"


def test_rows_are_swapped_as_in_numpy_elsewhere() -> None:
    def shuffle(x):
        y = x * 1.0
        y[0], y[1] = y[1], y[0]     # through views: twice the same row, in NumPy as well
        y[[2, 3]] = y[[3, 2]]
        y.__setitem__(2, y[0])
        return y

    np.testing.assert_array_equal(run_traced(shuffle, MATRIX), shuffle(MATRIX))


SHAPES: dict[str, Callable[[Any, Any], Any]] = {
    "a view that was made before": lambda x, o: (v := o[1:3], set_shape(o, (2, 3)), write(o, 1, x[:3]), write(v, 0, x[5]), o, v),
    "a new array": lambda x, o: (y := x * 2, v := y[:2], set_shape(y, (3, -1)), write(y, (0, 1), x[0] ** 2), write(v, 0, 7.0), y, v),
    "there and back": lambda x, o: (set_shape(o, (3, 2)), r := o.T, write(r, 1, x[:3]), set_shape(o, 6), write(r, (0, 0), x[1]), o, r),
    "a view": lambda x, o: (write(o, slice(None), x), v := o[:4], set_shape(v, (2, 2)), write(v, (1, 1), 9.0), o, v),
    "a view with gaps": lambda x, o: (v := (x + 1)[::2], set_shape(v, (3, 1)), v),
    "smaller": lambda x, o: (write(o, 1, x[1]), o.resize((2, 2), refcheck=False), write(o, (1, 0), x[0]), o),
    "larger": lambda x, o: (y := x * 2, y.resize(8, refcheck=False), write(y, 7, x[0]), y),
    "made larger before it is written": lambda x, o: (o.resize(8, refcheck=False), write(o, 7, x[0]), o),
    "of the same size": lambda x, o: (write(o, 0, x[0]), v := o[:4], v.resize((2, 2)), write(v, 1, x[:2]), o, v),
}


def set_shape(y: Any, shape: Any) -> None:
    y.shape = shape


def write(y: Any, index: Any, new: Any) -> None:
    y[index] = new


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_arrays_get_another_shape_in_place(name: str) -> None:
    def program(x):
        return [item for item in SHAPES[name](x, np.zeros(6)) if isinstance(item, np.ndarray)]

    compiled = aj.compile(program)
    for x in (VECTOR, -VECTOR):
        for found, known in zip(compiled(x), program(x), strict=True):
            np.testing.assert_array_equal(found, known)
            assert found.shape == known.shape


@pytest.mark.filterwarnings("ignore:Setting the shape")
def test_shapes_that_others_see_stay() -> None:
    outside = np.zeros(6)

    def argument(x):
        x.shape = (2, 3)

    def written(x):
        outside[:] = x
        outside.shape = (2, 3)

    def body(x):
        y = x * 2

        def step(i, total):
            y.shape = (2, 3)
            return total + y.sum()

        return aj.fori_loop(0, 3, step, 0.0)

    for function in (argument, written, body):
        with pytest.raises(aj.errors.UnsupportedError, match=r"did not make here gets another \.shape"):
            aj.compile(function)(VECTOR.copy())
    assert outside.shape == (6,)

    def stale(x):
        y = x * 2
        view = y[2:]
        y.resize(3, refcheck=False)
        return view + 1

    with pytest.raises(TraceError, match="an array that was resized since"):
        aj.compile(stale)(VECTOR)
    for shape, error in (((4, 2), aj.errors.ShapeError), ((-1, -1), ValueError)):
        with pytest.raises(error):
            aj.compile(lambda x, shape=shape: set_shape(x * 2, shape))(VECTOR)
    with pytest.raises(AttributeError, match="Incompatible shape"):
        aj.compile(lambda x: set_shape((x * 2).reshape(2, 3).T, 6))(VECTOR)


def test_fromiter_takes_traced_numbers() -> None:
    def program(x):
        return np.sum(np.fromiter((value * value for value in x), float, len(x))) + np.fromiter([1.0, 2.0], float)[1]

    compiled = aj.compile(aj.value_and_grad(program))
    for x in (VECTOR, -VECTOR):
        value, gradient = compiled(x)
        assert value == program(x)
        np.testing.assert_array_equal(gradient, 2 * x)
    assert compiled.cache_info().traces == 1
    with pytest.raises(ValueError, match="iterator too short"):
        aj.compile(lambda x: np.fromiter(iter(x), float, 9))(VECTOR)
