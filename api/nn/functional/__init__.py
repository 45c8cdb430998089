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
        celu,
        celu_,
        elu,
        elu_,
        gelu,
        glu,
        gumbel_softmax,
        hardshrink,
        hardsigmoid,
        hardswish,
        hardtanh,
        hardtanh_,
        leaky_relu,
        leaky_relu_,
        log_softmax,
        logsigmoid,
        mish,
        prelu,
        relu,
        relu6,
        relu_,
        rrelu,
        rrelu_,
        selu,
        selu_,
        silu,
        softmax,
        softmin,
        softplus,
        softshrink,
        softsign,
        tanh,
        tanhshrink,
        threshold,
        threshold_,
    )
    from adjit.nn.functional.adaptive_pooling import (
        adaptive_avg_pool1d,
        adaptive_avg_pool2d,
        adaptive_avg_pool3d,
        adaptive_max_pool1d,
        adaptive_max_pool2d,
        adaptive_max_pool3d,
        fractional_max_pool2d,
        fractional_max_pool3d,
        max_unpool1d,
        max_unpool2d,
        max_unpool3d,
    )
    from adjit.nn.functional.attention import scaled_dot_product_attention
    from adjit.nn.functional.connectionist import ctc_loss
    from adjit.nn.functional.convolution import conv1d, conv2d, conv3d, conv_tbc, fold, pad, unfold
    from adjit.nn.functional.distances import cosine_similarity, pairwise_distance, pdist
    from adjit.nn.functional.dropout_layers import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
    from adjit.nn.functional.interpolation import affine_grid, grid_sample, interpolate, upsample, upsample_bilinear, upsample_nearest
    from adjit.nn.functional.linear_layers import bilinear, embedding, embedding_bag, linear, one_hot
    from adjit.nn.functional.losses import (
        binary_cross_entropy,
        binary_cross_entropy_with_logits,
        cross_entropy,
        gaussian_nll_loss,
        huber_loss,
        kl_div,
        l1_loss,
        linear_cross_entropy,
        mse_loss,
        nll_loss,
        poisson_nll_loss,
        smooth_l1_loss,
    )
    from adjit.nn.functional.margin_losses import (
        cosine_embedding_loss,
        hinge_embedding_loss,
        margin_ranking_loss,
        multi_margin_loss,
        multilabel_margin_loss,
        multilabel_soft_margin_loss,
        soft_margin_loss,
        triplet_margin_loss,
        triplet_margin_with_distance_loss,
    )
    from adjit.nn.functional.normalization import (
        batch_norm,
        batch_norm_with_statistics,
        group_norm,
        instance_norm,
        instance_norm_with_statistics,
        layer_norm,
        local_response_norm,
        normalize,
        rms_norm,
    )
    from adjit.nn.functional.pooling import (
        avg_pool1d,
        avg_pool2d,
        avg_pool3d,
        lp_pool1d,
        lp_pool2d,
        lp_pool3d,
        max_pool1d,
        max_pool2d,
        max_pool3d,
    )
    from adjit.nn.functional.rearrangement import channel_shuffle, native_channel_shuffle, pixel_shuffle, pixel_unshuffle
    from adjit.nn.functional.transposed_convolution import conv_transpose1d, conv_transpose2d, conv_transpose3d

__all__ = [
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
    "adaptive_max_pool3d", "affine_grid", "alpha_dropout", "avg_pool1d", "avg_pool2d", "avg_pool3d", "batch_norm",
    "batch_norm_with_statistics", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "celu_",
    "channel_shuffle", "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d", "dropout3d", "elu",
    "elu_", "embedding", "embedding_bag", "feature_alpha_dropout", "fold", "fractional_max_pool2d", "fractional_max_pool3d",
    "gaussian_nll_loss", "gelu", "glu", "grid_sample", "group_norm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish", "hardtanh",
    "hardtanh_", "hinge_embedding_loss", "huber_loss", "instance_norm", "instance_norm_with_statistics", "interpolate", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy", "local_response_norm", "log_softmax", "logsigmoid",
    "logsumexp", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool2d", "max_pool3d", "max_unpool1d",
    "max_unpool2d", "max_unpool3d", "mish", "mse_loss", "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss",
    "native_channel_shuffle", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle",
    "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu", "rrelu_", "scaled_dot_product_attention", "selu", "selu_",
    "sigmoid", "silu", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh",
    "tanhshrink", "threshold", "threshold_", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample",
    "upsample_bilinear", "upsample_nearest",
]

_MODULES = {
    "activations": "celu celu_ elu elu_ gelu glu gumbel_softmax hardshrink hardsigmoid hardswish hardtanh hardtanh_ leaky_relu "
                   "leaky_relu_ log_softmax logsigmoid mish prelu relu relu6 relu_ rrelu rrelu_ selu selu_ silu softmax softmin softplus "
                   "softshrink softsign tanh tanhshrink threshold threshold_",
    "adaptive_pooling": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d adaptive_max_pool2d "
                        "adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d max_unpool1d max_unpool2d max_unpool3d",
    "attention": "scaled_dot_product_attention",
    "connectionist": "ctc_loss",
    "convolution": "conv1d conv2d conv3d conv_tbc fold pad unfold",
    "distances": "cosine_similarity pairwise_distance pdist",
    "dropout_layers": "alpha_dropout dropout dropout1d dropout2d dropout3d feature_alpha_dropout",
    "interpolation": "affine_grid grid_sample interpolate upsample upsample_bilinear upsample_nearest",
    "linear_layers": "bilinear embedding embedding_bag linear one_hot",
    "losses": "binary_cross_entropy binary_cross_entropy_with_logits cross_entropy gaussian_nll_loss huber_loss kl_div l1_loss "
              "linear_cross_entropy mse_loss nll_loss poisson_nll_loss smooth_l1_loss",
    "margin_losses": "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss multi_margin_loss multilabel_margin_loss "
                     "multilabel_soft_margin_loss soft_margin_loss triplet_margin_loss triplet_margin_with_distance_loss",
    "normalization": "batch_norm batch_norm_with_statistics group_norm instance_norm instance_norm_with_statistics layer_norm "
                     "local_response_norm normalize rms_norm",
    "pooling": "avg_pool1d avg_pool2d avg_pool3d lp_pool1d lp_pool2d lp_pool3d max_pool1d max_pool2d max_pool3d",
    "rearrangement": "channel_shuffle native_channel_shuffle pixel_shuffle pixel_unshuffle",
    "transposed_convolution": "conv_transpose1d conv_transpose2d conv_transpose3d",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a function when it is first used: most programs need a few of them."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'adjit.nn.functional' has no attribute {name!r}{_nearest(name, __all__)}", name=name, obj=None)
    return globals().setdefault(name, getattr(import_module(f"adjit.nn.functional.{_MODULE_OF[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
