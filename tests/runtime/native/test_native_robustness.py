"""Native programs in long-lived processes: thousands of them come and go, many threads call one, processes fork; the number of threads
changes no bit. `--exhaustive` does each for as long as a user's process might."""

from __future__ import annotations

import functools
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optree
import pytest
from support.forks import in_child
from support.project import ROOT, TESTS

import adjit as aj
from adjit.codegen.llvm.target import host_targets
from adjit.runtime.compiled import CompiledFunction

BENCHMARKS = str(ROOT / "benchmarks")
sys.path.insert(0, BENCHMARKS)

from workloads import WORKLOADS  # noqa: E402

pytestmark = [pytest.mark.skipif(not sys.platform.startswith("linux") or not host_targets(), reason="native programs are for x86-64"),
              pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork.*:DeprecationWarning")]


def resident() -> int:
    """Bytes of memory that this process has."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def make_and_drop(number: int) -> None:
    """Compile a program that no other number has, call it, and forget it."""
    rows, columns = 2 + number % 50, 3 + number // 50
    x, w = np.ones((rows, columns), np.float32), np.ones((columns, 4), np.float32)
    result = aj.compile(aj.value_and_grad(lambda w, x: (np.tanh(x @ w) * number).sum()), backend="native")(w, x)
    assert result[0] == pytest.approx(np.tanh(columns) * number * rows * 4, rel=1e-5)


def test_programs_come_and_go(monkeypatch: pytest.MonkeyPatch, exhaustive: bool) -> None:
    """Memory stays as it is once allocators have what they want: what a program leaves behind, every program does."""
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    count, grown, before = 1000 if exhaustive else 8, [], 0
    for number in range(8 * count):
        if number % count == 0:
            grown.append(resident() - before)
            before += grown[-1]
        make_and_drop(number)
    assert min(grown) < 5000 * count, grown


def work_load() -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """A compiled function with products and kernels that are split over threads, and arguments."""
    def loss(w: np.ndarray, x: np.ndarray) -> Any:
        h = np.tanh(x @ w)
        return np.sum(h * h) + np.max(h)

    generator = np.random.default_rng(0)
    arguments = (generator.normal(size=(300, 200)).astype(np.float32) * 0.05, generator.normal(size=(400, 300)).astype(np.float32))
    return aj.compile(aj.value_and_grad(loss), backend="native", threads=2), arguments


def bits(result: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in optree.tree_leaves(result)]


def test_many_threads_call_one_function(exhaustive: bool) -> None:
    function, (w, x) = work_load()
    inputs = [(w * scale, x) for scale in (1.0, 0.5, 0.25)]
    wanted = [bits(function(*arguments)) for arguments in inputs]
    end, wrong, calls = time.monotonic() + (60 if exhaustive else 1.5), [], [0] * 8

    def call(thread: int) -> None:
        while (time.monotonic() < end or not calls[thread]) and not wrong:
            which = (thread + calls[thread]) % len(inputs)
            if bits(function(*inputs[which])) != wanted[which]:
                wrong.append(which)
            calls[thread] += 1

    threads = [threading.Thread(target=call, args=(number,), daemon=True) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong
    assert min(calls) > 0


def test_a_forked_child_calls_and_compiles() -> None:
    function, arguments = work_load()
    wanted = bits(function(*arguments))

    def child() -> bool:
        return bits(function(*arguments)) == wanted and aj.compile(lambda x: np.sum(x) * 3, backend="native")(np.ones(5)) == 15

    assert in_child(child) == 0
    assert bits(function(*arguments)) == wanted


@pytest.mark.parametrize("lock", [lambda function: function._cache._lock, lambda function: function._compiling], ids=["cache", "compiling"])
def test_what_another_thread_has_locked_is_not_locked_in_a_child(lock: Callable[[Any], Any]) -> None:
    function, arguments = work_load()
    function(*arguments)
    locked, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock(function):
            locked.set()
            leave.wait(60)

    holder = threading.Thread(target=hold)
    holder.start()
    locked.wait(60)
    try:
        assert in_child(lambda: function(*arguments) is not None and function(*(array[:200, :200] for array in arguments)) is not None) == 0
    finally:
        leave.set()
        holder.join()


def test_forks_while_other_threads_call(exhaustive: bool) -> None:
    """A child gets a copy of a process whose other threads are somewhere in the middle of a call."""
    function, arguments = work_load()
    wanted = bits(function(*arguments))
    stop = threading.Event()

    def call() -> None:
        while not stop.is_set():
            function(*arguments)

    callers = [threading.Thread(target=call, daemon=True) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        for _ in range(500 if exhaustive else 8):
            assert in_child(lambda: all(bits(function(*arguments)) == wanted for _ in range(3))) == 0
    finally:
        stop.set()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()


@pytest.mark.share(2)
@pytest.mark.parametrize("name", WORKLOADS)
def test_the_number_of_threads_changes_no_bit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setenv("ADJIT_THREADS", str(threads))
        step = WORKLOADS[name](backend="native").runner()
        found.append([bits(step()) for _ in range(3)])
    assert found[0] == found[1] == found[2]


def test_memory_checked_by_python() -> None:
    """With guards around every block that Python hands out: nothing writes beyond its own, or uses what was freed."""
    script = """
import sys
sys.path.insert(0, sys.argv[1])
from workloads import WORKLOADS
for name in ("tiny", "mlp", "rnn", "logreg"):
    step = WORKLOADS[name](backend="native").runner()
    for _ in range(20):
        step()
"""
    done = subprocess.run([sys.executable, "-X", "dev", "-c", script, BENCHMARKS], capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONMALLOC": "debug"})
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.share(2)
@pytest.mark.parametrize(("function", "threads", "started"), [
    ("heavy", 1, 0), ("heavy", 2, 1), ("heavy", 4, 3), ("light", 4, 0), ("rows", 4, 3), ("few rows", 4, 0)])
def test_threads_are_started_where_there_is_work_for_them(function: str, threads: int, started: int) -> None:
    script = """
import sys, time
sys.path.insert(0, sys.argv[1])
import numpy as np
import adjit as aj
from support.compiler_threads import wait_for_compilers
from support.native_pool import workers
norms = lambda x: np.mean(np.exp(-np.sum(x * x, axis=1)))
functions = {"heavy": (lambda x: x @ x, np.ones((700, 700))), "light": (lambda x: np.tanh(x @ x).sum(), np.ones((5, 5))),
             "rows": (norms, np.ones((20_000, 50))), "few rows": (norms, np.ones((200, 50)))}
function, argument = functions[sys.argv[2]]
options = {"batch": "x"} if "rows" in sys.argv[2] else {}
compiled = aj.compile(function, backend="native", threads=int(sys.argv[3]), **options)
for _ in range(3):
    compiled(argument)
    wait_for_compilers()
end = time.monotonic() + 30
while len(workers()) < int(sys.argv[4]) and time.monotonic() < end:     # they name themselves, as soon as the system lets them run
    time.sleep(0.001)
print(len(workers()))
"""
    done = subprocess.run([sys.executable, "-c", script, TESTS, function, str(threads), str(started)],
                          capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    assert int(done.stdout) == started


def count_up(n: Any) -> Any:
    return aj.while_loop(lambda state: state[0] < n, lambda state: (state[0] + 1, np.sin(state[1])), (0, 1.0))


@pytest.mark.parametrize(("function", "argument"), [(lambda x: x @ x, np.ones((1000, 1000))), (count_up, np.array(10_000_000))],
                         ids=["product", "while_loop"])
def test_other_threads_of_python_run_meanwhile(function: Callable[..., Any], argument: np.ndarray) -> None:
    """Python itself changes threads only where one gives way, so that a program which keeps the interpreter's lock is alone."""
    compiled = aj.compile(function, backend="native", threads=1)
    compiled(np.zeros_like(argument))
    turns, end = [0], threading.Event()

    def take_turns() -> None:
        while not end.wait(0.0002):
            turns[0] += 1

    def gives_way(call: Callable[[np.ndarray], Any]) -> bool:
        """In one of some calls: where the machine is busy, the other thread may come too late to most."""
        before = turns[0]
        return any(call(argument) is not None and turns[0] > before for _ in range(50))

    other = threading.Thread(target=take_turns)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000.0)
    try:
        other.start()
        assert gives_way(functools.partial(CompiledFunction.__call__, compiled))
        assert gives_way(compiled)      # by way of the native entry
    finally:
        end.set()
        sys.setswitchinterval(interval)
        other.join()
    assert compiled._cache.record.hits > 0


def test_beside_the_threads_of_numpy() -> None:
    function, arguments = work_load()
    wanted, big = bits(function(*arguments)), np.ones((600, 600))
    for _ in range(20):
        assert np.all(big @ big == 600)
        assert bits(function(*arguments)) == wanted
