"""Workloads on threads with small stacks, as a process of its own: a program that is wrong here ends its process.

    python small_stacks.py 256 gmm rnn      # KiB of the threads that compile them
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

SMALL = 64
"""KiB of the threads that run what is compiled."""


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


def check(name: str, kib: int) -> None:
    wanted = steps(WORKLOADS[name](), 6)
    workload, again, copies = (WORKLOADS[name]() for _ in range(3))
    assert on_thread(kib, lambda: steps(workload, 6)) == wanted, name       # traced and compiled there, then by the native entry
    function = again.function = workload.function
    assert function._cache.last.executable.code.artifact.arena_bytes > SMALL << 10, name
    assert function._cache.record.hits >= 2, name
    assert on_thread(SMALL, lambda: steps(again, 6)) == wanted, name
    on_thread(kib, lambda: function.profile(*copies.arguments))


def check_exports(kib: int) -> None:
    def loss(w: Any) -> Any:
        h = np.tanh(np.outer(w, w) @ basis)
        return np.sum(np.exp(-h) @ basis.T)

    basis = np.random.default_rng(0).standard_normal((400, 400)) * 0.05
    w = np.linspace(0, 1, 400)
    function = adjit.compile(adjit.value_and_grad(loss))
    value, gradient = on_thread(kib, lambda: function(w))
    with tempfile.TemporaryDirectory() as folder:
        function.export(Path(folder) / "loss.adjit", w)
        loaded = adjit.load(Path(folder) / "loss.adjit")
        for _ in range(4):
            assert bits(on_thread(SMALL, lambda: loaded(w))) == bits((value, gradient))
    c, given = function.as_callable(w), np.zeros(400)
    doubles = [array.ctypes.data_as(c.value_and_grad.argtypes[1]) for array in (w, given)]
    assert on_thread(SMALL, lambda: c.value_and_grad(400, *doubles, None)) == value
    assert np.array_equal(given, gradient)


if __name__ == "__main__":
    fastcall_is_ready(type(adjit.compile(np.sin)), 1)
    size = int(sys.argv[1])
    for chosen in sys.argv[2:]:
        check_exports(size) if chosen == "exports" else check(chosen, size)
    print("all well")
