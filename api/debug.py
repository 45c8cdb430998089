"""Looking for what is wrong with the numbers of compiled functions.

`print`, `callback`, `breakpoint` and `on_gradient` do at run time, in order, what Python's would do in the function: these run when it is
traced. `nans` finds the op that makes a NaN or an infinity, `check_grads` compares derivatives with differences; `adjit.compile(f,
shadow=0.01)` compares calls with the plain function.

>>> import numpy as np
>>> import adjit as aj
>>> @aj.compile
... def total(x):
...     aj.debug.print("the sum of {x}", x=x)
...     return np.sum(x)
>>> total(np.array([1.0, 2.0]))
the sum of [1. 2.]
np.float64(3.0)
"""

from adjit.runtime.debug.effects import breakpoint, callback, on_gradient, print
from adjit.runtime.debug.gradients import GradientCheck, check_grads
from adjit.runtime.debug.watch import nans

__all__ = ["GradientCheck", "breakpoint", "callback", "check_grads", "nans", "on_gradient", "print"]
