"""Owners of modules: the user, whose names are followed, or an installed library, whose objects are compared by identity."""

from __future__ import annotations

import builtins
import os
import sys
import types
from enum import Enum
from functools import lru_cache
from pathlib import PurePath
from types import ModuleType


class ModuleOwner(Enum):
    """Owner of code."""

    USER = 0
    OURS = 1
    KNOWN = 2       # NumPy and the standard library: nobody changes what their functions do
    LIBRARY = 3     # any other library that is installed


_KNOWN = frozenset(sys.stdlib_module_names | {"numpy", "optree", "numba", "llvmlite", "pytest", "_pytest", "hypothesis"}) - {"__main__"}


@lru_cache(maxsize=4096)
def owner_of(module: str) -> ModuleOwner:
    """Return the owner of a module, by its name.

    >>> owner_of("numpy.linalg"), owner_of("__main__")
    (<ModuleOwner.KNOWN: 2>, <ModuleOwner.USER: 0>)
    """
    top = module.partition(".")[0]
    if top == "adjit":
        return ModuleOwner.OURS
    found = sys.modules.get(top)
    if top in _KNOWN and not (found is not None and top in sys.stdlib_module_names and _is_elsewhere(found)):
        return ModuleOwner.KNOWN
    return ModuleOwner.LIBRARY if top != "__main__" and found is not None and _is_installed(found) else ModuleOwner.USER


def module_of(kind: type) -> str:
    """Module of a class; empty if `__module__` is an attribute of its objects."""
    module = getattr(kind, "__module__", "")        # classes that code in C makes without a module have none
    return module if isinstance(module, str) else ""


def owner_of_class(kind: type) -> ModuleOwner:
    """Owner of a class; the user if the standard library made the class for the user."""
    producer = {"types": types, "builtins": builtins}.get(module_of(kind))
    made = producer is not None and vars(producer).get(kind.__name__) is not kind and bool(kind.__flags__ & _OF_PYTHON)
    return ModuleOwner.USER if made else owner_of(module_of(kind) or "builtins")


def _is_installed(module: ModuleType) -> bool:
    file = vars(module).get("__file__")
    paths = [file] if isinstance(file, str) else list(vars(module).get("__path__", ()))
    return any(not _FOLDERS.isdisjoint(PurePath(path).parts) for path in paths)


def _is_elsewhere(module: ModuleType) -> bool:
    """True if a module has the name of a standard module but is another file: `test.py`, `profile.py` next to the user's program."""
    file = vars(module).get("__file__")
    return isinstance(file, str) and not file.startswith(_STANDARD) and not os.path.realpath(file).startswith(_STANDARD)


_OF_PYTHON = 1 << 9      # flag of a type: made by a `class` statement or the like
_STANDARD = tuple(os.path.join(folder, "") for folder in (os.path.dirname(os.__file__), os.path.realpath(os.path.dirname(os.__file__))))
_FOLDERS = frozenset({"site-packages", "dist-packages"})
