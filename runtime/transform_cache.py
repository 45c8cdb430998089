"""What a transform makes is kept on the function it was made of, so that `grad(f)(x)` compiles once, however often it is written."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any, TypeVar

T = TypeVar("T")

_ATTRIBUTE = "__adjit_transforms__"
_LIMIT = 128
_others: OrderedDict[Any, dict[Hashable, Any]] = OrderedDict()


def kept(fun: Callable[..., Any], key: Hashable, make: Callable[[], T]) -> T:
    """`make()` at the first call for this function and key, the same object afterwards.

    A Python function holds what was made of it itself, so both are freed together. Other callables (bound methods,
    instances, ufuncs) are held here, the last 128 used; those that cannot be hashed are not remembered.
    Raises `TypeError` for what is no function.
    """
    if not callable(fun):
        raise TypeError(f"a transform takes a function, got {fun!r}")
    store = _store(fun)
    if key not in store:
        store[key] = make()
    made: T = store[key]
    return made


def _store(fun: Callable[..., Any]) -> dict[Hashable, Any]:
    if isinstance(fun, FunctionType):
        owner, store = fun.__dict__.get(_ATTRIBUTE, (None, {}))
        if owner is not fun:       # `functools.wraps` copies the attributes of the function it wraps
            store = {}
            fun.__dict__[_ATTRIBUTE] = fun, store
        return store
    try:
        store = _others.setdefault(fun, {})
        _others.move_to_end(fun)
    except TypeError:
        return {}
    while len(_others) > _LIMIT:
        _others.popitem(last=False)
    return store
