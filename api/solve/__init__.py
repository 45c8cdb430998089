"""Solvers as parts of programs: minimisation, least squares, roots and fixed points, with derivatives of the solution.

Each solver is a loop of the program it stands in: within `adjit.compile`, `vmap`, `map` and other functions as well as by itself. The
derivatives of its solution, by the arguments and by what the function closes over, are those of the implicit function theorem.

>>> import numpy as np
>>> import adjit as aj
>>> def loss(p, data):
...     return np.sum(np.log(np.cosh(data - p)))
>>> aj.vmap(lambda data: aj.solve.newton(loss, 0.0, (data,)).x)(np.arange(20.0).reshape(4, 5))
array([ 2.,  7., 12., 17.])
"""

from adjit.solve.equations import fixed_point, root
from adjit.solve.least_squares import lm
from adjit.solve.minimization import bfgs, lbfgsb, newton
from adjit.solve.problem import Result

__all__ = ["Result", "bfgs", "fixed_point", "lbfgsb", "lm", "newton", "root"]
