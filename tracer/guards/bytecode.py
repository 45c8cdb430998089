"""What code objects name and read, from their instructions."""

from __future__ import annotations

import dis
import re
import sys
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from types import CodeType

Reads = Counter[tuple[str, str]]
"""How often code reads a variable ("variable", name; of the code itself "local"), or an attribute ("attribute", name), or an item of one
("variable item", name)."""

EVERYTHING = "*"
"""Among the names of code that reads attributes by names which it computes."""

FILLS = "fills"
"""The kind of what counts how often a container with this name is filled."""

_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "clear"})
_VARIABLES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOT_TAKEN", "RESUME", "NOP"})
_WHOLE = frozenset({"vars", "__dict__", "asdict", "astuple", "attrgetter", "__getattribute__", "eval", "exec"})
_BY_TEXT = frozenset({"eval", "exec", "globals"})       # what looks names up that stand in a string
_ASKING = frozenset({"hasattr", "getattr", "delattr"})
_CATCHING = frozenset({"AttributeError", "Exception", "BaseException"})
_ENDING = frozenset({
    "STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME", "STORE_SUBSCR", "STORE_ATTR", "POP_TOP", "FOR_ITER", "RETURN_VALUE"})
_MAKING = frozenset({"BINARY_OP", "CALL", "COMPARE_OP"})
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> frozenset[str]:
    """The names of globals and attributes in a code object and in those nested in it; also those for `getattr`, and `EVERYTHING` where
    such a name is computed, or where all attributes are asked for at once.
    """
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            names |= names_of(constant)
        else:
            names |= {text for text in _texts(constant) if text.isidentifier()}
    if not _BY_TEXT.isdisjoint(code.co_names):
        names |= globals_of(code)
    by_position = any(step.opname == "MATCH_CLASS" for step in dis.get_instructions(code))
    if by_position or not _WHOLE.isdisjoint(code.co_names) or ("getattr" in code.co_names and _computes_names(code)):
        names.add(EVERYTHING)
    return frozenset(names)


def _texts(constant: object) -> Iterator[str]:
    """The strings in a constant; those of a tuple are names that `match` looks for, or that are imported."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple):
        for item in constant:
            yield from _texts(item)


@lru_cache(maxsize=4096)
def texts_of(code: CodeType) -> frozenset[str]:
    """The strings in a code object and in those nested in it."""
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(_texts(code.co_consts)).union(*map(texts_of, inner))


@lru_cache(maxsize=4096)
def optional_attributes(code: CodeType) -> frozenset[str]:
    """The names of attributes that code asks for where there may be none: with `hasattr`, `getattr`, or where it catches the error."""
    found: set[str] = set()
    if not _ASKING.isdisjoint(code.co_names):
        found |= {text for text in _texts(code.co_consts) if text.isidentifier()}
    if not _CATCHING.isdisjoint(code.co_names) and any(step.opname == "CHECK_EXC_MATCH" for step in dis.get_instructions(code)):
        found |= {step.argval for step in dis.get_instructions(code) if step.opname in _ATTRIBUTES}
    return frozenset(found).union(*(optional_attributes(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


@lru_cache(maxsize=4096)
def imports_of(code: CodeType) -> frozenset[str]:
    """The modules that a code object, or one nested in it, imports."""
    found = {step.argval for step in dis.get_instructions(code) if step.opname == "IMPORT_NAME"}
    return frozenset(found).union(*(imports_of(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


@lru_cache(maxsize=4096)
def stored_by(code: CodeType) -> frozenset[str]:
    """The names in statements that store into items (`out[:] = y`), where NumPy copies without a word; `EVERYTHING` where a local
    variable, or a part of one, is stored as it is.
    """
    found: set[str] = set()
    steps = _steps(code)
    for end, step in enumerate(steps):
        if step.opname != "STORE_SUBSCR":
            continue
        start = next((index + 1 for index in range(end - 1, -1, -1) if steps[index].opname in _ENDING), 0)
        depth, value_end, known = 0, end, True
        for index in range(start, end):
            effect = _effect(steps[index])
            known = known and effect is not None
            depth += effect[1] - effect[0] if effect is not None else 0
            value_end = index + 1 if depth == 1 else value_end
        value = steps[start:value_end if known else end]
        found |= {name for _, _, name in _loads(value)}
        if any(step.opname.startswith("LOAD_FAST") for step in value) and not (known and any(step.opname in _MAKING for step in value)):
            found.add(EVERYTHING)
    return frozenset(found).union(*(stored_by(constant) for constant in code.co_consts if isinstance(constant, CodeType)))


def _computes_names(code: CodeType) -> bool:
    """True if a name that is given to `getattr` is no constant."""
    steps = _steps(code)
    for index, step in enumerate(steps):
        if step.argval == "getattr" and step.opname in _VARIABLES:
            call = next((later for later in range(index + 1, len(steps)) if steps[later].opname.startswith("CALL")), index)
            name = call - 2 if steps[call].argval == 3 else call - 1
            if not isinstance(steps[name].argval, str) or steps[name].opname != "LOAD_CONST":
                return True
    return False


@lru_cache(maxsize=4096)
def globals_of(code: CodeType) -> frozenset[str]:
    """The names that a code object, or one nested in it, looks up as globals: not those of attributes; also those in strings, where it
    looks names up that are given as text."""
    names = {step.argval for step in dis.get_instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    if not _BY_TEXT.isdisjoint(names):
        names |= set(_IDENTIFIER.findall(" ".join(constant for constant in code.co_consts if isinstance(constant, str))))
    return frozenset(names.union(*(globals_of(constant) for constant in code.co_consts if isinstance(constant, CodeType))))


@lru_cache(maxsize=4096)
def reads_of(code: CodeType) -> Reads:
    """What a code object, and those nested in it, read; not what is read only to be changed (`n += 1`, `items.append(x)`)."""
    found: Reads = Counter()
    steps = _steps(code)
    names = [step.opname for step in steps] + ["", ""]
    for index, step, name in _loads(steps):
        is_attribute = step.opname in _ATTRIBUTES
        user, above = _consumer(steps, index)
        filled = user is not None and user.opname in _ATTRIBUTES and user.argval in _FILLING
        item_changed = user is not None and above == 1 and user.opname in ("COPY", "STORE_SUBSCR")     # d[key] += 1, d[key] = value
        changed = is_attribute and names[index - 1] == "COPY"                                           # o.n += 1
        item = user is not None and (user.opname == "CONTAINS_OP" if above == 0 else above == 1 and _is_subscript(user))
        kind = ("attribute" if is_attribute else "variable" if step.opname in _VARIABLES else "local") + (" item" if item else "")
        found[kind, name] += not (filled or item_changed or changed)
        found[FILLS, name] += filled or item_changed
    for index, step in enumerate(steps):
        if step.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_NAME") and index and names[index - 1] == "BINARY_OP" \
                and steps[index - 1].argrepr.endswith("="):
            found["variable", step.argval] -= 1
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(reads_of(constant))
    return found


def _consumer(steps: list[dis.Instruction], index: int) -> tuple[dis.Instruction | None, int]:
    """The instruction that takes what the one at `place` puts on the stack, and how many values lie above it then; None where an
    instruction comes before that is none of an expression of names, numbers, operators, items, attributes and calls.
    """
    above = 0
    for step in steps[index + 1:]:
        effect = _effect(step)
        if effect is None:
            return None, 0
        takes, gives = effect
        if takes > above:
            return step, above
        above += gives - takes
    return None, 0


def _effect(step: dis.Instruction) -> tuple[int, int] | None:
    """How many values an instruction takes from the stack, and how many it puts there."""
    name, arg = step.opname, step.arg or 0
    if name.startswith("LOAD_") and name not in _ATTRIBUTES:
        both = isinstance(step.argval, tuple) or (name == "LOAD_GLOBAL" and arg & 1)
        return 0, 2 if both else 1
    if name in _ATTRIBUTES:
        return 1, 2 if name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and arg & 1) else 1
    if name in ("CALL", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE"):
        return arg + 2 * (name == "CALL"), 1
    return (arg, arg + 1) if name == "COPY" else _EFFECTS.get(name)


_EFFECTS = {
    "PUSH_NULL": (0, 1), "KW_NAMES": (0, 0), **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "IS_OP"), (2, 1)),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "GET_ITER"), (1, 1)), "STORE_SUBSCR": (3, 0), "STORE_ATTR": (2, 0),
    **dict.fromkeys(("STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME", "RETURN_VALUE", "POP_TOP"), (1, 0))}


def _loads(steps: list[dis.Instruction]) -> Iterator[tuple[int, dis.Instruction, str]]:
    """The instructions that load a variable or an attribute, with their places and the name; two of some that load two."""
    for index, step in enumerate(steps):
        if step.opname in _ATTRIBUTES or step.opname in _VARIABLES or step.opname in _LOCALS:
            yield index, step, step.argval
        elif isinstance(step.argval, tuple):
            yield from ((index, step, name) for name in step.argval if isinstance(name, str))


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")


def _steps(code: CodeType) -> list[dis.Instruction]:
    return [step for step in dis.get_instructions(code) if step.opname not in _SILENT]
