"""What a function changes outside of itself while it is traced: refused where the result depends on it, else no matter of the program."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from types import CodeType
from typing import Any

from adjit.ir.errors import TraceError
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.guards.bytecode import FILLS, Reads, reads_of
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source
from adjit.tracer.guards.trace_guards import NUMBERS, same
from adjit.tracer.user_location import find_user_location

Key = tuple[str, int]
_COUNT = re.compile(r"(len|set|keys)\((.*)\)")


def check_side_effects(before: Mapping[Key, Source], after: Reachability) -> set[Key]:
    """The places that the function changes, and that its result does not depend on.

    Raises `TraceError` where a number or the length of a list is not what it was before the trace, and the function reads it for more
    than to change it. Whatever else it changes and reads is compared with what it was: what is filled once (a memo, an attribute that was
    None) costs one more trace, and a function that draws from an iterator is traced at each call.
    """
    own: set[Key] = set()
    reads = _Reads(after.codes)
    for key, source in after.by_key().items():
        then = before[key].value if key in before else MISSING
        if same(source.value, then):
            if _COUNT.fullmatch(source.path) and reads.fills(source.path) and not reads.of(source.path, whole=True):
                own.add(key)        # a memo, which may get more entries, or what is only filled
        elif _is_traced(_added(source, then)) or not reads.of(source.path):
            own.add(key)
        elif issubclass(type(then), NUMBERS) and issubclass(type(source.value), NUMBERS) and (
                not source.path.startswith("len(") or isinstance(source.holder, (list, deque))):
            raise TraceError(
                f"the compiled function changes {source.path} from {then!r} to {source.value!r}, and reads it too: the compiled program "
                "would go on with the number that was there when it was traced", find_user_location(),
                hint="keep what changes in a tensor and write to it in place (count += 1), pass it as an argument, or change it outside of "
                     "the function")
    return own


class _Reads:
    """What code reads for more than to change it."""

    def __init__(self, codes: Sequence[CodeType]):
        self._codes = codes
        self._counts: Reads | None = None

    def of(self, path: str, whole: bool = False) -> bool:
        """True if the place with this path is read; or, with `whole`, what it is in other ways than item by item. What the code does not
        name is reached in ways that cannot be told."""
        if path.startswith("the "):
            return True
        counted = _COUNT.fullmatch(path)
        name = counted[2] if counted else path
        base = re.sub(r"(\[[^\[\]]*\])+$", "", name)
        if whole and base != name:
            return True
        default = re.fullmatch(r"\w+\((\w+)=\)", base)
        kind = "local" if default else "attribute" if "." in base else "variable"
        base = default[1] if default else base.rpartition(".")[2].removesuffix("()")
        counts = self._counted()
        found = [counts.get((kind, base)), None if whole or counted else counts.get((f"{kind} item", base))]
        items = (f"{kind} item", base) in counts
        return any(count is not None and count > 0 for count in found) or not (items or found[0] is not None)

    def fills(self, path: str) -> bool:
        """True if the code fills the container that this is the length, or are the keys or members, of."""
        name = re.sub(r"\W", " ", path[path.index("(") + 1:-1]).split()
        return bool(name) and self._counted().get((FILLS, name[-1]), 0) > 0

    def _counted(self) -> Reads:
        if self._counts is None:
            self._counts = Counter()
            for code in self._codes:
                self._counts.update(reads_of(code))
        return self._counts


def _added(source: Source, then: Any) -> Any:
    """What a place holds that it did not hold before: of the length of a list, the items that are there now."""
    if source.path.startswith("len(") and isinstance(source.holder, (list, deque)):
        return list(source.holder)[then:] if isinstance(then, int) else []
    return source.value


def _is_traced(value: Any) -> bool:
    """True if a value was made by the trace: what is read of it in another one is made there before."""
    if isinstance(value, (list, tuple, deque)):
        return any(map(_is_traced, value))
    if isinstance(value, dict):
        return any(map(_is_traced, value.values()))
    return isinstance(value, (TracedArray, ArrayWrapper))

