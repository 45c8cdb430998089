"""What is done to the gradients of all parameters between the backward pass and the step: clipping."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, tensor
from adjit.eager.update import update_in_place

__all__ = ["clip_grad_norm_", "clip_grad_value_"]


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False) -> Tensor:
    """Scale the gradients, in place, so that their norm, all taken as one vector, is at most `max_norm`; the norm before.

    Multiplies by `min(1, max_norm / (norm + 1e-6))`. `norm_type` is the exponent of the norm, which may be `inf`. Parameters without
    a gradient count for nothing. Raises `ValueError` for a `norm_type` of 0 or less; with `error_if_nonfinite` also for a norm that is
    infinite or NaN, and the gradients are unchanged. Source: Pascanu, Mikolov and Bengio, On the difficulty of training recurrent neural
    networks, 2013, as in `torch.nn.utils.clip_grad_norm_`.

    >>> x = tensor([3.0, 4.0], requires_grad=True)
    >>> x.grad = tensor([3.0, 4.0])
    >>> clip_grad_norm_([x], max_norm=1.0), x.grad
    (tensor(5.), tensor([0.6000, 0.8000]))
    """
    norm_type, max_norm = float(norm_type), float(max_norm)
    if not norm_type > 0.0:
        raise ValueError(f"norm_type is above 0, got {norm_type}")
    grads = _gradients(parameters)
    if not grads:
        return tensor(0.0)
    with no_grad():
        total: Tensor = apply(_total_norm, (grads, norm_type))
        if error_if_nonfinite and not math.isfinite(float(total)):
            raise ValueError(f"the norm of the gradients is {float(total)}")
        update_in_place(_scaled, grads, [total, max_norm])
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Bring every element of the gradients, in place, between `-clip_value` and `clip_value`.

    >>> x = tensor([3.0, -4.0], requires_grad=True)
    >>> x.grad = tensor([0.5, -4.0])
    >>> clip_grad_value_([x], clip_value=1.0)
    >>> x.grad
    tensor([ 0.5000, -1.0000])
    """
    grads = _gradients(parameters)
    if grads:
        update_in_place(_clamped, grads, [float(clip_value)])


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """The gradients that there are, each once."""
    found: dict[int, Tensor] = {}
    for parameter in (parameters,) if isinstance(parameters, Tensor) else parameters:
        grad = parameter.grad
        if grad is not None:
            found[id(grad)] = grad
    return list(found.values())


def _total_norm(grads: Sequence[Any], norm_type: float) -> Any:
    if norm_type == math.inf:
        norms = [np.max(np.abs(grad)) for grad in grads if grad.size]
        return np.max(np.stack(norms)) if norms else np.zeros_like(grads[0], shape=())
    if norm_type == 2.0:
        return np.sqrt(sum(np.sum(grad * grad) for grad in grads))
    return sum(np.sum(np.abs(grad) ** norm_type) for grad in grads) ** (1.0 / norm_type)


def _scaled(grads: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    total, max_norm = numbers
    factor = np.minimum(max_norm / (total + 1e-6), 1.0)
    return [grad * factor.astype(grad.dtype) for grad in grads]


def _clamped(grads: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
    return [np.minimum(np.maximum(grad, -numbers[0]), numbers[0]) for grad in grads]
