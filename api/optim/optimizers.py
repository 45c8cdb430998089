"""Optimisers of tensors: `SGD`, `Adam`, `AdamW`, `RMSprop`, `Adagrad`, `Adadelta`, `Adamax`, `RAdam`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from adjit.optim.optimizer import Group, Implementation, Optimizer, accept
from adjit.optim.rules import (
    Rule,
    adadelta_rule,
    adagrad_rule,
    adam_rule,
    adamax_rule,
    check_adadelta,
    check_adagrad,
    check_adam,
    check_rmsprop,
    check_sgd,
    radam_rule,
    rmsprop_rule,
    sgd_rule,
)


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum.

    `v = momentum * v + (1 - dampening) * g` (`g` at the first step), `p -= lr * v`, where `g` is the gradient plus `weight_decay * p`;
    with `nesterov`, `p -= lr * (g + momentum * v)`; with `maximize` the gradient is negated.
    State: `momentum_buffer`; `step`, an int64 tensor of no dimensions, where there is dampening. Saved is `momentum_buffer` alone.
    Source: Sutskever et al., On the importance of initialization and momentum in deep learning, 2013, as in `torch.optim.SGD`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, 2.0], requires_grad=True)
    >>> optimizer = SGD([x], lr=0.5)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0., 0.], requires_grad=True)
    """

    _not_saved = frozenset({"step"})      # PyTorch has none: momentum is there from the second step on

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, momentum: float = 0, dampening: float = 0, weight_decay: float = 0,
                 nesterov: bool = False, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay,
                                  "nesterov": nesterov, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_sgd(options)

    def _rule(self, group: Group) -> Rule:
        momentum = group["momentum"] != 0
        return sgd_rule(momentum, momentum and group["dampening"] != 0, group["nesterov"], group["weight_decay"] != 0, group["maximize"])


class Adam(Optimizer):
    """Adam; `weight_decay * p` is added to the gradient, or with `decoupled_weight_decay` subtracted as by `AdamW`.

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
                 weight_decay: float = 0, amsgrad: bool = False, *, maximize: bool = False, decoupled_weight_decay: bool = False,
                 **unused: Unpack[Implementation]):
        accept(type(self), unused)
        self._decoupled = self._decoupled or bool(decoupled_weight_decay)
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
                 weight_decay: float = 1e-2, amsgrad: bool = False, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize)


class RMSprop(Optimizer):
    """RMSprop: `s = alpha * s + (1 - alpha) * g**2`, `p -= lr * g / (sqrt(s) + eps)`.

    With `centered`, `sqrt(s - a**2)` in place of `sqrt(s)`, `a` the running mean of the gradients; with `momentum`, the step is that of
    `b = momentum * b + g / (sqrt(s) + eps)`. State: `step`, `square_avg`, `momentum_buffer`, `grad_avg`.
    Source: Tieleman and Hinton, lecture 6.5, 2012, as in `torch.optim.RMSprop`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0], requires_grad=True)
    >>> optimizer = RMSprop([x], lr=0.25, alpha=0.75)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x
    tensor([0.5000], requires_grad=True)
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0,
                 momentum: float = 0, centered: bool = False, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "momentum": momentum, "alpha": alpha, "eps": eps, "centered": centered,
                                  "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_rmsprop(options)

    def _rule(self, group: Group) -> Rule:
        return rmsprop_rule(group["momentum"] != 0, group["centered"], group["weight_decay"] != 0, group["maximize"], True)


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
                 initial_accumulator_value: float = 0, eps: float = 1e-10, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay,
                                  "initial_accumulator_value": initial_accumulator_value, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adagrad(options)

    def _rule(self, group: Group) -> Rule:
        return adagrad_rule(group["weight_decay"] != 0, group["maximize"])

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group as every optimiser does; the state exists from the start, as in PyTorch."""
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for param in group["params"]:
            for name in ("step", "sum"):
                self._new_state(group, param, name)

    def _initial(self, group: Group, name: str) -> float:
        return float(group["initial_accumulator_value"])


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
                 maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
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
                 weight_decay: float = 0, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adam(options)

    def _rule(self, group: Group) -> Rule:
        return adamax_rule(group["weight_decay"] != 0, group["maximize"])


class RAdam(Optimizer):
    """RAdam: Adam with a step rectified by the uncertainty of the variance; momentum alone in the first steps.

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
                 weight_decay: float = 0, decoupled_weight_decay: bool = False, *, maximize: bool = False,
                 **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                                  "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adam(options)

    def _rule(self, group: Group) -> Rule:
        return radam_rule(group["decoupled_weight_decay"], group["weight_decay"] != 0, group["maximize"])
