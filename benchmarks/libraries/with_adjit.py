"""adjit through its public interface: whole steps compiled, parameters and optimiser state donated; gradient problems give fresh arrays."""

from __future__ import annotations

import importlib.metadata
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import optree
from problems import Problem, named
from tasks import Library, Readings, Task, gradient_readings, training_readings
from workloads import Workload, workload

import adjit as aj
from adjit.runtime import settings


def library() -> Library:
    versions = {name: importlib.metadata.version(name) for name in ("adjit", "numba", "llvmlite", "optree")}

    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        @aj.compile
        def total(*arrays: Any) -> Any:
            return sum(arrays[1:], arrays[0] * 2)
        return lambda: total(*arrays)
    return Library(versions, settings.THREADS.get(), open_task, small_sum, {"allocations": allocations, "flushing": True})


def open_task(problem: Problem) -> Task:
    work = workload(problem)
    arrays = optree.tree_leaves(work.arguments)
    initial = [array.copy() for array in arrays]
    step = work.runner()

    def reset() -> None:
        for array, value in zip(arrays, initial, strict=True):      # donated arrays stay the same objects
            np.copyto(array, value)

    def readings() -> Readings:
        if problem.kind == "gradient":
            return gradient_readings(problem, *_gradients(work, problem))
        return training_readings(problem, reset, lambda: step()[-1], lambda: named(work.arguments[0]), lambda: _gradients(work, problem)[1])
    return Task(step, reset, readings, lambda: int(work.function.memory().arena_bytes))


def _gradients(work: Workload, problem: Problem) -> tuple[Any, dict[str, Any]]:
    value, gradients = work.gradients(*work.arguments)
    return value, named([gradients] if isinstance(gradients, np.ndarray) else gradients)


def allocations(step: Callable[[], Any], steps: int = 20) -> dict[str, int]:
    """Bytes of arrays that `steps` more steps leave behind, and the most memory, Python's objects included, that one of them takes."""
    arrays = tracemalloc.DomainFilter(True, np.lib.tracemalloc_domain)

    def live() -> int:
        return sum(trace.size for trace in tracemalloc.take_snapshot().filter_traces([arrays]).traces)

    tracemalloc.start()
    try:
        step()
        before, peak = live(), 0
        for _ in range(steps):
            tracemalloc.reset_peak()
            base = tracemalloc.get_traced_memory()[0]
            step()
            peak = max(peak, tracemalloc.get_traced_memory()[1] - base)
        return {"left": live() - before, "peak": peak}
    finally:
        tracemalloc.stop()
