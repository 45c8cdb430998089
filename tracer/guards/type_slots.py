"""Slots of classes: words in a class object that change when its bases are replaced, or when it gets a special method.

`c == d`, `if c`, `x in c` and the like ask the class, not a name in the code: a method that is set later is seen by its slot.
"""

from __future__ import annotations

import abc
import ctypes
import sys
from functools import cache
from typing import Any

_AS_NUMBER, _AS_SEQUENCE = 96, 104      # addresses of tables of slots
_CALL, _RICHCOMPARE, _ITER, _MRO = 128, 200, 216, 344
_BOOL, _LENGTH, _CONTAINS = 72, 0, 56   # within these tables
_OF_HEAP = 1 << 9       # flag of classes that were made while Python runs


def word(address: int) -> int:
    """The word at an address."""
    return ctypes.c_int64.from_address(address).value


def slot_addresses(kind: type) -> tuple[int, ...]:
    """Addresses of the slots of a class that Python code made; the first one holds its order of bases."""
    if not _is_known():
        return ()
    here = id(kind)
    if not kind.__flags__ & _OF_HEAP:       # cannot change, and may have no tables
        return (here + _MRO,)
    numbers, sequence = word(here + _AS_NUMBER), word(here + _AS_SEQUENCE)
    return here + _MRO, here + _CALL, here + _RICHCOMPARE, here + _ITER, numbers + _BOOL, sequence + _LENGTH, sequence + _CONTAINS


def slots_of(kind: type, addresses: tuple[int, ...]) -> tuple[Any, ...]:
    """The bases of a class in order, and its other slots."""
    return (type.__dict__["__mro__"].__get__(kind), *map(word, addresses[1:]))


@cache
def _is_known() -> bool:
    """True if the slots of this interpreter are where CPython has them."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    kind = type("Probe", (), {})
    fields = [_MRO, _CALL, _RICHCOMPARE, _ITER]
    if word(id(kind) + _MRO) != id(kind.__mro__):
        return False
    tables = [(_AS_NUMBER, _BOOL, "__bool__"), (_AS_SEQUENCE, _LENGTH, "__len__"), (_AS_SEQUENCE, _CONTAINS, "__contains__")]
    places = [(id(kind) + field, name) for field, name in zip(fields[1:], ("__call__", "__eq__", "__iter__"), strict=True)]
    places += [(word(id(kind) + table) + offset, name) for table, offset, name in tables]
    for address, name in places:
        before = word(address)
        setattr(kind, name, lambda *_: 1)
        if word(address) == before:
            return False
    return True


class Registrations:
    """Reader of the classes that are registered with an abstract class, or with one that is derived from it. It looks only if a class was
    registered with any."""

    __slots__ = ("found", "kind", "token")

    def __init__(self, kind: abc.ABCMeta):
        self.kind = kind
        self.token: Any = None
        self.found: frozenset[int] = frozenset()

    def __call__(self) -> frozenset[int]:
        token = abc.get_cache_token()
        if token != self.token:
            self.token, self.found = token, frozenset(_registered(self.kind))
        return self.found


def _registered(kind: type) -> set[int]:
    found = set().union(*map(_registered, type.__subclasses__(kind)))
    if isinstance(kind, abc.ABCMeta):
        dump = getattr(abc, "_get_dump", None)
        registry = dump(kind)[0] if dump is not None else getattr(kind, "_abc_registry", ())
        found |= {id(other) for reference in registry if (other := reference()) is not None}
    return found
