"""Writes in place: the memory changes, its version counts up, and the graph records the new content."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from adjit.eager.apply import apply, emit, run_arrays
from adjit.eager.call import DYNAMIC_FLOATS, Call, describe, differentiable, find_call, integers_as_floats
from adjit.eager.capture import current_capture, traced
from adjit.eager.device import device_of
from adjit.eager.functional import elementwise
from adjit.eager.gradient_overrides import detached_value, with_gradient_of
from adjit.eager.history import check_writable, rebase_history
from adjit.eager.modes import modes, switches
from adjit.eager.node import Edge, Node, SavedTensor, edge_of
from adjit.eager.node_names import raw
from adjit.eager.operation import Operation
from adjit.eager.promotion import PROMOTING, promoted, promotes
from adjit.eager.tensor import Tensor
from adjit.eager.transfer import moved
from adjit.eager.views import root_of
from adjit.ir.errors import DTypeError, InPlaceError, ShapeError
from adjit.ir.graph import Value
from adjit.ir.types import is_inexact
from adjit.tracer.array_checks import shares_with_itself
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.guards.array_access import WRITING_FUNCTIONS
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import Scope, active_scope, is_tracing
from adjit.tracer.user_location import find_user_location

Function = Callable[..., Any]
_NONE: dict[str, Any] = {}
WRITERS = frozenset(inspect.unwrap(call) for key, call in FUNCTIONS.items() if (key[1:] == ("at",) if isinstance(key, tuple) else
                    getattr(key, "__name__", "") in WRITING_FUNCTIONS))
"""Functions of NumPy that write to their first argument."""
_ADDITIVE = (raw(np.add), raw(np.subtract), elementwise.add, elementwise.subtract, elementwise.addcmul, elementwise.addcdiv)


def apply_in_place(function: Function, target: Tensor, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] = _NONE) -> Tensor:
    """Write `function(target, *args, **kwargs)` into the memory of `target`; returns the target.

    Raises `InPlaceError` for a leaf that requires grad while gradients are on; `ShapeError` and `DTypeError` for results that do not fit.
    """
    check_writable(target)
    if switches.devices and function is elementwise.copy_from and not is_tracing():
        place = device_of(target.array)
        args = tuple([moved(arg, place) if isinstance(arg, Tensor) else arg for arg in args])
        kwargs = {name: moved(arg, place) if isinstance(arg, Tensor) else arg for name, arg in kwargs.items()}
    if function in PROMOTING and is_inexact(target.dtype) and promotes(function, (target, *args), kwargs):
        (_, *others), kwargs = promoted(function, (target, *args), kwargs, apply)
        args = tuple(others)
    key: list[Any] = [_stored, function]
    operands: list[Any] = []
    dynamic = function in DYNAMIC_FLOATS
    everything = (target, *args)
    if dynamic:
        everything = integers_as_floats(everything)
    for arg in everything:
        describe(arg, operands, key, dynamic)
    for name, arg in kwargs.items():
        key.append(name)
        describe(arg, operands, key, dynamic)
    wanted = tuple([i for i, operand in enumerate(operands) if differentiable(operand)]) if modes.grad else ()
    key.append(wanted)
    call = find_call(_stored(function), everything, kwargs, operands, tuple(key), wanted, dynamic, False, writes=function)
    operands += call.constants
    scope = active_scope()
    if scope is not None and not scope.evaluates:
        _write_traced(call, target, operands, scope, function in _ADDITIVE)
    else:
        _write(call, target, operands, function in (elementwise.fill, elementwise.zero))
    return target


@functools.lru_cache(maxsize=1024)
def _stored(function: Function) -> Function:
    """Wrap `function` so that its result has the shape and dtype of the first argument, or raises an error."""

    @functools.wraps(function)
    def store(target: Any, *args: Any, **kwargs: Any) -> Any:
        result = function(target, *args, **kwargs)
        if result.shape != target.shape:
            raise ShapeError(f"the result of a write in place has the shape {result.shape}, the tensor {target.shape}",
                             find_user_location())
        if result.dtype == target.dtype:
            return result
        if not np.can_cast(result.dtype, target.dtype, "same_kind") and not {result.dtype.kind, target.dtype.kind} <= {"i", "u"}:
            raise DTypeError(f"the result of a write in place is {result.dtype}, the tensor {target.dtype}", find_user_location(),
                             hint="write to a tensor of that dtype: x = x.to(...)")
        return FUNCTIONS["astype"](result, target.dtype)

    return store


def apply_writer(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Run a function of `WRITERS`, whose first argument is a tensor, as a write in place."""
    apply_in_place(_written(function), args[0], args[1:], kwargs)


@functools.lru_cache(maxsize=1024)
def _written(function: Function) -> Function:
    """Wrap a function that writes to its first argument so that it returns the new content."""

    @functools.wraps(function)
    def write(target: Any, *args: Any, **kwargs: Any) -> Any:
        content = target.copy()
        function(content, *args, **kwargs)
        return content

    return write


def _write(call: Call, target: Tensor, operands: list[Any], is_filled: bool) -> None:
    operation = call.operation
    arrays = [operand.array if isinstance(operand, Tensor) else operand for operand in operands]
    outs = run_arrays(operation, arrays)
    memory = target.array
    on_device = isinstance(memory, DeviceLeaf)
    if not on_device and not memory.flags.writeable:
        memory = _part_of_repeated(target, is_filled and not operation.wanted)
    kept = [(outs if source.is_result else arrays)[source.index] for source in operation.saved]
    olds = {i: array.copy() for i, (array, source) in enumerate(zip(kept, operation.saved, strict=True))
            if (source.index or not source.is_result) and _may_share(array, memory)}      # operands may be views of the target
    if on_device:
        memory.assign(outs[0])
    else:
        memory[...] = outs[0]
    target._writes[0] += 1
    if not modes.grad:
        return
    saved = []
    for i, (array, source) in enumerate(zip(kept, operation.saved, strict=True)):
        operand = None if source.is_result else operands[source.index]
        version = operand._writes if isinstance(operand, Tensor) and i not in olds else None
        if source.is_result and source.index == 0:
            array, version = memory, target._writes
        saved.append(SavedTensor(olds.get(i, array), version, 0 if version is None else version[0]))
    _connect(operation, target, operands, saved, None)


def _part_of_repeated(target: Tensor, is_filled: bool) -> np.ndarray:
    """The memory of a view of a tensor that `expand` or `unfold` made, to be written to: a part that has no element twice, `x[0]`, or all
    of it, if it `is_filled` with one number. Raises `InPlaceError` for others, and for memory that is read-only."""
    memory: np.ndarray = target.array
    owner: np.ndarray = root_of(target).array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    if target._view is None or not owner.flags.writeable or not owner.flags.forc:
        raise InPlaceError(f"a tensor of shape {target.shape} is written to in place, but its memory is read-only", find_user_location(),
                           hint="write to a copy: x = x.clone()")
    if shares_with_itself(memory) and (not is_filled or target._requires_grad):
        raise _repeats(target)
    flat = owner.reshape(-1, order="A")
    return np.ndarray(memory.shape, memory.dtype, flat, memory.ctypes.data - owner.ctypes.data, memory.strides)      # type: ignore[arg-type]


def _repeats(target: Tensor) -> InPlaceError:
    """Error for a write to a tensor that has elements twice."""
    return InPlaceError(f"a tensor of shape {target.shape} is written to in place, but has elements twice, as after expand() (unsupported "
                        "operation: more than one element of the written-to tensor refers to a single memory location)",
                        find_user_location(), hint="write to a copy: x = x.clone()")


def _may_share(array: Any, memory: Any) -> bool:
    return isinstance(array, DeviceLeaf) if isinstance(memory, DeviceLeaf) else np.may_share_memory(array, memory)


def assign(target: Any, content: Any) -> None:
    """Overwrite the elements of an array, on a device or not."""
    if isinstance(target, DeviceLeaf):
        target.assign(content)
    else:
        np.copyto(target, content.copied() if isinstance(content, DeviceLeaf) else content)


def _write_traced(call: Call, target: Tensor, operands: list[Any], scope: Scope, is_additive: bool) -> None:
    operation, capture = call.operation, current_capture()
    arrays = [traced(operand) for operand in operands]
    entry = None if capture is None else capture.entries.get(id(root_of(target)))
    outside = None if entry is None else entry.before["array"]
    view, is_locked = arrays[0].alias, type(outside) is np.ndarray and not outside.flags.writeable
    if is_locked or (not arrays[0].writable and view is not None and view.owner.writable):
        raise _repeats(target)
    inputs = [array.value for array in arrays]
    shifted = is_additive and not modes.grad and differentiable(target)
    if shifted:     # the derivatives of the old and the new content are equal if a constant is added
        inputs[1:] = map(detached_value, inputs[1:])
    values = emit(operation, inputs, scope, operands)
    new = values[0]
    if modes.grad and (operation.wanted or target._requires_grad):      # the target's graph changes
        new = new if operation.wanted else detached_value(new)
        root = root_of(target)
        if root is not target and not differentiable(root):     # from now on it requires grad, and its other content is a constant
            whole = traced(root)
            whole.assign(detached_value(whole.value))
    elif not shifted or _is_leaf_of_trace(target):
        new = written_without_gradient(target, inputs[0], new)
    arrays[0].assign(new)
    target._writes[0] += 1
    if modes.grad:
        saved = [SavedTensor((values if source.is_result else inputs)[source.index], None, 0) for source in operation.saved]
        _connect(operation, target, operands, saved, current_capture())


def written_without_gradient(target: Tensor, old: Value, new: Value) -> Value:
    """Return `new`, which replaces `old` while gradients are off, for later derivatives of the whole graph: a constant if the tensor is a
    leaf of the trace; else a value with the derivative of the old content."""
    if not differentiable(root_of(target)):
        return new
    return detached_value(new) if _is_leaf_of_trace(target) else with_gradient_of(old, new)


def _is_leaf_of_trace(target: Tensor) -> bool:
    """True if the memory belongs to a leaf that was made in the trace, so that no outside derivative is taken with respect to it."""
    root, capture = root_of(target), current_capture()
    return root._node is None and (capture is None or id(root) not in capture.entries)


def _connect(operation: Operation, target: Tensor, operands: list[Any], saved: list[SavedTensor], trace: object) -> None:
    """Give `target` the node of its new content."""
    if not operation.wanted:
        if target._requires_grad:
            rebase_history(target, None, trace)
        return
    edges: list[Edge | None] = [None] * len(operands)
    for i in operation.wanted:
        edges[i] = edge_of(operands[i])
    node = Node(operation, tuple(edges), list(saved), find_user_location() if modes.anomaly or trace is not None else None, trace)
    rebase_history(target, node, trace)
