"""Schedules that are the initial learning rate times a factor: steps, exponentials, lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from adjit.ir.errors import ArgumentError
from adjit.optim.lr_scheduler.base import LRScheduler, checked_optimizer
from adjit.optim.optimizer import Group, Optimizer
from adjit.tracer.user_location import find_user_location


class LambdaLR(LRScheduler):
    """The initial learning rate times `lr_lambda(epoch)`: one function for all groups, or a list with one for each.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0])], lr=0.5)
    >>> scheduler = LambdaLR(optimizer, lambda epoch: 1 / (1 + epoch))
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, optimizer: Optimizer, lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]], last_epoch: int = -1):
        count = len(checked_optimizer(optimizer).param_groups)
        self.lr_lambdas = [lr_lambda] * count if callable(lr_lambda) else list(lr_lambda)
        if len(self.lr_lambdas) != count:
            raise ArgumentError(f"lr_lambda has {len(self.lr_lambdas)} functions for {count} parameter groups", find_user_location())
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        return [base * function(self.last_epoch) for function, base in zip(self.lr_lambdas, self.base_lrs, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule, without the optimiser and the functions; pass the functions again to a new schedule."""
        return {key: value for key, value in super().state_dict().items() if key != "lr_lambdas"}


class MultiplicativeLR(LambdaLR):
    """Schedule that multiplies the rate by `lr_lambda(epoch)` every epoch: one function for all groups, or a list with one for each.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.25]
    """

    def get_lr(self) -> list[Any]:
        groups = self.optimizer.param_groups
        if self._is_initial:
            return [group["lr"] for group in groups]
        return [group["lr"] * function(self.last_epoch) for function, group in zip(self.lr_lambdas, groups, strict=True)]


class PolynomialLR(LRScheduler):
    """The initial learning rate times `(1 - epoch / total_iters)**power`, down to 0.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = PolynomialLR(optimizer, total_iters=4, power=1.0)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.75, 0.5, 0.25, 0.0]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        if total_iters <= 0:
            raise ArgumentError(f"total_iters is positive, got {total_iters}", find_user_location())
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        if self._is_initial or self.last_epoch > self.total_iters:
            return group["lr"]
        left = self.total_iters - self.last_epoch
        return group["lr"] * (left / (left + 1)) ** self.power


class StepLR(LRScheduler):
    """Schedule that multiplies the rate by `gamma` every `step_size` epochs.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = StepLR(optimizer, step_size=2, gamma=0.5)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        return group["lr"] if self.last_epoch == 0 or self.last_epoch % self.step_size else group["lr"] * self.gamma


class MultiStepLR(LRScheduler):
    """Schedule that multiplies the rate by `gamma` at each of the epochs `milestones`.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = MultiStepLR(optimizer, milestones=[1, 3], gamma=0.5)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1):
        self.milestones = Counter(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        times = self.milestones.get(self.last_epoch, 0)      # a plain dict after saving and loading
        return group["lr"] * self.gamma ** times if times else group["lr"]


class ExponentialLR(LRScheduler):
    """Schedule that multiplies the rate by `gamma` every epoch.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = ExponentialLR(optimizer, gamma=0.5)
    >>> rates = []
    >>> for _ in range(3):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [1.0, 0.5, 0.25]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        return group["lr"] if self._is_initial else group["lr"] * self.gamma


class ConstantLR(LRScheduler):
    """Schedule that multiplies the rate by `factor` for the first `total_iters` epochs.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [0.5, 0.5, 1.0, 1.0]
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1):
        if not 0 <= factor <= 1:
            raise ArgumentError(f"factor lies between 0 and 1, got {factor}", find_user_location())
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        if self.last_epoch == 0:
            return group["lr"] * self.factor
        return group["lr"] * (1.0 / self.factor) if self.last_epoch == self.total_iters else group["lr"]


class LinearLR(LRScheduler):
    """Schedule that multiplies the rate by a factor that goes from `start_factor` to `end_factor` in `total_iters` epochs.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> [round(rate, 4) for rate in rates]
    [0.5, 0.75, 1.0, 1.0]
    """

    def __init__(self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0, total_iters: int = 5,
                 last_epoch: int = -1):
        if not 0 < start_factor <= 1:
            raise ArgumentError(f"start_factor lies above 0 and is at most 1, got {start_factor}", find_user_location())
        if not 0 <= end_factor <= 1:
            raise ArgumentError(f"end_factor lies between 0 and 1, got {end_factor}", find_user_location())
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _next(self, group: Group, base: Any) -> Any:
        if self.last_epoch == 0:
            return group["lr"] * self.start_factor
        if self._is_initial or self.last_epoch > self.total_iters:
            return group["lr"]
        change = self.end_factor - self.start_factor
        return group["lr"] * (1.0 + change / (self.total_iters * self.start_factor + (self.last_epoch - 1) * change))
