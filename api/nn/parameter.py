"""Parameters: tensors that modules learn."""

from __future__ import annotations

from typing import Any

from adjit.eager.tensor import Tensor, as_tensor, note_wrapper
from adjit.tracer.array import TracedArray


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
        self._version = content._version
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
