"""Functions of `scipy.optimize`: SciPy's own, which take compiled functions and their gradients; test functions also of traced arrays.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import optimize
    >>> found = optimize.minimize(aj.value_and_grad(optimize.rosen), np.zeros(3), jac=True)
    >>> found.x.round(3)
    array([1., 1., 1.])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.scipy.mirror import mirrors, without_rule
from adjit.tracer.array import as_traced

__all__ = ["rosen", "rosen_der"]


@mirrors("optimize")
def rosen(x: Any) -> Any:
    """Equivalent of `scipy.optimize.rosen`: Rosenbrock's function.

    >>> import numpy as np
    >>> float(rosen(np.array([1.0, 2.0])))
    100.0
    """
    x = as_traced(x)
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2, axis=0)


@mirrors("optimize")
def rosen_der(x: Any) -> Any:
    """Equivalent of `scipy.optimize.rosen_der`: the gradient of Rosenbrock's function.

    >>> import numpy as np
    >>> rosen_der(np.array([1.0, 2.0]))
    array([-400.,  200.])
    """
    x = as_traced(x)
    below, above = x[:-1], x[1:]
    step = above - below ** 2
    first = -400 * below * step - 2 * (1 - below)
    return np.pad(first, [(0, 1)] + [(0, 0)] * (x.ndim - 1)) + np.pad(200 * step, [(1, 0)] + [(0, 0)] * (x.ndim - 1))


_others = without_rule("optimize", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)
