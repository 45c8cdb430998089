"""docs/derivatives.md, line by line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.nn import functional

HALF = [0.5]
CASES: dict[str, tuple[Callable[..., Any], tuple[list[float], ...], list[list[float]]]] = {
    "maximum": (np.maximum, ([2.0], [2.0]), [HALF, HALF]),
    "minimum": (np.minimum, ([2.0], [2.0]), [HALF, HALF]),
    "fmax": (np.fmax, ([2.0], [2.0]), [HALF, HALF]),
    "fmin": (np.fmin, ([2.0], [2.0]), [HALF, HALF]),
    "max": (np.max, ([3.0, 1.0, 3.0, 3.0, 3.0],), [[0.25, 0.0, 0.25, 0.25, 0.25]]),
    "min": (np.min, ([1.0, 3.0, 1.0],), [[0.5, 0.0, 0.5]]),
    "clip": (lambda x: np.clip(x, 0.0, 1.0), ([-1.0, 0.0, 0.5, 1.0, 2.0],), [[0.0, 0.5, 1.0, 0.5, 0.0]]),
    "abs": (np.abs, ([-2.0, 0.0, 2.0],), [[-1.0, 0.0, 1.0]]),
    "sign": (np.sign, ([-2.0, 0.0],), [[0.0, 0.0]]),
    "floor": (np.floor, ([1.0, 1.5],), [[0.0, 0.0]]),
    "ceil": (np.ceil, ([1.0, 1.5],), [[0.0, 0.0]]),
    "trunc": (np.trunc, ([1.0, 1.5],), [[0.0, 0.0]]),
    "rint": (np.rint, ([1.0, 1.5],), [[0.0, 0.0]]),
    "round": (np.round, ([1.0, 1.5],), [[0.0, 0.0]]),
    "floor_divide": (np.floor_divide, ([7.0], [2.0]), [[0.0], [0.0]]),
    "sort": (lambda x: np.sort(x) * np.array([1.0, 2.0, 3.0]), ([5.0, 4.0, 5.0],), [[2.0, 1.0, 3.0]]),
    "relu": (functional.relu, ([-1.0, 0.0, 1.0],), [[0.0, 0.0, 1.0]]),
    "relu6": (functional.relu6, ([-1.0, 0.0, 1.0, 6.0, 7.0],), [[0.0, 0.0, 1.0, 0.0, 0.0]]),
    "hardtanh": (functional.hardtanh, ([-1.0, 0.0, 1.0],), [[0.0, 1.0, 0.0]]),
    "leaky_relu": (lambda x: functional.leaky_relu(x, 0.25), ([0.0, 1.0],), [[0.25, 1.0]]),
    "elu": (lambda x: functional.elu(x, 0.5), ([0.0, 1.0],), [[0.5, 1.0]]),
    "max_pool2d": (lambda x: functional.max_pool2d(x.reshape(1, 2, 2), 2), ([1.0, 2.0, 2.0, 2.0],), [[0.0, 1.0, 0.0, 0.0]]),
    "l1_loss": (lambda x, y: functional.l1_loss(x, y, "sum"), ([1.0, 2.0], [1.0, 0.0]), [[0.0, 1.0], [0.0, -1.0]]),
    "smooth_l1_loss": (functional.smooth_l1_loss, ([1.0], [1.0]), [[0.0], [0.0]]),
    "huber_loss": (functional.huber_loss, ([1.0], [1.0]), [[0.0], [0.0]]),
    "binary_cross_entropy": (lambda p: functional.binary_cross_entropy(p, np.array([1.0, 1.0, 0.0]), reduction="sum"), ([0.0, 0.5, 1.0],),
                             [[0.0, -2.0, 0.0]]),
    "sqrt": (np.sqrt, ([0.0],), [[np.inf]]),
    "hypot": (np.hypot, ([0.0], [0.0]), [[0.0], [0.0]]),
    "arctan2": (np.arctan2, ([0.0], [0.0]), [[0.0], [0.0]]),
    "power": (np.power, ([0.0, 0.0], [0.0, 2.0]), [[0.0, 0.0], [0.0, 0.0]]),
    "xlogy": (aj.special.xlogy, ([0.0, 0.0], [0.0, 2.0]), [[0.0, math.log(2.0)], [0.0, 0.0]]),
    "xlog1py": (aj.special.xlog1py, ([0.0], [-1.0]), [[0.0], [0.0]]),
    "entr": (aj.special.entr, ([0.0],), [[0.0]]),
    "rel_entr": (aj.special.rel_entr, ([0.0], [2.0]), [[0.0], [0.0]]),
    "i0e": (aj.special.i0e, ([0.0],), [[0.0]]),
    "i1e": (aj.special.i1e, ([0.0],), [[0.5]]),
    "erfinv": (aj.special.erfinv, ([-1.0, 1.0],), [[np.inf, np.inf]]),
    "gammaln at 0": (aj.special.gammaln, ([0.0, -0.0],), [[-np.inf, np.inf]]),
    "prod": (np.prod, ([0.0, 3.0, 2.0],), [[6.0, 0.0, 0.0]]),
    "prod of two zeros": (np.prod, ([0.0, 3.0, 0.0],), [[0.0, 0.0, 0.0]]),
    "cumprod": (np.cumprod, ([2.0, 0.0, 3.0],), [[1.0, 8.0, 0.0]]),
    "branch not taken": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), ([-1.0, 0.0, 4.0],), [[0.0, 0.0, 0.25]]),
    "comparison": (lambda x: np.where(x > 1.0, x, 0.0) + (x > 1.0), ([0.5, 2.0],), [[0.0, 1.0]]),
}


@pytest.mark.parametrize("name", CASES)
def test_choice(name: str) -> None:
    function, arguments, expected = CASES[name]
    arrays = tuple(map(np.array, arguments))
    gradients = aj.grad(lambda *xs: np.sum(function(*xs)), argnums=tuple(range(len(arrays))))(*arrays)
    assert [gradient.tolist() for gradient in gradients] == expected
