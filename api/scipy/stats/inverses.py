"""Quantiles without a closed form: by Newton's method within brackets, with derivatives by the implicit function theorem."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from adjit.linalg.rules import pure_vjp
from adjit.runtime.control_flow import while_loop
from adjit.runtime.transforms import vjp

_MOST = 100
_NEAR = 1e-9
"""Size of a step of Newton's, relative to the result and in the logarithm, after which it has all digits: the next would be its square."""


def quantile(distribution: Any, q: Any, *shapes: Any) -> Any:
    """Place below which a distribution has the share `q`, found within its `_bracket(q, *shapes)`, in float64."""
    given = [each.astype(np.float64) for each in np.broadcast_arrays(q, *shapes)]
    return _rule(distribution)(*given).astype(q.dtype)


@functools.cache
def _rule(distribution: Any) -> Any:
    def log_share(lower: Any, y: Any, shapes: Any) -> Any:
        """Of the side that has the smaller share, which has more digits."""
        return np.where(lower, distribution._logcdf(y, *shapes), distribution._logsf(y, *shapes))

    def solve(q: Any, *shapes: Any) -> Any:
        inside = (q > 0) & (q < 1)
        q = np.where(inside, q, 0.5)
        lower = q < 0.5
        target = np.where(lower, np.log(q), np.log1p(-q))
        low, high = (np.broadcast_to(end, q.shape) for end in distribution._bracket(q, *shapes))
        least = 1e-15 * (high - low)

        def unfinished(state: Any) -> Any:
            return (state[0] < _MOST) & ~np.all(state[-1])

        def step(state: Any) -> Any:
            """A step of Newton's for the logarithm of the share; every fourth, and one that leaves the bracket, halves it instead."""
            count, y, low, high, done = state
            share = log_share(lower, y, shapes)
            excess = np.where(lower, share - target, target - share)
            by = -excess * np.exp(share - distribution._logpdf(y, *shapes))
            small = (np.abs(by) <= _NEAR * np.abs(y) + least) & (np.abs(excess) < _NEAR) | (np.abs(by) <= 4e-16 * np.abs(y))
            low, high = np.where(excess < 0, y, low), np.where(excess < 0, high, y)
            moved = y + by
            newton = small | ((moved > low) & (moved < high) & (count % 4 != 3))
            return count + 1, np.where(done, y, np.where(newton, moved, 0.5 * (low + high))), low, high, done | small | ~(high > low)

        start = 0, 0.5 * (low + high), low, high, ~(high > low)
        return while_loop(unfinished, step, start)[1]

    rule = pure_vjp(solve)

    def forward(q: Any, *shapes: Any) -> tuple[Any, Any]:
        y = rule(q, *shapes)
        return y, (y, q, shapes)

    def backward(saved: Any, cotangent: Any) -> tuple[Any, ...]:
        y, q, shapes = saved
        along = cotangent * np.exp(-distribution._logpdf(y, *shapes))
        if not shapes:
            return (along,)
        _, pull = vjp(lambda *shapes: np.where(q < 0.5, distribution._cdf(y, *shapes), -distribution._sf(y, *shapes)), *shapes)
        return along, *pull(-along)

    rule.defvjp(forward, backward)
    return rule
