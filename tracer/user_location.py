"""Location of the user's line: the innermost frame that belongs neither to adjit nor to a library that calls back for it."""

from __future__ import annotations

import dis
import os
import re
import sys
import warnings
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Iterable
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from adjit.ir.errors import Location
from adjit.tracer.flow.bytecode_flow import flow_of
from adjit.tracer.flow.frames import READABLE, stack_of

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


def location_of(error: BaseException) -> Location | None:
    """Return the innermost line of the user's code in the traceback of an error."""
    found, traceback = None, error.__traceback__
    while traceback is not None:
        if not is_ours(traceback.tb_frame.f_globals.get("__name__", "")):
            code = traceback.tb_frame.f_code
            found = _location(code.co_filename, traceback.tb_lineno, code.co_name)
        traceback = traceback.tb_next
    return found


def return_location(function: Any, result: object = ...) -> Location | None:
    """Line of the `return` that gave a result, as far as the code shows it: the only one, or the only one of this constant; else the line
    at which the function begins. None for a function that is not written in Python."""
    while hasattr(function, "__wrapped__") or hasattr(function, "func"):
        function = function.__wrapped__ if hasattr(function, "__wrapped__") else function.func
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return None
    lines: dict[int, bool] = {}         # of each `return`, and whether it is of this constant
    line, before = code.co_firstlineno, None
    for instruction in dis.get_instructions(code):
        line = instruction.positions.lineno or line if instruction.positions else line
        if instruction.opname in ("RETURN_VALUE", "RETURN_CONST"):
            constant = instruction if instruction.opname == "RETURN_CONST" else before
            is_same = constant is not None and constant.opname in ("LOAD_CONST", "RETURN_CONST") and constant.argval is result
            lines[line] = lines.get(line, False) or is_same
        before = instruction
    found = [line for line, is_same in lines.items() if is_same or len(lines) == 1]
    return _location(code.co_filename, found[0] if len(found) == 1 else code.co_firstlineno, code.co_name)


def line_that_changes(codes: Iterable[CodeType], path: str) -> Location | None:
    """First line of some code that binds the variable or attribute with this path, or changes an item of it; None if no code shows it."""
    names = re.findall(r"[A-Za-z_]\w*", re.sub(r"\[[^\[\]]*\]", "", path))
    items: Location | None = None
    for code in codes if names else ():
        line, loaded = code.co_firstlineno, 0
        for instruction in dis.get_instructions(code):
            line = instruction.positions.lineno or line if instruction.positions else line
            if instruction.opname in _BINDING and instruction.argval == names[-1]:
                return _location(code.co_filename, line, code.co_name)
            if instruction.opname.startswith("LOAD") and names[-1] in (
                    instruction.argval if isinstance(instruction.argval, tuple) else (instruction.argval,)):
                loaded = line
            elif items is None and loaded == line and (instruction.opname in _CHANGING_ITEMS or instruction.argval in _FILLING):
                items = _location(code.co_filename, line, code.co_name)
    return items


_BINDING = frozenset({"STORE_ATTR", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME", "DELETE_ATTR"})
_CHANGING_ITEMS = frozenset({"STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR"})
_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "pop", "popleft", "remove", "setdefault", "set"})


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the user's line: once for each line, unless Python's filters say otherwise."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and is_ours(frame.f_globals.get("__name__", "")):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, category, stacklevel=level)


def functions_of(library: str) -> list[str]:
    """Names of the functions of a library that are between the user's line and ours, each with its module, the one that the user called
    first."""
    names: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(module := frame.f_globals.get("__name__", "")):
        if module.partition(".")[0] == library:
            decorated = frame.f_locals.get({"wrapper": "f", "axis_nan_policy_wrapper": "hypotest_fun_in"}.get(frame.f_code.co_name, ""))
            names.insert(0, f"{module}.{getattr(decorated, '__name__', frame.f_code.co_name)}")
        frame = frame.f_back
    return names


def is_within_call(name: str) -> bool:
    """True if the user's line is calling a function of this name that has no frame of its own: one written in C."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back        # type: ignore[assignment]
    return frame is not None and name in frame.f_code.co_names and "CALL" in dis.opname[frame.f_code.co_code[frame.f_lasti]]


def is_within_store() -> bool:
    """True if the user's line is assigning to an element or a slice, `array[index] = value`. A dict asks for no values, but may compare
    keys."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back        # type: ignore[assignment]
    if frame is None or dis.opname[frame.f_code.co_code[frame.f_lasti]] not in ("STORE_SUBSCR", "STORE_SLICE"):
        return False
    flow = flow_of(frame.f_code) if READABLE else None
    depth = None if flow is None else flow.depths.get(frame.f_lasti)
    return depth is None or type(stack_of(frame, depth)[-2]) not in (dict, defaultdict, OrderedDict, Counter)


def is_within_subscript() -> bool:
    """True if the user's line is reading an element or a slice itself, `array[index]`."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back        # type: ignore[assignment]
    if frame is None:
        return False
    code, at = frame.f_code.co_code, frame.f_lasti
    while at > 0 and dis.opname[code[at]] == "CACHE":
        at -= 2
    return dis.opname[code[at]] in ("BINARY_SUBSCR", "BINARY_SLICE") or (dis.opname[code[at]] == "BINARY_OP" and code[at + 1] == _SUBSCRIPT)


_SUBSCRIPT = 26     # of the operators of BINARY_OP, from Python 3.14 on


def is_within_update() -> bool:
    """True if the user's line reads what it writes right after, `array[index] += value`: then Python copies array and index first."""
    frame = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back        # type: ignore[assignment]
    if frame is None:
        return False
    code, last = frame.f_code.co_code, frame.f_lasti        # where Python calls __getitem__ itself, the last of the entries behind it
    before = [name for at in range(max(last - 32, 0), last + 2, 2) if (name := dis.opname[code[at]]) != "CACHE"]
    return before[-2:-1] == ["COPY"] and before[-1] in ("BINARY_SUBSCR", "BINARY_SLICE", "BINARY_OP")


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
