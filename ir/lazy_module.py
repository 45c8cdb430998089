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


class LazyModule:
    """Proxy of a module; reading an attribute imports the module.

    >>> json = LazyModule("json")
    >>> json.dumps([1])
    '[1]'
    """

    __slots__ = ("_name",)
    _import: ClassVar[Callable[[str], Any]] = import_module

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        module = sys.modules.get(self._name)
        if module is None or getattr(module.__spec__, "_initializing", False):      # the check of the import statement
            module = LazyModule._import(self._name)
        return getattr(module, attribute)


def set_importer(function: Callable[[str], Any]) -> None:
    """Import all lazy modules by `function` from now on."""
    LazyModule._import = function
