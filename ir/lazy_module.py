"""Modules that are imported on first use: `import adjit` does not wait for modules that many processes never need.

    if TYPE_CHECKING:
        from adjit.codegen.native import compile_program as native
    else:
        native = LazyModule("adjit.codegen.native.compile_program")
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, ClassVar

from adjit.ir.errors import UnsupportedError


class LazyModule:
    """Proxy of a module; reading an attribute imports the module.

    `extra`: the extra of ours that installs it; where it is missing `UnsupportedError` says so.

    >>> json = LazyModule("json")
    >>> json.dumps([1])
    '[1]'
    """

    __slots__ = ("_extra", "_name")
    _import: ClassVar[Callable[[str], Any]] = import_module

    def __init__(self, name: str, extra: str = ""):
        self._name, self._extra = name, extra

    def __getattr__(self, attribute: str) -> Any:
        module = sys.modules.get(self._name)
        if module is None or getattr(module.__spec__, "_initializing", False):      # the check of the import statement
            try:
                module = LazyModule._import(self._name)
            except ModuleNotFoundError:
                if not self._extra:
                    raise
                raise UnsupportedError(f"this needs {self._name}, which is not installed",
                                       hint=f"pip install 'adjit[{self._extra}]'") from None
        return getattr(module, attribute)


def loaded(module: str, name: str) -> Any:
    """An attribute of a module, or None if nobody has imported the module: then no object of its classes exists."""
    return getattr(sys.modules.get(module), name, None)


def set_importer(function: Callable[[str], Any]) -> None:
    """Import all lazy modules by `function` from now on."""
    LazyModule._import = function
