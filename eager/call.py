"""Calls of functions with tensors: their operands, their keys in the cache of operations, and their traces."""

from __future__ import annotations

import inspect
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from operator import methodcaller
from typing import Any

import numpy as np

from adjit.eager.device import DeviceRuntime, common_device, running_on
from adjit.eager.modes import switches
from adjit.eager.node import follow_writes
from adjit.eager.node_names import STRIDED, node_name
from adjit.eager.operation import Operation, counted, without_locations
from adjit.eager.size import Size
from adjit.eager.tensor import Tensor
from adjit.eager.views import layouts_of, root_of
from adjit.ir.builder import GraphBuilder
from adjit.ir.errors import AdjitError, ArgumentError, IndexingError, Location
from adjit.ir.graph import Value
from adjit.ir.thread_context import thread
from adjit.ir.types import C128, F64, TensorType, is_inexact
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options
from adjit.tracer.array import TracedArray, wrap
from adjit.tracer.array_checks import check_array
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.reentrancy import isolated_from_handlers
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.results import StaticLeaf, collect_results
from adjit.tracer.row_count import plain_shape
from adjit.tracer.scope import Scope, entered, is_tracing
from adjit.tracer.trees import unflatten
from adjit.tracer.user_location import find_user_location
from adjit.tracer.value_guards import CallValues

Function = Callable[..., Any]
Key = tuple[Any, ...]

MAX_CACHED_CALLS = 8192
"""Number of operations that are cached; the least recently used ones are dropped first."""

_ARITHMETIC = (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum)
DYNAMIC_FLOATS: frozenset[Function] = frozenset(_ARITHMETIC) | {inspect.unwrap(FUNCTIONS[function]) for function in _ARITHMETIC}
"""Functions for which a Python float is an operand, so that a new number needs no new operation. Other functions are specialised to the
number."""

_CONSTANT = (stop_gradient, *(FUNCTIONS[like] for like in (np.zeros_like, np.ones_like, np.empty_like, np.full_like)))
CONSTANT: frozenset[Function] = frozenset(map(inspect.unwrap, _CONSTANT))
"""Functions whose results never require grad. Results of all other functions require grad if an operand does, also if the derivative is 0.
"""


_ITS_OPERAND, _COPY = "def run(a0):\n    return (a0,)\n", methodcaller("copy")


class Call:
    """Traced function for one signature: its operation, and the structure of its results.

    `constants` are arrays that the function captures: operands after those of the call. After the first run `is_single` tells that the
    only result is a new array whose tensor needs a node, `is_plain` that it needs none: `run` takes the arrays of the operands and
    returns it. `is_one_view`: the only result, which `run` returns too, may be a view of the first operand. `is_several`: `run` returns a
    tuple of new arrays, or of views if the call `is_view`, whose tensors need no node. `record` tells machine code what a node saves
    (`codegen/fastcall/eager_record.py`).
    """

    __slots__ = (
        "__weakref__",
        "constants",
        "is_one_view",
        "is_plain",
        "is_several",
        "is_single",
        "is_view",
        "leaves",
        "operation",
        "pack",
        "record",
        "run",
        "single",
        "tree",
    )

    def __init__(self, operation: Operation, tree: Any, leaves: Sequence[Any], is_view: bool, constants: tuple[np.ndarray, ...]):
        self.operation = operation
        self.constants = constants
        self.tree = tree
        self.leaves = leaves
        self.single = tree.num_leaves == 1 and tree.is_leaf() and leaves == (0,)
        self.pack = None if self.single else _packing(tree, leaves)
        self.is_view = is_view
        self.is_plain = self.is_single = self.is_one_view = self.is_several = False
        self.record: np.ndarray | None = None
        self.run: Callable[..., Any]

    def note_run(self) -> None:
        """Note after a run what the next one can leave out."""
        operation, function = self.operation, self.operation.function
        one = self.single and operation.results == 1 and not self.constants
        is_new = one and function.fresh[0] and not self.is_view
        self.is_single = is_new and bool(operation.wanted)
        if one and self.is_view and not function.fresh[0]:
            self.run, self.is_one_view = counted(function, True, self), True
        if (self.is_single or self.is_one_view) and operation.wanted and operation.active[0] and not function.calls_host:
            saved = [-1 - source.index if source.is_result else source.index for source in operation.saved]
            self.record = np.array([len(saved), *saved])
        if not self.single and self.pack is not None and not (self.constants or operation.wanted or function.calls_host):
            results = function.fresh[:operation.results]
            if operation.results == len(function.fresh) and not (any(results) if self.is_view else not all(results)):
                self.run, self.is_several = function.run if self.is_view else counted(function, False, self), True
        if not one or operation.wanted or function.calls_host:
            return
        if is_new:
            self.run, self.is_plain = counted(function, True, self), True
        elif not self.is_view:      # the result is an operand, or a part of it: `clone`
            part = function.run_single
            self.run = _COPY if function.text == _ITS_OPERAND else lambda *arrays: part(*arrays).copy()
            self.is_plain = True

    def rebuild(self, results: Sequence[Any]) -> Any:
        """Build the function's result from the results of the operation."""
        if self.single:
            return results[0]
        if self.pack is not None:
            return self.pack(results)
        return unflatten(self.tree, (leaf.value if isinstance(leaf, StaticLeaf) else results[leaf] for leaf in self.leaves))


def _packing(tree: Any, leaves: Sequence[Any]) -> Callable[[Iterable[Any]], Any] | None:
    """What makes the result of the operation's results if that is a tuple of them, named or not, or a list; else None."""
    if leaves != tuple(range(len(leaves))):
        return None
    sample = unflatten(tree, leaves)
    make = partial(tuple.__new__, type(sample)) if hasattr(sample, "_fields") else type(sample)
    return make if isinstance(sample, (tuple, list)) and tuple(sample) == leaves else None


known_calls: OrderedDict[Key, Call] = OrderedDict()
"""Calls by their key: the function, the description of the arguments, the operands that are differentiated."""


BY_VALUE = frozenset({int, bool, str, type(None)})
"""Types of arguments that are part of the key."""

HASHABLE = frozenset({int, type(None), type(Ellipsis)})
"""Types whose values are equal only if they are the same."""


_BOUNDS = frozenset({int, type(None)})


def hashable_index(items: tuple[Any, ...]) -> tuple[Any, ...] | None:
    """Sizes, dimensions or a basic index as part of a key; None for a tuple with other items."""
    if HASHABLE.issuperset(map(type, items)):
        return items
    found: list[Any] = []
    for item in items:
        kind = type(item)
        if kind is slice:
            item = item.start, item.stop, item.step
            if not _BOUNDS.issuperset(map(type, item)):
                return None
        elif kind not in HASHABLE:
            return None
        found.append(item)
    return tuple(found)


def describe(arg: Any, operands: list[Any], key: list[Any], dynamic: bool) -> None:
    """Add the description of an argument to the key, and its arrays to the operands."""
    kind = type(arg)
    if kind in BY_VALUE:
        key += (kind, arg)
    elif isinstance(arg, Tensor):
        array = arg.array
        operands.append(arg)
        key += (array.dtype, array.shape)
    elif kind is float or kind is complex:
        if dynamic:
            operands.append(arg)
            key.append(kind)
        elif arg and arg == arg and kind is float:
            key += (float, arg)
        else:       # equal numbers may differ by the signs of zeros, and NaN is not equal to itself
            key += (kind, arg.hex() if kind is float else repr(arg))
    elif (kind is tuple or kind is Size) and (hashable := hashable_index(arg)) is not None:
        key += (HASHABLE, hashable)
    elif isinstance(arg, (list, tuple)):
        key += (kind, len(arg))
        for item in arg:
            describe(item, operands, key, dynamic)
    elif isinstance(arg, TracedArray):
        operands.append(arg)
        if _is_weak(arg):
            key.append(complex if arg.dtype.kind == "c" else float)
        elif _is_weak_integer(arg):
            key.append(int)
        else:
            key += (arg.dtype, arg.shape)
    elif isinstance(arg, (int, str)):
        key += (kind, arg)
    elif isinstance(arg, (np.ndarray, np.generic)):
        _check(arg)
        operands.append(arg)
        key += (arg.dtype, arg.shape)
    elif isinstance(arg, slice):
        key.append(slice)
        for item in (arg.start, arg.stop, arg.step):
            key.append(item if item is None or type(item) is int else int(item.__index__()))
    else:
        key.append(arg)


def _check(array: Any) -> None:
    try:
        check_array(array, "an operand")
    except AdjitError:      # the user's line is looked up only for an error
        check_array(array, "an operand", find_user_location())


def replaced(arg: Any, arrays: Iterator[Any], dynamic: bool) -> Any:
    """Replace each operand in `arg` with the next of `arrays`, in the order of `describe`."""
    if isinstance(arg, (Tensor, TracedArray, np.ndarray, np.generic)):
        return next(arrays)
    if dynamic and (type(arg) is float or type(arg) is complex):
        return next(arrays)
    if isinstance(arg, (list, tuple)):
        items = [replaced(item, arrays, dynamic) for item in arg]
        return type(arg)(*items) if hasattr(arg, "_fields") else type(arg)(items)
    return arg


def find_call(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], operands: Sequence[Any], key: Key,
              wanted: tuple[int, ...], dynamic: bool, is_view: bool, writes: Function | None = None) -> Call:
    """Return the call for a key, traced if it is new. A call that `writes` in place has a node with that function's name. In a trace that
    counts rows each call is traced: what it computes from their number is noted then."""
    device = None
    if switches.devices and not is_tracing():
        device = common_device(operand.array for operand in operands if isinstance(operand, Tensor))
        key = key if device is None else (*key, device)
    if is_view and (thread.context.device if device is None else device) != "cpu":
        key = (*key, _steps(operands[0]))       # a view of it is a copy there, or not, by where its elements are
    counts = thread.context.row_probe is not None
    call = None if counts else known_calls.get(key)
    if call is None:
        name, values = node_name(writes or function, args, dict(kwargs)), _OperandValues(lambda graph: differentiate(graph, Options()))
        with at_users_line(), running_on(device):
            call = _trace(name, function, args, kwargs, operands, wanted, dynamic, is_view, function in CONSTANT, values, device)
        if is_view and function in STRIDED:
            made, others, named = STRIDED[function], args[1:], dict(kwargs)
            call.operation.strided = lambda array: made(array, *others, **named)
        if values.asked or counts:
            return call
        known_calls[key] = call
        if len(known_calls) > MAX_CACHED_CALLS:
            known_calls.popitem(last=False)
    return call


class _OperandValues(CallValues):
    """Values of the operands of one call, where a shape depends on them. The operation holds for this call only, without a guard."""

    def answer(self, value: Value, builder: GraphBuilder, kind: str, location: Location | None, guarded: bool = True,
               point: object = None) -> bool | int | float:
        return super().answer(value, builder, kind, location, False, point)


class _OperationBuilder(GraphBuilder):
    """Builder of an operation's graph, whose parameters are tensors of the call."""

    def origin(self, value: Value) -> str:
        return f"{value.type}, a tensor" if value in self.params else super().origin(value)


@contextmanager
def at_users_line() -> Iterator[None]:
    """Convert NumPy's errors about indices, axes and sizes to adjit's errors, with the user's line."""
    try:
        yield
    except (IndexError, ValueError) as error:
        if isinstance(error, AdjitError):
            raise
        kind = IndexingError if isinstance(error, IndexError) else ArgumentError
        raise kind(str(error), find_user_location()) from error


@isolated_from_handlers
def _trace(name: str, function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], operands: Sequence[Any],
           wanted: tuple[int, ...], dynamic: bool, is_view: bool, constant: bool,
           values: CallValues, device: str | None) -> Call:
    builder = _OperationBuilder(getattr(function, "__name__", "function"), locate=cache(find_user_location))    # one line calls all ops
    scope = Scope(builder)
    scope.as_pytorch = True
    scope.values = None if is_tracing() else values
    layouts: tuple[Any, ...] = ()
    lays_out = is_view and thread.context.device != "cpu"
    with entered(scope):
        params: list[TracedArray] = []
        for operand in operands:
            if _is_weak(operand):
                params.append(wrap(builder.param(TensorType(C128 if np.iscomplexobj(operand) else F64, ())), weak=True))
            elif _is_weak_integer(operand):
                params.append(wrap(builder.param(operand.value.type), weak=True))
            else:
                scalar = issubclass(type(operand), np.generic)
                params.append(wrap(builder.param(TensorType(operand.dtype, plain_shape(operand.shape))), scalar=scalar,
                                   writable=lays_out and not params, strides=_steps(operand) if lays_out and not params else None))
            if scope.values is not None:
                values.bind(params[-1].value, operand.array if isinstance(operand, Tensor) else operand)
        arrays = iter(params)
        new_args = replaced(args, arrays, dynamic)
        new_kwargs = {name: replaced(arg, arrays, dynamic) for name, arg in kwargs.items()}
        made = function(*new_args, **new_kwargs)
        found, tree, leaves = collect_results(made)
        region = without_locations(builder.build(found))
        if lays_out:
            layouts = layouts_of(builder, [made] if isinstance(made, TracedArray) else made, params[0])
    weak = frozenset(index for index, operand in enumerate(operands) if _is_weak(operand))
    make: Callable[..., Operation] = Operation if device is None else DeviceRuntime.operation(device)
    operation = make(name, region, len(found), wanted, weak, force_requires_grad=not constant, views=is_view and device is None)
    operation.layouts = layouts
    return Call(operation, tree, leaves, is_view, tuple(capture.array for capture in scope.captures.values()))


def _steps(operand: Any) -> Any:
    """Strides of a view on a device; None for arrays in C order."""
    return operand.array.view_steps if isinstance(operand, Tensor) and isinstance(operand.array, DeviceLeaf) else None


def _is_weak(operand: Any) -> bool:
    """True if an operand promotes as a Python float or complex."""
    return type(operand) is float or type(operand) is complex or (
        isinstance(operand, TracedArray) and operand.weak and is_inexact(operand.dtype))


def _is_weak_integer(operand: Any) -> bool:
    """True for a traced integer of Python's, which promotes as such."""
    return isinstance(operand, TracedArray) and operand.weak and operand.dtype.kind == "i"


def differentiable(operand: Any) -> bool:
    """True if a derivative with respect to this operand is wanted."""
    if not isinstance(operand, Tensor):
        return False
    view = operand._view
    if view is not None and view.history != root_of(view.parent)._history:
        follow_writes(operand)
    return operand._requires_grad and (operand.array.dtype.kind == "f" or is_inexact(operand.array.dtype))


def integers_as_floats(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert Python integers to floats in arithmetic with a float tensor, so that they are no part of the key."""
    if any(type(arg) is int for arg in args) and any(isinstance(arg, (Tensor, TracedArray)) and is_inexact(arg.dtype) for arg in args):
        return tuple(float(arg) if type(arg) is int else arg for arg in args)
    return args
