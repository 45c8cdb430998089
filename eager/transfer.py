"""Moves of tensors between the memory of the CPU and that of a device, with a derivative: the gradient moves back."""

from __future__ import annotations

from typing import Any

from adjit.eager.call import differentiable
from adjit.eager.device import CPU, card, card_number, check_device_program, chosen, device_of, on_device, place_of
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor, new_tensor
from adjit.eager.tensor import as_tensor as tensor_of
from adjit.eager.user_function import Function
from adjit.ir.errors import UnsupportedError
from adjit.tracer.scope import is_tracing
from adjit.tracer.user_location import find_user_location


class Transfer(Function):
    """Copy of a tensor in other memory."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, device: str) -> Tensor:
        ctx.back = tensor.device
        return _copied(tensor, device)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return moved(gradient, ctx.back), None


def moved(tensor: Tensor, device: Any) -> Tensor:
    """The tensor on a device, "cpu" or a card: itself if it is there, or for None. Within a compiled function all tensors are where its
    program runs; raises `OnDevice` or `UnsupportedError` there for another device."""
    number = card_number(device)
    wanted = CPU if number is None else card(number)
    if device is None or device_of(tensor.array) is wanted:
        return tensor
    if is_tracing():
        if number is not None:
            check_device_program(place_of(number))
        raise UnsupportedError(f"a tensor is moved to {wanted} in a function that is compiled for {tensor.device}", find_user_location(),
                               hint="move tensors before the call, and results after it")
    if modes.grad and differentiable(tensor):
        return Transfer.apply(tensor, wanted)       # type: ignore[no-any-return]
    return _copied(tensor, wanted)


def _copied(tensor: Tensor, device: str) -> Tensor:
    return new_tensor(tensor.array.copied() if device == CPU else on_device(tensor.array, device))


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """Make a tensor on the memory of `data` if it is an array of that dtype; a tensor is returned unchanged, or converted.

    >>> array = np.zeros(2)
    >>> as_tensor(array).fill_(1.0)
    tensor([1., 1.], dtype=float64)
    >>> array
    array([1., 1.])
    """
    return tensor_of(data, dtype, chosen(device))


def move_content(tensor: Tensor, device: Any) -> None:
    """Move the content of a leaf, and that of its gradient: it stays the same object."""
    for each in (tensor, tensor._grad):
        if each is not None:
            each.array = moved(new_tensor(each.array), device).array
