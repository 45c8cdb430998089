"""Numbers of objects outside that a call reads, and binds anew: `self.step += 1; rate / self.step`, `best = min(best, loss)`.

During the trace a traced scalar is bound in such a place. It is a parameter of the program, for which each call passes the number that is
there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple

import numpy as np

from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.flow.lifted_numbers import STATE, is_liftable, lifted_input, python_kind
from adjit.tracer.guards.source import Source, rebind
from adjit.tracer.guards.state_trees import StateTrees
from adjit.tracer.scope import Scope

Key = tuple[str, int]


class NumberInput(NamedTuple):
    """Number that each call reads: captured array number `capture` of the program has it, of class `kind`."""

    capture: int
    source: Source
    kind: type

    def read(self) -> np.ndarray | None:
        """The number now; None if it is none that the program takes."""
        now = self.source.read()
        return np.asarray(now) if type(now) is self.kind and is_number(now) else None


def is_number(value: Any) -> bool:
    """True for a number that can be an input."""
    return is_liftable(value) or type(value) is complex or (issubclass(type(value), np.number) and value.dtype.char not in "gG")


@lru_cache(maxsize=4096)
def asks_for_array(code: CodeType) -> bool:
    """True if code asks whether an object has an attribute that arrays have and Python's numbers have not: a traced scalar has it."""
    asked = [text for text in code.co_consts if isinstance(text, str) and hasattr(np.ndarray, text) and not hasattr(float, text)]
    return bool(asked) and not {"hasattr", "getattr"}.isdisjoint(code.co_names)


class _Bound(NamedTuple):
    source: Source
    stand_in: TracedArray
    array: np.ndarray


class StateNumbers:
    """The numbers in places with one of these `paths`, for one trace. With `may_take` another trace may have more of them; `wanted` are
    their paths."""

    def __init__(self, sources: Mapping[Key, Source], paths: Collection[str], scope: Scope, may_take: bool, trees: StateTrees):
        self.paths, self._scope, self._may_take, self._trees = paths, scope, may_take, trees
        self._bound: dict[Key, _Bound] = {}
        self.wanted: set[str] = set()
        for key, source in sources.items() if paths else ():
            if source.path in paths and is_number(source.value):
                self._bind(key, source)

    def _bind(self, key: Key, source: Source) -> None:
        now = source.read()
        known = next((bound for bound in self._bound.values() if bound.stand_in is now), None)      # one place, by another path
        if known is None:
            array = np.array(source.value)
            value = self._scope.capture(array)
            kind = type(source.value)
            made = lifted_input(value, self._scope, (STATE, source.path), kind) if kind in (int, bool) else wrap(
                value, weak=kind in (float, complex))
            if not rebind(self._trees.original(source).read, made):
                return
            known = _Bound(source, made, array)
        self._bound[key] = known._replace(source=source)

    def __bool__(self) -> bool:
        return bool(self._bound)

    @contextmanager
    def bound(self, sources: Mapping[Key, Source]) -> Iterator[None]:
        """Bind the numbers again at the end, where the function bound no others."""
        try:
            yield
        finally:
            for each in self._bound.values():
                read = self._trees.original(each.source).read
                if read() is each.stand_in:
                    rebind(read, sources[each.source.key].held)

    def numbers(self, sources: Mapping[Key, Source]) -> dict[int, Any]:
        """The numbers that stand-ins stand for, by the identity of these."""
        return {id(bound.stand_in): sources[bound.source.key].held for bound in self._bound.values()}

    def places(self) -> dict[int, str]:
        """Places of the inputs, by the identity of the captured arrays that they are."""
        return {id(bound.array): bound.source.path for bound in self._bound.values()}

    def inputs(self) -> dict[Key, NumberInput]:
        """The inputs, by the key of their place."""
        order = {identity: index for index, identity in enumerate(self._scope.captures)}
        return {key: NumberInput(order[id(bound.array)], bound.source, type(bound.source.value)) for key, bound in self._bound.items()}

    def is_next(self, source: Source, then: Any, of_tree: bool = False) -> bool:
        """True if the number that the function bound is for the next call what `then` is for this one; in a container that it bound anew
        (`of_tree`) it may be of another class, which the next call is traced for."""
        now, kind = source.value, type(then)
        if isinstance(now, TracedArray):
            if now.shape or not now.scalar or now.scope is not self._scope or not (of_tree or python_kind(now) is kind):
                return False
        elif type(now) is not kind and not (of_tree and is_number(now)):
            return False
        if source.key in self._bound:
            return True
        if self._may_take and source.path not in self.paths:
            self.wanted.add(source.path)
            return True
        return False
