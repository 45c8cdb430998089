"""Work that another thread does than the main one, where any step may be the last: what a signal handler raises, `KeyboardInterrupt` above
all, is raised there between any two steps, those among them with which llvmlite, Numba and imports take their locks and give them back.

    @off_main_thread
    def load(compiled): ...     # takes locks of others

The main thread waits, and can be interrupted at any time; what was begun stops where it says so with `check_cancelled`, between two passes,
say, for who presses Ctrl-C again and again would else leave more and more behind. Other threads do the work themselves.
"""

from __future__ import annotations

import _thread  # starts a thread in one step, which nothing interrupts, where `threading` takes several, and locks
import atexit
import contextvars
import functools
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from typing import Any, ParamSpec, TypeVar

from adjit.codegen.process.fork_safety import POLL_S, llvmlite_lock, no_fork, no_fork_for
from adjit.codegen.process.weak_registry import WeakRegistry
from adjit.ir.lazy_module import set_importer

P = ParamSpec("P")
T = TypeVar("T")

THREAD_NAME_PREFIX = "adjit compiler"
"""With which the names of all threads begin that compile."""

SIGNAL_POLL_S = 0.05
"""Seconds after which who waits looks whether a signal came."""


def off_main_thread(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, called by another thread where the main one calls it; forks wait for its end."""

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
    """Whether this thread does such work itself: another one than the main one does, and who is in the midst of a call of llvmlite's."""
    if _thread.get_ident() != threading.main_thread().ident:
        return True
    lock = llvmlite_lock()
    return lock is not None and bool(lock._is_owned())


def start_thread(work: Callable[[], object], name: str = THREAD_NAME_PREFIX, daemon: bool = False) -> threading.Thread:
    """A thread that has begun, and ends with the work. Raises `RuntimeError` where the system gives none.

    `threading.Thread.start` waits for the thread with a lock that stays locked where the waiting one is interrupted: neither goes on.
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
    """Work for a thread of its own, which ends with it; the one that makes it is within a `no_fork` block until then, or gives it up."""

    def __init__(self, work: Callable[[], Any]):
        self._call = contextvars.copy_context().run, work
        self._starter = _thread.get_ident()
        self._not_done = _thread.allocate_lock()
        self._not_done.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.is_cancelled = False        # nobody waits for it any more

    def begin(self) -> None:
        """Have the thread begin. Raises `RuntimeError` where the system has none to give, or the interpreter ends."""
        _thread.start_new_thread(self.run, ())

    def run(self) -> None:
        """Do it. What it does not give back ends here, not in the thread that waits."""
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
        """The result of the work, or its exception, once the work is done."""
        while not self._not_done.acquire(timeout=SIGNAL_POLL_S):      # a signal that comes just before it sleeps does not wake it
            pass
        self._not_done.release()
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None      # no cycle with the traceback


_running: dict[int, Task] = {}
"""By thread."""


class Cancelled(BaseException):
    """Nobody waits for what this thread does."""


def check_cancelled() -> None:
    """Raise `Cancelled` where this thread does what somebody waited for who was interrupted."""
    task = _running.get(_thread.get_ident())
    if task is not None and task.is_cancelled:
        raise Cancelled


@atexit.register
def _finish() -> None:
    """At the end of the process, wait for what was begun: LLVM does not live to see the end of its library. It takes no longer than what
    is under way, and who presses Ctrl-C once more ends nothing by it."""
    if not _running:
        return
    for task in tuple(_running.values()):
        task.is_cancelled = True
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    while _running:
        time.sleep(POLL_S)


def release_off_main_thread(owner: object, item: object) -> None:
    """Keep `item` as long as `owner` lives; another thread than the main one is the last to have it: the next that is through with such
    work, or makes such a thing."""
    _owned.add(owner, item)


_owned: WeakRegistry[object] = WeakRegistry()


def release_dead() -> None:
    """Let go of what was kept for owners that are gone."""
    if is_off_main_thread() and not sys.is_finalizing():
        _owned.purge()


set_importer(off_main_thread(import_module))
