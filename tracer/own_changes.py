"""Refuses functions whose result depends on numbers and lists outside of them that they change themselves: counters, say."""

from __future__ import annotations

import dis
import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from adjit.ir.errors import TraceError
from adjit.tracer.guards import NUMBERS, Source, find_codes
from adjit.tracer.source import find_user_location

Reads = Counter[tuple[str, str]]
"""How often code reads a variable ("variable", name) or an attribute ("attribute", name), or an item of it ("variable item", name)."""

_FILLING = frozenset({"append", "appendleft", "extend", "insert", "add", "update", "clear"})
_VARIABLES = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})


def check_own_changes(before: Mapping[str, Source], after: Mapping[str, Source], roots: Sequence[Any]) -> None:
    """Raise `TraceError` where a number or the length of a list is not what it was before the trace, and the function reads it for more
    than to change it. What is filled once (a memo, an attribute that was None) is fine: it does not change again.
    """
    reads: Reads | None = None
    for path, source in after.items():
        then = before[path].value if path in before else None
        if not isinstance(then, NUMBERS) or not isinstance(source.value, NUMBERS) or repr(then) == repr(source.value):
            continue
        name = path
        if path.startswith("len("):
            name = path[len("len("):-1]
            if name in after and not isinstance(after[name].value, (list, deque)):
                continue
        base = re.sub(r"(\[[^\[\]]*\])+$", "", name)
        kind = "attribute" if "." in base else "variable"
        base = base.rpartition(".")[2]
        if reads is None:
            reads = Counter()
            for code in find_codes(roots):
                reads.update(reads_of(code))
        if reads[kind, base] > 0 or (not path.startswith("len(") and reads[f"{kind} item", base] > 0):
            raise TraceError(
                f"the compiled function changes {path} from {then!r} to {source.value!r}, and reads it too: the compiled program would go "
                "on with the number that was there when it was traced", find_user_location(),
                hint="keep what changes in a tensor and write to it in place (count += 1), pass it as an argument, or change it outside of "
                     "the function")


@lru_cache(maxsize=4096)
def reads_of(code: CodeType) -> Reads:
    """What a code object, and those nested in it, read; not what is read only to be changed (`n += 1`, `items.append(x)`)."""
    found: Reads = Counter()
    steps = [step for step in dis.get_instructions(code) if step.opname not in ("CACHE", "EXTENDED_ARG", "PRECALL", "PUSH_NULL")]
    names = [step.opname for step in steps] + ["", ""]
    for place, step in enumerate(steps):
        is_attribute = step.opname in _ATTRIBUTES
        if is_attribute or step.opname in _VARIABLES:
            filled = names[place + 1] in _ATTRIBUTES and steps[place + 1].argval in _FILLING
            item_changed = names[place + 2] in ("COPY", "STORE_SUBSCR")         # d[key] += 1, d[key] = value
            changed = is_attribute and names[place - 1] == "COPY"               # o.n += 1
            kind = ("attribute" if is_attribute else "variable") + (" item" if names[place + 2] == "BINARY_SUBSCR" else "")
            found[kind, step.argval] += not (filled or item_changed or changed)
        elif step.opname in ("STORE_GLOBAL", "STORE_DEREF", "STORE_NAME") and place and names[place - 1] == "BINARY_OP" \
                and steps[place - 1].argrepr.endswith("="):
            found["variable", step.argval] -= 1
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            found.update(reads_of(constant))
    return found
