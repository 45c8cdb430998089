"""Exceptions that the user's code catches: those that Python would raise for values, and refusals.

`try: a / b` and `except ZeroDivisionError`:

A program raises none of these: it gives NaN and inf, as NumPy does. But code that handles an exception decides by it. There the trace asks
whether the exception would be raised for the values of this call, a decision as others are, and raises it.

NumPy raises no refusal, such as `UnsupportedError`: where a handler that does not name adjit's errors catches one, as `except Exception`
does, the function would go on by a way that it does not go without adjit. So it is raised again when the function ends.
"""

from __future__ import annotations

import dis
import sys
from functools import lru_cache
from types import CodeType, FrameType
from typing import Any

from adjit.ir.errors import REFUSAL_OBSERVERS, AdjitError
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import is_ours

_Handler = tuple[tuple[str, Any], ...] | None
"""How a handler computes the classes that it catches, as instructions; None for one that catches everything."""


def is_caught(*kinds: type[BaseException]) -> bool:
    """True if the traced code would catch one of these exceptions where it is now, in the function under way or in one that called it."""
    scope = active_scope()
    if scope is None or scope.root.values is None:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if frame.f_code.co_exceptiontable and not is_ours(module):
            if any(_catches(handler, frame, kinds) for handler in _handlers_at(frame.f_code, frame.f_lasti)):
                return True
        elif (module, frame.f_code.co_name) in _TRACES:
            return False
        frame = frame.f_back
    return False


_TRACES = frozenset({("adjit.tracer.trace", "_call"), ("adjit.eager.call", "_trace")})
"""Functions that trace others. What called them catches no exceptions of the traced code: that of eager tensors raises at its values."""

_PASSING = frozenset({"adjit.tracer.dispatch", "adjit.tracer.tracebacks"})
"""Modules that catch errors to raise them again."""


def is_caught_as_numpys(kind: type[Exception]) -> bool:
    """True if the traced function is about to catch an error of this kind of adjit's, by a handler that does not name adjit's errors."""
    scope = active_scope()
    if scope is None or scope.evaluates:
        return False
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "adjit.tracer.trace" and frame.f_code.co_name == "_call":
            return False
        for handler in _handlers_at(frame.f_code, frame.f_lasti) if frame.f_code.co_exceptiontable and module not in _PASSING else ():
            if _catches(handler, frame, (kind,)):
                return not is_ours(module) and not any(issubclass(each, AdjitError) for each in _caught_by(handler or (), frame))
        frame = frame.f_back
    return False


def note_refusal(error: AdjitError) -> None:
    """Keep a refusal that the traced function is about to catch. A copy of it: the error itself will hold the frames that it passes."""
    scope = active_scope()
    if scope is None or scope.evaluates or scope.root.refused is not None:
        return
    kind = type(error)
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module == "adjit.tracer.trace" and frame.f_code.co_name == "_call":
            return
        if frame.f_code.co_exceptiontable and module not in _PASSING:
            for handler in _handlers_at(frame.f_code, frame.f_lasti):
                caught = [] if handler is None else _caught_by(handler, frame)
                if any(issubclass(each, AdjitError) and issubclass(kind, each) for each in caught):
                    return      # code that knows of refusals
                if is_ours(module) and any(issubclass(kind, each) for each in caught):
                    return
                if not is_ours(module) and _catches(handler, frame, (kind,)):
                    copy = kind.__new__(kind)
                    AdjitError.__init__(copy, error.message, error.location, error.hint)
                    scope.root.refused = copy
                    return
        frame = frame.f_back


REFUSAL_OBSERVERS.append(note_refusal)


def check_refused(scope: Scope) -> None:
    """Raise the refusal that the traced function caught, if there is one."""
    error = scope.root.refused
    if error is not None:
        caught = "the function caught this error, which NumPy does not raise: without it, other code would run"
        error.hint = f"{error.hint}\n    {caught}" if error.hint else caught
        raise error


def _catches(handler: _Handler, frame: FrameType, kinds: tuple[type[BaseException], ...]) -> bool:
    """True if a handler catches one of `kinds`, as far as its names tell."""
    if handler is None:
        return True
    return any(issubclass(kind, each) for each in _caught_by(handler, frame) for kind in kinds)


def _caught_by(handler: tuple[tuple[str, Any], ...], frame: FrameType) -> list[type]:
    """The classes that a handler catches, as far as its names tell."""
    stack: list[Any] = []
    for name, argument in handler:
        if name == "attribute":
            stack[-1] = getattr(stack[-1], argument, None)
        elif name == "tuple":
            stack[len(stack) - argument:] = [tuple(stack[len(stack) - argument:])]
        else:
            spaces = (frame.f_locals,) if name == "local" else (frame.f_globals, frame.f_builtins)
            stack.append(next((space[argument] for space in spaces if argument in space), None))
    caught = stack[-1] if stack else ()
    return [each for each in (caught if isinstance(caught, tuple) else (caught,)) if isinstance(each, type)]


@lru_cache(maxsize=4096)
def _handlers_at(code: CodeType, offset: int) -> tuple[_Handler, ...]:
    """The handlers around an instruction, from the inside out."""
    entries = getattr(dis.Bytecode(code), "exception_entries", ())
    instructions = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "NOP", "EXTENDED_ARG", "NOT_TAKEN")]
    found: list[_Handler] = []
    seen = set[int]()
    while (entry := next((each for each in entries if each.start <= offset < each.end), None)) and entry.target not in seen:
        offset = entry.target       # an exception that a handler does not catch is raised again there
        seen.add(offset)
        index = next(i for i, each in enumerate(instructions) if each.offset >= offset)
        if instructions[index + 1].opname == "WITH_EXCEPT_START" and "suppress" in code.co_names:
            found.append(None)      # of contextlib.suppress, which may catch anything
        found += _handlers(instructions, index)
    return tuple(found)


def _handlers(instructions: list[dis.Instruction], index: int) -> list[_Handler]:
    """The `except` clauses that begin at an instruction; none if it begins a `finally`, a `with` or the end of another clause."""
    if instructions[index].opname != "PUSH_EXC_INFO":
        return []
    found: list[_Handler] = []
    index += 1
    if instructions[index].opname == "POP_TOP":
        return [None]
    steps: list[tuple[str, Any]] = []
    while True:
        instruction = instructions[index]
        name = instruction.opname
        if name in ("LOAD_GLOBAL", "LOAD_NAME"):
            steps.append(("global", instruction.argval))
        elif name.startswith(("LOAD_FAST", "LOAD_DEREF")):
            steps.append(("local", instruction.argval))
        elif name == "LOAD_ATTR":
            steps.append(("attribute", instruction.argval))
        elif name == "BUILD_TUPLE":
            steps.append(("tuple", instruction.argval))
        elif name == "CHECK_EXC_MATCH":
            found.append(tuple(steps))
            steps = []
            target = instructions[index + 1].argval      # of the jump to the next clause
            index = next(i for i, each in enumerate(instructions) if each.offset >= target) - 1
        elif name == "POP_TOP" and not steps:
            return [*found, None]
        else:
            return found
        index += 1
