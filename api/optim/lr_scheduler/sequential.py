"""Schedules in sequence."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import Any

from adjit.eager.after_calls import left_to_calls
from adjit.ir.errors import ArgumentError
from adjit.optim.lr_scheduler.base import LRScheduler, checked_optimizer
from adjit.optim.optimizer import Optimizer
from adjit.tracer.user_location import find_user_location


class _Schedules(LRScheduler):
    """Base of schedules that are made of others."""

    _schedulers: list[LRScheduler]

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule and its inner schedules, without the optimiser."""
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        for scheduler, known in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(known)
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_schedulers"})


class SequentialLR(_Schedules):
    """Several schedules in sequence: number i + 1 begins at the epoch `milestones[i]`, from the initial learning rates.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0])], lr=1.0)
    >>> parts = [aj.optim.lr_scheduler.ConstantLR(optimizer, 0.5, 10), aj.optim.lr_scheduler.ExponentialLR(optimizer, 0.25)]
    >>> scheduler = SequentialLR(optimizer, parts, milestones=[1])
    >>> rates = [scheduler.get_last_lr()[0]]
    >>> for _ in range(2):
    ...     scheduler.step()
    ...     rates.append(scheduler.get_last_lr()[0])
    >>> rates
    [0.5, 1.0, 0.25]
    """

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]):
        self.optimizer = checked_optimizer(optimizer)
        if len(schedulers) != len(milestones) + 1:
            raise ArgumentError(f"{len(schedulers)} schedules need {len(schedulers) - 1} milestones, got {len(milestones)}",
                                find_user_location())
        for index, scheduler in enumerate(schedulers):
            if not isinstance(scheduler, LRScheduler):
                raise ArgumentError(f"schedule {index} is a {type(scheduler).__name__}, whose step takes arguments", find_user_location())
            if scheduler.optimizer is not optimizer:
                raise ArgumentError(f"schedule {index} belongs to another optimiser", find_user_location())
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        self._restart()

    def _restart(self) -> None:
        self.last_epoch = 0
        current = self._schedulers[bisect_right(self._milestones, 0)]
        current._restart()
        self._last_lr = current.get_last_lr()

    @left_to_calls
    def step(self) -> None:
        self.last_epoch += 1
        index = bisect_right(self._milestones, self.last_epoch)
        current = self._schedulers[index]
        if index > 0 and self._milestones[index - 1] == self.last_epoch:
            current._restart()
        else:
            current.step()
        self._last_lr = current.get_last_lr()

    def get_lr(self) -> list[Any]:
        return self._schedulers[bisect_right(self._milestones, self.last_epoch)].get_lr()


class ChainedScheduler(_Schedules):
    """Several schedules at once: each of them steps, one after the other.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> parts = [aj.optim.lr_scheduler.ConstantLR(optimizer, 0.5, 2), aj.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]
    >>> scheduler = ChainedScheduler(parts)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None):
        if not schedulers:
            raise ArgumentError("ChainedScheduler takes at least one schedule", find_user_location())
        self.optimizer = checked_optimizer(schedulers[0].optimizer if optimizer is None else optimizer)
        for index, scheduler in enumerate(schedulers):
            if scheduler.optimizer is not self.optimizer:
                raise ArgumentError(f"schedule {index} belongs to another optimiser", find_user_location())
        self._schedulers = list(schedulers)
        self._last_lr = self._schedulers[-1].get_last_lr()

    @left_to_calls
    def step(self) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._schedulers[-1].get_last_lr()
