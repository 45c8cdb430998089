"""Formulas of the optimisers, for one parameter: the functional optimisers and the classes both run these.

Formulas, names of state and hyperparameters are PyTorch's (`torch.optim`). A rule depends on booleans alone, so that it can be part of a
key; numbers are operands. Rules are written over arrays: NumPy's, or traced ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError
from adjit.ir.types import F32, is_half
from adjit.tracer.user_location import find_user_location

Array = Any
Arrays = Mapping[str, Array]
Hyperparameters = Mapping[str, Any]


class Rule:
    """Update of one parameter.

    numbers     names of the hyperparameters in its formulas; `beta1` and `beta2` are the elements of `betas`.
    state       names of its state, each an array like the parameter; but `step`, the number of steps taken, which is an int64 scalar.
    """

    numbers: tuple[str, ...]
    state: tuple[str, ...]
    scalars: tuple[str, ...] = ()
    """Names of state that is a float64 scalar."""

    def advance(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        """Return the new scalars; `numbers` hold the old ones."""
        return {}

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        """Return the numbers that depend on the index of this step (the first is 1) and on no parameter; computed in float64."""
        return {}

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        """Return the new parameter and its new state, without `step`. `numbers` hold the scales too."""
        raise NotImplementedError


def state_dtype(dtype: np.dtype) -> np.dtype:
    """Dtype of the state of a parameter: float32 for float16 and bfloat16, which would lose small squares and changes; else its own."""
    return F32 if is_half(dtype) else dtype


def run_rule(rule: Rule, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
    """Return what `rule.update` does, of float16 and bfloat16 computed in float32; the state keeps its dtype."""
    if not is_half(param.dtype):
        return rule.update(param, grad, state, numbers)
    new, changed = rule.update(param.astype(F32), grad.astype(F32), {name: _wide(value) for name, value in state.items()}, numbers)
    return new.astype(param.dtype), {name: value.astype(state[name].dtype) for name, value in changed.items()}


def _wide(value: Array) -> Array:
    return value.astype(F32) if is_half(value.dtype) else value


class SgdRule(Rule):
    """Stochastic gradient descent. Its momentum starts from the first gradient, whatever the dampening."""

    def __init__(self, momentum: bool, dampening: bool, nesterov: bool, weight_decay: bool, maximize: bool):
        self.momentum, self.dampening, self.nesterov = momentum, dampening, nesterov
        self.weight_decay, self.maximize = weight_decay, maximize
        self.numbers = _chosen(lr=True, momentum=momentum, dampening=dampening, weight_decay=weight_decay)
        self.state = _chosen(step=dampening, momentum_buffer=momentum)

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        return {"is_first": step == 1} if self.dampening else {}

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = _gradient(self.maximize, self.weight_decay, param, grad, numbers)
        if not self.momentum:
            return param - _like(param, numbers["lr"]) * grad, {}
        momentum, running = numbers["momentum"], state["momentum_buffer"]
        if self.dampening:
            running = np.where(numbers["is_first"], grad, momentum * running + (1.0 - numbers["dampening"]) * grad)
        else:
            running = momentum * running + grad
        change = grad + momentum * running if self.nesterov else running
        return param - _like(param, numbers["lr"]) * change, {"momentum_buffer": running}


class _Moments(Rule):
    """Base of rules with running means of the gradient and of its square, with weight decay of either kind."""

    decoupled: bool
    weight_decay: bool
    maximize: bool

    def shrinking(self, numbers: Arrays) -> dict[str, Array]:
        """Return the scale of decoupled weight decay, if there is any."""
        return {"shrinking": 1.0 - numbers["lr"] * numbers["weight_decay"]} if self.weight_decay and self.decoupled else {}

    def moments(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, Array, Array]:
        """Return the parameter after decoupled weight decay, and the two means."""
        grad = _gradient(self.maximize, self.weight_decay and not self.decoupled, param, grad, numbers)
        if self.weight_decay and self.decoupled:
            param = param * _like(param, numbers["shrinking"])
        beta1, beta2 = numbers["beta1"], numbers["beta2"]
        return (param, beta1 * state["exp_avg"] + (1.0 - beta1) * grad,
                beta2 * state["exp_avg_sq"] + (1.0 - beta2) * (grad * grad))


class AdamRule(_Moments):
    """Adam; with `decoupled`, weight decay is AdamW's."""

    def __init__(self, decoupled: bool, weight_decay: bool, amsgrad: bool, maximize: bool):
        self.decoupled, self.weight_decay, self.amsgrad, self.maximize = decoupled, weight_decay, amsgrad, maximize
        self.numbers = _chosen(lr=True, beta1=True, beta2=True, eps=True, weight_decay=weight_decay)
        self.state = _chosen(step=True, exp_avg=True, exp_avg_sq=True, max_exp_avg_sq=amsgrad)

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        steps = step.astype(np.float64)
        found = {"step_size": numbers["lr"] / (1.0 - numbers["beta1"] ** steps),
                 "variance_scale": 1.0 / np.sqrt(1.0 - numbers["beta2"] ** steps)}
        return found | self.shrinking(numbers)

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        param, mean, variance = self.moments(param, grad, state, numbers)
        new = {"exp_avg": mean, "exp_avg_sq": variance}
        if self.amsgrad:
            variance = new["max_exp_avg_sq"] = np.maximum(state["max_exp_avg_sq"], variance)
        deviation = np.sqrt(variance) * _like(param, numbers["variance_scale"]) + numbers["eps"]
        return param - _like(param, numbers["step_size"]) * (mean / deviation), new


class RmspropRule(Rule):
    """RMSprop; with `centered`, gradients are divided by an estimate of their standard deviation."""

    def __init__(self, momentum: bool, centered: bool, weight_decay: bool, maximize: bool, counts: bool):
        self.momentum, self.centered, self.weight_decay, self.maximize = momentum, centered, weight_decay, maximize
        self.numbers = _chosen(lr=True, alpha=True, eps=True, momentum=momentum, weight_decay=weight_decay)
        self.state = _chosen(step=counts, square_avg=True, momentum_buffer=momentum, grad_avg=centered)

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = _gradient(self.maximize, self.weight_decay, param, grad, numbers)
        alpha = numbers["alpha"]
        square = alpha * state["square_avg"] + (1.0 - alpha) * (grad * grad)
        new = {"square_avg": square}
        if self.centered:
            mean = new["grad_avg"] = alpha * state["grad_avg"] + (1.0 - alpha) * grad
            square = square - mean * mean
        change = grad / (np.sqrt(square) + numbers["eps"])
        if self.momentum:
            change = new["momentum_buffer"] = numbers["momentum"] * state["momentum_buffer"] + change
        return param - _like(param, numbers["lr"]) * change, new


class AdagradRule(Rule):
    """Adagrad."""

    def __init__(self, weight_decay: bool, maximize: bool):
        self.weight_decay, self.maximize = weight_decay, maximize
        self.numbers = _chosen(lr=True, lr_decay=True, eps=True, weight_decay=weight_decay)
        self.state = ("step", "sum")

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        return {"step_size": numbers["lr"] / (1.0 + (step.astype(np.float64) - 1.0) * numbers["lr_decay"])}

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = _gradient(self.maximize, self.weight_decay, param, grad, numbers)
        total = state["sum"] + grad * grad
        return param - _like(param, numbers["step_size"]) * (grad / (np.sqrt(total) + numbers["eps"])), {"sum": total}


class AdadeltaRule(Rule):
    """Adadelta."""

    def __init__(self, weight_decay: bool, maximize: bool):
        self.weight_decay, self.maximize = weight_decay, maximize
        self.numbers = _chosen(lr=True, rho=True, eps=True, weight_decay=weight_decay)
        self.state = ("step", "square_avg", "acc_delta")

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = _gradient(self.maximize, self.weight_decay, param, grad, numbers)
        rho, eps = numbers["rho"], numbers["eps"]
        square = rho * state["square_avg"] + (1.0 - rho) * (grad * grad)
        change = np.sqrt(state["acc_delta"] + eps) / np.sqrt(square + eps) * grad
        total = rho * state["acc_delta"] + (1.0 - rho) * (change * change)
        return param - _like(param, numbers["lr"]) * change, {"square_avg": square, "acc_delta": total}


class AdamaxRule(Rule):
    """Adamax: Adam by the largest gradient in place of their squares."""

    def __init__(self, weight_decay: bool, maximize: bool):
        self.weight_decay, self.maximize = weight_decay, maximize
        self.numbers = _chosen(lr=True, beta1=True, beta2=True, eps=True, weight_decay=weight_decay)
        self.state = ("step", "exp_avg", "exp_inf")

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        return {"step_size": numbers["lr"] / (1.0 - numbers["beta1"] ** step.astype(np.float64))}

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = _gradient(self.maximize, self.weight_decay, param, grad, numbers)
        beta1, beta2 = numbers["beta1"], numbers["beta2"]
        mean = beta1 * state["exp_avg"] + (1.0 - beta1) * grad
        largest = np.maximum(beta2 * state["exp_inf"], np.abs(grad) + numbers["eps"])
        return param - _like(param, numbers["step_size"]) * (mean / largest), {"exp_avg": mean, "exp_inf": largest}


class NAdamRule(_Moments):
    """NAdam: Adam with Nesterov's momentum."""

    scalars = ("mu_product",)

    def __init__(self, decoupled: bool, weight_decay: bool, maximize: bool):
        self.decoupled, self.weight_decay, self.maximize = decoupled, weight_decay, maximize
        self.numbers = _chosen(lr=True, beta1=True, beta2=True, eps=True, momentum_decay=True, weight_decay=weight_decay)
        self.state = ("step", "mu_product", "exp_avg", "exp_avg_sq")

    def _momentum(self, steps: Array, numbers: Arrays) -> Array:
        return numbers["beta1"] * (1.0 - 0.5 * 0.96 ** (steps * numbers["momentum_decay"]))

    def advance(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        return {"mu_product": numbers["mu_product"] * self._momentum(step.astype(np.float64), numbers)}

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        steps = step.astype(np.float64)
        now, later = self._momentum(steps, numbers), self._momentum(steps + 1.0, numbers)
        product = numbers["mu_product"] * now
        found = {"of_gradient": numbers["lr"] * (1.0 - now) / (1.0 - product), "of_mean": numbers["lr"] * later / (1.0 - product * later),
                 "variance_scale": 1.0 / np.sqrt(1.0 - numbers["beta2"] ** steps)}
        return found | self.shrinking(numbers)

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        start = param
        param, mean, variance = self.moments(param, grad, state, numbers)
        grad = _gradient(self.maximize, self.weight_decay and not self.decoupled, start, grad, numbers)
        deviation = np.sqrt(variance) * _like(param, numbers["variance_scale"]) + numbers["eps"]
        change = _like(param, numbers["of_gradient"]) * (grad / deviation) + _like(param, numbers["of_mean"]) * (mean / deviation)
        return param - change, {"exp_avg": mean, "exp_avg_sq": variance}


class AsgdRule(Rule):
    """Averaged stochastic gradient descent."""

    scalars = ("eta", "mu")

    def __init__(self, weight_decay: bool, maximize: bool):
        self.weight_decay, self.maximize = weight_decay, maximize
        self.numbers = _chosen(lr=True, lambd=True, alpha=True, t0=True, weight_decay=weight_decay)
        self.state = ("step", "eta", "mu", "ax")

    def advance(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        steps = step.astype(np.float64)
        return {"eta": numbers["lr"] / (1.0 + numbers["lambd"] * numbers["lr"] * steps) ** numbers["alpha"],
                "mu": 1.0 / np.maximum(1.0, steps - numbers["t0"])}

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        return {"shrinking": 1.0 - numbers["lambd"] * numbers["eta"], "rate": numbers["eta"], "share": numbers["mu"]}

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = _gradient(self.maximize, self.weight_decay, param, grad, numbers)
        param = param * _like(param, numbers["shrinking"]) - _like(param, numbers["rate"]) * grad
        return param, {"ax": state["ax"] + (param - state["ax"]) * _like(param, numbers["share"])}


class RpropRule(Rule):
    """Resilient propagation: a step size for each element, by the signs of its gradients."""

    def __init__(self, maximize: bool):
        self.maximize = maximize
        self.numbers = ("etaminus", "etaplus", "smallest", "largest")
        self.state = ("step", "prev", "step_size")

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = -grad if self.maximize else grad
        agrees = grad * state["prev"]
        factor = np.where(agrees > 0, _like(param, numbers["etaplus"]), np.where(agrees < 0, _like(param, numbers["etaminus"]), 1.0))
        size = np.minimum(np.maximum(state["step_size"] * factor.astype(param.dtype), numbers["smallest"]), numbers["largest"])
        grad = np.where(agrees < 0, 0.0, grad).astype(param.dtype)
        return param - np.sign(grad) * size, {"prev": grad, "step_size": size}


class AdafactorRule(Rule):
    """Adafactor: Adam's variance as a product of a column and a row."""

    def __init__(self, factored: bool, weight_decay: bool, has_eps: bool, maximize: bool):
        self.factored, self.weight_decay, self.has_eps, self.maximize = factored, weight_decay, has_eps, maximize
        self.numbers = _chosen(lr=True, beta2_decay=True, eps1=has_eps, eps2=True, d=True, weight_decay=weight_decay)
        self.state = ("step", "row_var", "col_var") if factored else ("step", "variance")

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        steps = step.astype(np.float64)
        found = {"share": steps ** numbers["beta2_decay"], "rate": np.minimum(numbers["lr"], 1.0 / np.sqrt(steps))}
        return found | ({"shrinking": 1.0 - numbers["lr"] * numbers["weight_decay"]} if self.weight_decay else {})

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        grad = -grad if self.maximize else grad
        share = _like(param, numbers["share"])
        eps1 = _like(param, numbers["eps1"]) if self.has_eps else np.asarray(np.finfo(param.dtype).eps, param.dtype)
        rate = np.maximum(_root_mean_square(param), numbers["eps2"]) * _like(param, numbers["rate"])
        if self.weight_decay:
            param = param * _like(param, numbers["shrinking"])
        squares = grad * grad
        if self.factored:
            row = state["row_var"] + share * (np.mean(squares, axis=-1, keepdims=True) - state["row_var"])
            column = state["col_var"] + share * (np.mean(squares, axis=-2, keepdims=True) - state["col_var"])
            new = {"row_var": row, "col_var": column}
            variance = row * column / np.maximum(np.mean(row, axis=-2, keepdims=True), eps1)
        else:
            variance = state["variance"] + share * (squares - state["variance"])
            new = {"variance": variance}
        change = grad / np.sqrt(np.maximum(variance, eps1 * eps1))
        return param - rate / np.maximum(_root_mean_square(change) / numbers["d"], 1.0) * change, new


def _root_mean_square(x: Array) -> Array:
    return np.sqrt(np.mean(x * x))


class MuonRule(Rule):
    """Muon: momentum whose matrices are made nearly orthogonal by a Newton-Schulz iteration."""

    def __init__(self, weight_decay: bool, nesterov: bool, steps: int, coefficients: tuple[float, float, float], eps: float,
                 matches_adamw: bool):
        self.weight_decay, self.nesterov, self.steps = weight_decay, nesterov, steps
        self.coefficients, self.eps, self.matches_adamw = coefficients, eps, matches_adamw
        self.numbers = _chosen(lr=True, momentum=True, weight_decay=weight_decay)
        self.state = ("momentum_buffer",)

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        momentum = numbers["momentum"]
        running = state["momentum_buffer"] + (1.0 - momentum) * (grad - state["momentum_buffer"])
        change = grad + momentum * (running - grad) if self.nesterov else running
        rows, columns = param.shape
        x = change.T if rows > columns else change
        x = x / np.maximum(np.sqrt(np.sum(x * x)), self.eps)
        a, b, c = self.coefficients
        for _ in range(self.steps):
            gram = x @ x.T
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        x = x.T if rows > columns else x
        ratio = 0.2 * max(rows, columns) ** 0.5 if self.matches_adamw else max(1.0, rows / columns) ** 0.5
        if self.weight_decay:
            param = param * _like(param, 1.0 - numbers["lr"] * numbers["weight_decay"])
        return param - _like(param, numbers["lr"] * ratio) * x, {"momentum_buffer": running}


class RAdamRule(_Moments):
    """RAdam: Adam once enough steps were taken to know the variance, momentum before."""

    def __init__(self, decoupled: bool, weight_decay: bool, maximize: bool):
        self.decoupled, self.weight_decay, self.maximize = decoupled, weight_decay, maximize
        self.numbers = _chosen(lr=True, beta1=True, beta2=True, eps=True, weight_decay=weight_decay)
        self.state = ("step", "exp_avg", "exp_avg_sq")

    def scales(self, step: Array, numbers: Arrays) -> dict[str, Array]:
        steps, beta2 = step.astype(np.float64), numbers["beta2"]
        power = beta2 ** steps
        end = 2.0 / (1.0 - beta2) - 1.0
        length = end - 2.0 * steps * power / (1.0 - power)
        square = (length - 4.0) * (length - 2.0) * end / ((end - 4.0) * (end - 2.0) * length)
        known = length > 5.0
        found = {"step_size": numbers["lr"] / (1.0 - numbers["beta1"] ** steps), "plain": np.where(known, 0.0, 1.0),
                 "rectified": np.where(known, np.sqrt(np.maximum(square, 0.0) * (1.0 - power)), 0.0)}
        return found | self.shrinking(numbers)

    def update(self, param: Array, grad: Array, state: Arrays, numbers: Arrays) -> tuple[Array, dict[str, Array]]:
        param, mean, variance = self.moments(param, grad, state, numbers)
        adaptive = _like(param, numbers["plain"]) + _like(param, numbers["rectified"]) / (np.sqrt(variance) + numbers["eps"])
        return param - _like(param, numbers["step_size"]) * mean * adaptive, {"exp_avg": mean, "exp_avg_sq": variance}


# Equal rules are one object, so that they are equal as parts of a key.
sgd_rule = lru_cache(maxsize=None)(SgdRule)
adam_rule = lru_cache(maxsize=None)(AdamRule)
rmsprop_rule = lru_cache(maxsize=None)(RmspropRule)
adagrad_rule = lru_cache(maxsize=None)(AdagradRule)
adadelta_rule = lru_cache(maxsize=None)(AdadeltaRule)
adamax_rule = lru_cache(maxsize=None)(AdamaxRule)
radam_rule = lru_cache(maxsize=None)(RAdamRule)
nadam_rule = lru_cache(maxsize=None)(NAdamRule)
asgd_rule = lru_cache(maxsize=None)(AsgdRule)
rprop_rule = lru_cache(maxsize=None)(RpropRule)
adafactor_rule = lru_cache(maxsize=None)(AdafactorRule)
muon_rule = lru_cache(maxsize=None)(MuonRule)


def _chosen(**names: bool) -> tuple[str, ...]:
    return tuple(name for name, is_used in names.items() if is_used)


def _gradient(maximize: bool, weight_decay: bool, param: Array, grad: Array, numbers: Arrays) -> Array:
    """Return the gradient to descend along, with the gradient of the weight decay."""
    if maximize:
        grad = -grad
    return grad + numbers["weight_decay"] * param if weight_decay else grad


def _like(param: Array, number: Array) -> Array:
    """Convert a number to the dtype of the parameter, so that the parameter keeps it; Python numbers are weak already."""
    return number.astype(param.dtype) if hasattr(number, "astype") else number


# -- PyTorch's checks

def check_sgd(options: Hyperparameters) -> None:
    """Raise `ValueError` for hyperparameters outside of their range; so do the other functions `check_...`."""
    _at_least_zero(options, "lr", "momentum", "weight_decay")
    if options["nesterov"] and (options["momentum"] <= 0 or options["dampening"] != 0):
        raise ArgumentError("Nesterov momentum requires a momentum above 0 and zero dampening: nesterov needs a momentum",
                            find_user_location())


def check_adam(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "eps", "weight_decay")
    for index, beta in enumerate(options["betas"]):
        if not 0.0 <= beta < 1.0:
            raise ArgumentError(f"invalid beta parameter at index {index}: betas lie in [0, 1), got {options['betas']}",
                                find_user_location())


def check_rmsprop(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "eps", "momentum", "weight_decay", "alpha")


def check_adagrad(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "lr_decay", "weight_decay", "initial_accumulator_value", "eps")


def check_adadelta(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "eps", "weight_decay")
    if not 0.0 <= options["rho"] <= 1.0:
        raise ArgumentError(f"invalid rho value: {options['rho']}", find_user_location())


def check_nadam(options: Hyperparameters) -> None:
    check_adam(options)
    _at_least_zero(options, "momentum_decay")


def check_asgd(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "weight_decay")


def check_rprop(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr")
    if not 0.0 < options["etas"][0] < 1.0 < options["etas"][1]:
        raise ArgumentError(f"invalid eta values: {options['etas'][0]}, {options['etas'][1]}", find_user_location())


def check_adafactor(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "weight_decay")
    eps1, eps2 = options["eps"]
    if not (options["beta2_decay"] <= 0.0 and (eps1 is None or eps1 >= 0.0) and eps2 >= 0.0 and options["d"] >= 1.0):
        raise ArgumentError(f"invalid options of Adafactor: beta2_decay <= 0, eps >= 0 and d >= 1, got {options['beta2_decay']}, "
                            f"{options['eps']} and {options['d']}", find_user_location())


def check_muon(options: Hyperparameters) -> None:
    _at_least_zero(options, "lr", "momentum", "weight_decay")
    if options["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
        raise ArgumentError(f"adjust_lr_fn is 'original' or 'match_rms_adamw', got {options['adjust_lr_fn']!r}", find_user_location())


_TITLES = {"lr": "learning rate", "eps": "epsilon value"}


def _at_least_zero(options: Hyperparameters, *names: str) -> None:
    for name in names:
        value = options[name]
        if isinstance(value, (str, bytes)) or not (hasattr(value, "__float__") or hasattr(value, "dtype")):
            raise TypeError(f"the {_TITLES.get(name, name)} is a number, got {value!r}")
        if issubclass(type(value), (int, float)) and not value >= 0.0:
            raise ArgumentError(f"invalid {_TITLES.get(name, name + ' value')}: {value}", find_user_location())
