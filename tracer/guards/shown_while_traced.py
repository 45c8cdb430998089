"""Warnings for functions that print, warn or log where a decision on values leads: they do so while they are traced, in the calls that are
traced, and not in those that run the program.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

from adjit.ir.errors import Location
from adjit.tracer.flow.bytecode_flow import lines_that_decide
from adjit.tracer.guards.bytecode import ATTRIBUTE_LOADS, VARIABLE_LOADS, instructions, nested_code

_LOGGING = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
_LOADS = VARIABLE_LOADS | ATTRIBUTE_LOADS | {"LOAD_FAST", "LOAD_FAST_BORROW"}
_REMEDIES = {"prints": "aj.debug.print does so in each call", "warns": "aj.debug.callback(warnings.warn, text) does so in each call",
             "logs": "aj.debug.callback(logging.warning, text) does so in each call"}


class Shown(NamedTuple):
    """A line that shows something, and the file and function of this line."""

    line: int
    verb: str
    file: str
    function: str


_warned: set[Shown] = set()


def shown_by_decisions(codes: Sequence[CodeType], decisions: Sequence[Location | None],
                       printed: Iterable[Location | None] = ()) -> list[Shown]:
    """Return where a function whose code is `codes` decides on values whether, or how often, something is shown. Of lines that print
    those count at which the trace has `printed`: what it does not come to, or leaves to its calls, is nothing yet."""
    by_trace = {(_name(each.file), each.line) for each in printed if each is not None}
    decided = {(_name(each.file), each.line) for each in decisions if each is not None}
    every = {inner: None for code in codes for inner in _with_nested(code)} if decided else {}
    shown = {code: dict.fromkeys(_shown_by(code)) for code in every}        # at each offset, also by what is called there
    if not any(shown.values()):
        return []
    by_name: dict[str, list[CodeType]] = {}
    for code in every:
        by_name.setdefault(code.co_name, []).append(code)
    calls = [(code, offset, callee) for code in every for offset, name in _loads(code) for callee in by_name.get(name, ())]
    for _ in every:
        count = sum(map(len, shown.values()))
        for code, offset, callee in calls:
            shown[code].update({(offset, what): None for _, what in shown[callee]})       # which may be its own
        if count == sum(map(len, shown.values())):
            break
    return [what for code, found in shown.items() for offset, what in found
            if (what.verb != "prints" or (_name(what.file), what.line) in by_trace)
            and any((_name(code.co_filename), line) in decided for line in lines_that_decide(code, offset))]


def warn_of_what_is_shown(shown: Sequence[Shown]) -> None:
    """Warn, once for each line, of what is shown where a decision on values leads."""
    for what in shown:
        if what not in _warned:
            _warned.add(what)
            warnings.warn_explicit(
                f"{what.function} {what.verb} where a decision on values leads: this happens while the function is traced, not in each "
                f"call; {_REMEDIES[what.verb]}", RuntimeWarning, what.file, what.line)


def _name(file: str) -> str:
    """The last part of a path: locations have shortened ones."""
    return file.rpartition("/")[2]


def _with_nested(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in nested_code(code):
        yield from _with_nested(inner)


@lru_cache(maxsize=4096)
def _loads(code: CodeType) -> tuple[tuple[int, str], ...]:
    """Offsets and names of the loads of variables and attributes."""
    return tuple((step.offset, step.argval) for step in instructions(code) if step.opname in _LOADS and isinstance(step.argval, str))


@lru_cache(maxsize=4096)
def _shown_by(code: CodeType) -> tuple[tuple[int, Shown], ...]:
    """Offsets at which code loads a function that shows something, and what it shows."""
    found, owner = [], ""
    for step in instructions(code):
        if step.opname == "PUSH_NULL":
            continue
        is_attribute, verb = step.opname in ATTRIBUTE_LOADS, ""
        if step.opname in VARIABLE_LOADS:
            verb = {"print": "prints", "warn": "warns"}.get(step.argval, "")
        elif is_attribute:
            verb = "warns" if (owner, step.argval) == ("warnings", "warn") else "logs" if (
                step.argval in _LOGGING and "log" in owner.lower()) else ""
        if verb:
            line = (step.positions.lineno if step.positions else None) or code.co_firstlineno
            found.append((step.offset, Shown(line, verb, code.co_filename, code.co_name)))
        owner = step.argval if step.opname in _LOADS and isinstance(step.argval, str) else ""
    return tuple(found)
