"""Clipping of gradients, parameters as one vector, weight norm and spectral norm; sequences of different lengths are in `rnn`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.eager.apply import apply
from adjit.eager.foreach_update import update_in_place
from adjit.eager.functional.shapes import cat
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, tensor
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn.utils import rnn
from adjit.nn.utils.rnn import pad_sequence
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.nn.utils import parametrizations, parametrize, stateless
    from adjit.nn.utils.fusion import fuse_conv_bn_eval, fuse_conv_bn_weights, fuse_linear_bn_eval, fuse_linear_bn_weights
    from adjit.nn.utils.reparametrizations import remove_spectral_norm, remove_weight_norm, spectral_norm, weight_norm

__all__ = ["clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "fuse_conv_bn_eval", "fuse_conv_bn_weights",
           "fuse_linear_bn_eval", "fuse_linear_bn_weights", "get_total_norm", "skip_init", "pad_sequence", "parameters_to_vector",
           "parametrizations", "parametrize",
           "remove_spectral_norm", "remove_weight_norm", "rnn", "spectral_norm", "stateless", "vector_to_parameters", "weight_norm"]


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                    error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """Scale the gradients, in place, so that their norm, all taken as one vector, is at most `max_norm`; returns the norm before.
    All are scaled together, whatever `foreach` says.

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
        raise ArgumentError(f"norm_type is above 0, got {norm_type}", find_user_location())
    grads = _gradients(parameters)
    if not grads:
        return tensor(0.0)
    with no_grad():
        total: Tensor = apply(_total_norm, (grads, norm_type))
        if error_if_nonfinite and not math.isfinite(float(total)):
            raise ArgumentError(f"the norm of the gradients is {float(total)}", find_user_location())
        update_in_place(_scaled, grads, [total, max_norm])
    return total


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clip every element of the gradients, in place, to `-clip_value` ... `clip_value`; `foreach` is taken for PyTorch's sake.

    >>> x = tensor([3.0, -4.0], requires_grad=True)
    >>> x.grad = tensor([0.5, -4.0])
    >>> clip_grad_value_([x], clip_value=1.0)
    >>> x.grad
    tensor([ 0.5000, -1.0000])
    """
    grads = _gradients(parameters)
    if grads:
        update_in_place(_clamped, grads, [float(clip_value)])


def get_total_norm(tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False,
                   foreach: bool | None = None) -> Tensor:
    """Return the norm of tensors, all taken as one vector. Raises `ValueError` with `error_if_nonfinite` for one that is infinite or NaN.

    >>> get_total_norm([tensor([3.0]), tensor([4.0])])
    tensor(5.)
    """
    given = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not given:
        return tensor(0.0)
    total: Tensor = apply(_total_norm, (given, float(norm_type)))
    if error_if_nonfinite and not bool(total.isfinite()):
        raise ArgumentError(f"the total norm of order {norm_type} is {total.item()}", find_user_location())
    return total


def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor,
                          foreach: bool | None = None) -> None:
    """Scale the gradients, in place, by `min(1, max_norm / (total_norm + 1e-6))`.

    >>> x = tensor([3.0, 4.0], requires_grad=True)
    >>> x.grad = tensor([3.0, 4.0])
    >>> clip_grads_with_norm_([x], 1.0, tensor(5.0))
    >>> x.grad
    tensor([0.6000, 0.8000])
    """
    grads = _gradients(parameters)
    if grads:
        with no_grad():
            update_in_place(_scaled, grads, [total_norm, float(max_norm)])


def skip_init(module_cls: Any, *args: Any, **kwargs: Any) -> Any:
    """Make a module whose parameters are to be filled; they hold what its class draws.

    >>> from adjit import nn
    >>> skip_init(nn.Linear, 3, 2)
    Linear(in_features=3, out_features=2, bias=True)
    """
    return module_cls(*args, **kwargs)


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """Concatenate the elements of all parameters; part of the graph.

    >>> parameters_to_vector([tensor([[1.0, 2.0]]), tensor(3.0)])
    tensor([1., 2., 3.])
    """
    vector: Tensor = apply(cat, ([parameter.reshape(-1) for parameter in parameters],))
    return vector


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of a vector into the parameters, in place: the inverse of `parameters_to_vector`.

    Raises `ShapeError` for a vector of another length; the parameters are unchanged then.

    >>> x = tensor([0.0, 0.0], requires_grad=True)
    >>> vector_to_parameters(tensor([1.0, 2.0]), [x])
    >>> x
    tensor([1., 2.], requires_grad=True)
    """
    targets = list(parameters)
    total = sum(target.numel() for target in targets)
    if vec.shape != (total,):
        raise ShapeError(f"the parameters have {total} elements, got a vector of the shape {vec.shape}", find_user_location())
    start = 0
    with no_grad():
        for target in targets:
            target.copy_(vec[start:start + target.numel()].reshape(target.shape))
            start += target.numel()


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    """Return the existing gradients, each once."""
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


def __getattr__(name: str) -> Any:
    """Import what needs the classes of modules when it is first used: some of them use `rnn`."""
    if name in ("parametrizations", "parametrize", "stateless"):
        return import_module(f"{__name__}.{name}")
    if name.startswith("fuse_") and name in __all__:
        return globals().setdefault(name, getattr(import_module(f"{__name__}.fusion"), name))
    if name in __all__:
        return globals().setdefault(name, getattr(import_module(f"{__name__}.reparametrizations"), name))
    raise AttributeError(f"module 'adjit.nn.utils' has no attribute {name!r}")
