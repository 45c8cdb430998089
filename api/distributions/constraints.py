"""Constraints of parameters and supports: `check(value)` says where they hold.

>>> import adjit as aj
>>> positive.check(aj.tensor([1.0, -1.0]))
tensor([ True, False])
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjit.eager.tensor import Tensor


class Constraint:
    """Condition on the values of a tensor, over its last `event_dim` dimensions."""

    def __init__(self, name: str, check: Callable[[Tensor], Any], event_dim: int = 0, is_discrete: bool = False):
        self.name, self._check, self.event_dim, self.is_discrete = name, check, event_dim, is_discrete

    def check(self, value: Tensor) -> Tensor:
        """Return where the condition holds."""
        return self._check(value)       # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return self.name


real = Constraint("real", lambda x: x == x)
positive = Constraint("positive", lambda x: x > 0)
nonnegative = Constraint("nonnegative", lambda x: x >= 0)
unit_interval = Constraint("unit_interval", lambda x: (x >= 0) & (x <= 1))
boolean = Constraint("boolean", lambda x: (x == 0) | (x == 1), is_discrete=True)
nonnegative_integer = Constraint("nonnegative_integer", lambda x: (x >= 0) & (x % 1 == 0), is_discrete=True)
real_vector = Constraint("real_vector", lambda x: (x == x).all(-1), 1)
simplex = Constraint("simplex", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6 if str(x.dtype) != "float32" else (
    x.sum(-1) - 1).abs() < 1e-5), 1)
one_hot = Constraint("one_hot", lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), 1, True)
lower_cholesky = Constraint("lower_cholesky", lambda x: ((x.tril() == x).all(-1).all(-1)) & (x.diagonal(0, -2, -1) > 0).all(-1), 2)
positive_definite = Constraint("positive_definite", lambda x: ((x - x.mT).abs() < 1e-6).all(-1).all(-1), 2)


def greater_than(bound: Any) -> Constraint:
    """Numbers above a bound.

    >>> greater_than(1.0)
    greater_than(1.0)
    """
    return Constraint(f"greater_than({bound})", lambda x: x > bound)


def interval(low: Any, high: Any) -> Constraint:
    """Numbers from `low` to `high`.

    >>> interval(0, 1)
    interval(0, 1)
    """
    return Constraint(f"interval({low}, {high})", lambda x: (x >= low) & (x <= high))


def integer_interval(low: Any, high: Any) -> Constraint:
    """Integers from `low` to `high`.

    >>> integer_interval(0, 3)
    integer_interval(0, 3)
    """
    return Constraint(f"integer_interval({low}, {high})", lambda x: (x >= low) & (x <= high) & (x % 1 == 0), is_discrete=True)
