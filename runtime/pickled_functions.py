"""Pickling of compiled functions: by name, like functions; or, for picklers that serialize code (cloudpickle), as a function that compiles
again.

Joblib, Dask and Ray serialize the code of functions of `__main__` and of functions without a name. A pickler does not say which of the two
it does. So the recompiling function has the name of an attribute of the compiled function: a pickler that looks up the name finds the
compiled function, and a pickler that serializes code gets the arguments for a new compilation.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from operator import attrgetter
from types import FunctionType
from typing import Any

ATTRIBUTE = "_recompiled"

_owners: weakref.WeakKeyDictionary[FunctionType, weakref.ref[Any]] = weakref.WeakKeyDictionary()


def is_found(function: Any) -> bool:
    """True if the function is found in its module by its name."""
    try:
        return attrgetter(function.__qualname__)(sys.modules.get(function.__module__)) is function
    except AttributeError:
        return False


def has_name(function: Any) -> bool:
    """True if other processes find the function in a module. Without a script file, `__main__` of other processes is another module."""
    return function.__module__ != "__main__" and is_found(function)


def make_recompiling(function: Any, make: Callable[..., Any], *parts: Any) -> FunctionType:
    """A function that returns `make(*parts)`, and becomes the attribute `ATTRIBUTE` of `function`."""
    def anew() -> Any:
        return make(*parts)

    assert isinstance(anew, FunctionType)
    anew.__module__, anew.__qualname__ = function.__module__, f"{function.__qualname__}.{ATTRIBUTE}"
    _owners[anew] = weakref.ref(function)
    return anew


def restore(anew: FunctionType) -> Any:
    """The compiled function after unpickling: the existing one if `anew` was found by name, else a new one."""
    owner = _owners.get(anew)
    found = owner() if owner is not None else None
    return anew() if found is None else found
