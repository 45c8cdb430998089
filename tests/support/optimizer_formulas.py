"""PyTorch's optimisers in plain NumPy, by the formulas of its documentation, for one parameter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

Array = np.ndarray


def sgd(p: Array, grads: Sequence[Array], lr: float = 1e-3, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, maximize: bool = False) -> Iterator[Array]:
    b = None
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        if momentum != 0:
            b = g if b is None else momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        p = p - lr * g
        yield p


def adam(p: Array, grads: Sequence[Array], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
         weight_decay: float = 0.0, amsgrad: bool = False, maximize: bool = False, decoupled: bool = False) -> Iterator[Array]:
    m, v, largest = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for t, g in enumerate(grads, 1):
        g = -g if maximize else g
        if decoupled:
            p = p - lr * weight_decay * p
        else:
            g = g + weight_decay * p
        m = betas[0] * m + (1 - betas[0]) * g
        v = betas[1] * v + (1 - betas[1]) * g ** 2
        largest = np.maximum(largest, v)
        unbiased = (largest if amsgrad else v) / (1 - betas[1] ** t)
        p = p - lr * (m / (1 - betas[0] ** t)) / (np.sqrt(unbiased) + eps)
        yield p


def adamw(p: Array, grads: Sequence[Array], lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8,
          weight_decay: float = 1e-2, amsgrad: bool = False, maximize: bool = False) -> Iterator[Array]:
    return adam(p, grads, lr, betas, eps, weight_decay, amsgrad, maximize, decoupled=True)


def rmsprop(p: Array, grads: Sequence[Array], lr: float = 1e-2, alpha: float = 0.99, eps: float = 1e-8, weight_decay: float = 0.0,
            momentum: float = 0.0, centered: bool = False, maximize: bool = False) -> Iterator[Array]:
    v, mean, b = np.zeros_like(p), np.zeros_like(p), np.zeros_like(p)
    for g in grads:
        g = (-g if maximize else g) + weight_decay * p
        v = alpha * v + (1 - alpha) * g ** 2
        around = v
        if centered:
            mean = alpha * mean + (1 - alpha) * g
            around = v - mean ** 2
        step = g / (np.sqrt(around) + eps)
        if momentum > 0:
            step = b = momentum * b + step
        p = p - lr * step
        yield p


def adagrad(p: Array, grads: Sequence[Array], lr: float = 1e-2, lr_decay: float = 0.0, weight_decay: float = 0.0,
            initial_accumulator_value: float = 0.0, eps: float = 1e-10, maximize: bool = False) -> Iterator[Array]:
    total = np.full_like(p, initial_accumulator_value)
    for t, g in enumerate(grads, 1):
        g = (-g if maximize else g) + weight_decay * p
        total = total + g ** 2
        p = p - lr / (1 + (t - 1) * lr_decay) * g / (np.sqrt(total) + eps)
        yield p


# (class, function, formula, options): every option alone and all at once.
CASES = [
    *(("SGD", "sgd", sgd, options) for options in (
        {}, {"lr": 0.1}, {"lr": 0.1, "momentum": 0.9}, {"lr": 0.1, "momentum": 0.9, "nesterov": True},
        {"lr": 0.1, "momentum": 0.5, "weight_decay": 0.2}, {"lr": 0.1, "momentum": 0.8, "dampening": 0.6},
        {"lr": 0.1, "maximize": True}, {"lr": 0.1, "weight_decay": 0.3},
        {"lr": 0.1, "momentum": 0.8, "dampening": 0.6, "weight_decay": 0.1, "maximize": True})),
    *((name, function, formula, options) for name, function, formula in (("Adam", "adam", adam), ("AdamW", "adamw", adamw))
      for options in (
        {}, {"lr": 0.05}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-4, "weight_decay": 0.3}, {"lr": 0.1, "weight_decay": 0.0},
        {"lr": 0.1, "amsgrad": True}, {"lr": 0.1, "maximize": True}, {"lr": 0.1, "weight_decay": 0.5, "amsgrad": True, "maximize": True})),
    *(("RMSprop", "rmsprop", rmsprop, options) for options in (
        {}, {"lr": 0.05, "alpha": 0.9, "eps": 1e-4}, {"momentum": 0.9}, {"centered": True}, {"weight_decay": 0.2}, {"maximize": True},
        {"momentum": 0.5, "centered": True, "weight_decay": 0.1, "maximize": True})),
    *(("Adagrad", "adagrad", adagrad, options) for options in (
        {}, {"lr": 0.1, "lr_decay": 0.2, "eps": 1e-4}, {"initial_accumulator_value": 0.5}, {"weight_decay": 0.2, "maximize": True})),
]
NAMES = [f"{case[0]} {case[3]}" for case in CASES]
