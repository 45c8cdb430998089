"""Schedule that follows a metric: the learning rate decreases if the metric stays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from adjit.eager.after_calls import left_to_calls
from adjit.ir.errors import ArgumentError
from adjit.optim.lr_scheduler.base import Schedule, checked_optimizer, current_rates, each_group, set_rate
from adjit.optim.optimizer import Optimizer
from adjit.tracer.user_location import find_user_location


class ReduceLROnPlateau(Schedule):
    """Schedule that multiplies the rate by `factor` after more than `patience` epochs in which `metric` was no better than the best.

    Better is smaller (`mode="min"`) or larger by `threshold`, a fraction of the best (`threshold_mode="rel"`) or a difference ("abs").
    After a reduction nothing is counted for `cooldown` epochs; rates stay above `min_lr`, and changes below `eps` are left out.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0])], lr=0.5)
    >>> scheduler = ReduceLROnPlateau(optimizer, factor=0.5, patience=1)
    >>> for loss in (3.0, 2.0, 2.0, 2.0):
    ...     scheduler.step(loss)
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10, threshold: float = 1e-4,
                 threshold_mode: str = "rel", cooldown: int = 0, min_lr: float | Sequence[float] = 0.0, eps: float = 1e-8):
        if factor >= 1.0:
            raise ArgumentError(f"factor is below 1, got {factor}", find_user_location())
        if mode not in ("min", "max"):
            raise ArgumentError(f"mode is 'min' or 'max', got {mode!r}", find_user_location())
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(f"threshold_mode is 'rel' or 'abs', got {threshold_mode!r}", find_user_location())
        self.optimizer = checked_optimizer(optimizer)
        self.mode, self.factor, self.patience, self.threshold, self.threshold_mode = mode, factor, patience, threshold, threshold_mode
        self.cooldown, self.eps, self.min_lrs = cooldown, eps, each_group(optimizer, "min_lr", min_lr)
        self.best = math.inf if mode == "min" else -math.inf
        self.cooldown_counter = self.num_bad_epochs = self.last_epoch = 0
        self._last_lr = current_rates(optimizer)

    @left_to_calls
    def step(self, metrics: Any) -> None:
        """Read the newest value of the metric: a number, or a tensor of one element."""
        current = float(metrics)
        self.last_epoch += 1
        if self._is_better(current):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, lowest in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                old = float(group["lr"])
                new = max(old * self.factor, lowest)
                if old - new > self.eps:
                    set_rate(group, new)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = current_rates(self.optimizer)

    def _is_better(self, current: float) -> bool:
        sign = -1.0 if self.mode == "min" else 1.0
        wanted = self.best * (1.0 + sign * self.threshold) if self.threshold_mode == "rel" else self.best + sign * self.threshold
        return current < wanted if self.mode == "min" else current > wanted
