"""RMSprop, on tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adjit.optim.optimizer import Group, Optimizer
from adjit.optim.rules import Rule, check_rmsprop, rmsprop_rule


class RMSprop(Optimizer):
    """RMSprop: `s = alpha * s + (1 - alpha) * g**2`, `p -= lr * g / (sqrt(s) + eps)`.

    With `centered`, `sqrt(s - a**2)` in place of `sqrt(s)`, `a` the running mean of the gradients; with `momentum`, the step is that of
    `b = momentum * b + g / (sqrt(s) + eps)`. State: `step`, `square_avg`, `momentum_buffer`, `grad_avg`.
    Source: Tieleman and Hinton, lecture 6.5, 2012, as in `torch.optim.RMSprop`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0], requires_grad=True)
    >>> optimizer = RMSprop([x], lr=0.5, alpha=0.75)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([5.0000e-09], requires_grad=True)
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, *, maximize: bool = False):
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                                  "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_rmsprop(options)

    def _rule(self, group: Group) -> Rule:
        return rmsprop_rule(group["momentum"] != 0, group["centered"], group["weight_decay"] != 0, group["maximize"], True)
