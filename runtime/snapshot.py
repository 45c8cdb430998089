"""What modules and optimisers hold besides the content of their tensors: compared at every call of a program that was made with it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from adjit.eager.state import Stateful
from adjit.eager.tensor import Tensor

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_CONTAINERS = (dict, list, tuple, set, frozenset)


class Snapshot:
    """The containers that are reached from some objects, and what they held: attributes, dicts, lists.

    `free` are the entries, as (identity of the dict, key), that may change: numbers that a program reads anew at every call.
    """

    def __init__(self, roots: Iterable[Any], free: Collection[tuple[int, str]] = ()):
        self._dicts: list[tuple[dict[Any, Any], tuple[Any, ...], tuple[Any, ...], str]] = []
        self._lists: list[tuple[list[Any], tuple[Any, ...], str]] = []
        self._sets: list[tuple[set[Any], frozenset[Any], str]] = []
        self._free = {(owner, key) for owner, key in free}
        self._seen: set[int] = set()
        for root in roots:
            self._visit(root, type(root).__name__)

    def holds(self) -> bool:
        """Whether everything is as it was."""
        free = self._free
        for table, keys, values, _ in self._dicts:
            if len(table) != len(keys):
                return False
            for (key, now), then_key, then in zip(table.items(), keys, values, strict=True):
                if (now is not then and not _same(now, then) and not ((id(table), key) in free and type(now) is type(then))) \
                        or (key is not then_key and not _same(key, then_key)):
                    return False
        return all(len(items) == len(then) and all(a is b or _same(a, b) for a, b in zip(items, then, strict=True))
                   for items, then, _ in self._lists) and all(items == then for items, then, _ in self._sets)

    def changed(self, allowed: Collection[int] = ()) -> str:
        """What is not as it was, in words; containers with an identity in `allowed` may be. Empty where nothing is."""
        for table, keys, values, path in self._dicts:
            if id(table) in allowed:
                continue
            then = {id(key) if isinstance(key, Tensor) else key: value for key, value in zip(keys, values, strict=True)}
            now = {id(key) if isinstance(key, Tensor) else key: value for key, value in table.items()}
            for key in (*then, *(key for key in now if key not in then)):
                if key not in now or key not in then or not (now[key] is then[key] or _same(now[key], then[key])):
                    if (id(table), key) not in self._free:
                        return f"{path}.{key}" if isinstance(key, str) else f"{path}[...]"
        for items, then_items, path in self._lists:
            if id(items) not in allowed and (len(items) != len(then_items) or any(
                    not (a is b or _same(a, b)) for a, b in zip(items, then_items, strict=True))):
                return path
        return next((path for members, then_members, path in self._sets if members != then_members), "")

    def restore(self, allowed: Collection[int] = ()) -> None:
        """Make everything as it was."""
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
            self._visit(vars(value), path)


def _same(now: Any, then: Any) -> bool:
    """Whether two values that are not one object mean the same to a program."""
    if type(now) is not type(then):
        return False
    if isinstance(now, _SCALARS):
        return bool(now == then) or (now != now and then != then)
    if isinstance(now, tuple):
        return len(now) == len(then) and all(a is b or _same(a, b) for a, b in zip(now, then, strict=True))
    return False


def stateful_in(values: Iterable[Any]) -> list[Stateful]:
    """The modules and optimisers among values, and within their containers."""
    found: list[Stateful] = []
    stack = list(values)
    while stack:
        value = stack.pop()
        if isinstance(value, Stateful):
            found.append(value)
        elif isinstance(value, dict):
            stack += value.values()
        elif isinstance(value, (list, tuple, set, frozenset)):
            stack += value
    return found


def filled_later(roots: Iterable[Any]) -> set[int]:
    """The identities of the containers that an optimiser fills at its first step: that is allowed while a function is traced."""
    found: set[int] = set()
    stack = [vars(root)[name] for root in stateful_in(roots) for name in type(root)._filled_later]
    while stack:
        container = stack.pop()
        if isinstance(container, dict):
            found.add(id(container))
            stack += container.values()
    return found
