"""Values that a traced function stores in attributes, globals, cells and containers, and reads in the same call at most behind that: each
call of the program stores them again. Such a place is no input of the function, so it needs no guard, and may hold something else during
the trace."""

from __future__ import annotations

import sys
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import BuiltinFunctionType, CellType, MappingProxyType, MethodWrapperType, ModuleType
from typing import Any, NamedTuple

from adjit.ir.errors import TraceError
from adjit.tracer.array import contains_traced
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.bytecode_flow import Name, Read, reset_by, stored_and_read
from adjit.tracer.guards.bytecode import EVERYTHING, FILLS, FORMATS, GLOBALS, MODULES, bound_by_text, changes_containers, reads_of, texts_of
from adjit.tracer.guards.code_reads import CodeReads
from adjit.tracer.guards.container_log import Change, ContainerLog, base_of
from adjit.tracer.guards.module_owner import ModuleOwner, owner_of
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.source import MISSING, Source, key_text, names_in, read_cell, read_item, read_slot, rebind
from adjit.tracer.guards.tallies import counted_again, is_counted, is_tally, tally
from adjit.tracer.guards.templates import NotRepeatableError, Part, Template, TemplateMaker, holds_traced
from adjit.tracer.scope import Scope
from adjit.tracer.user_location import find_user_location

Key = tuple[str, int]
_ALL = frozenset({EVERYTHING, FORMATS, GLOBALS, MODULES})


class _NotStored:
    """Mark in a place until the function stores a value there."""


_NOT_STORED = _NotStored()


class StoredValue(NamedTuple):
    """Value that each call of a program binds to a place, or gives to a method that changes a container."""

    place: Source | Change
    value: Template
    counts: bool = False        # whether it is added to a number there
    parts: tuple[Part, ...] = ()            # what it is made of
    moved: tuple[Source, ...] = ()          # places with values of the call before which it is, or holds

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


def stored_value(place: Source | Change, make: TemplateMaker) -> StoredValue:
    """The value that the trace stored in a place, without holding on to it. Raises `NotRepeatableError` if a call cannot make it again."""
    made, moves = len(make.parts), len(make.moved)
    value = make(place.value if isinstance(place, Source) else place.args)
    return StoredValue(place._replace(value=MISSING) if isinstance(place, Source) else place._replace(args=()), value,
                       parts=tuple(make.parts[made:]), moved=tuple(make.moved[moves:]))


def _is_module_of_library(value: Any) -> bool:
    return isinstance(value, ModuleType) and owner_of(value.__name__) is not ModuleOwner.USER


def library_attributes(known: Reachability) -> list[tuple[ModuleType, str]]:
    """Attributes that the code of a function may store in modules of libraries, which are not followed."""
    names = sorted({name for code in known.codes for kind, name in stored_and_read(code)[0] if kind == "attribute"})
    if not names:
        return []
    named = (sys.modules[name] for name in sorted(known.names & sys.modules.keys()))      # imported within the function
    modules = {id(value): value for value in (*(source.value for source in known.found), *named) if isinstance(value, ModuleType)}
    return [(module, name) for module in modules.values() if owner_of(module.__name__) is not ModuleOwner.USER for name in names]


class StoredPlaces:
    """Places that the function whose sources are `known` stores to and does not read before."""

    def __init__(self, known: Reachability):
        self.known, self.before, self.reads = known, self._sources(known), CodeReads(known.codes)
        stored, read, texts = set[Name](), set[Read](), set[str]()
        if _ALL.isdisjoint(known.names):
            for code in known.codes:
                both = stored_and_read(code)
                by_text = bound_by_text(code)
                stored |= both[0] | {("attribute", name) for name in by_text}
                read |= both[1]
                texts |= texts_of(code) - by_text
        self._stored = frozenset(name for code in known.codes for _, name in stored_and_read(code)[0])
        self._fills = any(map(changes_containers, known.codes))
        self._reset = frozenset[Name]().union(*(reset_by(code) for code in known.codes if code.co_name != "__init__"))
        modules = {source.path for source in known.found if _is_module_of_library(source.value)} - {
            source.path for source in known.found if not _is_module_of_library(source.value)}
        read_names = {name for _, name, owner in read if owner not in modules} | texts
        self.names = frozenset(name for name in stored if name[1] not in read_names)
        self._compares_anything = EVERYTHING in known.mentions.whole
        self._counters = frozenset(stored - self.names)
        self._marked: dict[Key, Source] = {}
        self._tallied: dict[Key, Source] = {}
        self.counted: list[tuple[Source, Any]] = []     # numbers that were added to, and what each call adds
        self.uncounted: set[Key] = set()        # those that other ways add to

    def has(self, source: Source) -> bool:
        """True if a source is such a place."""
        if not self.names or _name_of(source) not in self.names:
            return False
        read: Any = source.read
        return self.known.mentions.whole_objects.isdisjoint(map(id, read.args)) and not self._is_compared(source)

    def is_reset(self, source: Source) -> bool:
        """True if the function sets a place anew, and does more than to add to it."""
        return _name_of(source) in self._reset

    def may_be(self, source: Source) -> bool:
        """True if the function may store in a place, whatever it reads there."""
        return not self._stored.isdisjoint(names_in(source.path)) or (self._fills and base_of(type(source.holder)) is not None)

    def _is_compared(self, source: Source) -> bool:
        """True for what an object holds that may be an operand of `==`, where this does more than to ask whether it is the other one.
        Code of the user's is followed, but for that which decorators make."""
        if not self._compares_anything:
            return False
        read: Any = source.read
        holder = read.args[1] if read.func is read_slot else read.args[0]
        return not isinstance(holder, (type, CellType, dict)) and type(holder).__eq__ is not object.__eq__

    def _is_counter(self, source: Source) -> bool:
        """True for a number that code changes and does not read for more."""
        name = _name_of(source) if is_counted(source.value) else None
        return name in self._counters and name is not None and not self.reads.of(source.path) and not (
            self.reads.reads_name(name[1])) and not self._is_compared(source)

    @contextmanager
    def marked(self) -> Iterator[None]:
        """Mark the places, so that those which are stored to can be told; others have their values again in the end. Numbers that are only
        added to are tallies meanwhile."""
        try:
            for key, source in self.before.items():
                if self.has(source):
                    if source.held is not MISSING and rebind(source.read, _NOT_STORED):
                        self._marked[key] = source
                elif self._counters and self._is_counter(source) and not (is_tally(source.read()) and source.is_bound()) and rebind(
                        source.read, tally(source.value, key)):
                    self._tallied[key] = source
            yield
        finally:
            for key, source in self._tallied.items():
                now = source.read()
                rebind(source.read, source.held)
                is_kept = now is source.value and not self.is_reset(source)     # else bound to the number that was there, perhaps by chance
                if is_kept or (is_tally(now) and now.place == key and not now.steps):
                    self.uncounted.add(key)
                else:
                    self.counted.append((source, now))
            self._tallied.clear()
            for key, source in list(self._marked.items()):
                if source.read() is _NOT_STORED:
                    rebind(source.read, source.value)
                    del self._marked[key]

    def end_tallies(self, log: ContainerLog) -> list[tuple[Source, Any]]:
        """The numbers in attributes, variables and containers that were added to, which have their own numbers again."""
        return [*self.counted, *((_item_source(self.before, container, key), now) for container, key, now in log.end_tallies())]

    def added(self, log: ContainerLog) -> Counter[str]:
        """What the function has added to so far, by paths: how often to each number, and to what containers hold."""
        found = Counter({source.path: len(now.steps) for source in self._tallied.values() if is_tally(now := source.read())})
        for container, key, count in log.added():
            path = next((source.path for source in self.before.values() if source.value is container), f"a {type(container).__name__}")
            found[path if key is None else f"{path}[{key_text(key)}]"] += count
        return found

    def stored(self, after: Reachability) -> dict[Key, Source]:
        """Sources behind the trace that the function stored."""
        return {key: source for key, source in self._sources(after).items() if key in self._marked or (
            source.held is not MISSING and (key not in self.before or self.before[key].held is MISSING) and self.has(source))}

    @staticmethod
    def _sources(reach: Reachability) -> dict[Key, Source]:
        return {**{source.key: source for source in reach.stored_variables}, **reach.by_key()}

    def take_back(self, after: Reachability, keys: Collection[Key] | None = None) -> None:
        """Bind again what was there before the trace, in all places unless some are named."""
        for key, source in self.stored(after).items():
            if keys is not None and key not in keys:
                continue
            rebind(source.read, self.before[key].held if key in self.before else MISSING)


class Stores(NamedTuple):
    """What each call stores: `values`, by templates that `make` has made, of which some arrays are results of the graph. `keys` are the
    sources that are stored before they are read, and `numbers` the containers from outside that are changed, by identity; those in `kept`
    get values of the trace, and are read, too. `others` are places where something is stored that no call can make again: the function has
    to be traced at each call."""

    values: tuple[StoredValue, ...]
    make: TemplateMaker
    keys: frozenset[Key]
    numbers: frozenset[int]
    kept: frozenset[int]
    others: tuple[Source, ...] = ()


def stores_of(places: StoredPlaces, log: ContainerLog, after: Reachability, scope: Scope, results: Sequence[Any],
              of_regions: bool = False, given: Mapping[int, Template] = MappingProxyType({})) -> Stores:
    """Describe what a trace stored; `results` are the arrays that the function returns. `of_regions` and `given`: see `TemplateMaker`."""
    log.leave_out(partial(_is_put_back, places.before.values()))
    stored = places.stored(after)
    counted = places.end_tallies(log)
    make = TemplateMaker(scope.outside(), places.before.values(), results, scope, of_regions)
    make.given = given
    if not stored and not log.changes and not counted:
        keys = {key for key, source in after.by_key().items() if places.has(source) or _is_uncounted(source, log)}
        return Stores((), make, frozenset(keys | places.uncounted), frozenset(), frozenset())
    others: list[Source] = []
    values, keys, repeatable = [], set(places.uncounted), log.repeatable()
    for key, source in sorted(stored.items(), key=lambda item: _order(item[1])):
        try:
            values.append(stored_value(source, make))
            keys.add(key)
        except NotRepeatableError:
            others.append(_never(source))
    for source, now in counted:
        try:
            values.append(StoredValue(source, counted_again(source, now, make) if is_tally(now) else make(now), is_tally(now)))
            keys.add(source.key)
        except NotRepeatableError:
            others.append(_never(source))
    kept = set[int]()
    numbers = repeatable | log.depending()      # the guards hold for what those held before
    while True:     # what is stored in a container, and how it is changed
        changes = [change for change in log.changes if id(change.container) in numbers]
        made: list[StoredValue] = []
        for change in changes:
            try:
                if id(change.container) not in repeatable and holds_traced(change.args) and not log.is_unread(change):
                    kept.add(id(change.container))
                made.append(stored_value(change, make))
            except NotRepeatableError:
                numbers.discard(id(change.container))
                repeatable.discard(id(change.container))
                others.append(Source(f"what a {change.kind.__name__} holds", object, object(), change.container, False))
                break
        if len(made) == len(changes):
            break
    for key, source in {**places.before, **after.by_key()}.items():
        if (places.has(source) and key not in stored) or id(source.holder) in make.made or _is_uncounted(source, log) or (
                id(source.holder) in repeatable and log.is_stored(source)) or (
                id(source.holder) in numbers and log.is_stored_first(source)):
            keys.add(key)
    return Stores((*values, *made), make, frozenset(keys), frozenset(numbers), frozenset(kept & numbers), tuple(others))


def _is_uncounted(source: Source, log: ContainerLog) -> bool:
    """True for a number in a container of numbers that are only added to, of which the trace read nothing: other ways may add to it."""
    identity = id(source.holder)
    return identity in log.counting and not log.reads.get(identity) and identity not in log.asked and is_counted(source.value) and (
        getattr(source.read, "func", None) is read_item)


def _is_put_back(sources: Collection[Source], change: Change) -> bool:
    """True for `layers[0] += x`: the array that was there, which is written to, is stored where it is. An array that is bound in a second
    place may be another one than there in the next call."""
    if change.name != "__setitem__" or not is_ndarray(change.args[1]):
        return False
    places = [source for source in sources if source.value is change.args[1]]
    return len(places) == 1 and _reads_item(places[0], change.container, change.args[0])


def _reads_item(source: Source, container: Any, key: Any) -> bool:
    """True for the source of an item of a container."""
    read: Any = source.read
    return source.holder is container and isinstance(read, partial) and read.func is read_item and type(read.args[1]) is type(key) and bool(
        read.args[1] == key)


def _item_source(before: Mapping[Key, Source], container: Any, key: Any) -> Source:
    """The source of an item of a container."""
    for source in before.values():
        if _reads_item(source, container, key):
            return source
    path = next((source.path for source in before.values() if source.value is container), f"a {type(container).__name__}")
    return Source(f"{path}[{key_text(key)}]", partial(read_item, container, key), read_item(container, key), container)


def _never(source: Source) -> Source:
    """A source that is never the same again."""
    return Source(f"what {source.path} holds", object, object(), source.holder, False)


def stored_again(changed: Collection[Source], before: Collection[Key], outside: Collection[int],
                 make: TemplateMaker) -> tuple[list[StoredValue], list[Source]]:
    """Values in places that the function read before it changed them, which are guarded: where the guards hold, a call changes them in the
    same way. And sources that never hold, for values that no call can make again. Raises `TraceError` for items behind those that lists
    from `outside` had `before`, among values of the trace."""
    values, others = list[StoredValue](), list[Source]()
    for source in changed:
        is_behind = isinstance(source.holder, (list, deque)) and id(source.holder) in outside and source.key not in before
        if is_behind and any(map(contains_traced, source.holder)):
            raise TraceError(f"the compiled function adds values of the call to a list from outside, and {source.path} behind what it read "
                             "of it: later calls cannot add them again", find_user_location(),
                             hint="return the values and append them outside of the function")
        if source.path.endswith("[...]"):
            others.append(_never(source))
            continue
        try:
            values.append(stored_value(source, make))
        except NotRepeatableError:
            if holds_traced(source.value) and not isinstance(source.value, ArrayWrapper):
                raise _not_made_again(source) from None
            others.append(_never(source))
    return values, others


def _not_made_again(source: Source) -> TraceError:
    """The error for a value of the trace in an object that calls cannot make again."""
    kind = type(source.value).__qualname__
    return TraceError(f"the compiled function stores a {kind} with values of the call in {source.path}: later calls cannot make it again",
                      find_user_location(), hint="store a list, a dict or an array, or return the values and store them outside")


def kept_as_they_are(after: Reachability, own: Collection[Key], outside: Collection[int]) -> tuple[StoredValue, ...]:
    """Values of the trace in places of objects from `outside` that the function may read, too: each call stores what tells so when it is
    read, so that nothing else is found there."""
    return tuple(StoredValue(source, partial(_constant, source.value)) for key, source in after.by_key().items()
                 if key in own and id(source.holder) in outside and not source.path.startswith("len(") and contains_traced(source.value))


def _constant(value: Any, *_: Any) -> Any:
    return value


def containers_changed_by(known: Reachability) -> list[Any]:
    """Containers from outside that code may change: those that hold arrays only if it says so. Names of builtins and of modules are looked
    up by the interpreter, and by the log itself: they keep their class."""
    if known.compares_type or not any(map(changes_containers, known.codes)):
        return []
    filled = {name for code in known.codes for kind, name in reads_of(code) if kind == FILLS}
    found = [(source.path, source.value) for source in known.found if source.followed and base_of(type(source.value))]
    inside = {id(value) for _, value in found}
    namespaces = {id(sys.modules), *(id(vars(module)) for module in list(sys.modules.values())
                                     if isinstance(module, ModuleType) and id(vars(module)) in inside and _is_module_of_library(module))}
    found = [(path, value) for path, value in found if id(value) not in namespaces]
    return [value for path, value in (*found, *known.held)
            if not filled.isdisjoint(names_in(path)) or not any(is_ndarray(item) or isinstance(item, ArrayWrapper) for item in (
                value.values() if isinstance(value, dict) else value))]


def bound_methods(known: Reachability) -> list[tuple[str, Any, str]]:
    """Methods that were bound to containers before a trace (`add = log.append`): path, container, and name of each."""
    return [(source.path, source.value.__self__, source.value.__name__) for source in known.found
            if isinstance(source.value, (BuiltinFunctionType, MethodWrapperType)) and base_of(type(source.value.__self__))]


def check_bound(methods: Sequence[tuple[str, Any, str]], log: ContainerLog) -> None:
    """Log what methods that were bound before the trace did to their containers. Raises `TraceError` for one that did more than to add
    items to a list."""
    for path, container, name in methods:
        if not log.note_bound(container, name):
            kind = type(container).__name__
            log.restore([id(container)])
            raise TraceError(f"the compiled function changes a {kind} by {path}, a method that was bound before: later calls would not "
                             "change it again", find_user_location(),
                             hint=f"call the method of the {kind} in the function: place.{name}(...)")


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
