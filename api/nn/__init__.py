"""Neural networks: modules with parameters, their initial values and their state, and the functions that they are made of.

    model = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
    loss = nn.functional.cross_entropy(model(images), labels)
    loss.backward()

Names, arguments, defaults and initial values are PyTorch's; parameters are float32 unless `dtype=` says otherwise.
"""

# ruff: noqa: F405 (the names of `modules`)

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjit.nn import functional

if TYPE_CHECKING:
    from adjit.nn import init, utils
    from adjit.nn.modules import *  # noqa: F403

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


def __getattr__(name: str) -> Any:
    """Programs that use the functions alone do not wait for the classes."""
    if name not in __all__:
        raise AttributeError(f"module 'adjit.nn' has no attribute {name!r}")
    if name in ("init", "utils"):
        return import_module(f"adjit.nn.{name}")
    return globals().setdefault(name, getattr(import_module("adjit.nn.modules"), name))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
