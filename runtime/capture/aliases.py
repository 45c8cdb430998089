"""Aliases: results on the memory of an existing tensor (views, and detached tensors). After the run they are taken from that tensor again,
so that writes are visible both ways, as in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from typing import Any

from adjit.eager.apply import apply, run
from adjit.eager.call import differentiable
from adjit.eager.capture import Capture
from adjit.eager.functional.shapes import get_view
from adjit.eager.modes import set_grad_enabled
from adjit.eager.operation import Operation
from adjit.eager.tensor import Tensor
from adjit.eager.views import Layout, operation_at
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph
from adjit.tracer.array import TracedArray
from adjit.tracer.user_location import find_user_location

Step = Callable[[Tensor], Tensor]


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """A result that is a view of `base`: a tensor reference, or the number of another result. Result `number` has the same content."""

    base: Any
    steps: tuple[Step | ViewAt, ...]
    number: int

    def take(self, base: Tensor, results: Sequence[Any]) -> Tensor:
        """The result, as a view of `base`."""
        for step in self.steps:
            base = step.take(base, results) if isinstance(step, ViewAt) else step(base)
        return base

    def placed(self, base: Any, place: Callable[[int], int]) -> Alias:
        """The alias of this base, with the numbers of results that `place` gives."""
        steps = tuple(replace(step, numbers=tuple(map(place, step.numbers))) if isinstance(step, ViewAt) else step for step in self.steps)
        return Alias(base, steps, place(self.number))


@dataclass(frozen=True, slots=True, eq=False)
class ViewAt:
    """Step to a view at integers that the program computes: an index, with the numbers of their results, each None in it."""

    index: tuple[Any, ...]
    positions: tuple[int, ...]
    numbers: tuple[int, ...]
    recorded: bool

    def take(self, base: Tensor, results: Sequence[Any]) -> Tensor:
        """The view of `base`."""
        index = list(self.index)
        for position, number in zip(self.positions, self.numbers, strict=True):
            index[position] = int(results[number])
        with set_grad_enabled(self.recorded):
            view: Tensor = apply(get_view, (base, tuple(index)))
        return view


def find_alias(tensor: Tensor, capture: Capture, returned: Container[int], add: Callable[[Any], int]
               ) -> tuple[Tensor, tuple[Step | ViewAt, ...]] | None:
    """The nearest tensor whose memory a result shares, and the steps from that tensor to the result. The tensor is captured, or its
    identity is in `returned`. `add` has the program return an array, and gives its number.

    Raises `UnsupportedError` if the result, or a tensor on the way, has been computed in another way since.
    """
    steps: list[Step | ViewAt] = []
    current = tensor
    while True:
        if id(current) in capture.entries or (id(current) in returned and current is not tensor and _is_certain(tensor)):
            return current, tuple(reversed(steps))
        view = current._view
        if view is not None and view.at:
            positions = tuple(position for position, item in enumerate(view.at) if isinstance(item, TracedArray))
            steps.append(ViewAt(tuple(None if isinstance(item, TracedArray) else item for item in view.at), positions,
                                tuple(add(view.at[position]) for position in positions),
                                bool(current.requires_grad)))      # type: ignore[attr-defined]
            current = view.parent
        elif view is not None:
            layouts = view.operation.layouts
            layout = layouts[view.index].again(current.array.steps) if layouts and layouts[view.index] is not None else None
            steps.append(partial(_view_again, view.name, view.graph, view.index, bool(current.requires_grad), layout,      # type: ignore[attr-defined]
                                 view.operation.strided))
            current = view.parent
        elif id(current) in capture.shared and id(current) not in capture.entries:
            _, source, again = capture.shared[id(current)]
            if current._node is not None:
                if not _is_outside(source, capture, returned):
                    return None
                raise UnsupportedError(
                    f"a returned tensor of shape {tensor.shape} shares memory with another tensor, and was written to with a gradient of "
                    "its own", find_user_location(), hint="return a copy (x.clone()), or write to a copy")
            steps += [_require_grad, again] if current._requires_grad else [again]
            current = source
        else:
            return None


def _is_outside(tensor: Tensor, capture: Capture, returned: Container[int]) -> bool:
    """True if a tensor, or a tensor whose memory it shares, is captured or returned."""
    while id(tensor) not in capture.entries and id(tensor) not in returned:
        if tensor._view is not None:
            tensor = tensor._view.parent
        elif id(tensor) in capture.shared:
            tensor = capture.shared[id(tensor)][1]
        else:
            return False
    return True


def in_order(aliases: Iterable[Alias]) -> tuple[Alias, ...]:
    """Aliases sorted so that an alias comes after the alias that is its base."""
    waiting = {alias.number: alias for alias in aliases}
    found: dict[int, Alias] = {}
    while waiting:
        ready = {number: alias for number, alias in waiting.items() if not isinstance(alias.base, int) or alias.base not in waiting}
        found.update(ready)
        waiting = {number: alias for number, alias in waiting.items() if number not in ready}
    return tuple(found.values())


def _is_certain(tensor: Tensor) -> bool:
    """True if NumPy makes a view for every memory layout of the array. (Layouts of captured tensors are known.)"""
    return tensor.array.alias is None or bool(tensor.array.alias.certain)


def _view_again(name: str, graph: Graph, index: int, recorded: bool, layout: Layout | None, strided: Callable[..., Any] | None,
                base: Tensor) -> Tensor:
    return run(_view(name, graph, index, recorded and differentiable(base), layout, strided, operation_at(base.array)), [base], True)[0]


@lru_cache(maxsize=4096)
def _view(name: str, graph: Graph, index: int, recorded: bool, layout: Layout | None, strided: Callable[..., Any] | None,
          make: Callable[..., Operation]) -> Operation:
    made = make(name, graph.with_ops(graph.ops, (graph.results[index],)), 1, (0,) if recorded else (), views=make is Operation)
    made.layouts, made.strided = (layout,), strided
    return made


def _require_grad(leaf: Tensor) -> Tensor:
    leaf._requires_grad = True
    return leaf
