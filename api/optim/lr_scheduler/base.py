"""Base class of the schedules, and their common functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from adjit.eager.after_calls import left_to_calls
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError
from adjit.optim.optimizer import Group, Optimizer
from adjit.tracer.array_wrapper import IdentityKeyed
from adjit.tracer.user_location import find_user_location


class Schedule(IdentityKeyed):
    """Base of all schedules. Compiled functions take them by reference; a step within one is made at the end of each call."""

    __adjit_reads__: ClassVar = {"get_last_lr": "_last_lr", "get_lr": "", "state_dict": ""}
    _last_lr: list[Any]

    def get_last_lr(self) -> list[Any]:
        """Return the learning rates that the last step set."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the schedule, without the optimiser."""
        return {key: value for key, value in vars(self).items() if key != "optimizer"}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state that `state_dict` returned."""
        vars(self).update(state_dict)


class LRScheduler(Schedule):
    """Base of the schedules: `last_epoch` counts the steps; `base_lrs` are the initial learning rates, each group's `initial_lr`.

    A user-defined schedule defines `get_lr()`, the new learning rate of each group.

    >>> import adjit as aj
    >>> class Halved(LRScheduler):
    ...     def get_lr(self):
    ...         return [rate * 0.5 ** self.last_epoch for rate in self.base_lrs]
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = Halved(optimizer)
    >>> optimizer.step()
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        self.optimizer = checked_optimizer(optimizer)
        for index, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", copied_rate(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(f"group {index} has no initial_lr, from which a schedule goes on: load the state of the optimiser first")
        self.base_lrs = [copied_rate(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """Return the learning rate of each group for `last_epoch`."""
        return [self._next(group, base) for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True)]

    def _next(self, group: Group, base: Any) -> Any:
        raise NotImplementedError

    @left_to_calls
    def step(self) -> None:
        """Advance by one: set the learning rates of the next epoch."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def _set(self, rates: Sequence[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = current_rates(self.optimizer)

    def _restart(self) -> None:
        """Restart at epoch 0, from the initial learning rates."""
        for group, base in zip(self.optimizer.param_groups, self.base_lrs, strict=True):
            set_rate(group, base)
        self.last_epoch = -1
        self._is_initial = True
        self.step()
        self._is_initial = False


def checked_optimizer(optimizer: Any) -> Optimizer:
    """Return the optimiser; raises `TypeError` for anything else."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"a schedule belongs to an adjit.optim.Optimizer, got a {type(optimizer).__name__}")
    return optimizer


def copied_rate(rate: Any) -> Any:
    """Return a copy of a learning rate; a tensor's copy does not follow the group's tensor."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def current_rates(optimizer: Optimizer) -> list[Any]:
    """Return the learning rate of each group."""
    return [copied_rate(group["lr"]) for group in optimizer.param_groups]


def set_rate(group: Group, rate: Any) -> None:
    """Set a group's learning rate; a tensor is written to."""
    if not isinstance(group["lr"], Tensor):
        group["lr"] = rate
    elif rate is not group["lr"]:
        with no_grad():
            group["lr"].copy_(rate)


def each_group(optimizer: Optimizer, name: str, value: float | Sequence[float]) -> list[float]:
    """Return a value for each group, from one for all or from a list."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count      # type: ignore[list-item]
    if len(value) != count:
        raise ArgumentError(f"{name} has {len(value)} values for {count} parameter groups", find_user_location())
    return list(value)
