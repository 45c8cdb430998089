"""Guards of a trace: the objects that it read besides its arguments, and checks that notice changes of them.

Captured arrays are looked up again at each call, so that an array bound anew is the one that is passed. All other sources (numbers,
functions, containers, arrays that Python read) were built into the graph: if one changes, the trace no longer holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf
from adjit.tracer.foreign_arrays import content_guard, is_foreign_array
from adjit.tracer.guards.content import ContentGuard, form_of
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, is_scalar, same
from adjit.tracer.guards.state_numbers import NumberInput
from adjit.tracer.guards.state_trees import StateTrees
from adjit.tracer.scope import CapturedArray

NUMBERS = (bool, int, float, complex, np.number)


@dataclass(frozen=True, slots=True)
class TraceGuards:
    """Sources that a trace depends on. `captured` holds the source of each captured array, if the source is known. With `distinct`, code
    asks which array is which: two captured arrays may not become one."""

    arrays: tuple[np.ndarray, ...]
    captured: tuple[tuple[int, Source, ContentGuard | None], ...]    # index of the captured array, a source, and its content
    fixed: tuple[Source, ...]                                   # must stay unchanged
    contents: tuple[ContentGuard, ...]                               # arrays that must keep their content
    forms: tuple[tuple[tuple[int, ...], np.dtype], ...]         # of `arrays`, when they were captured
    distinct: bool = False
    numbers: tuple[NumberInput, ...] = ()

    def current(self) -> tuple[np.ndarray, ...] | None:
        """Return the arrays to pass for the captured parameters now; None if the trace no longer holds."""
        for source in self.fixed:
            now = source.read()
            if now is not source.value and not same(now, source.value):
                return None
        if not all(content.holds() for content in self.contents):
            return None
        arrays = self.arrays
        for index, source, content in self.captured:
            bound = source.read()
            if bound is not arrays[index]:
                old = self.arrays[index]
                if type(bound) is not type(old):
                    return None
                if arrays[index] is not old:        # two sources that held one array now hold two
                    return None
                arrays = (*arrays[:index], bound, *arrays[index + 1:])
            if (bound.shape, bound.dtype) != self.forms[index] or (content is not None and not content.holds(bound)):
                return None
        if len(self.captured) > 1 and arrays is not self.arrays and not self._consistent(arrays):
            return None
        for number in self.numbers:
            now = number.read()
            if now is None:
                return None
            arrays = (*arrays[:number.capture], now, *arrays[number.capture + 1:])
        if self.distinct and len({*map(id, arrays)}) < len(arrays):
            return None
        return arrays

    def _consistent(self, arrays: tuple[np.ndarray, ...]) -> bool:
        return all(source.read() is arrays[index] for index, source, _ in self.captured)

    def read_by_python(self) -> list[tuple[str, np.ndarray]]:
        """Paths and arrays that Python reads, whose content the trace holds for."""
        contents = [*self.contents, *(content for _, _, content in self.captured if content is not None)]
        return [(content.path, content.array) for content in contents]

    def hold(self, sources: Collection[Source]) -> bool:
        """True if these sources are unchanged."""
        return all(same(source.read(), source.value) for source in sources)

    def may_hold_again(self) -> bool:
        """True if only numbers and texts differ from their values in the trace, or arrays that changed places: they may change back."""
        moved = [(now, source.value) for source in self.fixed if not same(now := source.read(), source.value) and not (
            is_scalar(now) and is_scalar(source.value))]
        return all(is_ndarray(now) and is_ndarray(then) for now, then in moved) and {id(now) for now, _ in moved} == {
            id(then) for _, then in moved} and all(content.holds() for content in self.contents) and all(
            is_ndarray(bound := source.read()) and (bound.shape, bound.dtype) == self.forms[index] for index, source, _ in self.captured)

    def changed(self) -> str:
        """Describe the source that changed, for `explain()`; empty if none did."""
        for source in self.fixed:
            now = source.read()
            if not same(now, source.value):
                return _difference(source, now)
        read = [content for content in (*self.contents, *(content for *_, content in self.captured)) if content is not None]
        for content in read:
            if not content.holds():
                return f"the content of {content.path} changed"
        for number in self.numbers:
            if number.read() is None:
                return f"{number.source.path} changed from {number.source.value!r} to {number.source.read()!r}"
        if self.current() is None:
            names = ", ".join(dict.fromkeys(source.path for index, source, _ in self.captured if source.read() is not self.arrays[index]))
            return f"{names} was bound to an array of another shape or dtype" if names else "an array has another shape or dtype"
        return ""


def _difference(source: Source, now: Any) -> str:
    if source.path.startswith(("the code of", "the position of", "the content of", "the attributes of", "the form of", "the methods of",
                               "the classes registered")):
        return f"{source.path} changed"
    if source.path.startswith("the cache of"):
        return f"{source.path} was cleared"
    if source.path.startswith("keys("):
        return f"the keys of {source.path[len('keys('):-1]} changed"
    if now is MISSING:
        return f"{source.path} is gone"
    if source.value is MISSING or (is_scalar(now) and is_scalar(source.value)):
        return f"{source.path} changed from {source.value!r} to {now!r}"
    if type(now) is type(source.value) and isinstance(now, (tuple, frozenset)):
        return f"the items of {source.path.removesuffix('[...]')} changed"
    return f"{source.path} was bound to another object"


def make_guards(before: Mapping[Any, Source], after: Reachability, captures: Sequence[CapturedArray], own: Collection[Any],
                contents: Mapping[int, ContentGuard], forms: Mapping[int, tuple[Any, ...]],
                viewed: Collection[int], rebound: Collection[Any] = (), trees: StateTrees | None = None) -> TraceGuards:
    """Make the guards of a trace from the sources that were reached before and after it.

    Sources that the function changed itself, with a key in `own`, are left out; other containers that it filled have to be empty again, as
    they were before the trace. `contents` are the guards of arrays that Python read, by identity; `forms` are those of arrays whose form it
    read. A captured array may have another form only where nothing but its own shape and dtype was read, which are compared in any case;
    one that is also `viewed` has to stay the same array, which views are of. Places with a key in `rebound` get another array by each
    call, which the next one reads; so do those of `trees`, containers.
    """
    numbers = {id(capture.array): index for index, capture in enumerate(captures)}
    captured, fixed = [], []
    read, formed = dict(contents), set[int]()
    for key, found in after.by_key().items():
        if key in own:
            continue
        if trees is not None and key in trees.matched:
            fixed.append(trees.guard(before[key]))
            for source in trees.sources_of(key):
                if is_ndarray(source.value) and id(source.value) in numbers:
                    captured.append((numbers[id(source.value)], source, read.pop(id(source.value), None)))
            continue
        then = before.get(key)
        source = found._replace(value=MISSING) if then is None else then
        index = numbers.get(id(source.value)) if (source.value is found.value or key in rebound) and is_ndarray(source.value) else None
        identity = id(source.value)
        if identity in forms and source.value is found.value and (index is None or identity in viewed) and identity not in formed:
            formed.add(identity)
            fixed.append(Source(f"the form of {source.path}", partial(form_of, source.value), forms[identity], source.value, False))
        if index is None or (identity in viewed and key not in rebound):
            fixed.append(source)
            if is_foreign_array(source.value) and not isinstance(source.value, (np.ndarray, np.generic, ArrayWrapper, DeviceLeaf)):
                content = content_guard(source.value)
                fixed.append(Source(f"{source.path}[...]", content, content(), source.value, False))
        if index is not None:
            captured.append((index, source, read.pop(id(source.value), None)))
    return TraceGuards(tuple(capture.array for capture in captures), tuple(captured), tuple(fixed), tuple(read.values()),
                   tuple((capture.value.type.shape, capture.array.dtype) for capture in captures))
