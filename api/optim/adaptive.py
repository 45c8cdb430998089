"""More optimisers that adapt the step to each element: `Adadelta`, `Adamax`, `RAdam`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from adjit.optim.optimizer import Group, Optimizer, accept
from adjit.optim.rules import Rule, adadelta_rule, adamax_rule, check_adadelta, check_adam, radam_rule


class Adadelta(Optimizer):
    """Adadelta: `s = rho * s + (1 - rho) * g**2`, `d = sqrt(a + eps) / sqrt(s + eps) * g`, `a = rho * a + (1 - rho) * d**2`, `p -= lr * d`.

    State: `step`, `square_avg`, `acc_delta`. Source: Zeiler, ADADELTA: an adaptive learning rate method, arXiv:1212.5701, as in
    `torch.optim.Adadelta`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = Adadelta([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.9997, -1.9997])
    """

    def __init__(self, params: Iterable[Any], lr: float = 1.0, rho: float = 0.9, eps: float = 1e-6, weight_decay: float = 0, *,
                 maximize: bool = False, **unused: Any):
        accept(type(self).__name__, unused)
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adadelta(options)

    def _rule(self, group: Group) -> Rule:
        return adadelta_rule(group["weight_decay"] != 0, group["maximize"])


class Adamax(Optimizer):
    """Adamax: `m = beta1 * m + (1 - beta1) * g`, `u = max(beta2 * u, abs(g) + eps)`, `p -= lr / (1 - beta1**t) * m / u`.

    State: `step`, `exp_avg`, `exp_inf`. Source: Kingma and Ba, Adam: a method for stochastic optimization, arXiv:1412.6980, as in
    `torch.optim.Adamax`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = Adamax([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, *, maximize: bool = False, **unused: Any):
        accept(type(self).__name__, unused)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adam(options)

    def _rule(self, group: Group) -> Rule:
        return adamax_rule(group["weight_decay"] != 0, group["maximize"])


class RAdam(Optimizer):
    """RAdam: Adam with its step rectified by how well the variance is known; momentum alone in the first steps.

    With `r_inf = 2 / (1 - beta2) - 1` and `r = r_inf - 2 * t * beta2**t / (1 - beta2**t)`, the step is `lr * m / (1 - beta1**t)`, where
    `r > 5` times `sqrt((r - 4) * (r - 2) * r_inf / ((r_inf - 4) * (r_inf - 2) * r)) * sqrt(1 - beta2**t) / (sqrt(v) + eps)`.
    State: `step`, `exp_avg`, `exp_avg_sq`. Source: Liu et al., On the variance of the adaptive learning rate and beyond, arXiv:1908.03265,
    as in `torch.optim.RAdam`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = RAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.8000, -1.6000])
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, maximize: bool = False, **unused: Any):
        accept(type(self).__name__, unused)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                                  "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adam(options)

    def _rule(self, group: Group) -> Rule:
        return radam_rule(group["decoupled_weight_decay"], group["weight_decay"] != 0, group["maximize"])
