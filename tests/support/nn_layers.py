"""Layers of adjit.nn.functional with loops in plain NumPy: convolutions, pooling, normalisations, attention."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import ceil
from typing import Any

import numpy as np
from support.nn_checks import Case
from support.nn_functions import normalised

from adjit.nn import functional as F

RNG = np.random.default_rng(0)


def normal(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape)


def convolved(x: np.ndarray, w: np.ndarray, b: np.ndarray | float = 0.0, stride: tuple[int, int] = (1, 1),
              padding: tuple[tuple[int, int], tuple[int, int]] = ((0, 0), (0, 0)), dilation: tuple[int, int] = (1, 1),
              groups: int = 1) -> np.ndarray:
    """Compute every output element separately: the sum over one window of one group of channels."""
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
    """Apply `function` to the elements of each window that lie in the image."""
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
