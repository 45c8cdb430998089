"""Location of the user's line: the innermost frame that belongs neither to adjit nor to a library that calls back for it."""

from __future__ import annotations

import dis
import os
import sys
import warnings
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from adjit.ir.errors import Location

_OURS = frozenset({"adjit", "numpy", "scipy", "optree", "contextlib", "copy", "functools"})


def find_user_location() -> Location | None:
    """Return the line of the user's code that is being run; None if every frame is ours."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if id(frame.f_globals) not in _our_globals:     # asked for each op, of some ten frames of ours and more
            if not is_ours(frame.f_globals.get("__name__", "")):
                code = frame.f_code
                found = _known_locations.get(key := (id(code), frame.f_lasti))
                if found is None:
                    if len(_known_locations) >= 4096:
                        _known_locations.clear()
                    found = code, _location(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
                    _known_locations[key] = found
                return found[1]
            _our_globals[id(frame.f_globals)] = frame.f_globals
        frame = frame.f_back
    return None


_our_globals: dict[int, dict[str, Any]] = {}
"""Globals of modules that are ours, by identity. The dict keeps them, so that no other object gets such an identity."""


_known_locations: dict[tuple[int, int], tuple[CodeType, Location]] = {}
"""Locations by the identity of a code and the instruction: Python finds a line by walking through the table of the code. The entry keeps
the code, so that no other one gets its identity."""


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line: once for each line, unless Python's filters say otherwise."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def functions_of(library: str) -> list[str]:
    """Names of the functions of a library that are between the user's line and ours, the one that the user called first."""
    names: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(module := frame.f_globals.get("__name__", "")):
        if module.partition(".")[0] == library:
            names.insert(0, frame.f_code.co_name)
        frame = frame.f_back
    return names


def is_within_call(name: str) -> bool:
    """True if the user's line is calling a function of this name that has no frame of its own: one written in C."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back        # type: ignore[assignment]
    return frame is not None and name in frame.f_code.co_names and "CALL" in dis.opname[frame.f_code.co_code[frame.f_lasti]]


def is_within_store() -> bool:
    """True if the user's line is assigning to an element or a slice, `array[index] = value`."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back        # type: ignore[assignment]
    return frame is not None and dis.opname[frame.f_code.co_code[frame.f_lasti]] in ("STORE_SUBSCR", "STORE_SLICE")


@lru_cache(maxsize=4096)
def is_ours(module: str) -> bool:
    """True if a module is part of adjit, or of a library that calls back for it."""
    return module.partition(".")[0] in _OURS


@lru_cache(maxsize=4096)
def _location(file: str, line: int, function: str) -> Location:
    return Location(_display_name(file), line, function)


@lru_cache(maxsize=4096)
def _display_name(file: str) -> str:
    """Return the file relative to the working directory if it lies below it."""
    if not os.path.isabs(file):
        return file
    relative = os.path.relpath(file)
    return file if relative.startswith("..") else relative
