"""Transformers: layers of attention and of two linear layers, stacks of them, and both halves together."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.eager.device import chosen
from adjit.eager.modes import modes
from adjit.eager.tensor import Tensor, own_tensor
from adjit.eager.transfer import moved
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.nn import functional, init
from adjit.nn.attention import MultiheadAttention
from adjit.nn.containers import ModuleList
from adjit.nn.dropout import Dropout
from adjit.nn.linear import Linear
from adjit.nn.module import Module
from adjit.nn.normalization import LayerNorm
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.user_location import find_user_location

Array = Any


def _activation(name: str, activation: str | Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    named: dict[str, Callable[[Tensor], Tensor]] = {"relu": functional.relu, "gelu": functional.gelu}
    if not isinstance(activation, str):
        return activation
    if activation not in named:
        raise ArgumentError(f"{name}: activation is 'relu', 'gelu' or a function, got {activation!r}", find_user_location())
    return named[activation]


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
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation("TransformerEncoderLayer", activation)
        self.to(device=chosen(device))

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


class TransformerDecoderLayer(Module):
    """Self-attention, attention to a memory and a network of two layers, each added to its input and normalised.

    `norm_first` normalises before them, not after. Submodules: self_attn, multihead_attn, linear1, linear2, norm1 to norm3, dropout,
    dropout1 to dropout3. Source: Vaswani et al., Attention Is All You Need, arXiv:1706.03762.

    >>> import adjit
    >>> TransformerDecoderLayer(8, nhead=2, dim_feedforward=16)(adjit.zeros(5, 2, 8), adjit.zeros(3, 2, 8)).shape
    (5, 2, 8)
    """

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: str | Callable[[Tensor], Tensor] = functional.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, dtype=dtype)
        self.linear1 = Linear(d_model, dim_feedforward, bias, dtype=dtype)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, dtype=dtype)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation("TransformerDecoderLayer", activation)
        self.to(device=chosen(device))

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Array = None, memory_mask: Array = None,
                tgt_key_padding_mask: Array = None, memory_key_padding_mask: Array = None, tgt_is_causal: bool | None = False,
                memory_is_causal: bool = False) -> Tensor:
        """Map (N, L, d_model) and a memory (N, S, d_model) with `batch_first`, else N second, to the shape of the first; masks as in
        `MultiheadAttention`."""
        def attend(x: Tensor) -> Tensor:
            mixed, _ = self.self_attn(x, x, x, key_padding_mask=tgt_key_padding_mask, need_weights=False, attn_mask=tgt_mask,
                                      is_causal=bool(tgt_is_causal))
            return self.dropout1(mixed)

        def remember(x: Tensor) -> Tensor:
            mixed, _ = self.multihead_attn(x, memory, memory, key_padding_mask=memory_key_padding_mask, need_weights=False,
                                           attn_mask=memory_mask, is_causal=memory_is_causal)
            return self.dropout2(mixed)

        x = tgt
        if self.norm_first:
            x = x + attend(self.norm1(x))
            x = x + remember(self.norm2(x))
            return x + self._feed_forward(self.norm3(x))
        x = self.norm1(x + attend(x))
        x = self.norm2(x + remember(x))
        return self.norm3(x + self._feed_forward(x))

    def _feed_forward(self, x: Tensor) -> Tensor:
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


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

    def forward(self, src: Tensor, mask: Array = None, src_key_padding_mask: Array = None,
                is_causal: bool | None = None) -> Tensor:
        """Apply all layers; arguments as in `TransformerEncoderLayer`."""
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=mask, src_key_padding_mask=src_key_padding_mask, is_causal=bool(is_causal))
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """Stack of `num_layers` copies of a decoder layer, and `norm` at the end if it is given.

    >>> import adjit
    >>> decoder = TransformerDecoder(TransformerDecoderLayer(8, nhead=2, dim_feedforward=16), num_layers=3)
    >>> decoder(adjit.zeros(5, 2, 8), adjit.zeros(3, 2, 8)).shape, len(decoder.layers)
    ((5, 2, 8), 3)
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(copy.deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers = num_layers
        self.norm = norm

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Array = None, memory_mask: Array = None,
                tgt_key_padding_mask: Array = None, memory_key_padding_mask: Array = None, tgt_is_causal: bool | None = None,
                memory_is_causal: bool = False) -> Tensor:
        """Apply all layers; arguments as in `TransformerDecoderLayer`."""
        x = tgt
        for layer in self.layers:
            x = layer(x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,
                      memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=bool(tgt_is_causal),
                      memory_is_causal=memory_is_causal)
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """Encoder and decoder, each with a normalisation at the end; or those that are given. Weights of matrices are Xavier uniform.

    Source: Vaswani et al., Attention Is All You Need, arXiv:1706.03762.

    >>> import adjit
    >>> Transformer(8, 2, 1, 1, 16)(adjit.zeros(3, 2, 8), adjit.zeros(5, 2, 8)).shape
    (5, 2, 8)
    """

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: str | Callable[[Tensor], Tensor] = functional.relu,
                 custom_encoder: Module | None = None, custom_decoder: Module | None = None, layer_norm_eps: float = 1e-5,
                 batch_first: bool = False, norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        settings = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first, bias, None, dtype)
        self.encoder = custom_encoder if custom_encoder is not None else TransformerEncoder(
            TransformerEncoderLayer(*settings), num_encoder_layers, LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        self.decoder = custom_decoder if custom_decoder is not None else TransformerDecoder(
            TransformerDecoderLayer(*settings), num_decoder_layers, LayerNorm(d_model, layer_norm_eps, bias=bias, dtype=dtype))
        for parameter in self.parameters():
            if parameter.ndim > 1:
                init.xavier_uniform_(parameter)
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first
        self.to(device=chosen(device))

    def forward(self, src: Tensor, tgt: Tensor, src_mask: Array = None, tgt_mask: Array = None, memory_mask: Array = None,
                src_key_padding_mask: Array = None, tgt_key_padding_mask: Array = None, memory_key_padding_mask: Array = None,
                src_is_causal: bool | None = None, tgt_is_causal: bool | None = None, memory_is_causal: bool = False) -> Tensor:
        """Map sources (N, S, d_model) and targets (N, L, d_model) with `batch_first`, else N second, to the shape of the targets; masks as
        in `MultiheadAttention`. Raises `ShapeError` for other shapes."""
        place = 0 if self.batch_first else 1
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model or src.ndim != tgt.ndim or (
                src.ndim == 3 and src.shape[place] != tgt.shape[place]):
            raise ShapeError(f"Transformer takes sources and targets of one batch with {self.d_model} features, got the shapes {src.shape} "
                             f"and {tgt.shape}", find_user_location())
        memory = self.encoder(src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal)
        return self.decoder(tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask, tgt_key_padding_mask=tgt_key_padding_mask,     # type: ignore[no-any-return]
                            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
                            memory_is_causal=memory_is_causal)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """Make the mask (sz, sz) that is added to scores: 0 up to the diagonal, -inf above.

        >>> Transformer.generate_square_subsequent_mask(2)
        tensor([[0., -inf],
                [0., 0.]])
        """
        kind = modes.default_float if dtype is None else dtype_argument(dtype)
        return moved(own_tensor(np.where(np.tri(sz, dtype=bool), 0.0, -np.inf).astype(kind)), device)
