"""Settings of a process by PyTorch's names: default dtype and device, threads, determinism; and what a dtype can hold."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

import numpy as np

from adjit.eager.device import CPU, device, make_default
from adjit.eager.formatting import options
from adjit.eager.generator import default_generator, manual_seed
from adjit.eager.modes import modes, set_default_float
from adjit.ir.errors import ArgumentError
from adjit.ir.types import bfloat16, is_float, is_half
from adjit.runtime.settings import THREADS
from adjit.tracer.promotion import dtype_argument
from adjit.tracer.user_location import find_user_location

__all__ = [
    "are_deterministic_algorithms_enabled", "finfo", "get_autocast_dtype", "get_default_device", "get_default_dtype",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads", "iinfo", "initial_seed", "is_anomaly_enabled",
    "is_autocast_enabled", "is_inference_mode_enabled", "seed", "set_default_device", "set_default_dtype", "set_float32_matmul_precision",
    "set_num_interop_threads", "set_num_threads", "set_printoptions", "typename", "use_deterministic_algorithms",
]


def set_default_dtype(dtype: Any) -> None:
    """Set the dtype of tensors that are made of Python floats or without a dtype, and of modules' parameters: float32 at first.

    Raises `TypeError` for a dtype that is not floating-point.

    >>> from adjit.eager.tensor import tensor
    >>> set_default_dtype(np.float64)
    >>> tensor([1.0]).dtype
    dtype('float64')
    >>> set_default_dtype(np.float32)
    """
    wanted = dtype_argument(dtype)
    if not is_float(wanted):
        raise TypeError(f"only floating-point types are supported as the default type, got {wanted}")
    set_default_float(wanted)


def get_default_dtype() -> np.dtype[Any]:
    """Return the dtype of tensors that are made of Python floats.

    >>> get_default_dtype()
    dtype('float32')
    """
    return modes.default_float


def set_printoptions(precision: int | None = None, threshold: float | None = None, edgeitems: int | None = None,
                     linewidth: int | None = None, profile: str | None = None, sci_mode: bool | None = None) -> None:
    """Set how tensors are written: digits behind the point, elements above which there is a summary, elements at the ends of an axis in it,
    characters of a line, exponents. `profile` is "default", "short" or "full", for the first four; without one, what is None stays.

    >>> from adjit.eager.tensor import tensor
    >>> set_printoptions(precision=2)
    >>> tensor([0.125, 2.0])
    tensor([0.12, 2.00])
    >>> set_printoptions(profile="default")
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ArgumentError(f"set_printoptions: profile is one of {', '.join(map(repr, _PROFILES))}, got {profile!r}",
                                find_user_location())
        options.precision, options.threshold, options.edgeitems, options.linewidth = _PROFILES[profile]
    for name, value in (("precision", precision), ("threshold", threshold), ("edgeitems", edgeitems), ("linewidth", linewidth)):
        if value is not None:
            setattr(options, name, value)
    options.sci_mode = sci_mode


_PROFILES = {"default": (4, 1000, 3, 80), "short": (2, 1000, 2, 80), "full": (4, np.inf, 3, 80)}


def is_autocast_enabled(device_type: str = "cpu") -> bool:
    """Return whether an `autocast` is in force.

    >>> is_autocast_enabled()
    False
    """
    return device_type == modes.autocast_device and modes.autocast is not None


def get_autocast_dtype(device_type: str = "cpu") -> Any:
    """Return the dtype in which an `autocast` computes, or would.

    >>> import adjit as aj
    >>> with aj.autocast(dtype="float16"):
    ...     get_autocast_dtype()
    dtype('float16')
    """
    return modes.autocast if modes.autocast is not None else bfloat16() if device_type == "cpu" else np.dtype(np.float16)


def finfo(type: Any = None) -> Any:
    """Return what a floating-point dtype holds: `eps`, `max`, `min`, `tiny`, `bits`. Without an argument, of the default dtype.

    >>> float(finfo(np.float32).eps), float(finfo().max) > 1e38
    (1.1920928955078125e-07, True)
    """
    dtype = modes.default_float if type is None else dtype_argument(type)
    if is_half(dtype) and dtype != np.float16:
        return import_module("ml_dtypes").finfo(dtype)
    return np.finfo(dtype)


def iinfo(type: Any) -> Any:
    """Return what a dtype of integers holds: `max`, `min`, `bits`.

    >>> int(iinfo(np.int8).max)
    127
    """
    return np.iinfo(dtype_argument(type))


def get_num_threads() -> int:
    """Return the number of threads that programs may use.

    >>> get_num_threads() >= 1
    True
    """
    return THREADS.get()


def set_num_threads(num_threads: int) -> None:
    """Set the number of threads of programs that are compiled from here on. Results do not depend on it.

    >>> set_num_threads(get_num_threads())
    """
    if num_threads < 1:
        raise ValueError("set_num_threads expects a positive integer")
    os.environ[THREADS.variable] = str(num_threads)


def get_num_interop_threads() -> int:
    """Return 1: operations run one after the other.

    >>> get_num_interop_threads()
    1
    """
    return 1


def set_num_interop_threads(num_threads: int) -> None:
    """Accept a number of threads for operations side by side: they run one after the other.

    >>> set_num_interop_threads(2)
    """


def get_float32_matmul_precision() -> str:
    """Return what was set by `set_float32_matmul_precision`; "highest" before.

    >>> get_float32_matmul_precision()
    'highest'
    """
    return _matmul_precision[0]


def set_float32_matmul_precision(precision: str) -> None:
    """Note "highest", "high" or "medium", the least precision that products need: tensors' are computed in float32 whatever it is.
    `compile(matmul_precision=)` chooses for programs on a card.

    >>> set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"the precision of float32 products is \"highest\", \"high\" or \"medium\", got {precision!r}")
    _matmul_precision[0] = precision


_matmul_precision = ["highest"]


def are_deterministic_algorithms_enabled() -> bool:
    """Return True: the same input gives the same bits.

    >>> are_deterministic_algorithms_enabled()
    True
    """
    return True


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Accept the wish for results that are the same each time, which they always are.

    >>> use_deterministic_algorithms(True)
    """


def get_default_device() -> device:
    """Return the device on which tensors are made in this thread.

    >>> get_default_device()
    device(type='cpu')
    """
    return CPU if modes.default_device is None else device(modes.default_device)


def set_default_device(device: Any) -> None:
    """Have tensors, and the parameters of layers, be made on a device in this thread, "cpu" or a card, unless `device=` says otherwise.
    Tensors on the memory of others (`from_numpy`, `frombuffer`) are where that is, and those like others (`zeros_like`) where these are.
    While a card is the default device, calls of compiled functions go through Python, which takes tens of microseconds: `with
    device("cuda"):` around what makes tensors costs nothing later. Raises `UnsupportedError` for a device that is not there.

    >>> set_default_device("cpu")
    """
    make_default(device)


def seed() -> int:
    """Restart the default generator from a random seed, which is returned.

    >>> seed() == initial_seed()
    True
    """
    number = int.from_bytes(os.urandom(8), "little") >> 1
    manual_seed(number)
    return number


def initial_seed() -> int:
    """Return the seed of the default generator.

    >>> import adjit
    >>> _ = adjit.manual_seed(3)
    >>> initial_seed()
    3
    """
    return default_generator.initial_seed()


def is_inference_mode_enabled() -> bool:
    """Return whether gradients are off: `inference_mode` is `no_grad`.

    >>> is_inference_mode_enabled()
    False
    """
    return not modes.grad


def is_anomaly_enabled() -> bool:
    """Return whether `autograd.detect_anomaly` is in force.

    >>> is_anomaly_enabled()
    False
    """
    return modes.anomaly


def typename(obj: Any, /) -> str:
    """Return the name of an object's type, with its module; of a tensor that of PyTorch's types.

    >>> import adjit
    >>> typename(adjit.ones(2)), typename(3)
    ('torch.FloatTensor', 'int')
    """
    if hasattr(obj, "requires_grad"):
        return str(obj.type())
    kind = type(obj)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
