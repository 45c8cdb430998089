"""Programs that cannot go on, on two ranks, by name; what ends them is looked at in `tests/runtime/ranks/test_agreement.py`."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import numpy as np

import adjit as aj
from adjit import distributed as dist

X = np.ones(3)
OTHER = dist.rank() == 1


def total(x: Any) -> Any:
    return dist.all_reduce(x)


program = aj.compile(total)


def other_shape() -> None:
    program(np.ones(4 if OTHER else 3))


def other_rows() -> None:
    rows = 5 if OTHER else 4
    dist.mean_gradients(lambda w, x: np.mean((x @ w) ** 2))(X, np.ones((rows, 3)))


def other_program_within() -> None:
    program(X)
    (program if OTHER else aj.compile(lambda x: 2 * total(x)))(X)


def no_program() -> None:
    if not OTHER:
        program(X)


def trips(x: Any, most: Any) -> Any:
    return aj.while_loop(lambda state: state[1] < most, lambda state: (0.5 * total(state[0]), state[1] + 1), (x, 0))[0]


def other_trips() -> None:
    """The second rank leaves the loop first, and is busy with something else."""
    program = aj.compile(trips)
    program(X, 3)
    program(X, 5 if OTHER else 7)
    time.sleep(40)


def other_trips_again() -> None:
    """The collectives that are left over meet those of the next call, on the other rank."""
    program = aj.compile(trips)
    while True:
        program(X, 5 if OTHER else 7)


def other_branch() -> None:
    program = aj.compile(lambda x, flag: aj.cond(flag, lambda x: total(x), lambda x: x, x))
    program(X, np.asarray(True))
    program(X, np.asarray(not OTHER))
    time.sleep(40)


def uncaught() -> None:
    program(X)
    if OTHER:
        raise ValueError("the data of this rank are missing")
    program(X)


def dies() -> None:
    program(X)
    if OTHER:
        os._exit(9)
    program(X)


globals()[sys.argv[1]]()
