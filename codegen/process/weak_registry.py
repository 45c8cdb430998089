"""What is kept for objects for as long as these live, without a step of Python's where one ends: what a signal handler raises within a
destructor, or a callback of a weak reference, is lost, and Ctrl-C is not heard.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WeakRegistry(Generic[T]):
    """Things by owner. Those of owners that have ended go when the next one asks for it with `purge`.

    >>> class Owner: pass
    >>> registry, owner = WeakRegistry(), Owner()
    >>> registry.add(owner, "thing")
    >>> [item for _, item in registry.live_items()]
    ['thing']
    >>> del owner
    >>> registry.live_items()
    []
    """

    def __init__(self) -> None:
        self._items: dict[int, tuple[weakref.ref[Any], T]] = {}
        self._ended: deque[weakref.ref[Any]] = deque()

    def add(self, owner: object, item: T) -> None:
        """Keep a thing; an owner may have several."""
        reference = weakref.ref(owner, self._ended.append)
        self._items[id(reference)] = reference, item

    def live_items(self) -> list[tuple[Any, T]]:
        """The owners that live, and their things."""
        found = [(reference(), item) for reference, item in tuple(self._items.values())]
        return [(owner, item) for owner, item in found if owner is not None]

    def purge(self) -> None:
        """Have the things go whose owners have ended."""
        while self._ended:
            with suppress(IndexError):      # another thread took it
                self._items.pop(id(self._ended.popleft()), None)
