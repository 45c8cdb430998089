"""The least time that a problem takes on this machine, from its counted work and the measured limits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from problems import Problem


@dataclass(frozen=True)
class Limit:
    """The least seconds, and what they are spent on: `operations` or `bytes`."""

    seconds: float
    by: str


def limit_of(problem: Problem, ceilings: Mapping[str, Any]) -> Limit:
    operations = problem.operations / ceilings["operations"][problem.dtype.name]
    moved = problem.least_bytes / bandwidth(problem.least_bytes, ceilings)
    return Limit(operations, "operations") if operations >= moved else Limit(moved, "bytes")


def bandwidth(working_set: float, ceilings: Mapping[str, Any]) -> float:
    """Bytes a second, as measured for the size nearest to this one: the better of reading alone and of reading and writing."""
    sizes = ceilings["sizes"]
    nearest = min(range(len(sizes)), key=lambda index: abs(math.log(sizes[index] / working_set)))
    return float(max(ceilings["read"][nearest], ceilings["triad"][nearest]))
