"""Work that runs off the main thread. On the main thread, a signal handler may raise (`KeyboardInterrupt` above all) between any two
bytecodes, also between those with which llvmlite, Numba and imports take and release their locks.

    @off_main_thread
    def load(compiled): ...     # takes locks of other libraries

The main thread waits, and can be interrupted at any time. The interrupted work stops at its next `check_cancelled`, for example between two
passes; otherwise a user who presses Ctrl-C again and again would leave more and more work behind. Threads other than the main one do the
work themselves.
"""

from __future__ import annotations

import _thread  # starts a thread in one step that cannot be interrupted; `threading` takes several steps, and locks
import atexit
import contextvars
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from adjit.codegen.process.fork_safety import POLL_S, llvmlite_lock, no_fork, no_fork_for
from adjit.codegen.process.weak_registry import WeakRegistry
from adjit.ir.lazy_module import LazyModule, set_importer

if TYPE_CHECKING:
    import traceback
else:
    traceback = LazyModule("traceback")

P = ParamSpec("P")
T = TypeVar("T")

THREAD_NAME_PREFIX = "adjit compiler"
"""Prefix of the names of all threads that compile."""

SIGNAL_POLL_S = 0.05
"""Seconds between two checks for signals in a thread that waits."""


def off_main_thread(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, run on another thread if the main thread calls it. Forks wait for its end."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with no_fork():
            if is_off_main_thread():
                return function(*args, **kwargs)
            task = Task(functools.partial(function, *args, **kwargs))
            try:
                try:
                    task.begin()
                except RuntimeError:
                    task.run()
                return task.result()        # type: ignore[no-any-return]
            except BaseException:
                task.is_cancelled = True
                raise

    return call


def is_off_main_thread() -> bool:
    """True if this thread does the work itself: it is not the main thread, or it is inside a call of llvmlite."""
    if _thread.get_ident() != threading.main_thread().ident:
        return True
    lock = llvmlite_lock()
    return lock is not None and bool(lock._is_owned())


def start_thread(work: Callable[[], object], name: str = THREAD_NAME_PREFIX, daemon: bool = False) -> threading.Thread:
    """Start a thread that ends with the work. Raises `RuntimeError` if the system has no thread left.

    `threading.Thread.start` waits for the new thread with a lock that stays locked if the wait is interrupted: neither thread goes on.
    """
    thread = threading.Thread(target=work, name=name, daemon=daemon)
    begun = _thread.allocate_lock()
    begun.acquire()
    errors = []

    def begin() -> None:
        try:
            thread.start()
        except RuntimeError as error:
            errors.append(error)
        finally:
            begun.release()

    _thread.start_new_thread(begin, ())
    begun.acquire()
    if errors:
        raise errors[0]
    return thread


class Task:
    """Work for a thread of its own, which ends with the work. The creator stays within a `no_fork` context until then, or cancels the
    task."""

    def __init__(self, work: Callable[[], Any]):
        self._call = contextvars.copy_context().run, work
        self._starter = _thread.get_ident()
        self._not_done = _thread.allocate_lock()
        self._not_done.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.is_cancelled = False        # True: no thread waits for the result

    def begin(self) -> None:
        """Start the thread. Raises `RuntimeError` if the system has no thread left, or the interpreter ends."""
        _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        """Do the work. Objects that are not part of the result are freed here, not on the thread that waits."""
        me = _thread.get_ident()
        _running[me] = self
        try:
            with no_fork_for(self._starter):
                self._run_work()
        finally:
            self._not_done.release()
            _running.pop(me, None)
            release_dead()

    def is_done(self) -> bool:
        """True if the work is done."""
        return not self._not_done.locked()

    def _run_work(self) -> None:
        run, work = self._call
        del self._call
        try:
            check_cancelled()
            self._value = run(work)
        except BaseException as error:
            chained: BaseException | None = error
            while chained is not None:
                traceback.clear_frames(chained.__traceback__)
                chained = chained.__context__
            self._error = error

    def result(self) -> Any:
        """The result of the work, or its exception raised, once the work is done."""
        while not self._not_done.acquire(timeout=SIGNAL_POLL_S):      # a signal that comes just before the wait does not end the wait
            pass
        self._not_done.release()
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None      # no cycle with the traceback


_running: dict[int, Task] = {}
"""Running tasks by thread."""


class Cancelled(BaseException):
    """Raised in a worker thread whose task was cancelled."""


def check_cancelled() -> None:
    """Raise `Cancelled` if this thread runs a task whose waiting thread was interrupted."""
    task = _running.get(_thread.get_ident())
    if task is not None and task.is_cancelled:
        raise Cancelled


@atexit.register
def _finish() -> None:
    """Cancel all tasks at the end of the process, and wait for them: LLVM must not be unloaded under a running call. The wait is as long as
    the current step of each task; a further Ctrl-C does not end it."""
    if not _running:
        return
    for task in tuple(_running.values()):
        task.is_cancelled = True
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    while _running:
        time.sleep(POLL_S)


def release_off_main_thread(owner: object, item: object) -> None:
    """Keep `item` as long as `owner` lives. The last reference to `item` is dropped off the main thread, by the next thread that ends such
    work, or registers such an item."""
    _owned.add(owner, item)


_owned: WeakRegistry[object] = WeakRegistry()


def release_dead() -> None:
    """Drop the items of owners that are gone."""
    if is_off_main_thread() and not sys.is_finalizing():
        _owned.purge()


set_importer(off_main_thread(import_module))
