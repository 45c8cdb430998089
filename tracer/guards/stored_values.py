"""Values that a traced function stores in attributes, globals and cells, and reads in the same call at most behind that: each call of the
program stores them again. Such a place is no input of the function, so it needs no guard, and may hold something else during the trace."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

from adjit.tracer.flow.bytecode_flow import Name, reset_by, stored_and_read
from adjit.tracer.guards.bytecode import EVERYTHING, FORMATS, GLOBALS, MODULES, texts_of
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, is_scalar, own_attributes, read_cell, read_item, read_slot, rebind

Key = tuple[str, int]
_ALL = frozenset({EVERYTHING, FORMATS, GLOBALS, MODULES})


class _NotStored:
    """Mark in a place until the function stores a value there."""


_NOT_STORED = _NotStored()


class StoredValue(NamedTuple):
    """Value that each call of a program stores."""

    source: Source
    value: Any

    def store(self) -> None:
        rebind(self.source.read, self.value)


class StoredPlaces:
    """Places that the function whose sources are `known` stores to and does not read before."""

    def __init__(self, known: Reachability):
        self.known, self.before = known, self._sources(known)
        stored, read, texts = set[Name](), set[Name](), set[str]()
        if _ALL.isdisjoint(known.names) and EVERYTHING not in known.mentions.whole:
            for code in known.codes:
                both = stored_and_read(code)
                stored |= both[0]
                read |= both[1]
                texts |= texts_of(code)
        self._reset = frozenset[Name]().union(*(reset_by(code) for code in known.codes if code.co_name != "__init__"))
        read_names = {name for _, name in read} | texts
        self._names = frozenset(name for name in stored if name[1] not in read_names)
        self._marked: dict[Key, Source] = {}

    def has(self, source: Source) -> bool:
        """True if a source is such a place."""
        if not self._names or _name_of(source) not in self._names:
            return False
        read: Any = source.read
        return self.known.mentions.whole_objects.isdisjoint(map(id, read.args))

    def is_reset(self, source: Source) -> bool:
        """True if the function sets a place anew, and does more than to add to it."""
        return _name_of(source) in self._reset

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Mark the places, so that those which are stored to can be told; others have their values again in the end."""
        try:
            for key, source in self.before.items():
                if self.has(source) and _is_own(source) and rebind(source.read, _NOT_STORED):
                    self._marked[key] = source
            yield
        finally:
            for key, source in list(self._marked.items()):
                if source.read() is _NOT_STORED:
                    rebind(source.read, source.value)
                    del self._marked[key]

    def stored(self, after: Reachability) -> dict[Key, Source]:
        """Sources behind the trace that the function stored."""
        return {key: source for key, source in self._sources(after).items() if key in self._marked or (
            source.value is not MISSING and (key not in self.before or self.before[key].value is MISSING) and self.has(source))}

    @staticmethod
    def _sources(reach: Reachability) -> dict[Key, Source]:
        return {**{source.key: source for source in reach.stored_variables}, **reach.by_key()}

    def take_back(self, after: Reachability) -> None:
        """Bind again what was there before the trace."""
        for key, source in self.stored(after).items():
            rebind(source.read, self.before[key].value if key in self.before else MISSING)


def stored_values(stored: Mapping[Key, Source]) -> tuple[StoredValue, ...]:
    """Numbers, texts and the like that each call stores again."""
    return tuple(StoredValue(source, source.value) for source in stored.values() if is_scalar(source.value))


def _name_of(source: Source) -> Name | None:
    """Kind and name of the binding that a source reads; None if it is no attribute or variable that can be bound without other code."""
    read = source.read
    if not isinstance(read, partial):
        return None
    holder: Any = read.args[0] if read.args else None
    if read.func is getattr and type(holder).__setattr__ is object.__setattr__:
        name = read.args[1]
        return None if hasattr(getattr(type(holder), name, None), "__set__") else ("attribute", name)
    if read.func is read_slot and type(read.args[1]).__setattr__ is object.__setattr__:
        return "attribute", holder.__name__
    if read.func is read_cell or (read.func is read_item and isinstance(holder, dict) and source.path == read.args[1]):
        return "variable", source.path
    if read.func is read_item and isinstance(holder, dict) and source.path.endswith(f".{read.args[1]}"):   # of a namespace, a module
        return "attribute", read.args[1]
    return None


def _is_own(source: Source) -> bool:
    """True if there is something bound in the place itself, and not in the class of its object."""
    read: Any = source.read
    return source.value is not MISSING and (read.func is not getattr or read.args[1] in own_attributes(read.args[0]))
