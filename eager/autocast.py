"""Automatic mixed precision: within `autocast` products of float32 matrices are computed in two bytes an element, losses in float32.

The functions are those that PyTorch's autocast names for the CPU; others follow the dtypes they are given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np

from adjit.eager.device import device_of
from adjit.eager.modes import _Mode, modes, switches
from adjit.eager.tensor import Tensor
from adjit.ir.types import F32, bfloat16, is_half
from adjit.tracer.array import TracedArray
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.scope import calls_in_python

Function = Callable[..., Any]

_NARROW = frozenset((
    "matmul", "mm", "bmm", "addmm", "addbmm", "baddbmm", "einsum", "conv1d", "conv2d", "conv3d", "conv_transpose1d",
    "conv_transpose2d", "conv_transpose3d", "conv_tbc", "attention", "lstm_step", "lstm_layer"))
_WIDE = frozenset((
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy", "ctc_loss", "gaussian_nll_loss",
    "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss", "margin_ranking_loss", "mse_loss", "multi_margin_loss",
    "multilabel_margin_loss", "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
    "triplet_margin_loss", "grid_sample", "prod", "cumprod", "quantile", "nanquantile"))
"""Names of functions whose float operands are converted to the narrow dtype, and to float32."""


def cast(function: Function, args: tuple[Any, ...], kwargs: Mapping[str, Any], convert: Function) -> tuple[Any, Any]:
    """The arguments of a function that is applied within `autocast`; `convert(tensor, dtype)` converts a tensor."""
    name = function.__name__
    if name in _NARROW:
        wanted, given = modes.autocast, _is_float32
    elif name in _WIDE:
        wanted, given = F32, _is_narrow
    else:
        return args, kwargs
    if not function.__module__.startswith("adjit."):
        return args, kwargs

    def converted(arg: Any) -> Any:
        if isinstance(arg, (list, tuple)):
            return type(arg)(map(converted, arg)) if not hasattr(arg, "_fields") else arg
        return convert(arg, wanted) if isinstance(arg, (Tensor, TracedArray)) and given(arg.dtype) and _is_there(arg) else arg

    return tuple(map(converted, args)), {key: converted(arg) for key, arg in kwargs.items()}


def _is_there(arg: Tensor | TracedArray) -> bool:
    return device_of(arg.array if isinstance(arg, Tensor) else arg).type == modes.autocast_device


def _is_float32(dtype: np.dtype[Any]) -> bool:
    return dtype == F32


def _is_narrow(dtype: np.dtype[Any]) -> bool:
    return is_half(dtype)


class autocast(_Mode):
    """Context manager or decorator within which products of matrices and convolutions of float32 tensors on a device, "cpu" or "cuda", are
    computed in `dtype`, and losses in float32, as PyTorch does on the CPU: `dtype` is bfloat16, or float16, the default for "cuda". With
    `enabled=False` nothing is converted.

    Raises `DTypeError` for bfloat16 without the package ml_dtypes, `ValueError` for other dtypes.

    >>> from adjit.eager.tensor import tensor
    >>> x = tensor([[1.0, 2.0]])
    >>> with autocast("cpu", dtype="float16"):
    ...     (x @ x.T).dtype, (x + x).dtype
    (dtype('float16'), dtype('float32'))
    """

    mode = "autocast"

    def __init__(self, device_type: str = "cpu", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None):
        self._given = device_type, dtype, enabled
        self._blocks: list[ExitStack] = []
        self.value: Any = None
        self.device = device_type.partition(":")[0]
        if not enabled or self.device not in ("cpu", "cuda"):
            return
        half = np.dtype(np.float16) if self.device == "cuda" and dtype is None else bfloat16() if dtype is None else dtype_argument(dtype)
        self.value = half
        if not is_half(self.value):
            raise ValueError(f"autocast computes in bfloat16 or float16, got dtype={self.value}")

    def __enter__(self) -> autocast:
        block = ExitStack()
        if self.value is not None or modes.autocast is not None:
            block.enter_context(calls_in_python())      # machine code does not know the mode
        block.callback(setattr, modes, "autocast_device", modes.autocast_device)
        self._blocks.append(block)
        modes.autocast_device = self.device
        switches.autocast = True
        super().__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        self._blocks.pop().close()

    def _again(self) -> autocast:
        return autocast(*self._given)
