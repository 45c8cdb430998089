"""The driver through `ctypes`, on a library with the driver's functions and no device: launches run on the emulated device."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.device_runs import executable_of
from support.forks import in_child
from support.project import ROOT

import adjit as aj
from adjit.codegen.cuda.emulated import EmulatedKernel
from adjit.codegen.cuda.kernel import Kernel
from adjit.codegen.cuda.target import SM_80, SM_90
from adjit.codegen.llvm.link import CompiledObject
from adjit.errors import DonationError, IndexingError, UnsupportedError
from adjit.ir.parser import parse
from adjit.runtime.caches.disk_cache import disk_cache
from adjit.runtime.cuda import code, devices, driver
from adjit.runtime.cuda.device_array import DeviceArray
from adjit.runtime.cuda.graph import MAX_INSTANCES
from adjit.runtime.cuda.host_counters import counted
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(shutil.which("gcc") is None or not native_is_supported(), reason="needs gcc on Linux on x86-64")

_FIND_PROGRAM = code.find_program
_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_uint, ctypes.c_uint, ctypes.POINTER(ctypes.POINTER(ctypes.c_uint64)))


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("driver") / "libcuda_fake.so"
    source = ROOT / "tests" / "support" / "fake_libcuda.c"
    subprocess.run(["gcc", "-O1", "-w", "-shared", "-fPIC", "-o", str(path), str(source)], check=True)
    return path


@pytest.fixture
def card(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ctypes.CDLL]:
    """A card whose launches the emulated device runs, without checks of what a launch may touch: the library checks addresses."""
    monkeypatch.delenv("ADJIT_CUDA", raising=False)
    monkeypatch.setattr(driver, "LIBRARY", str(library))
    monkeypatch.setattr(devices, "_made", {})
    kernels: dict[bytes, Kernel] = {}
    emulated = cache(EmulatedKernel)
    load = driver.Driver._load

    def noting(self: driver.Driver, kernel: Kernel, ptx: str) -> None:
        if kernel.text:         # a program of the disk cache has none
            kernels[kernel.name.encode()] = kernel
        load(self, kernel, ptx)

    monkeypatch.setattr(driver.Driver, "_load", noting)
    monkeypatch.setattr(code, "find_program", lambda *arguments: None)      # launches need the text of kernels

    def launch(name: bytes, grid: int, threads: int, parameters: Any) -> None:
        kernel = kernels[name]
        assert threads == kernel.threads
        words = [parameters[index][0] for index in range(len(kernel.pointers) + kernel.numbers)]
        pointers, numbers = words[:len(kernel.pointers)], words[len(kernel.pointers):]
        emulated(kernel).launch(grid, [(address, 1 << 16) for address in pointers], numbers)

    callback = _CALLBACK(launch)
    made = ctypes.CDLL(str(library))
    made.fake_on_launch(callback)
    yield made
    made.fake_fault(0)
    made.fake_cards(1)
    made.fake_reuse(0)
    made.fake_version(12040)


def test_programs_run_through_the_driver(card: ctypes.CDLL) -> None:
    @aj.compile(device="cuda", donate="w")
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * aj.grad(lambda w: ((x @ w) ** 2).mean())(w), x[:, ::-1].sum(0)

    w, x = np.arange(6.0).reshape(3, 2), np.linspace(-1, 1, 12).reshape(4, 3)
    here = w - 0.1 * aj.grad(lambda w: ((x @ w) ** 2).mean())(w)
    there = aj.device_put(w)
    found, sums = step(there, x)
    assert found is there
    np.testing.assert_allclose(np.asarray(found), here, rtol=1e-12)
    np.testing.assert_allclose(aj.device_get(sums), x[:, ::-1].sum(0), atol=1e-15)
    assert float(sums.copy().block_until_ready().__array__()[0]) == pytest.approx(x[:, 2].sum())


def counts(card: ctypes.CDLL) -> list[int]:
    """Single launches, launches of graphs, nodes that got other addresses, and instances of graphs so far."""
    found = (ctypes.c_int * 4)()
    card.fake_counts(found)
    return list(found)


def test_a_call_is_one_launch_of_a_graph(card: ctypes.CDLL) -> None:
    """Whatever order of its nodes, the bits are the same; new addresses need an instance, and when there are many, an update."""
    def step(w: Any, x: Any) -> Any:
        return aj.value_and_grad(lambda w: (np.tanh(x @ w).sum(0) ** 2).sum() + (x @ w).max())(w)

    function, w = aj.compile(step, device="cuda", threads=1), aj.device_put(np.linspace(-1, 1, 6).reshape(3, 2))
    x, found, kept = aj.device_put(np.linspace(-1, 1, 12).reshape(4, 3)), set(), []
    before = counts(card)
    for seed in range(MAX_INSTANCES + 4):
        card.fake_seed(seed)
        value, gradient = function(w, x)
        kept.append((value, gradient))          # results stay alive: each call has other addresses
        found.add((np.asarray(value).tobytes(), np.asarray(gradient).tobytes()))
    single, graphs, updates, instances = (after - old for after, old in zip(counts(card), before, strict=True))
    (program,) = function.programs()
    assert len(program.executable.program.launches) > 3
    assert len(found) == 1
    assert (single, graphs, instances) == (0, MAX_INSTANCES + 4, MAX_INSTANCES + 2)      # two of calls in Python
    assert updates > 1
    assert program.runs == 2
    kept.clear()
    card.fake_reuse(1)
    before = counts(card)
    for _ in range(3):
        value, gradient = function(w, x)        # in the memory of those before
    assert counts(card)[2] - before[2] <= len(program.executable.program.launches)
    del function, program, value, gradient
    gc.collect()
    assert counts(card)[3] == 0


def looped(x: Any) -> Any:
    """Loops within loops, whose branches go both ways; rows backwards."""
    def body(carry: Any, row: Any) -> Any:
        grown = aj.while_loop(lambda c: c.sum() < row.sum() + 4, lambda c: c * 1.5 + 0.1, carry)
        return aj.cond(row.sum() > 1.5, lambda c: np.sin(c), lambda c: c - row, grown), grown * row
    last, rows = aj.scan(body, x, np.stack([x, 2 * x]), reverse=True)
    return last, rows


def test_loops_stay_on_the_card(card: ctypes.CDLL) -> None:
    """A call with loops and branches is one launch of a graph, without Python from the third on; for an older driver the host runs them."""
    x, expected = np.linspace(0.2, 1.1, 3), aj.compile(looped)(np.linspace(0.2, 1.1, 3))
    on_card, found, kept = aj.device_put(x), set(), []
    function, before = aj.compile(looped, device="cuda", threads=1), counts(card)
    for seed in range(MAX_INSTANCES + 3):
        card.fake_seed(seed)
        kept.append(function(on_card))          # other addresses each time, in the bodies of loops, too
        found.add(b"".join(np.asarray(each).tobytes() for each in kept[-1]))
        called(card)
    single, graphs, updates, _ = (after - old for after, old in zip(counts(card), before, strict=True))
    assert (single, graphs, len(found)) == (0, MAX_INSTANCES + 3, 1)
    assert updates > 1
    (program,) = function.programs()
    assert program.runs == 2
    for a, b in zip(kept[-1], expected, strict=True):
        np.testing.assert_allclose(np.asarray(a), b, rtol=1e-12)
    assert "loops and branches stay on the card" in devices.driver().describe()
    card.fake_version(12030)
    devices._made.clear()
    before, (last, rows) = counts(card), aj.compile(looped, device="cuda")(x)
    assert {np.asarray(last).tobytes() + np.asarray(rows).tobytes()} == found
    assert counts(card)[1] - before[1] > 3
    assert "the processor launches each round of a loop" in devices.driver().describe()


def called(card: ctypes.CDLL) -> list[str]:
    """The functions of the driver that were called since, in order."""
    names = ctypes.create_string_buffer(1 << 12)
    card.fake_calls(names)
    return names.value.decode().split()


def test_calls_of_a_training_step_run_no_python(card: ctypes.CDLL) -> None:
    """A call of the fast path makes the context current, gets memory for the one new result, copies numbers that are others than before and
    arrays of NumPy's, and launches the graph."""
    def step(w: Any, x: Any, rate: Any, rows: Any) -> Any:
        value, gradient = aj.value_and_grad(lambda w: (np.tanh(x @ w["a"] + w["b"]) ** 2).mean() + rows.sum())(w)
        return value, {name: w[name] - rate * gradient[name] for name in w}

    there, here = aj.compile(step, device="cuda", donate="w", threads=1), aj.compile(step)
    card.fake_reuse(1)
    x, rows = np.linspace(-1, 1, 12).reshape(4, 3), np.arange(3, dtype=np.float32)
    expected = {"a": np.linspace(-1, 1, 6).reshape(3, 2), "b": np.ones(2)}
    w, on_card = aj.device_put(expected), aj.device_put(x)
    given, value = dict(w), None
    for number, rate in enumerate((0.1, 0.1, 0.1, 0.1, 0.2, 0.2)):
        del value
        called(card)
        value, w = there(w, on_card, rate, rows)
        calls = called(card)
        wanted, expected = here(expected, x, rate, rows)
        assert all(w[name] is given[name] for name in w)
        np.testing.assert_allclose(np.asarray(value), wanted, rtol=1e-6)
        for name in w:
            np.testing.assert_allclose(np.asarray(w[name]), expected[name], rtol=1e-6)
        if number > 2:      # the first direct call makes an instance of the graph
            copies = ["cuMemcpyHtoDAsync_v2"] * (1 + (number == 4))
            assert calls == ["cuCtxSetCurrent", "cuMemAllocAsync", *copies, "cuPointerGetAttribute", "cuGraphLaunch"]
    (program,) = there.programs()
    assert (program.runs, there.cache_info().hits, w["a"]._version) == (2, 5, 6)
    used = aj.cuda.memory().used
    kept = [there(w, on_card, 0.1, rows)[0] for _ in range(3)]
    assert aj.cuda.memory().used - used == sum(each.nbytes for each in kept)
    del kept
    assert aj.cuda.memory().used == used


def test_what_a_direct_call_refuses_goes_through_python(card: ctypes.CDLL) -> None:
    def step(w: Any, x: Any) -> Any:
        return w + x, x * 2

    function, x = aj.compile(step, device="cuda", donate="w", threads=1), aj.device_put(np.arange(3.0))
    w = aj.device_put(np.zeros(3))
    for _ in range(3):
        w, doubled = function(w, x)
    (program,) = function.programs()
    assert program.runs == 2
    with pytest.raises(DonationError, match="is the same array as"):
        function(w, w)
    view = aj.tensor(np.arange(12.0).reshape(4, 3), device="cuda")[1].array     # a copy that follows its base
    assert view.is_view
    assert np.asarray(function(w, view)[1]).tolist() == [6, 8, 10]
    assert program.runs == 3
    assert np.asarray(w).tolist() == [3, 7, 11]
    assert np.asarray(function(w, np.ones(3))[1]).tolist() == [2, 2, 2]         # another signature

    def in_a_fork() -> bool:
        called(card)
        with pytest.raises(UnsupportedError, match="was used before this process was forked"):
            function(w, x)
        return not called(card)

    assert in_child(in_a_fork) == 0
    card.fake_fault(700)
    with pytest.raises(driver.CudaError, match=r"\(700\), in a kernel that .* the last program launched is step"):
        np.asarray(function(w, x)[0])
    card.fake_fault(0)
    (made,) = {type(function(w, x)[1]) for _ in range(2)}
    assert all(hasattr(doubled, name) for name in made.__slots__)       # of an array that the fast path made
    for copy_of in (copy.copy, copy.deepcopy):
        assert np.asarray(copy_of(doubled)).tolist() == np.asarray(doubled).tolist()


def test_captured_training_steps_are_direct(card: ctypes.CDLL) -> None:
    def trained(device: str) -> tuple[list[float], list[Any], Any]:
        aj.manual_seed(0)
        model = aj.nn.Sequential(aj.nn.Linear(3, 4), aj.nn.Tanh(), aj.nn.Linear(4, 1)).to(device)
        rule = aj.optim.Adam(model.parameters(), lr=0.1)
        x = aj.tensor(np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3), device=device)

        @aj.compile(threads=1)
        def train(x: Any) -> Any:
            rule.zero_grad()
            loss = ((model(x) - x[:, :1]) ** 2).mean()
            loss.backward()
            rule.step()
            return loss

        losses = []
        for number in range(6):
            if number == 4:
                rule.param_groups[0]["lr"] = 0.01
            losses.append(train(x).item())
        assert device == "cpu" or re.search(r"each call copies \d+ B to the device, of \d array", train.explain(x))       # numbers alone
        return losses, [parameter.detach().cpu().numpy() for parameter in model.parameters()], train.programs()[0]

    found, expected = trained("cuda"), trained("cpu")
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    for a, b in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    assert found[2].runs == 2


def test_the_counter_of_random_numbers_waits_for_nothing(card: ctypes.CDLL) -> None:
    """The processor knows what a program adds to a number of its own: it does not ask the card."""
    def drawn(device: str) -> list[Any]:
        aj.manual_seed(3)
        x, drop = aj.ones(8, device=device), aj.nn.Dropout(0.5)
        step, found = aj.compile(lambda x: drop(drop(x)), threads=1), []
        for _ in range(3):
            called(card)
            found.append(step(x))
            assert "cuStreamSynchronize" not in called(card)
        return [*(each.tolist() for each in found), aj.get_rng_state().tolist()]

    assert drawn("cuda") == drawn("cpu")
    graph = parse("graph @f(%n: u64[] updated, %k: u64[], %x: f64[] updated) {\n"
                  "  %0: u64[] = constant {dtype=u64, shape=(), value=18446744073709551615}\n  %1: u64[] = add %n, %0\n"
                  "  %2: u64[] = add %k, %1\n  %3: u64[] = multiply %1, %k\n  %4: f64[] = add %x, %x\n  return %2, %3, %4\n}\n")
    sums = [counted(graph, number) for number in range(3)]
    assert sums[1:] == [None, None]
    assert sums[0] is not None
    assert sums[0].of([np.array(5, np.uint64), np.array(3, np.uint64), np.zeros(())], np.dtype(np.uint64)) == 7
    assert sums[0].of([np.array(5, np.uint64), aj.device_put(np.uint64(3))], np.dtype(np.uint64)) is None




def test_loops_run_through_the_driver(card: ctypes.CDLL) -> None:
    def looped(x: Any) -> Any:
        def total(x: Any) -> Any:
            y = aj.while_loop(lambda c: c.sum() < 20, lambda c: c * 1.3 + 0.1, x)
            return aj.scan(lambda c, e: (c * e, np.sin(c)), y[0], y)[1].sum()
        return aj.grad(total)(x if x[0] > 0 else -x)

    x = np.linspace(0.5, 1, 3)
    there, here = aj.compile(looped, device="cuda"), aj.compile(looped)
    for given in (x, -x, x):
        np.testing.assert_allclose(np.asarray(there(given)), here(given), rtol=1e-12)


def test_other_libraries_get_the_memory_itself(card: ctypes.CDLL) -> None:
    array = aj.device_put(np.arange(6, dtype=np.float32).reshape(2, 3))
    interface = array.__cuda_array_interface__
    assert interface["data"] == (array.address, False)
    assert (interface["shape"], interface["typestr"], interface["strides"], interface["version"]) == ((2, 3), "<f4", None, 3)
    assert interface["stream"] == devices.driver().stream != 0
    assert aj.device_put(np.ones(0)).__cuda_array_interface__["data"] == (0, False)


def test_memory_is_freed_with_its_last_user(card: ctypes.CDLL) -> None:
    gc.collect()
    before = card.fake_live()
    array = aj.device_put(np.ones(5))
    assert isinstance(array, DeviceArray)
    assert card.fake_live() == before + 1
    del array
    gc.collect()
    assert card.fake_live() == before


def test_copies_between_cards_wait_for_both(card: ctypes.CDLL) -> None:
    card.fake_cards(2)
    x = np.arange(3.0)
    first = aj.device_put(x)
    before = len(waits(card))
    second = aj.device_put(first, "cuda:1")
    assert waits(card)[before:] == [(230, 130), (130, 230)]
    assert np.asarray(second).tolist() == x.tolist()
    function = aj.compile(squared, threads=1)
    for given in (first, second, first, second, second, first):
        assert float(function(given)) == pytest.approx(5 + np.tanh(2))
    with pytest.raises(UnsupportedError, match="y is on the device 'cuda:1'"):
        aj.compile(lambda x, y: x + y)(first, second)
    assert [program.runs for program in function.programs()] == [2, 2]
    assert aj.cuda.device_count() == 2


def test_errors_of_the_driver(card: ctypes.CDLL) -> None:
    made = devices.driver()
    assert made.name == "a card that is none"
    with pytest.raises(MemoryError, match="a card that is none is out of memory"):
        made.allocate(1 << 40)
    with pytest.raises(driver.CudaError, match=r"cuMemcpyHtoDAsync_v2: invalid argument \(1\)"):
        made.copy_in(64, np.ones(3))
    devices._made.clear()
    card.fake_cards(0)
    with pytest.raises(UnsupportedError, match="finds no card"):
        aj.compile(lambda x: x, device="cuda")


def test_memory_of_a_card(card: ctypes.CDLL) -> None:
    before = aj.cuda.memory()
    kept = aj.device_put(np.ones(500))
    now = aj.cuda.memory()
    assert (now.used - before.used, before.free - now.free, now.total) == (kept.nbytes, kept.nbytes, 1 << 30)
    assert aj.cuda.mem_get_info() == (now.free, now.total)
    aj.cuda.empty_cache()
    aj.cuda.synchronize()
    assert (aj.cuda.device_count(), aj.cuda.get_device_name(0)) == (1, "a card that is none")
    with pytest.raises(MemoryError, match=r"is out of memory: .* of 1\.07 GB are free, arrays and programs of this process take"):
        devices.driver().allocate(1 << 40)


def squared(x: Any) -> Any:
    return (x * x).sum() + np.tanh(x).max()


def test_errors_that_arrive_late_name_the_program(card: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    function, x = aj.compile(squared, device="cuda"), aj.device_put(np.ones(4))
    float(function(x))
    card.fake_fault(700)
    y = function(x)
    with pytest.raises(driver.CudaError, match=r"\(700\), in a kernel that .* the last program launched is squared") as caught:
        float(y)
    assert "ADJIT_CUDA_SYNC=1" in str(caught.value)
    card.fake_fault(0)
    monkeypatch.setenv("ADJIT_CUDA_SYNC", "1")
    function = aj.compile(squared, device="cuda", threads=1)
    for _ in range(3):
        function(x)                 # not on the fast path
    card.fake_fault(700)
    with pytest.raises(driver.CudaError, match="of squared") as caught:
        function(x)
    card.fake_fault(0)
    assert caught.value.location is not None
    assert "return (x * x).sum() + np.tanh(x).max()" in str(caught.value)


def test_profiles_have_the_times_of_events(card: ctypes.CDLL) -> None:
    function, x = aj.compile(squared, device="cuda"), aj.device_put(np.ones(4))
    text = str(function.profile(x))
    assert "250" in text or "0.25" in text
    (kernel, *_) = function.kernels(x).values()
    assert "define ptx_kernel" in kernel
    assert ".visible .entry" in kernel
    assert "40 registers a thread, 0 bytes spilled" in kernel


class Foreign:
    """An array of another library in the memory of the card, whose producer and consumer we are."""

    def __init__(self, array: Any):
        self.array, self.streams = array, list[int]()

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()

    def __dlpack__(self, *, stream: int) -> Any:
        self.streams.append(stream)
        return self.array.__dlpack__(stream=stream)


def waits(card: ctypes.CDLL) -> list[tuple[int, int]]:
    """Streams that were told to wait so far, each with that for which it waits."""
    found = (ctypes.c_int64 * 512)()
    return [(found[2 * index], found[2 * index + 1]) for index in range(card.fake_waits(found))]


@pytest.mark.parametrize("version", [None, (1, 0)])
def test_arrays_leave_by_dlpack_with_streams_that_wait(card: ctypes.CDLL, version: Any) -> None:
    array, ours = aj.compile(lambda x: x + 1, device="cuda")(np.arange(6.0).reshape(2, 3)), devices.driver().stream
    assert array.__dlpack_device__() == (2, 0)
    before = len(waits(card))
    for stream, waited in ((None, 1), (2, 2), (77, 77), (-1, None), (ours, None)):
        capsule = array.__dlpack__(stream=stream, max_version=version)
        assert ("dltensor_versioned" if version else "dltensor") in repr(capsule)
        del capsule                 # nobody took it: it is given back, and our stream waits for the consumer's
        found, before = waits(card)[before:], len(waits(card))
        assert found == ([] if waited is None else [(waited, ours), (ours, waited)])
    with pytest.raises(BufferError, match="stream 0 is ambiguous"):
        array.__dlpack__(stream=0)
    with pytest.raises(BufferError, match="copies them"):
        array.__dlpack__(dl_device=(1, 0))


def test_arrays_of_other_libraries_are_taken_without_a_copy(card: ctypes.CDLL) -> None:
    array = aj.device_put(np.arange(6, dtype=np.float32).reshape(2, 3))
    given = Foreign(array)
    double = aj.compile(lambda x: 2 * x)
    assert np.asarray(double(given)).tolist() == [[0, 2, 4], [6, 8, 10]]
    assert set(given.streams) == {devices.driver().stream}
    taken = aj.device_put([given])[0]
    tensor = aj.from_dlpack(given)
    assert (taken.address, tensor.data_ptr()) == (array.address, array.address)
    tensor.mul_(3)
    assert np.asarray(array).tolist() == [[0, 3, 6], [9, 12, 15]]
    address = array.address
    del array, given, taken
    gc.collect()
    assert tensor.data_ptr() == address         # the owner still has it
    assert tensor.tolist() == [[0, 3, 6], [9, 12, 15]]
    assert address in devices.driver().held
    del tensor
    gc.collect()
    assert address not in devices.driver().held


def test_a_loaded_program_is_not_compiled_again(card: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    aj.compile(squared, device="cuda").export(tmp_path / "f.adjit", np.ones(4), levels="sm_80")
    devices._made.clear()
    monkeypatch.setattr(driver, "obtain_ptx", lambda *arguments: pytest.fail("it is compiled"))
    loaded = aj.load(tmp_path / "f.adjit")
    assert loaded.level == "sm_80"
    assert float(loaded(np.ones(4))) == pytest.approx(4 + np.tanh(1))


def looked_up(x: Any, places: Any) -> Any:
    total = aj.scan(lambda c, e: (np.tanh(c) + x[e], None), 0.0 * x[0], places)[0]
    return total if total > 0 else x.sum() - total


def test_a_program_in_the_disk_cache_is_not_compiled_again(card: ctypes.CDLL, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither passes nor LLVM run; indices are checked, and errors name their lines, as in the process before."""
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ADJIT_CACHE_SIZE", raising=False)
    x, places = np.linspace(-1, 2, 5), np.array([3, 1, 4])

    def results() -> list[bytes]:
        found = [aj.compile(squared, device="cuda")(x), aj.compile(aj.grad(squared), device="cuda")(x)]
        function = aj.compile(looked_up, device="cuda")
        found += [function(x, places), function(-x, places)]
        with pytest.raises(IndexingError, match="index 9 is out of bounds") as caught:
            float(function(x, np.array([0, 9, 1])))
        assert "np.tanh(c) + x[e]" in str(caught.value)
        return [np.asarray(each).tobytes() for each in found]

    def never(*arguments: Any, **options: Any) -> Any:
        pytest.fail("it is compiled")

    before = results()
    texts = aj.compile(squared, device="cuda").kernels(x)
    for name, function in (("adjit.runtime.cuda.code.ptx_of", never), ("adjit.runtime.cuda.code.lower_op", never),
                           ("adjit.passes.pipeline.run_pipeline", never), ("adjit.runtime.cuda.devices._made", {}),
                           ("adjit.runtime.cuda.code.find_program", _FIND_PROGRAM)):
        monkeypatch.setattr(name, function)
    assert results() == before
    called(card)
    once = aj.compile(squared, device="cuda")
    once(aj.device_put(x))
    assert "cuMemcpyDtoHAsync_v2" not in called(card)       # the trace decides on nothing, and asks for no element
    monkeypatch.undo()
    assert once.kernels() == texts
    assert "launches on the a card that is none" in once.explain()


def test_entries_of_other_programs_and_lost_kernels_are_compiled_again(tmp_path: Path, card: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch
                                                                       ) -> None:
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.delenv("ADJIT_CACHE_SIZE", raising=False)
    graph = parse("graph @f(%x: f64[4]) {\n  %0: f64[4] = tanh %x\n  return %0\n}\n")
    made = executable_of(graph, devices.driver())
    code.keep_program("1" * 64, made.program, made.launches)
    found = _FIND_PROGRAM("1" * 64, graph, devices.driver())
    assert found is not None
    assert [launch.grid for each in found[1] for launch in each] == [launch.grid for each in made.launches for launch in each]
    other = parse("graph @f(%x: f32[4]) {\n  %0: f32[4] = tanh %x\n  return %0\n}\n")
    assert _FIND_PROGRAM("1" * 64, other, devices.driver()) is None
    monkeypatch.setattr(devices.driver(), "target", SM_80)
    assert _FIND_PROGRAM("1" * 64, graph, devices.driver()) is None         # there is no PTX for it
    monkeypatch.setattr(devices.driver(), "target", SM_90)
    disk_cache().put("2" * 64, CompiledObject(b"", "", json.dumps({"planned": "nothing", "kernels": [], "launches": []})))
    assert _FIND_PROGRAM("2" * 64, graph, devices.driver()) is None
    for path in tmp_path.iterdir():
        if b'"symbol": "adjit_' in path.read_bytes()[:400]:
            path.unlink()
    assert _FIND_PROGRAM("1" * 64, graph, devices.driver()) is None
