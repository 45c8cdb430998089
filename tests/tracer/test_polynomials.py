"""`numpy.polynomial` and `poly1d` with traced points and coefficients: NumPy's own code, traced."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.numpy_comparison import check_gradients, check_values

X = np.linspace(-0.9, 0.8, 7)
ARGUMENTS = (X, np.sin(X * 3), np.array([0.3, -1.2, 0.5, 2.0]), np.array([1.1, 0.53, -0.27]))
OF_MODULE = """val(x,c) val(0.5,c) val(x,np.stack([c,c]).T) val2d(x,y,np.outer(c,d)) grid2d(x,y,np.outer(c,d)) add(c,d) sub(c,d)
mul(c,d) mulx(c)
div(c,d) pow(d,3) der(c) int(c) der(c,2) int(c,2,[1.0,2.0]) vander(x,3) vander2d(x,y,[2,1]) fit(x,y,3) fit(x,y,2,w=np.abs(y)+1)
fromroots(c) roots(d)
companion(c) trim(c) line(c[0],c[1])"""
OF_CLASS = """Q(c)(x) (Q(c)*Q(d)).coef (Q(c)+Q(d)-1.5).coef (Q(c)**2)(x) Q(c).deriv()(x) Q(c).integ()(x) Q.fit(x,y,3)(x)
Q(c,domain=[-2,2])(x)
Q.fromroots(d)(x) Q.basis(2)(x) Q(c).linspace(5)[1] Q(c).roots() (Q(c)//Q(d)).coef Q(c).convert(kind=np.polynomial.Polynomial).coef
Q(c).truncate(2).coef 2.0*Q(c)(x[0]) Q(c).degree()"""
OTHERS = """np.poly1d(c)(x) (np.poly1d(c)*np.poly1d(d)).coeffs np.poly1d(c).deriv()(x) np.poly1d(c).integ()(x) np.poly1d(c).roots
np.poly1d(c).order
np.poly1d([c[0],1.0]).coef np.polynomial.polyutils.mapdomain(x,[-1,1],[0,2]) np.polynomial.polyutils.as_series([c,d])"""
MODULES = {"polynomial": "poly", "chebyshev": "cheb", "legendre": "leg", "hermite": "herm", "hermite_e": "herme", "laguerre": "lag"}
CLASSES = ("Polynomial", "Chebyshev", "Legendre", "Hermite", "HermiteE", "Laguerre")
CALLS = [*(f"np.polynomial.{module}.{short}{call}" for module, short in MODULES.items() for call in OF_MODULE.split()),
         *(call.replace("Q", f"np.polynomial.{name}") for name in CLASSES for call in OF_CLASS.split()), *OTHERS.split()]


def check(call: str) -> None:
    function: Any = eval(f"lambda x,y,c,d: {call}", {"np": np})
    check_values(function, [ARGUMENTS], "interpret", 1e-9)
    check_gradients(function, [ARGUMENTS], (0, 1, 2, 3), "interpret")


@pytest.mark.parametrize("part", range(2))
def test_polynomials_are_those_of_numpy(part: int, exhaustive: bool) -> None:
    for_each(((call, (call,)) for call in (CALLS[part::2] if exhaustive else CALLS[part::14])), check, share=2)
