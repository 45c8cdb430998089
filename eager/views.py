"""Views in the dynamic graph: after a write in place, a view and its base still have the right history."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from adjit.eager.device import DeviceRuntime
from adjit.eager.operation import Operation
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Value
from adjit.ir.types import is_complex
from adjit.passes.autodiff.reverse_ad import pull_back, run_forward
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import DeviceLeaf

if TYPE_CHECKING:
    from adjit.eager.tensor import Tensor


MOVEMENTS = frozenset(("transpose", "reshape", "slice", "real", "imag", "concatenate"))
"""Ops of views that have each element of their base once at most."""


class View:
    """View of a tensor: result number `index` of `operation` on `parent`; its node is up to date while `history` is the root's.

    Within a trace a view may be at integers that are not known: `at` is its index then, and the graph takes the traced integers, too.
    """

    __slots__ = ("at", "history", "index", "operation", "parent")

    def __init__(self, parent: Tensor, operation: Operation, index: int):
        self.parent = parent
        self.operation = operation
        self.index = index
        self.at: tuple[Any, ...] = ()
        self.history = parent._history if parent._view is None else root_of(parent)._history

    @property
    def name(self) -> str:
        """Name of the operation's node."""
        return self.operation.name

    @property
    def graph(self) -> Graph:
        """Graph of the operation, from the parent to the view."""
        return self.operation.graph

    @property
    def positions(self) -> list[Value]:
        """Further operands of the graph."""
        return [item.value for item in self.at if isinstance(item, TracedArray)]

    @property
    def root(self) -> Tensor:
        """Tensor at the end of the chain of views."""
        return root_of(self.parent)


def root_of(tensor: Tensor) -> Tensor:
    """Return the tensor whose memory this one is a view of; itself if it is no view."""
    while tensor._view is not None:
        tensor = tensor._view.parent
    return tensor


def operation_at(array: Any) -> Callable[..., Operation]:
    """What makes operations that run where an array is."""
    return DeviceRuntime.operation if isinstance(array, DeviceLeaf) else Operation


@lru_cache(maxsize=4096)
def view_operation(name: str, graph: Graph, index: int, make: Callable[..., Operation]) -> Operation:
    """Operation that takes a view of its first operand, to be differentiated."""
    return make(name, graph.with_ops(graph.ops, (graph.results[index],)), 1, (0,))


def _replaced(old: Value, new: Value, touched: Value) -> Value:
    """`new` where `touched` is not 0; of complex numbers, part by part, as a view may be of one part."""
    if is_complex(old.type.dtype):
        return ops.complex(*(_replaced(part(old), part(new), part(touched)) for part in (ops.real, ops.imag)))
    return ops.select(ops.not_equal(touched, ops.full_like(touched, 0.0)), new, old)


@lru_cache(maxsize=4096)
def copy_slices(graph: Graph, index: int, wanted: tuple[int, ...], make: Callable[..., Operation]) -> Operation:
    """Operation (parent, new content of the view, positions) -> new content of the parent, for a view that is result `index` of `graph`.

    The elements to replace are those in the view: the elements where its derivative, for a cotangent of ones, is not 0. A view of no
    elements has no derivative, and replaces nothing.
    """
    builder = GraphBuilder("copy_slices")
    parent = builder.param(graph.params[0].type)
    content = builder.param(graph.results[index].type)
    positions = [builder.param(value.type) for value in graph.params[1:]]
    with emitting(builder):
        forward = run_forward(builder, graph, [parent, *positions], (0,), (index,))
        moved, *_ = pull_back(builder, forward, {index: content})
        touched, *_ = pull_back(builder, forward, {index: ops.full_like(content, 1 + 1j if is_complex(content.type.dtype) else 1.0)})
        result: Value = parent
        if moved is not None and touched is not None:
            result = _replaced(parent, moved, touched)
    return make("CopySlices", builder.build([result]), 1, wanted, force_requires_grad=True)
