"""Functions that may close over tensors, each as one operation: derivatives and checkpoints of Python functions within a capture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from adjit.eager.apply import execute
from adjit.eager.call import differentiable
from adjit.eager.capture import capturing, traced
from adjit.eager.device import DeviceRuntime, OnDevice, common_device, running_on
from adjit.eager.modes import modes, switches
from adjit.eager.node_names import node_name
from adjit.eager.operation import Operation
from adjit.eager.tensor import Tensor, new_tensor
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import TraceError
from adjit.ir.graph import Value
from adjit.ir.types import is_inexact
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.scope import Scope, active_scope, entered, is_tracing
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location


def apply_closure(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """Run `function(*args, **kwargs)` within the trace under way, as one operation of the dynamic graph; array results are tensors.

    The function gets the tensors themselves. It may read other tensors from its closure, and write to them; it may not set gradients.
    """
    if not switches.devices or is_tracing():
        return _apply_closure_on(None, function, args, kwargs)
    contents = [leaf.array for leaf in flatten((args, dict(kwargs)))[0] if isinstance(leaf, Tensor)]
    try:
        return _apply_closure_on(common_device(contents), function, args, kwargs)
    except OnDevice as error:         # the closure reads tensors on a device
        return _apply_closure_on(error.place, function, args, kwargs)


def _apply_closure_on(device: str | None, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    outer = active_scope()
    parent = outer.builder if outer is not None and isinstance(outer.builder, GraphBuilder) else None
    builder = GraphBuilder(getattr(function, "__name__", "function"), parent, locate=find_user_location)
    scope = Scope(builder)
    scope.values = None if outer is None else outer.root.values
    operands: dict[Value, Any] = {}
    leaves, tree = flatten((args, dict(kwargs)))
    with running_on(device), capturing() as capture, entered(scope):
        inner = []
        for leaf in leaves:
            if isinstance(leaf, TracedArray):
                param = builder.param(leaf.value.type)
                operands[param] = leaf
                builder.stands_for[param] = leaf.value
                inner.append(wrap(param, weak=leaf.weak))
            else:
                inner.append(leaf)
        inner_args, inner_kwargs = unflatten(tree, inner)
        results, out_tree = flatten(function(*inner_args, **inner_kwargs))
        entries = list(capture.entries.values())
        for gradient in capture.gradients.values():
            if gradient.tensor._grad is not gradient.before:
                raise TraceError("gradients are set within a function that is differentiated or run as a checkpoint", find_user_location(),
                                 hint="call backward() outside of that function")
        if capture.calls_after:
            raise TraceError(f"{capture.calls_after[0].what} within a function that is differentiated or run as a checkpoint",
                             capture.calls_after[0].location, hint="do so outside of that function")
        arrays = [as_traced(result) for result in results if isinstance(result, (Tensor, TracedArray))]
        written = [entry for entry in entries if entry.content.value is not entry.value and entry.shares is None]
        graph = builder.build([array.value for array in (*arrays, *(entry.content for entry in written))])
        operands.update((entry.value, entry.tensor) for entry in entries if entry.shares is None)
        operands.update((known.value, known.array) for known in scope.captures.values())
        numbers = list(capture.numbers.values())
    operands.update((param, wrap(value)) for value, param in builder.captures.items())
    for number in numbers:
        raise TraceError(f"{number.name} of an optimiser is used within a function that is differentiated", find_user_location())
    ordered = [operands[param] for param in graph.params]
    weak = frozenset(index for index, operand in enumerate(ordered) if isinstance(operand, TracedArray) and operand.weak)
    wanted = tuple(index for index, operand in enumerate(ordered) if differentiable(operand)) if modes.grad else ()
    make: Callable[..., Operation] = Operation if device is None else DeviceRuntime.operation(device)
    operation = make(node_name(function, args, dict(kwargs)), graph, len(graph.results), wanted, weak)
    made = execute(operation, ordered)
    for entry, content in zip(written, made[len(arrays):], strict=True):
        traced(entry.tensor).assign(traced(content).value)
        entry.tensor._writes[0] += 1
    tensors = iter(made)
    return unflatten(out_tree, [next(tensors) if isinstance(result, (Tensor, TracedArray)) else result for result in results])


def _apply_closure(cls: type[Tensor], function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return apply_closure(function, args, kwargs)


def _around(self: Tensor, content: TracedArray) -> Tensor:
    made = new_tensor(content)
    made._requires_grad = is_inexact(content.dtype)       # otherwise it would be a constant beside tensors that require grad
    return made


Tensor.apply_closure = classmethod(_apply_closure)      # type: ignore[assignment]
Tensor.around = _around     # type: ignore[method-assign, assignment]
