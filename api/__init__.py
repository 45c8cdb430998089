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

from adjit import autograd, errors, nn, numpy, optim, random, viz
from adjit.eager import methods as _methods     # gives tensors their methods
from adjit.eager.conversions import from_dlpack
from adjit.eager.generator import manual_seed
from adjit.eager.modes import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from adjit.eager.tensor import Tensor, as_tensor, tensor
from adjit.ir.version import VERSION as __version__
from adjit.runtime.compiled import CompiledFunction, compile
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.transforms import (
    checkpoint,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    stop_gradient,
    value_and_grad,
    vjp,
)

__all__ = [
    "CompiledFunction", "Tensor", "__version__", "as_tensor", "autograd", "checkpoint", "compile", "custom_vjp", "enable_grad", "errors",
    "from_dlpack", "grad", "hessian", "hvp", "is_grad_enabled", "jacobian", "jvp", "manual_seed", "nn", "no_grad", "numpy", "optim", "random",
    "set_grad_enabled", "stop_gradient", "tensor", "value_and_grad", "viz", "vjp",
]
