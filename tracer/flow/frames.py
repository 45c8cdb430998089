"""Python's frames as they are in the middle of an instruction: what lies on a frame's stack, whether a frame was called by Python code, and
local variables and
places on the stack, which can be set.

CPython shows the stack of a running frame to nobody: iterators of `for` loops and unfinished expressions are read from its memory, whose
layout is that of `_PyInterpreterFrame` in the versions below.
"""

from __future__ import annotations

import ctypes
import dis
import sys
from types import FrameType, FunctionType, MethodType
from typing import Any

_FRAME = 24             # PyFrameObject.f_frame
_LOCALS = 72            # _PyInterpreterFrame.localsplus
_PREVIOUS = {(3, 11): 48, (3, 12): 8, (3, 13): 8}
_IS_ENTRY = {(3, 11): 68}       # later versions have a frame of their own between C and Python

_VERSION = sys.version_info[:2]

READABLE = (sys.implementation.name == "cpython" and _VERSION in _PREVIOUS and ctypes.sizeof(ctypes.c_void_p) == 8
            and getattr(sys, "_is_gil_enabled", lambda: True)())
"""Whether the frames of this Python can be read."""


_UNPACKING = dis.opmap.get("CALL_FUNCTION_EX")


def _is_unpacked(frame: FrameType, caller: FrameType, depth: int) -> bool:
    """True if the caller calls the function of a frame with `*args` or `**kwargs`, by the interpreter's own C function."""
    if caller.f_code.co_code[caller.f_lasti] != _UNPACKING:
        return False
    called = stack_of(caller, depth + 2)[-1]        # above an empty place
    while type(called) is MethodType:
        called = called.__func__
    return type(called) is FunctionType and called.__code__ is frame.f_code


def _address(frame: FrameType) -> int:
    return ctypes.c_int64.from_address(id(frame) + _FRAME).value


def _stack(frame: FrameType) -> int:
    code = frame.f_code
    variables = len({*code.co_varnames, *code.co_cellvars}) + len(code.co_freevars)
    return _address(frame) + _LOCALS + 8 * variables


def stack_of(frame: FrameType, depth: int) -> list[Any]:
    """The lowest `depth` objects on the stack of a frame; None stands for an empty place too."""
    places = (ctypes.c_void_p * depth).from_address(_stack(frame))
    return [None if not place else ctypes.cast(place, ctypes.py_object).value for place in places]


def cell_of(frame: FrameType, name: str) -> Any:
    """The cell of a variable that a frame shares with others; before the frame has made it, the content."""
    code = frame.f_code
    names = [*code.co_varnames, *(name for name in code.co_cellvars if name not in code.co_varnames), *code.co_freevars]
    place = ctypes.c_void_p.from_address(_address(frame) + _LOCALS + 8 * names.index(name)).value
    return None if not place else ctypes.cast(place, ctypes.py_object).value


def set_local(frame: FrameType, name: str, value: Any) -> None:
    """Bind a local variable of a running frame, which is no cell, to another object."""
    _set(_address(frame) + _LOCALS + 8 * frame.f_code.co_varnames.index(name), value)


def set_on_stack(frame: FrameType, position: int, value: Any) -> None:
    """Put another object in a place on the stack of a running frame."""
    _set(_stack(frame) + 8 * position, value)


def _set(address: int, value: Any) -> None:
    place = ctypes.c_void_p.from_address(address)
    before = ctypes.cast(place, ctypes.py_object)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))
    place.value = id(value)
    ctypes.pythonapi.Py_DecRef(before)


def is_called_directly(frame: FrameType, caller: FrameType, depth: int) -> bool:
    """True if no C function lies between a frame and the next one of Python code, whose stack has `depth` objects below what it calls; or
    one that has nothing to decide on behind the call."""
    address = _address(frame)
    is_entry = _VERSION in _IS_ENTRY and ctypes.c_bool.from_address(address + _IS_ENTRY[_VERSION]).value
    if is_entry and not _is_unpacked(frame, caller, depth):
        return False
    return ctypes.c_int64.from_address(address + _PREVIOUS[_VERSION]).value == _address(caller)
