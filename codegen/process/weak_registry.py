"""Items that live as long as their owners, without Python code that runs when an owner dies: an exception that a signal handler raises
within a destructor, or within the callback of a weak reference, is lost, and so is Ctrl-C.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class WeakRegistry(Generic[T]):
    """Items by owner. Items of dead owners are freed by the next call of `purge`.

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
        """Add an item; an owner may have several."""
        reference = weakref.ref(owner, self._ended.append)
        self._items[id(reference)] = reference, item

    def live_items(self) -> list[tuple[Any, T]]:
        """Pairs of a live owner and one of its items."""
        found = [(reference(), item) for reference, item in tuple(self._items.values())]
        return [(owner, item) for owner, item in found if owner is not None]

    def purge(self) -> None:
        """Free the items of dead owners."""
        while self._ended:
            with suppress(IndexError):      # another thread took it
                self._items.pop(id(self._ended.popleft()), None)
