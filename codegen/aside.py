"""Work that another thread does than the main one, where any step may be the last: what a signal handler raises, `KeyboardInterrupt` above
all, is raised there between any two steps, those among them with which llvmlite, Numba and imports take their locks and give them back.

    @aside
    def load(compiled): ...     # takes locks of others

The main thread waits, and can be interrupted at any time; what was begun stops where it says so with `go_on`, between two passes, say, for
who presses Ctrl-C again and again would else leave more and more behind. Other threads do the work themselves.
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

from adjit.codegen.endings import Kept
from adjit.codegen.forks import MOMENT, llvmlite_lock, no_fork, no_fork_for
from adjit.ir.lazy_module import set_importer

P = ParamSpec("P")
T = TypeVar("T")

NAME = "adjit compiler"
"""With which the names of all threads begin that compile."""

GLANCE = 0.05
"""Seconds after which who waits looks whether a signal came."""


def aside(function: Callable[P, T]) -> Callable[P, T]:
    """`function`, called by another thread where the main one calls it; forks wait for its end."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        with no_fork():
            if is_aside():
                return function(*args, **kwargs)
            task = Task(functools.partial(function, *args, **kwargs))
            try:
                try:
                    task.begin()
                except RuntimeError:
                    task.do()
                return task.result()        # type: ignore[no-any-return]
            except BaseException:
                task.is_given_up = True
                raise

    return call


def is_aside() -> bool:
    """Whether this thread does such work itself: another one than the main one does, and who is in the midst of a call of llvmlite's."""
    if _thread.get_ident() != threading.main_thread().ident:
        return True
    lock = llvmlite_lock()
    return lock is not None and bool(lock._is_owned())


def start(work: Callable[[], object], name: str = NAME, daemon: bool = False) -> threading.Thread:
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
        self._under_way = _thread.allocate_lock()
        self._under_way.acquire()
        self._value: Any = None
        self._error: BaseException | None = None
        self.is_given_up = False        # nobody waits for it any more

    def begin(self) -> None:
        """Have the thread begin. Raises `RuntimeError` where the system has none to give, or the interpreter ends."""
        _thread.start_new_thread(self.do, ())

    def do(self) -> None:
        """Do it. What it does not give back ends here, not in the thread that waits."""
        me = _thread.get_ident()
        _at_work[me] = self
        try:
            with no_fork_for(self._starter):
                self._work()
        finally:
            self._under_way.release()
            _at_work.pop(me, None)
            bury()

    def is_over(self) -> bool:
        """Whether it is done."""
        return not self._under_way.locked()

    def _work(self) -> None:
        run, work = self._call
        del self._call
        try:
            go_on()
            self._value = run(work)
        except BaseException as error:
            met: BaseException | None = error
            while met is not None:
                traceback.clear_frames(met.__traceback__)
                met = met.__context__
            self._error = error

    def result(self) -> Any:
        """What the work gives, or raises, once it is done."""
        while not self._under_way.acquire(timeout=GLANCE):      # a signal that comes just before it sleeps does not wake it
            pass
        self._under_way.release()
        if self._error is None:
            return self._value
        try:
            raise self._error
        finally:
            self._error = None      # no cycle with the traceback


_at_work: dict[int, Task] = {}
"""By thread."""


class GivenUp(BaseException):
    """Nobody waits for what this thread does."""


def go_on() -> None:
    """Raise `GivenUp` where this thread does what somebody waited for who was interrupted."""
    task = _at_work.get(_thread.get_ident())
    if task is not None and task.is_given_up:
        raise GivenUp


@atexit.register
def _finish() -> None:
    """At the end of the process, wait for what was begun: LLVM does not live to see the end of its library. It takes no longer than what
    is under way, and who presses Ctrl-C once more ends nothing by it."""
    if not _at_work:
        return
    for task in tuple(_at_work.values()):
        task.is_given_up = True
    with suppress(ValueError):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    while _at_work:
        time.sleep(MOMENT)


def let_go_aside(owner: object, thing: object) -> None:
    """Keep `thing` as long as `owner` lives; another thread than the main one is the last to have it: the next that is through with such
    work, or makes such a thing."""
    _kept.keep(owner, thing)


_kept: Kept[object] = Kept()


def bury() -> None:
    """Let go of what was kept for owners that are gone."""
    if is_aside() and not sys.is_finalizing():
        _kept.let_go()


set_importer(aside(import_module))
