"""Neural networks: modules with parameters, their initial values and their state, and the functions that compute them.

    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()

Names, arguments, defaults and initial values are PyTorch's; parameters are float32 unless `dtype=` says otherwise.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjit.ir.spelling import nearest as _nearest
from adjit.nn import functional

if TYPE_CHECKING:
    from adjit.nn import init, utils
    from adjit.nn.activations import (
        CELU,
        ELU,
        GELU,
        GLU,
        SELU,
        Hardshrink,
        Hardsigmoid,
        Hardswish,
        Hardtanh,
        LeakyReLU,
        LogSigmoid,
        LogSoftmax,
        Mish,
        PReLU,
        ReLU,
        ReLU6,
        RReLU,
        Sigmoid,
        SiLU,
        Softmax,
        Softmax2d,
        Softmin,
        Softplus,
        Softshrink,
        Softsign,
        Tanh,
        Tanhshrink,
        Threshold,
    )
    from adjit.nn.adaptive_softmax import AdaptiveLogSoftmaxWithLoss
    from adjit.nn.attention import MultiheadAttention
    from adjit.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
    from adjit.nn.convolution import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
    from adjit.nn.distances import CosineSimilarity, PairwiseDistance
    from adjit.nn.dropout import AlphaDropout, Dropout, Dropout1d, Dropout2d, Dropout3d, FeatureAlphaDropout
    from adjit.nn.lazy import (
        LazyBatchNorm1d,
        LazyBatchNorm2d,
        LazyBatchNorm3d,
        LazyConv1d,
        LazyConv2d,
        LazyConv3d,
        LazyConvTranspose1d,
        LazyConvTranspose2d,
        LazyConvTranspose3d,
        LazyInstanceNorm1d,
        LazyInstanceNorm2d,
        LazyInstanceNorm3d,
        LazyLinear,
    )
    from adjit.nn.linear import Bilinear, Embedding, EmbeddingBag, Flatten, Identity, Linear
    from adjit.nn.losses import (
        BCELoss,
        BCEWithLogitsLoss,
        CrossEntropyLoss,
        CTCLoss,
        GaussianNLLLoss,
        HuberLoss,
        KLDivLoss,
        L1Loss,
        LinearCrossEntropyLoss,
        MSELoss,
        NLLLoss,
        PoissonNLLLoss,
        SmoothL1Loss,
    )
    from adjit.nn.margin_losses import (
        CosineEmbeddingLoss,
        HingeEmbeddingLoss,
        MarginRankingLoss,
        MultiLabelMarginLoss,
        MultiLabelSoftMarginLoss,
        MultiMarginLoss,
        SoftMarginLoss,
        TripletMarginLoss,
        TripletMarginWithDistanceLoss,
    )
    from adjit.nn.module import Module
    from adjit.nn.normalization import (
        BatchNorm1d,
        BatchNorm2d,
        BatchNorm3d,
        GroupNorm,
        InstanceNorm1d,
        InstanceNorm2d,
        InstanceNorm3d,
        LayerNorm,
        LocalResponseNorm,
        RMSNorm,
    )
    from adjit.nn.padding import (
        CircularPad1d,
        CircularPad2d,
        CircularPad3d,
        ConstantPad1d,
        ConstantPad2d,
        ConstantPad3d,
        ReflectionPad1d,
        ReflectionPad2d,
        ReflectionPad3d,
        ReplicationPad1d,
        ReplicationPad2d,
        ReplicationPad3d,
        ZeroPad1d,
        ZeroPad2d,
        ZeroPad3d,
    )
    from adjit.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter
    from adjit.nn.pooling import (
        AdaptiveAvgPool1d,
        AdaptiveAvgPool2d,
        AdaptiveAvgPool3d,
        AdaptiveMaxPool1d,
        AdaptiveMaxPool2d,
        AdaptiveMaxPool3d,
        AvgPool1d,
        AvgPool2d,
        AvgPool3d,
        FractionalMaxPool2d,
        FractionalMaxPool3d,
        LPPool1d,
        LPPool2d,
        LPPool3d,
        MaxPool1d,
        MaxPool2d,
        MaxPool3d,
        MaxUnpool1d,
        MaxUnpool2d,
        MaxUnpool3d,
    )
    from adjit.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNBase, RNNCell
    from adjit.nn.resizing import (
        ChannelShuffle,
        Fold,
        PixelShuffle,
        PixelUnshuffle,
        Unflatten,
        Unfold,
        Upsample,
        UpsamplingBilinear2d,
        UpsamplingNearest2d,
    )
    from adjit.nn.state import load_state, save_state
    from adjit.nn.transformer import Transformer, TransformerDecoder, TransformerDecoderLayer, TransformerEncoder, TransformerEncoderLayer

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveLogSoftmaxWithLoss", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AlphaDropout", "AvgPool1d", "AvgPool2d", "AvgPool3d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d",
    "BatchNorm2d", "BatchNorm3d", "Bilinear", "Buffer", "CELU", "CTCLoss", "ChannelShuffle", "CircularPad1d", "CircularPad2d",
    "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d",
    "ConvTranspose3d", "CosineEmbeddingLoss", "CosineSimilarity", "CrossEntropyLoss", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d",
    "ELU", "Embedding", "EmbeddingBag", "FeatureAlphaDropout", "Flatten", "Fold", "FractionalMaxPool2d", "FractionalMaxPool3d", "GELU",
    "GLU", "GRU", "GRUCell", "GaussianNLLLoss", "GroupNorm", "Hardshrink", "Hardsigmoid", "Hardswish", "Hardtanh", "HingeEmbeddingLoss",
    "HuberLoss", "Identity", "InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d", "KLDivLoss", "L1Loss", "LPPool1d", "LPPool2d",
    "LPPool3d", "LSTM", "LSTMCell", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d",
    "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d", "LazyInstanceNorm2d",
    "LazyInstanceNorm3d", "LazyLinear", "LeakyReLU", "Linear", "LinearCrossEntropyLoss", "LocalResponseNorm", "LogSigmoid", "LogSoftmax",
    "MSELoss", "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d", "MaxUnpool2d", "MaxUnpool3d", "Mish", "Module",
    "ModuleDict", "ModuleList", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "MultiheadAttention", "NLLLoss",
    "PReLU", "PairwiseDistance", "Parameter", "ParameterDict", "ParameterList", "PixelShuffle", "PixelUnshuffle", "PoissonNLLLoss",
    "RMSNorm", "RNN", "RNNBase", "RNNCell", "RReLU", "ReLU", "ReLU6", "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d",
    "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "SELU", "Sequential", "SiLU", "Sigmoid", "SmoothL1Loss", "SoftMarginLoss",
    "Softmax", "Softmax2d", "Softmin", "Softplus", "Softshrink", "Softsign", "Tanh", "Tanhshrink", "Threshold", "Transformer",
    "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder", "TransformerEncoderLayer", "TripletMarginLoss",
    "TripletMarginWithDistanceLoss", "Unflatten", "Unfold", "UninitializedBuffer", "UninitializedParameter", "Upsample",
    "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d", "functional", "init", "load_state", "save_state",
    "utils",
]

_MODULES = {
    "activations": "CELU ELU GELU GLU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid LogSoftmax Mish PReLU RReLU ReLU "
                   "ReLU6 SELU SiLU Sigmoid Softmax Softmax2d Softmin Softplus Softshrink Softsign Tanh Tanhshrink Threshold",
    "adaptive_softmax": "AdaptiveLogSoftmaxWithLoss",
    "attention": "MultiheadAttention",
    "containers": "ModuleDict ModuleList ParameterDict ParameterList Sequential",
    "convolution": "Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d",
    "distances": "CosineSimilarity PairwiseDistance",
    "dropout": "AlphaDropout Dropout Dropout1d Dropout2d Dropout3d FeatureAlphaDropout",
    "lazy": "LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d "
            "LazyConvTranspose3d LazyInstanceNorm1d LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear",
    "linear": "Bilinear Embedding EmbeddingBag Flatten Identity Linear",
    "losses": "BCELoss BCEWithLogitsLoss CTCLoss CrossEntropyLoss GaussianNLLLoss HuberLoss KLDivLoss L1Loss LinearCrossEntropyLoss "
              "MSELoss NLLLoss PoissonNLLLoss SmoothL1Loss",
    "margin_losses": "CosineEmbeddingLoss HingeEmbeddingLoss MarginRankingLoss MultiLabelMarginLoss MultiLabelSoftMarginLoss "
                     "MultiMarginLoss SoftMarginLoss TripletMarginLoss TripletMarginWithDistanceLoss",
    "module": "Module",
    "normalization": "BatchNorm1d BatchNorm2d BatchNorm3d GroupNorm InstanceNorm1d InstanceNorm2d InstanceNorm3d LayerNorm "
                     "LocalResponseNorm RMSNorm",
    "padding": "CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d ConstantPad3d ReflectionPad1d ReflectionPad2d "
               "ReflectionPad3d ReplicationPad1d ReplicationPad2d ReplicationPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "parameter": "Buffer Parameter UninitializedBuffer UninitializedParameter",
    "pooling": "AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d AvgPool1d "
               "AvgPool2d AvgPool3d FractionalMaxPool2d FractionalMaxPool3d LPPool1d LPPool2d LPPool3d MaxPool1d MaxPool2d MaxPool3d "
               "MaxUnpool1d MaxUnpool2d MaxUnpool3d",
    "recurrent": "GRU GRUCell LSTM LSTMCell RNN RNNBase RNNCell",
    "resizing": "ChannelShuffle Fold PixelShuffle PixelUnshuffle Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d",
    "state": "load_state save_state",
    "transformer": "Transformer TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Import a class when it is first used: programs that use only the functions do not wait for the classes."""
    if name == "modules":
        return import_module("adjit.nn.modules")
    if name not in __all__:
        raise AttributeError(f"module 'adjit.nn' has no attribute {name!r}{_nearest(name, __all__)}", name=name, obj=None)
    if name not in _MODULE_OF:
        return import_module(f"adjit.nn.{name}")
    return globals().setdefault(name, getattr(import_module(f"adjit.nn.{_MODULE_OF[name]}"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
