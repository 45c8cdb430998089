"""Attention as modules: `MultiheadAttention`, and the encoder half of the transformer."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.eager.device import check_device
from adjit.eager.tensor import Tensor
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError
from adjit.ir.types import dtype_kind
from adjit.nn import functional, init
from adjit.nn.containers import ModuleList
from adjit.nn.functional.attention import attention_weights
from adjit.nn.linear import Linear, empty_parameter
from adjit.nn.module import Module
from adjit.nn.normalization import Dropout, LayerNorm
from adjit.nn.parameter import Parameter
from adjit.tracer.array import as_traced
from adjit.tracer.dispatch import dispatched
from adjit.tracer.user_location import find_user_location

Array = Any


class MultiheadAttention(Module):
    """Attention in `num_heads` heads of `embed_dim / num_heads` numbers each, between linear layers.

    Parameters: in_proj_weight (3 * embed_dim, embed_dim), or q_proj_weight, k_proj_weight, v_proj_weight if `kdim` or `vdim` differ, all
    Xavier uniform; in_proj_bias, zeros; out_proj, a `Linear` with a bias of zeros.
    Source: Vaswani et al., Attention Is All You Need, arXiv:1706.03762.

    >>> from adjit.eager.tensor import as_tensor
    >>> x = as_tensor(np.zeros((2, 5, 8), np.float32))
    >>> output, weights = MultiheadAttention(8, 2, batch_first=True)(x, x, x)
    >>> output.shape, weights.shape
    ((2, 5, 8), (2, 5, 5))
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None) -> None:
        check_device(device)
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
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        for weight in (self.in_proj_weight, self.q_proj_weight, self.k_proj_weight, self.v_proj_weight):
            if weight is not None:
                init.xavier_uniform_(weight)
        self.out_proj.reset_parameters()
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                init.zeros_(bias)

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
        q, k, v = (_heads(part, self.num_heads, swap) for part in parts)       # (N, heads, length, size)
        dropout = self.dropout if self.training else 0.0
        mask = None if attn_mask is None and key_padding_mask is None and not is_causal else _merged_mask(
            None if is_causal else attn_mask, key_padding_mask, q.shape, k.shape[-2], q.dtype, is_causal)
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
def _heads(x: Array, heads: int, swap: bool) -> Array:
    """Reshape (N, L, E), or (L, N, E) with `swap`, or (L, E), to (N, heads, L, E / heads)."""
    x = as_traced(x)
    x = x if x.ndim == 3 else x[None]
    x = np.swapaxes(x, 0, 1) if swap else x
    batch, length, size = x.shape
    return np.swapaxes(np.reshape(x, (batch, length, heads, size // heads)), 1, 2)


@dispatched
def _joined_heads(x: Array, swap: bool, batched: bool) -> Array:
    """Invert `_heads`."""
    batch, heads, length, size = x.shape
    x = np.reshape(np.swapaxes(as_traced(x), 1, 2), (batch, length, heads * size))
    return (np.swapaxes(x, 0, 1) if swap else x) if batched else x[0]


@dispatched
def _merged_mask(mask: Array | None, padding: Array | None, query_shape: tuple[int, ...], keys: int, dtype: Any, is_causal: bool) -> Array:
    """Mask that is added to the scores (N, heads, L, S): -inf for excluded elements."""
    batch, heads, length, _ = query_shape
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
    return total


def _additive(mask: Array, dtype: Any, name: str) -> Array:
    mask = as_traced(mask)
    if dtype_kind(mask.dtype) not in "bf":
        raise DTypeError(f"MultiheadAttention: {name} is bool (True: takes no part) or floating-point (added), got {mask.dtype}",
                         find_user_location())
    return np.where(mask, -np.inf, 0.0).astype(dtype) if mask.dtype.kind == "b" else mask.astype(dtype)


class TransformerEncoderLayer(Module):
    """Self-attention and a network of two layers, each added to its input and normalised.

    `norm_first` normalises before them, not after. Submodules: self_attn, linear1, linear2, norm1, norm2, dropout, dropout1, dropout2.
    Source: Vaswani et al., Attention Is All You Need, arXiv:1706.03762.

    >>> import adjit
    >>> TransformerEncoderLayer(8, nhead=2, dim_feedforward=16)(adjit.zeros(5, 2, 8)).shape
    (5, 2, 8)
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = functional.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        check_device(device)
        super().__init__()
        named: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}
        if isinstance(activation, str) and activation not in named:
            raise ArgumentError(f"TransformerEncoderLayer: activation is 'relu', 'gelu' or a function, got {activation!r}",
                                find_user_location())
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = named[activation] if isinstance(activation, str) else activation

    def forward(self, src: Tensor, src_mask: Array = None, src_key_padding_mask: Array = None, is_causal: bool = False) -> Tensor:
        """Map (N, L, d_model) with `batch_first`, else (L, N, d_model), to the same shape; masks as in `MultiheadAttention`."""
        x = src
        if self.norm_first:
            x = x + self._attend(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._feed_forward(self.norm2(x))
        x = self.norm1(x + self._attend(x, src_mask, src_key_padding_mask, is_causal))
        return self.norm2(x + self._feed_forward(x))

    def _attend(self, x: Tensor, mask: Array, padding: Array, is_causal: bool) -> Tensor:
        mixed, _ = self.self_attn(x, x, x, key_padding_mask=padding, need_weights=False, attn_mask=mask, is_causal=is_causal)
        return self.dropout1(mixed)

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """Stack of `num_layers` copies of an encoder layer, and `norm` at the end if it is given.

    `enable_nested_tensor` and `mask_check` change nothing: in PyTorch they only affect speed.

    >>> import adjit
    >>> encoder = TransformerEncoder(TransformerEncoderLayer(8, nhead=2, dim_feedforward=16), num_layers=3)
    >>> encoder(adjit.zeros(5, 2, 8)).shape, len(encoder.layers)
    ((5, 2, 8), 3)
    """

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None, enable_nested_tensor: bool = True,
                 mask_check: bool = True) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, src: Tensor, mask: Array = None, src_key_padding_mask: Array = None, is_causal: bool = False) -> Tensor:
        """Apply all layers; arguments as in `TransformerEncoderLayer`."""
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=is_causal)
        return x if self.norm is None else self.norm(x)
