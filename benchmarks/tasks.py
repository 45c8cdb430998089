"""What a library gives to be compared: the problems as it solves them, ready to be timed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from problems import Problem

LOSSES = 5
"""Training steps whose losses are compared."""

Readings = Mapping[str, np.ndarray]
"""`losses`: of the first steps; `gradient NAME`: at the initial parameters; `update NAME`: what the first step has added."""


class AbsentError(Exception):
    """A library cannot do a problem, or runs not at all here; the message is the reason."""


def no_plan() -> None:
    """Of a library that does not tell what memory a step takes."""


@dataclass(frozen=True)
class Task:
    """One problem in one library. Nothing is compiled before the first step.

    step            does one step, and returns when it is done
    reset           back to the initial parameters: every round trains through the same steps, and none for so long that gradients vanish
                    into subnormal numbers, with which processors are slow
    readings        what the library computes, from the initial parameters on
    planned_bytes   working memory of a step beside arguments and results, as the library tells it; None where it does not
    """

    step: Callable[[], Any]
    reset: Callable[[], None]
    readings: Callable[[], Readings]
    planned_bytes: Callable[[], int | None] = no_plan


@dataclass(frozen=True)
class Library:
    """`open` gives a problem's task, or raises `AbsentError`; `small_sum` a call that adds small arrays, as many as it is given."""

    versions: Mapping[str, str]
    threads: int | None
    open: Callable[[Problem], Task]
    small_sum: Callable[[list[np.ndarray]], Callable[[], Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)


def training_readings(problem: Problem, reset: Callable[[], None], loss_of_step: Callable[[], Any], params: Callable[[], Mapping[str, Any]],
                      gradients: Callable[[], Mapping[str, Any]]) -> Readings:
    """Readings of a training problem; `gradients` is called before any step, `params` after the first."""
    reset()
    readings = {f"gradient {name}": np.array(array) for name, array in gradients().items()}
    reset()
    losses = [loss_of_step()]
    if problem.kind == "sgd":
        readings |= {f"update {name}": np.array(array) - problem.named_params[name] for name, array in params().items()}
    losses += [loss_of_step() for _ in range(LOSSES - 1)]
    return {"losses": np.array([float(loss) for loss in losses], problem.dtype), **readings}


def gradient_readings(problem: Problem, value: Any, gradients: Mapping[str, Any]) -> Readings:
    """Readings of a problem whose step gives value and gradients away."""
    return {"losses": np.array([float(value)], problem.dtype), **{f"gradient {name}": np.array(array) for name, array in gradients.items()}}
