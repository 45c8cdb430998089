"""`print` while a function is traced: left to the calls of the program where it shows tensors, quiet in further traces for one call, and
where Python is led where the call does not go."""

from __future__ import annotations

import builtins
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location


class _Traces(threading.local):
    """Number of traces that were made for the call under way in a thread, None outside of such a call; and of prints that these have
    shown, which neither another trace nor the program shows again in this call."""

    made: int | None = None
    shown: list[int] | None = None


_traces = _Traces()


@contextmanager
def printing_once() -> Iterator[None]:
    """Have `print` in the functions that are traced within the block, or the decorated function, quiet behind the first whole trace."""
    outer = _traces.made, _traces.shown
    _traces.made, _traces.shown = 0, [0]
    try:
        yield
    finally:
        _traces.made, _traces.shown = outer


def note_trace() -> None:
    """Note that a trace for the call under way is whole."""
    if _traces.made is not None:
        _traces.made += 1


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
    flow, shown = None if root.values is None else root.values.flow, _traces.shown
    if _traces.made or (flow is not None and (flow.exploring or flow.guided)):
        return
    texts = [text_of(arg) for arg in args]      # before any is shown: one may lead to another trace
    if shown is not None and not root.evaluates and stream_of(kwargs.get("file")):
        root.prints += 1
        if root.prints <= shown[0]:
            return
        shown[0] = root.prints
    builtins.print(*texts, **kwargs)


def stream_of(file: Any) -> str:
    """Name in `sys` of the stream that `print(file=file)` writes to; empty for a file of the user's."""
    return "stdout" if file is None or file is sys.stdout else "stderr" if file is sys.stderr else ""


def shown_at_once() -> list[int]:
    """Number of prints which traces for the call under way have shown: as many of its program's are not shown again."""
    return [0] if _traces.shown is None else _traces.shown


def text_of(arg: Any) -> str:
    """What `print` shows of an argument: of what is traced within it, in this module, type and shape."""
    return str(arg)


def without_stand_in(function: Any) -> Any:
    """A function as the user means it: Python's `print` for what is bound in its place."""
    return builtins.print if function is printed else function
