"""Schedules of learning rates that step within compiled functions: each call steps them, when its program is done."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit import nn, optim
from adjit.ir.errors import ExportError, TraceError
from adjit.optim import lr_scheduler, swa_utils

X = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
RATES = [0.1, 0.2, 0.05, 0.3, 0.1, 0.02, 0.4]


class Listed(lr_scheduler.LRScheduler):
    """A schedule of the user's: Python that nobody could trace."""

    def get_lr(self) -> list[float]:
        return [RATES[self.last_epoch]] * len(self.base_lrs)


class Steps:
    """A model, its optimiser and a schedule, and one training step that ends in `last`."""

    def __init__(self, make: Callable[[Any], Any], last: Callable[[Steps, Any], Any], around: Callable[..., Any] = lambda step: step):
        aj.manual_seed(0)
        self.model = nn.Linear(3, 1)
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.schedule = make(self.optimizer)
        self.seen: list[Any] = []

        def step(x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            self.optimizer.step()
            last(self, loss)
            return loss

        self.step = around(step)

    def numbers(self, calls: int) -> list[Any]:
        """Losses, rates and states of the schedule of some calls."""
        found: list[Any] = []
        for _ in range(calls):
            found += [self.step(aj.tensor(X)).item(), *self.schedule.get_last_lr()]
            found += [group[name] for group in self.optimizer.param_groups for name in ("lr", "momentum")]
        return found


def advance(steps: Steps, loss: Any) -> None:
    steps.schedule.step()


def interpreted(step: Any) -> Any:
    return aj.compile(step, backend="interpret")


SCHEDULES: dict[str, Callable[[Any], Any]] = {
    "StepLR": lambda optimizer: lr_scheduler.StepLR(optimizer, 2),
    "LambdaLR": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda epoch: RATES[epoch]),
    "CosineAnnealingWarmRestarts": lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 3),
    "OneCycleLR": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, 10),        # sets momentum, too
    "SequentialLR": lambda optimizer: lr_scheduler.SequentialLR(
        optimizer, [lr_scheduler.LinearLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.5)], [3]),
    "ChainedScheduler": lambda optimizer: lr_scheduler.ChainedScheduler(
        [lr_scheduler.LinearLR(optimizer), lr_scheduler.ExponentialLR(optimizer, 0.5)]),
    "SWALR": lambda optimizer: swa_utils.SWALR(optimizer, 0.01, 3),
    "Listed": Listed,
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_schedules_step_as_eagerly(name: str) -> None:
    compiled = Steps(SCHEDULES[name], advance, interpreted)
    np.testing.assert_allclose(compiled.numbers(6), Steps(SCHEDULES[name], advance).numbers(6), 1e-6)
    assert compiled.step.cache_info().traces == 1


def test_a_metric_of_the_call() -> None:
    def follow(steps: Steps, loss: Any) -> None:
        steps.schedule.step(loss)

    found = [Steps(lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0), follow, around)
             for around in (lambda step: step, interpreted)]
    eager, compiled = (each.numbers(8) for each in found)
    np.testing.assert_allclose(compiled, eager, 1e-6)
    assert len(set(compiled[2::4])) > 2
    assert found[1].step.cache_info().traces == 1


def test_a_schedule_as_an_argument_steps_twice() -> None:
    def run(around: Callable[..., Any]) -> Any:
        aj.manual_seed(0)
        model = nn.Linear(3, 1)
        optimizer = optim.AdamW(model.parameters(), lr=0.1)
        schedule = lr_scheduler.CosineAnnealingLR(optimizer, 10)

        @around
        def step(model: Any, optimizer: Any, schedule: Any, x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            if loss > 0.2:
                schedule.step()
            return loss

        return [step(model, optimizer, schedule, aj.tensor(X)).item() for _ in range(5)], schedule.last_epoch, weakref.ref(schedule), step

    eager, compiled = run(lambda step: step), run(aj.compile)
    np.testing.assert_allclose(compiled[0], eager[0], 1e-5)
    assert compiled[1] == eager[1] > 5
    assert compiled[2]() is None        # the program does not keep it


def test_an_optimiser_that_the_function_makes() -> None:
    def fit(x: Any) -> Any:
        model = nn.Linear(3, 1)
        optimizer = optim.SGD(model.parameters(), lr=0.1)
        schedule = lr_scheduler.ExponentialLR(optimizer, 0.5)
        for _ in range(3):
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            schedule.step()
        return loss.detach() * schedule.get_last_lr()[0]

    found = []
    for function in (fit, aj.compile(fit)):
        aj.manual_seed(0)
        found.append(function(aj.tensor(X)).item())
    np.testing.assert_allclose(*found, 1e-5)


def _rate(steps: Steps) -> Any:
    return steps.optimizer.param_groups[0]["lr"]


def _set_rate(steps: Steps) -> None:
    steps.optimizer.param_groups[0]["lr"] = 0.5


BEHIND: dict[str, Callable[[Steps], Any]] = {
    "uses get_last_lr()": lambda steps: steps.seen.append(steps.schedule.get_last_lr()[0]),
    "uses lr": lambda steps: steps.seen.append(_rate(steps)),
    "uses lr behind StepLR.step()": lambda steps: setattr(steps, "shown", f"{_rate(steps):.3f}"),
    "uses last_epoch": lambda steps: steps.schedule.last_epoch > 3,
    "uses momentum": lambda steps: steps.optimizer.step(),
    "sets 'lr'": _set_rate,
    "makes a StepLR": lambda steps: lr_scheduler.StepLR(steps.optimizer, 2),
    "called in a loop": lambda steps: aj.fori_loop(0, 3, lambda _, carry: (steps.schedule.step(), carry)[1], 0.0),
}


@pytest.mark.parametrize("message", BEHIND)
def test_what_a_step_leaves_unknown_is_refused(message: str) -> None:
    def last(steps: Steps, loss: Any) -> None:
        steps.schedule.step()
        BEHIND[message](steps)

    steps = Steps(SCHEDULES["StepLR"], last, interpreted)
    before = [dict(vars(steps.schedule)), dict(steps.optimizer.param_groups[0])]
    for _ in range(2):
        with pytest.raises(TraceError, match="(?s)" + message.replace("(", r"\(").replace(")", r"\)")):
            steps.step(aj.tensor(X))
        assert [vars(steps.schedule), steps.optimizer.param_groups[0]] == before
        assert not steps.seen


def test_a_returned_rate_and_tensors_as_rates_are_refused() -> None:
    steps = Steps(SCHEDULES["StepLR"], advance)

    @interpreted
    def returning(x: Any) -> Any:
        return steps.step(x), _rate(steps)

    with pytest.raises(TraceError, match="uses lr behind"):
        returning(aj.tensor(X))
    steps.optimizer.param_groups[0]["lr"] = aj.tensor(0.1)
    with pytest.raises(TraceError, match="learning rate that is a tensor"):
        interpreted(steps.step)(aj.tensor(X))


def test_calls_that_fail_step_nothing() -> None:
    def fail(steps: Steps, loss: Any) -> None:
        steps.schedule.step()
        raise RuntimeError("the user's own")

    steps = Steps(SCHEDULES["StepLR"], fail, interpreted)
    with pytest.raises(RuntimeError, match="own"):
        steps.step(aj.tensor(X))
    assert steps.schedule.last_epoch == 0
    assert _rate(steps) == 0.1


def test_such_programs_are_no_files(tmp_path: Any) -> None:
    steps = Steps(SCHEDULES["StepLR"], advance, aj.compile)
    with pytest.raises(ExportError, match="steps a schedule"):
        steps.step.export(tmp_path / "step.adjit", aj.tensor(X))
