"""Application of adjit's functions to tensors: at once and by NumPy, or into the graph of a capture; with a record for the derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjit.eager import autocast
from adjit.eager.call import DYNAMIC_FLOATS, Call, describe, differentiable, find_call, integers_as_floats, replaced
from adjit.eager.capture import current_capture, traced
from adjit.eager.functional import elementwise
from adjit.eager.modes import modes
from adjit.eager.node import Edge, Node, SavedTensor, edge_of
from adjit.eager.node_names import VIEW_FUNCTIONS
from adjit.eager.operation import Operation
from adjit.eager.promotion import PROMOTING, promoted, promotes
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.views import View, root_of
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import IndexingError
from adjit.ir.graph import Value
from adjit.ir.host_functions import was_raised_by_host
from adjit.ir.types import is_inexact
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
_NONE: dict[str, Any] = {}


def apply(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any] = _NONE) -> Any:
    """Run `function(*args, **kwargs)`, which is written over traced arrays, on tensors (and arrays, numbers, lists of these).

    Results are tensors. If gradients are on and an operand requires grad, the results get a node of the dynamic graph.
    """
    if modes.autocast is not None and function is not elementwise.to_dtype:
        args, kwargs = autocast.cast(function, args, kwargs, lambda x, dtype: apply(elementwise.to_dtype, (x, dtype)))
    if function in PROMOTING and promotes(function, args, kwargs):
        args, kwargs = promoted(function, args, kwargs, apply)
    key: list[Any] = [function]
    operands: list[Any] = []
    dynamic = function in DYNAMIC_FLOATS
    if dynamic:
        args = integers_as_floats(args)
    for arg in args:
        describe(arg, operands, key, dynamic)
    if kwargs:
        for name, arg in kwargs.items():
            key.append(name)
            describe(arg, operands, key, dynamic)
    wanted = tuple([i for i, operand in enumerate(operands) if differentiable(operand)]) if modes.grad else ()
    key.append(wanted)
    call = find_call(function, args, kwargs, operands, tuple(key), wanted, dynamic, function in VIEW_FUNCTIONS)
    if call.constants:
        operands += call.constants
    scope = active_scope()
    if scope is not None and not scope.evaluates:
        return call.rebuild(_emit(function, args, kwargs, call, operands, scope, dynamic))
    return call.rebuild(run(call.operation, operands, call.is_view))


def execute(operation: Operation, operands: Sequence[Any]) -> list[Tensor]:
    """Run an operation on tensors, arrays and numbers: at once, or into the trace under way. Results are new memory."""
    scope = active_scope()
    if scope is None or scope.evaluates:
        return run(operation, operands)
    arrays = [traced(operand).value for operand in operands]
    values = emit(operation, arrays, scope, operands)
    return finish(operation, operands, [wrap(value, scalar=False) for value in values[:operation.results]], arrays, values, False)


def run(operation: Operation, operands: Sequence[Any], is_view: bool = False) -> list[Tensor]:
    """Run an operation on tensors, arrays and numbers, at once."""
    arrays = [operand.array if isinstance(operand, Tensor) else operand for operand in operands]
    outs = run_arrays(operation, arrays)
    count = operation.results
    fresh = operation.function.fresh
    results: list[Tensor] = []
    for i in range(count):
        array = outs[i]
        made = new_tensor(array)
        if not fresh[i]:
            base = operands[0]
            if is_view and isinstance(base, Tensor) and (np.may_share_memory(array, base.array) or not array.size):
                made._writes = base._writes
                made._view = View(base, operation.name, operation.graph, i, root_of(base)._history)
            else:
                made.array = array.copy()
        results.append(made)
    if operation.wanted:
        _record(operation, operands, results, arrays, outs, None)
    return results


def run_arrays(operation: Operation, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return the results of an operation, hidden ones too; NumPy's floating-point warnings are silent."""
    try:
        with np.errstate(all="ignore"):
            return operation.run(*arrays)
    except IndexError as error:
        if was_raised_by_host(error):
            raise
        raise error if isinstance(error, IndexingError) else IndexingError(str(error), find_user_location()) from error


def _record(operation: Operation, operands: Sequence[Any], results: Sequence[Tensor], inputs: Sequence[Any], outputs: Sequence[Any],
            trace: object) -> None:
    """Give the results a node. `inputs` and `outputs` hold the values that may have to be saved: arrays, or values of the graph `trace`."""
    edges: list[Edge | None] = [None] * len(operands)
    wanted = operation.wanted
    for i in wanted:
        edges[i] = edge_of(operands[i])
    saved: list[SavedTensor | None] = []
    for source in operation.saved:
        index = source.index
        if source.is_result:
            counter = results[index]._writes if index < len(results) and trace is None else None
            array = outputs[index] if counter is None else results[index].array
        else:
            operand = operands[index]
            counter = operand._writes if isinstance(operand, Tensor) and trace is None else None
            array = inputs[index]
        saved.append(SavedTensor(array, counter, 0 if counter is None else counter[0]))
    node = Node(operation, tuple(edges), saved, find_user_location() if modes.anomaly or trace is not None else None, trace)
    active = operation.active
    for i, result in enumerate(results):
        if active[i]:
            result._node, result._index, result._requires_grad = node, i, True


def _emit(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: Call, operands: Sequence[Any], scope: Scope,
          dynamic: bool) -> list[Tensor]:
    """Emit a call into the trace under way."""
    arrays = [traced(operand) for operand in operands]
    if call.is_view:        # the traced array is a view too, so that writes reach its base
        given = iter(arrays)
        view = function(*replaced(args, given, dynamic), **{name: replaced(arg, given, dynamic) for name, arg in kwargs.items()})
        raw_arrays = [view] if isinstance(view, TracedArray) else list(view)
        values = emit(call.operation, [array.value for array in arrays], scope, operands) if call.operation.wanted else ()
    else:
        values = emit(call.operation, [array.value for array in arrays], scope, operands)
        raw_arrays = [wrap(value, scalar=False) for value in values[:call.operation.results]]
    return finish(call.operation, operands, raw_arrays, [array.value for array in arrays], values, call.is_view)


def emit(operation: Operation, values: Sequence[Value], scope: Scope, operands: Sequence[Any] = ()) -> tuple[Value, ...]:
    """Append the ops of an operation to the graph of a trace, at the user's line.

    Tensors that are not differentiated are marked: values that were detached, or computed under `no_grad`, are constants to later
    derivatives of the whole graph. Traced arrays among the `operands` are none: `aj.grad` of a function of arrays, with tensors that it
    reads, differentiates by them.
    """
    builder = scope.builder
    assert isinstance(builder, GraphBuilder)
    wanted = operation.wanted
    if wanted:
        arrays = {i for i, operand in enumerate(operands) if isinstance(operand, TracedArray)}
        values = [value if i in wanted or i in arrays or not is_inexact(value.type.dtype) else ops.stop_gradient(value)
                  for i, value in enumerate(values)]
    results = builder.inline(operation.graph, values, builder.role)
    if operation.unexpanded is None or operation.unexpanded is operation.graph:
        return results
    return (*builder.inline(operation.unexpanded, values, builder.role), *results[operation.results:])


def finish(operation: Operation, operands: Sequence[Any], raw_arrays: Sequence[TracedArray], inputs: Sequence[Value],
           outputs: Sequence[Value], is_view: bool) -> list[Tensor]:
    """Make the tensors of a capture around their traced content, with their node."""
    results = [new_tensor(array) for array in raw_arrays]
    base = operands[0] if operands else None
    if is_view and isinstance(base, Tensor):
        for index, result in enumerate(results):
            result._writes = base._writes
            result._view = View(base, operation.name, operation.graph, index, root_of(base)._history)
    if operation.wanted:
        _record(operation, operands, results, inputs, outputs, current_capture())
    return results
