"""Arguments that a compiled function writes to: the caller sees what NumPy would have written."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.native_calls import hot, runs_natively
from support.written_arguments import Program, random_arrays, random_program

import adjit as aj
from adjit.errors import ArgumentError, DonationError, IndexingError, TraceError

BACKENDS = ["interpret", "native"]


def same_bits(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and a.dtype == b.dtype.newbyteorder("=") and a.tobytes() == b.astype(a.dtype).tobytes()


def check(program: Program, seed: int, backend: str, calls: int) -> None:
    rng = np.random.default_rng(seed)
    function = aj.compile(program.run, backend=backend)
    arrays = random_arrays(rng, program)
    shared = len(arrays) > 1 and program.types[0] == program.types[1] and rng.random() < 0.3
    for call in range(calls):
        if call % 2:
            for array in arrays:
                array[...] = rng.integers(-4, 5, array.shape)
        else:
            arrays = random_arrays(rng, program)
        if shared:
            arrays[1] = arrays[0]
        mine = list(arrays)
        theirs = copy.deepcopy(mine)
        expected, expected_arrays = program.run(theirs)
        found, found_arrays = function(mine)
        note = f"seed {seed}, call {call}: {program.types} {program.text}"
        assert len(found) == len(expected), note
        for a, b in zip([*found, *found_arrays], [*expected, *expected_arrays], strict=True):
            assert same_bits(np.asarray(a).astype(np.asarray(a).dtype.newbyteorder("=")), b), note
        for a, b in zip(mine, theirs, strict=True):
            assert same_bits(a.astype(a.dtype.newbyteorder("=")), b), note


@pytest.mark.share(2)
@pytest.mark.parametrize("block", range(4))
def test_random_programs(block: int, exhaustive: bool) -> None:
    for seed in range(block * 60, block * 60 + (60 if exhaustive else 30)):
        check(random_program(np.random.default_rng(seed)), seed, "interpret", 3)


def test_random_programs_natively(exhaustive: bool) -> None:
    for seed in range(1000, 1030 if exhaustive else 1015):
        check(random_program(np.random.default_rng(seed)), seed, "native", 6)


def test_many_random_programs(exhaustive: bool) -> None:
    for seed in range(2000, 4000 if exhaustive else 2010):
        check(random_program(np.random.default_rng(seed)), seed, "interpret" if seed % 10 else "native", 5)


@dataclass
class Fields:
    """Arrays in a dataclass."""

    rate: np.ndarray
    total: np.ndarray


def test_arguments_in_trees() -> None:
    def step(params, fields, *, log):
        params["w"] -= fields.rate * params["layers"][0]
        params["layers"][1][:, 0] = params["w"]
        np.add(fields.total, params["w"].sum(), out=fields.total)
        log.fill(7)
        return params

    for backend in BACKENDS:
        function = aj.compile(step, backend=backend)
        for call in range(4):
            args = {"w": np.arange(3.0) + call, "layers": [np.ones(3), np.zeros((3, 2))]}, Fields(np.array(0.5), np.array(0.0))
            theirs = copy.deepcopy(args)
            log, their_log = np.zeros(2, np.int32), np.zeros(2, np.int32)
            found, expected = function(*args, log=log), step(*theirs, log=their_log)
            assert found["w"] is args[0]["w"]
            assert found["layers"][1] is args[0]["layers"][1]
            for a, b in ((found["w"], expected["w"]), (args[0]["layers"][1], theirs[0]["layers"][1]), (log, their_log),
                         (args[1].total, theirs[1].total)):
                assert same_bits(a, b)


def test_the_array_that_is_returned_is_the_callers() -> None:
    def add(x):
        x += 1
        return x, [x, x.copy()]

    function = hot(add, np.arange(3.0))
    for x in (np.arange(3.0), np.arange(6.0)[::2], np.zeros(3, ">f8"), np.zeros(())):
        for _ in range(3):
            first, (second, third) = function(x)
            assert first is x
            assert second is x
            assert third is not x
            np.testing.assert_array_equal(third, x)
    assert runs_natively(function, np.arange(3.0))
    assert not runs_natively(function, np.arange(6.0)[::2])


def test_a_scalar_is_not_written_to_and_an_array_of_no_dimension_is() -> None:
    def add(x):
        x += 1
        return x

    for function in (aj.compile(add, backend="interpret"), hot(add, np.float64(1.0)), hot(add, np.array(1.0))):
        for _ in range(3):
            number, array = np.float64(1.0), np.array(1.0)
            assert function(number) == 2.0
            assert number == 1.0
            assert function(array) is array
            assert array == 2.0
            assert function(1.0) == 2.0


def test_old_contents_that_are_returned_or_written_elsewhere() -> None:
    def swap(x, y):
        x[:], y[:] = y.copy(), x.copy()

    def one_for_two(x, y):
        x[:] = y[:] = x * y

    def old(x, y):
        before = x.copy()
        x[:] = y
        return before, before

    for fun in (swap, one_for_two, old):
        for function in (aj.compile(fun, backend="interpret"), hot(fun, np.ones(3), np.ones(3))):
            x, y = np.arange(3.0), np.arange(3.0) + 10
            theirs = x.copy(), y.copy()
            found, expected = function(x, y), fun(*theirs)
            assert same_bits(x, theirs[0])
            assert same_bits(y, theirs[1])
            for a, b in zip(found or (), expected or (), strict=True):
                assert same_bits(a, b)
        assert runs_natively(function, x, y)


def test_one_array_passed_twice_is_one_array() -> None:
    def shift(x, y, scale):
        x[1:] += y[:-1] * scale
        y[0] = 9
        return x is y, x.sum()

    for backend in BACKENDS:
        function = aj.compile(shift, backend=backend)
        for call in range(4):
            for pair in ((one := np.arange(4.0) + call, one), (one, one.copy()), (one, one[:])):
                theirs = copy.deepcopy(pair) if pair[1].base is None else (whole := pair[0].copy(), whole[:])
                found, expected = function(*pair, 2.0), shift(*theirs, 2.0)
                assert found[1] == expected[1]
                assert found[0] is (pair[1] is pair[0] or pair[1].base is pair[0])
                for mine, their in zip(pair, theirs, strict=True):
                    assert same_bits(mine, their)
        assert function.cache_info().traces == 2


def test_reads_of_one_array_passed_twice_need_no_trace_of_their_own() -> None:
    function = hot(lambda x, y: x * y, np.ones(3), np.ones(3))
    x = np.arange(3.0)
    assert runs_natively(function, x, x)
    assert function.cache_info().traces == 1


def test_arrays_that_overlap_in_part_are_refused_and_others_are_not() -> None:
    def shift(x, y):
        x += y
        return x

    def check(function: Any) -> None:
        whole = np.arange(8.0)
        with pytest.raises(ArgumentError, match="x and y share a part of their memory"):
            function(whole[:4], whole[2:6])
        with pytest.raises(ArgumentError, match="x and y share a part of their memory"):
            function(whole[:4], whole[3::-1])
        windows = np.lib.stride_tricks.sliding_window_view(whole, 5, writeable=True)[:, :1].T[0]
        np.testing.assert_array_equal(function(windows.copy(), windows), 2 * windows)
        with pytest.raises(ArgumentError, match="elements of x share memory with each other"):
            function(np.lib.stride_tricks.as_strided(whole, (4,), (0,)), whole[:4])
        np.testing.assert_array_equal(whole, np.arange(8.0))
        function(whole[::2], whole[1::2])
        np.testing.assert_array_equal(whole, [1, 1, 5, 3, 9, 5, 13, 7])

    check(aj.compile(shift, backend="interpret"))
    check(hot(shift, np.ones(4), np.ones(4)))


def test_read_only_arrays_are_refused_at_every_call() -> None:
    def add(x, y):
        y[0] = 1
        x += y
        return x

    function = hot(add, np.ones(3), np.ones(3))
    locked, other = np.ones(3), np.full(3, 2.0)
    locked.flags.writeable = False
    for _ in range(3):
        with pytest.raises(ValueError, match="assignment destination is read-only: the function writes to x"):
            function(locked, other)
        for call in (add, aj.compile(add)):     # a call that is traced leaves what Python leaves
            written = other.copy()
            with pytest.raises(ValueError, match=r"assignment destination is read-only|output array is read-only"):
                call(locked, written)
            np.testing.assert_array_equal(written, [1, 2, 2])
    np.testing.assert_array_equal(other, 2)
    np.testing.assert_array_equal(locked, 1)
    assert runs_natively(function, np.ones(3), other)


def test_failed_calls_write_nothing() -> None:
    def scatter(x, y, i):
        x += 1
        y[i] = x[0]
        x *= 2
        return x

    for function in (aj.compile(scatter, backend="interpret"), aj.compile(scatter, backend="numba"),
                     hot(scatter, np.ones(3), np.ones(4), np.array([1, 2]))):
        for x in (np.arange(3.0), np.arange(6.0)[::2]):
            for _ in range(3):
                y = np.ones(4)
                with pytest.raises(IndexingError):
                    function(x, y, np.array([1, 5]))
                np.testing.assert_array_equal(x, np.arange(x.size * (2 if x.base is not None else 1), step=2 if x.base is not None else 1))
                np.testing.assert_array_equal(y, 1)


def test_a_program_keeps_no_written_array() -> None:
    for backend in (*BACKENDS, "numba"):
        def add(x):
            x += 1

        function = aj.compile(add, backend=backend)
        for _ in range(4):
            x = np.ones(3)
            function(x)
        alive = weakref.ref(x)
        del x
        gc.collect()
        assert alive() is None


def test_donated_arguments_that_are_written_to() -> None:
    def step(w, g):
        w -= 0.5 * g
        return w, g * 2

    function = aj.compile(step, donate=("w", "g"))
    for _ in range(4):
        w, g = np.ones(3), np.arange(3.0)
        first, second = function(w, g)
        assert first is w
        assert second is g
        np.testing.assert_array_equal(w, [1, 0.5, 0])
        np.testing.assert_array_equal(g, [0, 2, 4])
    with pytest.raises(DonationError):
        function(w, w)


def test_mapped_files_are_written_to(tmp_path: Path) -> None:
    mapped = np.memmap(tmp_path / "numbers", np.float64, "w+", shape=(4,))
    function = aj.compile(lambda x: x.__setitem__(slice(1, 3), x[0] + 1.0))
    for _ in range(3):
        function(mapped)
    mapped.flush()
    np.testing.assert_array_equal(np.fromfile(tmp_path / "numbers"), [0, 1, 1, 0])


def test_threads_with_arrays_of_their_own() -> None:
    def add(x, y):
        x[::2] += y[::2]
        return x

    function = hot(add, np.zeros(1000), np.ones(1000))
    arrays = [np.zeros(1000) for _ in range(8)]

    def work(x: np.ndarray) -> None:
        for _ in range(500):
            assert function(x, np.ones(1000)) is x

    threads = [threading.Thread(target=work, args=(x,)) for x in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for x in arrays:
        np.testing.assert_array_equal(x, np.arange(1, 1001) % 2 * 500)


def test_nested_compiled_functions_write_as_numpy_does() -> None:
    inner = aj.compile(lambda x: x.__imul__(2.0))

    def outer(x, y):
        inner(x[1:])
        inner(y)
        return x + y

    function = aj.compile(outer)
    for _ in range(3):
        x, y = np.arange(3.0), np.arange(3.0)
        np.testing.assert_array_equal(function(x, y), [0, 4, 8])
        np.testing.assert_array_equal(x, [0, 2, 4])
        np.testing.assert_array_equal(y, [0, 2, 4])


def loss(x, buffer):
    """A loss that writes to both of its arguments."""
    x *= 2.0
    buffer[1:] += x[1:]
    buffer[:2][0] = 7.0
    return np.sum(buffer * x * x)


def numerical_gradient(fun: Any, x: np.ndarray, step: float = 1e-6) -> np.ndarray:
    """Central differences of a function of a vector, which may write to it."""
    basis = np.eye(x.size) * step
    return np.array([(fun(x + row) - fun(x - row)) / (2 * step) for row in basis])


def squared_gradient(buffer: np.ndarray, x: np.ndarray) -> Any:
    """The sum of the squares of the gradient of `loss`."""
    return np.sum(numerical_gradient(lambda y: loss(y, buffer.copy()), x, 1e-4) ** 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_write_to_copies_of_what_they_differentiate_by_and_to_the_other_arrays(backend: str) -> None:
    function = aj.compile(loss, backend=backend)
    for _ in range(3):
        x, buffer, theirs = np.arange(3.0) + 1, np.ones(3), np.ones(3)
        expected = loss(x.copy(), theirs)
        value, gradient = aj.value_and_grad(function)(x, buffer)
        assert value == expected
        np.testing.assert_allclose(gradient, numerical_gradient(lambda x: loss(x, np.ones(3)), x), rtol=1e-6)
        np.testing.assert_array_equal(x, [1, 2, 3])
        np.testing.assert_array_equal(buffer, theirs)
        _, pullback = aj.vjp(lambda x: loss(x, np.ones(3) * x), x)
        np.testing.assert_allclose(pullback(1.0)[0], numerical_gradient(lambda x: loss(x, np.ones(3) * x), x), rtol=1e-6)
        np.testing.assert_array_equal(x, [1, 2, 3])


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_within_a_function_write_to_its_arrays(backend: str) -> None:
    def run(x, buffer):
        view = buffer[::-1]
        first = aj.grad(lambda y: loss(y, buffer))(x)
        second = aj.grad(lambda y: np.sum(aj.grad(loss)(y, buffer) ** 2))(x)
        return view * 1.0, first, second

    function = aj.compile(run, backend=backend)
    for _ in range(3):
        x, buffer, theirs = np.arange(3.0) + 1, np.ones(3), np.ones(3)
        view, first, second = function(x, buffer)
        loss(x.copy(), theirs)
        np.testing.assert_allclose(first, numerical_gradient(lambda y: loss(y, np.ones(3)), x), rtol=1e-6)
        np.testing.assert_allclose(second, numerical_gradient(partial(squared_gradient, theirs.copy()), x, 1e-3), rtol=1e-4)
        loss(x.copy(), theirs)
        np.testing.assert_array_equal(buffer, theirs)
        np.testing.assert_array_equal(view, theirs[::-1])


def test_writes_that_would_happen_once_for_each_row_of_a_jacobian_are_refused() -> None:
    for transform in (aj.jacobian, aj.hessian):
        with pytest.raises(TraceError, match="made outside of a differentiated or control-flow function"):
            transform(loss)(np.ones(3), np.ones(3))
    buffer = np.zeros(3)
    with pytest.raises(TraceError, match="made outside of a differentiated or control-flow function"):
        aj.compile(lambda x, buffer: aj.fori_loop(0, 3, lambda i, c: (buffer.__setitem__(0, c.sum()), c)[1], x))(np.ones(3), buffer)
    np.testing.assert_array_equal(buffer, 0)


def test_a_gradient_that_fails_leaves_the_outer_arrays_of_its_trace() -> None:
    def run(x, buffer):
        def fails(y):
            buffer[0] = y.sum()
            raise KeyError

        try:
            aj.grad(fails)(x)
        except KeyError:
            buffer[1] += 1
        return buffer[::-1] * 2

    buffer = np.zeros(2)
    np.testing.assert_array_equal(aj.compile(run)(np.ones(3), buffer), [2, 0])
    np.testing.assert_array_equal(buffer, [0, 1])


def test_exports_write_to_their_arguments(tmp_path: Path) -> None:
    def add(x, y):
        x[1:] += y[1:]
        return x.sum(), x

    function = aj.compile(add)
    function.export(tmp_path / "add.adjit", np.ones(4), np.ones(4))
    loaded = aj.load(tmp_path / "add.adjit")
    for x in (np.arange(4.0), np.arange(4.0), np.arange(8.0)[::2], np.arange(4.0, dtype=">f8")):
        for _ in range(3):
            theirs = x.copy()
            total, found = loaded(x, np.ones(4))
            assert found is x
            assert total == add(theirs, np.ones(4))[0]
            np.testing.assert_array_equal(x, theirs)
    with pytest.raises(ArgumentError, match="x and y are the same array"):
        loaded(x := np.ones(8)[::2], x)
    with pytest.raises(ArgumentError, match="x is a list, not an array"):
        loaded([1.0, 2.0, 3.0, 4.0], np.ones(4))
    with pytest.raises(ValueError, match="read-only"):
        loaded(np.broadcast_to(1.0, 4), np.ones(4))
    function.export(tmp_path / "add.o", np.ones(4), np.ones(4))
    header = (tmp_path / "add.h").read_text()
    assert "x: double [4], written" in header
    assert "result.1: double [4], in the memory of input x" in header
    x = np.ones(4)
    with pytest.raises(aj.errors.ExportError, match="x and y are the same array"):
        function.export(tmp_path / "same.o", x, x)


def test_what_the_backward_half_needs_is_not_overwritten() -> None:
    buffer = np.zeros(3)

    def weigh(t, x):
        result = (t * aj.tensor(x) * aj.tensor(buffer.copy())).sum()
        x[1:] *= 2.0
        buffer[:] += 1.0
        return result

    for fun in (weigh, *(aj.compile(weigh, backend=backend) for backend in BACKENDS)):
        buffer[:] = 1.0
        for call in range(4):
            t, x = aj.ones(3, requires_grad=True), np.arange(3.0)
            result = fun(t, x)
            result.backward()
            np.testing.assert_array_equal(x, [0, 2, 4])
            np.testing.assert_array_equal(buffer, call + 2)
            assert result.item() == 3.0 * (call + 1)
            assert t.grad is not None
            assert t.grad.tolist() == [0, call + 1, 2 * (call + 1)]


@dataclass
class Body:
    place: Any
    steps: Any


def counts(held, x):
    held["n"] += 1
    return x * held["n"]


def takes_out(held, x):
    return x * held.pop("n", 1)


def empties(held, x):
    held["log"].clear()
    return x


def appends(held, x):
    held["log"].append("b")
    return x * len(held["log"])


def orders(held, x):
    held["n"] = held.pop("n")
    return x


def swaps(held, x):
    held["arrays"][0], held["arrays"][1] = held["arrays"][1], held["arrays"][0]
    return held["arrays"]


def replaces(held, x):
    held["arrays"][0] = held["arrays"][0] * 0.5
    return held


def steps(held, x):
    held["body"].place += x
    return held["body"]


def counts_steps(held, x):
    held["body"].steps += 1
    return x


CHANGES = {
    counts: r"held\['n'\]", takes_out: r"held\['n'\] is gone", empties: r"held\['log'\]\[0\] is gone", appends: r"held\['log'\]\[1\]",
    orders: "its items, or their order", swaps: r"held\['arrays'\]\[0\]", replaces: r"held\['arrays'\]\[0\]",
    steps: r"held\['body'\].place", counts_steps: r"held\['body'\].steps"}


@pytest.mark.parametrize("change", CHANGES)
def test_changes_of_containers_of_examples_are_refused(change: Any) -> None:
    """Those of compiled functions are made in the caller's containers: tests/runtime/test_written_containers.py."""
    def of(x: Any, held: Any) -> Any:
        change(held, x)
        return np.sum(x)

    arrays = [np.zeros(2), np.ones(2)]
    held = {"n": 1, "log": ["a"], "arrays": list(arrays), "body": Body(1.0, 0)}
    with pytest.raises(TraceError, match=CHANGES[change]) as caught:
        aj.vmap(change, (None, 0))(held, np.ones(2))
    assert "return the new container" in str(caught.value)
    assert "test_written_arguments.py" in str(caught.value)
    assert list(held) == ["n", "log", "arrays", "body"]
    assert (held["n"], held["log"], held["body"]) == (1, ["a"], Body(1.0, 0))
    assert all(now is then for now, then in zip(held["arrays"], arrays, strict=True))
    if change in (counts, counts_steps):
        aj.grad(of)(np.ones(2), held)
        assert held["n"] + held["body"].steps == 2


def test_copies_of_containers_that_were_passed_are_the_function_s_own() -> None:
    @aj.compile(backend="interpret")
    def f(p: Any, *rest: Any, **more: Any) -> Any:
        more["n"], p = 2, dict(p)
        p["w"], p["n"] = p["w"] * more.pop("n"), p["n"] + 1
        return p

    given = {"w": np.ones(2), "n": 1}
    for _ in range(2):
        result = f(given, m=1)
        np.testing.assert_array_equal(result["w"], [2, 2])
        assert (result["n"], given["n"], given["w"].tolist()) == (2, 1, [1, 1])
