"""Whose code a module is: the user's, whose names are followed, or that of an installed library, which is compared by identity."""

from __future__ import annotations

import sys
import types
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from types import ModuleType


class Home(Enum):
    """Where code is at home."""

    USER = 0
    OURS = 1
    KNOWN = 2       # NumPy and the standard library: nobody changes what their functions do
    LIBRARY = 3     # any other library that is installed


_KNOWN = frozenset(sys.stdlib_module_names | {"numpy", "optree", "numba", "llvmlite", "pytest", "_pytest", "hypothesis"}) - {"__main__"}


@lru_cache(maxsize=4096)
def home_of(module: str) -> Home:
    """The home of a module, by its name.

    >>> home_of("numpy.linalg"), home_of("__main__")
    (<Home.KNOWN: 2>, <Home.USER: 0>)
    """
    top = module.partition(".")[0]
    if top == "adjit":
        return Home.OURS
    if top in _KNOWN:
        return Home.KNOWN
    found = sys.modules.get(top)
    return Home.LIBRARY if top != "__main__" and found is not None and _is_installed(found) else Home.USER


def home_of_class(kind: type) -> Home:
    """The home of a class; of one that the standard library made for the user, the user's."""
    made = kind.__module__ == "types" and vars(types).get(kind.__name__) is not kind
    return Home.USER if made else home_of(kind.__module__)


def _is_installed(module: ModuleType) -> bool:
    file = vars(module).get("__file__")
    places = [file] if isinstance(file, str) else list(vars(module).get("__path__", ()))
    return any(not _FOLDERS.isdisjoint(PurePath(place).parts) for place in places)


_FOLDERS = frozenset({"site-packages", "dist-packages"})
