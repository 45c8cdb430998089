"""adjit's side of the comparison: the workloads, their data for the peers, and what they read after the first steps."""

from __future__ import annotations

import importlib.metadata
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import optree
from tasks import LOSSES, Data, Library, Task
from workloads import WORKLOADS, Workload

from adjit.runtime import settings

ADAM_BETA1 = 0.9


def library() -> Library:
    versions = {name: importlib.metadata.version(name) for name in ("adjit", "numba", "llvmlite", "optree")}
    return Library(versions, settings.THREADS.get(), {name: _opener(make) for name, make in WORKLOADS.items()})


def _opener(make: Callable[[], Workload]) -> Callable[[Data | None], Task]:
    def open_task(_: Data | None) -> Task:
        workload = make()
        arrays = optree.tree_leaves(workload.arguments)
        initial = [array.copy() for array in arrays]
        step = workload.runner()
        readings = _readings(workload, step)

        def reset() -> None:
            for array, value in zip(arrays, initial, strict=True):      # donated arrays stay the same objects
                np.copyto(array, value)
        return Task(step, readings, lambda: workload.function.memory().arena_bytes, reset)
    return open_task


def named_leaves(tree: Any) -> dict[str, np.ndarray]:
    """Arrays by their path: `0/w` is `tree[0]["w"]`."""
    paths, leaves, _ = optree.tree_flatten_with_path(tree)
    return {"/".join(map(str, path)): np.array(leaf) for path, leaf in zip(paths, leaves, strict=True)}


def save_data(name: str, path: Path) -> None:
    """The workload's arguments by name, for the peers."""
    np.savez(path, **named_leaves(WORKLOADS[name]().arguments))


def _readings(workload: Workload, step: Callable[[], Any]) -> dict[str, np.ndarray]:
    if not workload.carried:
        value, gradients = step()
        gradients = gradients if isinstance(gradients, tuple) else (gradients,)
        return {"losses": np.array([value]), **{f"gradient {i}": gradient for i, gradient in enumerate(gradients)}}
    before = named_leaves(workload.arguments[:1])
    params, *state, value = step()
    if state:       # Adam's first mean is (1 - beta1) times the gradient
        mean = named_leaves((state[0].mean,))
        readings = {f"gradient {name}": array / (1 - ADAM_BETA1) for name, array in mean.items()}
    else:
        readings = {f"update {name}": array - before[name] for name, array in named_leaves((params,)).items()}
    return {"losses": np.array([value, *(step()[-1] for _ in range(LOSSES - 1))]), **readings}


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
