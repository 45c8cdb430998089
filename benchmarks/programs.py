"""Whole NumPy programs whose value and gradient are measured: which ones of the tests' corpus, with which data, and what is differentiated.

Nothing here imports a library that is measured: every worker reads the same arguments from here.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "tests"))

from support.numpy_programs import all_programs
from support.numpy_programs.program import NumPyProgram

NAMES = ("nbody", "lotka_volterra_rk4", "seir", "heun_adaptive", "implied_volatility", "heat_2d", "kalman_filter", "garch",
         "hmm_forward_backward", "thomas", "forward_substitution", "soft_dtw", "rnn_by_hand", "convolution_by_loops", "barrier_option",
         "conjugate_gradients")
"""Loops with a fixed count, arrays filled in place, loops that end when values say so, paths that stop early."""

DATA_SETS = 8
"""Calls go round these, so that a branch taken once is not a branch taken always."""


def chosen() -> dict[str, NumPyProgram]:
    programs = all_programs()
    return {name: programs[name] for name in NAMES}


def sizes(program: NumPyProgram) -> list[int]:
    """The small and the large size; one where the data are the same at both."""
    shapes = [[np.shape(argument) for argument in program.arguments(0, size)] for size in (program.small, program.large)]
    return [program.small] if shapes[0] == shapes[1] else [program.small, program.large]


def data_sets(program: NumPyProgram, size: int) -> list[tuple[Any, ...]]:
    return [program.arguments(seed, size) for seed in range(DATA_SETS)]


def loss_of(function: Callable[..., Any], sum_of: Callable[[Any], Any]) -> Callable[..., Any]:
    """The sum of the squares of all that a program returns; `sum_of` is that of the library."""
    def loss(*arguments: Any) -> Any:
        result = function(*arguments)
        total: Any = 0.0
        for leaf in result if isinstance(result, tuple) else (result,):
            total = total + sum_of(leaf * leaf)
        return total
    return loss
