"""Replacement of optree where it is not installed: a process that only runs exported programs has no trees to trace."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

PyTreeSpec = Any


def dict_insertion_ordered(mode: bool, *, namespace: str) -> Any:
    """Do nothing: there is no setting."""
    return nullcontext()


SequenceEntry = None


def register_pytree_node(kind: type, *functions: Any, **options: Any) -> None:
    """Do nothing: there are no trees."""


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    raise ImportError("tracing and compiling need the package optree, which is not installed: pip install optree")
