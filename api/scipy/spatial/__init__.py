"""`scipy.spatial` for traced arrays and tensors: `adjit.scipy.spatial.distance`."""

from __future__ import annotations

from typing import Any

from adjit.scipy.mirror import without_rule
from adjit.scipy.spatial import distance

__all__ = ["distance"]

_others = without_rule("spatial", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
