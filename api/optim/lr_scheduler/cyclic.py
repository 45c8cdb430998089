"""Schedule that goes up and down between two learning rates, again and again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from adjit.ir.errors import ArgumentError
from adjit.optim.lr_scheduler.base import LRScheduler, checked_optimizer, each_group, set_rate
from adjit.optim.optimizer import Group, Optimizer
from adjit.tracer.user_location import find_user_location


class CyclicLR(LRScheduler):
    """Cycles from `base_lr` up to `max_lr` in `step_size_up` steps, and down in `step_size_down`; called after every batch.

    The height of cycle number n (from 1) is multiplied by 1 ("triangular"), `0.5**(n - 1)` ("triangular2"), `gamma**step` ("exp_range"), or
    `scale_fn(n)` (of the step with `scale_mode="iterations"`). Momentum, or `beta1`, goes the other way unless `cycle_momentum` is off.
    Source: Smith, Cyclical learning rates for training neural networks, arXiv:1506.01186.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = CyclicLR(optimizer, base_lr=0.0, max_lr=1.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """

    def __init__(self, optimizer: Optimizer, base_lr: float | Sequence[float], max_lr: float | Sequence[float], step_size_up: int = 2000,
                 step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0,
                 scale_fn: Callable[[float], float] | None = None, scale_mode: str = "cycle", cycle_momentum: bool = True,
                 base_momentum: float | Sequence[float] = 0.8, max_momentum: float | Sequence[float] = 0.9, last_epoch: int = -1):
        groups = checked_optimizer(optimizer).param_groups
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ArgumentError(f"mode is 'triangular', 'triangular2' or 'exp_range', got {mode!r}", find_user_location())
        lows = each_group(optimizer, "base_lr", base_lr)
        if last_epoch == -1:
            for group, low in zip(groups, lows, strict=True):
                group["initial_lr"] = low
                set_rate(group, low)
        self.max_lrs = each_group(optimizer, "max_lr", max_lr)
        down = float(step_size_up if step_size_down is None else step_size_down)
        self.total_size = float(step_size_up) + down
        self.step_ratio = float(step_size_up) / self.total_size
        self.mode, self.gamma, self._scale_fn = mode, gamma, scale_fn
        self.scale_mode = scale_mode if scale_fn is not None else "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum, self.use_beta1 = cycle_momentum, "betas" in optimizer.defaults
        if cycle_momentum:
            if not self.use_beta1 and "momentum" not in optimizer.defaults:
                raise ArgumentError("the optimiser has neither momentum nor betas: pass cycle_momentum=False", find_user_location())
            self.base_momentums = each_group(optimizer, "base_momentum", base_momentum)
            self.max_momentums = each_group(optimizer, "max_momentum", max_momentum)
            for group, high in zip(groups, self.max_momentums, strict=True):
                self._set_momentum(group, high)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def _set_momentum(self, group: Group, momentum: float) -> None:
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum

    def _scale(self, x: float) -> float:
        if self._scale_fn is not None:
            return self._scale_fn(x)
        return {"triangular": 1.0, "triangular2": 0.5 ** (x - 1) if self.mode == "triangular2" else 1.0,
                "exp_range": self.gamma ** x if self.mode == "exp_range" else 1.0}[self.mode]

    def get_lr(self) -> list[Any]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        scale = self._scale(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [base + (top - base) * height * scale for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule, without the optimiser and the function; pass that again to a new schedule."""
        return {key: value for key, value in super().state_dict().items() if key != "_scale_fn"}
