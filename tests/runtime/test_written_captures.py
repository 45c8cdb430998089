"""Arrays of closures, globals and attributes that a compiled function writes to: they hold at every call what NumPy would have written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.native_calls import hot, wait_for_compilers
from support.written_arguments import random_arrays, random_program

import adjit as aj
from adjit.errors import ArgumentError, IndexingError, TraceError

BACKENDS = ["interpret", "native"]
BUFFER = np.zeros(4)
TAIL = BUFFER[1:]
COLUMNS = np.asfortranarray(np.zeros((2, 3)))
EVERY_OTHER = np.zeros(8)[::2]


def traced_values(x):
    BUFFER[:] = x * 2
    return BUFFER.sum()


def plain_numbers(x):
    BUFFER[:] = 1.0
    BUFFER[1] += x[0]
    return BUFFER + x


def through_views(x):
    TAIL[:] += x[1:]
    BUFFER[::2] *= 2
    return TAIL * 1.0, BUFFER


def read_through_a_view_first(x):
    y = TAIL * x[0]
    BUFFER[2] = y[0]
    return y + TAIL


def functions(x):
    np.add(x, 1, out=BUFFER)
    np.copyto(COLUMNS, x[:3])
    COLUMNS.T[1] = 7
    BUFFER.sort()
    np.copyto(EVERY_OTHER, 3.0)
    np.multiply(EVERY_OTHER, BUFFER, out=EVERY_OTHER)
    return COLUMNS * 2


def only_numbers(x):
    global EVERY_OTHER
    BUFFER.fill(2)
    COLUMNS[-1] = 5
    EVERY_OTHER += 1.0
    return x


def masks_and_indices(x):
    BUFFER[BUFFER > 1] = x[0]
    BUFFER[np.array([0, -1])] = x[:2]
    return BUFFER @ x


def read_by_python_first(x):
    scale = float(BUFFER[0])
    BUFFER[:] = x * scale + 1
    return scale


def counted_by_python(x):
    BUFFER[0] += 1
    return x * float(BUFFER[0])


ARRAYS = (BUFFER, COLUMNS, EVERY_OTHER)


@pytest.mark.parametrize("fun", [traced_values, plain_numbers, through_views, read_through_a_view_first, functions, only_numbers,
                                 masks_and_indices, read_by_python_first, counted_by_python])
@pytest.mark.parametrize("backend", BACKENDS)
def test_every_call_writes_what_numpy_writes(fun: Callable[..., Any], backend: str) -> None:
    function = aj.compile(fun, backend=backend)
    for call in range(5):
        x = np.arange(4.0) - call
        for number, array in enumerate(ARRAYS):
            array[...] = call + number
        found = function(x)
        mine = [array.copy() for array in ARRAYS]
        for number, array in enumerate(ARRAYS):
            array[...] = call + number
        expected = fun(x)
        for a, b in zip(mine, ARRAYS, strict=True):
            np.testing.assert_array_equal(a, b)
        several = isinstance(expected, tuple)
        for a, b in zip(found if several else [found], expected if several else [expected], strict=True):
            np.testing.assert_array_equal(a, b)
        if several:
            assert found[1] is BUFFER
        assert {type(array) for array in (*ARRAYS, TAIL, COLUMNS.T)} == {np.ndarray}
    traces = function.cache_info().traces
    assert traces <= 5 if fun in (read_by_python_first, counted_by_python) else traces == 1


class Model:
    """Weights that a method updates in place."""

    def __init__(self) -> None:
        self.weights = np.ones(3)
        self.layers = [np.zeros(3), {"bias": np.zeros(())}]

    def step(self, x):
        gradient = aj.grad(lambda w: np.sum((x * w) ** 2))(self.weights)
        self.weights -= 0.1 * gradient
        self.layers[0][1:] += gradient[1:]
        self.layers[1]["bias"] += gradient.sum()
        return self.weights.sum()


def test_attributes_are_updated_in_place() -> None:
    class CompiledModel(Model):
        step = aj.compile(Model.step)

    model = CompiledModel()
    weights, compiled = model.weights, CompiledModel.step
    for _ in range(2):
        model.step(np.ones(3))
    wait_for_compilers()
    for _ in range(3):
        before, layer, bias = weights.copy(), model.layers[0].copy(), float(model.layers[1]["bias"])
        x = np.arange(3.0) + 0.5
        gradient = 2 * x * x * before
        np.testing.assert_allclose(model.step(x), (before - 0.1 * gradient).sum())
        assert model.weights is weights
        np.testing.assert_allclose(weights, before - 0.1 * gradient)
        np.testing.assert_allclose(model.layers[0], layer + gradient * [0, 1, 1])
        np.testing.assert_allclose(model.layers[1]["bias"], bias + gradient.sum())
    hits = compiled._cache.record.hits
    model.step(np.arange(3.0))
    assert compiled._cache.record.hits > hits
    model.weights = np.full(3, 2.0)
    model.step(np.ones(3))
    np.testing.assert_allclose(model.weights, 1.6)
    assert compiled.cache_info().traces <= 2


def test_random_programs_on_arrays_of_a_closure(exhaustive: bool) -> None:
    for seed in range(5000, 5060 if exhaustive else 5030):
        rng = np.random.default_rng(seed)
        program = random_program(rng)
        arrays = [array.astype(array.dtype.newbyteorder("=")) for array in random_arrays(rng, program)]
        function = aj.compile(lambda program=program, arrays=arrays: program.run(arrays), static=("program",), backend="interpret")
        for _ in range(3):
            theirs = [array.copy() for array in arrays]
            expected, _ = program.run(theirs)
            found, _ = function()
            for a, b in zip([*found, *arrays], [*expected, *theirs], strict=True):
                np.testing.assert_array_equal(a, b, err_msg=f"seed {seed}: {program.types} {program.text}")


def test_failures_leave_the_arrays() -> None:
    buffer = np.zeros(3)

    def scatter(x, i):
        buffer[:] = x
        return x[i]

    for function in (aj.compile(scatter, backend="interpret"), hot(scatter, np.ones(3), np.array([0]))):
        function(np.ones(3), np.array([1]))
        for _ in range(2):
            with pytest.raises(IndexingError):
                function(np.full(3, 2.0), np.array([7]))
            np.testing.assert_array_equal(buffer, 1)

    def raises(x):
        buffer[:] = x
        raise KeyError

    with pytest.raises(KeyError):
        aj.compile(raises)(np.full(3, 3.0))
    np.testing.assert_array_equal(buffer, 3)        # as in Python
    assert type(buffer) is np.ndarray


def test_what_cannot_be_written_is_refused() -> None:
    locked, buffer = np.zeros(3), np.zeros(3)
    locked.flags.writeable = False
    for new in (lambda x: x, lambda x: 1.0):
        with pytest.raises(ValueError, match="read-only"):
            aj.compile(lambda x, new=new: locked.__setitem__(0, new(x)[0] if new(x) is x else 1.0))(np.ones(3))
    with pytest.raises(TraceError, match="is written to inside of it"):
        aj.compile(lambda x: aj.fori_loop(0, 3, lambda i, c: (buffer.__setitem__(0, c[0]), c)[1], x))(np.ones(3))
    with pytest.raises(TraceError, match="is written to inside of it"):
        aj.jacobian(lambda x: x * buffer.__setitem__(0, x[0]) if False else (buffer.__setitem__(0, x[0]), x)[1])(np.ones(3))

    def write(x):
        buffer[:] = x
        return x

    with pytest.raises(ArgumentError, match="x and buffer are the same array"):
        aj.compile(write)(buffer)
    function = aj.compile(write)
    function(np.ones(3))
    with pytest.raises(ArgumentError, match="x and buffer are the same array"):
        function(buffer)
    np.testing.assert_array_equal(buffer, 1)


def test_gradients_write_to_arrays_from_outside() -> None:
    log = np.zeros(2)

    def loss(x):
        log[0] += 1.0
        log[1] = x.sum()
        return np.sum(x * x) * log[0]

    for _ in range(3):
        log[0] = 2.0
        np.testing.assert_array_equal(aj.grad(loss)(np.array([1.0, 2.0])), [6, 12])
        np.testing.assert_array_equal(log, [3, 3])


def test_files_in_memory_are_refused(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(4,))
    with pytest.raises(TraceError, match="an array from outside is written to, which is a memmap"):
        aj.compile(lambda x: mapped.__setitem__(0, x[0]))(np.ones(3))


def test_other_threads_see_ordinary_arrays_while_a_function_is_traced() -> None:
    buffer = np.zeros(4)
    traced, done = threading.Event(), threading.Event()
    seen: list[Any] = []

    def other() -> None:
        traced.wait(10)
        buffer[3] = 5.0
        seen.extend((buffer.sum(), float(buffer[3]), (buffer[1:] + 1).tolist(), type(buffer[1:] * 2)))
        buffer[3] = 0.0
        done.set()

    def fun(x):
        buffer[0] = x[0]
        traced.set()
        done.wait(10)
        return buffer * 2

    thread = threading.Thread(target=other)
    thread.start()
    np.testing.assert_array_equal(aj.compile(fun)(np.ones(2)), [2, 0, 0, 0])
    thread.join()
    assert seen == [5.0, 5.0, [1.0, 1.0, 6.0], np.ndarray]
    np.testing.assert_array_equal(buffer, [1, 0, 0, 0])
