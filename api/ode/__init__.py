"""Ordinary differential equations, as one loop of the program: with saved times, events, dense output and derivatives.

>>> import numpy as np
>>> from adjit import ode
>>> found = ode.solve_ivp(lambda t, y: -0.5 * y, (0.0, 2.0), np.array([1.0, 4.0]), rtol=1e-9, atol=1e-12)
>>> np.round(found.y, 8)
array([0.36787944, 1.47151776])
"""

from adjit.ode.initial_value import OdeResult, solve_ivp
from adjit.ode.interpolation import DenseOutput

__all__ = ["DenseOutput", "OdeResult", "solve_ivp"]
