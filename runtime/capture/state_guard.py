"""State guards: state of modules and optimisers other than tensor contents, compared at every call of a program traced with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from functools import cache
from itertools import chain
from operator import is_
from types import FunctionType
from typing import Any

import numpy as np

from adjit.eager.capture import is_number
from adjit.eager.state import Stateful
from adjit.eager.tensor import Tensor
from adjit.tracer.guards.bytecode import EVERYTHING, names_of
from adjit.tracer.guards.module_owner import ModuleOwner, owner_of_class
from adjit.tracer.guards.source import same

_SCALARS = (bool, int, float, complex, str, bytes, type(None), np.generic)
_PLAIN = (*_SCALARS, tuple)


class StateGuard:
    """Snapshot of the containers reachable from some objects, and of their content: attributes, dicts, lists.

    `varying` are the entries that may change: numbers that a program reads at every call. An entry is the identity of the dict, the key,
    and, for a tuple, the index in it. Of the entries in `free`, without an index, the tensors may be others: a program stores to them.
    Lists with an identity in `unread` may hold anything; so may lists, dicts and sets in attributes of modules that are not among `names`,
    those that the traced code mentions: a policy's `saved_actions`, which the loop around it fills.
    """

    def __init__(self, roots: Iterable[Any], varying: Collection[tuple[int, str, int | None]] = (),
                 free: Collection[tuple[int, Any]] = (), unread: Collection[int] = (), names: Set[str] | None = None):
        self._free = frozenset(free)
        self._names = None if names is None or not names.isdisjoint(_ALL) else names
        self._unnamed: set[tuple[int, str]] = set()
        self._dicts: list[tuple[dict[Any, Any], tuple[Any, ...], tuple[Any, ...], str]] = []
        self._lists: list[tuple[list[Any], tuple[Any, ...], str]] = []
        self._sets: list[tuple[set[Any], frozenset[Any], str]] = []
        self._varying: dict[tuple[int, str], set[int | None]] = {}
        for owner, key, index in varying:
            self._varying.setdefault((owner, key), set()).add(index)
        self._seen: set[int] = set(unread)
        for root in roots:
            self._visit(root, type(root).__name__)
        self._tables = [table for table, _, _, _ in self._dicts]
        self._sizes = [len(table) for table in self._tables]
        self._keys = [key for _, keys, _, _ in self._dicts for key in keys]
        self._values = [value for _, _, values, _ in self._dicts for value in values]

    def holds(self) -> bool:
        """True if all guarded state is unchanged."""
        tables = self._tables
        if list(map(len, tables)) != self._sizes:
            return False
        same = all(map(is_, chain.from_iterable(tables), self._keys)) \
            and all(map(is_, chain.from_iterable(map(dict.values, tables)), self._values))      # the usual case, checked fast
        for table, keys, values, _ in () if same else self._dicts:
            if not self._dict_holds(table, keys, values):
                return False
        for items, then, _ in self._lists:
            if len(items) != len(then) or not (all(map(is_, items, then)) or all(map(_same, items, then))):
                return False
        return not self._sets or all(members == then for members, then, _ in self._sets)

    def containers(self) -> Iterator[tuple[Any, tuple[Any, ...] | None, Sequence[Any], set[int]]]:
        """Each dict with its keys and values, each list and set with its items; and the positions that may hold any number."""
        for table, keys, values, _ in self._dicts:
            varying = (isinstance(key, str) and None in self._varying.get((id(table), key), ()) for key in keys)
            yield table, keys, values, {index for index, is_varying in enumerate(varying) if is_varying}
        for items, then, _ in self._lists:
            yield items, None, then, set()
        for members, then_members, _ in self._sets:
            yield members, None, tuple(then_members), set()

    def tables(self) -> Iterator[tuple[dict[Any, Any], dict[Any, Any]]]:
        """Each dict with its content then; keys that are tensors are their identities there."""
        for table, keys, values, _ in self._dicts:
            yield table, {id(key) if isinstance(key, Tensor) else key: value for key, value in zip(keys, values, strict=True)}

    def value_of(self, table: dict[Any, Any], key: Any) -> Any:
        """What the entry of a dict held."""
        return next(value for other, keys, values, _ in self._dicts if other is table
                    for name, value in zip(keys, values, strict=True) if name is key or (type(name) is str and name == key))

    def held(self) -> Iterator[Any]:
        """Each object that a container holds, as often as it is held."""
        for _, _, values, _ in self._dicts:
            yield from values
            for value in values:
                if isinstance(value, tuple):
                    yield from value
        for _, then, _ in self._lists:
            yield from then

    def members(self) -> set[int]:
        """Identities of all objects in the containers."""
        found = {id(value) for _, _, values, _ in self._dicts for value in values}
        return found.union(id(item) for _, then, _ in self._lists for item in then)

    def has_same_objects(self) -> bool:
        """True if nothing but numbers, strings and flags has changed."""
        return all(len(table) == len(keys) and all(map(_same, table, keys)) and all(map(_alike, table.values(), values))
                   for table, keys, values, _ in self._dicts) and all(
            len(items) == len(then) and all(map(_alike, items, then)) for items, then, _ in self._lists)

    def _dict_holds(self, table: dict[Any, Any], keys: tuple[Any, ...], values: tuple[Any, ...]) -> bool:
        return all(_same(key, then_key) and (_same(now, then) or self._may_change(table, key, now, then))
                   for (key, now), then_key, then in zip(table.items(), keys, values, strict=True))

    def _may_change(self, table: dict[Any, Any], key: Any, now: Any, then: Any) -> bool:
        if (id(table), key) in self._unnamed and type(now) is type(then):
            return True
        if self._free and (id(table), key) in self._free and _same_but_for_tensors(now, then):
            return True
        indices = self._varying.get((id(table), key)) if isinstance(key, str) else None
        if indices is None or not isinstance(then, tuple):
            return indices is not None and is_number(now) and is_number(then)
        return type(now) is tuple and (len(now) == len(then) and all(
            _same(a, b) or index in indices for index, (a, b) in enumerate(zip(now, then, strict=True))))

    def changed(self, allowed: Collection[int] = ()) -> str:
        """Description of the changed state; empty if nothing changed. Containers with an identity in `allowed` may change."""
        return self.first_change(allowed)[0]

    def first_change(self, allowed: Collection[int] = ()) -> tuple[str, tuple[int, Any]]:
        """Description of the first change; and, if it is an entry of a dict, the identity of the dict and the key."""
        for table, keys, values, path in self._dicts:
            if id(table) in allowed:
                continue
            then = {id(key) if isinstance(key, Tensor) else key: value for key, value in zip(keys, values, strict=True)}
            now = {id(key) if isinstance(key, Tensor) else key: value for key, value in table.items()}
            for key in (*then, *(key for key in now if key not in then)):
                if key in now and key in then and (_same(now[key], then[key]) or self._may_change(table, key, now[key], then[key])):
                    continue
                return f"{path}.{key}" if isinstance(key, str) else f"{path}[...]", (id(table), key)
        for items, then_items, path in self._lists:
            if id(items) not in allowed and (len(items) != len(then_items) or not all(map(_same, items, then_items))):
                return path, (0, None)
        return next((path for members, then_members, path in self._sets if members != then_members), ""), (0, None)

    def restore(self, allowed: Collection[int] = ()) -> None:
        """Restore the state of the snapshot."""
        for table, keys, values, _ in self._dicts:
            if id(table) not in allowed:
                table.clear()
                table.update(zip(keys, values, strict=True))
        for items, then, _ in self._lists:
            if id(items) not in allowed:
                items[:] = then
        for members, then_members, _ in self._sets:
            members.clear()
            members.update(then_members)

    def _visit(self, value: Any, path: str) -> None:
        if isinstance(value, (*_SCALARS, Tensor, type)) or id(value) in self._seen:
            return
        if isinstance(value, dict):
            self._seen.add(id(value))
            self._dicts.append((value, tuple(value), tuple(value.values()), path))
            for key, item in list(value.items()):
                if (id(value), key) not in self._free and (id(value), key) not in self._unnamed:
                    self._visit(item, f"{path}.{key}" if isinstance(key, str) else path)
        elif isinstance(value, (list, tuple)):
            self._seen.add(id(value))
            if isinstance(value, list):
                self._lists.append((value, tuple(value), path))
            for index, item in enumerate(value):
                self._visit(item, f"{path}[{index}]")
        elif isinstance(value, set):
            self._sets.append((value, frozenset(value), path))
        elif isinstance(value, Stateful):
            self._seen.add(id(value))
            self._seen.update(id(vars(value)[name]) for name in value._outside_of_traces if name in vars(value))
            of_class: Any = type(value)
            if self._names is not None and hasattr(of_class, "forward"):
                self._unnamed.update((id(vars(value)), name) for name, item in vars(value).items() if type(item) in (list, dict, set)
                                     and name not in self._names and not _is_named_by_ours(of_class, name))
            self._visit(vars(value), path)


_ALL = frozenset({EVERYTHING, "copy", "deepcopy"})
"""Names of code that may read all attributes of a module."""


def _function_of(member: Any) -> Any:
    return getattr(member, "fget", None) or getattr(member, "__func__", member)


@cache
def _is_named_by_ours(kind: Any, name: str) -> bool:
    """True if a method of ours, of a class of modules or of one that it is derived from, mentions an attribute; or one of the user's that
    such a method may call, as it takes the place of one of ours (`extra_repr`)."""
    ours = [base for base in kind.__mro__ if owner_of_class(base) is ModuleOwner.OURS]
    called = {key for base in ours for key in vars(base)} - {"__init__"}
    methods = [_function_of(member) for base in kind.__mro__ for key, member in vars(base).items() if base in ours or key in called]
    return any(name in names_of(method.__code__) for method in methods if isinstance(method, FunctionType))


def _same(now: Any, then: Any) -> bool:
    """True if two values are equivalent for a program."""
    if now is then:
        return True
    if type(now) is not type(then):
        return False
    if issubclass(type(now), _SCALARS):     # excludes traced arrays
        return same(now, then)
    if isinstance(now, tuple):
        return len(now) == len(then) and all(map(_same, now, then))
    return False


def _same_but_for_tensors(now: Any, then: Any) -> bool:
    """True if two values differ in nothing but which tensors they hold."""
    if isinstance(then, Tensor):
        return isinstance(now, Tensor)
    if type(then) in (list, tuple):
        return type(now) is type(then) and len(now) == len(then) and all(map(_same_but_for_tensors, now, then))
    if type(then) is dict:
        return type(now) is dict and now.keys() == then.keys() and all(_same_but_for_tensors(now[key], then[key]) for key in then)
    return _same(now, then)


def _alike(now: Any, then: Any) -> bool:
    """True if two values are the same object, or both are plain values."""
    return now is then or (issubclass(type(now), _PLAIN) and issubclass(type(then), _PLAIN))


def stateful_in(values: Iterable[Any]) -> list[Stateful]:
    """The modules and optimisers among values, also inside of containers."""
    found: list[Stateful] = []
    stack, seen = list(values), set[int]()
    while stack:
        value = stack.pop()
        if isinstance(value, Stateful):
            found.append(value)
        elif isinstance(value, (dict, list, tuple, set, frozenset)) and id(value) not in seen:
            seen.add(id(value))         # a list may hold itself
            stack.extend(value.values() if isinstance(value, dict) else value)      # `+=` would call the `__radd__` of a subclass
    return found


def filled_later(roots: Iterable[Any]) -> set[int]:
    """Identities of the containers that an optimiser fills at its first step, which is allowed in a trace."""
    found: set[int] = set()
    stack = [vars(root)[name] for root in stateful_in(roots) for name in type(root)._filled_later]
    while stack:
        container = stack.pop()
        if isinstance(container, dict):
            found.add(id(container))
            stack += container.values()
    return found


def numbers_filled_in(roots: Iterable[Any]) -> dict[tuple[int, Any], tuple[str, Any]]:
    """Python numbers in the containers that an optimiser fills: by container and key, their source text and value."""
    found: dict[tuple[int, Any], tuple[str, Any]] = {}
    stack = [(vars(root)[name], f"{type(root).__name__}.{name}") for root in stateful_in(roots) for name in type(root)._filled_later]
    while stack:
        container, path = stack.pop()
        if isinstance(container, dict):
            for key, value in container.items():
                item_path = f"{path}[{key!r}]" if isinstance(key, (str, int)) else f"{path}[...]"
                if issubclass(type(value), (int, float)):
                    found[id(container), key if isinstance(key, (str, int)) else id(key)] = item_path, value
                else:
                    stack.append((value, item_path))
    return found
