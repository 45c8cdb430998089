"""Capture of tensors within a trace: the tensors that it read and wrote, so that a compiled program can read and write them later.

During a trace the tensors it meets hold traced arrays; afterwards they have their content again. Reads and writes of the trace are recorded
as *effects*: sources that are looked up at each call, and tensors that are written after it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjit.eager.device import check_device_program
from adjit.eager.gradient_overrides import separate_history
from adjit.eager.tensor import Tensor
from adjit.ir.builder import GraphBuilder
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError, InPlaceError, Location, TraceError, UnsupportedError
from adjit.ir.graph import Value
from adjit.ir.thread_context import thread
from adjit.ir.types import F64, TensorType
from adjit.tracer.array import TracedArray, as_traced, traced_array
from adjit.tracer.array_checks import check_array, is_ndarray
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.row_count import plain_shape
from adjit.tracer.scope import Scope, active_scope
from adjit.tracer.user_location import find_user_location

MemoryKey = tuple[int, tuple[int, ...], tuple[int, ...], str]
"""Memory of an array, and how the array reads it: address, shape, strides, dtype."""


@dataclass(slots=True, eq=False)
class CapturedTensor:
    """Tensor that a trace met.

    `argument` is its index among the arguments of the call; `gradient_of` the entry (or tensor) whose `.grad` it is; with neither, the
    tensor itself is looked up. `value` is the parameter that stands for its content, `before` its content before the trace. `shares` is the
    entry of another tensor on the same memory: the two have one content.
    """

    tensor: Tensor
    value: Value
    before: dict[str, Any]
    argument: int | None = None
    gradient_of: Tensor | None = None
    shares: CapturedTensor | None = None

    @property
    def requires_grad(self) -> bool:
        """True if the tensor required grad before the trace."""
        return bool(self.before.get("_requires_grad", False))

    @property
    def is_leaf(self) -> bool:
        """True if the tensor was a leaf before the trace, and no view of another one."""
        return self.before.get("_node") is None and self.before.get("_view") is None

    @property
    def content(self) -> TracedArray:
        """Content of the tensor at this point of the trace."""
        array: TracedArray = self.tensor.array
        return array


@dataclass(slots=True, eq=False)
class Hyperparameter:
    """Number that is read from `group[name]` at every call, or from `group[name][index]`.

    Formulas may leave out terms that are 0: a program holds either for the number 0, or for all other numbers.
    """

    group: Mapping[str, Any]
    name: str
    index: int | None
    value: Value
    zero: bool

    def read(self) -> float | None:
        """Return the number now; None if the program traced with the previous number does not hold for it."""
        number: Any = self.group.get(self.name)
        if self.index is not None:
            number = number[self.index] if isinstance(number, tuple) and self.index < len(number) else None
        return float(number) if is_number(number) and (number == 0.0) == self.zero else None


def is_number(value: Any) -> bool:
    """True if a hyperparameter is read as a float: a Python or NumPy number, but no bool."""
    return type(value) is float or (issubclass(type(value), (int, float, np.integer, np.floating)) and not isinstance(value, bool))


@dataclass(slots=True, eq=False)
class Gradient:
    """State of the `.grad` of a tensor: its value before the trace, and whether the trace read it."""

    tensor: Tensor
    before: Tensor | None
    was_read: bool


class Capture:
    """Tensors of one trace. While it is under way they hold traced arrays."""

    def __init__(self) -> None:
        self.entries: dict[int, CapturedTensor] = {}
        self.numbers: dict[tuple[int, str, int | None], Hyperparameter] = {}
        self.gradients: dict[int, Gradient] = {}
        self.attributes_set: dict[tuple[int, str], Location | None] = {}       # by the identity of the object's dict, and the name
        self.made: dict[int, tuple[weakref.ref[Any], Location | None]] = {}        # modules and optimisers, by identity
        self.shared: dict[int, tuple[Tensor, Tensor, Callable[[Tensor], Tensor]]] = {}      # by identity: base and maker
        self.requires_grad_set_at: dict[int, Location | None] = {}      # by the identity of tensors: where requires_grad was set last
        self.calls_after: list[Any] = []        # those that each call of the program makes at its end: `CallAfter`, `BackwardAfter`
        self.arguments = 0
        self._by_memory: dict[MemoryKey | int, CapturedTensor] = {}
        self.owners: dict[int, Tensor] = {}        # of gradients that existed before the trace
        self._undo: list[Callable[[], None]] = []

    def is_from_outside(self, content: TracedArray) -> bool:
        """True if a traced array belongs to an outer trace."""
        return content.scope.root is not _root_scope()

    def enter(self, tensor: Tensor) -> TracedArray:
        """Put a traced array into a tensor; the array stands for the tensor's content when the program runs."""
        return self._keep(tensor, None, None)

    def enter_argument(self, tensor: Tensor, traced: TracedArray) -> Tensor:
        """Enter a tensor among the arguments, as `enter` does; returns the tensor."""
        number, self.arguments = self.arguments, self.arguments + 1
        if id(tensor) not in self.entries:
            self._keep(tensor, traced, number)
        return tensor

    def _keep(self, tensor: Tensor, traced: TracedArray | None, argument: int | None) -> TracedArray:
        if tensor._view is not None:        # its graph is the graph of its base
            tensor.requires_grad        # noqa: B018
        array = tensor.array
        check_place(array)
        key: Any = id(array) if isinstance(array, TracedArray) else memory_key(array)      # a traced array within another capture
        same = self._by_memory.get(key) if array.size else None
        if same is not None and same.requires_grad and tensor._requires_grad:       # each has a gradient of its own
            same = None
        if same is not None:
            traced = same.content
            if same.requires_grad or tensor._requires_grad:     # one is a detach() of the other: each has its own history
                traced = separate_history(traced, same.value if tensor._requires_grad else None)
        elif traced is None:
            root = _root_scope()
            dtype = array.dtype if isinstance(array, (TracedArray, DeviceLeaf)) else check_array(array, "a tensor", find_user_location())
            type = TensorType(dtype, plain_shape(array.shape))
            traced = traced_array(new_parameter(root, type, content=array), root, scalar=False)
        before = dict(vars(tensor))
        before.pop("_grad", None)
        value = traced.value if same is None else same.value
        entry = self.entries[id(tensor)] = CapturedTensor(tensor, value, before, argument, self.owners.get(id(tensor)), same)
        self._by_memory.setdefault(key, entry)
        tensor.array = traced
        tensor._node, tensor._index, tensor._view, tensor._accumulator, tensor._writes = None, 0, None, None, [0]
        return traced

    def check_writes(self) -> None:
        """Raise `InPlaceError` if a tensor was written to that shares a part of its memory with another one."""
        entries = [entry for entry in self.entries.values() if entry.shares is None]
        for entry in entries:
            _check_view(entry, entries)
        pair = overlapping([entry.before["array"] for entry in entries], [entry.content.value is not entry.value for entry in entries])
        if pair is not None:
            shapes = " and ".join(str(entries[number].tensor.shape) for number in pair)
            raise InPlaceError(f"two tensors of shapes {shapes} share memory, and a compiled function writes to one of them",
                               find_user_location(), hint="pass a copy of one of them: x.clone()")

    def check_new_memory(self, tensor: Tensor, content: TracedArray) -> None:
        """Raise `UnsupportedError` if an outside tensor would permanently get memory of another shape, or the memory of another tensor."""
        if id(tensor) not in self.entries:       # made in the function
            return
        owners = {id(_owner(entry.content)) for entry in self.entries.values()} - {id(_owner(tensor.array))}
        if content.shape != tensor.shape or id(_owner(content)) in owners:
            what = f"of the shape {content.shape}" if content.shape != tensor.shape else "of another tensor"
            raise UnsupportedError(
                f"the data of a tensor of shape {tensor.shape} from outside of the compiled function is set to memory {what}; later "
                "calls of the compiled program would not do this", find_user_location(),
                hint="write to the tensor under adjit.no_grad(), x.copy_(y), or set its data outside of the compiled function")

    def read_number(self, group: Mapping[str, Any], name: str, index: int | None = None) -> TracedArray:
        """Return a traced scalar for the number `group[name]`, or `group[name][index]`."""
        number = self.numbers.get((id(group), name, index))
        root = _root_scope()
        if number is None:
            now = group[name] if index is None else group[name][index]
            number = Hyperparameter(group, name, index, new_parameter(root, TensorType(F64, ()), name, now), now == 0.0)
            self.numbers[id(group), name, index] = number
        return traced_array(number.value, root, weak=True)

    def read_gradient(self, tensor: Tensor) -> None:
        """Note that the gradient of a tensor is read."""
        if id(tensor) not in self.gradients:
            self._note(tensor, True)

    def write_gradient(self, tensor: Tensor) -> None:
        """Note that the gradient of a tensor is set."""
        if id(tensor) not in self.gradients:
            self._note(tensor, False)

    def _note(self, tensor: Tensor, was_read: bool) -> None:
        before = tensor._grad
        self.gradients[id(tensor)] = Gradient(tensor, before, was_read)
        if before is not None:
            self.owners[id(before)] = tensor

    def node_before(self, tensor: Tensor) -> Any:
        """Return the node that made a tensor before the trace, if there is one."""
        entry = self.entries.get(id(tensor))
        return None if entry is None else entry.before.get("_node")

    def on_failure(self, undo: Callable[[], None]) -> None:
        """Call `undo` if the capture, or the first run of its program, fails."""
        self._undo.append(undo)

    def undo(self) -> None:
        """Undo the effects that the function really had while it was traced."""
        while self._undo:
            self._undo.pop()()

    def restore(self) -> None:
        """Restore the content of all tensors."""
        for gradient in self.gradients.values():
            gradient.tensor._grad = gradient.before
        for entry in self.entries.values():
            state = vars(entry.tensor)
            before = state.get("_grad")
            state.clear()
            state.update(entry.before)
            if before is not None:
                state["_grad"] = before


def check_place(array: Any) -> None:
    """Raise `ArgumentError` if the content of a tensor is not where the program under way is to run; numbers are copied there."""
    device = thread.context.device
    if isinstance(array, DeviceLeaf):
        check_device_program(array.device)
    if device != "cpu" and is_ndarray(array) and array.ndim:
        raise ArgumentError(f"Expected all tensors to be on the same device: a tensor of shape {array.shape} is on the CPU, and "
                            f"the function is compiled for {device!r}", find_user_location(), hint=f"move it: x.to({device!r})")


def _check_view(entry: CapturedTensor, entries: Sequence[CapturedTensor]) -> None:
    """Raise `InPlaceError` for a write to a view on a device, which is a copy there, or to a tensor of which the trace reads a view."""
    if entry.content.value is entry.value or not isinstance(entry.before["array"], DeviceLeaf):
        return
    counter = entry.before["_writes"]
    if entry.before["array"].is_view or any(other is not entry and other.before["_writes"] is counter for other in entries):
        raise InPlaceError(f"a compiled function writes to a tensor of shape {entry.tensor.shape} on a device that is a view, or of "
                           "which it reads a view from outside", find_user_location(),
                           hint="take the view within the function, or pass a clone()")


def _owner(content: TracedArray) -> TracedArray:
    return content if content.alias is None else content.alias.owner


def _root_scope() -> Scope:
    scope = active_scope()
    if scope is None or scope.evaluates:
        raise TraceError("a tensor is used in a trace, and there is none", find_user_location())
    return scope.root


def new_parameter(root: Scope, type: TensorType, name: str | None = None, content: Any = None) -> Value:
    """Make a parameter of a trace, whose content in this call is `content`."""
    assert isinstance(root.builder, GraphBuilder)
    param = root.builder.param(type, name, "captured")
    if isinstance(content, TracedArray):
        root.builder.stands_for[param] = content.value
    elif root.values is not None and root.builder.parent is None:
        root.values.bind(param, content)
    return param


def current_capture() -> Capture | None:
    """The capture under way in this thread."""
    captures: list[Capture] = thread.context.captures
    return captures[-1] if captures else None


def made_in_trace(value: Any) -> bool:
    """True if a module or an optimiser was made during the current trace: it is no outside state."""
    return any(id(value) in capture.made and capture.made[id(value)][0]() is value for capture in thread.context.captures)


@contextmanager
def capturing() -> Iterator[Capture]:
    """Record the tensors that the trace within the block meets; at its end they have their content again."""
    capture = Capture()
    captures = thread.context.captures
    captures.append(capture)
    try:
        yield capture
    except BaseException:
        capture.undo()
        raise
    finally:
        captures.pop()
        capture.restore()


def traced(operand: Any) -> TracedArray:
    """Return an operand in the trace under way: a tensor's content, an array or a number."""
    if not isinstance(operand, Tensor):
        return as_traced(np.asarray(operand) if issubclass(type(operand), np.generic) else operand)
    array = operand.array
    capture = current_capture()
    if isinstance(array, TracedArray) and (capture is None or not capture.is_from_outside(array)):
        return array
    if capture is None:
        raise TraceError("a tensor is used in a trace that does not support tensors", find_user_location())
    return capture.enter(operand)


def memory_key(array: np.ndarray) -> MemoryKey:
    """Key of an array's memory and layout: equal for arrays that show the same elements."""
    if isinstance(array, DeviceLeaf):
        return array.address, array.shape, (), array.dtype.str
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def overlapping(arrays: Sequence[np.ndarray], written: Sequence[bool]) -> tuple[int, int] | None:
    """Return the indices of two arrays that share memory, one of which is written to; None if there are none."""
    bounds = [(0, 0) if not array.size else (array.address, array.address + array.nbytes) if isinstance(array, DeviceLeaf)
              else np.lib.array_utils.byte_bounds(array) for array in arrays]
    near: list[int] = []        # arrays that reach to the start of the next one
    for index in sorted((index for index, array in enumerate(arrays) if array.size), key=bounds.__getitem__):
        near = [other for other in near if bounds[other][1] > bounds[index][0]]
        for other in near:
            if (written[index] or written[other]) and _share(arrays[index], arrays[other]):
                return other, index
        near.append(index)
    return None


def _share(first: np.ndarray, second: np.ndarray) -> bool:
    if isinstance(first, DeviceLeaf) or isinstance(second, DeviceLeaf):     # which are contiguous
        return isinstance(first, DeviceLeaf) and isinstance(second, DeviceLeaf)
    try:
        return np.shares_memory(first, second, max_work=10_000)     # type: ignore[arg-type]  # any bound is allowed
    except np.exceptions.TooHardError:
        return True
