"""The op of decisions on values: the program stops where a value is another one than in the trace."""

from __future__ import annotations

import math
from typing import NoReturn

import numpy as np

from adjit.ir.definition import Kind, OpDefinition, define
from adjit.ir.errors import ShapeError
from adjit.ir.ops.sampling import no_samples
from adjit.ir.types import TensorType

Outcome = bool | int | float
"""What Python was told of a value."""


class GuardMiss(Exception):
    """Raised by a program at a guard whose value is another one: `number` is that of the guard, `outcome` the value."""

    def __init__(self, number: int, outcome: Outcome):
        super().__init__(number, outcome)
        self.number, self.outcome = number, outcome


def same_outcome(first: Outcome, second: Outcome) -> bool:
    """True if Python cannot tell two outcomes of one kind from another: NaN is NaN, and -0.0 is not 0.0."""
    if isinstance(first, float) and isinstance(second, float) and first == second == 0.0:
        return math.copysign(1.0, first) == math.copysign(1.0, second)
    return first == second or (first != first and second != second)


def _infer(value: TensorType, *, expected: Outcome, number: int) -> tuple[TensorType, ...]:
    if value.shape:
        raise ShapeError(f"a guard takes a scalar, got {value}")
    return ()


def _evaluate(value: np.ndarray, *, expected: Outcome, number: int) -> tuple[()]:
    outcome: Outcome = value.item()
    if not same_outcome(outcome, expected):
        _miss(number, outcome)
    return ()


def _miss(number: int, outcome: Outcome) -> NoReturn:
    raise GuardMiss(number, outcome)


guard: OpDefinition = define(
    "guard", Kind.CHECK, arity=1, attributes={"expected": (bool, int, float), "number": int}, vjp=None, batch=None,
    doc="No result. The program stops, with nothing written that its caller sees, unless the operand, a scalar, is `expected`. `number` "
        "counts the guards of a trace.",
    infer=_infer, evaluate=_evaluate, samples=no_samples)
