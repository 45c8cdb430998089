"""`gradcheck`: comparison of gradients with differences of the function itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjit.eager.autograd_methods import grad
from adjit.eager.tensor import Tensor, tensor
from adjit.ir.errors import NonDifferentiableError
from adjit.tracer.user_location import find_user_location


def gradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Any], *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
              raise_exception: bool = True) -> bool:
    """Check that the gradients of `func(*inputs)` are those of central differences: every element, of every input that requires grad.

    Inputs are float64 tensors; `func` returns a tensor or a tuple of them. If gradients and differences differ, raises
    `NonDifferentiableError`, or returns False without `raise_exception`. Equivalent of `torch.autograd.gradcheck`.

    >>> gradcheck(lambda x: (x * x).sum(), tensor(np.array([1.0, 2.0]), requires_grad=True))
    True
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    wanted = [x for x in given if isinstance(x, Tensor) and x.requires_grad]
    if not wanted:
        raise ValueError("gradcheck: at least one input requires grad")
    if any(x.dtype != np.float64 for x in wanted):
        raise ValueError("gradcheck: inputs that require grad are float64; differences in float32 say little")
    for number, result in enumerate(_several(func(*given))):
        for position in range(result.numel() if result.requires_grad else 0):
            seed = np.zeros(result.shape, result.dtype)
            seed.reshape(-1)[position] = 1.0
            found = grad(result, wanted, tensor(seed, device=result.device), retain_graph=True, allow_unused=True)
            for index, (x, gradient) in enumerate(zip(wanted, found, strict=True)):
                analytic = np.zeros(x.shape) if gradient is None else gradient.detach().cpu().numpy()
                numeric = _differences(func, given, x, number, position, eps)
                if not np.allclose(analytic, numeric, rtol, atol):
                    if raise_exception:
                        raise NonDifferentiableError(f"the gradient of element {position} of result {number} by input {index} is\n"
                                                     f"{analytic}\n"
                                                     f"and by differences\n{numeric}", find_user_location())
                    return False
    return True


def gradgradcheck(func: Callable[..., Any], inputs: Tensor | Sequence[Any], grad_outputs: Tensor | Sequence[Tensor] | None = None, *,
                  eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True) -> bool:
    """Check second derivatives: `gradcheck` of the gradients of `func`, as a function of the inputs and of the cotangents `grad_outputs`,
    which are random numbers unless given. Equivalent of `torch.autograd.gradgradcheck`.

    >>> gradgradcheck(lambda x: (x ** 3).sum(), tensor(np.array([1.0, 2.0]), requires_grad=True))
    True
    """
    given = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    if grad_outputs is None:
        random = np.random.default_rng(0)
        seeds = [tensor(random.standard_normal(result.shape), requires_grad=True, device=result.device)
                 for result in _several(func(*given))]
    else:
        seeds = [grad_outputs] if isinstance(grad_outputs, Tensor) else list(grad_outputs)

    def gradients(*everything: Any) -> tuple[Tensor, ...]:
        own, cotangents = everything[:len(given)], everything[len(given):]
        wanted = [x for x in own if isinstance(x, Tensor) and x.requires_grad]
        results = [result for result in zip(_several(func(*own)), cotangents, strict=True) if result[0].requires_grad]
        found = grad([result for result, _ in results], wanted, [seed for _, seed in results], create_graph=True, allow_unused=True)
        return tuple(gradient for gradient in found if gradient is not None and gradient.requires_grad)

    return gradcheck(gradients, (*given, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception)


def _several(returned: Any) -> tuple[Tensor, ...]:
    return returned if isinstance(returned, tuple) else (returned,)


def _differences(func: Callable[..., Any], given: Sequence[Any], x: Tensor, number: int, position: int, eps: float) -> np.ndarray:
    """Compute the derivative of one element of a result by all elements of `x`."""
    found = np.zeros(x.shape)
    for index in range(x.numel()):
        ends = []
        for sign in (1.0, -1.0):
            array = x.detach().cpu().numpy().copy()
            array.reshape(-1)[index] += sign * eps
            moved = tensor(array, requires_grad=True, device=x.device)
            results = _several(func(*(moved if item is x else item for item in given)))
            ends.append(float(results[number].detach().cpu().numpy().reshape(-1)[position]))
        found.reshape(-1)[index] = (ends[0] - ends[1]) / (2 * eps)
    return found
