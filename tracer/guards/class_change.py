"""Change of the class of objects from outside while a function is traced: to a subclass with the same memory layout whose methods log each
use. They are the same objects, at the same address, for everyone who holds them; afterwards they have their own class again.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

_BASE_TYPE = 1 << 10
_TYPE = object.__basicsize__ - ctypes.sizeof(ctypes.c_void_p)


def set_class(changed: Any, kind: type) -> None:
    """Set the class of an object to another class with the same layout. Both classes live as long as the process."""
    ctypes.c_void_p.from_address(id(changed) + _TYPE).value = id(kind)


def has_layout_of(made: Any, kind: Any) -> bool:
    """True if objects can change from one class to the other."""
    layout = ("__basicsize__", "__itemsize__", "__dictoffset__", "__weakrefoffset__")
    return all(getattr(made, name) == getattr(kind, name) for name in layout)


class _Spec(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("size", ctypes.c_int), ("item_size", ctypes.c_int), ("flags", ctypes.c_uint),
                ("slots", ctypes.c_void_p))


def subclass_without_gc(kind: type) -> type:
    """Make a subclass without the cyclic collector, as `kind` itself: a `class` statement makes only collected ones."""
    name, end = f"{kind.__module__}.{kind.__name__}".encode(), (ctypes.c_void_p * 2)()
    spec = _Spec(name, 0, 0, _BASE_TYPE, ctypes.addressof(end))
    make = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object)(("PyType_FromSpecWithBases", ctypes.pythonapi))
    made: type = make(ctypes.addressof(spec), (kind,))
    return made


class UseLog:
    """Log of the uses of objects in one trace: `kinds` holds the objects, by identity, with their own classes."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.kinds: dict[int, tuple[Any, type]] = {}

    def give_back(self, elsewhere: set[int]) -> None:
        """Give all objects their own class again, but for those that are logged elsewhere as well."""
        for identity, (changed, kind) in self.kinds.items():
            if identity not in elsewhere:
                set_class(changed, kind)


Log = TypeVar("Log", bound=UseLog)


class ActiveLogs(Generic[Log]):
    """Logs of the traces that are under way, the innermost last; several threads may trace at once, and log the same objects."""

    def __init__(self) -> None:
        self._logs: list[Log] = []
        self._lock = threading.Lock()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._end_other_threads)

    def __iter__(self) -> Iterator[Log]:
        return iter(tuple(self._logs))

    def of_this_thread(self) -> list[Log]:
        return [log for log in self._logs if log.thread == threading.get_ident()]

    @contextmanager
    def logging(self, log: Log, logged_class: Callable[[type], type | None]) -> Iterator[Log]:
        """Give the objects of a log the classes that log their uses, within the block."""
        try:
            with self._lock:
                self._logs.append(log)
                for changed, kind in log.kinds.values():
                    logged = logged_class(kind)
                    if logged is not None:
                        set_class(changed, logged)
            yield log
        finally:
            try:
                self._end(log)
            finally:
                self._end(log)      # Ctrl-C may have interrupted the first call

    def _end(self, log: Log) -> None:
        with self._lock:
            if log in self._logs:
                self._logs.remove(log)
            log.give_back({identity for other in self._logs for identity in other.kinds})

    def _end_other_threads(self) -> None:
        """End the logs of other threads in a forked child, which does not have these threads."""
        self._lock = threading.Lock()
        for log in self:
            if log.thread != threading.get_ident():
                self._end(log)
