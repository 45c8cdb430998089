"""Averages of models: `AveragedModel`, the schedule `SWALR`, and `update_bn`.

>>> import adjit as aj
>>> model = aj.nn.Linear(1, 1)
>>> average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
>>> average.update_parameters(model)
>>> int(average.n_averaged)
1
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from adjit.eager.foreach_update import update_in_place
from adjit.eager.modes import no_grad
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.errors import ArgumentError
from adjit.ir.types import is_float
from adjit.nn.module import Module
from adjit.nn.normalization import _BatchNorm
from adjit.optim.lr_scheduler.base import LRScheduler, checked_optimizer, each_group
from adjit.optim.optimizer import Optimizer
from adjit.tracer.user_location import find_user_location

__all__ = ["SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn", "update_bn"]

AverageOne = Callable[[Tensor, Tensor, Any], Tensor]
AverageAll = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _checked_decay(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ArgumentError(f"decay lies between 0 and 1, got {decay}", find_user_location())
    return decay


def get_ema_avg_fn(decay: float = 0.999) -> AverageOne:
    """Function for `AveragedModel(avg_fn=)`: the exponential moving average, `decay * average + (1 - decay) * new`.

    >>> float(get_ema_avg_fn(0.5)(tensor(1.0), tensor(3.0), 0))
    2.0
    """
    _checked_decay(decay)
    return lambda average, new, number: decay * average + (1 - decay) * new


def get_swa_avg_fn() -> AverageOne:
    """Function for `AveragedModel(avg_fn=)`: the mean of all.

    >>> float(get_swa_avg_fn()(tensor(1.0), tensor(3.0), 1))
    2.0
    """
    return lambda average, new, number: average + (new - average) / (number + 1)


def _moved(targets: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    *news, share = operands        # the share is a float64 scalar
    return [target + (new.astype(target.dtype) - target) * share.astype(target.dtype) if is_float(target.dtype)
            else new.astype(target.dtype) for target, new in zip(targets, news, strict=True)]


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageAll:
    """Function for `AveragedModel(multi_avg_fn=)`: exponential moving averages of all tensors, in one operation.

    >>> average = tensor([1.0])
    >>> get_ema_multi_avg_fn(0.5)([average], [tensor([3.0])], 0)
    >>> average
    tensor([2.])
    """
    _checked_decay(decay)

    def update(averages: Sequence[Tensor], news: Sequence[Tensor], number: Any) -> None:
        update_in_place(_moved, averages, [*news, tensor(np.float64(1.0 - decay))])

    return update


def get_swa_multi_avg_fn() -> AverageAll:
    """Function for `AveragedModel(multi_avg_fn=)`: means of all tensors, in one operation.

    >>> average = tensor([1.0])
    >>> get_swa_multi_avg_fn()([average], [tensor([3.0])], tensor(1))
    >>> average
    tensor([2.])
    """
    def update(averages: Sequence[Tensor], news: Sequence[Tensor], number: Any) -> None:
        count = number if isinstance(number, Tensor) else tensor(number)
        update_in_place(_moved, averages, [*news, 1.0 / (count.double() + 1.0)])

    return update


class AveragedModel(Module):
    """Copy of a model whose parameters are averages of the model's at each `update_parameters(model)`: of all of them, or by
    `avg_fn(average, new, number)` or `multi_avg_fn(averages, news, number)`.

    `module` is the copy, `n_averaged` the number of updates. Buffers are copied at each update, and with `use_buffers` averaged, too.
    Source: Izmailov et al., Averaging weights leads to wider optima and better generalization, arXiv:1803.05407.

    >>> import adjit as aj
    >>> model = aj.nn.Linear(1, 1)
    >>> average = AveragedModel(model)
    >>> average.update_parameters(model)
    >>> bool((average.module.weight == model.weight).all())
    True
    """

    def __init__(self, model: Module, device: Any = None, avg_fn: AverageOne | None = None, multi_avg_fn: AverageAll | None = None,
                 use_buffers: bool = False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("either avg_fn or multi_avg_fn is given", find_user_location())
        self.module = copy.deepcopy(model) if device is None else copy.deepcopy(model).to(device)
        self.register_buffer("n_averaged", tensor(0))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Call the averaged model."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Include the parameters of a model in the averages; the first update copies them."""
        own: list[Tensor] = [*self.module.parameters()]
        others: list[Tensor] = [*model.parameters()]
        buffers = list(zip(self.module.buffers(), model.buffers(), strict=True))
        if self.use_buffers:
            own, others = [*own, *(a for a, _ in buffers)], [*others, *(b for _, b in buffers)]
        with no_grad():
            if bool(self.n_averaged == 0):
                for average, new in zip(own, others, strict=True):
                    average.copy_(new)
            elif self.avg_fn is not None:
                for average, new in zip(own, others, strict=True):
                    average.copy_(self.avg_fn(average.detach(), new.detach(), self.n_averaged))
            else:
                update = get_swa_multi_avg_fn() if self.multi_avg_fn is None else self.multi_avg_fn
                update(own, [other.detach() for other in others], self.n_averaged)
            if not self.use_buffers:
                for average, new in buffers:
                    average.copy_(new)
            self.n_averaged += 1


class SWALR(LRScheduler):
    """Schedule that anneals the learning rate to `swa_lr` in `anneal_epochs` epochs, along a cosine or a line, and keeps it.

    >>> import adjit as aj
    >>> optimizer = aj.optim.SGD([aj.tensor([1.0], requires_grad=True)], lr=1.0)
    >>> scheduler = SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> rates = []
    >>> for _ in range(4):
    ...     rates += scheduler.get_last_lr()
    ...     optimizer.step()
    ...     scheduler.step()
    >>> rates
    [1.0, 0.75, 0.5, 0.5]
    """

    def __init__(self, optimizer: Optimizer, swa_lr: float | Sequence[float], anneal_epochs: int = 10, anneal_strategy: str = "cos",
                 last_epoch: int = -1):
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f"anneal_strategy is 'cos' or 'linear', got {anneal_strategy!r}", find_user_location())
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"anneal_epochs is an integer of at least 0, got {anneal_epochs}", find_user_location())
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        for group, rate in zip(checked_optimizer(optimizer).param_groups, each_group(optimizer, "swa_lr", swa_lr), strict=True):
            group["swa_lr"] = rate
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        done = max(0.0, min(1.0, epoch / max(1, self.anneal_epochs)))
        return done if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2

    def get_lr(self) -> list[Any]:
        # PyTorch's rule: the rate before is undone, so that changes of it by others are kept
        epoch = self.last_epoch - 1 if self.anneal_epochs == 0 and self.last_epoch > 0 else self.last_epoch
        before, now = self._share(max(0, epoch - 1)), self._share(max(0, epoch))
        groups = self.optimizer.param_groups
        starts = [group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before) for group in groups]
        return [group["swa_lr"] * now + start * (1 - now) for group, start in zip(groups, starts, strict=True)]


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of all batch normalisations anew, by one pass over the batches of a loader: means over all batches.

    A batch that is a list or a tuple begins with the input. Inputs are moved to `device`, if it is given.

    >>> import adjit as aj
    >>> model = aj.nn.Sequential(aj.nn.BatchNorm1d(1))
    >>> update_bn([aj.tensor([[1.0], [3.0]])], model)
    >>> model[0].running_mean
    tensor([2.])
    """
    momenta: dict[_BatchNorm, Any] = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    with no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else as_tensor(x, device=device))
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)
