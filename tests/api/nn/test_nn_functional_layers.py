"""Layers of adjit.nn.functional against loops in plain NumPy, and their derivatives against finite differences."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import ceil
from typing import Any

import numpy as np
import pytest
from support.nn_checks import Case, check_derivative, check_kernels, check_second_derivative, check_value

import adjit as aj
from adjit.nn import functional as F

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray | float = 0.0, stride: tuple[int, int] = (1, 1),
              padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)), dilation: tuple[int, int] = (1, 1),
              groups: int = 1) -> np.ndarray:
    """Every output element on its own: the sum over one window of one group of channels."""
    x = np.pad(x, ((0, 0), (0, 0), *padding))
    outputs, per_group, *sizes = w.shape
    counts = [(length - d * (size - 1) - 1) // s + 1 for length, size, s, d in zip(x.shape[2:], sizes, stride, dilation, strict=True)]
    y = np.zeros((len(x), outputs, *counts))
    for o, i, j in product(range(outputs), *map(range, counts)):
        first = o // (outputs // groups) * per_group
        rows, columns = (slice(at * s, at * s + d * (size - 1) + 1, d)
                         for at, s, d, size in zip((i, j), stride, dilation, sizes, strict=True))
        y[:, o, i, j] = (x[:, first:first + per_group, rows, columns] * w[o]).sum((1, 2, 3))
    return y + np.reshape(b, (-1, 1, 1))


def pooled(x: np.ndarray, function: Callable[..., Any], size: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int] = (0, 0),
           ceil_mode: bool = False) -> np.ndarray:
    """`function` of the elements of each window that lie in the image."""
    rounded = ceil if ceil_mode else int
    counts = [rounded((length + 2 * p - k) / s) + 1 for length, k, s, p in zip(x.shape[2:], size, stride, padding, strict=True)]
    y = np.zeros((*x.shape[:2], *counts))
    for i, j in product(*map(range, counts)):
        rows, columns = (slice(max(at * s - p, 0), at * s - p + k) for at, s, p, k in zip((i, j), stride, padding, size, strict=True))
        y[:, :, i, j] = function(x[:, :, rows, columns], axis=(2, 3))
    return y


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: Any = True, scale: float | None = None) -> np.ndarray:
    weights = np.where(mask, np.exp(q @ np.swapaxes(k, -1, -2) * (scale or q.shape[-1] ** -0.5)), 0.0)
    return weights / np.maximum(weights.sum(-1, keepdims=True), 1e-300) @ v


def normalised(x: np.ndarray, axes: tuple[int, ...], eps: float = 1e-5) -> np.ndarray:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


IMAGE, SMALL = normal(2, 4, 6, 5), normal(2, 3, 5, 7)
LINE = normal(2, 4, 9)
ROWS = np.array([[2, 0], [2, 1]])
QKV = (normal(2, 4, 3), normal(2, 5, 3), normal(2, 5, 2))
MASK = RNG.random((4, 5)) < 0.5
MASK[0], MASK[1] = True, False
CHANNELS = [normal(4), normal(4)]

CASES: dict[str, Case] = {
    "linear": (F.linear, lambda x, w, b: x @ w.T + b, (normal(2, 3, 4), normal(5, 4), normal(5))),
    "linear without bias": (F.linear, lambda x, w: w @ x, (normal(4), normal(5, 4))),
    "conv2d": (F.conv2d, convolved, (IMAGE, normal(3, 4, 2, 3), normal(3))),
    "conv2d stride": (lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2)),
                      lambda x, w: convolved(x, w, 0.0, (2, 1), ((1, 1), (2, 2))), (IMAGE, normal(2, 4, 3, 3))),
    "conv2d groups": (lambda x, w, b: F.conv2d(x, w, b, dilation=2, padding="same", groups=2),
                      lambda x, w, b: convolved(x, w, b, (1, 1), ((1, 1), (2, 2)), (2, 2), 2), (IMAGE, normal(6, 2, 2, 3), normal(6))),
    "conv2d with few windows": (lambda x, w, b: F.conv2d(x, w, b, padding=(0, 1)),
                                lambda x, w, b: convolved(x, w, b, padding=((0, 0), (1, 1))),
                                (IMAGE, normal(4, 4, 6, 5), normal(4))),
    "conv2d with few windows in groups": (lambda x, w: F.conv2d(x, w, groups=2), lambda x, w: convolved(x, w, groups=2),
                                          (IMAGE, normal(6, 2, 5, 4))),
    "conv2d same": (lambda x, w: F.conv2d(x, w, padding="same"), lambda x, w: convolved(x, w, 0.0, (1, 1), ((0, 1), (1, 2))),
                    (IMAGE, normal(2, 4, 2, 4))),
    "conv2d of a point": (lambda x, w: F.conv2d(x, w, padding=1), lambda x, w: convolved(x, w, 0.0, (1, 1), ((1, 1), (1, 1))),
                          (normal(1, 1, 1, 1), normal(1, 1, 3, 3))),
    "conv2d of one image": (F.conv2d, lambda x, w, b: convolved(x[None], w, b)[0], (IMAGE[0], normal(3, 4, 1, 1), normal(3))),
    "conv1d": (lambda x, w, b: F.conv1d(x, w, b, stride=2, padding=1),
               lambda x, w, b: convolved(x[:, :, None], w[:, :, None], b, (1, 2), ((0, 0), (1, 1)))[:, :, 0],
               (LINE, normal(3, 4, 3), normal(3))),
    "unfold": (lambda x, w: np.matmul(w, F.unfold(x, (2, 3), stride=2)).reshape(2, 3, 3, 2),
               lambda x, w: convolved(x, w.reshape(3, 4, 2, 3), 0.0, (2, 2)), (IMAGE, normal(3, 24))),
    "max_pool2d": (lambda x: F.max_pool2d(x, 2), lambda x: pooled(x, np.max, (2, 2), (2, 2)), (SMALL,)),
    "max_pool2d overlapping": (lambda x: F.max_pool2d(x, 3, (2, 1), 1), lambda x: pooled(x, np.max, (3, 3), (2, 1), (1, 1)), (SMALL,)),
    "max_pool2d ceil": (lambda x: F.max_pool2d(x, 2, ceil_mode=True),
                        lambda x: pooled(x, np.max, (2, 2), (2, 2), ceil_mode=True), (SMALL,)),
    "avg_pool2d": (lambda x: F.avg_pool2d(x, (2, 3)), lambda x: pooled(x, np.mean, (2, 3), (2, 3)), (SMALL,)),
    "avg_pool2d padded": (lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: pooled(x, np.sum, (3, 3), (2, 2), (1, 1)) / 9, (SMALL,)),
    "avg_pool2d of the image": (lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
                                lambda x: pooled(x, np.mean, (3, 3), (2, 2), (1, 1)), (SMALL,)),
    "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, (None, 3)), lambda x: np.stack(
        [x[..., 0:3].mean(-1), x[..., 2:5].mean(-1), x[..., 4:7].mean(-1)], -1), (SMALL,)),
    "adaptive_avg_pool2d to 1": (lambda x: F.adaptive_avg_pool2d(x, 1), lambda x: x.mean((2, 3), keepdims=True), (SMALL,)),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True),
                   lambda x, w, b: normalised(x, (0, 2)) * w[:, None] + b[:, None], (LINE, *CHANNELS)),
    "batch_norm running": (lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b, eps=0.1),
                           lambda x, m, v, w, b: (x - m) / np.sqrt(v + 0.1) * w + b, (normal(3, 4), normal(4), normal(4) ** 2, *CHANNELS)),
    "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b),
                   lambda x, w, b: normalised(x.reshape(2, 2, -1), (2,)).reshape(x.shape) * w[:, None] + b[:, None], (LINE, *CHANNELS)),
    "embedding": (lambda w: F.embedding(ROWS, w), lambda w: np.stack([[w[2], w[0]], [w[2], w[1]]]), (normal(4, 3),)),
    "attention": (F.scaled_dot_product_attention, attended, QKV),
    "attention scale": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3),
                        lambda q, k, v: attended(q, k, v, scale=0.3), QKV),
    "attention causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                         lambda q, k, v: attended(q, k, v, np.tri(4, 5, dtype=bool)), QKV),
    "attention mask": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, MASK), lambda q, k, v: attended(q, k, v, MASK), QKV),
    "attention bias": (lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
                       lambda q, k, v, m: attended(np.concatenate([q * 3 ** -0.5, m], -1), np.concatenate(
                           [k, np.broadcast_to(np.eye(5), (2, 5, 5))], -1), v, scale=1.0), (*QKV, normal(2, 4, 5))),
    "pad": (lambda x: F.pad(x, (1, -2, 0, 3), value=0.5), lambda x: np.pad(x, ((0, 0), (0, 3), (1, 0)), constant_values=0.5)[..., :-2],
            (LINE,)),
    "pad reflect": (lambda x: F.pad(x, (2, 1), mode="reflect"), lambda x: np.pad(x, ((0, 0), (0, 0), (2, 1)), mode="reflect"), (LINE,)),
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
    check_kernels(CASES, dtype)


def gradient(function: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    return aj.compile(aj.grad(lambda x: np.sum(function(x))), backend="interpret")(x)


def test_a_tie_in_a_window_goes_to_the_first_element() -> None:
    """In C order, as PyTorch chooses; also where the largest number is in the last row first."""
    x = np.array([[[1.0, 2.0, 0.0, 5.0], [2.0, 2.0, 5.0, 0.0]]])
    assert gradient(lambda x: F.max_pool2d(x, 2), x).tolist() == [[[0, 1, 0, 1], [0, 0, 0, 0]]]
    assert gradient(lambda x: F.max_pool2d(x, (2, 4)), np.zeros((1, 2, 4))).tolist() == [[[1, 0, 0, 0], [0, 0, 0, 0]]]


def test_nan_in_a_window_is_not_lost() -> None:
    for place in range(4):
        x = np.zeros(4)
        x[place] = np.nan
        assert np.isnan(F.max_pool2d(x.reshape(1, 2, 2), 2)).all()
        assert gradient(lambda x: F.max_pool2d(x, 2), x.reshape(1, 2, 2)).reshape(4).tolist() == [i == place for i in range(4)]


def test_padding_of_max_pool_is_no_element() -> None:
    assert F.max_pool2d(np.full((1, 1, 1), -3.0), 3, 1, 1).tolist() == [[[-3.0]]]
    assert gradient(lambda x: F.max_pool2d(x, 2, 1, 1), np.full((1, 1, 1), -3.0)).tolist() == [[[4.0]]]


@pytest.mark.parametrize(("call", "shape"), [
    (lambda: F.conv2d(np.zeros((0, 4, 6, 5)), normal(3, 4, 2, 2), normal(3)), (0, 3, 5, 4)),
    (lambda: F.conv1d(np.zeros((0, 4, 6)), normal(2, 2, 2), groups=2), (0, 2, 5)),
    (lambda: F.max_pool2d(np.zeros((0, 4, 6, 5)), 2), (0, 4, 3, 2)), (lambda: F.avg_pool2d(np.zeros((0, 4, 6, 5)), 2, 2, 1), (0, 4, 4, 3)),
    (lambda: F.adaptive_avg_pool2d(np.zeros((0, 4, 6, 5)), 2), (0, 4, 2, 2)), (lambda: F.linear(np.zeros((0, 4)), normal(3, 4)), (0, 3)),
    (lambda: F.embedding(np.zeros((0, 2), int), normal(3, 4)), (0, 2, 4)), (lambda: F.group_norm(np.zeros((0, 4, 3)), 2), (0, 4, 3)),
    (lambda: F.batch_norm(np.zeros((0, 4)), np.zeros(4), np.ones(4)), (0, 4)),
    (lambda: F.scaled_dot_product_attention(np.zeros((0, 2, 3)), np.zeros((0, 4, 3)), np.zeros((0, 4, 5))), (0, 2, 5)),
    (lambda: F.unfold(np.zeros((0, 4, 6, 5)), 2), (0, 16, 20)),
])
def test_nothing_in_the_batch(call: Callable[[], Any], shape: tuple[int, ...]) -> None:
    assert call().shape == shape


def test_the_row_of_the_padding_has_no_gradient() -> None:
    counts = gradient(lambda w: F.embedding(np.array([0, 2, 2, 1]), w, padding_idx=2), normal(3, 2))
    assert counts.tolist() == [[1, 1], [1, 1], [0, 0]]


def test_an_index_without_a_row() -> None:
    with pytest.raises(IndexError, match="5"):
        F.embedding(np.array([5]), normal(3, 2))


def test_a_row_that_is_masked_out_is_zero_with_gradient_zero() -> None:
    mask = np.array([[True, False], [False, False]])
    q, k, v = normal(2, 3), normal(2, 3), normal(2, 4)
    np.testing.assert_array_equal(F.scaled_dot_product_attention(q, k, v, mask), [v[0], np.zeros(4)])
    np.testing.assert_array_equal(gradient(lambda v: F.scaled_dot_product_attention(q, k, v, mask), v), [np.ones(4), np.zeros(4)])
    np.testing.assert_array_equal(gradient(lambda q: F.scaled_dot_product_attention(q, k, v, mask), q), np.zeros((2, 3)))


def test_statistics_of_a_batch() -> None:
    normal_, mean, variance = F.batch_norm_with_statistics(LINE, *CHANNELS)
    np.testing.assert_allclose(normal_, F.batch_norm(LINE, None, None, *CHANNELS, training=True), rtol=1e-14)
    np.testing.assert_allclose(mean, LINE.mean((0, 2)), rtol=1e-13, atol=1e-15)
    np.testing.assert_allclose(variance, LINE.var((0, 2), ddof=1), rtol=1e-13)


def test_dropout_of_attention_weights() -> None:
    q, v = np.zeros((1, 2)), np.eye(1000)
    key = aj.random.key(3)
    out = F.scaled_dot_product_attention(q, np.zeros((1000, 2)), v, dropout_p=0.25, dropout_key=key)
    np.testing.assert_allclose(out, F.dropout(np.full((1, 1000), 1e-3), 0.25, key=key), rtol=1e-12)
    assert 0.2 < (out == 0).mean() < 0.3


@pytest.mark.parametrize(("call", "error", "words"), [
    (lambda: F.linear(normal(2, 3), normal(5, 4)), aj.errors.ShapeError, r"x of shape \(2, 3\) does not fit to a weight of shape \(5, 4\)"),
    (lambda: F.linear(normal(2, 4), normal(5, 4), normal(4)), aj.errors.ShapeError, r"bias has shape \(4,\), it has to be \(5,\)"),
    (lambda: F.linear(np.ones((2, 4), int), normal(5, 4)), aj.errors.DTypeError, "linear takes floating-point arrays, got int64"),
    (lambda: F.conv2d(IMAGE, normal(3, 3, 2, 2)), aj.errors.ShapeError, r"4 channels in 1 groups .* weight of shape \(3, 3, 2, 2\)"),
    (lambda: F.conv1d(LINE, normal(3, 2, 2), groups=2), aj.errors.ShapeError, "both numbers of channels divide into the groups"),
    (lambda: F.conv2d(IMAGE, normal(3, 1, 2, 2), groups=4), aj.errors.ShapeError, "4 channels in 4 groups"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 2)), aj.errors.ShapeError, r"weight has 4 axes"),
    (lambda: F.conv2d(normal(4, 4), normal(3, 4, 2, 2)), aj.errors.ShapeError, r"takes shape \(N, C, H, W\) or \(C, H, W\), got \(4, 4\)"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 7, 2)), aj.errors.ShapeError, "a window of 7 elements does not fit into an axis of 6"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 2, 2), padding="full"), ValueError, "'same', 'valid' or numbers, got 'full'"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 2, 2), padding="same", stride=2), ValueError, "padding='same' is for stride 1"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 2, 2), stride=0), ValueError, "stride is an integer, or one for each of the 2 axes, at least 1"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 2, 2), padding=(1, 2, 3)), ValueError, r"padding is an integer.*got \(1, 2, 3\)"),
    (lambda: F.conv2d(IMAGE, normal(3, 4, 2, 2), normal(2)), aj.errors.ShapeError, r"bias has shape \(2,\), it has to be \(3,\)"),
    (lambda: F.conv2d(IMAGE.astype(int), normal(3, 4, 2, 2)), aj.errors.DTypeError, "conv2d takes floating-point arrays"),
    (lambda: F.max_pool2d(IMAGE, 2, padding=2), ValueError, "padding is at most half of the window"),
    (lambda: F.max_pool2d(normal(3, 3), 2), aj.errors.ShapeError, r"max_pool2d takes images .* got \(3, 3\)"),
    (lambda: F.avg_pool2d(IMAGE, 9), aj.errors.ShapeError, "a window of 9 elements"),
    (lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0), ValueError, "divisor_override is not 0"),
    (lambda: F.adaptive_avg_pool2d(IMAGE, 0), ValueError, "output_size is a positive number"),
    (lambda: F.batch_norm(IMAGE), ValueError, "running_mean and running_var"),
    (lambda: F.batch_norm(IMAGE, np.zeros(3), np.ones(4)), aj.errors.ShapeError, r"running_mean has shape \(3,\), it has to be \(4,\)"),
    (lambda: F.batch_norm(normal(1, 4), training=True), aj.errors.ShapeError, "one value a channel has no variance"),
    (lambda: F.batch_norm(normal(4)), aj.errors.ShapeError, r"takes arrays of shape \(N, C\)"),
    (lambda: F.group_norm(IMAGE, 3), aj.errors.ShapeError, "4 channels do not divide into 3 groups"),
    (lambda: F.normalize(IMAGE, p=0.0), ValueError, "p is positive"),
    (lambda: F.embedding(np.zeros(3), normal(3, 2)), aj.errors.DTypeError, "embedding: indices are integers, got float64"),
    (lambda: F.embedding(ROWS, normal(3)), aj.errors.ShapeError, r"weight has shape \(rows, features\)"),
    (lambda: F.embedding(ROWS, normal(3, 2), padding_idx=3), ValueError, "padding_idx 3 is no row"),
    (lambda: F.scaled_dot_product_attention(normal(2, 3), normal(2, 4), normal(2, 4)), aj.errors.ShapeError, "do not fit"),
    (lambda: F.scaled_dot_product_attention(*QKV, np.ones((3, 5), bool)), aj.errors.ShapeError, r"attn_mask \(3, 5\) does not broadcast"),
    (lambda: F.scaled_dot_product_attention(*QKV, np.ones((4, 5), int)), aj.errors.DTypeError, "attn_mask"),
    (lambda: F.scaled_dot_product_attention(*QKV, MASK, is_causal=True), ValueError, "is_causal makes a mask"),
    (lambda: F.scaled_dot_product_attention(*QKV, dropout_p=2.0), ValueError, r"dropout_p lies in \[0, 1\]"),
    (lambda: F.pad(IMAGE, (1, 2, 3)), ValueError, "two numbers for an axis"),
    (lambda: F.pad(IMAGE, (-3, -3)), aj.errors.ShapeError, "takes more from an axis than its 5 elements"),
    (lambda: F.pad(IMAGE, (1, 1), mode="mirror"), ValueError, "mode is one of 'constant'"),
    (lambda: F.softmax(IMAGE, axis=1, dim=1), TypeError, "dim and axis are two names"),
    (lambda: F.cross_entropy(normal(3, 2), np.zeros(3, int), "sum"), TypeError, "reduction='sum' is given by name"),
    (lambda: F.nll_loss(normal(3, 2), np.zeros(3, int), normal(3)), aj.errors.ShapeError, r"weight has shape \(3,\), it has"),
    (lambda: F.binary_cross_entropy_with_logits(IMAGE, IMAGE, normal(3)), ValueError, "broadcast"),
    (lambda: F.binary_cross_entropy_with_logits(IMAGE[0], IMAGE[0], pos_weight=normal(2, 4, 6, 5)), aj.errors.ShapeError, "pos_weight has"),
    (lambda: F.dropout(IMAGE, 0.5, aj.random.key(0)), TypeError, "a key is given by name"),
    (lambda: F.hardtanh(IMAGE, 2.0, 1.0), ValueError, "min_val 2.0 is above max_val 1.0"),
])
def test_errors(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_errors_name_the_users_line() -> None:
    with pytest.raises(aj.errors.ShapeError, match=r"test_nn_functional_layers.py:\d+ in test_errors_name_the_users_line"):
        F.conv2d(IMAGE, normal(3, 3, 2, 2))
