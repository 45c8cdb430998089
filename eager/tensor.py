"""The eager tensor: an array, and the node that computed it.

This file holds the content of a tensor. Its methods are in `autograd_methods` (gradients) and `methods` (arithmetic, shapes, ...).
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.device import card, card_number, check_device, check_device_program, chosen, is_cuda, on_device, place_of
from adjit.eager.modes import modes, switches
from adjit.eager.size import Size
from adjit.ir import ops
from adjit.ir.errors import ShapeError
from adjit.ir.types import complex_dtype, is_float, is_inexact
from adjit.tracer.array import TracedArray, as_traced, contains_traced, wrap
from adjit.tracer.array_checks import check_array, is_ndarray
from adjit.tracer.array_wrapper import ArrayWrapper, DeviceLeaf
from adjit.tracer.guards.array_access import is_from_outside
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.registry import FUNCTIONS
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location, warn_user

if TYPE_CHECKING:
    from adjit.eager.node import Node
    from adjit.eager.tensor_methods import TensorMethods  # a stub of what `autograd_methods`, `methods` and `conversions` install
    from adjit.eager.views import View
else:
    TensorMethods = ArrayWrapper

class Tensor(TensorMethods):
    """An n-dimensional array that records how it was computed, so that derivatives can be taken. Made by `adjit.tensor`.

    array         its content: an ndarray, or a traced array while a function is captured.
    _requires_grad  True if derivatives with respect to it are wanted, or if an operand's are.
    _node, _index   the node that made it, and its index among that node's results; no node for a leaf.
    _writes        list of one number, the count of writes to the memory. Shared with views and detached tensors.
    _view           the view that it is, if the graph needs it.
    _history        count of changes of its graph by writes in place: its views follow.

    >>> x = tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    # Python finds what an object has itself several times as fast as a default of the class: what each operation reads is always set.
    array: Any
    _writes: list[int]
    _requires_grad: bool = False
    _node: Node | None = None
    _index: int = 0
    _grad: Tensor | None = None
    _view: View | None = None
    _history: int = 0
    _accumulator: weakref.ref[Any] | None = None
    _hooks: list[Callable[..., Any]] | None = None      # of a leaf
    _retains_grad: bool = False

    _prefix = "tensor"          # prefix of the repr

    def __init__(self, *given: Any, device: Any = None):
        """Make a tensor of the default dtype: `Tensor(data)` with a copy of nested lists or an array, `Tensor(2, 3)` of zeros in a shape.
        `adjit.tensor` keeps the dtype of its data, and takes more arguments."""
        check_device(device)
        sizes = given[0] if len(given) == 1 and isinstance(given[0], Size) else given or (0,)
        content = _content(given[0], modes.default_float, copy=True) if len(given) == 1 and not isinstance(given[0], (int, Size)) else \
            own_tensor(np.zeros(tuple(sizes), modes.default_float)).array
        self.array, self._writes, self._requires_grad, self._view = content, [0], False, None
        if isinstance(content, TracedArray):
            note_wrapper(self)

    __hash__ = object.__hash__
    __array_priority__ = 1000

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        return Size(self.array.shape)

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the elements."""
        return self.array.dtype       # type: ignore[no-any-return]

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.array.shape)

    @property
    def _version(self) -> int:
        """Count of writes to the memory."""
        return self._writes[0]


new_object: Callable[[type[Any]], Any] = object.__new__


def new_tensor(array: Any) -> Tensor:
    """Make a tensor around this array, which requires no grad."""
    made = new_object(Tensor)
    made.array, made._writes, made._requires_grad, made._view = array, [0], False, None
    if isinstance(array, TracedArray):
        note_wrapper(made)
    return made


def note_wrapper(tensor: Tensor) -> None:
    """Tell the trace under way of a tensor around one of its arrays, so that a tensor that outlives the trace is noticed."""
    tensor.array.scope.root.wrappers.append(weakref.ref(tensor))


def tensor(data: Any, dtype: Any = None, requires_grad: bool = False, device: Any = None) -> Tensor:
    """Make a tensor with a copy of `data`: a number, an array, a tensor, or nested lists of numbers.

    Without `dtype`, Python floats become float32 (as in PyTorch), ints int64, bools bool; arrays and tensors keep their dtype. Raises
    `DTypeError` for a dtype that is not supported, or for `requires_grad` of one that is not floating-point; `UnsupportedError` for a
    `device` other than "cpu" and "cuda". Without `device` or a default device, the copy of a tensor or a `DeviceArray` is where it is.

    >>> tensor([1.0, 2.0])
    tensor([1., 2.])
    >>> tensor(np.array([1.0, 2.0]), requires_grad=True)
    tensor([1., 2.], dtype=float64, requires_grad=True)
    """
    data, device = _wrapped(data), chosen(device)
    if isinstance(data, Tensor) and isinstance(data.array, DeviceLeaf) and (device is None or is_cuda(device)) and not is_tracing():
        _warn_of_lost_gradient(data)
        there: Tensor = data.detach() if dtype is None else data.detach().to(dtype)     # type: ignore[attr-defined]
        number = card_number(there.array.device if device is None else device)
        assert number is not None
        made = new_tensor(there.array.copy() if place_of(number) == there.array.device else on_device(there.array, card(number)))
    else:
        made = new_tensor(_content(data, dtype, copy=True))
        if is_cuda(device):
            made = new_tensor(made_on_device(made.array, device))
    made.requires_grad = requires_grad      # type: ignore[attr-defined]
    return made


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """A tensor on the memory of `data`, or on a device, as that of users (`eager/transfer.py`), but whatever the default device."""
    data = _wrapped(data)
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)      # type: ignore[no-any-return]
    content = _content(data, dtype, copy=False)
    return new_tensor(made_on_device(content, device) if is_cuda(device) else content)


def _wrapped(data: Any) -> Any:
    """A tensor on the memory of an array on a device, outside of traces; other data as they are."""
    if not isinstance(data, DeviceLeaf) or is_tracing():
        return data
    switches.devices = True
    return new_tensor(data)


def _content(data: Any, dtype: Any, copy: bool) -> Any:
    data = _opened(data)
    if isinstance(data, TracedArray) and not copy and not data.scalar and dtype in (None, data.dtype):
        return data
    if contains_traced(data):
        traced = as_traced(data)
        if dtype is None:
            dtype = modes.default_float if is_float(traced.dtype) and _holds_numbers(data) else traced.dtype
        return FUNCTIONS["astype"](traced, dtype)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ShapeError(f"tensor(data): {error}", find_user_location(), hint="nested lists have one length at each depth") from error
    if dtype is not None:
        wanted = dtype_argument(dtype)
    elif isinstance(data, (np.ndarray, np.generic)) or not is_inexact(array.dtype):
        wanted = check_array(array, "tensor(data)", find_user_location())
    elif _holds_arrays(data):
        wanted = _dtype_of(data)
    else:
        wanted = modes.default_float if is_float(array.dtype) else complex_dtype(modes.default_float)
    content = np.array(array, wanted, copy=True if copy else None, order="C" if copy else "K", ndmin=0)
    return _constant(content, copy) if is_tracing() else content


def made_on_device(content: Any, device: Any) -> Any:
    """Content of a new tensor on a card: within a trace itself, if the program runs there."""
    if not is_tracing():
        return on_device(content, device)
    number = card_number(device)
    assert number is not None
    check_device_program(place_of(number))
    return content


def own_tensor(content: np.ndarray) -> Tensor:
    """Make a tensor around an array that has no other owner. Within a trace it is a value of the graph: a state that is made there starts
    anew in every call of the program."""
    return new_tensor(_constant(content, own=True) if is_tracing() else content)


def _constant(content: np.ndarray, own: bool) -> TracedArray:
    """Content of a tensor that is made while a function is traced: the same at every call, also if the function writes to it."""
    if own and content.size and np.all(content == content.flat[0]):
        return wrap(ops.constant(value=content.flat[0].item(), dtype=content.dtype, shape=content.shape), scalar=False)
    traced = as_traced(content)
    return wrap(traced.value, scalar=False) if own else traced


def _opened(data: Any) -> Any:
    """Replace the tensors in nested lists by their content; within a trace by traced arrays, as arrays from outside: each call reads them.
    """
    if isinstance(data, Tensor):
        _warn_of_lost_gradient(data)
        return data.traced() if is_tracing() else data.array.copied() if isinstance(data.array, DeviceLeaf) else data.array
    if is_ndarray(data) and is_from_outside(data):
        return as_traced(data)
    return [_opened(item) for item in data] if isinstance(data, (list, tuple, deque)) else data


def _warn_of_lost_gradient(data: Tensor) -> None:
    if modes.grad and data.requires_grad:       # type: ignore[attr-defined]
        warn_user("the content of a tensor that requires grad is copied into a new tensor, and its gradient is lost: use x.clone() or "
                  "aj.stack([x, y]), which are connected to the graph, or x.detach() if the gradient is not wanted")


def _dtype_of(data: Any) -> np.dtype:
    """Dtype of nested lists of numbers, arrays and scalars of NumPy's, as PyTorch finds it: Python's numbers are of the default dtypes."""
    if isinstance(data, (list, tuple)):
        return reduce(promoted, map(_dtype_of, data), np.dtype(np.bool_))
    if isinstance(data, (float, complex)) and not isinstance(data, np.generic):
        return modes.default_float if isinstance(data, float) else complex_dtype(modes.default_float)
    return check_array(np.asarray(data), "tensor(data)", find_user_location())


def promoted(first: np.dtype, second: np.dtype) -> np.dtype:
    """The dtype that holds numbers of two dtypes in PyTorch: an integer beside a float of any size is of the float's."""
    if is_inexact(first) != is_inexact(second):
        return first if is_inexact(first) else second
    return np.promote_types(first, second)


def _holds_numbers(data: Any) -> bool:
    """True for nested lists of Python's numbers, which have no dtype: traced ones among them."""
    if isinstance(data, (list, tuple)):
        return all(map(_holds_numbers, data))
    return data.weak if isinstance(data, TracedArray) else isinstance(data, (bool, int, float)) and not isinstance(data, np.generic)


def _holds_arrays(data: Any) -> bool:
    """True if nested lists hold arrays or NumPy scalars, which have a dtype of their own."""
    return isinstance(data, (np.ndarray, np.generic)) or (isinstance(data, (list, tuple)) and any(map(_holds_arrays, data)))
