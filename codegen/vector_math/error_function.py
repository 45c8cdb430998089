"""erf: x + x P(x^2) below 1, 1 - e^P(|x| - 1) above (the form of N. Juffa's erff)."""

from __future__ import annotations

from adjit.codegen.vector_math.building_blocks import at_most, polynomial, power_of_two
from adjit.codegen.vector_math.exponential import expm1_of_reduced, reduce_ln2
from adjit.codegen.vector_math.language import Value, copysign, fma, select

_ERF_MOST = {32: 4.0, 64: 6.0}


def erf(x: Value) -> Value:
    a = abs(x)
    near = fma(x, polynomial(a * a, "ERF"), x)
    code, r = reduce_ln2(polynomial(at_most(a, _ERF_MOST[x.bits]) - 1.0, "ERF_TAIL"))
    s = power_of_two(code)
    far = 1.0 - fma(s, expm1_of_reduced(r), s)
    return select(a < 1.0, near, copysign(far, x))
