"""Functions of adjit.nn.functional with formulas in plain NumPy: activations, normalisations and losses."""

from __future__ import annotations

from math import erf

import numpy as np
from support.nn_checks import Case

from adjit.nn import functional as F

RNG = np.random.default_rng(0)
X = RNG.standard_normal((4, 5)) * 3
LABELS = np.array([0, 4, 2, 2])
PROBABILITIES = RNG.dirichlet(np.ones(5), 4)
Y = RNG.standard_normal((4, 5))
WEIGHT, BIAS = RNG.standard_normal(5), RNG.standard_normal(5)


def log_softmax(x: np.ndarray, axis: int = -1) -> np.ndarray:
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def normalised(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


CASES: dict[str, Case] = {
    "relu": (F.relu, lambda x: np.maximum(x, 0), (X,)),
    "gelu": (F.gelu, lambda x: x * 0.5 * (1 + np.vectorize(erf)(x / np.sqrt(2))), (X,)),
    "gelu tanh": (lambda x: F.gelu(x, approximate="tanh"),
                  lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3))), (X,)),
    "sigmoid": (F.sigmoid, lambda x: 1 / (1 + np.exp(-x)), (X,)),
    "silu": (F.silu, lambda x: x / (1 + np.exp(-x)), (X,)),
    "softplus": (F.softplus, lambda x: np.log1p(np.exp(x)), (X,)),
    "softplus beta": (lambda x: F.softplus(x, beta=2.5, threshold=4.0),
                      lambda x: np.where(2.5 * x > 4, x, np.log1p(np.exp(2.5 * x)) / 2.5), (X,)),
    "tanh": (F.tanh, np.tanh, (X,)),
    "elu": (lambda x: F.elu(x, alpha=0.7), lambda x: np.where(x > 0, x, 0.7 * (np.exp(x) - 1)), (X,)),
    "selu": (F.selu, lambda x: 1.0507009873554804934 * np.where(x > 0, x, 1.6732632423543772848 * (np.exp(x) - 1)), (X,)),
    "leaky_relu": (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x), (X,)),
    "relu6": (F.relu6, lambda x: np.clip(x, 0, 6), (2 * X,)),
    "hardtanh": (lambda x: F.hardtanh(x, -2.0, 0.5), lambda x: np.clip(x, -2, 0.5), (X,)),
    "softsign": (F.softsign, lambda x: x / (1 + np.abs(x)), (X,)),
    "logsigmoid": (F.logsigmoid, lambda x: -np.log(1 + np.exp(-x)), (X,)),
    "softmax dim": (lambda x: F.softmax(x, dim=0), lambda x: np.exp(log_softmax(x, 0)), (X,)),
    "normalize": (F.normalize, lambda x: x / np.sqrt((x ** 2).sum(1, keepdims=True)), (X,)),
    "normalize p": (lambda x: F.normalize(x, 3.0, 0), lambda x: x / (np.abs(x) ** 3).sum(0) ** (1 / 3), (X,)),
    "softmax": (F.softmax, lambda x: np.exp(log_softmax(x)), (X,)),
    "softmax axis 0": (lambda x: F.softmax(x, axis=0), lambda x: np.exp(log_softmax(x, 0)), (X,)),
    "log_softmax": (F.log_softmax, log_softmax, (X,)),
    "logsumexp": (F.logsumexp, lambda x: np.log(np.exp(x).sum()), (X,)),
    "logsumexp axis": (lambda x: F.logsumexp(x, axis=0, keepdims=True), lambda x: np.log(np.exp(x).sum(0, keepdims=True)), (X,)),
    "layer_norm": (lambda x: F.layer_norm(x, 5), lambda x: normalised(x, (1,)), (X,)),
    "layer_norm affine": (lambda x, w, b: F.layer_norm(x, (5,), w, b, eps=1e-3), lambda x, w, b: normalised(x, (1,), 1e-3) * w + b,
                          (X, WEIGHT, BIAS)),
    "layer_norm 2d": (lambda x: F.layer_norm(x, (4, 5)), lambda x: normalised(x, (0, 1)), (X,)),
    "cross_entropy": (lambda x: F.cross_entropy(x, LABELS), lambda x: -log_softmax(x)[np.arange(4), LABELS].mean(), (X,)),
    "cross_entropy sum": (lambda x: F.cross_entropy(x, LABELS, reduction="sum"),
                              lambda x: -log_softmax(x)[np.arange(4), LABELS].sum(), (X,)),
    "cross_entropy none": (lambda x: F.cross_entropy(x, LABELS, reduction="none"), lambda x: -log_softmax(x)[np.arange(4), LABELS], (X,)),
    "cross_entropy one": (lambda x: F.cross_entropy(x, np.int32(3)), lambda x: -log_softmax(x)[3], (X[0],)),
    "cross_entropy smooth": (
        lambda x: F.cross_entropy(x, LABELS, label_smoothing=0.2),
        lambda x: -(log_softmax(x) * (0.8 * np.eye(5)[LABELS] + 0.2 / 5)).sum(1).mean(), (X,)),
    "cross_entropy probabilities": (
        lambda x, p: F.cross_entropy(x, p, label_smoothing=0.1), lambda x, p: -(log_softmax(x) * (0.9 * p + 0.1 / 5)).sum(1).mean(),
        (X, PROBABILITIES)),
    "cross_entropy map": (
        lambda x: F.cross_entropy(x, LABELS.reshape(2, 2)),
        lambda x: -np.take_along_axis(log_softmax(x, 1), LABELS.reshape(2, 1, 2), 1).mean(), (RNG.standard_normal((2, 5, 2)),)),
    "nll_loss": (lambda x: F.nll_loss(x, LABELS), lambda x: -x[np.arange(4), LABELS].mean(), (X,)),
    "mse_loss": (F.mse_loss, lambda x, y: ((x - y) ** 2).mean(), (X, RNG.standard_normal((4, 5)))),
    "mse_loss none": (lambda x, y: F.mse_loss(x, y, reduction="none"), lambda x, y: (x - y) ** 2, (X, RNG.standard_normal((4, 5)))),
    "l1_loss": (lambda x, y: F.l1_loss(x, y, reduction="sum"), lambda x, y: np.abs(x - y).sum(), (X, RNG.standard_normal((4, 5)))),
    "cross_entropy weighted": (
        lambda x, w: F.cross_entropy(x, LABELS, w, ignore_index=4),
        lambda x, w: -(w[LABELS] * log_softmax(x)[np.arange(4), LABELS])[[0, 2, 3]].sum() / (w[0] + 2 * w[2]), (X, PROBABILITIES[0])),
    "nll_loss weighted": (lambda x, w: F.nll_loss(x, LABELS, w, reduction="none"), lambda x, w: -w[LABELS] * x[np.arange(4), LABELS],
                          (X, PROBABILITIES[0])),
    "smooth_l1_loss": (lambda x, y: F.smooth_l1_loss(x, y, beta=2.0),
                       lambda x, y: np.where(abs(x - y) < 2, (x - y) ** 2 / 4, abs(x - y) - 1).mean(), (X, Y)),
    "huber_loss": (lambda x, y: F.huber_loss(x, y, "sum", delta=2.0),
                   lambda x, y: np.where(abs(x - y) < 2, (x - y) ** 2 / 2, 2 * (abs(x - y) - 1)).sum(), (X, Y)),
    "binary_cross_entropy": (
        lambda p, t, w: F.binary_cross_entropy(p, t, w), lambda p, t, w: -(w * (t * np.log(p) + (1 - t) * np.log(1 - p))).mean(),
        (PROBABILITIES[:, ::-1].copy(), PROBABILITIES, WEIGHT)),
    "binary_cross_entropy_with_logits weighted": (
        lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, reduction="sum", pos_weight=p),
        lambda x, t, w, p: -(w * (p * t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x))))).sum(),
        (X, PROBABILITIES, WEIGHT, np.abs(BIAS))),
    "kl_div": (lambda x, t: F.kl_div(x, t, reduction="batchmean"), lambda x, t: (t * (np.log(t) - x)).sum() / 4, (X, PROBABILITIES)),
    "kl_div log": (lambda x, t: F.kl_div(x, t, log_target=True), lambda x, t: (np.exp(t) * (t - x)).mean(), (X, Y)),
    "binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits,
        lambda x, t: -(t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x)))).mean(), (X, PROBABILITIES)),
}
