"""Log of what a traced function does to containers from outside: lists, dicts, sets and deques that it changes, and whether it read what it
found there.

    with logging_containers(containers) as log:
        ...             # stats["n"] = 3 is in log.changes; stats["n"] before that would be in log.reads

During the trace the containers are objects of a class whose methods log each use (`class_change`).
"""

from __future__ import annotations

import copy
import gc
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, suppress
from functools import cache
from operator import is_
from types import FunctionType
from typing import Any, NamedTuple

from adjit.tracer.guards.class_change import ActiveLogs, UseLog, has_layout_of
from adjit.tracer.guards.source import MAX_GUARDED_ITEMS, MISSING, Source, is_scalar
from adjit.tracer.trees import register_container

ALL = "all"
"""Mark for a whole container among the keys that are read."""

_KEPT = frozenset({
    "__class__", "__class_getitem__", "__delattr__", "__dir__", "__doc__", "__getattribute__", "__getstate__", "__hash__", "__init__",
    "__init_subclass__", "__missing__", "__module__", "__new__", "__setattr__", "__sizeof__", "__subclasshook__", "__dict__", "__weakref__",
    "default_factory", "maxlen"})
_PAIRS = frozenset({"update", "__ior__"})
_ITEMS = frozenset({"extend", "extendleft", "__iadd__", "update", "difference_update", "intersection_update", "symmetric_difference_update",
                    "__ior__", "__iand__", "__isub__", "__ixor__"})
_BLIND: dict[type, frozenset[str]] = {
    list: frozenset({"append", "extend", "insert", "reverse", "clear", "__setitem__", "__delitem__", "__iadd__", "__imul__"}),
    dict: frozenset({"__setitem__", "update", "clear", "__ior__", "move_to_end"}),
    set: frozenset({"add", "discard", "clear", "update", "difference_update", "intersection_update", "symmetric_difference_update",
                    "__ior__", "__iand__", "__isub__", "__ixor__"}),
    deque: frozenset({"append", "appendleft", "extend", "extendleft", "insert", "rotate", "reverse", "clear", "__setitem__", "__delitem__",
                      "__iadd__", "__imul__"})}
"""Methods that change a container whatever it holds: called again, they do the same again."""

_DEPENDING: dict[type, frozenset[str]] = {
    list: frozenset({"pop", "remove", "sort"}), dict: frozenset({"__delitem__", "pop", "popitem", "setdefault", "__missing__"}),
    set: frozenset({"pop", "remove"}), deque: frozenset({"pop", "popleft", "remove"})}
"""Methods that change a container by what it holds."""

_AT_A_KEY = frozenset({"__getitem__", "__contains__", "get", "__setitem__", "add", "discard", "__delitem__", "pop", "setdefault", "remove"})
_READING_AT: dict[type, frozenset[str]] = {
    dict: frozenset({"__getitem__", "__contains__", "get"}), list: frozenset({"__getitem__"}), set: frozenset({"__contains__"}),
    deque: frozenset()}
_NUMBERS: tuple[Any, ...] = (bool, int, float, complex, str, tuple)
_MOVING = frozenset({"reverse", "rotate"})
_APPENDING = frozenset({"append", "extend", "__iadd__"})
_ADDING = _APPENDING | _MOVING | {"appendleft", "extendleft", "insert", "__imul__", "pop", "popleft", "popitem"}


class Change(NamedTuple):
    """Call of a method that changed a container."""

    container: Any
    kind: type
    name: str
    args: tuple[Any, ...]


class ContainerLog(UseLog):
    """Uses of containers, by identity: `changes` in their order, `reads` the keys of what was read before it was stored, `written` the keys
    of what was stored. Containers in `reset` were emptied: what they hold is the function's own. `asked` are those
    of which more was read than an item. Of those in `counting` the numbers are only added to: `tallied` holds these numbers, by container
    and key. `numbers` are those that traced scalars in the containers stand for, by the identity of these."""

    def __init__(self, containers: Iterable[Any]) -> None:
        super().__init__()
        self.before: dict[int, Any] = {}
        self.changes: list[Change] = []
        self.reads: dict[int, set[Any]] = {}
        self.written: dict[int, set[Any]] = {}
        self.reset: set[int] = set()
        self.appended: dict[int, int] = {}      # number of items at the end that the function appended
        self.asked: set[int] = set()
        self.counting: set[int] = set()
        self.tallied: dict[tuple[int, Any], Any] = {}
        self.numbers: Mapping[int, Any] = {}
        self._keys: dict[int, set[Any]] = {}
        for container in containers:
            kind: Any = type(container)
            base = base_of(kind)
            if id(container) not in self.kinds and base is not None and _logged_class(kind) is not None:
                self.kinds[id(container)] = container, kind
                self.before[id(container)] = list(container.items() if base is dict else container)
                self.reads[id(container)], self.written[id(container)] = set(), set()

    def note_read(self, container: Any, key: Any, asked: bool = False) -> None:
        """Log that an item, or `ALL`, is about to be read; `asked`: by more than its key, which `d[key] += 1` does to change it. An item at
        `-1` is the last one: the function's own if it appended it."""
        number = id(container)
        if type(key) is int and key < 0 and issubclass(self.kinds[number][1], (list, deque)):
            if -key <= self.appended.get(number, 0):
                return
            key = ALL
        if number not in self.reset and (key is ALL or key not in self.written[number]):
            self.reads[number].add(key)
            if asked:
                self.asked.add(number)

    def note_change(self, container: Any, base: type, name: str, args: tuple[Any, ...]) -> None:
        """Log that a method is about to change a container."""
        number = id(container)
        _, kind = self.kinds[number]
        self.changes.append(Change(container, kind, name, args))
        if name in _APPENDING:
            self.appended[number] = self.appended.get(number, 0) + (1 if name == "append" else len(args[0]))
        elif name != "__setitem__" or not isinstance(args[0], int):
            self.appended.pop(number, None)
        written = self.written[number]
        if name == "clear" or (name in ("__setitem__", "__delitem__") and args[0] == slice(None)):
            self.reset.add(number)
        elif base in (dict, set) and name in _ITEMS | _PAIRS:
            written.update(*args[:1])
        elif name in _AT_A_KEY:
            written.update(_keys(base, args[:1]))
        elif base is deque or (base is list and name not in _APPENDING):
            written.clear()         # items are at other places now

    def note_bound(self, container: Any, name: str) -> bool:
        """Log what a method that was bound to a container before the trace did to it unseen: that it added items to a list or a deque, or
        read. False if it changed the container otherwise."""
        number = id(container)
        if number not in self.kinds:
            return True
        kind: Any = self.kinds[number][1]
        base: Any = base_of(kind)
        if name not in _BLIND[base]:
            self.note_read(container, ALL, asked=True)
        if self._is_complete(number):
            return True
        items, then = list(base.__iter__(container)), self.before[number]
        if base not in (list, deque) or any(change.container is container for change in self.changes) or not (
                len(items) > len(then) and all(map(is_, items, then))):
            return False
        self.note_change(container, base, "extend", (items[len(then):],))
        return True

    def counted(self, container: Any, base: Any, args: tuple[Any, ...]) -> Any:
        """A tally of the number at a key that the function did not store; None if there is none."""
        number, keys = id(container), _keys(base, args)
        if not keys or number in self.reset or keys[0] in self.written[number] or (number, keys[0]) in self.tallied:
            item = self.tallied.get((number, keys[0])) if keys else None
            now = None if item is None else _item(base, container, keys[0])
            return now if log_hooks.is_tally(now) else None
        item = _item(base, container, keys[0])
        if item is MISSING and (first := first_number(container)) is not None:
            self.tallied[number, keys[0]] = MISSING
            return log_hooks.tally(first, (number, keys[0]))
        if not log_hooks.is_counted(item) or keys[0] not in self._keys_before(number):
            return None
        self.tallied[number, keys[0]] = item
        return log_hooks.tally(item, (number, keys[0]))

    def leave_out(self, is_none: Callable[[Change], bool]) -> None:
        """Take containers of which every change is none for unchanged."""
        changed = {id(change.container) for change in self.changes if not is_none(change)}
        self.changes = [change for change in self.changes if id(change.container) in changed]

    def added(self) -> Iterator[tuple[Any, Any, int]]:
        """Containers that were changed by what makes another change if it is done twice, and keys of numbers, with the number of times."""
        for change in self.changes:
            if change.name in _ADDING:
                yield change.container, None, 1
        for number, key in self.tallied:
            container, kind = self.kinds[number]
            now = _item(base_of(kind), container, key)
            if log_hooks.is_tally(now):
                yield container, key, len(now.steps)

    def end_tallies(self) -> list[tuple[Any, Any, Any]]:
        """Give containers the numbers again that were added to; the container, the key and the tally of each."""
        found = []
        for (number, key), item in self.tallied.items():
            container, kind = self.kinds[number]
            base: Any = base_of(kind)
            now = _item(base, container, key)
            if log_hooks.is_tally(now) and now.place == (number, key):
                if item is MISSING:
                    base.__delitem__(container, key)
                else:
                    base.__setitem__(container, key, item)
                if now.steps:
                    found.append((container, key, now))
        return found

    def restore(self, numbers: Iterable[int] | None = None) -> None:
        """Give containers, all that are changed unless some are named, the content again that they had before."""
        for number in {id(change.container) for change in self.changes} if numbers is None else numbers:
            container, kind = self.kinds[number]
            own: Any = kind
            own.clear(container)
            if issubclass(kind, dict):
                for key, value in self.before[number]:
                    own.__setitem__(container, key, self.numbers.get(id(value), value))
            else:
                (own.update if issubclass(kind, set) else own.extend)(
                    container, [self.numbers.get(id(item), item) for item in self.before[number]])

    def repeatable(self) -> set[int]:
        """Identities of the containers that were changed whatever they held before: each call of a program can do so again."""
        found = set()
        for number in {id(change.container) for change in self.changes}:
            reads, written = self.reads[number], self.written[number]
            _, kind = self.kinds[number]
            if not self._is_complete(number):
                continue
            at_keys = issubclass(kind, dict) or (issubclass(kind, list) and all(
                change.name == "__setitem__" for change in self.changes if id(change.container) == number))
            if not reads or (at_keys and ALL not in reads and reads.isdisjoint(written) and len(self.before[number]) <= MAX_GUARDED_ITEMS):
                found.add(number)
        return found

    def unread(self, numbers: Iterable[int]) -> frozenset[int]:
        """Those of some changed containers of which the function read nothing that was there before."""
        return frozenset(number for number in numbers if not self.reads[number])

    def _is_complete(self, number: int) -> bool:
        """True if the changes that are known of lead to what a container holds: functions written in C may change it unseen."""
        container, kind = self.kinds[number]
        made = _filled(kind, self.before[number], container)
        for change in self.changes:
            if change.container is container:
                with suppress(Exception):
                    getattr(kind, change.name)(made, *change.args)
        return len(made) == len(container) and all(map(is_, _contents(made), _contents(container)))

    def depending(self) -> set[int]:
        """Identities of the containers that were changed after the function asked what they hold, or whose objects changed places."""
        changed = {id(change.container) for change in self.changes}
        moved = {id(change.container) for change in self.changes if change.name in _MOVING or self._is_moved(change)}
        return (self.asked | moved) & set(filter(self._is_complete, changed)) - self.repeatable()

    def _is_moved(self, change: Change) -> bool:
        """True if a change puts an object into a container that was there before: two arrays are swapped."""
        before = {id(item) for item in _flat(self.before[id(change.container)], change.kind) if not is_scalar(item)}
        return any(id(item) in before for arg in change.args for item in (arg if isinstance(arg, (list, tuple)) else (arg,)))

    def missed(self) -> set[int]:
        """Identities of the containers of which the function read more than items that were there."""
        return {number for number, keys in self.reads.items() if keys and (ALL in keys or not keys <= self._keys_before(number))}

    def _keys_before(self, number: int) -> set[Any]:
        if number not in self._keys:
            _, kind = self.kinds[number]
            items = self.before[number]
            self._keys[number] = {key for key, _ in items} if issubclass(kind, dict) else set(items) if issubclass(kind, set) else set(
                range(len(items)))
        return self._keys[number]

    def is_unread(self, change: Change) -> bool:
        """True for a change of one item that the function did not read: what it stores there is not what the next call reads."""
        keys, reads = _keys(base_of(change.kind) or list, change.args[:1]), self.reads[id(change.container)]
        return change.name == "__setitem__" and bool(keys) and reads.isdisjoint((*keys, ALL))

    def is_stored_first(self, source: Source) -> bool:
        """True for an item that the function stored, and did not read before."""
        number, key = id(source.holder), _key_of(source)
        return not _is_count(source) and key in self.written[number] and self.reads[number].isdisjoint((key, ALL))

    def is_stored(self, source: Source) -> bool:
        """True for a source in a repeatable container that the function did not read before it stored it."""
        number = id(source.holder)
        reads, written = self.reads[number], self.written[number]
        if not reads:
            return not issubclass(self.kinds[number][1], dict) or number in self.reset or _is_count(source) or _key_of(source) in written
        if _is_count(source):
            _, kind = self.kinds[number]
            return issubclass(kind, dict) and reads <= self._keys_before(number)
        return _key_of(source) in written


def _item(base: Any, container: Any, key: Any) -> Any:
    """An item of a container, whose class neither logs this nor makes the item."""
    try:
        return base.get(container, key, MISSING) if base is dict else base.__getitem__(container, key)
    except LookupError:
        return MISSING


def first_number(container: Any) -> Any:
    """The number that a `defaultdict` or a `Counter` begins with at a key that is not there; None if there is none."""
    missing = getattr(type(container), "__missing__", None)
    if missing is Counter.__missing__:      # type: ignore[attr-defined]
        return 0
    return container.default_factory() if missing is defaultdict.__missing__ and container.default_factory in _NUMBERS else None


def _flat(items: list[Any], kind: type) -> list[Any]:
    """Items of a container; of a dict, of which these are pairs, the values."""
    return [item for _, item in items] if issubclass(kind, dict) else items


def _contents(container: Any) -> list[Any]:
    return [*container, *(container.values() if isinstance(container, dict) else ())]


def _is_count(source: Source) -> bool:
    return source.path.startswith(("len(", "keys(", "set(")) or source.path.endswith("[...]")


def _key_of(source: Source) -> Any:
    args: Any = getattr(source.read, "args", ())
    return args[1] if len(args) == 2 and is_scalar(args[1]) else ALL


def _from_the_end(key: Any) -> int | None:
    """The first one of the last items that an index or a slice reads, counted from the end; None for other ones."""
    first = key.start if isinstance(key, slice) and key.stop is None and key.step is None else key
    return first if type(first) is int and first < 0 else None


def _keys(base: type, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The key that a method is called with, if it says which item is meant; else none."""
    known = len(args) == 1 and (is_scalar(args[0]) if base in (dict, set) else type(args[0]) is int and args[0] >= 0)
    return args if known else ()


_logs = ActiveLogs[ContainerLog]()


def _log_of(container: Any) -> ContainerLog | None:
    """The log of this thread's trace for a container."""
    return next((log for log in reversed(_logs.of_this_thread()) if id(container) in log.kinds), None)


ORIGINAL_KIND: dict[type, type] = {}
"""Original class of each class of logged containers."""


class _LogHooks:
    """What other modules know: what a traced number is as a key, the number, which another call finds (`array`); numbers that are only
    added to (`tallies`)."""

    known_key: Callable[[Any], Any] = staticmethod(lambda key: key)
    tally: Callable[[Any, object], Any]
    is_tally: Callable[[Any], bool] = staticmethod(lambda number: False)
    is_counted: Callable[[Any], bool] = staticmethod(lambda number: False)


log_hooks = _LogHooks()


def base_of(kind: type) -> type | None:
    """The built-in class that a class of containers derives from; None if they are not logged."""
    return next((base for base in _BLIND if issubclass(kind, base)), None)


def _changing(name: str, base: type, own: Any) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = _log_of(self)
        if log is None:
            return own(self, *args, **kwargs)
        if base is dict and name in _PAIRS:
            if type(self) in ORIGINAL_KIND and ORIGINAL_KIND[type(self)] is Counter:
                log.note_read(self, ALL)
                return own(self, *args, **kwargs)
            if name == "__ior__" and not isinstance(args[0], dict) and not isinstance(args[0], Iterable):
                return NotImplemented
            args, kwargs = (dict(*args, **kwargs),), {}
        elif name in _ITEMS and base is not dict:
            if name.startswith("__i") and base is set and not isinstance(args[0], (set, frozenset)):
                return NotImplemented
            args = tuple((list if base in (list, deque) else set)(items) for items in args)
        if name == "__setitem__" and log_hooks.is_tally(args[1]) and args[1].place == (id(self), args[0]):
            return own(self, *args)
        if name in _AT_A_KEY and base in (dict, set) and args:
            args = (log_hooks.known_key(args[0]), *args[1:])
        if kwargs:
            log.note_read(self, ALL)
        if name in _BLIND[base]:
            log.note_change(self, base, name, args)
        else:
            for key in (name in _AT_A_KEY and base in (dict, set) and _keys(base, args[:1])) or (ALL,):
                log.note_read(self, key, asked=True)
            log.note_change(self, base, name, args)
        return own(self, *args, **kwargs)
    return method


def _reading(name: str, base: type, own: Any) -> Callable[..., Any]:
    at_a_key = name in _READING_AT[base]

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        log = _log_of(self)
        if log is not None and name == "__getitem__" and id(self) in log.counting:
            found = log.counted(self, base, args)
            if found is not None:
                return found
        if log is not None:
            last = _from_the_end(args[0]) if name == "__getitem__" and base in (list, deque) else None
            for key in (at_a_key and _keys(base, args[:1])) or (ALL,) if last is None else (last,):
                log.note_read(self, key, asked=name != "__getitem__")
        return own(self, *args, **kwargs)
    return method


def unlogged(self: Any) -> Any:
    """An ordinary container with the same items."""
    log = _log_of(self)
    kind: Any = ORIGINAL_KIND.get(type(self), type(self))
    base: Any = base_of(kind)
    if log is not None:
        log.note_read(self, ALL)
    items = [(key, dict.__getitem__(self, key)) for key in kind.__iter__(self)] if base is dict else list(base.__iter__(self))
    return _filled(kind, items, self)


def _filled(kind: Any, items: list[Any], like: Any) -> Any:
    """A container of a class with these items, a dict's as pairs, and everything else as another one has it."""
    made = kind.__new__(kind)
    if issubclass(kind, deque):
        deque.__init__(made, items, like.maxlen)
    elif issubclass(kind, dict):
        for key, value in items:
            kind.__setitem__(made, key, value)
    else:
        (list.extend if issubclass(kind, list) else set.update)(made, items)
    if issubclass(kind, defaultdict):
        made.default_factory = like.default_factory
    if hasattr(made, "__dict__"):
        vars(made).update(vars(like))
    return made


@cache
def _logged_class(kind: Any) -> type | None:
    """Return the class of logged containers of this class; None if objects cannot change from one class to the other, or if the class has
    its own code for what changes them."""
    base = base_of(kind)
    if base is None or kind in ORIGINAL_KIND or type(kind) is not type:
        return None
    if any("__init_subclass__" in vars(each) for each in kind.__mro__[:-1]):
        return None
    changing = _BLIND[base] | _DEPENDING[base]
    if any(isinstance(getattr(kind, name, None), FunctionType) for name in changing) and kind is not Counter:
        return None
    made = type(kind.__name__, (kind,), {"__slots__": (), "__module__": kind.__module__})
    if not has_layout_of(made, kind):
        return None
    for name in dir(kind):
        own = getattr(kind, name)
        if name not in _KEPT and callable(own):
            setattr(made, name, (_changing if name in changing else _reading)(name, base, own))
    attributes: Any
    (attributes,) = gc.get_referents(vars(made))
    attributes["__class__"] = property(lambda self: kind)       # `isinstance` reads it
    methods: dict[str, Any] = {"__copy__": unlogged, "__deepcopy__": lambda self, memo: copy.deepcopy(unlogged(self), memo),
                               "__reduce_ex__": lambda self, protocol: unlogged(self).__reduce_ex__(protocol)}
    for name, method in methods.items():
        setattr(made, name, method)
    ORIGINAL_KIND[made] = kind
    register_container(made, kind)
    return made


def logging_containers(containers: Iterable[Any]) -> AbstractContextManager[ContainerLog]:
    """Log the uses of these containers within the block."""
    return _logs.logging(ContainerLog(containers), _logged_class)
