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

from adjit import errors, nn, numpy, optim, random, viz
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
    "CompiledFunction", "__version__", "checkpoint", "compile", "custom_vjp", "errors", "grad", "hessian", "hvp", "jacobian", "jvp",
    "nn", "numpy", "optim", "random", "stop_gradient", "value_and_grad", "viz", "vjp",
]
