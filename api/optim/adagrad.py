"""Adagrad, on tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adjit.optim.optimizer import Group, Optimizer
from adjit.optim.rules import Rule, adagrad_rule, check_adagrad


class Adagrad(Optimizer):
    """Adagrad: `s = s + g**2`, `p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)`.

    State: `step`, `sum`, which starts at `initial_accumulator_value`. Source: Duchi, Hazan and Singer, Adaptive subgradient methods
    for online learning and stochastic optimization, 2011, as in `torch.optim.Adagrad`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0], requires_grad=True)
    >>> optimizer = Adagrad([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.5000], requires_grad=True)
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, lr_decay: float = 0, weight_decay: float = 0,
                 initial_accumulator_value: float = 0, eps: float = 1e-10, *, maximize: bool = False):
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adagrad(options)

    def _rule(self, group: Group) -> Rule:
        return adagrad_rule(group["weight_decay"] != 0, group["maximize"])

    def _initial(self, group: Group, name: str) -> float:
        return float(group["initial_accumulator_value"])
