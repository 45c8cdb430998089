"""`type(x)` while a function is traced: the class of what a traced array, or a container or array that is watched, stands for. And `print`,
which is quiet in further traces for one call; `len(x)`, which knows that it is a number of rows; `float(x)` and `int(x)` of such numbers,
and of tensors, which calls compute; and `hasattr(x, "dtype")`, which is False for a Python number.

Python does not ask an object for the result of `type(x)`, and makes numbers of its own of the results of `len(x)`, `float(x)` and `int(x)`.
So for the time of a trace the name `type` is bound in the globals of the functions that use it, to an object that is Python's `type` in
all else; and so are `print`, `hasattr`, `getattr`, in traces for any number of rows `len`, and where the functions do nothing else with
these classes than to call them, `float` and `int`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjit.ir.thread_context import thread
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.flow.lifted_list import LiftedList
from adjit.tracer.flow.lifted_numbers import LiftedNumber, as_float, as_integer, is_read_number
from adjit.tracer.guards.printing import printed
from adjit.tracer.guards.reachability import Reachability
from adjit.tracer.guards.tallies import is_tally
from adjit.tracer.row_count import converted_rows, is_tracked
from adjit.tracer.scope import is_tracing


def class_that_stands(x: Any) -> Any:
    """The class of an object; of an object whose class is adjit's, that of what it stands for."""
    kind: Any = type(x)
    if is_tally(x) or is_tracked(x):
        return type(x.number)
    own = vars(kind).get("__class__")
    is_ours = issubclass(kind, TracedArray) or (isinstance(own, property) and getattr(own.fget, "__module__", "").startswith("adjit."))
    return x.__class__ if is_ours else kind


class _Asked(type):
    """Class of what stands for `own`, a class of Python's, where it is called: with one argument it gives `answer`."""

    own: Any
    answer: Callable[[Any], Any]

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return cls.answer(*args) if len(args) == 1 and not kwargs else cls.own(*args, **kwargs)

    def __getattr__(cls, name: str) -> Any:
        return getattr(cls.own, name)       # int.from_bytes, in another thread

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, cls.own)

    def __subclasscheck__(cls, subclass: Any) -> bool:
        return issubclass(subclass, cls.own)

    def __eq__(cls, other: object) -> bool:
        return other is cls or other is cls.own

    def __hash__(cls) -> int:
        return hash(cls.own)

    def __or__(cls, other: Any) -> Any:     # type: ignore[override]
        return cls.own | other

    def __repr__(cls) -> str:
        return repr(cls.own)


class _Type(metaclass=_Asked):
    """What `type` is for the functions of a trace."""

    own, answer = type, class_that_stands


class _Float(metaclass=_Asked):
    """What `float` is for the functions of a trace."""

    own, dtype = float, np.dtype(float)     # another thread may make arrays

    @staticmethod
    def answer(x: Any) -> Any:
        """What `float(x)` gives."""
        return _number_of(x, float, as_float)


class _Int(metaclass=_Asked):
    """What `int` is for the functions of a trace."""

    own, dtype = int, np.dtype(int)

    @staticmethod
    def answer(x: Any) -> Any:
        """What `int(x)` gives."""
        return _number_of(x, int, as_integer)


def _number_of(x: Any, own: type, converted: Callable[[LiftedNumber], Any]) -> Any:
    if is_tracked(x):
        return converted_rows(x, own)
    if issubclass(type(x), ArrayWrapper) and is_tracing():
        x = x._python_number(own)
    return converted(x) if is_read_number(x) else own(x)


def length_of(obj: Any, /) -> int:
    """Python's `len`, but of an array of rows in a trace for any number of them a `RowCount`, of a lifted list its lifted length."""
    if type(obj) is LiftedList:
        return obj.length()     # type: ignore[return-value]
    probed = thread.context.row_probe is not None and issubclass(type(obj), (TracedArray, ArrayWrapper)) and obj.shape
    return obj.shape[0] if probed else len(obj)     # type: ignore[no-any-return]


def has_attribute(obj: Any, name: str, /) -> bool:
    """Python's `hasattr`, but of a traced Python number as of the number."""
    return hasattr(obj, name) and not _is_of_arrays(obj, name)


def attribute(obj: Any, name: str, /, *default: Any) -> Any:
    """Python's `getattr`, but of a traced Python number the default for what only arrays have."""
    return default[0] if default and _is_of_arrays(obj, name) else getattr(obj, name, *default)


def _is_of_arrays(obj: Any, name: Any) -> bool:
    """True if an object stands for a Python number, which has no attribute of this name."""
    return issubclass(type(obj), TracedArray) and obj.weak and not obj.shape and isinstance(name, str) and not hasattr(
        class_that_stands(obj), name)


_CALLED = {"float": _Float, "int": _Int}
_STANDING = {**_CALLED, "print": printed, "len": length_of, "type": _Type, "hasattr": has_attribute, "getattr": attribute}
_lock = threading.Lock()
_users: dict[tuple[int, str], int] = {}     # number of traces under way that bound the name, by identity of the globals


@contextmanager
def types_asked(known: Reachability, counts: bool) -> Iterator[None]:
    """Bind the names in the globals of functions that call them within the block, `type` unless some code compares it by identity, `len`
    where rows are counted, or with `counts` items of lists."""
    bound: list[tuple[dict[str, Any], str, Any]] = []
    try:
        with _lock:
            for name, space in known.asking.values():
                stands: Any = _STANDING[name]
                if (name == "type" and known.compares_type) or (name == "len" and not counts and thread.context.row_probe is None):
                    continue
                if name in _CALLED and (id(space), name) in known.not_only_called:
                    continue
                if space.setdefault(name, stands) is stands:
                    bound.append((space, name, stands))
                    _users[id(space), name] = _users.get((id(space), name), 0) + 1
        yield
    finally:
        with _lock:
            for space, name, stands in bound:
                _users[id(space), name] -= 1
                if not _users[id(space), name]:
                    del _users[id(space), name]
                    if space.get(name) is stands:
                        del space[name]
