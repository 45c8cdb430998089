"""Use of a text that is being made: whether Python code only shows it, as in `print(f"{x}")`, or may decide by it: `if str(x) == "1"`.

The bytecode says what becomes of the result of an instruction, and the stack of the frame has the function that is to be called with it.
"""

from __future__ import annotations

import dis
import io
import re
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from adjit.ir.dataclass import dataclass
from adjit.tracer.flow.bytecode_flow import flow_of
from adjit.tracer.flow.frames import READABLE, stack_of
from adjit.tracer.guards import printing

LOGGING = frozenset({"logging", "warnings", "_warnings", "loguru", "tqdm"})
"""Libraries by which a program shows texts to people."""

SHOWING = frozenset({"traceback", "pdb", "bdb", "cmd", "code", "doctest", "unittest", "_pytest", "pluggy", "IPython", "ipykernel",
                     "_pydevd_bundle", "pydevd", "debugpy", "rich", "icecream"})
"""Libraries that show people a program."""

PRINTING = printing.__name__     # whose `print` stands for Python's in a trace
_PASSING = frozenset({"dataclasses", "reprlib", "collections"})
_TEXT_METHODS = frozenset({"__repr__", "__str__", "__format__"})
_NO_OPERANDS = frozenset({"LOAD_CONST", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_LOAD_FAST", "LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF",
                          "LOAD_CLOSURE", "PUSH_NULL", "KW_NAMES", "PRECALL", "NOP", "CACHE", "EXTENDED_ARG"})
_MADE_FROM = {"FORMAT_SIMPLE": 1, "FORMAT_WITH_SPEC": 2, "CONVERT_VALUE": 1, "BINARY_OP": 2}
_COLLECTING = frozenset({"BUILD_STRING", "BUILD_TUPLE", "BUILD_LIST"})
_COMPUTING = {"COMPARE_OP": 2, "CONTAINS_OP": 2, "IS_OP": 2, "UNARY_NEGATIVE": 1, "UNARY_NOT": 1, "UNARY_INVERT": 1}
"""Operands of instructions that give no text."""

_FILLED = re.compile(r"%[-+ #0-9.*]+[sra]")      # "%8s"
_NESTED = re.compile(r"\{[^{}]*\{")      # "{:{width}}"


@dataclass(frozen=True, slots=True)
class _Instructions:
    """Instructions of a code object, and their number by offset."""

    all: tuple[dis.Instruction, ...]
    index_at: dict[int, int]


@lru_cache(maxsize=256)
def _instructions_of(code: CodeType) -> _Instructions:
    found = tuple(dis.get_instructions(code))
    return _Instructions(found, {instruction.offset: index for index, instruction in enumerate(found)})


def _offset(frame: FrameType, instructions: _Instructions) -> int:
    """Offset of the instruction that a frame is at, which may be behind it: Python 3.11 skips the caches before it calls C functions."""
    offset = frame.f_lasti
    while offset > 0 and offset not in instructions.index_at:
        offset -= 2
    return offset


def use_of_text(frame: FrameType | None) -> str:
    """What becomes of the text that the code of `frame` makes or has made: "printed" by `print`, "logged" into a file, "shown" otherwise,
    "raised" as part of an exception, or "used"."""
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        library = module.partition(".")[0]
        if module == PRINTING:
            return "printed"
        if library in LOGGING:
            return "logged"
        if library in SHOWING or (library == "pprint" and frame.f_code.co_name in ("pprint", "pp")):
            return "shown"
        if library not in _PASSING and library != "pprint" and frame.f_code.co_name not in _TEXT_METHODS:
            return _use_in(frame)
        frame = frame.f_back
    return "used"


def is_printed_as_it_is(frame: FrameType, converted: bool) -> bool:
    """True if the text that the code of `frame` makes is an argument of `print` in a trace, as it is or as a part of an f-string, a sum or
    the result of `str.format`: nothing counts its letters, or fills it up to a width. A text that `str` or `repr` has `converted` may be
    filled up by what asks for it."""
    return not (converted and _fills_up(frame)) and _use_in(frame, whole=True) == "printed"


def percent_operands(frame: FrameType) -> tuple[str, Any] | None:
    """Operands of `text % values`, if that is the instruction that a frame is at."""
    flow, instructions = flow_of(frame.f_code) if READABLE else None, _instructions_of(frame.f_code)
    offset = _offset(frame, instructions)
    index, depth = instructions.index_at.get(offset), None if flow is None else flow.depths.get(offset)
    if index is None or not depth or instructions.all[index].opname != "BINARY_OP" or instructions.all[index].argrepr not in ("%", "%="):
        return None
    form, given = stack_of(frame, depth)[-2:]
    return (form, given) if type(form) is str else None


def _fills_up(frame: FrameType) -> bool:
    """True if the instruction that a frame is at may make more of the text of an object than `str` and `repr` do: `f"{x!r:>9}"`."""
    flow, instructions = flow_of(frame.f_code) if READABLE else None, _instructions_of(frame.f_code)
    offset = _offset(frame, instructions)
    index = instructions.index_at.get(offset)
    depth = None if flow is None else flow.depths.get(offset)
    if flow is None or index is None or depth is None:
        return True
    instruction = instructions.all[index + (instructions.all[index].opname == "PRECALL")]      # which calls functions that it knows
    if instruction.opname == "FORMAT_VALUE":
        return bool((instruction.arg or 0) & 4)
    if instruction.opname == "BINARY_OP":
        operands = percent_operands(frame)
        return operands is None or bool(_FILLED.search(operands[0]))
    if instruction.opname != "CALL":
        return instruction.opname not in ("CONVERT_VALUE", "FORMAT_SIMPLE")
    below = flow.depths.get(instruction.offset, 0) - (_operands(instruction) or 0)
    return not any(each in (str, repr) for each in stack_of(frame, depth)[below:below + 2])


def _use_in(frame: FrameType, whole: bool = False) -> str:
    """What becomes of the result of the instruction that a frame is at. Whatever is not understood is "used", and with `whole` whatever
    does more to it than to put other texts beside it."""
    flow = flow_of(frame.f_code) if READABLE else None
    if flow is None:
        return "used"
    instructions = _instructions_of(frame.f_code)
    offset = _offset(frame, instructions)
    index = instructions.index_at.get(offset)
    depth = flow.depths.get(offset)
    if index is None or depth is None:
        return "used"
    stack, place = stack_of(frame, depth), None     # place of the text on the stack; None before it is made
    for instruction in instructions.all[index:]:
        before = flow.depths.get(instruction.offset)
        taken = _operands(instruction)
        if instruction.opname in _NO_OPERANDS:
            continue
        if before is None or taken is None:
            return "used"
        below = before - taken
        if place is not None and below > place:
            continue
        if instruction.opname in ("CALL", "CALL_KW"):
            called = stack[below:below + 2]
            if place is None and any(type(text) is str and _NESTED.search(text.replace("{{", ""))
                                     for each in called for text in (each, getattr(each, "__self__", None))):
                return "used"
            if whole and place is not None:
                return "printed" if any(each is printing.printed for each in called) else "used"
            if len(called) < 2:
                return "used"
            if use := _use_by(called):
                return use
        elif place is not None and ((place == before - 1 and _has_format(instruction)) or (whole and not _is_put_beside(instruction))):
            return "used"
        elif instruction.opname == "POP_TOP":
            return "shown"
        elif instruction.opname in _COMPUTING or (place is None and instruction.opname not in (*_MADE_FROM, *_COLLECTING, "FORMAT_VALUE")):
            return "used"
        place = below
    return "used"


def _has_format(instruction: dis.Instruction) -> bool:
    """True if an instruction takes a format from the stack."""
    return instruction.opname == "FORMAT_WITH_SPEC" or (instruction.opname == "FORMAT_VALUE" and bool((instruction.arg or 0) & 4))


def _is_put_beside(instruction: dis.Instruction) -> bool:
    """True if an instruction puts texts beside each other, as they are."""
    is_sum = instruction.opname == "BINARY_OP" and instruction.argrepr in ("+", "+=")
    is_text = instruction.opname == "FORMAT_VALUE" and (instruction.arg or 0) in (0, 1)      # `{text}`, `{text!s}`
    return is_sum or is_text or instruction.opname in ("BUILD_STRING", "FORMAT_SIMPLE")


def _operands(instruction: dis.Instruction) -> int | None:
    """Number of objects that an instruction takes from the stack, to put one there; None for others."""
    name, number = instruction.opname, instruction.arg or 0
    if name in _MADE_FROM:
        return _MADE_FROM[name]
    if name in _COLLECTING:
        return number
    if name in ("BUILD_MAP", "BUILD_CONST_KEY_MAP"):
        return 2 * number if name == "BUILD_MAP" else number + 1
    if name in ("CALL", "CALL_KW"):     # before Python 3.12 another instruction takes the arguments
        return 1 - dis.stack_effect(instruction.opcode, instruction.arg)
    if name in _COMPUTING:
        return _COMPUTING[name]
    return {"FORMAT_VALUE": 1 + bool(number & 4), "LOAD_ATTR": 1, "LOAD_METHOD": 1, "BINARY_SUBSCR": 2, "POP_TOP": 1}.get(name)


def _use_by(called: list[Any]) -> str:
    """What a function makes of a text; empty if it makes another text. `called` are the function, or a place that is empty, and the
    function or the object whose method it is."""
    function = called[0] if called[0] is not None else called[1]
    if getattr(function, "__wrapped__", function) is print:      # what stands for it in a trace, too
        return "printed"
    if isinstance(function, type) and issubclass(function, BaseException):
        return "raised"
    if function in (str, repr, format, list, tuple, map):
        return ""
    owner = getattr(function, "__objclass__", None) or type(getattr(function, "__self__", None))
    if owner is str:
        return ""
    is_file = issubclass(owner, io.TextIOWrapper) and getattr(function, "__name__", "") == "write"
    library = str(getattr(function, "__module__", None) or "").partition(".")[0]
    return "logged" if is_file or library in LOGGING else "shown" if library in SHOWING else "used"
