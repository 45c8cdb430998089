"""Modified Bessel functions I0 and I1 times e^-|x|; float32 by way of float64.

Up to 8 the power series in x^2, refitted as a minimax polynomial; above 8 a polynomial in 8/x over sqrt(x) (Blair and Edwards 1974; the
form of Cephes and Boost).
"""

from __future__ import annotations

from adjit.codegen.vector_math.building_blocks import at_most, polynomial
from adjit.codegen.vector_math.exponential import exp_of_minus_abs
from adjit.codegen.vector_math.language import Value, copysign, in_double, select, sqrt

_LIMIT = 8.0


def _parts(a: Value, name: str) -> tuple[Value, Value]:
    """Both forms at a >= 0, the first one without a factor a."""
    near = at_most(a, _LIMIT)
    u = _LIMIT / select(a < _LIMIT, _LIMIT, a)
    return polynomial(near * near, name) * exp_of_minus_abs(near), polynomial(u - 0.5, f"{name}_TAIL") / sqrt(a)


@in_double
def i0e(x: Value) -> Value:
    a = abs(x)
    near, far = _parts(a, "I0")
    return select(a < _LIMIT, near, far)


@in_double
def i1e(x: Value) -> Value:
    a = abs(x)
    near, far = _parts(a, "I1")
    return copysign(select(a < _LIMIT, near * a, far), x)
