"""Attention as a module: `MultiheadAttention`."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.eager.device import chosen
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError
from adjit.ir.types import dtype_kind
from adjit.nn import functional, init
from adjit.nn.functional.attention import attention_weights
from adjit.nn.linear import Linear, empty_parameter
from adjit.nn.module import Module
from adjit.nn.parameter import Parameter
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location

Array = Any


class MultiheadAttention(Module):
    """Attention in `num_heads` heads of `embed_dim / num_heads` numbers each, between linear layers.

    Parameters: in_proj_weight (3 * embed_dim, embed_dim), or q_proj_weight, k_proj_weight, v_proj_weight if `kdim` or `vdim` differ, all
    Xavier uniform; in_proj_bias, zeros; out_proj, a `Linear` with a bias of zeros; with `add_bias_kv` bias_k and bias_v, (1, 1, embed_dim),
    Xavier normal, a key and a value more. With `add_zero_attn` there is one more key of zeros, with a value of zeros.
    Source: Vaswani et al., Attention Is All You Need, arXiv:1706.03762.

    >>> from adjit.eager.tensor import as_tensor
    >>> x = as_tensor(np.zeros((2, 5, 8), np.float32))
    >>> output, weights = MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> output.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, add_bias_kv: bool = False,
                 add_zero_attn: bool = False, kdim: int | None = None, vdim: int | None = None, batch_first: bool = False,
                 device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        if num_heads < 1 or embed_dim % num_heads:
            raise ArgumentError(f"MultiheadAttention: embed_dim {embed_dim} does not divide into {num_heads} heads", find_user_location())
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self.batch_first = batch_first
        together = self.kdim == self.vdim == embed_dim
        self.register_parameter("in_proj_weight", empty_parameter((3 * embed_dim, embed_dim), dtype) if together else None)
        for name, size in (("q", embed_dim), ("k", self.kdim), ("v", self.vdim)):
            self.register_parameter(f"{name}_proj_weight", None if together else empty_parameter((embed_dim, size), dtype))
        self.register_parameter("in_proj_bias", empty_parameter((3 * embed_dim,), dtype) if bias else None)
        self.out_proj = Linear(embed_dim, embed_dim, bias, dtype=dtype)
        for name in ("bias_k", "bias_v"):
            self.register_parameter(name, empty_parameter((1, 1, embed_dim), dtype) if add_bias_kv else None)
        self.add_zero_attn = add_zero_attn
        self.reset_parameters()
        self.to(device=chosen(device))

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        self.out_proj.reset_parameters()
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(self, query: Tensor, key: Tensor, value: Tensor, key_padding_mask: Array = None, need_weights: bool = True,
                attn_mask: Array = None, average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Any]:
        """Compute the output, (L, N, embed_dim), and the weights, (N, L, S), of query (L, N, embed_dim), key (S, N, kdim), value (S, N,
        vdim).

        With `batch_first` N comes first; all may be without N. In bool masks True excludes an element, masks of floats are added to the
        scores: `attn_mask` (L, S) or (N * num_heads, L, S), `key_padding_mask` (N, S). `is_causal` masks later elements, and replaces an
        `attn_mask`. The weights are averaged over heads, unless `average_attn_weights` is False: (N, num_heads, L, S); None without
        `need_weights`, which is faster. A row whose elements are all excluded has weights of 0.
        """
        batched = query.ndim == 3
        if query.ndim not in (2, 3) or not query.ndim == key.ndim == value.ndim:
            raise ShapeError(f"MultiheadAttention: query, key and value have three dimensions, or two without the batch; got the shapes "
                             f"{query.shape}, {key.shape}, {value.shape}", find_user_location())
        swap = batched and not self.batch_first
        parts = self._project(query, key, value)
        q = _heads(parts[0], self.num_heads, swap)         # (N, heads, length, size)
        k, v = (_heads(part, self.num_heads, swap, more, self.add_zero_attn)
                for part, more in zip(parts[1:], (self.bias_k, self.bias_v), strict=True))
        dropout = self.dropout if self.training else 0.0
        mask = None if attn_mask is None and key_padding_mask is None and not is_causal else _merged_mask(
            None if is_causal else attn_mask, key_padding_mask, q.shape, k.shape[-2], k.shape[-2] - key.shape[-3 if swap else -2], q.dtype,
            is_causal)
        if need_weights:
            weights = _weights(q, k, mask)
            mixed = functional.dropout(weights, dropout) @ v if dropout else weights @ v
        else:
            weights, mixed = None, functional.scaled_dot_product_attention(q, k, v, mask, dropout)
        output = self.out_proj(_joined_heads(mixed, swap, batched))
        if weights is None:
            return output, None
        weights = weights.mean(1) if average_attn_weights else weights
        return output, weights if batched else weights[0]

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        size, bias = self.embed_dim, self.in_proj_bias
        biases: list[Any] = [None] * 3 if bias is None else list(bias.split(size))
        if self.in_proj_weight is None:
            weights = [self.q_proj_weight, self.k_proj_weight, self.v_proj_weight]
        elif query is key and key is value:
            return list(functional.linear(query, self.in_proj_weight, bias).split(size, -1))
        else:
            weights = list(self.in_proj_weight.split(size))
        return [functional.linear(x, weight, bias) for x, weight, bias in zip((query, key, value), weights, biases, strict=True)]


@dispatched
def _weights(query: Array, key: Array, mask: Array | None) -> Array:
    """Weight of each key for each query: (N, heads, L, S)."""
    return attention_weights((query * query.shape[-1] ** -0.5) @ np.swapaxes(as_traced(key), -1, -2), mask)


@dispatched
def _heads(x: Array, heads: int, swap: bool, more: Array | None = None, zero: bool = False) -> Array:
    """Reshape (N, L, E), or (L, N, E) with `swap`, or (L, E), to (N, heads, L, E / heads), with `more` and zeros at the end of L."""
    x = as_traced(x)
    x = x if x.ndim == 3 else x[None]
    x = np.swapaxes(x, 0, 1) if swap else x
    row = (x.shape[0], 1, x.shape[2])
    added = [*([] if more is None else [np.broadcast_to(as_traced(more), row)]), *([np.zeros_like(x, shape=row)] if zero else [])]
    x = np.concatenate([x, *added], axis=1) if added else x
    batch, length, size = x.shape
    return np.swapaxes(np.reshape(x, (batch, length, heads, size // heads)), 1, 2)


@dispatched
def _joined_heads(x: Array, swap: bool, batched: bool) -> Array:
    """Invert `_heads`."""
    batch, heads, length, size = x.shape
    x = np.reshape(np.swapaxes(as_traced(x), 1, 2), (batch, length, heads * size))
    return (np.swapaxes(x, 0, 1) if swap else x) if batched else x[0]


@dispatched
def _merged_mask(mask: Array | None, padding: Array | None, query_shape: tuple[int, ...], keys: int, added: int, dtype: Any,
                 is_causal: bool) -> Array:
    """Mask that is added to the scores (N, heads, L, S): -inf for excluded elements. The last `added` of the keys have none."""
    batch, heads, length, _ = query_shape
    keys -= added
    total: Any = 0.0
    if is_causal:
        total = np.where(np.tri(length, keys, dtype=bool), 0.0, -np.inf).astype(dtype)
    if mask is not None:
        mask = _additive(mask, dtype, "attn_mask")
        if mask.shape == (batch * heads, length, keys):
            mask = np.reshape(mask, (batch, heads, length, keys))
        elif mask.shape != (length, keys):
            raise ShapeError(f"MultiheadAttention: attn_mask has the shape {(length, keys)} or {(batch * heads, length, keys)}, got "
                             f"{mask.shape}", find_user_location())
        total = total + mask
    if padding is not None:
        padding = _additive(padding, dtype, "key_padding_mask")
        if padding.size != batch * keys or padding.shape not in ((batch, keys), (keys,)):
            raise ShapeError(f"MultiheadAttention: key_padding_mask has the shape {(batch, keys)}, got {padding.shape}",
                             find_user_location())
        total = total + np.reshape(padding, (batch, 1, 1, keys))
    return np.pad(total, [(0, 0)] * (total.ndim - 1) + [(0, added)]) if added else total


def _additive(mask: Array, dtype: Any, name: str) -> Array:
    mask = as_traced(mask)
    if dtype_kind(mask.dtype) not in "bf":
        raise DTypeError(f"MultiheadAttention: {name} is bool (True: takes no part) or floating-point (added), got {mask.dtype}",
                         find_user_location())
    return np.where(mask, -np.inf, 0.0).astype(dtype) if mask.dtype.kind == "b" else mask.astype(dtype)
