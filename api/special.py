"""Special functions by SciPy's names, for plain arrays, traced arrays and tensors.

    >>> import numpy as np
    >>> import adjit as aj
    >>> aj.special.gammaln(np.array([1.0, 2.0, 5.0])).round(4)
    array([0.    , 0.    , 3.1781])
    >>> aj.grad(aj.special.log_ndtr)(-30.0).round(4)
    np.float64(30.0333)

Error functions: `erf`, `erfc`, `erfcx`, `erfinv`, `ndtr`, `log_ndtr`. Gamma function: `gammaln`, `gamma`, `rgamma`, `gammasgn`, `psi`
(`digamma`), `polygamma`, `multigammaln`, `beta`, `betaln`. Bessel functions: `i0`, `i0e`, `i1`, `i1e`. Logistic: `expit`, `logit`,
`log_expit`, `softplus`. Entropy: `entr`, `rel_entr`, `kl_div`, `xlogy`, `xlog1py`. Transformations and losses: `boxcox`, `boxcox1p`,
`huber`, `pseudo_huber`. Exponentials and logarithms: `exp2`, `exp10`, `expm1`, `log1p`, `cbrt`, `logsumexp`, `softmax`, `log_softmax`. And
`zeta`.

With SciPy installed, more than a hundred others, which SciPy computes (`docs/scipy.md` has the table): incomplete gamma and beta functions
and their inverses, Bessel, Airy, Kelvin, Struve and parabolic cylinder functions, elliptic integrals, exponential integrals, hypergeometric
functions, orthogonal polynomials (also by the names of `torch.special`), distribution functions. Native programs call SciPy's functions
of C. In an argument without a closed form of the derivative, such as the order of a Bessel function, a derivative is refused with
`NonDifferentiableError`.

Those that are ufuncs in SciPy take its `out=` and `where=`, and `scipy.special.gammaln(x)` itself works on traced arrays and tensors.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from adjit.ir.ops.external_functions import FUNCTIONS as _EXTERNAL
from adjit.ir.spelling import nearest as _nearest
from adjit.numpy_signatures import describe_special
from adjit.orthogonal_polynomials import POLYNOMIALS as _POLYNOMIALS
from adjit.tracer.functions.composites import log_softmax, logsumexp, softmax
from adjit.tracer.functions.external import NAMES as _NAMES
from adjit.tracer.functions.external import external_function
from adjit.tracer.functions.special import OF_TWO, multigammaln, polygamma, zeta
from adjit.tracer.registry import FUNCTIONS

_UFUNCS = {name[1]: function for name, function in FUNCTIONS.items() if isinstance(name, tuple) and name[0] == "scipy.special"}
_UFUNCS |= {"digamma": _UFUNCS["psi"], **{name: external_function(name) for name in _NAMES}}


_PYTORCHS = {
    "bessel_j0": "j0", "bessel_j1": "j1", "bessel_y0": "y0", "bessel_y1": "y1", "modified_bessel_i0": "i0", "modified_bessel_i1": "i1",
    "modified_bessel_k0": "k0", "modified_bessel_k1": "k1", "scaled_modified_bessel_k0": "k0e", "scaled_modified_bessel_k1": "k1e"}
"""Names in `torch.special` of SciPy's functions."""
_OF_NUMPY: dict[str, Any] = {"sinc": FUNCTIONS[np.sinc], "round": FUNCTIONS[np.round]}


def __getattr__(name: str) -> Any:
    """Return the ufunc of scipy.special of this name if it has a rule; raises `AttributeError` for others."""
    if name in _OF_NUMPY:
        return _OF_NUMPY[name]
    if name in _POLYNOMIALS:
        return _POLYNOMIALS[name]
    name = _PYTORCHS.get(name, name)
    try:
        function = _UFUNCS[name]
    except KeyError:
        exists = hasattr(sys.modules.get("scipy.special"), name)
        reason = f"scipy.special.{name} has no rule" if exists else f"there is no such function with a rule{_nearest(name, __dir__())}"
        raise AttributeError(f"module 'adjit.special' has no attribute {name!r}: {reason}", name=name, obj=None) from None
    if name in _NAMES:
        known = _EXTERNAL[name]
        return describe_special(function, known.arity - known.of_complex, name, 1 if known.of_complex else len(known.derivatives))
    return describe_special(function, 2 if name in OF_TWO else 1, name)


def __dir__() -> list[str]:
    return sorted([*__all__, *_UFUNCS, *_POLYNOMIALS])


__all__ = ["log_softmax", "logsumexp", "multigammaln", "polygamma", "softmax", "zeta"]
