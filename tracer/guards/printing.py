"""`print` while a function is traced: left to the calls of the program where it shows tensors, quiet in further traces for one call, and
where Python is led where the call does not go."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location


class _Traces(threading.local):
    """Number of traces that were made for the call under way in a thread; None outside of such a call."""

    made: int | None = None


_traces = _Traces()


@contextmanager
def printing_once() -> Iterator[None]:
    """Have `print` in the functions that are traced within the block, or the decorated function, quiet behind the first whole trace."""
    outer, _traces.made = _traces.made, 0
    try:
        yield
    finally:
        _traces.made = outer


def note_trace() -> None:
    """Note that a trace for the call under way is whole."""
    if _traces.made is not None:
        _traces.made += 1


@wraps(print)
def printed(*args: Any, **kwargs: Any) -> None:
    """Python's `print`, but in a trace that is made again for a call, or leads Python where the call does not go; or whose calls print."""
    scope = active_scope()
    if scope is not None and scope.root.print is not None and scope.root.print(*args, **kwargs):
        return
    if scope is not None:
        scope.root.printed.add(find_user_location())
    flow = None if scope is None or scope.root.values is None else scope.root.values.flow
    if scope is None or not (_traces.made or (flow is not None and (flow.exploring or flow.guided))):
        builtins.print(*args, **kwargs)


def text_of(arg: Any) -> str:
    """What `print` shows of an argument: of what is traced within it, in this module, type and shape."""
    return str(arg)


def without_stand_in(function: Any) -> Any:
    """A function as the user means it: Python's `print` for what is bound in its place."""
    return builtins.print if function is printed else function
