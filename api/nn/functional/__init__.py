"""Functions of neural networks: layers, activations, normalisation, losses.

Written in plain NumPy over traced arrays: they take traced and plain arrays alike, preserve the dtype, and have exact derivatives. Names,
arguments and defaults are those of `torch.nn.functional`; `axis` is NumPy's name for PyTorch's `dim`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjit.ir.spelling import nearest as _nearest
from adjit.tracer.functions.composites import logsumexp, sigmoid

if TYPE_CHECKING:
    from adjit.nn.functional.activations import (
        elu,
        gelu,
        glu,
        hardsigmoid,
        hardswish,
        hardtanh,
        leaky_relu,
        log_softmax,
        logsigmoid,
        mish,
        prelu,
        relu,
        relu6,
        selu,
        silu,
        softmax,
        softplus,
        softsign,
        tanh,
    )
    from adjit.nn.functional.attention import scaled_dot_product_attention
    from adjit.nn.functional.convolution import conv1d, conv2d, pad, unfold
    from adjit.nn.functional.distances import (
        cosine_similarity,
        gaussian_nll_loss,
        margin_ranking_loss,
        pairwise_distance,
        triplet_margin_loss,
    )
    from adjit.nn.functional.dropout_layers import dropout
    from adjit.nn.functional.interpolation import interpolate
    from adjit.nn.functional.linear_layers import embedding, linear, one_hot
    from adjit.nn.functional.losses import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        cross_entropy,
        huber_loss,
        kl_div,
        l1_loss,
        mse_loss,
        nll_loss,
        smooth_l1_loss,
    )
    from adjit.nn.functional.normalization import batch_norm, batch_norm_with_statistics, group_norm, layer_norm, normalize, rms_norm
    from adjit.nn.functional.pooling import adaptive_avg_pool2d, avg_pool1d, avg_pool2d, max_pool1d, max_pool2d
    from adjit.nn.functional.transposed_convolution import conv_transpose1d, conv_transpose2d

__all__ = [
    "adaptive_avg_pool2d", "avg_pool1d", "avg_pool2d", "batch_norm", "batch_norm_with_statistics", "binary_cross_entropy",
    "binary_cross_entropy_with_logits", "conv1d", "conv2d", "conv_transpose1d", "conv_transpose2d", "cosine_similarity", "cross_entropy",
    "dropout", "elu", "embedding", "gaussian_nll_loss", "gelu", "glu", "group_norm", "hardsigmoid", "hardswish", "hardtanh", "huber_loss",
    "interpolate", "kl_div", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "logsumexp",
    "margin_ranking_loss", "max_pool1d", "max_pool2d", "mish", "mse_loss", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "prelu", "relu", "relu6", "rms_norm", "scaled_dot_product_attention", "selu", "sigmoid", "silu", "smooth_l1_loss", "softmax",
    "softplus", "softsign", "tanh", "triplet_margin_loss", "unfold",
]

_MODULES = {
    "activations": "elu gelu glu hardsigmoid hardswish hardtanh leaky_relu log_softmax logsigmoid mish prelu relu relu6 selu silu "
                   "softmax softplus softsign tanh",
    "attention": "scaled_dot_product_attention",
    "convolution": "conv1d conv2d pad unfold",
    "distances": "cosine_similarity gaussian_nll_loss margin_ranking_loss pairwise_distance triplet_margin_loss",
    "losses": "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy huber_loss kl_div l1_loss mse_loss nll_loss "
              "smooth_l1_loss",
    "normalization": "batch_norm batch_norm_with_statistics group_norm layer_norm normalize rms_norm",
    "pooling": "adaptive_avg_pool2d avg_pool1d avg_pool2d max_pool1d max_pool2d",
    "dropout_layers": "dropout",
    "interpolation": "interpolate",
    "transposed_convolution": "conv_transpose1d conv_transpose2d",
    "linear_layers": "embedding linear one_hot",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a function when it is first used: most programs need a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'adjit.nn.functional' has no attribute {name!r}{_nearest(name, __all__)}")
    return globals().setdefault(name, getattr(import_module(f"adjit.nn.functional.{_MODULE_OF[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
