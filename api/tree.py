"""Trees of parameters: `ravel`, `unravel`, `map`. Trees are nested dicts, lists, tuples and dataclasses of arrays and numbers.

>>> import numpy as np
>>> import adjit as aj
>>> params = {"w": np.array([[1.0, 2.0]]), "b": 3.0}
>>> vector, unravel = aj.tree.ravel(params)
>>> vector
array([1., 2., 3.])
>>> unravel(10 * vector)
{'w': array([[10., 20.]]), 'b': np.float64(30.0)}
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from adjit.runtime.parameter_vectors import ravel_pytree as ravel
from adjit.tracer.trees import NAMESPACE, flatten, optree

__all__ = ["map", "ravel", "unravel"]


def unravel(vector: Any, like: Any) -> Any:
    """The tree of a vector, with the structure, shapes and dtypes of the tree `like`. Raises `ValueError` for a vector of another size.

    >>> import numpy as np
    >>> unravel(np.arange(3.0), (np.zeros(2), 0.0))
    (array([0., 1.]), np.float64(2.0))
    """
    return ravel(like)[1](vector)


def map(fun: Callable[..., Any], tree: Any, *others: Any) -> Any:
    """A tree like `tree` of `fun(leaf, ...)`, with the leaves of `others` at the same place. Raises `ValueError` for other structures.

    >>> map(lambda a, b: a + 2 * b, {"u": 1, "v": [2]}, {"u": 10, "v": [20]})
    {'u': 21, 'v': [42]}
    """
    for one in (tree, *others):
        flatten(one)        # registers dataclasses
    return optree.tree_map(fun, tree, *others, namespace=NAMESPACE)


def __dir__() -> list[str]:
    return sorted(__all__)
