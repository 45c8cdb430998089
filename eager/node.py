"""Nodes of the dynamic graph: an operation that was run, its operands, and the values that are saved for its derivative."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from adjit.eager.operation import Operation
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.views import operation_at, view_operation
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import GraphFreedError, InPlaceError, Location
from adjit.ir.graph import Value
from adjit.passes.autodiff.partition.split_joint import SavedValue
from adjit.tracer.array import wrap
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.scope import active_scope
from adjit.tracer.user_location import find_user_location

Edge = tuple["Node", int]
Hook = Callable[..., Any]
next_sequence = itertools.count().__next__


class SavedTensor(NamedTuple):
    """Saved array (or value of a trace), with the version counter of its memory and the version at the time of saving."""

    array: Any
    counter: list[int] | None
    version: int


class Handle:
    """Handle of a registered hook: `remove()` unregisters the hook."""

    def __init__(self, hooks: list[Hook], hook: Hook):
        self._hooks, self._hook = hooks, hook

    def remove(self) -> None:
        """Unregister the hook; a second call does nothing."""
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


class Node:
    """One operation that was run. `next_functions` leads to the nodes of its operands.

    A node has a higher `sequence` than all nodes that it leads to: a backward pass visits nodes in the order of that number.
    """

    variable: Tensor        # of an `AccumulateGrad` only
    location: Location | None = None
    trace: object = None
    pre_hooks: list[Hook] | None = None
    post_hooks: list[Hook] | None = None
    result_hooks: dict[int, list[Hook]] | None = None      # by result: hooks of tensors
    _metadata: dict[str, Any] | None = None

    def __init__(self, operation: Operation, edges: tuple[Edge | None, ...], saved: list[SavedTensor | None] | None,
                 location: Location | None = None, trace: object = None):
        self.operation = operation
        self.edges = edges
        self.saved = saved
        self.sequence = next_sequence()
        if location is not None or trace is not None:
            self.location, self.trace = location, trace

    def name(self) -> str:
        """Name of the operation: `MulBackward0`."""
        return self.operation.name

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """Node of each operand, and the index of the operand among that node's results; `(None, 0)` for an operand that does not require
        grad."""
        return tuple((None, 0) if edge is None else edge for edge in self.edges)

    @property
    def metadata(self) -> dict[str, Any]:
        """Dict for the user's own notes."""
        if self._metadata is None:
            self._metadata = {}
        return self._metadata

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """Values that the node saved for its derivative, as tensors; Python numbers are left out. Raises `GraphFreedError` after they were
        freed."""
        sources, weak = self.operation.saved, self.operation.weak
        return tuple(tensor for source, tensor in zip(sources, self.unpack(), strict=True) if source.is_result or source.index not in weak)

    @property
    def saved_names(self) -> tuple[str, ...]:
        """Name of each of `saved_tensors`: `operand 0`, `result`, or `intermediate 0`."""
        results, weak = self.operation.results, self.operation.weak
        return tuple(
            f"operand {source.index}" if not source.is_result else f"intermediate {source.index - results}" if source.index >= results
            else "result" if results == 1 else f"result {source.index}"
            for source in self.operation.saved if source.is_result or source.index not in weak)

    def register_hook(self, hook: Hook) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)`, tuples of tensors or None, after the node was run in a backward pass; it may return
        other `grad_inputs`."""
        self.post_hooks = self.post_hooks if self.post_hooks is not None else []
        self.post_hooks.append(hook)
        return Handle(self.post_hooks, hook)

    def register_prehook(self, hook: Hook) -> Handle:
        """Call `hook(grad_outputs)` before the node is run in a backward pass; it may return other `grad_outputs`."""
        self.pre_hooks = self.pre_hooks if self.pre_hooks is not None else []
        self.pre_hooks.append(hook)
        return Handle(self.pre_hooks, hook)

    def load_saved(self) -> list[SavedTensor]:
        """Return the saved values after a check: raises `GraphFreedError` if they were freed, `InPlaceError` if one was written to."""
        saved = self.saved
        if saved is None:
            raise GraphFreedError(
                f"Trying to backward through the graph a second time: {self.name()} has no saved tensors any more, a backward pass "
                "through it has freed them", find_user_location(),
                hint="pass retain_graph=True to every backward() or grad() but the last, or run the forward computation again")
        for source, item in zip(self.operation.saved, saved, strict=True):
            assert item is not None
            if item.counter is not None and item.counter[0] != item.version and item.array.size:      # empty arrays cannot change
                what = "its result" if source.is_result else f"its operand {source.index}"
                raise InPlaceError(
                    f"{self.name()} needs {what}, which was written to in place after it was saved (it is at version "
                    f"{item.counter[0]}, saved at {item.version}; shape {tuple(item.array.shape)}): one of the variables needed for "
                    "gradient computation has been modified by an inplace operation", self.location or find_user_location(),
                    hint="write to a copy (x = x.clone()), or write x = x + y for x += y; adjit.autograd.detect_anomaly() shows where the "
                         "operation was run")
        return saved        # type: ignore[return-value]

    def unpack(self) -> list[Tensor]:
        """Return the saved values, as tensors that are connected to the graph."""
        return [unpack(self, source, item) for source, item in zip(self.operation.saved, self.load_saved(), strict=True)]

    def release(self) -> None:
        """Free the saved values."""
        self.saved = None if self.operation.saved else self.saved

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


_ACCUMULATE: Any = SimpleNamespace(name="AccumulateGrad", saved=(), results=1, wanted=(), active=(True,), weak=frozenset())


class AccumulateGrad(Node):
    """Node at the end of the graph: adds cotangents to `variable.grad`."""

    operation = _ACCUMULATE
    edges = ()
    saved = None
    sequence = -1      # after all others: a hook of the variable sees the whole gradient

    def __init__(self, variable: Tensor):
        self.variable = variable

    def name(self) -> str:
        return "AccumulateGrad"

    def load_saved(self) -> list[SavedTensor]:
        return []


def edge_of(tensor: Tensor) -> Edge:
    """Edge of a tensor that requires grad: the node that made it, or the node that accumulates its gradient."""
    if tensor._view is not None:
        follow_writes(tensor)
    node = tensor._node
    return (node, tensor._index) if node is not None else (_accumulator(tensor), 0)


def _accumulator(tensor: Tensor) -> AccumulateGrad:
    """Return the node of a leaf: always the same one, for as long as something refers to it."""
    known: AccumulateGrad | None = None if tensor._accumulator is None else tensor._accumulator()
    if known is None:
        known = AccumulateGrad(tensor)
        tensor._accumulator = weakref.ref(known)
    return known


def follow_writes(tensor: Tensor) -> None:
    """Update the node of a view if a write in place changed the graph of its base."""
    assert tensor._view is not None
    root = tensor._view.root
    behind = []
    while tensor._view is not None and tensor._view.history != root._history:
        behind.append(tensor)
        tensor = tensor._view.parent
    trace = None if root._node is None else root._node.trace
    for tensor in reversed(behind):
        view = tensor._view
        assert view is not None
        view.history = root._history
        tensor._requires_grad = root._requires_grad
        tensor._node, tensor._index = None, 0
        if root._requires_grad:
            parent = view.parent
            edge: Edge = (_accumulator(parent), 0) if parent._node is None else (parent._node, parent._index)
            tensor._node = node_of_view(view_operation(view.name, view.graph, view.index, operation_at(tensor.array)), (edge,),
                                        lambda v=view: [v.parent.array.value, *v.positions], trace)     # type: ignore[misc]


def node_of_view(operation: Operation, edges: tuple[Edge | None, ...], operands: Callable[[], list[Value]], trace: object) -> Node:
    """Node of an operation that takes a view, or writes it back. It saves nothing but positions that are not known while tracing, or values
    computed from them."""
    saved: list[SavedTensor | None] = []
    if operation.saved:
        scope = active_scope()
        assert scope is not None
        assert isinstance(scope.builder, GraphBuilder)
        values = operands()
        results = scope.builder.inline(operation.graph, values, scope.builder.role)
        saved += [SavedTensor((results if source.is_result else values)[source.index], None, 0) for source in operation.saved]
    return Node(operation, (*edges, *(None,) * (len(operation.graph.params) - len(edges))), saved, None, trace)


def unpack(node: Node, source: SavedValue, item: SavedTensor) -> Tensor:
    """Return a saved array as a tensor that is connected to the graph, so that the derivative can be differentiated."""
    edge = (node, source.index) if source.is_result else node.edges[source.index]
    if edge is not None and isinstance(edge[0], AccumulateGrad):
        return edge[0].variable
    made = new_tensor(wrap(item.array, scalar=False) if isinstance(item.array, Value) else
                      item.array if isinstance(item.array, DeviceLeaf) else np.asarray(item.array))
    if item.counter is not None:
        made._writes = item.counter
    if edge is not None and (not source.is_result or node.operation.active[source.index]):
        made._node, made._index = edge
        made._requires_grad = True
    return made
