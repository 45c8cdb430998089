"""Scaled dot-product attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import ArgumentError
from adjit.ir.types import I64, dtype_kind
from adjit.nn.functional.arguments import Array, floating, refuse_shape
from adjit.nn.functional.dropout_layers import drop, new_key
from adjit.tracer.array import as_traced, wrap
from adjit.tracer.dispatch import dispatched
from adjit.tracer.lowering import iota
from adjit.tracer.user_location import find_user_location


def scaled_dot_product_attention(query: Array, key: Array, value: Array, attn_mask: Array | None = None, dropout_p: float = 0.0,
                                 is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *,
                                 dropout_key: Array | None = None) -> Array:
    """`softmax(query @ key.T * scale) @ value` over the last two axes: (..., L, E), (..., S, E), (..., S, V) to (..., L, V).

    `scale` is `1 / sqrt(E)` by default. In a bool `attn_mask` True includes an element; an `attn_mask` of floats is added to the scores; a
    row without included elements gives zeros. With `is_causal` row i sees the elements up to i. `dropout_p` is the probability to drop a
    weight, as `dropout` does it with `dropout_key`. With `enable_gqa` each head (the third axis from the end) of key and value serves
    several neighbouring heads of the query. Raises `ShapeError` if the shapes do not fit.
    Source: Vaswani et al., Attention Is All You Need, arXiv:1706.03762; Ainslie et al., GQA, arXiv:2305.13245.

    >>> scaled_dot_product_attention(np.zeros((2, 1)), np.zeros((2, 1)), np.array([[1.0], [3.0]]), is_causal=True)
    array([[1.],
           [2.]])
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise ArgumentError(f"scaled_dot_product_attention: dropout_p lies in [0, 1], got {dropout_p}", find_user_location())
    if dropout_p > 0.0 and dropout_key is None:
        dropout_key = new_key("scaled_dot_product_attention")
    return attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, dropout_key)


@dispatched
def attention(query: Any, key: Any, value: Any, attn_mask: Any, dropout_p: float, is_causal: bool, scale: float | None,
              enable_gqa: bool, dropout_key: Any) -> Any:
    """Compute `scaled_dot_product_attention`, with the key that its dropout needs."""
    query, key, value = (floating(x, f"scaled_dot_product_attention: {name}")
                         for x, name in ((query, "query"), (key, "key"), (value, "value")))
    if min(query.ndim, key.ndim, value.ndim) < 2 or query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        refuse_shape(f"scaled_dot_product_attention: query {query.shape}, key {key.shape} and value {value.shape} do not fit",
                     "query is (..., L, E), key (..., S, E), value (..., S, V)")
    if enable_gqa:
        key, value = (_repeated_heads(each, query) for each in (key, value))
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    scores = (query * scale) @ np.swapaxes(key, -1, -2)
    if is_causal:
        if attn_mask is not None:
            raise ArgumentError("scaled_dot_product_attention: is_causal=True makes a mask of its own: leave out is_causal or attn_mask",
                                find_user_location())
        shape = scores.shape[-2:]
        attn_mask = np.less_equal(wrap(iota(I64, shape, 1)), wrap(iota(I64, shape, 0)))
    weights = attention_weights(scores, attn_mask)
    return (drop(weights, dropout_p, dropout_key) if dropout_p > 0.0 else weights) @ value


def _repeated_heads(x: Any, query: Any) -> Any:
    """Repeat the heads of keys or values for the heads of the query."""
    if min(x.ndim, query.ndim) < 3 or not x.shape[-3] or query.shape[-3] % x.shape[-3]:
        refuse_shape(f"scaled_dot_product_attention: heads of the query {query.shape} do not divide by those of {x.shape}, with enable_gqa")
    return np.repeat(x, query.shape[-3] // x.shape[-3], axis=-3)


def attention_weights(scores: Any, mask: Any | None) -> Any:
    """Softmax of the scores along the last axis; zeros if the mask excludes all elements of a row."""
    if mask is not None:
        mask = as_traced(mask)
        if dtype_kind(mask.dtype) not in "bf":
            floating(mask, "scaled_dot_product_attention: attn_mask (bool: True takes part; floats are added)")
        try:
            fits = np.broadcast_shapes(mask.shape, scores.shape) == scores.shape
        except ValueError:
            fits = False
        if not fits:
            refuse_shape(f"scaled_dot_product_attention: attn_mask {mask.shape} does not broadcast to the scores, {scores.shape}")
        scores = np.where(mask, scores, -np.inf) if mask.dtype.kind == "b" else scores + mask.astype(scores.dtype)
    if not scores.size:
        return scores
    highest = wrap(ops.stop_gradient(np.max(scores, axis=-1, keepdims=True).value))
    if mask is None:
        weights = np.exp(scores - highest)
        return weights / np.sum(weights, axis=-1, keepdims=True)
    weights = np.exp(scores - np.where(highest == -np.inf, 0.0, highest))
    total = np.sum(weights, axis=-1, keepdims=True)
    return weights / np.where(total == 0.0, 1.0, total)
