"""Extension modules of SciPy, without the package around them."""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from types import ModuleType

_INDEPENDENT = frozenset({"scipy.linalg._flapack", "scipy.linalg.cython_blas", "scipy.linalg.cython_lapack"})
"""Extension modules that read nothing of the package around them, whose import takes twenty times as long as theirs."""


@cache
def extension_module(name: str) -> ModuleType:
    """A module that is an extension; those that are independent without the package around them, which stays to be imported by who
    needs it. Raises `ImportError`."""
    package = name.rpartition(".")[0]
    if name not in _INDEPENDENT or name in sys.modules or package in sys.modules:
        return import_module(name)
    top, *inner = package.split(".")
    spec = PathFinder.find_spec(name, [str(Path(folder, *inner)) for folder in import_module(top).__path__])
    if spec is None or spec.loader is None:       # of installations for development, which have a finder of their own
        return import_module(name)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    if package not in sys.modules:      # a later import finds the same module, and makes it an attribute of its package
        sys.modules.pop(name, None)
    return module
