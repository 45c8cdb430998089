"""Parameters and buffers: tensors that modules learn, or keep with their state; and such without a shape, of lazy modules."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.eager.device import chosen, device_of, is_cuda, on_device
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor, as_tensor, note_wrapper, own_tensor
from adjit.ir.errors import ShapeError
from adjit.tracer.array import TracedArray
from adjit.tracer.array_wrapper import DeviceLeaf
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.user_location import find_user_location


class Parameter(Tensor):
    """Tensor that requires grad by default, and that a `Module` lists once it is an attribute of the module.

    Shares the memory of `data` if it is a tensor or an array. Raises `DTypeError` for `requires_grad` of data that is not floating-point.

    >>> Parameter([1.0, 2.0])
    Parameter containing:
    tensor([1., 2.], requires_grad=True)
    """

    def __init__(self, data: Any, requires_grad: bool = True):
        content = as_tensor(data).detach()      # type: ignore[attr-defined]
        self.array = content.array
        self._writes = content._writes
        if isinstance(self.array, TracedArray):
            note_wrapper(self)
        self.requires_grad = requires_grad

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """Copy the content, without the gradient: as PyTorch copies models."""
        made: Parameter = super().__deepcopy__(memo)        # type: ignore[misc]
        made._grad = None
        return made

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


class Buffer(Tensor):
    """Tensor that a `Module` lists among its buffers once it is an attribute of the module; saved with the state if it is `persistent`.

    >>> Buffer([1.0, 2.0]), Buffer([1.0]).persistent
    (tensor([1., 2.]), True)
    """

    persistent: bool

    def __init__(self, data: Any = None, *, persistent: bool = True):
        content = as_tensor(() if data is None else data).detach()      # type: ignore[attr-defined]
        self.array = content.array
        self._writes = content._writes
        if isinstance(self.array, TracedArray):
            note_wrapper(self)
        self.persistent = persistent


class _Uninitialized(Tensor):
    """Base of tensors that wait for their shape."""

    def materialize(self, shape: tuple[int, ...], device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of zeros, of this shape."""
        made = np.zeros(shape, self.array.dtype if dtype is None else dtype_argument(dtype))
        where = device_of(self.array) if device is None and isinstance(self.array, DeviceLeaf) else device
        self.array = on_device(made, where) if is_cuda(where) else made
        self.__class__ = Parameter if isinstance(self, Parameter) else Tensor       # type: ignore[assignment]

    @property
    def shape(self) -> Any:     # type: ignore[override]
        raise ShapeError(f"an {type(self).__name__} has no shape yet", find_user_location(),
                         hint="call the model with its lazy modules once before")

    def detach(self) -> Any:
        """Return the tensor itself."""
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(dtype=self.array.dtype)       # type: ignore[call-arg]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """Parameter of a lazy module before its first call, without a shape.

    >>> UninitializedParameter()
    <UninitializedParameter>
    """

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None):
        Parameter.__init__(self, np.zeros(0, modes.default_float if dtype is None else dtype_argument(dtype)), requires_grad)
        self.array = on_device(self.array, chosen(device)) if is_cuda(chosen(device)) else self.array


class UninitializedBuffer(_Uninitialized):
    """Buffer of a lazy module before its first call, without a shape.

    >>> UninitializedBuffer()
    <UninitializedBuffer>
    """

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None):
        made = own_tensor(np.zeros(0, modes.default_float if dtype is None else dtype_argument(dtype)))
        device = chosen(device)
        self.array, self._writes = on_device(made.array, device) if is_cuda(device) else made.array, made._writes
        self.requires_grad = requires_grad
