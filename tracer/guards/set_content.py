"""Content of a set outside of the arguments, which a program compares at each call.

A set has no version and no order by which it could be compared item by item, and a copy of 2,000 numbers with a comparison takes 400 us.
But its table in memory says all: as long as each word of that is the same, so are the items, and the order in which Python iterates over
them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Collection
from functools import cache
from operator import is_
from typing import Any

_FIRST = 16
"""Offset in a set of four words: entries that are or were in use, items, the last index of the table, its address."""

_ENTRY_BYTES = 16       # the item, and its hash


class SetContent:
    """Reader of a set, for a source: gives the same tuple of its items for as long as they are the same, in the same order."""

    __slots__ = ("_seen", "_table", "_words", "items", "values")

    def __init__(self, values: Collection[Any]):
        self.values = values
        self.items = tuple(values)      # which keeps them alive: no other object gets their addresses
        self._words = (ctypes.c_int64 * 4).from_address(id(values) + _FIRST) if _is_known() else None
        self._seen: list[int] = []
        self._table = b""

    def __call__(self) -> tuple[Any, ...]:
        if self._words is None:
            return self._read()
        words = self._words[:]
        if words == self._seen and not _compare(words[3], self._table, len(self._table)):
            return self.items
        now = self._read()
        if now is self.items:
            self._seen = self._words[:]
            self._table = ctypes.string_at(self._seen[3], (self._seen[2] + 1) * _ENTRY_BYTES)
        return now

    def _read(self) -> tuple[Any, ...]:
        now = tuple(self.values)
        return self.items if len(now) == len(self.items) and all(map(is_, now, self.items)) else now


_compare = ctypes.PyDLL(None).memcmp        # keeps the GIL
_compare.argtypes, _compare.restype = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t], ctypes.c_int


@cache
def _is_known() -> bool:
    """True if sets of this Python have their words where they are looked for, and no other thread changes one meanwhile."""
    if sys.implementation.name != "cpython" or "t" in getattr(sys, "abiflags", "") or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    items = {object() for _ in range(100)}
    items.pop()
    used, count, last, address = (ctypes.c_int64 * 4).from_address(id(items) + _FIRST)
    if (used, count) != (100, 99) or not 100 <= last < 1 << 12 or last & (last + 1):
        return False
    table = (ctypes.c_int64 * (2 * (last + 1))).from_address(address)
    return sorted(map(id, items)) == sorted(item for item, hashed in zip(table[::2], table[1::2], strict=True) if item and hashed != -1)
