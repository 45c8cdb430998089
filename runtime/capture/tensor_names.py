"""Names for the tensors that a function captures, so that its graph is readable: `model.0.weight`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from adjit.eager.capture import Capture
from adjit.eager.generator import Generator, default_generator
from adjit.eager.state import Stateful
from adjit.eager.tensor import Tensor
from adjit.tracer.trees import as_name


def name_tensors(capture: Capture, roots: Iterable[tuple[str, Any]]) -> None:
    """Name the parameters that stand for tensors by the path to each tensor. `roots` are pairs of a path and an object."""
    names = _Names()
    names.visit(default_generator, "generator")
    for path, root in sorted(roots, key=_is_optimizer):       # modules first: a parameter is named after its module
        names.visit(root, path)
    for entry in capture.entries.values():
        owner = entry.tensor if entry.gradient_of is None else entry.gradient_of
        found = names.found.get(id(owner))
        if found is not None and entry.value.name is None:
            entry.value.name = as_name(found if entry.gradient_of is None else f"{found}.grad")


def _is_optimizer(root: tuple[str, Any]) -> bool:
    return isinstance(root[1], Stateful) and hasattr(root[1], "param_groups")


class _Names:
    """The first path on which each tensor is found."""

    def __init__(self) -> None:
        self.found: dict[int, str] = {}
        self._seen: set[int] = set()

    def visit(self, value: Any, path: str) -> None:
        if isinstance(value, Tensor):
            self.found.setdefault(id(value), path)
            return
        if id(value) in self._seen or not isinstance(value, (dict, list, tuple, Stateful, Generator)):
            return
        self._seen.add(id(value))
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                self.visit(item, f"{path}.{index}")
            return
        for key, item in (value if isinstance(value, dict) else vars(value)).items():
            name = self.found.get(id(key), "") if isinstance(key, Tensor) else str(key)
            self.visit(item, f"{path}.{name}")
