"""Workers of a loader: threads that read samples and make batches ahead of the program."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from adjit import random
from adjit.eager.generator import keys_from


@dataclass(frozen=True)
class WorkerInfo:
    """Worker that runs: its number `id` of `num_workers`, the seed of its random numbers, and the data set.

    >>> WorkerInfo(0, 2, 7, range(3)).num_workers
    2
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: ContextVar[WorkerInfo | None] = ContextVar("worker_info", default=None)


def get_worker_info() -> WorkerInfo | None:
    """Return the worker that calls this, or None outside of workers: an `IterableDataset` reads its part of the data by it.

    >>> get_worker_info() is None
    True
    """
    return _info.get()


class Worker:
    """Thread that runs calls one after another. Random numbers of adjit that they draw depend on the seed, not on other threads."""

    def __init__(self, info: WorkerInfo, prepare: Callable[[int], object] | None) -> None:
        self.info = info
        self._key = random.key(info.seed)
        self._drawn = 0
        self._thread = ThreadPoolExecutor(1, f"adjit-data-{info.id}", self._begin, (prepare,))

    def _begin(self, prepare: Callable[[int], object] | None) -> None:
        _info.set(self.info)
        if prepare is not None:
            with keys_from(self._next_key):
                prepare(self.info.id)

    def _next_key(self) -> Any:
        self._drawn += 1
        return random.fold_in(self._key, self._drawn)

    def submit(self, function: Callable[..., Any], *args: Any) -> Future[Any]:
        """Run a call after those before it."""
        return self._thread.submit(self._call, function, args)

    def _call(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        with keys_from(self._next_key):
            return function(*args)

    def stop(self) -> None:
        """End the thread after the call that runs."""
        self._thread.shutdown(wait=False, cancel_futures=True)
