"""Whether two libraries compute the same: nothing is timed before losses, gradients and updates agree (`tasks.Readings`)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from tasks import Readings

TOLERANCES = {np.dtype(np.float32): 1e-4, np.dtype(np.float64): 1e-8}
"""Largest difference, relative to the largest element."""


def disagreements(ours: Readings, theirs: Readings, params: Mapping[str, np.ndarray],
                  tolerances: Mapping[np.dtype, float] = TOLERANCES) -> list[str]:
    """A line for each reading in which they differ; `params` are the initial parameters by name."""
    problems = [f"{name}: read on one side only" for name in sorted(ours.keys() ^ theirs.keys())]
    for name in sorted(ours.keys() & theirs.keys()):
        mine, other = ours[name], theirs[name]
        if mine.shape != other.shape:
            problems.append(f"{name}: shapes {mine.shape} and {other.shape}")
            continue
        if not mine.size:
            continue
        tolerance = tolerances[mine.dtype]
        difference = np.abs(mine - other).max()
        allowed = tolerance * np.abs(other).max() + _rounding(name, params)
        if not difference <= allowed:
            problems.append(f"{name}: differs by {difference:.3g}, allowed are {allowed:.3g} ({tolerance:g} of the largest element)")
    return problems


def _rounding(name: str, params: Mapping[str, np.ndarray]) -> float:
    """An update is the difference of two rounded arrays: each side is exact to one rounding of the array itself."""
    kind, _, parameter = name.partition(" ")
    if kind != "update":
        return 0.0
    before = params[parameter]
    return float(2 * np.finfo(before.dtype).eps * np.abs(before).max())
