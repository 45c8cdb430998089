"""Modules that are imported when something of them is first used: `import adjit` does not wait for what many processes never need.

    if TYPE_CHECKING:
        from adjit.codegen.native import compile_program as native
    else:
        native = OnDemand("adjit.codegen.native.compile_program")
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


class OnDemand:
    """Stands for a module; reading an attribute imports it.

    >>> json = OnDemand("json")
    >>> json.dumps([1])
    '[1]'
    """

    __slots__ = ("_name",)

    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
