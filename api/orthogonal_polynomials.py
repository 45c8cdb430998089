"""Orthogonal polynomials by the names of `torch.special`, and its functions that are parts of SciPy's: for arrays, traced ones and tensors.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.special.chebyshev_polynomial_t(np.array([0.5, 1.0]), 3)
    array([-1.,  1.])
    >>> aj.grad(lambda x: aj.special.legendre_polynomial_p(x, 2))(0.5)
    np.float64(1.5)

Each takes `(input, n)`: the degree is a whole number, or an array of them; the part of a float behind the point is dropped. Polynomials of
negative degree are 0. Degrees of integers do not change the dtype of `input`. They are SciPy's, which has to be installed, and have
derivatives by `input`, unlike PyTorch's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.eager.tensor import Tensor
from adjit.tracer.functions.external import external_function
from adjit.tracer.registry import FUNCTIONS

Array = Any
_KINDS: dict[str, tuple[str, bool, int | None, str]] = {
    "chebyshev_polynomial_t": ("eval_chebyt", False, None, "Chebyshev polynomial of the first kind"),
    "chebyshev_polynomial_u": ("eval_chebyu", False, None, "Chebyshev polynomial of the second kind"),
    "chebyshev_polynomial_v": ("eval_chebyu", False, -1, "Chebyshev polynomial of the third kind"),
    "chebyshev_polynomial_w": ("eval_chebyu", False, 1, "Chebyshev polynomial of the fourth kind"),
    "shifted_chebyshev_polynomial_t": ("eval_chebyt", True, None, "Chebyshev polynomial of the first kind, of `2 * input - 1`"),
    "shifted_chebyshev_polynomial_u": ("eval_chebyu", True, None, "Chebyshev polynomial of the second kind, of `2 * input - 1`"),
    "shifted_chebyshev_polynomial_v": ("eval_chebyu", True, -1, "Chebyshev polynomial of the third kind, of `2 * input - 1`"),
    "shifted_chebyshev_polynomial_w": ("eval_chebyu", True, 1, "Chebyshev polynomial of the fourth kind, of `2 * input - 1`"),
    "hermite_polynomial_h": ("eval_hermite", False, None, "Hermite polynomial of the physicists"),
    "hermite_polynomial_he": ("eval_hermitenorm", False, None, "Hermite polynomial of probability theory"),
    "laguerre_polynomial_l": ("eval_laguerre", False, None, "Laguerre polynomial"),
    "legendre_polynomial_p": ("eval_legendre", False, None, "Legendre polynomial"),
}
"""SciPy's function, whether its argument is `2 x - 1`, the sign of the polynomial of one degree less that is added, and the name."""


def _polynomial(name: str) -> Callable[..., Any]:
    theirs, is_shifted, sign, words = _KINDS[name]
    evaluate = external_function(theirs)

    def polynomial(input: Array, n: Array) -> Array:
        degree = int(n) if isinstance(n, (int, float)) else _whole(n)
        x = 2 * input - 1 if is_shifted else input
        known = np.where(degree < 0, 0, degree)
        found = evaluate(known, x)
        if sign is not None:
            found = found + np.where(known > 0, sign * evaluate(np.where(known > 0, known - 1, 0), x), 0)
        dtypes = [each.dtype for each in (input, n) if getattr(getattr(each, "dtype", None), "kind", "") == "f"]
        found = np.where(degree < 0, 0, found)
        return found.astype(np.result_type(*dtypes)) if dtypes else found[()]

    polynomial.__name__ = polynomial.__qualname__ = name
    polynomial.__doc__ = f"""Return the {words}, of degree `n`, at `input`; both are broadcast. Raises `ShapeError` if they cannot be.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.special.{name}(np.array([0.5, 1.0]), 0)
    array([1., 1.])
    """
    return polynomial


def _whole(n: Array) -> Array:
    if isinstance(n, Tensor):
        return n.trunc().long() if n.is_floating_point() else n
    return np.trunc(n).astype(np.int64) if n.dtype.kind == "f" else n


def airy_ai(input: Array) -> Array:
    """Return Airy's function Ai, the first result of SciPy's `airy`.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.special.airy_ai(np.array([0.0])).round(4)
    array([0.355])
    """
    return external_function("airy")(input)[0]


def spherical_bessel_j0(input: Array) -> Array:
    """Return the spherical Bessel function of the first kind of order 0, `sin(x) / x`, 1 at 0.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.special.spherical_bessel_j0(np.array([0.0, np.pi / 2])).round(4)
    array([1.    , 0.6366])
    """
    return FUNCTIONS[np.sinc](input / np.pi)


POLYNOMIALS: dict[str, Callable[..., Any]] = {
    **{name: _polynomial(name) for name in _KINDS}, "airy_ai": airy_ai, "spherical_bessel_j0": spherical_bessel_j0}
"""The functions of this module, by PyTorch's names."""
