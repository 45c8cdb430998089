"""Pickling of functions that are made of other functions, compiled ones and those of transforms: by name, like functions; or as what they
are made of. For picklers that serialize code (cloudpickle), as a function that makes them again.

Joblib, Dask and Ray serialize the code of functions of `__main__` and of functions without a name. A pickler does not say which of the two
it does. So the function that makes one again has the name of an attribute of it: a pickler that looks up the name finds the existing
function, and a pickler that serializes code gets the arguments to make a new one.
"""

from __future__ import annotations

import copy
import functools
import inspect
import sys
import weakref
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import Any

ATTRIBUTE = "_recompiled"

_owners: weakref.WeakKeyDictionary[FunctionType, weakref.ref[Any]] = weakref.WeakKeyDictionary()


class MadeOfFunction:
    """Base of functions that are made of another one, `_parts()[0]`."""

    __slots__ = ()

    def __reduce__(self) -> str | tuple[Any, ...]:
        if has_name(self):
            return _name_of(self)
        make, parts = self._parts()
        if not isinstance(parts[0], FunctionType) or is_found(parts[0]):    # methods, partials, objects, named functions
            return make, parts
        return restore, (self._recompiled,)

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A copy, as of the wrapped callable: a function is its own copy; a method is bound to a copy of its object."""
        make, parts = self._parts()
        fun = copy.deepcopy(parts[0], memo)
        return self if fun is parts[0] else make(fun, *parts[1:])

    @functools.cached_property
    def _recompiled(self) -> FunctionType:
        return make_recompiling(self, *self._parts())

    def _parts(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """What makes the function again: a callable, and its arguments, of which the first is the other function."""
        raise NotImplementedError


def _name_of(function: Any) -> str:
    """The name that the function has in its module, which is that of the function below decorators."""
    return getattr(inspect.unwrap(function), "__qualname__", "")


def is_found(function: Any) -> bool:
    """True if the function is found in its module by its name."""
    try:
        return attrgetter(_name_of(function))(sys.modules.get(function.__module__)) is function
    except AttributeError:
        return False


def has_name(function: Any) -> bool:
    """True if other processes find the function in a module. Without a script file, `__main__` of other processes is another module."""
    return function.__module__ != "__main__" and is_found(function)


def make_recompiling(function: Any, make: Callable[..., Any], parts: tuple[Any, ...]) -> FunctionType:
    """A function that returns `make(*parts)`, and becomes the attribute `ATTRIBUTE` of `function`."""
    def anew() -> Any:
        return make(*parts)

    assert isinstance(anew, FunctionType)
    anew.__module__, anew.__qualname__ = function.__module__, f"{_name_of(function)}.{ATTRIBUTE}"
    _owners[anew] = weakref.ref(function)
    return anew


def restore(anew: FunctionType) -> Any:
    """The function after unpickling: the existing one if `anew` was found by name, else a new one."""
    owner = _owners.get(anew)
    found = owner() if owner is not None else None
    return anew() if found is None else found
