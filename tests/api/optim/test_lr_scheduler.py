"""Learning-rate schedules against their closed forms, and beside PyTorch's, for 30 steps."""

from __future__ import annotations

import math
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import adjit as aj
from adjit import optim
from adjit.optim import lr_scheduler

Make = Callable[[Any, Any], Any]
RATES = (0.1, 0.25)
STEPS = 30


def optimizer_of(kind: str = "SGD") -> optim.Optimizer:
    return getattr(optim, kind)([{"params": [aj.tensor([1.0])]}, {"params": [aj.tensor([1.0])], "lr": RATES[1]}], lr=RATES[0])


def cosine(start: float, end: float, done: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * done)) / 2


def one_cycle(rate: float, t: int) -> float:
    """`max_lr` 0.3 in 31 steps: up in 30 % of them."""
    peak = 0.3 * 31 - 1
    return cosine(0.3 / 25, 0.3, t / peak) if t <= peak else cosine(0.3, 0.3 / 25 / 1e4, (t - peak) / (30 - peak))


def with_restarts(rate: float, t: int) -> float:
    length = 3
    while t >= length:
        t, length = t - length, length * 2
    return cosine(rate, 0.01, t / length)


def in_sequence(rate: float, t: int) -> float:
    if t < 5:
        return rate * (0.1 + 0.9 * t / 5)
    return cosine(rate, 0.0, (t - 5) / 10) if t < 17 else rate * 0.9 ** (t - 17)


# How each is made, of a module of schedules and an optimiser; and the learning rate after t steps.
CASES: dict[str, tuple[Make, Callable[[float, int], float]]] = {
    "LambdaLR": (lambda m, o: m.LambdaLR(o, lambda t: 0.9 ** t), lambda rate, t: rate * 0.9 ** t),
    "MultiplicativeLR": (lambda m, o: m.MultiplicativeLR(o, lambda t: 0.9 if t < 10 else 1.0), lambda rate, t: rate * 0.9 ** min(t, 9)),
    "PolynomialLR": (lambda m, o: m.PolynomialLR(o, 8, 2.0), lambda rate, t: rate * (1 - min(t, 8) / 8) ** 2),
    "StepLR": (lambda m, o: m.StepLR(o, 4, 0.5), lambda rate, t: rate * 0.5 ** (t // 4)),
    "MultiStepLR": (lambda m, o: m.MultiStepLR(o, [2, 5, 5, 20], 0.5), lambda rate, t: rate * 0.5 ** sum(t >= at for at in (2, 5, 5, 20))),
    "ExponentialLR": (lambda m, o: m.ExponentialLR(o, 0.9), lambda rate, t: rate * 0.9 ** t),
    "ConstantLR": (lambda m, o: m.ConstantLR(o, 0.5, 4), lambda rate, t: rate * (0.5 if t < 4 else 1.0)),
    "LinearLR": (lambda m, o: m.LinearLR(o, 0.2, 0.9, 10), lambda rate, t: rate * (0.2 + 0.7 * min(t, 10) / 10)),
    "CosineAnnealingLR": (lambda m, o: m.CosineAnnealingLR(o, 7, 0.01), lambda rate, t: cosine(rate, 0.01, t / 7)),
    "CosineAnnealingWarmRestarts": (lambda m, o: m.CosineAnnealingWarmRestarts(o, 3, 2, 0.01), with_restarts),
    "OneCycleLR": (lambda m, o: m.OneCycleLR(o, 0.3, 31), one_cycle),
    "SequentialLR": (lambda m, o: m.SequentialLR(
        o, [m.LinearLR(o, 0.1, 1.0, 5), m.CosineAnnealingLR(o, 10), m.ExponentialLR(o, 0.9)], [5, 17]), in_sequence),
}
MORE: dict[str, Make] = {
    "one restart after the other": lambda m, o: m.CosineAnnealingWarmRestarts(o, 5),
    "three phases": lambda m, o: m.OneCycleLR(o, [0.3, 0.4], epochs=5, steps_per_epoch=7, anneal_strategy="linear", three_phase=True),
    "momentum as it is": lambda m, o: m.OneCycleLR(o, 0.3, 40, cycle_momentum=False, pct_start=0.5),
    "restarts in sequence": lambda m, o: m.SequentialLR(
        o, [m.ConstantLR(o, 0.1, 5), m.CosineAnnealingWarmRestarts(o, 4, 2), m.StepLR(o, 3)], [5, 17]),
    "functions in sequence": lambda m, o: m.SequentialLR(o, [m.LambdaLR(o, lambda t: t / 5), m.MultiStepLR(o, [2, 3])], [5]),
    "a function for each group": lambda m, o: m.LambdaLR(o, [lambda t: 1 / (1 + t), lambda t: 0.5]),
}


def rates(optimizer: Any) -> list[float]:
    return [group["lr"] for group in optimizer.param_groups]


@pytest.mark.parametrize("name", CASES)
def test_closed_form(name: str) -> None:
    make, formula = CASES[name]
    optimizer = optimizer_of()
    scheduler = make(lr_scheduler, optimizer)
    for t in range(STEPS + 1):
        assert rates(optimizer) == pytest.approx([formula(rate, t) for rate in RATES], rel=1e-12, abs=1e-15), t
        assert scheduler.get_last_lr() == rates(optimizer)
        if t < STEPS:
            scheduler.step()


@pytest.mark.parametrize("name", [*CASES, *MORE])
@pytest.mark.parametrize("kind", ["SGD", "AdamW"])
def test_beside_torch(name: str, kind: str) -> None:
    torch = pytest.importorskip("torch")
    make = MORE[name] if name in MORE else CASES[name][0]
    ours = optimizer_of(kind)
    theirs = getattr(torch.optim, kind)(
        [{"params": [torch.tensor([1.0])]}, {"params": [torch.tensor([1.0])], "lr": RATES[1]}], lr=RATES[0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")     # about steps without steps of the optimiser
        schedulers = make(lr_scheduler, ours), make(torch.optim.lr_scheduler, theirs)
        for _ in range(STEPS):
            for group, other in zip(ours.param_groups, theirs.param_groups, strict=True):
                assert all(group.get(key) == other.get(key) for key in ("lr", "betas", "momentum"))
            for scheduler in schedulers:
                scheduler.step()


def test_one_cycle_moves_momentum_the_other_way() -> None:
    optimizer = optimizer_of()
    scheduler = lr_scheduler.OneCycleLR(optimizer, 0.3, 31)
    for t in range(STEPS + 1):
        peak = 0.3 * 31 - 1
        expected = cosine(0.95, 0.85, t / peak) if t <= peak else cosine(0.85, 0.95, (t - peak) / (30 - peak))
        assert optimizer.param_groups[0]["momentum"] == pytest.approx(expected, rel=1e-12)
        scheduler.step()
    with pytest.raises(ValueError, match="step 32 of a schedule of 31 steps"):
        scheduler.step()


METRICS = [3.0, 2.0, 1.9999, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, *(0.5,) * 18]


@pytest.mark.parametrize("options", [
    {"patience": 2}, {"patience": 1, "cooldown": 3, "factor": 0.5}, {"mode": "max", "patience": 3, "min_lr": 0.05}, {"threshold": 0.9},
    {"threshold_mode": "abs", "threshold": 0.3, "patience": 0, "min_lr": [0.01, 0.1]}, {"patience": 0, "eps": 0.01},
    {"mode": "max", "threshold_mode": "abs", "patience": 1, "factor": 0.9},
])
def test_plateau_beside_torch(options: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    ours = optimizer_of()
    theirs = torch.optim.SGD([{"params": [torch.tensor([1.0])]}, {"params": [torch.tensor([1.0])], "lr": RATES[1]}], lr=RATES[0])
    schedulers = lr_scheduler.ReduceLROnPlateau(ours, **options), torch.optim.lr_scheduler.ReduceLROnPlateau(theirs, **options)
    for metric in METRICS:
        for scheduler in schedulers:
            scheduler.step(metric)
        assert rates(ours) == rates(theirs) == schedulers[0].get_last_lr()


def test_plateau() -> None:
    optimizer = optimizer_of()
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=2, cooldown=2, min_lr=0.06)
    seen = []
    for metric in (1.0, aj.tensor(1.0), 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0):
        scheduler.step(metric)
        seen.append(rates(optimizer))
    assert seen == [[0.1, 0.25]] * 3 + [[0.06, 0.125]] * 5 + [[0.06, 0.0625]]


@pytest.mark.parametrize("name", CASES)
def test_a_loaded_state_goes_on(name: str) -> None:
    make = CASES[name][0]
    first, second = optimizer_of(), optimizer_of()
    scheduler = make(lr_scheduler, first)
    for _ in range(11):
        scheduler.step()
    saved = pickle.loads(pickle.dumps((scheduler.state_dict(), first.state_dict())))
    other = make(lr_scheduler, second)
    other.load_state_dict(saved[0])
    second.load_state_dict(saved[1])
    assert other.get_last_lr() == scheduler.get_last_lr()
    for _ in range(15):
        scheduler.step()
        other.step()
        assert rates(first) == rates(second)


def test_a_schedule_goes_on_from_last_epoch() -> None:
    optimizer = optimizer_of()
    scheduler = lr_scheduler.ExponentialLR(optimizer, 0.5)
    for _ in range(3):
        scheduler.step()
    again = lr_scheduler.ExponentialLR(optimizer, 0.5, last_epoch=scheduler.last_epoch)
    again.step()
    assert rates(optimizer) == [rate * 0.5 ** 4 for rate in RATES]
    with pytest.raises(KeyError, match="group 0 has no initial_lr"):
        lr_scheduler.ExponentialLR(optimizer_of(), 0.5, last_epoch=3)


def test_a_learning_rate_that_is_a_tensor_is_written_to() -> None:
    rate = aj.tensor(0.5)
    optimizer = optim.SGD([aj.tensor([1.0])], lr=rate)
    scheduler = lr_scheduler.StepLR(optimizer, 1, 0.5)
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] is rate
    assert rate.item() == 0.25
    assert scheduler.get_last_lr()[0] is not rate
    assert [base.item() for base in scheduler.base_lrs] == [0.5]


def test_schedules_are_combined() -> None:
    optimizer = optimizer_of()
    schedulers = [lr_scheduler.ExponentialLR(optimizer, 0.5), lr_scheduler.StepLR(optimizer, 2, 0.1)]
    for _ in range(4):
        for scheduler in schedulers:
            scheduler.step()
    assert rates(optimizer) == pytest.approx([rate * 0.5 ** 4 * 0.1 ** 2 for rate in RATES])


OTHER = optimizer_of()


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda o: lr_scheduler.StepLR(object(), 3), TypeError, "belongs to an adjit.optim.Optimizer, got a object"),
    (lambda o: lr_scheduler.LambdaLR(o, [math.exp]), ValueError, "1 functions for 2 parameter groups"),
    (lambda o: lr_scheduler.ConstantLR(o, 1.5), ValueError, "factor lies between 0 and 1"),
    (lambda o: lr_scheduler.LinearLR(o, 0.0), ValueError, "start_factor lies above 0"),
    (lambda o: lr_scheduler.LinearLR(o, end_factor=2.0), ValueError, "end_factor lies between 0 and 1"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0 is a positive integer"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 1, 0), ValueError, "T_mult is an integer of at least 1"),
    (lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 1).step(-1), ValueError, "an epoch is at least 0"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1), ValueError, "needs total_steps, or epochs and steps_per_epoch"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 0), ValueError, "number of steps is a positive integer"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 9, pct_start=2.0), ValueError, "pct_start lies between 0 and 1"),
    (lambda o: lr_scheduler.OneCycleLR(o, 0.1, 9, anneal_strategy="up"), ValueError, "anneal_strategy is 'cos' or 'linear'"),
    (lambda o: lr_scheduler.OneCycleLR(o, [0.1], 9), ValueError, "max_lr has 1 values for 2 parameter groups"),
    (lambda o: lr_scheduler.OneCycleLR(optim.Adagrad([aj.tensor([1.0])]), 0.1, 9), ValueError, "neither momentum nor betas"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(o, 1)], [1]), ValueError, "1 schedules need 0 milestones"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ReduceLROnPlateau(o)], []), ValueError, "whose step takes arguments"),
    (lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.StepLR(OTHER, 1)], []), ValueError, "belongs to another optimiser"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, factor=1.0), ValueError, "factor is below 1"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, mode="least"), ValueError, "mode is 'min' or 'max'"),
    (lambda o: lr_scheduler.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold_mode is 'rel' or 'abs'"),
])
def test_errors(call: Callable[[Any], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call(optimizer_of())


def test_chained_schedules_go_on_from_their_state() -> None:
    def both() -> tuple[Any, Any]:
        optimizer = optimizer_of()
        parts = [lr_scheduler.ConstantLR(optimizer, 0.5, 2), lr_scheduler.ExponentialLR(optimizer, 0.5)]
        return optimizer, lr_scheduler.ChainedScheduler(parts)

    def step(optimizer: Any, scheduler: Any, count: int) -> None:
        for _ in range(count):
            optimizer.step()
            scheduler.step()

    first, second = both(), both()
    step(*first, 3)
    for old, new in zip(first, second, strict=True):
        new.load_state_dict(old.state_dict())
    step(*first, 2)
    step(*second, 2)
    assert first[1].get_last_lr() == second[1].get_last_lr() == [rate / 32 for rate in RATES]
