"""What the corpus knows of a program besides its text: arguments, which of them are differentiable, how exactly its value is NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Data = Callable[[np.random.Generator, int], tuple[Any, ...]]
"""Arguments of a program, from random numbers and a size; other numbers give the same shapes, and often other branches."""


@dataclass(frozen=True)
class NumPyProgram:
    """A function of NumPy with its data. `small` and `large` are sizes for the gate and for measurements. `wrt` are the positions of the
    differentiable arguments. `rounding` is the relative error that a value may have because a sum is added in another order; 0 asks for the
    same bits from the interpreter."""

    function: Callable[..., Any]
    data: Data
    small: int
    large: int
    wrt: tuple[int, ...]
    rounding: float

    @property
    def name(self) -> str:
        return self.function.__name__

    def arguments(self, seed: int, size: int | None = None) -> tuple[Any, ...]:
        return self.data(np.random.default_rng([seed, len(self.name)]), self.small if size is None else size)


class Programs(list[NumPyProgram]):
    """Programs of a file. `@programs(data, small, large)` adds a function, and leaves it as it is."""

    def __call__(self, data: Data, small: int, large: int, wrt: tuple[int, ...] | None = None, rounding: float = 0.0,
                 ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            floats = tuple(place for place, argument in enumerate(data(np.random.default_rng(0), small)) if is_differentiable(argument))
            self.append(NumPyProgram(function, data, small, large, floats if wrt is None else wrt, rounding))
            return function
        return add


def is_differentiable(argument: Any) -> bool:
    """Whether an argument is one or more floats; lists, tuples and dicts are so if all that they hold is."""
    if isinstance(argument, (list, tuple)):
        return bool(argument) and all(map(is_differentiable, argument))
    if isinstance(argument, dict):
        return bool(argument) and all(map(is_differentiable, argument.values()))
    return isinstance(argument, (float, np.ndarray)) and np.asarray(argument).dtype.kind == "f"
