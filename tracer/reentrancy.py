"""Isolation of a trace from code that Python runs in the midst of it: handlers of signals, destructors, functions of debuggers.

    @isolated_from_handlers
    def trace_function(...): ...

    if is_reentrant():
        return outside(...)

What such code calls runs on its own, gives plain numbers, and leaves no trace. Handlers of signals that somebody has set are replaced
until the function is back, by ones that set aside what is under way; where there is none but Python's own for Ctrl-C, nothing is done.
Destructors (`__del__`, `weakref.finalize`), and the functions of `sys.settrace` and `sys.setprofile`, are known by their frames where they
call compiled functions, transforms and functions of arrays. What they do to tensors, and plain callbacks of weak references, which look
like any other call, are part of the trace: numbers asked for there are errors.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # `signal` looks for a name of each handler, which takes longer than some traces
import functools
import signal
import sys
import threading
import weakref
from collections.abc import Callable
from types import FrameType, FunctionType, MethodType
from typing import Any, ParamSpec, TypeVar

from adjit.ir.thread_context import run_detached
from adjit.tracer.array import TracedArray
from adjit.tracer.user_location import is_ours

P = ParamSpec("P")
T = TypeVar("T")
Handler = Callable[[int, FrameType | None], Any]


def isolated_from_handlers(function: Callable[P, T]) -> Callable[P, T]:
    """Wrap `function` so that handlers of signals are no part of its trace."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        if threading.get_ident() != threading.main_thread().ident:
            return function(*args, **kwargs)
        known = list(map(_signal.getsignal, _NUMBERS))
        if _NO_HANDLERS.issuperset(map(id, known)):
            return function(*args, **kwargs)
        handlers = {number: handler for number, handler in zip(_NUMBERS, known, strict=True)
                    if callable(handler) and type(handler) is not _IsolatedHandler}
        if all(handler is signal.default_int_handler for handler in handlers.values()):
            return function(*args, **kwargs)
        return _HandlerIsolation(handlers).run(functools.partial(function, *args, **kwargs))

    return call


_NUMBERS = range(1, signal.NSIG)
_NO_HANDLERS = frozenset(map(id, (None, _signal.SIG_DFL, _signal.SIG_IGN, signal.default_int_handler)))


def is_reentrant(*arguments: Any) -> bool:
    """True if a call in the midst of a trace comes from code that is no part of it. False if an argument is a traced array, or a
    list that begins with one."""
    if _has_traced(arguments):
        return False
    watching = [watch.__code__ for watch in (sys.gettrace(), sys.getprofile()) if isinstance(watch, (FunctionType, MethodType))]
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code is not _ROOT:
        code = frame.f_code
        if code.co_name == "__del__" or code is _FINALIZE or code in watching:
            return True
        frame = frame.f_back
    return False


def interrupts_evaluation(*arguments: Any) -> bool:
    """True if a function of ours is being evaluated and the code that called our caller is not ours: that code interrupts the evaluation.
    """
    return not _has_traced(arguments) and not is_ours(sys._getframe(2).f_globals.get("__name__", ""))


def _has_traced(arguments: tuple[Any, ...]) -> bool:
    for argument in arguments:
        kind = type(argument)
        if issubclass(kind, TracedArray) or ((kind is list or kind is tuple) and argument and issubclass(type(argument[0]), TracedArray)):
            return True
        if isinstance(getattr(argument, "array", None), TracedArray):
            return True
    return False


_ROOT = isolated_from_handlers(int).__code__       # type: ignore[attr-defined]
_FINALIZE = weakref.finalize.__call__.__code__


class _HandlerIsolation:
    """Replacement of the process's signal handlers for as long as one function runs."""

    def __init__(self, handlers: dict[int, Handler]):
        self.is_over = False
        self.came: list[int] = []       # since then
        self.parts = [_IsolatedHandler(self, number, handler) for number, handler in handlers.items()]

    def run(self, work: Callable[[], T]) -> T:
        try:
            for part in self.parts:
                signal.signal(part.number, part)
            return work()
        finally:
            self.is_over = True     # from here on replaced handlers only record signals
            raised = None
            while self.parts:
                try:
                    self._put_back()
                except BaseException as error:      # from a handler that is restored already
                    raised = error
            _raise_again(self.came)
            if raised is not None:
                raise raised

    def _put_back(self) -> None:
        while self.parts:
            part = self.parts[-1]
            if _signal.getsignal(part.number) is part:      # else somebody has set another handler meanwhile
                signal.signal(part.number, part.handler)
            self.parts.pop()


class _IsolatedHandler:
    """Handler that runs the user's handler outside of the trace under way."""

    def __init__(self, replaced: _HandlerIsolation, number: int, handler: Handler):
        self.replaced, self.number, self.handler = replaced, number, handler

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.replaced.is_over:
            self.replaced.came.append(number)
        else:
            run_detached(lambda: self.handler(number, frame))


def _raise_again(numbers: list[int]) -> None:
    """Raise each signal again, whatever the handlers of others raise."""
    if numbers:
        number = numbers.pop()
        try:
            signal.raise_signal(number)
        finally:
            _raise_again(numbers)
