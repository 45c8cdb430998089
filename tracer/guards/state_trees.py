"""Containers of objects outside that a call reads and binds anew as a whole: `self.state = (h, c)`, `opt["m"] = {"w": ..., "b": ...}`,
`self.stats = replace(self.stats, n=n + 1)`.

The next call finds another container there, of the same parts. So what such a container holds is looked up from its place
(`read_within`), in place of from the object that was there, and the guard of the place is that the parts are of the same kinds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.guards.source import MISSING, NO_ATTRIBUTES, Source, own_attributes, read_item, read_slot, read_within, rebind, same
from adjit.tracer.guards.templates import Template, is_plain, slots_of_class

Key = tuple[str, int]
Part = tuple[Any, ...]
"""Description of a part: its kind, and what has to be the same."""

_ANY, _SAME, _KEPT = "any", "same", "kept"
_READS: tuple[Any, ...] = (read_item, getattr, read_slot)


def is_tree(value: Any) -> bool:
    """True for a container whose parts may be state: each call can make another one."""
    kind = type(value)
    return kind in (tuple, list, dict) or (issubclass(kind, tuple) and hasattr(kind, "_make")) or (
        own_attributes(value) is not NO_ATTRIBUTES and not isinstance(value, type) and not callable(value) and is_plain(kind)
        and kind.__module__ not in ("builtins", "types"))


class StateTrees:
    """The containers in places with one of these `paths`, for one trace, whose parts are read from there: `sources`, which are those of
    the trace, are made so. With `may_take` another trace may have more of them; `wanted` are their paths. `outside` gives the identities of
    the objects that are older than the trace."""

    def __init__(self, sources: MutableMapping[Key, Source], paths: Collection[str], may_take: bool,
                 outside: Callable[[], Collection[int]]):
        self._paths, self._may_take, self.outside = frozenset(paths), may_take, outside
        self.wanted: set[str] = set()
        self.failed = False     # the function has to be traced again without
        self.matched: dict[Key, Part] = {}
        self.inside: set[int] = set()       # holders within what the trace bound in matched places
        self._roots = {key: source for key, source in sources.items() if source.path in paths and is_tree(source.value)}
        self._children: dict[int, list[Source]] = {}
        self._originals: dict[Key, Source] = {}
        if not self._roots:
            return
        counts: dict[int, int] = {}
        for source in sources.values():
            counts[id(source.value)] = counts.get(id(source.value), 0) + 1
        by_holder: dict[int, list[Source]] = {}
        for source in sources.values():
            if isinstance(source.read, partial) and source.read.func in _READS:
                by_holder.setdefault(id(source.holder), []).append(source)
        waiting, self._within = list(self._roots.values()), set[Key]()
        for root in waiting:
            if counts[id(root.value)] > 1:      # another place keeps it
                self._roots.pop(root.key, None)
                continue
            for holder in _holders(root.value):
                for source in by_holder.get(holder, ()):
                    if source.inherited:        # of a class, which this would not follow
                        self._roots.clear()
                        return
                    read: Any = source.read
                    name = read.args[0] if read.func is read_slot else read.args[1]
                    moved = source._replace(read=partial(read_within, root.read, read.func, name))
                    self._originals[source.key] = source
                    sources[source.key] = moved
                    self._children.setdefault(id(root.value), []).append(moved)
                    if is_tree(source.value):
                        waiting.append(moved)

    def original(self, source: Source) -> Source:
        """The source of a part of a container that can be changed, read from this container."""
        found = self._originals.get(source.key, source)
        return source if isinstance(found.holder, tuple) else found

    @contextmanager
    def bound(self) -> Iterator[None]:
        """Bind the containers again at the end that a traced number was put into the place of, where the function bound no others."""
        now = {key: root.read() for key, root in self._roots.items()}
        try:
            yield
        finally:
            for key, root in self._roots.items():
                if now[key] is not root.value and root.read() is now[key]:
                    rebind(root.read, root.value)

    def is_next(self, source: Source, then: Any, is_next: Callable[[Source, Any], bool]) -> bool:
        """True if the container in a place is for the next call what `then`, which was there, is for this one; `is_next` says so of arrays
        and numbers."""
        if source.key not in self._roots:
            if self._may_take and source.path not in self._paths and id(source.value) not in self.outside() and _alike(source.value, then):
                self.wanted.add(source.path)
                self.inside.update(_holders_within(source.value))
                return True
            return False
        inside = set[int]()
        part = self._part(source.value, then, is_next, inside)
        if part is None:        # traced numbers may be in another place now
            self.failed = True
            return True
        self.matched[source.key] = part
        self.inside |= inside
        return True

    def _part(self, now: Any, then: Any, is_next: Callable[[Source, Any], bool], inside: set[int]) -> Part | None:
        kind = type(then)
        if type(now) is not kind or (now is then and not isinstance(then, tuple)) or id(now) in inside or (
                now is not then and id(now) in self.outside()):
            return None
        inside.update(_holders(now))
        names, values = _parts(now)
        if names != _parts(then)[0]:
            return None
        children = {_name(source): source for source in self._children.get(id(then), ())}
        found: list[Part] = []
        for name, value, old in zip(names, values, _parts(then)[1], strict=True):
            part: Part | None
            source = children.get((type(name), name))
            old = old if source is None else source.value       # a traced number may be there now
            if source is None:
                part = (_SAME, old) if same(value, old) else None
            elif value is old and is_tree(old) and not isinstance(old, tuple):
                part = (_KEPT, old)         # bound again as it is; what it holds is compared at its own places
            elif is_tree(old):
                part = self._part(value, old, is_next, inside)
            elif same(value, old) and not is_ndarray(old):
                part = (_SAME, old)
            else:
                part = (_ANY,) if is_next(source._replace(value=value), old) else None
            if part is None:
                return None
            found.append(part)
        return (kind, names, tuple(found))

    def templates(self) -> dict[int, Template]:
        """Templates of the containers, by identity: the next call finds another one in the place, which moves as this one does."""
        return {id(root.value): partial(_read, root.read) for root in self._roots.values() if not isinstance(root.value, tuple)}

    def sources_of(self, key: Key) -> Iterator[Source]:
        """The sources of the arrays and numbers in a matched place."""
        waiting = [self._roots[key]]
        for source in waiting:
            yield source
            waiting += self._children.get(id(source.value), ())

    def guard(self, source: Source) -> Source:
        """The guard of a matched place: it holds the same kinds of parts."""
        return Source(f"the parts of {source.path}", partial(_has_parts, source.read, self.matched[source.key]), True, source.holder, False)


def _read(read: Callable[[], Any], *_: Any) -> Any:
    return read()


def _alike(now: Any, then: Any) -> bool:
    """True if two containers have the same parts, of which some may be other arrays and numbers."""
    if not is_tree(then) or type(now) is not type(then) or now is then:
        return False
    names = _parts(now)[0]
    return bool(names) and names == _parts(then)[0]


def _parts(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Names and values of the parts of a container."""
    if isinstance(value, (tuple, list)):
        return tuple(range(len(value))), tuple(value)
    if type(value) is dict:
        return tuple(value), tuple(value.values())
    slots = {slot.__name__: read_slot(slot, value) for slot in slots_of_class(type(value))}
    table = {**own_attributes(value), **{name: item for name, item in slots.items() if item is not MISSING}}
    return tuple(table), tuple(table.values())


def _holders(value: Any) -> tuple[int, ...]:
    """Identities of the objects that sources of the parts of a container name as their holders."""
    table = own_attributes(value)
    return (id(value),) if table is NO_ATTRIBUTES else (id(value), id(table))


def _holders_within(value: Any) -> Iterator[int]:
    """Identities of such objects of a container and of those that it holds."""
    waiting, seen = [value], set[int]()
    for each in waiting:
        if is_tree(each) and id(each) not in seen:
            seen.add(id(each))
            yield from _holders(each)
            waiting += _parts(each)[1]


def _name(source: Source) -> tuple[type, Any]:
    read: Any = source.read
    name = read.args[2] if read.args[1] is not read_slot else read.args[2].__name__
    return type(name), name


def _has_parts(read: Callable[[], Any], part: Part) -> bool:
    return _fits(read(), part)


def _fits(value: Any, part: Part) -> bool:
    if part[0] is _ANY:
        return True
    if part[0] is _KEPT:
        return value is part[1]
    if part[0] is _SAME:
        return value is part[1] or same(value, part[1])
    if type(value) is not part[0]:
        return False
    names, values = _parts(value)
    return names == part[1] and all(map(_fits, values, part[2]))
