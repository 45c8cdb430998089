"""Nearest neighbours: which points they are SciPy's trees say, when the program comes to this place; distances have derivatives."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit.ir.errors import UnsupportedError
from adjit.runtime.pure_callback import pure_callback
from adjit.scipy.mirror import scipys
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions.composites import stop_gradient
from adjit.tracer.user_location import find_user_location


def query(tree: Any, x: Any, k: Any = 1, eps: float = 0.0, p: float = 2.0, distance_upper_bound: float = math.inf, workers: int = 1
          ) -> tuple[Any, Any]:
    """Equivalent of `scipy.spatial.KDTree.query` for a tree of plain points and traced places `x` [..., d]: distances and indices."""
    if isinstance(k, TracedArray):
        raise UnsupportedError("a traced number of neighbours", find_user_location(), hint="pass k as a Python integer")
    x = as_traced(x)
    places, wanted = x.astype(np.float64, copy=False), list(k) if np.ndim(k) else list(range(1, int(k) + 1))
    single = np.ndim(k) == 0 and int(k) == 1
    own = scipys("spatial").cKDTree.query

    def indices(x: np.ndarray) -> np.ndarray:
        found = own(tree, x, wanted, eps, p, distance_upper_bound, workers)[1]
        return np.asarray(found, np.int64)

    number = pure_callback(indices, ((*x.shape[:-1], len(wanted)), np.int64), stop_gradient(places))
    points = np.take(as_traced(tree.data), np.minimum(number, tree.n - 1), axis=0)
    difference = places[..., None, :] - points
    if tree.boxsize is not None:
        box = np.asarray(tree.boxsize)
        difference = difference - np.where(box > 0, box, 0.0) * np.round(difference / np.where(box > 0, box, 1.0))
    distance = np.where(number == tree.n, math.inf, np.linalg.norm(difference, p, axis=-1))
    return (distance[..., 0], number[..., 0]) if single else (distance, number)
