"""Optimisers of tensors that are used less often: `NAdam`, `ASGD`, `Rprop`, `Adafactor`, `Muon`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from adjit.eager.tensor import Tensor
from adjit.ir.errors import ShapeError
from adjit.optim.optimizer import Group, Implementation, Optimizer, accept
from adjit.optim.rules import (
    Rule,
    adafactor_rule,
    asgd_rule,
    check_adafactor,
    check_asgd,
    check_muon,
    check_nadam,
    check_rprop,
    muon_rule,
    nadam_rule,
    rprop_rule,
)
from adjit.tracer.user_location import find_user_location


class NAdam(Optimizer):
    """Adam with Nesterov's momentum.

    With `mu(t) = beta1 * (1 - 0.5 * 0.96**(t * momentum_decay))` and `M` the product of `mu(1) ... mu(t)`, the step is
    `lr * ((1 - mu(t)) * g / (1 - M) + mu(t + 1) * m / (1 - M * mu(t + 1))) / (sqrt(v / (1 - beta2**t)) + eps)`.
    State: `step`, `mu_product`, `exp_avg`, `exp_avg_sq`. Source: Dozat, Incorporating Nesterov momentum into Adam, 2016, as in
    `torch.optim.NAdam`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = NAdam([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.8944, -1.8944])
    """

    def __init__(self, params: Iterable[Any], lr: float = 2e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
                 weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *, maximize: bool = False,
                 **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay,
                                  "momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_nadam(options)

    def _rule(self, group: Group) -> Rule:
        return nadam_rule(group["decoupled_weight_decay"], group["weight_decay"] != 0, group["maximize"])

    def _initial(self, group: Group, name: str) -> float:
        return 1.0 if name == "mu_product" else 0.0


class ASGD(Optimizer):
    """Averaged stochastic gradient descent: `p = p * (1 - lambd * eta) - eta * g`, `ax = ax + mu * (p - ax)`.

    `eta = lr / (1 + lambd * lr * t)**alpha` and `mu = 1 / max(1, t - t0)`; the average of the parameters is the state `ax`. State: `step`,
    `eta`, `mu`, `ax`. Source: Polyak and Juditsky, Acceleration of stochastic approximation by averaging, 1992, as in `torch.optim.ASGD`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = ASGD([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.8000, -1.6000])
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, lambd: float = 1e-4, alpha: float = 0.75, t0: float = 1e6,
                 weight_decay: float = 0, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay, "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_asgd(options)

    def _rule(self, group: Group) -> Rule:
        return asgd_rule(group["weight_decay"] != 0, group["maximize"])

    def _initial(self, group: Group, name: str) -> float:
        return {"eta": float(group["lr"]), "mu": 1.0}.get(name, 0.0)


class Rprop(Optimizer):
    """Resilient propagation: each element has a step size, which grows by `etas[1]` while its gradient keeps its sign, and shrinks by
    `etas[0]` where it changes; then the element waits for one step. Sizes stay within `step_sizes`.

    State: `step`, `prev`, `step_size`. Source: Riedmiller and Braun, A direct adaptive method for faster backpropagation learning, 1993, as
    in `torch.optim.Rprop`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = Rprop([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.9000, -1.9000])
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, etas: tuple[float, float] = (0.5, 1.2),
                 step_sizes: tuple[float, float] = (1e-6, 50), *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes), "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_rprop(options)

    def _rule(self, group: Group) -> Rule:
        return rprop_rule(group["maximize"])

    def _initial(self, group: Group, name: str) -> float:
        return float(group["lr"]) if name == "step_size" else 0.0


class Adafactor(Optimizer):
    """Adafactor: the running mean of squared gradients of a matrix is kept as one column and one row.

    `r` and `c` are running means of the row and column means of `g**2`, with weight `t**beta2_decay` for the newest; `v = r c / mean(r)`;
    `u = g / sqrt(max(v, eps[0]**2))`; the step is `max(eps[1], rms(p)) * min(lr, 1 / sqrt(t)) * u / max(1, rms(u) / d)`. `eps[0]` is the
    distance of 1 to the next number of the dtype unless given. State: `step`, `row_var` and `col_var`, or `variance` of vectors.
    Source: Shazeer and Stern, Adafactor: adaptive learning rates with sublinear memory cost, arXiv:1804.04235, as in
    `torch.optim.Adafactor`.

    >>> import adjit as aj
    >>> x = aj.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = Adafactor([x], lr=0.1)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> x.detach()
    tensor([ 0.8419, -1.8419])
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-2, beta2_decay: float = -0.8, eps: tuple[float | None, float] = (None, 1e-3),
                 d: float = 1.0, weight_decay: float = 0.0, *, maximize: bool = False, **unused: Unpack[Implementation]):
        accept(type(self), unused)
        super().__init__(params, {"lr": lr, "beta2_decay": beta2_decay, "eps": tuple(eps), "d": d, "weight_decay": weight_decay,
                                  "maximize": maximize})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_adafactor(options)

    def _parts(self, group: Group, params: Sequence[Tensor]) -> Iterable[tuple[Rule, Sequence[int]]]:
        for factored in (True, False):
            chosen = [i for i, param in enumerate(params) if (param.ndim > 1) == factored]
            if chosen:
                yield adafactor_rule(factored, group["weight_decay"] != 0, group["eps"][0] is not None, group["maximize"]), chosen

    def _shape(self, param: Tensor, name: str) -> tuple[int, ...]:
        if name == "row_var":
            return (*param.shape[:-1], 1)
        return (*param.shape[:-2], 1, param.shape[-1]) if name == "col_var" else param.shape


class Muon(Optimizer):
    """Muon, for matrices: momentum, made nearly orthogonal by `ns_steps` steps of a Newton-Schulz iteration.

    `x = a x + (b x x^T + c (x x^T)^2) x` with the coefficients `ns_coefficients`, computed in the dtype of the parameter, where PyTorch has
    bfloat16. The step is `lr * sqrt(max(1, rows / columns))` times that, or `lr * 0.2 * sqrt(max(rows, columns))` with
    `adjust_lr_fn="match_rms_adamw"`; weight decay is decoupled. State: `momentum_buffer`. Raises `ShapeError` for parameters that are no
    matrices. Source: Jordan et al., Muon: an optimizer for hidden layers in neural networks, 2024, as in `torch.optim.Muon`.

    >>> import adjit as aj
    >>> x = aj.eye(2).requires_grad_()
    >>> optimizer = Muon([x], lr=0.1, weight_decay=0)
    >>> (x * x).sum().backward()
    >>> optimizer.step()
    >>> bool((x.diagonal() < 1).all())
    True
    """

    def __init__(self, params: Iterable[Any], lr: float = 1e-3, weight_decay: float = 0.1, momentum: float = 0.95, nesterov: bool = True,
                 ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315), eps: float = 1e-7, ns_steps: int = 5,
                 adjust_lr_fn: str | None = None):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov,
                                  "ns_coefficients": tuple(ns_coefficients), "eps": eps, "ns_steps": ns_steps,
                                  "adjust_lr_fn": adjust_lr_fn})

    def _check(self, options: Mapping[str, Any]) -> None:
        check_muon(options)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add a group as every optimiser does. Raises `ShapeError` for parameters that are no matrices."""
        given = param_group["params"] if isinstance(param_group, Mapping) and "params" in param_group else ()
        if not isinstance(given, Tensor):
            param_group = {**param_group, "params": list(given)}
        for param in [given] if isinstance(given, Tensor) else param_group["params"]:
            item = param[1] if isinstance(param, tuple) else param
            if isinstance(item, Tensor) and item.ndim != 2:
                raise ShapeError(f"Muon updates matrices, got a parameter of shape {item.shape}", find_user_location(),
                                 hint="give biases and embeddings to another optimiser, such as AdamW")
        super().add_param_group(param_group)

    def _rule(self, group: Group) -> Rule:
        return muon_rule(group["weight_decay"] != 0, group["nesterov"], group["ns_steps"], tuple(group["ns_coefficients"]), group["eps"],
                         group["adjust_lr_fn"] == "match_rms_adamw")
