"""SciPy's optimizers on trees of parameters: values, gradients, Jacobians and Hessians are compiled, and each point is evaluated once.

>>> import numpy as np
>>> from adjit import fit
>>> def loss(p, data):
...     return np.sum((p["a"] + p["b"] * np.arange(4.0) - data) ** 2)
>>> found = fit.minimize(loss, {"a": 0.0, "b": 0.0}, (np.array([1.0, 3.0, 5.0, 7.0]),))
>>> {name: round(float(value), 6) for name, value in found.params.items()}
{'a': 1.0, 'b': 2.0}
"""

from adjit.fit.scipy_optimizers import curve_fit, least_squares, minimize, root

__all__ = ["curve_fit", "least_squares", "minimize", "root"]
