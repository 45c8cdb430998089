"""Schedules along cosines: annealing, with restarts, and one cycle up and down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjit.eager.after_calls import left_to_calls
from adjit.ir.errors import ArgumentError
from adjit.optim.lr_scheduler.base import LRScheduler, checked_optimizer, each_group
from adjit.optim.optimizer import Group, Optimizer
from adjit.tracer.user_location import find_user_location


class CosineAnnealingLR(LRScheduler):
    """Cosine annealing from the initial learning rate to `eta_min` in `T_max` epochs, and back.

    `eta_min + (lr_0 - eta_min) * (1 + cos(pi * t / T_max)) / 2`, computed step by step.
    Source: Loshchilov and Hutter, SGDR: stochastic gradient descent with warm restarts, arXiv:1608.03983.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = CosineAnnealingLR(optimizer, T_max=4)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.8536, 0.5, 0.1464, 0.0]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        if T_max <= 0:
            raise ArgumentError(f"T_max is positive, got {T_max}", find_user_location())
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        if self._is_initial:
            return group["lr"]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:      # the step before ended at eta_min: the quotient is 0 / 0
            return group["lr"] + (base - self.eta_min) * (1 - math.cos(math.pi / self.T_max)) / 2
        now, before = (1 + math.cos(math.pi * epoch / self.T_max) for epoch in (self.last_epoch, self.last_epoch - 1))
        return now / before * (group["lr"] - self.eta_min) + self.eta_min


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing from the initial learning rate to `eta_min` in `T_0` epochs, with restarts, each `T_mult` times as long.

    `step(epoch)` goes to an epoch, which may be a fraction. Source: as in `CosineAnnealingLR`.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 1.0, 0.5, 1.0]
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1):
        if not isinstance(T_0, int) or T_0 <= 0:
            raise ArgumentError(f"T_0 is a positive integer, got {T_0}", find_user_location())
        if not isinstance(T_mult, int) or T_mult < 1:
            raise ArgumentError(f"T_mult is an integer of at least 1, got {T_mult}", find_user_location())
        self.T_0, self.T_i, self.T_mult, self.eta_min = T_0, T_0, T_mult, eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2

    @left_to_calls
    def step(self, epoch: float | None = None) -> None:
        """Advance by one epoch, or to `epoch`."""
        if epoch is None and self.last_epoch >= 0:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        else:
            epoch = 0 if epoch is None else epoch
            if epoch < 0:
                raise ArgumentError(f"an epoch is at least 0, got {epoch}", find_user_location())
            restarts = 0
            if self.T_mult == 1:
                self.T_cur = epoch % self.T_0
            else:
                if epoch >= self.T_0:
                    restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
                self.T_cur = epoch - self.T_0 * (self.T_mult ** restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult ** restarts
        self.last_epoch = math.floor(epoch)
        self._set(self.get_lr())


class OneCycleLR(LRScheduler):
    """One cycle: up from `max_lr / div_factor` to `max_lr` in `pct_start` of `total_steps`, then down to the start over `final_div_factor`.

    Called after every batch. With `three_phase` down to the start first. Momentum (or `beta1`) goes the other way, between `max_momentum`
    and `base_momentum`, unless `cycle_momentum` is off.
    Source: Smith and Topin, Super-convergence: very fast training of neural networks using large learning rates, arXiv:1708.07120.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = OneCycleLR(optimizer, max_lr=1.0, total_steps=4)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [0.04, 0.8117, 0.2831, 0.0]
    """

    def __init__(self, optimizer: Optimizer, max_lr: float | Sequence[float], total_steps: int | None = None, epochs: int | None = None,
                 steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos", cycle_momentum: bool = True,
                 base_momentum: float | Sequence[float] = 0.85, max_momentum: float | Sequence[float] = 0.95, div_factor: float = 25.0,
                 final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1):
        groups = checked_optimizer(optimizer).param_groups
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ArgumentError("OneCycleLR needs total_steps, or epochs and steps_per_epoch", find_user_location())
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps <= 0:
            raise ArgumentError(f"the number of steps is a positive integer, got {total_steps}", find_user_location())
        if not 0 <= pct_start <= 1:
            raise ArgumentError(f"pct_start lies between 0 and 1, got {pct_start}", find_user_location())
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy is 'cos' or 'linear', got {anneal_strategy!r}", find_user_location())
        self.total_steps, self.anneal_strategy, self.cycle_momentum = total_steps, anneal_strategy, cycle_momentum
        self.use_beta1 = "betas" in optimizer.defaults
        if cycle_momentum and not self.use_beta1 and "momentum" not in optimizer.defaults:
            raise ArgumentError("the optimiser has neither momentum nor betas: pass cycle_momentum=False", find_user_location())
        peak, last = float(pct_start * total_steps) - 1, total_steps - 1
        # (last step, learning rate from, to, momentum from, to)
        self._phases = [(peak, "initial_lr", "max_lr", "max_momentum", "base_momentum")]
        if three_phase:
            self._phases += [(float(2 * pct_start * total_steps) - 2, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                             (last, "initial_lr", "min_lr", "max_momentum", "max_momentum")]
        else:
            self._phases += [(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        if last_epoch == -1:
            rates, lows, highs = (each_group(optimizer, name, value) for name, value in
                                  (("max_lr", max_lr), ("base_momentum", base_momentum), ("max_momentum", max_momentum)))
            for group, rate, low, high in zip(groups, rates, lows, highs, strict=True):
                group["initial_lr"], group["max_lr"] = rate / div_factor, rate
                group["min_lr"] = group["initial_lr"] / final_div_factor
                if cycle_momentum:
                    group["max_momentum"], group["base_momentum"] = high, low
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        if self.last_epoch > self.total_steps:
            raise ArgumentError(f"step {self.last_epoch} of a schedule of {self.total_steps} steps", find_user_location())
        index = next((i for i, phase in enumerate(self._phases) if self.last_epoch <= phase[0]), len(self._phases) - 1)
        start = self._phases[index - 1][0] if index else 0.0
        end, rate_from, rate_to, momentum_from, momentum_to = self._phases[index]
        done = (self.last_epoch - start) / (end - start)
        if self.cycle_momentum:
            momentum = self._between(group[momentum_from], group[momentum_to], done)
            if self.use_beta1:
                group["betas"] = (momentum, *group["betas"][1:])
            else:
                group["momentum"] = momentum
        return self._between(group[rate_from], group[rate_to], done)

    def _between(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
