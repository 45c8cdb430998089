"""A small pool of threads for kernels: native code that gives up the interpreter's lock while it runs.

The threads start at the first use, sleep in a queue when idle, and are forgotten in a forked child, which starts its own.
A call that finds the pool at work (another thread's kernel) runs alone, so kernels are never nested and never wait.
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
    """Runs a function on many argument tuples, in any order, by the calling thread and up to `threads - 1` others."""

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
        """Call `function(*arguments)` for each of `calls`; back when all are done.

        `owner` is kept alive until then, whatever happens. Raises what a call raised, once the others are done.
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
    """The calls that are left of one `run`, and how many helpers are at work on them.

    A helper that wakes up when nothing is left is not waited for: on a busy machine that may be much later.
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
        """Work in a thread of the pool; an error is stored for the thread that waits."""
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
        """Back when no helper is at work; nothing may be left, so that none begins."""
        while True:
            with self._lock:
                if not self._helping:
                    return
            self._ended.get()


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        jobs.get().help()


POOL = ThreadPool()
"""The pool of this process."""
