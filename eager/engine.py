"""Backward pass: walks the dynamic graph from the newest node to the oldest, and sums cotangents.

On arrays it is NumPy calls only. If the pass itself has to be recorded (`create_graph`), or is captured, the same walk runs on tensors.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np

from adjit.eager import tensor_arithmetic
from adjit.eager.capture import current_capture
from adjit.eager.device import device_of, on_device
from adjit.eager.modes import enable_grad, modes, no_grad, switches
from adjit.eager.node import AccumulateGrad, Edge, Node, edge_of, unpack
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.user_function import FunctionNode
from adjit.ir.errors import AnomalyError, GraphFreedError, Location, Role, ShapeError, TraceError, UnsupportedError
from adjit.tracer.array_checks import is_ndarray
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.scope import active_scope, is_tracing
from adjit.tracer.user_location import find_user_location

Cotangent = tuple[Any, bool]
"""Array or tensor, and True if it has no other owner: then it may be added to in place."""


class Arithmetic(Protocol):
    """Operations of the walk on cotangents."""

    def add(self, first: Cotangent, second: Cotangent) -> Cotangent:
        """Add two cotangents."""

    def pull_back(self, node: Node, given: tuple[bool, ...], cotangents: list[Cotangent]) -> list[Cotangent | None]:
        """Compute the cotangents of the wanted operands of a node, from the cotangents of its results `given`."""

    def accumulate(self, variable: Tensor, cotangent: Cotangent) -> None:
        """Add a cotangent to a variable's gradient."""

    def to_tensor(self, cotangent: Any) -> Tensor:
        """Convert a cotangent to a tensor, for hooks."""

    def from_tensor(self, tensor: Tensor) -> Any:
        """Convert a hook's tensor back to a cotangent."""


class Arrays:
    """Arithmetic on arrays: nothing is recorded."""

    def add(self, first: Cotangent, second: Cotangent) -> Cotangent:
        if first[1]:
            return np.add(first[0], second[0], out=first[0]), True
        if second[1]:
            return np.add(first[0], second[0], out=second[0]), True
        return np.asarray(np.add(first[0], second[0])), True

    def pull_back(self, node: Node, given: tuple[bool, ...], cotangents: list[Cotangent]) -> list[Cotangent | None]:
        backward = node.operation.backward(given)
        saved = node.load_saved()
        try:
            outs = backward.run(*[item.array for item in saved], *[array for array, _ in cotangents])
        except UnsupportedError as error:
            error.location = error.location or find_user_location()
            raise
        fresh, views = backward.function.fresh, backward.function.views
        alone = [*[False] * len(saved), *[is_alone for _, is_alone in cotangents]]      # a part of what has no other owner has none either
        return [None if slot is None else (outs[slot], fresh[slot] or ((of := views[slot]) is not None and alone[of]))
                for slot in backward.slots]

    def accumulate(self, variable: Tensor, cotangent: Cotangent) -> None:
        array, fresh = cotangent
        known = variable._grad
        if known is None:
            is_laid_out = fresh and array.strides == variable.array.strides
            variable._grad = new_tensor(array if is_laid_out else _owned(variable.array, array, fresh))
        elif known._requires_grad:
            variable._grad = tensor_arithmetic.add(known, new_tensor(array))
        else:
            np.add(known.array, array, out=known.array)
            known._writes[0] += 1

    def to_tensor(self, cotangent: Any) -> Tensor:
        return new_tensor(np.array(cotangent))

    def from_tensor(self, tensor: Tensor) -> Any:
        return tensor.array


class DeviceArrays(Arrays):
    """Arithmetic on arrays of which some are on a device."""

    def add(self, first: Cotangent, second: Cotangent) -> Cotangent:
        if isinstance(first[0], DeviceLeaf) or isinstance(second[0], DeviceLeaf):
            return tensor_arithmetic.add(new_tensor(first[0]), new_tensor(second[0])).array, True
        return super().add(first, second)

    def accumulate(self, variable: Tensor, cotangent: Cotangent) -> None:
        array, fresh = cotangent
        if not isinstance(variable.array, DeviceLeaf):
            super().accumulate(variable, cotangent)
        elif variable._grad is None:
            own = array if fresh and isinstance(array, DeviceLeaf) else array.copy()
            variable._grad = new_tensor(own if isinstance(own, DeviceLeaf) else on_device(own, device_of(variable.array)))
        elif variable._grad._requires_grad:
            variable._grad = tensor_arithmetic.add(variable._grad, new_tensor(array))
        else:
            tensor_arithmetic.add_to(variable._grad, new_tensor(array))

    def to_tensor(self, cotangent: Any) -> Tensor:
        return new_tensor(cotangent.copy()) if isinstance(cotangent, DeviceLeaf) else super().to_tensor(cotangent)


class BackwardAfter(NamedTuple):
    """Backward pass through the graph of a tensor from outside, which each call of a program makes when all else is done. `args` are the
    tensor and its cotangent."""

    args: tuple[Any, ...]
    retain_graph: bool
    location: Location | None
    kwargs: Mapping[str, Any] = {}
    what: str = "a backward pass reaches a graph that was built outside"

    def __call__(self, given: tuple[tuple[Any, ...], Mapping[str, Any]]) -> None:
        """Run the pass with the tensor and the cotangent of a call."""
        tensor, cotangent = given[0]
        backward([(edge_of(tensor), cotangent)], self.retain_graph, False)

    def without_values(self) -> BackwardAfter:
        """The pass without values of the trace."""
        return self._replace(args=())

    def unmark(self) -> None:
        """Do nothing: a backward pass sets no numbers of Python's."""


def leaves_behind(node: Node | None) -> set[int] | None:
    """Identities of the leaves that a backward pass from a node reaches; None if there is a hook on the way, or a graph that was freed."""
    found, seen, stack = set(), set(), [] if node is None else [node]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, AccumulateGrad):
            found.add(id(node.variable))
        elif node.saved is None or node.result_hooks or node.pre_hooks or node.post_hooks:
            return None
        stack += [edge[0] for edge in node.edges if edge is not None]
    return found


class Tensors:
    """Arithmetic on tensors: operations are recorded if gradients are on, or captured. The graphs of tensors from outside of a trace are
    left to its calls."""

    def __init__(self, retain_graph: bool):
        self.retain_graph = retain_graph

    def add(self, first: Cotangent, second: Cotangent) -> Cotangent:
        return tensor_arithmetic.add(first[0], second[0]), False

    def pull_back(self, node: Node, given: tuple[bool, ...], cotangents: list[Cotangent]) -> list[Cotangent | None]:
        backward = node.operation.backward(given)
        saved = [item.array if type(item.array) is float else unpack(node, source, item)
                 for source, item in zip(node.operation.saved, node.load_saved(), strict=True)]
        scope = active_scope()
        role = scope.builder.at(node.location, Role.ADJOINT) if scope is not None and is_tracing() else nullcontext()   # type: ignore[union-attr]
        with role:
            outs = tensor_arithmetic.pull_back(backward, [*saved, *[cotangent for cotangent, _ in cotangents]])
        return [None if slot is None else (outs[slot], False) for slot in backward.slots]

    def accumulate(self, variable: Tensor, cotangent: Cotangent) -> None:
        capture = current_capture()
        node = None if capture is None else capture.node_before(variable)
        if node is not None:
            assert capture is not None
            scope = active_scope()
            if scope is None or scope is not scope.root or modes.grad or leaves_behind(node) is None:
                _check_trace(node)
            capture.calls_after.append(BackwardAfter((variable, cotangent[0]), self.retain_graph, find_user_location()))
            return
        known = variable.grad       # type: ignore[attr-defined]
        if known is None:
            variable.grad = tensor_arithmetic.own(cotangent[0])     # type: ignore[attr-defined]
        elif modes.grad:
            variable.grad = tensor_arithmetic.add(known, cotangent[0])      # type: ignore[attr-defined]
        else:
            tensor_arithmetic.add_to(known, cotangent[0])

    def to_tensor(self, cotangent: Any) -> Tensor:
        return cotangent        # type: ignore[no-any-return]

    def from_tensor(self, tensor: Tensor) -> Any:
        return tensor


def backward(roots: Sequence[tuple[Edge, Any]], retain_graph: bool, create_graph: bool,
             targets: Mapping[Edge, int] | None = None, accumulate: bool = True) -> dict[int, Any]:
    """Run a backward pass from `roots`, edges with their cotangents (tensors).

    Without `targets` gradients are accumulated in all leaves. With `targets`, edges by number, only the nodes that lead to them are run,
    and their cotangents are returned as tensors; `accumulate` adds the cotangents of leaves to their `.grad`.
    """
    on_tensors = create_graph or is_tracing()
    arithmetic: Arithmetic = Tensors(retain_graph) if on_tensors else DeviceArrays() if switches.devices else Arrays()
    needed = None if targets is None else _leading_to([edge for edge, _ in roots], targets)
    found: dict[int, Any] = {}
    with (enable_grad() if create_graph else no_grad()), np.errstate(all="ignore"):
        walk = _Walk(arithmetic, needed)
        for (node, index), cotangent in roots:
            if node.saved is None and not isinstance(node, AccumulateGrad):
                raise GraphFreedError(
                    f"Trying to backward through the graph a second time: a second backward pass through {node.name()}, whose saved "
                    "tensors were freed by the first", find_user_location(),
                    hint="pass retain_graph=True to every backward() or grad() but the last, or run the forward computation again")
            walk.send(node, index, (arithmetic.from_tensor(cotangent), False))
        while walk.heap:
            node, cotangents = walk.next()
            _check_trace(node)
            cotangents = _call_result_hooks(arithmetic, node, cotangents)
            if targets is not None:
                for index, cotangent in enumerate(cotangents):
                    if cotangent is not None and (node, index) in targets:
                        found[targets[node, index]] = arithmetic.to_tensor(cotangent[0])
            if isinstance(node, AccumulateGrad):
                is_asked_for = targets is None or (accumulate and (node, 0) in targets)
                if cotangents[0] is not None and is_asked_for and node.variable._requires_grad:
                    arithmetic.accumulate(node.variable, cotangents[0])
                    for hook in list(node.variable._hooks or ()):
                        if hasattr(hook, "hook"):       # it waits for the sum
                            hook.hook(node.variable)
                continue
            if needed is not None and not needed[node]:
                continue
            _run(walk, arithmetic, node, cotangents)
            if not retain_graph:
                node.release()
    return found


class _Walk:
    """Queue of nodes, newest first, with the cotangents that have arrived for their results."""

    def __init__(self, arithmetic: Arithmetic, needed: Mapping[Node, bool] | None):
        self.heap: list[tuple[int, int, Node]] = []
        self.cotangents: dict[Node, list[Cotangent | None]] = {}
        self._arithmetic = arithmetic
        self._needed = needed
        self._met = 0

    def send(self, node: Node, index: int, cotangent: Cotangent) -> None:
        if self._needed is not None and node not in self._needed:
            return
        waiting = self.cotangents.get(node)
        if waiting is None:
            waiting = self.cotangents[node] = [None] * len(node.operation.active)
            self._met += 1      # leaves share a number: they are visited in the order in which they were met
            heapq.heappush(self.heap, (-node.sequence, self._met, node))
        known = waiting[index]
        waiting[index] = cotangent if known is None else self._arithmetic.add(known, cotangent)

    def next(self) -> tuple[Node, list[Cotangent | None]]:
        node = heapq.heappop(self.heap)[2]
        return node, self.cotangents.pop(node)


def _owned(variable: np.ndarray, gradient: np.ndarray, fresh: bool) -> np.ndarray:
    """The gradient in memory of its own as its variable is, as PyTorch has it: programs write `p.grad.view(-1)`. Rows that a view repeats
    are written once, not copied and then laid out."""
    made = np.empty_like(variable, gradient.dtype)
    if fresh and made.strides == gradient.strides:
        return gradient
    made[...] = gradient
    return made


def _run(walk: _Walk, arithmetic: Arithmetic, node: Node, cotangents: list[Cotangent | None]) -> None:
    """Run one node, and add its cotangents to the queue."""
    if node.pre_hooks:
        cotangents = _call_pre_hooks(arithmetic, node, cotangents)
    if isinstance(node, FunctionNode):
        pulled = _as_cotangents(arithmetic, node.pull_back(list(_as_tensors(arithmetic, cotangents))), node.operands, "backward")
    else:
        given = tuple([cotangent is not None for cotangent in cotangents])
        pulled = arithmetic.pull_back(node, given, [cotangent for cotangent in cotangents if cotangent is not None])
    if node.post_hooks:
        pulled = _call_post_hooks(arithmetic, node, pulled, cotangents)
    if modes.anomaly:
        _find_nan(arithmetic, node, pulled)
    edges = node.edges
    for index, cotangent in zip(node.operation.wanted, pulled, strict=True):
        if cotangent is not None:
            edge = edges[index]
            assert edge is not None
            walk.send(*edge, cotangent)


def _leading_to(roots: Sequence[Edge], targets: Mapping[Edge, int]) -> dict[Node, bool]:
    """Nodes on the paths from `roots` to `targets`; True for a node that has to be run, False for one that is only read."""
    ends = {node for node, _ in targets}
    leads: dict[Node, bool] = {}
    stack = [(node, False) for node, _ in roots]
    while stack:
        node, done = stack.pop()
        if done:
            leads[node] = any(edge is not None and (edge[0] in ends or leads.get(edge[0], False)) for edge in node.edges)
        elif node not in leads:
            leads[node] = False
            stack.append((node, True))
            stack.extend((edge[0], False) for edge in node.edges if edge is not None and edge[0] not in leads)
    return {node: run for node, run in leads.items() if run or node in ends}


def _check_trace(node: Node) -> None:
    capture = current_capture() if is_tracing() else None
    if capture is not None and not isinstance(node, AccumulateGrad) and node.trace is not capture:
        raise TraceError(f"a backward pass inside of a compiled function reaches {node.name()}, which was run outside of it",
                         node.location or find_user_location(),
                         hint="call backward() outside of the compiled function, or detach() the tensor before it is passed in")


def _call_result_hooks(arithmetic: Arithmetic, node: Node, cotangents: list[Cotangent | None]) -> list[Cotangent | None]:
    """Call the hooks of tensors: a leaf's hooks are stored on the variable, a result's hooks on its node."""
    hooks = ({0: node.variable._hooks} if node.variable._hooks else None) if isinstance(node, AccumulateGrad) else node.result_hooks
    if not hooks:
        return cotangents
    changed = list(cotangents)
    for index, functions in hooks.items():
        for hook in list(functions):
            cotangent = changed[index]
            if cotangent is not None:
                given = arithmetic.to_tensor(cotangent[0])
                returned = hook(given)
                if returned is not None:
                    changed[index] = (arithmetic.from_tensor(_checked(returned, given, "a hook")), False)
    return changed


def _call_pre_hooks(arithmetic: Arithmetic, node: Node, cotangents: list[Cotangent | None]) -> list[Cotangent | None]:
    for hook in list(node.pre_hooks or ()):
        given = _as_tensors(arithmetic, cotangents[:node.operation.results])
        returned = hook(given)
        if returned is not None:
            cotangents = _as_cotangents(arithmetic, returned, given, "a hook before a node") + cotangents[node.operation.results:]
    return cotangents


def _call_post_hooks(arithmetic: Arithmetic, node: Node, pulled: list[Cotangent | None],
                     cotangents: list[Cotangent | None]) -> list[Cotangent | None]:
    """Call the hooks of a node with one gradient for each operand, None for operands that require none."""
    wanted = node.operation.wanted
    every: list[Cotangent | None] = [None] * len(node.edges)
    for index, cotangent in zip(wanted, pulled, strict=True):
        every[index] = cotangent
    for hook in list(node.post_hooks or ()):
        given = _as_tensors(arithmetic, every)
        returned = hook(given, _as_tensors(arithmetic, cotangents[:node.operation.results]))
        if returned is not None:
            every = _as_cotangents(arithmetic, returned, given, "a hook of a node")
    return [every[index] for index in wanted]


def _as_tensors(arithmetic: Arithmetic, cotangents: Sequence[Cotangent | None]) -> tuple[Tensor | None, ...]:
    return tuple(None if cotangent is None else arithmetic.to_tensor(cotangent[0]) for cotangent in cotangents)


def _as_cotangents(arithmetic: Arithmetic, returned: Any, given: Sequence[Tensor | None], what: str) -> list[Cotangent | None]:
    items = returned if isinstance(returned, (tuple, list)) else (returned,)
    if len(items) != len(given):
        raise ShapeError(f"{what} returned {len(items)} gradients, it was given {len(given)}", find_user_location())
    return [None if item is None else (arithmetic.from_tensor(_checked(item, old, what)), False)
            for item, old in zip(items, given, strict=True)]


def _checked(returned: Any, given: Tensor | None, what: str) -> Tensor:
    if not isinstance(returned, Tensor):
        raise ShapeError(f"{what} returned a {type(returned).__name__}, expected a tensor or None", find_user_location())
    if given is not None and (returned.shape != given.shape or returned.dtype != given.dtype):
        raise ShapeError(f"{what} returned a gradient of shape {returned.shape} and dtype {returned.dtype} for one of shape {given.shape} "
                         f"and dtype {given.dtype}", find_user_location())
    return returned


def _find_nan(arithmetic: Arithmetic, node: Node, pulled: Sequence[Cotangent | None]) -> None:
    for index, cotangent in zip(node.operation.wanted, pulled, strict=True):
        array = None if cotangent is None else arithmetic.to_tensor(cotangent[0]).array
        array = array.copied() if isinstance(array, DeviceLeaf) else array
        if is_ndarray(array) and np.isnan(array).any():
            raise AnomalyError(f"{node.name()} gives NaN in the gradient of operand {index}", node.location,
                               hint="the line is where the operation was run; its operands there are node.saved_tensors" if node.location
                               else "run the forward computation within adjit.autograd.detect_anomaly() too, to see its line")
