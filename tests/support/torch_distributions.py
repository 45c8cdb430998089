"""Distributions that are the same in PyTorch, with what they give there: densities, moments, divergences and their gradients.

`python tests/support/torch_distributions.py`, with PyTorch installed, writes `tests/api/pytorch/golden/distributions.json`.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "api" / "pytorch" / "golden" / "distributions.json"
RNG = np.random.default_rng(0)


def positive(*shape: int) -> np.ndarray:
    return RNG.uniform(0.5, 2.5, shape)


def unit(*shape: int) -> np.ndarray:
    return RNG.uniform(0.1, 0.9, shape)


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def counts(most: int) -> np.ndarray:
    return RNG.integers(0, most, (4, 3)).astype(float)


FACTOR, WEIGHTS = real(3, 3), unit(4, 2, 3)
CASES: dict[str, tuple[list[np.ndarray], np.ndarray]] = {
    **{name: ([real(3), positive(3)], real(4, 3)) for name in ("Normal", "Laplace", "Cauchy", "Gumbel")},
    "StudentT": ([positive(3) + 2, real(3), positive(3)], real(4, 3)), "Uniform": ([real(3) - 2, real(3) * 0.1 + 4], unit(4, 3)),
    **{name: ([positive(3)], positive(4, 3)) for name in ("Exponential", "Chi2", "HalfNormal", "HalfCauchy")},
    **{name: ([positive(3), positive(3)], positive(4, 3)) for name in ("Gamma", "Weibull")},
    "Beta": ([positive(3), positive(3)], unit(4, 3)),
    "LogNormal": ([real(3), positive(3)], positive(4, 3)), "Pareto": ([positive(3), positive(3) + 2], positive(4, 3) + 3),
    "Bernoulli": ([unit(3)], counts(2)), "Geometric": ([unit(3)], counts(9)), "Poisson": ([positive(3)], counts(9)),
    "Categorical": ([unit(2, 3)], RNG.integers(0, 3, (4, 2))), "OneHotCategorical": ([unit(2, 3)], np.eye(3)[RNG.integers(0, 3, (4, 2))]),
    "Dirichlet": ([positive(2, 3)], WEIGHTS / WEIGHTS.sum(-1, keepdims=True)),
    "MultivariateNormal": ([real(2, 3), FACTOR @ FACTOR.T + np.eye(3)], real(4, 2, 3))}
"""Parameters and values, by class."""
PROBABILITIES = unit(4, 3)
QUANTITIES = ("log_prob", "entropy", "mean", "variance", "cdf", "icdf", "kl_divergence")


def projected(array: Any) -> float:
    numbers = np.asarray(array.detach().numpy(), float).ravel()
    return float(np.nan_to_num(numbers, nan=0.7, posinf=1e3) @ np.cos(0.3 + np.arange(numbers.size)))


def quantity(library: Any, name: str, what: str, params: list[Any]) -> Any:
    kind, value = getattr(library.distributions, name), CASES[name][1]
    made = kind(*params)
    if what in ("log_prob", "cdf"):
        return getattr(made, what)(library.tensor(value))
    if what == "icdf":
        return made.icdf(library.tensor(PROBABILITIES))
    if what == "kl_divergence":
        return library.distributions.kl_divergence(made, kind(*(library.tensor(array * 0.95) for array in CASES[name][0])))
    return made.entropy() if what == "entropy" else getattr(made, what)


def summary(library: Any, name: str, what: str) -> list[Any]:
    """[shape, projection, projections of the gradients in the parameters]."""
    params = [library.tensor(array, requires_grad=True) for array in CASES[name][0]]
    found = quantity(library, name, what, params)
    if found.requires_grad:
        (found * library.tensor(np.cos(0.3 + np.arange(found.numel())).reshape(tuple(found.shape)))).sum().backward()
    gradients = [param.grad if param.grad is None or param.ndim < 2 or param.shape[-1] != param.shape[-2] else param.grad + param.grad.mT
                 for param in params]       # the gradient of a symmetric matrix, in both triangles
    return [list(found.shape), projected(found), [0.0 if grad is None else projected(grad) for grad in gradients]]


if __name__ == "__main__":
    import torch

    found: dict[str, Any] = {}
    for name in CASES:
        for what in QUANTITIES:
            if what in ("mean", "variance") and name in ("Categorical", "HalfCauchy", "Cauchy"):
                continue        # there are none
            with contextlib.suppress(NotImplementedError, RuntimeError):
                found[f"{name} {what}"] = summary(torch, name, what)
    GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(key)}: {json.dumps(each)}" for key, each in found.items()) + "\n}\n")
