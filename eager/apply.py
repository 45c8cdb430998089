"""Application of adjit's functions to tensors: at once and by NumPy, or into the graph of a capture; with a record for the derivative."""

from __future__ import annotations

import contextvars
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from adjit.eager import autocast
from adjit.eager.call import (
    BY_VALUE,
    DYNAMIC_FLOATS,
    HASHABLE,
    Call,
    describe,
    differentiable,
    find_call,
    integers_as_floats,
    known_calls,
    replaced,
)
from adjit.eager.capture import current_capture, traced
from adjit.eager.functional import elementwise
from adjit.eager.modes import modes, switches
from adjit.eager.node import Edge, Node, SavedTensor, edge_of
from adjit.eager.node_names import VIEW_FUNCTIONS
from adjit.eager.operation import Operation
from adjit.eager.promotion import PROMOTING, promoted, promotes
from adjit.eager.tensor import Tensor, new_object, new_tensor
from adjit.eager.views import PartView, View, operation_at, root_of
from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import IndexingError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.host_functions import was_raised_by_host
from adjit.ir.thread_context import ThreadContext, thread
from adjit.ir.types import is_inexact
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
_NONE: dict[str, Any] = {}
new_tuple: Callable[..., Any] = tuple.__new__       # Python's own constructor of named tuples takes twice the time


class _MachineCode:
    """Machine code for calls that are known, made once many were run: `call(function, x, ...)` is the result, None for other calls
    (`runtime/fastcall/eager_call.py`). Until then, and where there is none, `call` is None. `prepare` begins to make it, or returns it.
    `calls` counts those in Python."""

    __slots__ = ("call", "calls", "prepare")

    def __init__(self) -> None:
        self.call: Callable[..., Tensor | None] | None = None
        self.calls = 0
        self.prepare: Callable[[], Callable[..., Tensor | None] | None] | None = None

    def ask(self) -> None:
        """Begin to make the code, or see whether it is there."""
        if self.call is None and self.prepare is not None:
            self.call = self.prepare()


CALLS_BEFORE_CODE = 1024
"""Calls in Python, some milliseconds, before machine code is made: it takes LLVM, and a thread for some time."""

machine_code = _MachineCode()


def apply(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any] = _NONE, is_promoted: bool = False) -> Any:
    """Run `function(*args, **kwargs)`, which is written over traced arrays, on tensors (and arrays, numbers, lists of these).

    Results are tensors. If gradients are on and an operand requires grad, the results get a node of the dynamic graph. Only calls that are
    new are asked whether their operands have to be converted; those that `is_promoted` have been.
    """
    if machine_code.call is not None:
        made = machine_code.call(function, *args, **kwargs)
        if made is not None:
            return made
    return apply_in_python(function, args, kwargs, is_promoted)


def apply_in_python(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any] = _NONE, is_promoted: bool = False) -> Any:
    """`apply` of what machine code does not do, or has not done."""
    machine_code.calls += 1
    if not machine_code.calls % CALLS_BEFORE_CODE:
        machine_code.ask()
    if switches.autocast and modes.autocast is not None and function is not elementwise.to_dtype:
        args, kwargs = autocast.cast(function, args, kwargs, lambda x, dtype: apply(elementwise.to_dtype, (x, dtype)))
    key: list[Any] = [function]
    operands: list[Any] = []
    arrays: list[Any] = []
    recorded, dynamic = False, function in DYNAMIC_FLOATS
    for arg in args:
        kind = type(arg)
        if isinstance(arg, Tensor):
            array = arg.array
            key += (array.dtype, array.shape)
            operands.append(arg)
            arrays.append(array)
            if arg._requires_grad or (arg._view is not None and not _is_current(arg._view)):
                recorded = True
        elif kind in BY_VALUE:
            if dynamic and kind is int and _is_beside_floats(args):
                return apply(function, integers_as_floats(args), kwargs)
            key += (kind, arg)
        elif kind is float and arg and arg == arg and not dynamic:
            key += (kind, arg)
        elif kind is list:
            key += (kind, len(arg))
            for item in arg:
                if not isinstance(item, Tensor):
                    recorded = True
                    describe(item, operands, key, dynamic)
                    continue
                array = item.array
                key += (array.dtype, array.shape)
                operands.append(item)
                arrays.append(array)
                if item._requires_grad or (item._view is not None and not _is_current(item._view)):
                    recorded = True
        else:
            describe(arg, operands, key, dynamic)
            recorded = recorded or (isinstance(arg, tuple) and key[-2] is not HASHABLE)
    if kwargs:
        for name, arg in kwargs.items():
            key.append(name)
            if type(arg) in BY_VALUE:
                key += (type(arg), arg)
            else:
                recorded = True
                describe(arg, operands, key, dynamic)
    if len(arrays) < len(operands):
        arrays = [operand.array if isinstance(operand, Tensor) else operand for operand in operands]
    wanted: tuple[int, ...] = ()
    if recorded and modes.grad:
        wanted = tuple([i for i, operand in enumerate(operands) if differentiable(operand)])
        if wanted:
            key.append(wanted)
    call = None if switches.devices else known_calls.get(tuple(key))      # `find_call` looks where the operands are
    context = thread.context
    scopes = context.scopes
    if call is None or context.row_probe is not None:
        if not is_promoted and function in PROMOTING and promotes(function, args, kwargs):
            converted, named = promoted(function, args, kwargs, apply)
            if any(map(operator.is_not, converted, args)) or any(named[name] is not kwargs[name] for name in kwargs):
                return apply(function, converted, named, True)
        call = find_call(function, args, kwargs, operands, tuple(key), wanted, dynamic, function in VIEW_FUNCTIONS)
    elif call.is_plain and not scopes:
        made = new_object(Tensor)
        made._writes, made._requires_grad, made._view = [0], False, None
        try:
            made.array = (context.silently or _silence(context))(call.run, *arrays)
        except (IndexError, RuntimeError) as error:
            made.array = _after(error, call.run, arrays)
        return made
    elif call.is_one_view and not scopes:
        array = call.run(*arrays)
        made = _one_view(call.operation, operands[0], array)
        if wanted:
            _record(call.operation, operands, (made,), arrays, (array,), None)
        return made
    elif call.is_single and not scopes:
        outs = run_arrays(call.operation, arrays)
        made = new_object(Tensor)
        made.array, made._writes, made._view = outs[0], [0], None
        _record(call.operation, operands, (made,), arrays, outs, None)
        return made
    if call.constants:
        operands += call.constants
        arrays += call.constants
    if scopes and not scopes[-1].evaluates:
        return call.rebuild(_emit(function, args, kwargs, call, operands, scopes[-1]))
    outs = _run_as_view(call.operation, arrays)
    call.note_run()
    return call.rebuild(_finished(call.operation, operands, arrays, outs, call.is_view))


def _is_current(view: View) -> bool:
    """True if no write in place has changed the graph of a view's base since the view looked."""
    parent = view.parent
    while (outer := parent._view) is not None:
        parent = outer.parent
    return view.history == parent._history


def _one_view(operation: Operation, base: Any, array: np.ndarray, index: int = 0) -> Tensor:
    """Make the tensor of an operation that returns a view of the tensor `base`, or new memory where NumPy has to copy."""
    made = new_object(Tensor)
    if isinstance(base, Tensor):        # NumPy's views name the owner of their memory, which answers for most at once
        memory, owner = base.array, array.base
        if owner is memory or (owner is not None and owner is memory.base) or not array.size or np.may_share_memory(array, memory):
            made.array, made._writes, made._requires_grad = array, base._writes, False
            made._view = view = new_object(View)       # its own constructor would take twice the time
            view.parent, view.operation, view.index, view.at = base, operation, index, ()
            view.history = base._history if base._view is None else root_of(base)._history
            return made
    made.array, made._writes, made._requires_grad, made._view = array.copy(), [0], False, None
    return made


def _copied_view(operation: Operation, operands: Sequence[Any], array: DeviceLeaf, index: int) -> Tensor:
    """Make the tensor of an operation that takes a view of a tensor on a device: a copy, as arrays there are contiguous, which follows its
    base, and whose writes go to the base. It is a copy and no more where PyTorch copies."""
    layout = operation.layouts[index]
    if layout is None:
        return new_tensor(array)
    base, others = operands[0], [operand.array if isinstance(operand, Tensor) else operand for operand in operands[1:]]
    memory, view = base.array, PartView(base, operation, index, tuple(others)) if others else View(base, operation, index)

    def read() -> Any:
        return run_arrays(operation, [memory, *others])[index]

    def write(content: DeviceLeaf) -> None:
        memory.assign(run_arrays(layout.write(operation_at(memory)), [memory, *others, content])[0])

    array.follow(memory, read, write if layout.writable else None, layout.steps)
    made = new_tensor(array)
    made._writes, made._view = base._writes, view
    return made


def _is_beside_floats(args: tuple[Any, ...]) -> bool:
    return any(isinstance(arg, (Tensor, TracedArray)) and is_inexact(arg.dtype) for arg in args)


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
    return _finished(operation, operands, arrays, _run_as_view(operation, arrays), is_view)


def _run_as_view(operation: Operation, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """The results of an operation; a view that no op of NumPy takes in place of its copy."""
    outs = run_arrays(operation, arrays)
    if operation.strided is None or isinstance(arrays[0], DeviceLeaf):
        return outs
    return operation.strided(arrays[0]), *outs[1:]


def _finished(operation: Operation, operands: Sequence[Any], arrays: Sequence[Any], outs: Sequence[np.ndarray], is_view: bool
              ) -> list[Tensor]:
    """Make the tensors of an operation that was run, with their node; views know their base."""
    fresh = operation.function.fresh
    results: list[Tensor] = []
    for i in range(operation.results):
        array = outs[i]
        if isinstance(array, DeviceLeaf):
            results.append(_copied_view(operation, operands, array, i) if is_view else new_tensor(array))
        elif is_view and not (fresh[i] and array.base is None):
            results.append(_one_view(operation, operands[0], array, i))
        else:
            results.append(new_tensor(array if fresh[i] else array.copy()))
    if operation.wanted:
        _record(operation, operands, results, arrays, outs, None)
    return results


def run_arrays(operation: Operation, arrays: Sequence[Any]) -> tuple[np.ndarray, ...]:
    """Return the results of an operation, hidden ones too; NumPy's floating-point warnings are silent."""
    if operation.function.calls_host:       # code of the user, which has contexts of its own
        with np.errstate(all="ignore"):
            return _unsilenced(operation.run, arrays)
    context = thread.context
    try:
        return (context.silently or _silence(context))(operation.run, *arrays)      # type: ignore[no-any-return]
    except (IndexError, RuntimeError) as error:
        return _after(error, operation.run, arrays)


def _silence(context: ThreadContext) -> Callable[..., Any]:
    """Make what calls a function with NumPy's floating-point warnings off: a context that lasts as long as the thread. `numpy.errstate`
    makes its state anew each time, which takes longer than a small operation."""
    silent = contextvars.Context()
    silent.run(np.seterr, all="ignore")
    context.silently = silent.run
    return silent.run


def _after(error: Exception, run: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    """Results after an error: it is raised with the user's line if it is that of an index, or `run` was called in the midst of another such
    call, by a finalizer, and runs without the context."""
    if isinstance(error, RuntimeError) and str(error).startswith("cannot enter context"):
        with np.errstate(all="ignore"):
            return _unsilenced(run, arrays)
    return _raised(error)


def _unsilenced(run: Callable[..., Any], arrays: Sequence[Any]) -> Any:
    try:
        return run(*arrays)
    except IndexError as error:
        return _raised(error)


def _raised(error: Exception) -> NoReturn:
    if isinstance(error, IndexError) and not isinstance(error, IndexingError) and not was_raised_by_host(error):
        raise IndexingError(str(error), find_user_location()) from error
    if isinstance(error, (IndexingError, UnsupportedError)) and error.location is None:
        error.location = find_user_location()
    raise error


def _record(operation: Operation, operands: Sequence[Any], results: Sequence[Tensor], inputs: Sequence[Any], outputs: Sequence[Any],
            trace: object) -> None:
    """Give the results a node. `inputs` and `outputs` hold the values that may have to be saved: arrays, or values of the graph `trace`."""
    edges: list[Edge | None] = [None] * len(operands)
    for i in operation.wanted:
        operand = operands[i]
        edges[i] = edge_of(operand) if operand._node is None or operand._view is not None else (operand._node, operand._index)
    saved: list[SavedTensor | None] = []
    for source in operation.saved:
        index, counter = source.index, None
        if not source.is_result:
            array = inputs[index]
            if trace is None and isinstance(operands[index], Tensor):
                counter = operands[index]._writes
        elif index < len(results) and trace is None:
            array, counter = results[index].array, results[index]._writes
        else:
            array = outputs[index]
        saved.append(new_tuple(SavedTensor, (array, counter, 0 if counter is None else counter[0])))
    node = Node(operation, tuple(edges), saved, find_user_location() if trace is not None or modes.anomaly else None, trace)
    active = operation.active
    for i, result in enumerate(results):
        if active[i]:
            result._node, result._requires_grad = node, True
            if i:
                result._index = i


def _emit(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], call: Call, operands: Sequence[Any], scope: Scope
          ) -> list[Tensor]:
    """Emit a call into the trace under way."""
    dynamic = function in DYNAMIC_FLOATS
    arrays = [traced(operand) for operand in operands]
    if call.is_view:        # the traced array is a view too, so that writes reach its base
        given = iter(arrays)
        view = function(*replaced(args, given, dynamic), **{name: replaced(arg, given, dynamic) for name, arg in kwargs.items()})
        raw_arrays = [made if made.alias is not None or made is arrays[0] else wrap(made.value, scalar=False)
                      for made in ([view] if isinstance(view, TracedArray) else view)]
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
            if result.array.alias is not None or result.array is base.array:        # no copy, as of a reshape that cannot be a view
                result._writes = base._writes
                result._view = View(base, operation, index)
    if operation.wanted:
        _record(operation, operands, results, inputs, outputs, current_capture())
    return results
