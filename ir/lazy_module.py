"""Modules that are imported when something of them is first used: `import adjit` does not wait for what many processes never need.

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
    """Stands for a module; reading an attribute imports it.

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
        if module is None or getattr(module.__spec__, "_initializing", False):      # as the import statement looks
            module = LazyModule._import(self._name)
        return getattr(module, attribute)


def set_importer(function: Callable[[str], Any]) -> None:
    """Have all modules imported by `function`, from now on."""
    LazyModule._import = function
