"""Workloads on threads with small stacks, as a process of its own: a program that is wrong here ends its process.

    python small_stacks.py 256 gmm rnn      # KiB
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optree

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "benchmarks"))

from workloads import WORKLOADS, Workload

import adjit
from adjit.runtime.fastcall.callable_type import fastcall_is_ready
from adjit.runtime.native.big_stack import ASSUMED_STACK_BYTES, has_stack


def on_thread(kib: int, work: Callable[[], Any]) -> Any:
    """Return the result of `work` on a thread with a stack of so many KiB."""
    results: list[Any] = []
    threading.stack_size(kib << 10)
    thread = threading.Thread(target=lambda: results.append(work()))
    thread.start()
    thread.join()
    threading.stack_size(0)
    return results[0]


def bits(tree: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in optree.tree_leaves(tree)]


def steps(workload: Workload, count: int) -> list[list[bytes]]:
    step = workload.runner()
    return [bits(step()) for _ in range(count)]


def executable_of(function: Any) -> Any:
    return function._cache.last.executable


def deep(need: int, work: Callable[[], Any]) -> Any:
    """Return the result of `work`, called so deep in C recursion that less than `need` of the stack is left."""
    if not has_stack(need):
        return work()
    results: list[Any] = []
    max([0], key=lambda _: results.append(deep(need, work)) or 0)
    return results[0]


def smaller(kib: int, function: Any) -> int:
    """Stack size less than the function needs, which depends on the caches of this machine; not less than compiling it needs."""
    kib = min(kib, executable_of(function).stack >> 11)
    assert kib >= 64, kib
    return kib


def check(name: str, kib: int) -> None:
    workload = WORKLOADS[name]()
    wanted = steps(workload, 6)
    kib = smaller(kib, workload.function)
    workload = WORKLOADS[name]()
    first = on_thread(kib, lambda: steps(workload, 6))       # traced and compiled there, then by the native entry
    assert first == wanted, name
    function, need = workload.function, executable_of(workload.function).stack
    assert need > kib << 10, (name, need)
    assert need >= executable_of(function).code.artifact.stack_bytes + ASSUMED_STACK_BYTES
    assert function._cache.record.hits >= 2, name
    copies = WORKLOADS[name]()
    on_thread(kib, lambda: function.profile(*copies.arguments))
    sys.setrecursionlimit(100_000)
    half = WORKLOADS[name]()
    half.function = function
    if sys.version_info[:2] != (3, 12):     # its own limit for recursion in C ends it before
        assert on_thread((need >> 10) + 256, lambda: deep(need, lambda: steps(half, 2))) == wanted[:2], name

    exact = WORKLOADS[name]()
    exact.function(*exact.arguments)
    executable_of(exact.function).stack = 0         # no check: the stack size that a program declares is enough
    again = WORKLOADS[name]()
    again.function = exact.function
    assert on_thread((need + ASSUMED_STACK_BYTES >> 10) // 4 * 4, lambda: steps(again, 1)) == wanted[:1], name


def check_exports(kib: int) -> None:
    def loss(w: Any) -> Any:
        h = np.tanh(np.outer(w, w) @ basis)
        return np.sum(np.exp(-h) @ basis.T)

    basis = np.random.default_rng(0).standard_normal((400, 400)) * 0.05
    w = np.linspace(0, 1, 400)
    function = adjit.compile(adjit.value_and_grad(loss))
    value, gradient = function(w)
    kib = smaller(kib, function)
    with tempfile.TemporaryDirectory() as folder:
        function.export(Path(folder) / "loss.adjit", w)
        loaded = adjit.load(Path(folder) / "loss.adjit")
        for _ in range(4):
            assert bits(on_thread(kib, lambda: loaded(w))) == bits((value, gradient))
    c, given = function.as_callable(w), np.zeros(400)
    doubles = [array.ctypes.data_as(c.value_and_grad.argtypes[1]) for array in (w, given)]
    assert on_thread(kib, lambda: c.value_and_grad(400, *doubles, None)) == value
    assert np.array_equal(given, gradient)


if __name__ == "__main__":
    fastcall_is_ready(type(adjit.compile(np.sin)), 1)
    size = int(sys.argv[1])
    for chosen in sys.argv[2:]:
        check_exports(size) if chosen == "exports" else check(chosen, size)
    print("all well")
