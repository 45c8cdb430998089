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
    "l1_loss": (lambda x, y: functional.l1_loss(x, y, reduction="sum"), ([1.0, 2.0], [1.0, 0.0]), [[0.0, 1.0], [0.0, -1.0]]),
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
    "norm of half": (lambda x: np.linalg.norm(x, 0.5), ([0.0, 4.0],), [[0.0, 1.0]]),
    "prod": (np.prod, ([0.0, 3.0, 2.0],), [[6.0, 0.0, 0.0]]),
    "prod of two zeros": (np.prod, ([0.0, 3.0, 0.0],), [[0.0, 0.0, 0.0]]),
    "cumprod": (np.cumprod, ([2.0, 0.0, 3.0],), [[1.0, 8.0, 0.0]]),
    "branch not taken": (lambda x: np.where(x > 0, np.sqrt(x), 0.0), ([-1.0, 0.0, 4.0],), [[0.0, 0.0, 0.25]]),
    "comparison": (lambda x: np.where(x > 1.0, x, 0.0) + (x > 1.0), ([0.5, 2.0],), [[0.0, 1.0]]),
}


@pytest.mark.share(2)
@pytest.mark.parametrize("name", CASES)
def test_choice(name: str) -> None:
    function, arguments, expected = CASES[name]
    arrays = tuple(map(np.array, arguments))
    gradients = aj.grad(lambda *xs: np.sum(function(*xs)), argnums=tuple(range(len(arrays))))(*arrays)
    assert [gradient.tolist() for gradient in gradients] == expected


NORMS: dict[str, Callable[..., Any]] = {f"norm {ord}": lambda x, ord=ord: np.linalg.norm(x, ord)
                                        for ord in (None, 0, 0.5, 1, 1.5, 2, 3, 3.5, -1, -2.5, math.inf, -math.inf)}
NORMS |= {f"norm {ord} along an axis": lambda x, ord=ord: np.linalg.norm(x[None], ord, 1, True) for ord in (None, 1, 3.5, math.inf)}
NORMS |= {f"norm {ord} of a matrix": lambda x, ord=ord: np.linalg.norm(np.stack([x, x]), ord) for ord in ("fro", 1, -1, math.inf)}
DEVIATIONS: dict[str, Callable[..., Any]] = {
    "std": np.std, "ddof": lambda x: np.std(x, ddof=1), "keepdims": lambda x: np.std(x[None], axis=1, keepdims=True),
    "x.std": lambda x: x.std(), "where": lambda x: np.std(x, where=np.array([True, False, True])),
    "var": np.var, "var ddof": lambda x: np.var(x, ddof=1),
}


@pytest.mark.share(3)
@pytest.mark.parametrize("name", NORMS | DEVIATIONS)
def test_norms_and_deviations_of_0_have_derivatives_of_0(name: str) -> None:
    function = (NORMS | DEVIATIONS)[name]
    x = np.full(3, 2.0 if name in DEVIATIONS else 0.0)

    def total(x):
        return np.sum(function(x))

    with np.errstate(divide="ignore"):
        assert aj.compile(total)(x) == total(x) == 0.0
    assert aj.grad(total)(x).tolist() == [0.0, 0.0, 0.0]
    tensor = aj.tensor(x, requires_grad=True)
    np.sum(function(tensor)).backward()
    assert tensor.grad.tolist() == [0.0, 0.0, 0.0]
    second = aj.hessian(total)(x)
    if "var" in name:
        assert np.isfinite(second).all()
        assert np.any(second != 0.0)
    else:
        assert second.tolist() == np.zeros((3, 3)).tolist()


@pytest.mark.parametrize("p", [0.5, 1.5, 3.5, math.inf])
def test_the_norm_of_a_tensor_has_them_too(p: float) -> None:
    for zero in ([0.0, 0.0], [0.0, 3.0]):
        tensor = aj.tensor(zero, requires_grad=True)
        tensor.norm(p).backward()
        assert tensor.grad.tolist() == pytest.approx([0.0, 1.0 if zero[1] else 0.0], rel=1e-6)
    tensor = aj.tensor([2.0, 2.0], requires_grad=True)
    tensor.std().backward()
    assert tensor.grad.tolist() == [0.0, 0.0]


def test_the_norm_of_nothing_is_that_of_numpy() -> None:
    for ord in (None, 1, 3.5):
        assert aj.compile(lambda x, ord=ord: np.linalg.norm(x, ord))(np.zeros(0)) == 0.0
    assert aj.compile(lambda x: np.linalg.norm(x, np.inf))(np.zeros(0)) == 0.0
