"""What a library gives to be compared: its workloads, opened on given data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

Data = Mapping[str, np.ndarray]
"""A workload's arguments by path: `0/2` is the third array of the first argument."""

LOSSES = 5
"""Training steps whose losses are compared."""


def _stay() -> None:
    """A function of its arguments alone has no state to go back to."""


@dataclass(frozen=True)
class Task:
    """One workload, ready to be timed.

    step             does one step and returns when it is done
    readings         what the first steps gave (see agreement.py)
    working_bytes    working memory of one step, beside arguments and results, where the library knows it
    reset            back to the state before the first step: every round trains through the same steps, and none for so long that
                     gradients vanish into subnormal numbers, with which processors are slow
    """

    step: Callable[[], Any]
    readings: Mapping[str, np.ndarray]
    working_bytes: Callable[[], int] | None = None
    reset: Callable[[], None] = _stay


@dataclass(frozen=True)
class Library:
    """Versions by distribution, threads (None where the library does not say), and its workloads."""

    versions: Mapping[str, str]
    threads: int | None
    workloads: Mapping[str, Callable[[Data], Task]]
