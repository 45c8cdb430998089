"""Names and reads of code objects, from their instructions."""

from __future__ import annotations

import dis
import itertools
import operator
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from types import CodeType
from typing import NamedTuple

Reads = Counter[tuple[str, str]]
"""Counts of reads: of a variable ("variable", name; a local variable "local"), of an attribute ("attribute", name), or of an item of one
("variable item", name)."""

EVERYTHING = "*"
"""Mark for all names, in the names of code that computes names of attributes."""

GLOBALS = "globals()"
"""Mark for all globals, in the names of code that looks them up by a text that is computed, or asks for all at once."""

MODULES = "sys.modules"
"""Mark for all modules, in the names of code that looks them up by a text that is computed."""

FORMATS = "str.format()"
"""Mark in the names of code whose texts may name attributes, in fields like `{0.rate}`."""

FIELDS = "dataclasses.replace()"
"""Mark in the names of code that makes dataclasses of others."""

CLASSES = "type()"
"""Mark in the names of code that reaches the classes of objects."""

STORING = "place.name = value"
"""Mark in the names of code that binds attributes."""

MEMBERS = "in"
"""Mark in the names of code that asks for members of what a local variable holds."""

FILLS = "fills"
"""Kind of the counts in `Reads` of how often a container with this name is filled."""

VARIABLE_LOADS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
"""Instructions that load a variable which is not local."""

ATTRIBUTE_LOADS = frozenset({"LOAD_ATTR", "LOAD_METHOD", "LOAD_SUPER_ATTR"})
"""Instructions that load an attribute."""

_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "clear"})
_CHANGING = _FILLING | {
    "extendleft", "pop", "popleft", "popitem", "remove", "discard", "setdefault", "sort", "reverse", "rotate", "move_to_end", "heappush",
    "heappop", "heapify", "insort", "insort_left", "insort_right", "difference_update", "intersection_update",
    "symmetric_difference_update", "__setitem__", "__delitem__", "__iadd__", "__ior__"}
_CHANGING_STEPS = frozenset({"STORE_SUBSCR", "STORE_SLICE", "DELETE_SUBSCR"})
_LOCALS = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"})
_SILENT = frozenset({"CACHE", "EXTENDED_ARG", "PRECALL", "NOT_TAKEN", "RESUME", "NOP"})
_WHOLE = frozenset({
    "vars", "__dict__", "asdict", "astuple", "attrgetter", "__getattribute__", "dir", "getmembers", "getmembers_static",
    "getattr_static", "dumps", "__getstate__", "__reduce_ex__"})
_BY_TEXT = frozenset({"eval", "exec", "globals"})       # look up names that are given as text
_EVALUATING = frozenset({"eval", "exec"})
_OTHER_GLOBALS = frozenset({"__globals__", "f_globals"})
_FINDERS = frozenset({"modules", "import_module", "__import__", "resolve_name", "getmodule", "find_module", "reload"})
_ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "expandvars", "expanduser"})
_FORMATTING = frozenset({"format", "format_map", "vformat"})
_WRITING_DOWN = frozenset({"repr", "str", "format", "ascii", "print", "hash", "eq", "ne"})     # functions of a whole object
_SIZES = frozenset({"shape", "ndim", "dtype", "size"})
_FORMATTED = frozenset({"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "CONVERT_VALUE"})
_ASKING = frozenset({"hasattr", "getattr", "delattr"})
_CATCHING = frozenset({"AttributeError", "Exception", "BaseException"})
_ENDING = frozenset({
    "STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME", "STORE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "POP_TOP", "FOR_ITER",
    "RETURN_VALUE"})
_MAKING = frozenset({"BINARY_OP", "CALL", "CALL_KW", "COMPARE_OP"})
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_FIELD = re.compile(r"\{[^{}!:]*\.([^{}!:]*)")
_PAIRS = {
    "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"), "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST_BORROW", "LOAD_FAST_BORROW"),
    "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"), "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST")}


@lru_cache(maxsize=64)
def instructions(code: CodeType) -> tuple[dis.Instruction, ...]:
    """Return the instructions of a code object, without those that neither load, store nor compute; of one that loads or stores two local
    variables, as Python 3.13 and later have it, both halves."""
    return tuple(half for step in dis.get_instructions(code) if step.opname not in _SILENT for half in _halves(step))


def _halves(step: dis.Instruction) -> tuple[dis.Instruction, ...]:
    if step.opname not in _PAIRS:
        return (step,)
    return tuple(step._replace(opname=name, argval=variable) for name, variable in zip(_PAIRS[step.opname], step.argval, strict=True))


def nested_code(code: CodeType) -> Iterator[CodeType]:
    """Yield the code objects of the functions and classes that a code object defines."""
    return (constant for constant in code.co_consts if isinstance(constant, CodeType))


@lru_cache(maxsize=4096)
def without(code: CodeType, hidden: frozenset[CodeType]) -> CodeType:
    """Return the code without the functions `hidden` that it, or nested code, defines; the same object if there is none."""
    if not hidden:
        return code
    constants = tuple((None if constant in hidden else without(constant, hidden)) if isinstance(constant, CodeType) else constant
                      for constant in code.co_consts)
    return code if all(map(operator.is_, constants, code.co_consts)) else code.replace(co_consts=constants)


@lru_cache(maxsize=4096)
def cells_read_by(code: CodeType) -> frozenset[str]:
    """Return the names of the cells that a code object reads, or hands to code that it defines."""
    found = {step.argval for step in instructions(code) if step.opname.endswith("DEREF")}
    return frozenset(found).union(*(inner.co_freevars for inner in nested_code(code)))


@lru_cache(maxsize=4096)
def names_of(code: CodeType) -> frozenset[str]:
    """Return the names of globals and attributes in a code object and its nested ones, and the names given to `getattr`; `EVERYTHING` if
    such a name is computed, or if the code asks for all attributes at once.
    """
    names = {*code.co_names, *(text for text in _texts(code.co_consts) if text.isidentifier())}.union(*map(names_of, nested_code(code)))
    if not _BY_TEXT.isdisjoint(code.co_names):
        names |= globals_of(code)
    if not _OTHER_GLOBALS.isdisjoint(code.co_names) or _computes_globals(code):
        names.add(GLOBALS)
    found = _modules_found_by(code)
    if found:       # "package.module:rate"
        names |= ({MODULES} if EVERYTHING in found else set()).union(*map(_IDENTIFIER.findall, texts_of(code)))
    if not _FORMATTING.isdisjoint(code.co_names):
        names |= {FORMATS}.union(*map(fields_of, texts_of(code)))
    steps = instructions(code)
    if any(step.opname == "CONTAINS_OP" and before.opname.startswith("LOAD_FAST") for before, step in itertools.pairwise(steps)):
        names.add(MEMBERS)
    if "__class__" in code.co_names or "type" in code.co_names:
        names.add(CLASSES)
    if "setattr" in code.co_names or any(step.opname == "STORE_ATTR" for step in steps):
        names.add(STORING)
    by_position = any(step.opname == "MATCH_CLASS" for step in steps)
    texts = evaluated_by(code)
    names |= {GLOBALS} if texts.computed and texts.in_globals else set()
    if by_position or texts.computed or not _WHOLE.isdisjoint(code.co_names) or ("getattr" in code.co_names and _computes_names(code)):
        names.add(EVERYTHING)
    return frozenset(names)


def _texts(constant: object) -> Iterator[str]:
    """Yield the strings in a constant; the strings of a tuple are names that `match` looks for, or that are imported."""
    if isinstance(constant, str):
        yield constant
    elif isinstance(constant, tuple):
        for item in constant:
            yield from _texts(item)


@lru_cache(maxsize=4096)
def texts_of(code: CodeType) -> frozenset[str]:
    """Return the strings in a code object and its nested ones."""
    return frozenset(_texts(code.co_consts)).union(*map(texts_of, nested_code(code)))


@lru_cache(maxsize=4096)
def optional_attributes(code: CodeType) -> frozenset[str]:
    """Return the names of attributes that may be missing: code reads them with `hasattr` or `getattr`, or catches the error."""
    found: set[str] = set()
    if not _ASKING.isdisjoint(code.co_names):
        found |= {text for text in _texts(code.co_consts) if text.isidentifier()}
    if not _CATCHING.isdisjoint(code.co_names) and any(step.opname == "CHECK_EXC_MATCH" for step in instructions(code)):
        found |= {step.argval for step in instructions(code) if step.opname in ATTRIBUTE_LOADS}
    return frozenset(found).union(*map(optional_attributes, nested_code(code)))


@lru_cache(maxsize=4096)
def deleted_by(code: CodeType) -> frozenset[str]:
    """Return the names of attributes that a code object and its nested ones take away."""
    return frozenset(step.argval for step in instructions(code) if step.opname == "DELETE_ATTR").union(*map(deleted_by, nested_code(code)))


@lru_cache(maxsize=4096)
def imports_of(code: CodeType) -> frozenset[str]:
    """Return the modules that a code object and its nested ones import, or look up by a constant name."""
    found = {step.argval for step in instructions(code) if step.opname == "IMPORT_NAME"} | (_modules_found_by(code) - {EVERYTHING})
    return frozenset(found).union(*map(imports_of, nested_code(code)))


def _modules_found_by(code: CodeType) -> set[str]:
    """Names that code gives to `sys.modules`, `import_module` and the like; `EVERYTHING` if one is no constant. `__name__` may be one."""
    found: set[str] = set()
    if _FINDERS.isdisjoint(code.co_names):
        return {EVERYTHING} if "getattr" in code.co_names and _FINDERS.intersection(_texts(code.co_consts)) else found
    steps = [step for step in instructions(code) if step.opname != "PUSH_NULL"]
    for index, step in enumerate(steps):
        if step.argval not in _FINDERS or step.opname not in ATTRIBUTE_LOADS | VARIABLE_LOADS:
            continue
        asked = step.argval == "modules" and _constant_asked(steps, index)      # "torch" in sys.modules
        if asked:
            found.add(asked)
            continue
        name, after = next(((name, after) for name, after in zip(steps[index + 1:], steps[index + 2:], strict=False)
                            if name.argval not in ("get", "modules", "__getitem__")), (step, step))
        if step.argval == "modules" and name.opname.startswith("CALL"):     # of an `nn.Module`
            continue
        is_whole = after.opname.startswith("CALL") or _is_subscript(after)
        constant = is_whole and (name.opname == "LOAD_CONST" or name.argval == "__name__") and isinstance(name.argval, str)
        found.add(name.argval.partition(":")[0] if constant else EVERYTHING)
    return found


def _constant_asked(steps: Sequence[dis.Instruction], index: int) -> str:
    """The constant text that code asks whether the container loaded at `index` has; empty if there is none."""
    start = index - (steps[index].opname in ATTRIBUTE_LOADS)
    asks = start > 0 and index + 1 < len(steps) and steps[start - 1].opname == "LOAD_CONST" and steps[index + 1].opname == "CONTAINS_OP"
    return steps[start - 1].argval if asks and isinstance(steps[start - 1].argval, str) else ""


@lru_cache(maxsize=4096)
def environment_of(code: CodeType) -> frozenset[str]:
    """Return the names of variables of the environment that a code object and its nested ones read; `EVERYTHING` if one is no constant."""
    found: set[str] = set()
    if not _ENVIRONMENT.isdisjoint((*code.co_names, *code.co_freevars)):
        steps = [step for step in instructions(code) if step.opname != "PUSH_NULL"]
        for index, step, name in loads_of(steps):
            if name not in _ENVIRONMENT:
                continue
            key = _constant_asked(steps, index)
            after = [*steps[index + 1:index + 3], step, step]
            if name == "getenv" or after[0].argval == "get":
                given = _arguments(steps, index if name == "getenv" else index + 1)[:1]
                key = given[0][0].argval if given and len(given[0]) == 1 and given[0][0].opname == "LOAD_CONST" else ""
            elif after[0].opname == "LOAD_CONST" and _is_subscript(after[1]):
                key = after[0].argval
            found.add(key if isinstance(key, str) and key else EVERYTHING)
    return frozenset(found).union(*map(environment_of, nested_code(code)))


def _computes_globals(code: CodeType) -> bool:
    """True if code looks up globals by a text that is no constant, or asks for all globals."""
    if "globals" not in code.co_names:
        return False
    steps = [step for step in instructions(code) if step.opname != "PUSH_NULL"]
    for index, step in enumerate(steps):
        if step.argval != "globals" or step.opname not in VARIABLE_LOADS:
            continue
        after = [*steps[index + 1:index + 5], *[step] * 4]      # globals()["rate"], globals().get("rate"), "rate" in globals()
        if index > 0 and steps[index - 1].opname == "LOAD_CONST" and after[1].opname == "CONTAINS_OP":
            continue
        after = after[2:] if after[1].argval == "get" else after[1:]
        end = after[1]
        if after[0].opname != "LOAD_CONST" or not (_is_subscript(end) or end.opname.startswith(("CALL", "LOAD_CONST"))):
            return True
    return False


class Evaluated(NamedTuple):
    """Texts that code gives to `eval` and `exec`: `texts` are constants, `names` variables and attributes that hold them, and `computed`
    says that there are others. `in_globals`: their names are those of the code's globals, as no dict of names is given."""

    texts: frozenset[str] = frozenset()
    names: frozenset[str] = frozenset()
    computed: bool = False
    in_globals: bool = False


@lru_cache(maxsize=4096)
def evaluated_by(code: CodeType) -> Evaluated:
    """Return the texts that a code object and its nested ones evaluate."""
    inner = [evaluated_by(nested) for nested in nested_code(code)]
    texts, names = set().union(*(each.texts for each in inner)), set().union(*(each.names for each in inner))
    computed, in_globals = any(each.computed for each in inner), any(each.in_globals for each in inner)
    steps = [] if _EVALUATING.isdisjoint(code.co_names) else instructions(code)
    for index, step, name in loads_of(steps):
        if name not in _EVALUATING or step.opname not in VARIABLE_LOADS:
            continue
        arguments = _arguments(steps, index)
        text = arguments[0] if arguments else []
        if len(text) == 1 and text[0].opname == "LOAD_CONST" and isinstance(text[0].argval, str):
            texts.add(text[0].argval)
        elif text and (text[0].opname in VARIABLE_LOADS or len(text) > 1) and all(part.opname in ATTRIBUTE_LOADS for part in text[1:]):
            names.add(text[-1].argval)
        else:
            computed = True
        in_globals = in_globals or len(arguments) < 2 or (len(arguments[1]) == 1 and arguments[1][0].argval is None)
    return Evaluated(frozenset(texts), frozenset(names), computed, in_globals)


def _arguments(steps: Sequence[dis.Instruction], index: int) -> list[Sequence[dis.Instruction]]:
    """Return the instructions of each positional argument of the call of the function that the instruction at `index` loads; empty if they
    are not known."""
    user, _ = consumer_of(steps, index)
    if user is None or user.opname != "CALL":
        return []
    inner = [step for step in steps[index + 1:_position(steps, user)] if step.opname not in ("PUSH_NULL", "KW_NAMES")]
    depth, ends = 0, dict[int, int]()
    for position, step in enumerate(inner):
        takes, gives = _effect(step) or (0, 0)
        gives -= step.opname == "LOAD_GLOBAL" and bool((step.arg or 0) & 1)     # the null is no argument
        takes -= step.opname == "CALL"
        depth += gives - takes
        ends[depth] = position + 1
    bounds = [0, *(ends.get(count, 0) for count in range(1, (user.arg or 0) + 1))]
    return [inner[start:end] for start, end in itertools.pairwise(bounds)]


@lru_cache(maxsize=4096)
def bound_by_text(code: CodeType) -> frozenset[str]:
    """Return the constant names of attributes that a code object and its nested ones bind by `setattr(o, "name", value)`, and that are
    texts for nothing else."""
    found: set[str] = set()
    if "setattr" in code.co_names:
        steps = [step for step in instructions(code) if step.opname != "PUSH_NULL"]
        given = [_arguments(steps, index) for index, _, name in loads_of(steps) if name == "setattr"]
        uses = Counter(each[1][0].argval for each in given if len(each) == 3 and len(each[1]) == 1 and each[1][0].opname == "LOAD_CONST")
        loads = Counter(step.argval for step in steps if step.opname == "LOAD_CONST" and isinstance(step.argval, str))
        found = {name for name, count in uses.items() if count == loads[name]}
    inner = nested_code(code)
    return frozenset(found).union(*map(bound_by_text, inner)).difference(*(texts_of(each) - bound_by_text(each) for each in inner))


@lru_cache(maxsize=4096)
def code_of_text(text: str) -> CodeType | None:
    """Return the code of a text for `eval` or `exec`; None if it is no Python."""
    for mode in ("eval", "exec"):
        with suppress(SyntaxError, ValueError):
            return compile(text.lstrip(" \t"), "<text>", mode, dont_inherit=True)
    return None


@lru_cache(maxsize=4096)
def fields_of(text: str) -> frozenset[str]:
    """Return the names of attributes in the fields of a text for `str.format`: `{0.rate}`."""
    return frozenset(name for field in _FIELD.findall(text) for name in _IDENTIFIER.findall(field))


@lru_cache(maxsize=4096)
def whole_of(code: CodeType) -> frozenset[str]:
    """Return the names of values that a code object and its nested ones compare (`a == b`) or write down (`repr(a)`, `f"{a}"`) as a whole;
    `EVERYTHING` if parameters are compared, of which nobody knows what they stand for. Other local variables are most often numbers."""
    found: set[str] = set()
    steps = instructions(code)
    parameters = {*code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]}
    writes = not _WRITING_DOWN.isdisjoint(code.co_names)
    for index, step, name in loads_of(steps):
        user, _ = consumer_of(steps, index)
        if user is None or name in _SIZES:
            continue
        compared = user.opname == "COMPARE_OP" and str(user.argval).strip() in ("==", "!=") and not _is_number(steps, user)
        if compared or user.opname in _FORMATTED or user.opname == "CONTAINS_OP" or (writes and user.opname == "CALL"):
            if step.opname in ATTRIBUTE_LOADS | VARIABLE_LOADS:
                found.add(name)
            elif compared and parameters.issuperset(_locals_before(steps, user)):
                found.add(EVERYTHING)
    return frozenset(found).union(*map(whole_of, nested_code(code)))


def _locals_before(steps: Sequence[dis.Instruction], comparison: dis.Instruction) -> set[str]:
    """Names of the local variables that are loaded right before a comparison."""
    end = _position(steps, comparison)
    return {step.argval for step in steps[max(end - 2, 0):end] if step.opname.startswith("LOAD_FAST")}


def _position(steps: Sequence[dis.Instruction], wanted: dis.Instruction) -> int:
    return next(index for index, step in enumerate(steps) if step.offset == wanted.offset)


def _is_number(steps: Sequence[dis.Instruction], comparison: dis.Instruction) -> bool:
    """True if the second operand of a comparison is a constant, or made by an operator, or a size of an array."""
    last = steps[_position(steps, comparison) - 1]
    return last.opname.startswith(("LOAD_CONST", "LOAD_SMALL_INT", "BINARY_OP", "UNARY")) or last.argval in _SIZES


@lru_cache(maxsize=4096)
def stored_by(code: CodeType, containers: frozenset[str] = frozenset()) -> frozenset[str]:
    """Return the names in statements that store into items (`out[:] = y`), where NumPy copies without calling a method; `EVERYTHING` if
    a local variable, or an item or attribute of one, is stored unchanged. Items of `containers`, names of variables that hold no arrays, do
    not count.
    """
    found: set[str] = set()
    steps = instructions(code)
    for end, step in enumerate(steps):
        if step.opname not in ("STORE_SUBSCR", "STORE_SLICE"):
            continue
        target, place = steps[max(end - 2, 0)], steps[end - 1]
        if target.opname in VARIABLE_LOADS and target.argval in containers and place.opname.startswith("LOAD_"):
            continue
        start = next((index + 1 for index in range(end - 1, -1, -1) if steps[index].opname in _ENDING), 0)
        depth, value_end, known = 0, end, True
        for index in range(start, end):
            effect = _effect(steps[index])
            known = known and effect is not None
            depth += effect[1] - effect[0] if effect is not None else 0
            value_end = index + 1 if depth == 1 else value_end
        value = steps[start:value_end if known else end]
        if known and value and value[-1].opname == "BINARY_OP" and not any(step.opname.startswith(("BUILD_", "CALL")) for step in value):
            continue        # a new array, of operands that are asked for it
        found |= {name for _, _, name in loads_of(value)}
        if any(step.opname.startswith("LOAD_FAST") for step in value) and not (known and any(step.opname in _MAKING for step in value)):
            found.add(EVERYTHING)
    return frozenset(found).union(*(stored_by(inner, containers) for inner in nested_code(code)))


@lru_cache(maxsize=4096)
def changes_containers(code: CodeType) -> bool:
    """True if a code object, or a nested one, may change the items of a container."""
    return not _CHANGING.isdisjoint(code.co_names) or any(
        step.opname in _CHANGING_STEPS or (step.opname == "BINARY_OP" and step.argrepr in ("+=", "*=", "|=", "&=", "-=", "^="))
        for step in instructions(code)) or any(map(changes_containers, nested_code(code)))


def _computes_names(code: CodeType) -> bool:
    """True if code gives `getattr` a name that is no constant."""
    steps = instructions(code)
    for index, step in enumerate(steps):
        if step.argval == "getattr" and step.opname in VARIABLE_LOADS:
            call = next((later for later in range(index + 1, len(steps)) if steps[later].opname.startswith("CALL")), index)
            name = call - 2 if steps[call].argval == 3 else call - 1
            if not isinstance(steps[name].argval, str) or steps[name].opname != "LOAD_CONST":
                return True
    return False


@lru_cache(maxsize=4096)
def globals_of(code: CodeType) -> frozenset[str]:
    """Return the names that a code object and its nested ones look up as globals, without attributes; also the names in strings if the
    code looks up names that are given as text."""
    names = {step.argval for step in instructions(code) if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    if not _BY_TEXT.isdisjoint(names):
        names |= set(_IDENTIFIER.findall(" ".join(constant for constant in code.co_consts if isinstance(constant, str))))
    return frozenset(names.union(*map(globals_of, nested_code(code))))


@lru_cache(maxsize=4096)
def reads_of(code: CodeType) -> Reads:
    """Count the reads of a code object and its nested ones, but for reads that only change the object (`n += 1`, `items.append(x)`)."""
    found: Reads = Counter()
    steps = instructions(code)
    names = [step.opname for step in steps] + ["", ""]
    for index, step, name in loads_of(steps):
        is_attribute = step.opname in ATTRIBUTE_LOADS
        user, above = consumer_of(steps, index)
        filler = consumer_of(steps, steps.index(user))[0] if user is not None and above == 1 and _is_subscript(user) else user
        filled = filler is not None and filler.opname in ATTRIBUTE_LOADS and filler.argval in _FILLING      # items.append, d[key].append
        item_changed = user is not None and above == 1 and user.opname in ("COPY", "STORE_SUBSCR")     # d[key] += 1, d[key] = value
        changed = is_attribute and names[index - 1] == "COPY"                                           # o.n += 1
        item = user is not None and (user.opname == "CONTAINS_OP" if above == 0 else above == 1 and _is_subscript(user))
        kind = ("attribute" if is_attribute else "variable" if step.opname in VARIABLE_LOADS else "local") + (" item" if item else "")
        found[kind, name] += not (filled or item_changed or changed)
        found[FILLS, name] += filled or item_changed
    for index, step in enumerate(steps):
        if step.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_NAME") and index and names[index - 1] == "BINARY_OP" \
                and steps[index - 1].argrepr.endswith("="):
            found["variable", step.argval] -= 1
    for inner in nested_code(code):
        found.update(reads_of(inner))
    return found


@lru_cache(maxsize=4096)
def compares_type(code: CodeType) -> bool:
    """True if code, or code within it, compares with `type` itself: `type(x) is type`."""
    before = ""
    for step in instructions(code):
        if step.opname == "IS_OP" and before == "type":
            return True
        before = str(step.argval)
    return any(map(compares_type, nested_code(code)))


@lru_cache(maxsize=4096)
def only_calls(code: CodeType, name: str) -> bool:
    """True if code, and code within it, does nothing else with a global than to call it with one argument."""
    steps = instructions(code)
    for index, step, loaded in loads_of(steps):
        if loaded == name and step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            user, above = consumer_of(steps, index)
            if user is None or user.opname != "CALL" or user.arg != 1 or above != 1:
                return False
    return _EVALUATING.isdisjoint(code.co_names) and all(only_calls(inner, name) for inner in nested_code(code))


def is_call_of(code: CodeType, offset: int, name: str) -> bool:
    """True if the instruction at an offset calls a function or method of this name."""
    steps = instructions(code)
    found = (consumer_of(steps, index)[0] for index, _, loaded in loads_of(steps) if loaded == name)
    return any(user is not None and user.offset == offset for user in found)


def consumer_of(steps: Sequence[dis.Instruction], index: int) -> tuple[dis.Instruction | None, int]:
    """Return the instruction that takes the value which the instruction at `index` pushes, and how many values lie above it then; None if
    an instruction in between has an unknown stack effect: expressions of names, numbers, operators, items, attributes and calls are known.
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
    """Numbers of values that an instruction pops and pushes; None if they are not known."""
    name, arg = step.opname, step.arg or 0
    if name.startswith("LOAD_") and name not in ATTRIBUTE_LOADS:
        return 0, 2 if name == "LOAD_GLOBAL" and arg & 1 else 1
    if name in ATTRIBUTE_LOADS:
        return 3 if name == "LOAD_SUPER_ATTR" else 1, 2 if name == "LOAD_METHOD" or (sys.version_info >= (3, 12) and arg & 1) else 1
    if name in ("BUILD_MAP", "BUILD_CONST_KEY_MAP"):
        return arg * 2 if name == "BUILD_MAP" else arg + 1, 1
    if name in ("CALL", "CALL_KW", "BUILD_TUPLE", "BUILD_LIST", "BUILD_SLICE"):
        return arg + {"CALL": 2, "CALL_KW": 3}.get(name, 0), 1
    if name in _FORMATTED or name == "BUILD_STRING":
        spec = name == "FORMAT_WITH_SPEC" or (name == "FORMAT_VALUE" and arg & 4)
        return arg if name == "BUILD_STRING" else 2 if spec else 1, 1
    return (arg, arg + 1) if name == "COPY" else _EFFECTS.get(name)


_EFFECTS = {
    "PUSH_NULL": (0, 1), **dict.fromkeys(("KW_NAMES", "COPY_FREE_VARS", "MAKE_CELL"), (0, 0)),
    **dict.fromkeys(("BINARY_OP", "BINARY_SUBSCR", "COMPARE_OP", "CONTAINS_OP", "IS_OP"), (2, 1)),
    **dict.fromkeys(("UNARY_NEGATIVE", "UNARY_NOT", "UNARY_INVERT", "GET_ITER"), (1, 1)), "STORE_SUBSCR": (3, 0), "STORE_ATTR": (2, 0),
    "BINARY_SLICE": (3, 1), "STORE_SLICE": (4, 0), "TO_BOOL": (1, 1),
    **dict.fromkeys(("STORE_FAST", "STORE_GLOBAL", "STORE_DEREF", "STORE_NAME", "RETURN_VALUE", "POP_TOP"), (1, 0))}


def loads_of(steps: Sequence[dis.Instruction]) -> Iterator[tuple[int, dis.Instruction, str]]:
    """Yield the index, the instruction and the name of each load of a variable or an attribute."""
    for index, step in enumerate(steps):
        if step.opname in ATTRIBUTE_LOADS or step.opname in VARIABLE_LOADS or step.opname in _LOCALS:
            yield index, step, step.argval


def _is_subscript(step: dis.Instruction) -> bool:
    return step.opname == "BINARY_SUBSCR" or (step.opname == "BINARY_OP" and step.argrepr == "[]")
