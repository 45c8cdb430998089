"""Compiled functions as C functions of numbers: SciPy's integrators, ctypes and threads call them, with the bits of Python."""

from __future__ import annotations

import ctypes
import gc
import math
import threading
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.errors import ExportError
from adjit.ir.memory_sizes import MAX_CALL_STACK_BYTES
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")


def doubles(values: Any) -> Any:
    return (ctypes.c_double * len(values))(*values)


def pointer(array: np.ndarray) -> Any:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_double))


def peaks(x):
    return np.exp(-np.sum(x * x)) * np.cos(3.0 * x[0])


def test_integrals_are_those_of_python() -> None:
    integrate = pytest.importorskip("scipy.integrate")
    bump = aj.compile(lambda x: np.exp(-x * x) * np.sin(x + 1.0))
    c = bump.as_callable(0.5)
    assert c.signatures == {
        "evaluate": "int32_t (int64_t, const double *, double *, double *)", "value": "double (int, double *, void *)",
        "value_of_one": "double (double, void *)"}
    expected = integrate.quad(lambda x: bump(float(x)), -2.0, 3.0)
    scipy = pytest.importorskip("scipy")
    for function in (c.low_level_callable(), scipy.LowLevelCallable(c.value_of_one)):
        assert integrate.quad(function, -2.0, 3.0) == expected
    surface = aj.compile(peaks)
    expected = integrate.nquad(lambda x, y: surface(np.array([x, y])), [[0, 1], [-1, 1]], opts={"limit": 3})
    assert integrate.nquad(surface.as_callable(np.zeros(2)).low_level_callable(), [[0, 1], [-1, 1]], opts={"limit": 3}) == expected
    two = aj.compile(lambda x, y: np.exp(-x * y) + x)
    assert integrate.dblquad(two.as_callable(0.1, 0.2).low_level_callable(), 0, 1, 0, 2) == \
        integrate.dblquad(lambda x, y: two(float(x), float(y)), 0, 1, 0, 2)


def test_value_and_gradient_of_an_array() -> None:
    data = np.linspace(-1.0, 1.0, 40).reshape(8, 5)

    def objective(w):
        return np.sum(np.log1p(np.exp(data @ w)))

    function = aj.compile(aj.value_and_grad(objective))
    w = np.arange(5.0)
    value, gradient = function(w)
    c = function.as_callable()          # for the last call
    assert (c.count, "value_and_grad" in repr(c)) == (5, True)
    found = np.zeros(5)
    assert c.value_and_grad(5, pointer(w), pointer(found), None) == value
    assert np.array_equal(found, gradient)
    assert c.value_and_grad(5, pointer(w), None, None) == value
    assert c.value(5, pointer(w), None) == value
    data[:] = 0.0                       # is part of the code as it was
    assert c.value(5, pointer(w), None) == value
    evaluate, taken = c.evaluate, ctypes.c_double()
    del c, function
    gc.collect()
    assert evaluate(5, pointer(w), ctypes.byref(taken), pointer(found)) == 0
    assert taken.value == value


def test_several_numbers_and_their_gradient() -> None:
    function = aj.compile(aj.value_and_grad(lambda a, b, c: a * np.sin(b) + c ** 2, argnums=(0, 1, 2)))
    value, gradient = function(2.0, 0.5, 3.0)
    c = function.as_callable(2.0, 0.5, 3.0)
    found = np.zeros(3)
    assert c.value_and_grad(3, doubles([2.0, 0.5, 3.0]), pointer(found), None) == value
    assert np.array_equal(found, gradient)


def test_what_goes_wrong_is_nan_and_a_status() -> None:
    table = np.array([1.0, 2.0, 4.0])
    c = aj.compile(lambda x: np.sum(aj.numpy.take(table, x.astype(int)))).as_callable(np.zeros(2))
    value = ctypes.c_double(7.0)
    assert c.value(2, doubles([2.0, 1.0]), None) == 6.0
    assert math.isnan(c.value(2, doubles([2.0, 3.0]), None))
    assert math.isnan(c.value(3, doubles([2.0, 1.0, 0.0]), None))
    assert math.isnan(c.value(2, None, None))
    statuses = [c.evaluate(2, doubles([3.0, 0.0]), ctypes.byref(value), None), c.evaluate(1, doubles([3.0]), ctypes.byref(value), None),
                c.evaluate(2, doubles([1.0, 0.0]), None, None)]
    assert [c.words(status) for status in statuses] == [
        "an index is out of range", "the function takes another number of variables", "a pointer is NULL"]


def test_many_threads_with_large_working_memory() -> None:
    basis = np.random.default_rng(0).standard_normal((3, 120))

    def objective(w):
        return np.sum(np.tanh((w @ basis)[:, None] * (w @ basis)[None, :] @ np.cos(basis.T)))

    function = aj.compile(aj.value_and_grad(objective))
    points = np.random.default_rng(1).standard_normal((8, 3))
    expected = [function(point) for point in points]
    assert function._cache.last.executable.code.artifact.arena_bytes > MAX_CALL_STACK_BYTES
    c = function.as_callable()
    wrong: list[int] = []

    def work(number: int) -> None:
        found = np.zeros(3)
        for _ in range(200):
            value = c.value_and_grad(3, pointer(points[number]), pointer(found), None)
            if value != expected[number][0] or not np.array_equal(found, expected[number][1]):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_method_and_another_backend() -> None:
    class Model:
        scale = 3.0

        @aj.compile
        def energy(self, x):
            return self.scale * np.sum(x)

    assert Model().energy.as_callable(np.zeros(2)).value(2, doubles([1.0, 2.0]), None) == 9.0
    assert aj.compile(lambda x: x + 1.0, backend="interpret").as_callable(0.5).value_of_one(1.5, None) == 2.5


@pytest.mark.parametrize(("function", "args", "words"), [
    (lambda x: x * 2, (np.zeros(3),), "its result is not a float64 number"),
    (lambda x: x.sum(), (np.zeros(3, "f4"),), "not all float64"),
    (lambda x, y: x.sum() * y, (np.zeros(3), 1.0), "not all numbers"),
    (lambda x: (x.sum(), x.sum() * 2), (np.zeros(3),), "is not the gradient"),
    (lambda x: (x.sum(), 3), (np.zeros(3, int),), "not all float64"),
    (lambda: 1.0, (), "not compiled for any"),
])
def test_other_functions_are_refused(function: Any, args: tuple[Any, ...], words: str) -> None:
    with pytest.raises((ExportError, aj.errors.TraceError), match=words):
        aj.compile(function).as_callable(*args)


def test_a_function_that_overwrites_is_refused() -> None:
    function = aj.compile(lambda x: (x.sum(), x * 2), donate="x")
    with pytest.raises(ExportError, match="changes arrays"):
        function.as_callable(np.zeros(3))
