"""Use of a Python number that code asks a differentiated value for (`float(x)`): where it only decides (`if float(x) < 1`) or is shown,
no derivative is lost."""

from __future__ import annotations

import builtins
import dis
import sys
from collections.abc import Sequence
from types import CodeType, FrameType

from adjit.tracer.guards.bytecode import consumer_of, instructions, loads_of
from adjit.tracer.guards.printing import without_stand_in
from adjit.tracer.user_location import is_ours

_DECIDING = frozenset({"COMPARE_OP", "CONTAINS_OP", "IS_OP", "UNARY_NOT", "TO_BOOL", "POP_TOP", "FORMAT_VALUE", "FORMAT_SIMPLE",
                       "FORMAT_WITH_SPEC", "CONVERT_VALUE"})
_SHOWING = {name: getattr(builtins, name) for name in ("print", "str", "repr", "format", "int", "bool")}

def is_only_decided_on() -> bool:
    """True if what the user's instruction gives is compared, formatted or printed, and nothing else, at once or by way of a local variable.
    What is not understood is another use."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_ours(frame.f_globals.get("__name__", "")):
        frame = frame.f_back
    if frame is None:
        return False
    steps = instructions(frame.f_code)
    calls = [index for index, step in enumerate(steps) if step.opname.startswith("CALL")]
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] == "PRECALL":        # of Python 3.11, which makes the call there
        index = next((index for index in calls if steps[index].offset >= frame.f_lasti), None)
    else:       # it may be at a cache behind the call
        index = next((index for index in reversed(calls) if steps[index].offset <= frame.f_lasti), None)
    return index is not None and _is_harmless(frame, steps, index, frozenset())


def _is_harmless(frame: FrameType, steps: Sequence[dis.Instruction], index: int, seen: frozenset[str]) -> bool:
    user, _ = consumer_of(steps, index)
    if user is None:
        return False
    if user.opname in _DECIDING or user.opname.startswith("POP_JUMP"):
        return True
    if user.opname.startswith("CALL"):
        return _shows(frame, steps, user)
    if user.opname != "STORE_FAST" or user.argval in seen:
        return False
    name = user.argval
    code: CodeType = frame.f_code
    if name in code.co_cellvars or not {"locals", "vars", "eval", "exec"}.isdisjoint(code.co_names):
        return False
    found = [at for at, _, loaded in loads_of(steps) if loaded == name]
    return all(_is_harmless(frame, steps, at, seen | {name}) for at in found)


def _shows(frame: FrameType, steps: Sequence[dis.Instruction], call: dis.Instruction) -> bool:
    """True if an instruction calls a function that shows a number, or makes an integer of it."""
    for index, step in enumerate(steps):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME") and step.argval in _SHOWING:
            user, arguments = consumer_of(steps, index)
            names = call.opname == "CALL_KW"        # lie above the arguments
            if user is not None and user.offset == call.offset and arguments == (call.arg or 0) + names:
                return bool(without_stand_in(frame.f_globals.get(step.argval, _SHOWING[step.argval])) == _SHOWING[step.argval])
    return False
