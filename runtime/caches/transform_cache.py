"""Cache of transforms on the function that was transformed, so that `grad(f)(x)` compiles once, even if it is written anew each time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any, TypeVar

from adjit.runtime.transformed_function import TransformedFunction

T = TypeVar("T")

_ATTRIBUTE = "__adjit_transforms__"
_LIMIT = 128


class _Store:
    """The cached transforms of one function, by transform and settings."""

    def __init__(self, owner: Callable[..., Any] | None = None):
        self.owner = owner
        self.made: dict[Hashable, Any] = {}

    def __reduce__(self) -> tuple[type[_Store], tuple[()]]:
        """A pickled function does not include its cached transforms."""
        return _Store, ()


_others: OrderedDict[Any, _Store] = OrderedDict()


def kept(fun: Callable[..., Any], key: str | tuple[Any, ...], make: Callable[[], T]) -> T:
    """`make()` at the first call for this function and key, afterwards the same object.

    Python functions, and those of transforms, hold their own cached transforms, so both are freed at the same time. For other callables
    (bound methods, instances, ufuncs) the 128 last used are held here. Transforms of unhashable callables are not cached. Raises
    `TypeError` if `fun` is not callable.
    """
    if not callable(fun):
        raise TypeError(f"{key if isinstance(key, str) else key[0]} takes a function as its first argument, got {fun!r}")
    made = _store(fun).made
    if key not in made:
        made[key] = make()
    found: T = made[key]
    return found


def keeps_its_own(fun: Any) -> bool:
    """True if what is kept for the function is freed with it."""
    return isinstance(fun, (FunctionType, TransformedFunction))


def _store(fun: Callable[..., Any]) -> _Store:
    if keeps_its_own(fun):
        store = fun.__dict__.get(_ATTRIBUTE)
        if store is None or store.owner is not fun:       # `functools.wraps` copies the attributes of the wrapped function
            store = fun.__dict__[_ATTRIBUTE] = _Store(fun)
        return store
    try:
        store = _others.setdefault(fun, _Store(fun))
        _others.move_to_end(fun)
    except TypeError:
        return _Store(fun)
    while len(_others) > _LIMIT:
        _others.popitem(last=False)
    return store
