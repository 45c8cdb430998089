"""Layers of adjit.nn.functional where they are special: ties, NaN, padding, nothing in the batch, masks; and their errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.nn_layers import CHANNELS, IMAGE, LINE, MASK, QKV, ROWS, normal

import adjit as aj
from adjit.nn import functional as F


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
    (lambda: F.avg_pool2d(IMAGE, 2, divisor_override=0), ValueError, "divisor_override is 0: leave it out"),
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
    (lambda: F.scaled_dot_product_attention(*QKV, MASK, is_causal=True), ValueError, "is_causal=True makes a mask of its own"),
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
