"""Helpers of training programs by PyTorch's names: `adjit.utils.data` and `adjit.utils.checkpoint`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adjit.utils import checkpoint, data

__all__ = ["checkpoint", "data"]


def __getattr__(name: str) -> Any:
    """Import a module when it is first used."""
    if name not in __all__:
        raise AttributeError(f"module 'adjit.utils' has no attribute {name!r}")
    return import_module(f"adjit.utils.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
