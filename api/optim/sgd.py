"""Stochastic gradient descent, on tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adjit.optim.optimizer import Group, Optimizer
from adjit.optim.rules import Rule, check_sgd, sgd_rule


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum.

    `v = momentum * v + (1 - dampening) * g` (`g` at the first step), `p -= lr * v`, where `g` is the gradient plus `weight_decay * p`;
    with `nesterov`, `p -= lr * (g + momentum * v)`; with `maximize` the gradient is negated.
    State: `momentum_buffer`; `step`, an int64 tensor of no dimensions, where there is dampening.
    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013, as in `torch.optim.SGD`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = SGD([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0., 0.], requires_grad=True)
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, *, maximize: bool = False):
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_sgd(options)

    def _rule(self, group: Group) -> Rule:
        momentum = group["momentum"] != 0
        return sgd_rule(momentum, momentum and group["dampening"] != 0, group["nesterov"], group["weight_decay"] != 0, group["maximize"])
