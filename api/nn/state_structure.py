"""Nested states as JSON and tensors by name: the JSON holds the contents of a checkpoint besides tensors, and the position of each tensor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adjit.eager.tensor import Tensor
from adjit.ir.errors import StateError
from adjit.tracer.user_location import find_user_location

STRUCTURE = "adjit.structure"
"""Key of the structure in a file's metadata."""


def encoded(state: Any, arrays: dict[str, np.ndarray], path: str = "") -> Any:
    """Convert `state` to JSON; its tensors are added to `arrays`, each by the name that stands for it in the JSON.

    Numbers, strings and None stay as they are; everything else is a dict with one key that names its type. Dicts are lists of pairs, so
    that integers stay integers as keys.
    """
    if state is None or isinstance(state, (bool, int, float, str)):
        return state
    if isinstance(state, np.generic):
        return state.item()
    if isinstance(state, (Tensor, np.ndarray)):
        while path in arrays:       # "a.b" itself, and b of a
            path += "_"
        arrays[path] = np.ascontiguousarray(state.array if isinstance(state, Tensor) else state).reshape(state.shape)
        return {"tensor": path}
    if isinstance(state, Mapping):
        for key in state:
            if not isinstance(key, (str, int)):
                raise StateError(f"{path or 'the state'} has the key {key!r}; keys are strings or integers", find_user_location())
        return {"dict": [[key, encoded(value, arrays, _joined(path, key))] for key, value in state.items()]}
    if isinstance(state, (list, tuple)):
        kind = "tuple" if isinstance(state, tuple) else "list"
        return {kind: [encoded(value, arrays, _joined(path, index)) for index, value in enumerate(state)]}
    if hasattr(state, "state_dict"):
        return encoded(state.state_dict(), arrays, path)
    raise StateError(f"{path or 'the state'} is a {type(state).__name__}; a state holds tensors, numbers, strings, and dicts and lists of "
                     "these", find_user_location())


def decoded(structure: Any, tensors: Mapping[str, Tensor]) -> Any:
    """Convert the JSON of `encoded` back to the state."""
    if not isinstance(structure, dict):
        return structure
    (kind, content), = structure.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dict":
        return {key: decoded(value, tensors) for key, value in content}
    items = [decoded(value, tensors) for value in content]
    return tuple(items) if kind == "tuple" else items


def is_flat(structure: Any) -> bool:
    """True if the structure holds no more than the names of the tensors."""
    return isinstance(structure, dict) and list(structure) == ["dict"] and all(value == {"tensor": key} for key, value in structure["dict"])


def _joined(path: str, key: str | int) -> str:
    return f"{path}.{key}" if path else str(key)
