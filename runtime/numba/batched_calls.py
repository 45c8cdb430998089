"""Batching of consecutive single-threaded steps, so that Python makes one call for all of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from itertools import groupby
from typing import Any, Protocol, runtime_checkable

from adjit.codegen.numba.batched_calls import MAX_ARGUMENTS, Builtin, available, compile_batch_runner, make_batch
from adjit.runtime.caches.disk_cache import environment, obtain_code, sha256
from adjit.runtime.numba.steps import Step

MIN_GIL_RELEASE_NS = 5_000.0
"""Estimated nanoseconds from which the GIL is released: many times the cost of a release."""


@runtime_checkable
class NativeStep(Protocol):
    """A step that is machine code."""

    work: float
    """Estimated nanoseconds on one thread."""

    def serial_calls(self) -> list[tuple[int, Sequence[Any]]] | None:
        """Functions and their argument cells, for one thread to call in order; None if several threads share the work."""


def batch_steps(steps: Sequence[Step]) -> list[Step]:
    """The steps, with each run of consecutive native steps batched into one."""
    if not available():
        return list(steps)
    joined: list[Step] = []
    for native, row in groupby(steps, key=_can_batch):
        together: list[Any] = list(row)
        joined += [_batch(together)] if native else together
    return joined


def _can_batch(step: Step) -> bool:
    calls = step.serial_calls() if isinstance(step, NativeStep) else None
    return calls is not None and all(len(cells) <= MAX_ARGUMENTS for _, cells in calls)


def _batch(steps: list[NativeStep]) -> Step:
    calls = [call for step in steps for call in step.serial_calls() or ()]
    return make_batch(_builtin(sum(step.work for step in steps) >= MIN_GIL_RELEASE_NS), calls, steps)


@cache
def _builtin(release: bool) -> Builtin:
    key = sha256(json.dumps([environment(), "call_chain", release]).encode())
    return Builtin(obtain_code(key, lambda: compile_batch_runner(release))[0])
