"""Adam and AdamW, on tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adjit.optim.optimizer import Group, Optimizer
from adjit.optim.rules import Rule, adam_rule, check_adam


class Adam(Optimizer):
    """Adam; `weight_decay * p` is added to the gradient.

    `m = beta1 * m + (1 - beta1) * g`, `v = beta2 * v + (1 - beta2) * g**2`,
    `p -= lr / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)`; with `amsgrad`, the largest `v` so far.
    State: `exp_avg`, `exp_avg_sq`, `max_exp_avg_sq` with `amsgrad`, and `step`, an int64 tensor of no dimensions: it counts exactly
    for ever, where PyTorch's float32 ends at 2**24.
    Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980, as in `torch.optim.Adam`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0], requires_grad=True)
    >>> optimizer = Adam([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.5000], requires_grad=True)
    """

    _decoupled = False

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, amsgrad: bool = False, *, maximize: bool = False):
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad,
                                  "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adam(options)

    def _rule(self, group: Group) -> Rule:
        return adam_rule(self._decoupled, group["weight_decay"] != 0, group["amsgrad"], group["maximize"])


class AdamW(Adam):
    """Adam with decoupled weight decay: `p *= 1 - lr * weight_decay` before the step of `Adam`.

    Source: Loshchilov and Hutter, Decoupled weight decay regularization, arXiv:1711.05101, as in `torch.optim.AdamW`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0], requires_grad=True)
    >>> optimizer = AdamW([x], lr=0.5, weight_decay=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.2500], requires_grad=True)
    """

    _decoupled = True

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)
