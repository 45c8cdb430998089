"""Optimisers and schedules that are the same in PyTorch, with what they give there after some steps.

`python tests/support/torch_optimizers.py`, with PyTorch installed, writes `tests/api/pytorch/golden/optimizers.json`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

GOLDEN = Path(__file__).resolve().parent.parent / "api" / "pytorch" / "golden" / "optimizers.json"
RNG = np.random.default_rng(0)
START = [RNG.standard_normal((3, 2)), RNG.standard_normal(4), RNG.standard_normal((5, 2, 3))]
TARGETS = [RNG.standard_normal(array.shape) for array in START]

OPTIMIZERS: list[tuple[str, dict[str, Any]]] = [
    ("NAdam", {}), ("NAdam", {"lr": 0.1, "weight_decay": 0.1}),
    ("NAdam", {"weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True, "momentum_decay": 0.1}),
    ("ASGD", {}), ("ASGD", {"lr": 0.05, "lambd": 0.01, "t0": 3, "weight_decay": 0.1}),
    ("Rprop", {"lr": 0.1, "etas": (0.4, 1.5), "step_sizes": (1e-3, 0.2)}), ("Rprop", {"maximize": True}),
    ("Adafactor", {}), ("Adafactor", {"lr": 0.1, "weight_decay": 0.1, "eps": (1e-10, 1e-2), "d": 2.0}),
    ("Adafactor", {"maximize": True, "beta2_decay": -0.5}),
    ("LBFGS", {}), ("LBFGS", {"lr": 0.1, "history_size": 3}),
    ("LBFGS", {"line_search_fn": "strong_wolfe", "history_size": 2, "max_iter": 7, "lr": 0.5})]
SCHEDULES: list[tuple[str, dict[str, Any]]] = [
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 3}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 3, "step_size_down": 2, "mode": "triangular2"}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.5, "step_size_up": 3, "mode": "exp_range", "gamma": 0.9}),
    ("SWALR", {"swa_lr": 0.05, "anneal_epochs": 4}), ("SWALR", {"swa_lr": 0.05, "anneal_epochs": 3, "anneal_strategy": "linear"})]


def label(case: tuple[str, dict[str, Any]]) -> str:
    return f"{case[0]} {case[1]}"


def loss_of(params: list[Any], library: Any) -> Any:
    return sum(((p - library.tensor(t)) ** 4).sum() + (p * library.tensor(t)).sin().sum() for p, t in zip(params, TARGETS, strict=True))


def optimized(library: Any, name: str, options: dict[str, Any], compiled: bool = False) -> list[float]:
    """Projections of the parameters after some steps."""
    params = [library.tensor(array, requires_grad=True) for array in START]
    optimizer = getattr(library.optim, name)(params, **options)

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of(params, library)
        loss.backward()
        return loss

    def step() -> Any:
        return optimizer.step(closure)

    call = library.compile(step) if compiled else step
    for _ in range(3 if name == "LBFGS" else 8):
        call()
    return [float(p.detach().numpy().ravel() @ np.cos(np.arange(p.numel()))) for p in params]


def scheduled(library: Any, name: str, options: dict[str, Any]) -> list[list[float]]:
    """Learning rates and momenta of 15 steps."""
    optimizer = library.optim.SGD([library.tensor([1.0], requires_grad=True)], lr=0.1, momentum=0.9)
    home = library.optim.swa_utils if name == "SWALR" else library.optim.lr_scheduler
    schedule, found = getattr(home, name)(optimizer, **options), []
    for _ in range(15):
        found.append([schedule.get_last_lr()[0], optimizer.param_groups[0]["momentum"]])
        optimizer.step()
        schedule.step()
    return found


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    results: dict[str, Any] = {label(case): optimized(torch, *case) for case in OPTIMIZERS}
    results |= {label(case): scheduled(torch, *case) for case in SCHEDULES}
    GOLDEN.write_text("{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(each)}" for name, each in results.items()) + "\n}\n")
