"""Texts of values that each call of a program prints: while the function is traced, marks stand for them in what `print` is given."""

from __future__ import annotations

import re
import sys
from typing import Any, NamedTuple

from adjit.ir.builder import GraphBuilder
from adjit.tracer.flow.text_uses import is_printed_as_it_is
from adjit.tracer.guards.printing import text_of
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location, is_ours

_MARK = re.compile("\ue000([0-9]+)\ue001")       # of letters for private use

READ = "read"
"""First part of the sources of numbers that the function reads of arrays: `loss.item()`, `f"{loss:.3f}"`."""

PRINTS = READ, "print"
"""Source which says that calls print what has no value in it, too, as they print values: all in Python's order."""


class PrintedText(NamedTuple):
    """Text of a value in what a program prints, by its format; None for that of `str`. `source` is the line: where Python needs the text
    after all, it is read there while the function is traced."""

    value: Any
    form: str | None
    source: tuple[str, str]


def mark_of_text(value: Any, form: str | None) -> str | None:
    """Mark for `format(value, form)` in what is printed, or for `str(value)`; None where the text may serve for anything else, or no
    program prints it."""
    scope = active_scope()
    if scope is None or scope.root.print is None or not scope.open or not isinstance(scope.builder, GraphBuilder):
        return None
    frame = sys._getframe(1)
    own, whole = True, False        # NumPy's frames may fill up what they put into a text
    while frame.f_back is not None and not whole and is_ours(module := frame.f_globals.get("__name__", "")):
        own = own and module.startswith("adjit.")
        whole = own and frame.f_code is text_of.__code__
        frame = frame.f_back
    known, source = scope.root.known_arrays, (READ, str(find_user_location()))
    if known is None or known.needed is None or source in known.needed:
        return None
    if not whole and not is_printed_as_it_is(frame, form is None):
        return None
    known.read = True
    scope.root.texts.append(PrintedText(value, form, source))
    return f"\ue000{len(scope.root.texts) - 1}\ue001"


def pieces_of(text: str) -> list[str | PrintedText]:
    """Parts of a text that `print` is given: letters, and texts of values in place of their marks."""
    scope = active_scope()
    pieces: list[str | PrintedText] = [*_MARK.split(text)]
    if scope is not None:
        pieces[1::2] = [scope.root.texts[int(number)] for number in pieces[1::2]]        # type: ignore[arg-type]
    return pieces
