"""What is kept for objects for as long as these live, without a step of Python's where one ends: what a signal handler raises within a
destructor, or a callback of a weak reference, is lost, and Ctrl-C is not heard.
"""

from __future__ import annotations

import weakref
from collections import deque
from contextlib import suppress
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Kept(Generic[T]):
    """Things by owner. Those of owners that have ended go when the next one asks for it with `let_go`.

    >>> class Owner: pass
    >>> kept, owner = Kept(), Owner()
    >>> kept.keep(owner, "thing")
    >>> [thing for _, thing in kept.living()]
    ['thing']
    >>> del owner
    >>> kept.living()
    []
    """

    def __init__(self) -> None:
        self._things: dict[int, tuple[weakref.ref[Any], T]] = {}
        self._ended: deque[weakref.ref[Any]] = deque()

    def keep(self, owner: object, thing: T) -> None:
        """Keep a thing; an owner may have several."""
        reference = weakref.ref(owner, self._ended.append)
        self._things[id(reference)] = reference, thing

    def living(self) -> list[tuple[Any, T]]:
        """The owners that live, and their things."""
        found = [(reference(), thing) for reference, thing in tuple(self._things.values())]
        return [(owner, thing) for owner, thing in found if owner is not None]

    def let_go(self) -> None:
        """Have the things go whose owners have ended."""
        while self._ended:
            with suppress(IndexError):      # another thread took it
                self._things.pop(id(self._ended.popleft()), None)
