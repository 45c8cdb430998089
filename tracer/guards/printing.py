"""`print` while a function is traced: left to the calls of the program where it shows tensors, quiet in further traces for one call, and
where Python is led where the call does not go. Records of `logging` are quiet there, too."""

from __future__ import annotations

import builtins
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from adjit.tracer.scope import Scope, active_scope, outermost_scope
from adjit.tracer.user_location import find_user_location


class _Call:
    """Call for which traces are made. `made` is the number of them, `shown` that of prints that they have shown, which neither another
    trace nor the program shows again, and `logged` that of log records; `unshown` are those without values that the last trace left to
    its program, which an error keeps from showing them. `streams` are Python's at the begin, by identity: what a function binds in their
    place is its own."""

    def __init__(self) -> None:
        self.made, self.shown, self.logged = 0, [0], 0
        self.unshown: list[Callable[[], None]] = []
        self.streams = {id(sys.stderr): "stderr", id(sys.stdout): "stdout"}


class _Traces(threading.local):
    """Call under way in a thread; None outside of one that is traced. `last` is the one whose traces ended last, and `again` one that is
    traced again, with its function."""

    call: _Call | None = None
    last: _Call | None = None
    again: tuple[Any, _Call | None] = None, None


_traces = _Traces()


@contextmanager
def printing_once(fun: Callable[..., Any]) -> Iterator[None]:
    """Have `print` in the function that is traced within the block quiet behind the first whole trace for a call."""
    owner, known = _traces.again
    call = known if known is not None and owner == fun else _Call()
    outer, _traces.call, _traces.last = _traces.call, call, call
    try:
        yield
    except Exception:
        for show in call.unshown:
            show()
        raise
    finally:
        _traces.call, call.unshown = outer, []


def prints_of_last_traces() -> Any:
    """What the traces that ended last have printed, for `printing_on`; they are forgotten then."""
    last, _traces.last = _traces.last, None
    return last


@contextmanager
def printing_on(fun: Callable[..., Any], prints: Any) -> Iterator[None]:
    """Have further traces of a function within the block print as those before for the same call, which went another way than its program
    does; `prints` are theirs, or None for the first traces of a call."""
    outer, _traces.again = _traces.again, (fun, prints)
    try:
        yield
    finally:
        _traces.again = outer


def note_trace() -> None:
    """Note that a trace for the call under way is whole."""
    if _traces.call is not None:
        _traces.call.made += 1


@wraps(print)
def printed(*args: Any, **kwargs: Any) -> None:
    """Python's `print`, but in a trace that is made again for a call, or leads Python where the call does not go; or whose calls print."""
    scope = active_scope()
    root = None if scope is None else scope.root
    if root is None:
        builtins.print(*args, **kwargs)
        return
    if root.print is not None and root.print(*args, **kwargs):
        return
    root.printed.add(find_user_location())
    call = _traces.call
    if _is_quiet(root):
        return
    texts = [str(arg) for arg in args]      # before any is shown: one may lead to another trace
    if not stream_of(kwargs.get("file")):
        root.prints_to_files = True
    elif call is not None and root is outermost_scope():
        root.prints += 1
        if root.prints <= call.shown[0]:
            return
        call.shown[0] = root.prints
    builtins.print(*texts, **kwargs)


def _is_quiet(root: Scope) -> bool:
    """True in a further trace for a call, and where Python is led where the call does not go."""
    flow = None if root.values is None else root.values.flow
    return (_traces.call is not None and bool(_traces.call.made)) or (flow is not None and bool(flow.exploring or flow.guided))


@contextmanager
def logging_once() -> Iterator[None]:
    """Have log records of the function that is traced within the block as quiet as its prints: in its thread, each of them once."""
    own = logging.Logger.handle
    if own.__module__ == __name__:      # of an outer trace, or of another thread's
        yield
        return

    @wraps(own)
    def handle(logger: logging.Logger, record: logging.LogRecord) -> None:
        scope, call = active_scope(), _traces.call
        if scope is not None and _is_quiet(scope.root):
            return
        if scope is None or call is None or scope.root is not outermost_scope():
            own(logger, record)
            return
        scope.root.logs += 1
        if scope.root.logs > call.logged:
            own(logger, record)     # its text may lead to another trace
            call.logged = scope.root.logs

    handle.__module__ = __name__
    logging.Logger.handle = handle      # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        if logging.Logger.handle is handle:
            logging.Logger.handle = own     # type: ignore[method-assign]


def stream_of(file: Any) -> str:
    """Name in `sys` of the stream that `print(file=file)` writes to; empty for a file of the function's, as what redirects Python's."""
    return (_traces.call or _Call()).streams.get(id(sys.stdout if file is None else file), "")


def unless_shown(show: Callable[..., None], unshown: list[Callable[[], None]], is_text: bool) -> Callable[..., None]:
    """What the program does for `show`, once for each print that the traces for the call under way have shown it does nothing. `unshown`
    are the prints before it in the trace, which takes it if it `is_text` without values."""
    call = _traces.call or _Call()

    def show_once(*arrays: Any) -> None:
        if call.shown[0]:
            call.shown[0] -= 1
        else:
            show(*arrays)

    if is_text:
        unshown.append(show_once)
        call.unshown = unshown
    return show_once


def text_of(arg: Any) -> str:
    """What the print of a program shows of an argument: of numbers and tensors within it, marks."""
    return str(arg)


def without_stand_in(function: Any) -> Any:
    """A function as the user means it: Python's `print` for what is bound in its place."""
    return builtins.print if function is printed else function
