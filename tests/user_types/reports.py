"""Reports, debugging and solvers: what type checkers know of them."""

from typing import Any

import numpy as np

import adjit as aj


def loss(x: np.ndarray) -> Any:
    return np.sum(x ** 2)

step = aj.compile(loss)
text: str = step.explain()
step.profile(np.ones(2)).save("trace.json")
step.report("step.html", np.ones(2))
table = step.memory(np.ones(2)).what_if([0.5, None])
print(table)
aj.debug.print("{x}", x=1.0)
with aj.debug.nans():
    pass
aj.debug.check_grads(loss, (np.ones(2),), order=1)
shadowed = aj.compile(loss, shadow=0.01)
fit = aj.solve.lm(lambda p: p - 1.0, np.zeros(2))
print(fit.x, fit.success)
found = aj.ode.solve_ivp(lambda t, y: -y, (0.0, 1.0), np.ones(1))
print(found.y)
best, covariance = aj.fit.curve_fit(lambda x, p: p * x, np.ones(3), np.ones(3), 1.0)
mapped = aj.map(loss, np.ones((3, 2)))
step.explane()      # type: ignore[attr-defined]
