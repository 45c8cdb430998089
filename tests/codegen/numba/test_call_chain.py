"""Rows of prepared calls from one builtin: order, arguments, lifetimes, threads."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref

import pytest

from adjit.codegen.llvm.link import load
from adjit.codegen.numba.batched_calls import ARITIES, MAX_ARGUMENTS, Builtin, available, compile_batch_runner, make_batch

pytestmark = pytest.mark.skipif(not available(), reason="another interpreter or processor")


@pytest.fixture(scope="module", params=[False, True], ids=["locked", "released"])
def builtin(request: pytest.FixtureRequest) -> Builtin:
    return Builtin(load(compile_batch_runner(request.param)))


def noting(count: int, seen: list[tuple[int, ...]]):
    """A C function of `count` int64 that notes them; and its address."""
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_int64] * count)(lambda *values: seen.append(values) or 0)
    return function, ctypes.cast(function, ctypes.c_void_p).value


@pytest.mark.parametrize("count", sorted({1, 2, 5, 7, *ARITIES, *(n - 1 for n in ARITIES), MAX_ARGUMENTS}))
def test_every_number_of_arguments_arrives(builtin: Builtin, count: int) -> None:
    seen: list[tuple[int, ...]] = []
    function, address = noting(count, seen)
    cells = [ctypes.c_int64(-(3 ** 20) * (i + 1)) for i in range(count)]
    run = make_batch(builtin, [(address, cells)], function)
    assert run() is None
    assert seen == [tuple(cell.value for cell in cells)]


def test_calls_are_made_in_turn_and_cells_are_read_anew(builtin: Builtin) -> None:
    seen: list[tuple[int, ...]] = []
    first, first_address = noting(2, seen)
    second, second_address = noting(9, seen)
    cell, pointer = ctypes.c_int64(1), ctypes.c_void_p(7)
    many = [cell, pointer, *(ctypes.c_int64(i) for i in range(7))]
    run = make_batch(builtin, [(first_address, [cell, pointer]), (second_address, many), (first_address, [pointer, cell])], (first, second))
    run()
    cell.value, pointer.value = 2, 8
    run()
    assert seen == [(1, 7), (1, 7, *range(7)), (7, 1), (2, 8), (2, 8, *range(7)), (8, 2)]


def test_no_calls(builtin: Builtin) -> None:
    assert make_batch(builtin, [], None)() is None


def test_references_are_right(builtin: Builtin) -> None:
    class Owner:
        pass

    owner = Owner()
    function, address = noting(1, [])
    before = sys.getrefcount(None)
    run = make_batch(builtin, [(address, [ctypes.c_int64(0)])], (owner, function))
    gone = weakref.ref(owner)
    del owner
    for _ in range(100_000):
        run()
    assert abs(sys.getrefcount(None) - before) < 1000
    assert gone() is not None
    del run
    gc.collect()
    assert gone() is None


def test_many_threads_make_and_run_chains(builtin: Builtin) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for i in range(50):
                seen: list[tuple[int, ...]] = []
                function, address = noting(3, seen)
                run = make_batch(builtin, [(address, [ctypes.c_int64(number), ctypes.c_int64(i), ctypes.c_int64(0)])] * 3, function)
                run()
                assert seen == [(number, i, 0)] * 3
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
