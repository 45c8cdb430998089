"""Tracebacks that users see: their own frames, without those of adjit. `ADJIT_TRACEBACK=full` keeps all.

A function that users call catches what leaves it, calls `hide_frames`, and raises it again by a bare `raise`, which adds no frame:

    try:
        return self.call(*args)
    except BaseException as error:
        hide_frames(error)
        raise
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import ParamSpec, TypeVar

from adjit.ir.errors import VerificationError
from adjit.tracer.user_location import is_ours

P = ParamSpec("P")
R = TypeVar("R")

VARIABLE = "ADJIT_TRACEBACK"
_DEFECTS = (AssertionError, KeyError, NameError, AttributeError, VerificationError)
"""Errors that nobody raises on purpose: if one comes from adjit's own code, the frames are kept, for the report of the defect."""


def user_frames_only(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, with errors as `hide_frames` leaves them."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except BaseException as error:
            hide_frames(error)
            raise

    return call


def hide_frames(error: BaseException) -> None:
    """Take the frames of adjit out of the traceback of an error, and of the errors that it came from."""
    if os.environ.get(VARIABLE) == "full":
        return
    waiting, seen = [error], set[int]()
    while waiting:
        found = waiting.pop()
        if id(found) in seen:
            continue
        seen.add(id(found))
        entries = list(_entries(found.__traceback__))
        if not _is_defect(found, entries):
            found.__traceback__ = _without_ours(entries)
        waiting += [other for other in (found.__cause__, found.__context__) if other is not None]


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _module(entry: TracebackType) -> str:
    """Module of a frame; code that adjit writes has none."""
    if entry.tb_frame.f_code.co_filename.startswith("<adjit"):
        return "adjit"
    name = entry.tb_frame.f_globals.get("__name__", "")
    return name if isinstance(name, str) else ""


def _is_adjit(entry: TracebackType) -> bool:
    return _module(entry).partition(".")[0] == "adjit"


def _is_defect(error: BaseException, entries: list[TracebackType]) -> bool:
    return isinstance(error, _DEFECTS) and bool(entries) and _is_adjit(entries[-1]) and entries[-1].tb_frame.f_code.co_name != "__getattr__"


def _without_ours(entries: list[TracebackType]) -> TracebackType | None:
    """The traceback without adjit's frames, and without those of the libraries through which adjit was called, or which it called."""
    kept: list[TracebackType] = []
    library: list[TracebackType] = []       # frames of other libraries since the last frame of the user
    within = False                          # whether a frame of adjit was among them
    for entry in entries:
        if _is_adjit(entry):
            library, within = [], True
        elif is_ours(_module(entry)):
            library += [] if within else [entry]
        else:
            kept += [*library, entry]
            library, within = [], False
    made: TracebackType | None = None
    for entry in reversed(kept + library):
        made = TracebackType(made, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return made
