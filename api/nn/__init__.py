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
        ELU,
        GELU,
        GLU,
        SELU,
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
        Sigmoid,
        SiLU,
        Softmax,
        Softplus,
        Softsign,
        Tanh,
    )
    from adjit.nn.attention import MultiheadAttention, TransformerEncoder, TransformerEncoderLayer
    from adjit.nn.containers import ModuleDict, ModuleList, ParameterDict, ParameterList, Sequential
    from adjit.nn.convolution import AdaptiveAvgPool2d, AvgPool2d, Conv1d, Conv2d, MaxPool2d
    from adjit.nn.distances import CosineSimilarity, GaussianNLLLoss, MarginRankingLoss, PairwiseDistance, TripletMarginLoss
    from adjit.nn.linear import Bilinear, Embedding, Flatten, Identity, Linear
    from adjit.nn.losses import (
        BCELoss,
        BCEWithLogitsLoss,
        CrossEntropyLoss,
        HuberLoss,
        KLDivLoss,
        L1Loss,
        MSELoss,
        NLLLoss,
        SmoothL1Loss,
    )
    from adjit.nn.module import Module
    from adjit.nn.normalization import BatchNorm1d, BatchNorm2d, Dropout, Dropout2d, GroupNorm, LayerNorm, RMSNorm
    from adjit.nn.parameter import Parameter
    from adjit.nn.recurrent import GRU, LSTM, RNN, GRUCell, LSTMCell, RNNCell
    from adjit.nn.resizing import AvgPool1d, ConvTranspose1d, ConvTranspose2d, MaxPool1d, Unflatten, Upsample, ZeroPad2d
    from adjit.nn.state import load_state, save_state

__all__ = [
    "AdaptiveAvgPool2d", "AvgPool1d", "AvgPool2d", "BCELoss", "BCEWithLogitsLoss", "BatchNorm1d", "BatchNorm2d", "Bilinear", "Conv1d",
    "Conv2d", "ConvTranspose1d", "ConvTranspose2d", "CosineSimilarity", "CrossEntropyLoss", "Dropout", "Dropout2d", "ELU", "Embedding",
    "Flatten", "GELU", "GLU", "GRU", "GRUCell", "GaussianNLLLoss", "GroupNorm", "Hardsigmoid", "Hardswish", "Hardtanh", "HuberLoss",
    "Identity", "KLDivLoss", "L1Loss", "LSTM", "LSTMCell", "LayerNorm", "LeakyReLU", "Linear", "LogSigmoid", "LogSoftmax", "MSELoss",
    "MarginRankingLoss", "MaxPool1d", "MaxPool2d", "Mish", "Module", "ModuleDict", "ModuleList", "MultiheadAttention", "NLLLoss", "PReLU",
    "PairwiseDistance", "Parameter", "ParameterDict", "ParameterList", "RMSNorm", "RNN", "RNNCell", "ReLU", "ReLU6", "SELU", "Sequential",
    "SiLU", "Sigmoid", "SmoothL1Loss", "Softmax", "Softplus", "Softsign", "Tanh", "TransformerEncoder", "TransformerEncoderLayer",
    "TripletMarginLoss", "Unflatten", "Upsample", "ZeroPad2d", "functional", "init", "load_state", "save_state", "utils",
]

_MODULES = ("activations", "attention", "containers", "convolution", "distances", "linear", "losses", "module", "normalization",
            "parameter", "recurrent", "resizing", "state")
"""Modules that define the names of `__all__`."""


def __getattr__(name: str) -> Any:
    """Import a class when it is first used: programs that use only the functions do not wait for the classes."""
    if name not in __all__:
        raise AttributeError(f"module 'adjit.nn' has no attribute {name!r}{_nearest(name, __all__)}")
    if name in ("init", "utils"):
        return import_module(f"adjit.nn.{name}")
    modules = (import_module(f"adjit.nn.{module}") for module in _MODULES)
    return globals().setdefault(name, next(vars(module)[name] for module in modules if name in vars(module)))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
