"""States between the steps of a method: `DenseOutput`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.tracer.array import as_traced
from adjit.tracer.trace import is_tracing


def between(y: Any, h: Any, coefficients: Any, s: Any) -> Any:
    """State at the part `s` of a step."""
    total = coefficients[-1]
    for row in range(coefficients.shape[0] - 2, -1, -1):
        total = coefficients[row] + s * total
    return y + h * s * total


@dataclasses.dataclass(frozen=True)
class DenseOutput:
    """The solution as a function of time: `sol(t)` for a number, or an array of times, which are the first axes of the states then.

    Steps start at `times`, behind the last one all are the same. Times outside of the interval are extrapolated from the first or last
    step. `unravel` makes the tree of a state of a vector.

    >>> import numpy as np
    >>> from adjit import ode
    >>> sol = ode.solve_ivp(lambda t, y: -y, (0.0, 1.0), 1.0, dense_output=True, max_steps=100, rtol=1e-8, atol=1e-8).sol
    >>> float(sol(0.5).round(6)), sol(np.array([0.0, 1.0])).round(6)
    (0.606531, array([1.      , 0.367879]))
    """

    times: Any
    states: Any
    sizes: Any
    coefficients: Any
    direction: Any
    unravel: Callable[[Any], Any]

    def __call__(self, t: Any) -> Any:
        if is_tracing():
            return self._at(as_traced(t))
        return self._at(np.asarray(t, dtype=self.times.dtype))

    def _at(self, t: Any) -> Any:
        flat = np.reshape(t, (-1,))
        step = np.searchsorted(self.direction * self.times, self.direction * flat, side="right") - 1
        step = np.clip(step, 0, self.times.shape[0] - 1)
        h = np.take(self.sizes, step)
        s = (flat - np.take(self.times, step)) / np.where(h != 0, h, 1.0)
        rows = np.moveaxis(np.take(self.coefficients, step, axis=0), 1, 0)
        vectors = between(np.take(self.states, step, axis=0), h[:, None], rows, s[:, None])
        return self.unravel(np.reshape(vectors, (*np.shape(t), vectors.shape[-1])))
