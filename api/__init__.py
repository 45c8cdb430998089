"""adjit ("AD + JIT"): plain NumPy functions, and whole training steps, to machine code with exact gradients.

>>> import numpy as np
>>> import adjit as aj
>>> @aj.compile
... def distance(x, y):
...     return np.sqrt(np.sum((x - y) ** 2))
>>> float(distance(np.array([0.0, 0.0]), np.array([3.0, 4.0])))
5.0
>>> aj.grad(distance)(np.array([0.0, 0.0]), np.array([3.0, 4.0]))
array([-0.6, -0.8])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from adjit import autograd, errors, linalg, numpy, random
from adjit.eager.conversions import from_dlpack
from adjit.eager.generator import get_rng_state, manual_seed, set_rng_state
from adjit.eager.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.spelling import nearest as _nearest
from adjit.ir.version import VERSION as __version__
from adjit.runtime.compiled import CompiledFunction, compile
from adjit.runtime.control_flow import cond, fori_loop, scan, while_loop
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.jacobians import hessian, jacfwd, jacobian, jacrev
from adjit.runtime.pure_callback import pure_callback
from adjit.runtime.transforms import (
    checkpoint,
    grad,
    hvp,
    jvp,
    stop_gradient,
    value_and_grad,
    vjp,
)
from adjit.runtime.vmap import vmap

if TYPE_CHECKING:
    from adjit import fft, nn, optim, special, tensor_function_names, viz  # `tensor_function_names` is a stub
    from adjit.runtime.exports.load import load
    from adjit.tensor_function_names import *  # noqa: F403

__all__ = [
    "CompiledFunction", "Tensor", "__version__", "as_tensor", "autograd", "checkpoint", "compile", "cond", "custom_vjp", "enable_grad",
    "errors", "fft", "fori_loop", "from_dlpack", "get_rng_state", "grad", "hessian", "hvp", "is_grad_enabled", "jacfwd", "jacobian",
    "jacrev", "jvp", "linalg", "load", "manual_seed", "nn", "no_grad", "numpy", "optim", "pure_callback", "random", "scan",
    "set_grad_enabled", "set_rng_state", "special", "stop_gradient", "tensor", "value_and_grad", "viz", "vjp", "vmap", "while_loop",
]
if TYPE_CHECKING:
    __all__ += tensor_function_names.__all__        # type: ignore[has-type]

_ON_DEMAND = ("fft", "nn", "optim", "special", "viz")
_LOADING = "adjit.runtime.exports.load"


if not TYPE_CHECKING:       # type checkers know all names
    def __getattr__(name: str) -> Any:
        """Import modules that many programs do without when they are first used: `import adjit` stays quick."""
        if name in _ON_DEMAND:
            return import_module(f"adjit.{name}")
        if name == "load":
            return globals().setdefault(name, import_module(_LOADING).load)
        function = None if name.startswith("_") else import_module("adjit.tensor_functions").FUNCTIONS.get(name)
        if function is not None:
            return globals().setdefault(name, function)
        raise AttributeError(f"module 'adjit' has no attribute {name!r}{_nearest(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted({*__all__, *import_module("adjit.tensor_functions").FUNCTIONS})
