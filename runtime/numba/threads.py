"""Thread pool for kernels: native code that releases the GIL while it runs.

Threads start at the first use, sleep in a queue when idle, and are forgotten in a forked child, which starts new ones. A call that finds
the pool busy (with another thread's kernel) runs alone, so kernels are never nested and never wait.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from queue import SimpleQueue
from typing import Any

from adjit.codegen.process.off_main_thread import start_thread

Call = tuple[Any, ...]


class ThreadPool:
    """Runner of a function on many argument tuples, in any order, on the calling thread and up to `threads - 1` others."""

    def __init__(self) -> None:
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        self._busy = threading.Lock()
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self._workers = 0

    @property
    def workers(self) -> int:
        """The number of threads that the pool has started in this process."""
        return self._workers

    def run(self, function: Callable[..., Any], calls: Sequence[Call], threads: int, owner: object = None) -> None:
        """Call `function(*arguments)` for each of `calls`. Returns when all are done.

        `owner` stays alive until then, even after an exception. An exception of a call is raised once the other calls are done.
        """
        helpers = min(threads, len(calls)) - 1
        if helpers < 1 or not self._busy.acquire(blocking=False):
            for arguments in calls:
                function(*arguments)
            return
        job = _Job(function, calls, owner)
        try:
            self._start(helpers)
            for _ in range(helpers):
                self._jobs.put(job)
            job.work()
        finally:
            try:
                job.cancel()
                job.wait()
            finally:
                self._busy.release()
        if job.error is not None:
            raise job.error

    def _start(self, count: int) -> None:
        while self._workers < count:
            start_thread(partial(_serve, self._jobs), f"adjit-{self._workers}", daemon=True)
            self._workers += 1


class _Job:
    """The remaining calls of one `run`, and the number of helpers at work on them.

    `run` does not wait for helpers that wake when no call is left: on a busy machine they may wake much later.
    """

    def __init__(self, function: Callable[..., Any], calls: Sequence[Call], owner: object):
        self.function = function
        self.left = deque(calls)
        self.owner = owner
        self.error: BaseException | None = None
        self._lock = threading.Lock()
        self._helping = 0
        self._ended: SimpleQueue[None] = SimpleQueue()

    def work(self) -> None:
        while True:
            try:
                arguments = self.left.popleft()
            except IndexError:
                return
            self.function(*arguments)

    def help(self) -> None:
        """Make calls in a thread of the pool. An exception is stored for the thread that waits."""
        with self._lock:
            if not self.left:
                return
            self._helping += 1
        try:
            self.work()
        except BaseException as error:
            self.error = error
            self.cancel()
        with self._lock:
            self._helping -= 1
        self._ended.put(None)

    def cancel(self) -> None:
        self.left.clear()

    def wait(self) -> None:
        """Wait until no helper is at work. No call may be left, so that no helper begins."""
        while True:
            with self._lock:
                if not self._helping:
                    return
            self._ended.get()


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().help()


POOL = ThreadPool()
"""Thread pool of this process."""
