"""Texts of values that each call of a program prints: while the function is traced, marks stand for them in what `print` is given."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any, NamedTuple

from adjit.ir.builder import GraphBuilder
from adjit.tracer.flow.text_uses import is_printed_as_it_is, percent_operands
from adjit.tracer.guards.printing import text_of
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location, is_ours

_MARK = re.compile("\ue000([0-9]+)\ue001")       # of letters for private use

READ = "read"
"""First part of the sources of numbers that the function reads of arrays: `loss.item()`, `f"{loss:.3f}"`."""

PRINTS = READ, "print"
"""Source which says that calls print what has no value in it, too, as they print values: all in Python's order."""


RULES = READ, "rules"
"""Source which says that results are differentiated by the rules of an `autograd.Function`, which the program's graph has to know then."""


class Conversion(str):
    """Format of a value in a text made by `%`, such as `%8.3f`."""

    __slots__ = ()


class PrintedText(NamedTuple):
    """Text of a value in what a program prints, by its format or `Conversion`; None for that of `str`. `source` is the line: where Python
    needs the text after all, it is read there while the function is traced."""

    value: Any
    form: str | None
    source: tuple[str, str]


def mark_of_text(value: Any, form: str | None) -> str | None:
    """Mark for `format(value, form)` in what is printed, or for `str(value)`; None where the text may serve for anything else, or no
    program prints it."""
    root, source = _root_that_prints(), (READ, str(find_user_location()))
    if root is None:
        return None
    frame, whole = _frame_of_text()
    if source in root.known_arrays.needed or not (whole or is_printed_as_it_is(frame, form is None)):
        return None
    return _mark(root, PrintedText(value, form, source))


def number_for_percent(value: Any) -> int | None:
    """Number to show for a traced one in `"%.3f" % value`, where `print` is given the text: C formats what is a number of Python's. It is
    told by its digits, and `pieces_of` finds the text of it. None where anything else may become of it."""
    root, frame = _root_that_prints(), _frame_of_text()[0]
    operands = None if root is None else percent_operands(frame)
    if root is None or operands is None:
        return None
    form, given = operands
    conversions = [match for match in _CONVERSION.finditer(form) if match[3] != "%"]
    items = given if isinstance(given, tuple) else (given,)
    if isinstance(given, dict):
        items = tuple(given[match[1]] for match in conversions if match[1])
    known = {place for _, _, place in root.stand_ins}
    places = [(id(frame), frame.f_lasti, index) for index in range(len(items))]
    match = next((match for match, item, place in zip(conversions, items, places, strict=False)
                  if item is value and match[3] in "dieEfFgG" and place not in known), None)
    source = READ, str(find_user_location())
    if (match is None or "*" in match[2] or len(items) != len(conversions) or source in root.known_arrays.needed
            or not is_printed_as_it_is(frame, False)):
        return None
    conversion = Conversion(f"%{match[2]}{match[3]}")
    number = (_FIRST_DIGITS + len(root.texts) % _FIRST_DIGITS) * 10 ** 12 + _LAST_DIGITS
    root.stand_ins.append((conversion % number, _mark(root, PrintedText(value, conversion, source)), places[conversions.index(match)]))
    return number


_CONVERSION = re.compile(r"%(?:\((\w+)\))?([-+ #0]*(?:\d+|\*)?(?:\.(?:\d+|\*))?)([a-zA-Z%])")
_FIRST_DIGITS, _LAST_DIGITS = 4001, 345678901234        # of numbers that are exact as floats, and that nobody prints


def _mark(root: Any, text: PrintedText) -> str:
    root.known_arrays.read = True
    root.texts.append(text)
    return f"\ue000{len(root.texts) - 1}\ue001"


def _root_that_prints() -> Any:
    """The outermost scope, if programs print what is printed in it; else None."""
    scope = active_scope()
    if scope is None or scope.root.print is None or not scope.open or not isinstance(scope.builder, GraphBuilder):
        return None
    known = scope.root.known_arrays
    return None if known is None or known.needed is None else scope.root


def _frame_of_text() -> tuple[FrameType, bool]:
    """Frame of the code that asks for a text, and whether that is `text_of`, which shows the whole of it."""
    frame = sys._getframe(2)
    own, whole = True, False        # NumPy's frames may fill up what they put into a text
    while frame.f_back is not None and not whole and is_ours(module := frame.f_globals.get("__name__", "")):
        own = own and module.startswith("adjit.")
        whole = own and frame.f_code is text_of.__code__
        frame = frame.f_back
    return frame, whole


def pieces_of(text: str) -> list[str | PrintedText]:
    """Parts of a text that `print` is given: letters, and texts of values in place of their marks and stand-ins."""
    scope = active_scope()
    if scope is None:
        return [text]
    root, begin = scope.root, 0
    for stand_in in [*root.stand_ins]:
        shown, mark, _ = stand_in
        found = text.find(shown, begin)
        if found >= 0:
            text, begin = text[:found] + mark + text[found + len(shown):], found + len(mark)
            root.stand_ins.remove(stand_in)
    pieces: list[str | PrintedText] = [*_MARK.split(text)]
    pieces[1::2] = [root.texts[int(number)] for number in pieces[1::2]]        # type: ignore[arg-type]
    return pieces
