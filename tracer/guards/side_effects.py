"""Side effects of a traced function: refused if the result depends on them, else no matter of the program."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence
from types import CodeType
from typing import Any, NamedTuple

from adjit.ir.errors import TraceError
from adjit.tracer.array import WRITTEN, TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.guards.bytecode import FILLS, Reads, deleted_by, optional_attributes, reads_of
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, rebind
from adjit.tracer.guards.stored_values import StoredPlaces, asks_for_types
from adjit.tracer.guards.trace_guards import NUMBERS, same
from adjit.tracer.user_location import find_user_location, line_that_changes

Key = tuple[str, int]
_DESCRIBED = ("len(", "keys(", "set(", "type(", "the ", "sys.modules", "os.environ")
"""Beginnings of paths of sources that no place holds."""

_COUNT = re.compile(r"(len|set|keys)\((.*)\)")


class KeptValue(NamedTuple):
    """Value of the trace that the function stored where it reads, too: perhaps what one call stores, the next one reads. `before` is what
    was bound there before the trace."""

    source: Source
    before: Any

    def restore(self) -> None:
        """Bind again what was bound before the trace."""
        rebind(self.source.read, self.before)


def check_side_effects(before: Mapping[Key, Source], after: Reachability, places: StoredPlaces,
                       stored: Collection[Key], depending: Collection[int], missed: Collection[int], again: Collection[int]
                       ) -> tuple[set[Key], tuple[KeptValue, ...], tuple[Source, ...]]:
    """Return the keys of sources that the function changes, and that its result does not depend on; and values that it keeps where it
    reads: whether the result depends on what the call before kept shows in another trace. What each call stores before it reads it, with a
    key in `stored`, is neither. The result depends on what containers in `depending` held, by identity, and on what those in `missed`
    do not hold; calls change those in `again` as the trace did, where these hold what they held. And sources that it
    changes otherwise, which are guarded.

    Raises `TraceError` if a number or the length of a list changed during the trace, and the function reads it for more than to change it.
    Other sources that the function changes and reads are compared with their values before the trace: a container that is filled once (a
    memo, an attribute that was None) costs one more trace, and a function that draws from an iterator is traced at each call.
    """
    own: set[Key] = set()
    kept: list[KeptValue] = []
    changed: list[Source] = []
    reads = _Reads(after.codes)
    for key, source in after.by_key().items():
        then = before[key].value if key in before else MISSING
        if key in stored:
            continue
        if same(source.value, then):
            if _COUNT.fullmatch(source.path) and id(source.holder) not in missed and reads.fills(source.path) and not reads.of(
                    source.path, whole=True):
                own.add(key)        # a memo, which may get more entries, or a container that is only filled
        elif source.value is MISSING:
            raise _deleted(before[key], after.codes)
        elif id(source.holder) not in again and _is_traced(_added(source, then)):
            own.add(key)
            if reads.of(source.path, whole=source.path.startswith("len(")):
                kept.append(KeptValue(source, then))
        elif not reads.of(source.path) and not places.is_reset(source) and id(source.holder) not in depending:
            if isinstance(source.holder, (list, dict, set, deque)) and asks_for_types(after):
                raise _not_followed(f"the compiled function changes {source.path}", source, after.codes, "type()")
            own.add(key)
        elif issubclass(type(then), NUMBERS) and issubclass(type(source.value), NUMBERS) and (
                not source.path.startswith("len(") or isinstance(source.holder, (list, deque))):
            _take_numbers_back(before, after)
            raise _changed(source, then, reads.names(source.path) or places.is_reset(source), after.codes)
        elif not source.path.startswith(_DESCRIBED):
            changed.append(source)
    now = after.by_key()
    for key, source in before.items():
        if key not in now and key not in stored and isinstance(source.value, NUMBERS) and _is_attribute(source):
            raise _deleted(source, after.codes)
    return own, tuple(kept), tuple(changed)


def _deleted(source: Source, codes: Sequence[CodeType]) -> TraceError:
    """The error for a function that takes an attribute away, which is there again now."""
    rebind(source.read, source.value)
    return TraceError(f"the compiled function deletes {source.path}: later calls would not delete it again",
                      line_that_changes(codes, source.path) or find_user_location(),
                      hint="bind it to None instead, or delete it outside of the function")


def _changed(source: Source, then: Any, is_read: bool, codes: Sequence[CodeType]) -> TraceError:
    """The error for a number that a function changes."""
    change = f"the compiled function changes {source.path} from {then!r} to {source.value!r}"
    location = line_that_changes(codes, source.path) or find_user_location()
    if is_read:
        return TraceError(f"{change}, and reads it too: the compiled program would always use the number of the trace", location,
                          hint="pass the number as an argument and return the new one (result, n = f(x, n)), or change it outside of the "
                               "function; in a step of tensors it may be a tensor that is written to in place")
    return _not_followed(change, source, codes, "setattr, __dict__, code of a library")


def _not_followed(change: str, source: Source, codes: Sequence[CodeType], way: str) -> TraceError:
    """The error for a change that a program cannot make again; `way` says in what code."""
    return TraceError(
        f"{change} in a way that is not followed ({way}): later calls would not change it again",
        line_that_changes(codes, source.path) or find_user_location(),
        hint="ask isinstance(x, dict) in place of type(x)" if way == "type()" else
             "bind it by its name (place.name = value, place[key] = value), or return the value and store it outside")


def _is_attribute(source: Source) -> bool:
    return getattr(source.read, "func", None) is getattr and source.read() is MISSING


def _take_numbers_back(before: Mapping[Key, Source], after: Reachability) -> None:
    """Bind the numbers again that the sources held before the trace."""
    for key, source in reversed(after.by_key().items()):
        then = before[key].value if key in before else MISSING
        if issubclass(type(then), NUMBERS) and issubclass(type(source.value), NUMBERS) and not same(source.value, then):
            rebind(source.read, then)


class _Reads:
    """Reads of sources in code, other than reads that only change them."""

    def __init__(self, codes: Sequence[CodeType]):
        self._codes = codes
        self._counts: Reads | None = None

    def of(self, path: str, whole: bool = False) -> bool:
        """True if the source with this path is read; with `whole`, if it is read in other ways than item by item. Sources that the code
        does not name count as read."""
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
        if kind == "attribute" and base in self._asked():
            return True
        found = [counts.get((kind, base)), None if whole or counted else counts.get((f"{kind} item", base))]
        items = (f"{kind} item", base) in counts
        return any(count is not None and count > 0 for count in found) or not (items or found[0] is not None)

    def fills(self, path: str) -> bool:
        """True if the code fills the container whose length, keys or members this path is."""
        name = re.sub(r"\W", " ", path[path.index("(") + 1:-1]).split()
        return bool(name) and self._counted().get((FILLS, name[-1]), 0) > 0

    def names(self, path: str) -> bool:
        """True if the code names the source with this path to read it."""
        base = re.sub(r"(\[[^\[\]]*\])+$", "", counted[2] if (counted := _COUNT.fullmatch(path)) else path)
        base = default[1] if (default := re.fullmatch(r"\w+\((\w+)=\)", base)) else base
        kinds = ("attribute",) if "." in base else ("variable", "local")
        name, counts = base.rpartition(".")[2], self._counted()
        return name in self._asked() or any(counts.get((f"{kind}{item}", name), 0) > 0 for kind in kinds for item in ("", " item"))

    def _asked(self) -> frozenset[str]:
        """Names of attributes that code asks for by their name as a text, or takes away."""
        return frozenset().union(*(optional_attributes(code) | deleted_by(code) for code in self._codes))

    def _counted(self) -> Reads:
        if self._counts is None:
            self._counts = Counter()
            for code in self._codes:
                self._counts.update(reads_of(code))
        return self._counts


def _added(source: Source, then: Any) -> Any:
    """Return the new content of a source; for the length of a list, the items that were added."""
    if source.path.startswith("len(") and isinstance(source.holder, (list, deque)):
        return list(source.holder)[then:] if isinstance(then, int) else []
    return source.value


def _is_traced(value: Any) -> bool:
    """True if a value was made by the trace: another trace makes it again before it is read."""
    if isinstance(value, (list, tuple, deque)):
        return any(map(_is_traced, value))
    if isinstance(value, dict):
        return any(map(_is_traced, value.values()))
    return isinstance(value, (TracedArray, ArrayWrapper)) or id(value) in WRITTEN

