"""Code that asks which object a value is: `flag is True`, `now is not before`, `case False:`. A traced scalar that stands for a Python
number is another object, so such code is wrong with it, without an error.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable
from functools import cache, lru_cache
from types import CellType, CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any

from adjit.ir.lazy_module import LazyModule
from adjit.tracer.flow.frames import cell_of
from adjit.tracer.user_location import is_ours

if TYPE_CHECKING:
    import sysconfig
else:
    sysconfig = LazyModule("sysconfig")


@cache
def _libraries() -> tuple[str, ...]:
    """Folders of libraries."""
    return tuple({sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})


_OF_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME", "LOAD_ATTR")

MAX_CODES = 500
"""Code objects, functions and classes that are looked at; where there are more, one of them is taken to ask."""


@lru_cache(maxsize=4096)
def _asks(code: CodeType) -> bool:
    """True if the code compares objects by identity, in a function within it, too: with True or False, a computed object or a variable,
    not with None or what a global name stands for, as in `type(x) is tuple`."""
    before = None
    for instruction in dis.get_instructions(code):
        if instruction.opname == "IS_OP" and before is not None and before.opname not in _OF_GLOBALS and (
                before.opname != "LOAD_CONST" or isinstance(before.argval, bool)):
            return True
        before = instruction
    return any(_asks(each) for each in code.co_consts if isinstance(each, CodeType))


@lru_cache(maxsize=4096)
def compares_objects(code: CodeType) -> bool:
    """True if the code asks whether two objects are one, neither of them a constant or what a global name stands for."""
    before = None
    for instruction in dis.get_instructions(code):
        if (instruction.opname == "IS_OP" and before is not None and before.opname not in ("LOAD_CONST", "LOAD_GLOBAL", "LOAD_NAME")) or (
                instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME") and instruction.argval == "id"):
            return True
        before = instruction
    return False


_ASKING_FOR_CLASS = frozenset({"isinstance", "issubclass", "type", "hasattr", "getattr", "singledispatch", "__class__", "dtype"})


@lru_cache(maxsize=4096)
def _names_class(code: CodeType) -> bool:
    return not _ASKING_FOR_CLASS.isdisjoint(_names(code)) or any(
        instruction.opname == "MATCH_CLASS" for instruction in dis.get_instructions(code))


def asks_for_class(frame: FrameType | None) -> bool:
    """True if code that runs there asks for the class of an object, or which attributes it has."""
    return asks_for_identity(frame, _names_class)


def asks_for_identity(frame: FrameType | None, asks: Callable[[CodeType], bool] = _asks) -> bool:
    """True if the code of a frame, of the callers up to the traced function, or of the functions and classes that they name, compares
    objects by identity, or does what is asked for."""
    waiting: list[Any] = []
    codes: list[tuple[CodeType, dict[str, Any]]] = []
    while frame is not None and not is_ours(frame.f_globals.get("__name__", "")):
        codes.append((frame.f_code, frame.f_globals))
        waiting += (cell_of(frame, name) for name in frame.f_code.co_freevars)
        frame = frame.f_back
    seen: set[int] = set()       # identities of code, functions and classes
    while codes or waiting:
        if codes:
            code, names = codes.pop()
            if id(code) not in seen:
                seen.add(id(code))
                if asks(code) or len(seen) > MAX_CODES:
                    return True
                waiting += (names[name] for name in _names(code) if name in names)
            continue
        value = waiting.pop()
        if isinstance(value, CellType):
            value = value.cell_contents if _is_filled(value) else None
        if is_ours(type(value).__module__) and hasattr(value, "__wrapped__"):      # of a transform, or compiled
            waiting.append(value.__wrapped__)
            continue
        if not isinstance(value, (type, FunctionType)) or id(value) in seen or not _is_the_users(value):
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            waiting += value.__closure__ or ()
            codes.append((value.__code__, value.__globals__))
        else:
            waiting += vars(value).values()
    return False


def _is_the_users(value: type | FunctionType) -> bool:
    """True unless it is of the standard library, of an installed package, or ours: what these compare are objects of their own."""
    module = sys.modules.get(value.__module__ or "")
    file = getattr(module, "__file__", None)
    return not is_ours(value.__module__ or "") and (file is None or not file.startswith(_libraries())) and value.__module__ != "builtins"


def _is_filled(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: CodeType) -> set[str]:
    return set(code.co_names).union(*(_names(each) for each in code.co_consts if isinstance(each, CodeType)))
