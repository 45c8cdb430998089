"""adjit.nn.functional against formulas in plain NumPy, and its derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from math import erf
from typing import Any

import numpy as np
import pytest
from support.nn_checks import Case, check_derivative, check_kernels, check_second_derivative, check_value

import adjit as aj
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
    "mse_loss none": (lambda x, y: F.mse_loss(x, y, "none"), lambda x, y: (x - y) ** 2, (X, RNG.standard_normal((4, 5)))),
    "l1_loss": (lambda x, y: F.l1_loss(x, y, "sum"), lambda x, y: np.abs(x - y).sum(), (X, RNG.standard_normal((4, 5)))),
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
        lambda x, t, w, p: F.binary_cross_entropy_with_logits(x, t, w, "sum", p),
        lambda x, t, w, p: -(w * (p * t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x))))).sum(),
        (X, PROBABILITIES, WEIGHT, np.abs(BIAS))),
    "kl_div": (lambda x, t: F.kl_div(x, t, "batchmean"), lambda x, t: (t * (np.log(t) - x)).sum() / 4, (X, PROBABILITIES)),
    "kl_div log": (lambda x, t: F.kl_div(x, t, log_target=True), lambda x, t: (np.exp(t) * (t - x)).mean(), (X, Y)),
    "binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits,
        lambda x, t: -(t * np.log(1 / (1 + np.exp(-x))) + (1 - t) * np.log(1 / (1 + np.exp(x)))).mean(), (X, PROBABILITIES)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_value_on_plain_arrays_and_compiled(name: str, dtype: type) -> None:
    check_value(CASES[name], dtype)


@pytest.mark.parametrize("name", CASES)
def test_derivative_against_finite_differences(name: str) -> None:
    check_derivative(CASES[name])


@pytest.mark.parametrize("name", CASES)
def test_second_derivative_against_finite_differences(name: str) -> None:
    check_second_derivative(CASES[name])


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_kernels_agree_with_the_interpreter(dtype: type) -> None:
    check_kernels({name: case for name, case in CASES.items() if name != "cross_entropy map"}, dtype)


def derivative(function: Callable[[Any], Any], at: float) -> float:
    return float(aj.grad(function)(np.float64(at)))


def test_relu_at_the_kink_and_nan() -> None:
    assert derivative(F.relu, 0.0) == 0.0
    assert derivative(F.relu, -0.0) == 0.0
    assert derivative(F.relu, 1e-300) == 1.0
    np.testing.assert_array_equal(F.relu(np.array([np.nan, -np.inf, np.inf])), [np.nan, 0.0, np.inf])


def test_extreme_arguments_are_stable() -> None:
    huge = np.array([-1e4, 0.0, 1e4])
    np.testing.assert_array_equal(F.sigmoid(huge), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(F.softplus(huge), [0.0, np.log(2), 1e4])
    np.testing.assert_array_equal(F.softmax(huge), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(F.log_softmax(huge), [-2e4, -1e4, 0.0])
    assert F.logsumexp(huge) == 1e4
    assert F.logsumexp(np.full(3, -np.inf)) == -np.inf
    assert F.cross_entropy(huge, np.array(0)) == 2e4
    assert F.binary_cross_entropy_with_logits(huge, np.array([0.0, 0.0, 1.0]), reduction="sum") == np.log(2)
    for function in (F.sigmoid, F.softplus, F.softmax, F.log_softmax, F.silu, F.gelu, lambda x: F.cross_entropy(x, np.array(0))):
        assert np.isfinite(aj.grad(lambda x, f=function: np.sum(f(x)))(huge)).all()
    np.testing.assert_allclose(aj.grad(lambda x: np.sum(F.softplus(x)))(huge), [0.0, 0.5, 1.0])


def test_softplus_is_exact_at_the_threshold() -> None:
    assert derivative(lambda x: F.softplus(x, threshold=1.0), 1.0) == pytest.approx(1 / (1 + np.exp(-1.0)))


@pytest.mark.parametrize("label", [-1, 5])
def test_label_out_of_range_is_nan_there_only_where_it_is_compiled(label: int) -> None:
    labels = np.array([0, label, 2, 2])
    loss = aj.compile(lambda x, labels: F.cross_entropy(x, labels, reduction="none"))(X, labels)
    assert np.isnan(loss).tolist() == [False, True, False, False]
    assert np.isnan(aj.compile(F.nll_loss)(X, labels))


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64])
def test_one_hot(dtype: type) -> None:
    np.testing.assert_array_equal(F.one_hot(np.array([[1], [0]], dtype), 3), np.eye(3)[[[1], [0]]])
    assert F.one_hot(np.array([1], dtype), 3).dtype == np.int64
    assert F.one_hot(np.array([1], dtype), 3, np.float32).dtype == np.float32
    np.testing.assert_array_equal(aj.compile(lambda labels: F.one_hot(labels, 3))(np.array([9], dtype)), np.zeros((1, 3)))
    assert F.one_hot(np.zeros((0, 2), dtype), 3).shape == (0, 2, 3)


def test_integer_target_of_mse_keeps_the_dtype() -> None:
    assert F.mse_loss(np.ones(3, np.float32), np.arange(3)).dtype == np.float32


def test_dropout() -> None:
    x = np.ones(20000, np.float32)
    out = F.dropout(x, 0.25, key=aj.random.key(1))
    assert out.dtype == np.float32
    np.testing.assert_allclose(out[out != 0], 1 / 0.75, rtol=1e-6)
    assert abs((out == 0).mean() - 0.25) < 0.015
    np.testing.assert_array_equal(F.dropout(x, 0.0, key=aj.random.key(1)), x)
    np.testing.assert_array_equal(F.dropout(x, 1.0, key=aj.random.key(1)), 0 * x)
    gradient = aj.grad(lambda x: np.sum(F.dropout(x, 0.25, key=aj.random.key(1))))(x)
    np.testing.assert_array_equal(gradient, out)


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: F.relu(np.arange(3)), aj.errors.DTypeError, "relu takes floating-point arrays, got int64"),
    (lambda: F.gelu(X, "fast"), ValueError, "'none' or 'tanh'"),
    (lambda: F.layer_norm(X, 4), aj.errors.ShapeError, r"normalized_shape \(4,\) is not the end of the shape \(4, 5\)"),
    (lambda: F.layer_norm(X, 5, np.ones(4)), aj.errors.ShapeError, r"weight has shape \(4,\), it has to be \(5,\)"),
    (lambda: F.cross_entropy(X, np.zeros(3, int)), aj.errors.ShapeError, r"labels of scores \(4, 5\) have shape \(4,\), got \(3,\)"),
    (lambda: F.cross_entropy(X, np.ones((4, 4))), aj.errors.ShapeError, r"probabilities, and has the shape of the input, \(4, 5\)"),
    (lambda: F.cross_entropy(X, np.zeros(4, bool)), aj.errors.DTypeError, "labels are integers, got bool"),
    (lambda: F.cross_entropy(np.float64(1.0), np.array(0)), aj.errors.ShapeError, r"got \(\)"),
    (lambda: F.cross_entropy(X, LABELS, reduction="average"), ValueError, "reduction is 'mean', 'sum' or 'none', got 'average'"),
    (lambda: F.cross_entropy(X, LABELS, label_smoothing=2.0), ValueError, "label_smoothing lies in"),
    (lambda: F.mse_loss(np.ones((4, 1)), np.ones(4)), aj.errors.ShapeError, r"prediction has shape \(4, 1\), the target \(4,\)"),
    (lambda: F.dropout(X, 1.5, key=aj.random.key(0)), ValueError, "p lies in"),
    (lambda: F.dropout(X, 0.5, key=3), aj.errors.DTypeError, r"make one with adjit.random.key"),
    (lambda: F.one_hot(X, 3), aj.errors.DTypeError, "labels are integers"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()
