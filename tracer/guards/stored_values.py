"""Values that a traced function stores in attributes, globals, cells and containers, and reads in the same call at most behind that: each
call of the program stores them again. Such a place is no input of the function, so it needs no guard, and may hold something else during
the trace."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple

from adjit.tracer.array import contains_traced
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.bytecode_flow import Name, Read, reset_by, stored_and_read
from adjit.tracer.guards.bytecode import EVERYTHING, FILLS, FORMATS, GLOBALS, MODULES, changes_containers, globals_of, reads_of, texts_of
from adjit.tracer.guards.container_log import Change, ContainerLog, base_of
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, names_in, own_attributes, read_cell, read_item, read_slot, rebind
from adjit.tracer.guards.templates import NotRepeatableError, Template, TemplateMaker
from adjit.tracer.scope import Scope

Key = tuple[str, int]
_ALL = frozenset({EVERYTHING, FORMATS, GLOBALS, MODULES})


class _NotStored:
    """Mark in a place until the function stores a value there."""


_NOT_STORED = _NotStored()


class StoredValue(NamedTuple):
    """Value that each call of a program binds to a place, or gives to a method that changes a container."""

    place: Source | Change
    value: Template

    @property
    def path(self) -> str:
        """The place, as the code writes it."""
        return self.place.path if isinstance(self.place, Source) else f"in a {self.place.kind.__name__}"

    def store(self, value: Any) -> None:
        """Store the value of a call, or change the container with these arguments."""
        if isinstance(self.place, Source):
            rebind(self.place.read, value)
        else:
            getattr(self.place.kind, self.place.name)(self.place.container, *value)


class StoredPlaces:
    """Places that the function whose sources are `known` stores to and does not read before."""

    def __init__(self, known: Reachability):
        self.known, self.before = known, self._sources(known)
        stored, read, texts = set[Name](), set[Read](), set[str]()
        if _ALL.isdisjoint(known.names) and EVERYTHING not in known.mentions.whole:
            for code in known.codes:
                both = stored_and_read(code)
                stored |= both[0]
                read |= both[1]
                texts |= texts_of(code)
        self._reset = frozenset[Name]().union(*(reset_by(code) for code in known.codes if code.co_name != "__init__"))
        modules = {source.path for source in known.found if isinstance(source.value, ModuleType)} - {
            source.path for source in known.found if not isinstance(source.value, ModuleType)}
        read_names = {name for _, name, owner in read if owner not in modules} | texts
        self.names = frozenset(name for name in stored if name[1] not in read_names)
        self._marked: dict[Key, Source] = {}

    def has(self, source: Source) -> bool:
        """True if a source is such a place."""
        if not self.names or _name_of(source) not in self.names:
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

    def take_back(self, after: Reachability, keys: Collection[Key] | None = None) -> None:
        """Bind again what was there before the trace, in all places unless some are named."""
        for key, source in self.stored(after).items():
            if keys is not None and key not in keys:
                continue
            rebind(source.read, self.before[key].value if key in self.before else MISSING)


class Stores(NamedTuple):
    """What each call stores: `values`, of which `arrays` are results of the graph. `keys` are the sources that are stored before they are
    read, and `numbers` the containers from outside that are changed, by identity. `others` are places where something is stored that no
    call can make again: the function has to be traced at each call."""

    values: tuple[StoredValue, ...]
    arrays: tuple[Any, ...]
    keys: frozenset[Key]
    numbers: frozenset[int]
    others: tuple[Source, ...] = ()


def stores_of(places: StoredPlaces, log: ContainerLog, after: Reachability, scope: Scope, results: Sequence[Any]) -> Stores:
    """Describe what a trace stored; `results` are the arrays that the function returns."""
    stored = places.stored(after)
    if not stored and not log.changes:
        keys = {key for key, source in after.by_key().items() if places.has(source)}
        return Stores((), (), frozenset(keys), frozenset())
    sources = {id(source.value): source for source in places.before.values()}
    make = TemplateMaker(scope.outside(), sources, results, None if scope.wrappers else scope)
    others: list[Source] = []
    values, keys, repeatable = [], set[Key](), log.repeatable()
    for key, source in sorted(stored.items(), key=lambda item: _order(item[1])):
        try:
            values.append(StoredValue(source, make(source.value)))
            keys.add(key)
        except NotRepeatableError:
            others.append(_never(source))
    numbers = repeatable | log.depending()      # the guards hold for what those held before
    while True:     # what is stored in a container, and how it is changed
        changes = [change for change in log.changes if id(change.container) in numbers]
        made: list[StoredValue] = []
        for change in changes:
            try:
                if id(change.container) not in repeatable and contains_traced(change.args) and not log.is_unread(change):
                    raise NotRepeatableError        # kept for the next call
                made.append(StoredValue(change, make(change.args)))
            except NotRepeatableError:
                numbers.discard(id(change.container))
                repeatable.discard(id(change.container))
                if not any(map(contains_traced, change.args)):
                    others.append(Source(f"what a {change.kind.__name__} holds", object, object(), change.container, False))
                break
        if len(made) == len(changes):
            break
    for key, source in {**places.before, **after.by_key()}.items():
        if (places.has(source) and key not in stored) or id(source.holder) in make.made or (
                id(source.holder) in repeatable and log.is_stored(source)) or (
                id(source.holder) in numbers and log.is_stored_first(source)):
            keys.add(key)
    return Stores((*values, *made), tuple(make.arrays), frozenset(keys), frozenset(numbers), tuple(others))


def _never(source: Source) -> Source:
    """A source that is never the same again."""
    return Source(f"what {source.path} holds", object, object(), source.holder, False)


def stored_again(changed: Collection[Source], scope: Scope) -> tuple[list[StoredValue], list[Source]]:
    """Values in places that the function read before it changed them, which are guarded: where the guards hold, a call changes them in the
    same way. And sources that never hold, for values that no call can make again."""
    make, values, others = TemplateMaker(scope.outside(), {}, (), None), [], []
    for source in changed:
        try:
            values.append(StoredValue(source, make(source.value)))
        except NotRepeatableError:
            others.append(_never(source))
    return values, others


def kept_as_they_are(after: Reachability, own: Collection[Key]) -> tuple[StoredValue, ...]:
    """Values of the trace in places that the function may read, too: each call stores what tells so when it is read, so that nothing else
    is found there."""
    return tuple(StoredValue(source, partial(_constant, source.value)) for key, source in after.by_key().items()
                 if key in own and not source.path.startswith("len(") and contains_traced(source.value))


def _constant(value: Any, *_: Any) -> Any:
    return value


def containers_changed_by(known: Reachability) -> list[Any]:
    """Containers from outside that code may change: those that hold arrays only if it says so. None where it asks for exact types."""
    if asks_for_types(known) or not any(map(changes_containers, known.codes)):
        return []
    filled = {name for code in known.codes for kind, name in reads_of(code) if kind == FILLS}
    return [source.value for source in known.found if source.followed and base_of(type(source.value)) and source.value is not sys.modules
            and (not filled.isdisjoint(names_in(source.path)) or not any(is_ndarray(item) or isinstance(item, ArrayWrapper) for item in (
                source.value.values() if isinstance(source.value, dict) else source.value)))]


def asks_for_types(known: Reachability) -> bool:
    """True if code calls `type`, to which a container that is logged is one of another class."""
    return any("type" in globals_of(code) for code in known.codes)


def _name_of(source: Source) -> Name | None:
    """Kind and name of the binding that a source reads; None if it is no attribute or variable that can be bound without other code."""
    read = source.read
    if not isinstance(read, partial):
        return None
    holder: Any = read.args[0] if read.args else None
    if read.func is getattr and type(holder).__setattr__ in (object.__setattr__, type.__setattr__):
        name = read.args[1]
        return None if hasattr(getattr(type(holder), name, None), "__set__") else ("attribute", name)
    if read.func is read_slot and type(read.args[1]).__setattr__ is object.__setattr__:
        return "attribute", holder.__name__
    if read.func is read_cell or (read.func is read_item and isinstance(holder, dict) and source.path == read.args[1]):
        return "variable", source.path
    if read.func is read_item and isinstance(holder, dict) and source.path.endswith(f".{read.args[1]}"):   # of a namespace, a module
        return "attribute", read.args[1]
    return None


def _order(source: Source) -> tuple[int, int]:
    """Order of the attributes of an object, which is that in which they were bound."""
    names = list(source.holder) if isinstance(source.holder, dict) else []
    name = source.read.args[1] if isinstance(source.read, partial) and len(source.read.args) > 1 else None
    return id(source.holder), names.index(name) if name in names else 0


def _is_own(source: Source) -> bool:
    """True if there is something bound in the place itself, and not in the class of its object."""
    read: Any = source.read
    return source.value is not MISSING and (read.func is not getattr or read.args[1] in own_attributes(read.args[0]))
