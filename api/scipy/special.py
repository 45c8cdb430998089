"""`scipy.special` for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own functions.

    >>> import numpy as np
    >>> import adjit as aj
    >>> import adjit.scipy.special as sc
    >>> aj.grad(sc.log_ndtr)(-30.0).round(4)
    np.float64(30.0333)
    >>> aj.grad(lambda x: np.sum(sc.spherical_jn(1, x)))(np.array([0.0, 1.0])).round(6)
    array([0.333333, 0.239134])

The ufuncs are SciPy's: they work on traced arrays as they are, those with a rule (`docs/scipy.md` has all names). The other functions are
here. Without SciPy the names are those of `adjit.special`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from adjit import special as ours
from adjit.ir.errors import UnsupportedError
from adjit.linalg.rules import pure_vjp
from adjit.runtime.control_flow import fori_loop
from adjit.runtime.transforms import jvp as _jvp
from adjit.scipy.mirror import mirrors, scipys, without_rule
from adjit.scipy.sliding import inexact
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.functions import composites
from adjit.tracer.user_location import find_user_location

__all__ = [
    "assoc_laguerre", "comb", "diric", "factorial", "h1vp", "h2vp", "ivp", "jvp", "kvp", "lambertw", "log_softmax", "logsumexp",
    "multigammaln", "perm", "polygamma", "sinc", "softmax", "softplus", "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn",
    "yvp", "zeta",
]

_others = without_rule("special", __all__)
_mirrors = mirrors("special")


def __getattr__(name: str) -> Any:
    """Return SciPy's ufunc, which works on traced arrays, or what else its module has under this name, for plain arrays."""
    try:
        scipys("special")
    except UnsupportedError:
        return getattr(ours, name)
    return _others(name)


logsumexp = _mirrors(composites.logsumexp)
softmax = _mirrors(composites.softmax)
log_softmax = _mirrors(composites.log_softmax)
polygamma = _mirrors(ours.polygamma)
multigammaln = _mirrors(ours.multigammaln)
zeta = _mirrors(ours.zeta)


@_mirrors
def softplus(x: Any, **options: Any) -> Any:
    """Equivalent of `scipy.special.softplus`: log(1 + exp(x)).

    >>> float(softplus(0.0)) == math.log(2.0)
    True
    """
    return ours.softplus(x, **options)


@_mirrors
def sinc(x: Any) -> Any:
    """Equivalent of `scipy.special.sinc`, which is NumPy's: sin(pi x) / (pi x).

    >>> float(sinc(0.0))
    1.0
    """
    return np.sinc(as_traced(x))


@_mirrors
def diric(x: Any, n: int) -> Any:
    """Equivalent of `scipy.special.diric`, for a known whole number `n`: sin(n x / 2) / (n sin(x / 2)).

    >>> float(diric(0.0, 3))
    1.0
    """
    (x,) = inexact(x)
    count = _whole(n, "diric", "n")
    if count <= 0:
        return np.full(x.shape, math.nan, x.dtype)
    half = 0.5 * x
    turns = np.floor(half / math.pi + 0.5)
    rest = half - math.pi * turns       # the result is that at `rest`, times (-1)^(turns (n - 1))
    sign = 1.0 - 2.0 * (np.abs(turns * (count - 1)) % 2.0)
    near = np.abs(rest) < 1e-4
    safe = np.where(near, 1.0, rest)
    series = 1.0 - (count * count - 1.0) / 6.0 * rest * rest
    return (sign * np.where(near, series, np.sin(count * safe) / (count * np.sin(safe)))).astype(x.dtype, copy=False)


def _whole(n: Any, name: str, argument: str) -> int:
    if isinstance(n, TracedArray) or np.ndim(n) or int(n) != n:
        raise UnsupportedError(f"{name} takes a whole number {argument} that is known while tracing", find_user_location(),
                               hint="call it once for each number")
    return int(n)


# -- numbers of combinations


def _not_exact(exact: Any, name: str) -> None:
    if exact:
        raise UnsupportedError(f"{name}(exact=True) makes Python integers", find_user_location(),
                               hint="call it on plain numbers outside of the compiled function")


@_mirrors
def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """Equivalent of `scipy.special.comb`, with derivatives in both arguments.

    >>> float(comb(5, 2))
    10.0
    """
    _not_exact(exact, "comb")
    n, k = inexact(N, k)
    if repetition:
        n = n + k - 1.0
    there = (k <= n) & (n >= 0) & (k >= 0)
    return np.where(there, ours.binom(np.where(there, n, 2.0), np.where(there, k, 1.0)), 0.0)


@_mirrors
def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """Equivalent of `scipy.special.perm`, with derivatives in both arguments.

    >>> float(perm(5, 2))
    20.0
    """
    _not_exact(exact, "perm")
    n, k = inexact(N, k)
    there = (k <= n) & (n >= 0) & (k >= 0)
    return np.where(there, ours.poch(np.where(there, n - k + 1.0, 1.0), np.where(there, k, 1.0)), 0.0)


@_mirrors
def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """Equivalent of `scipy.special.factorial` with `extend="zero"`: gamma(n + 1), 0 below 0.

    >>> float(factorial(4.0))
    24.0
    """
    _not_exact(exact, "factorial")
    if extend != "zero":
        raise UnsupportedError(f"factorial(extend={extend!r})", find_user_location(), hint="call adjit.special.gamma(n + 1)")
    (n,) = inexact(n)
    there = (n >= 0) | np.isnan(n)
    return np.where(there, ours.gamma(np.where(there, n, 0.0) + 1.0), 0.0)


@_mirrors
def assoc_laguerre(x: Any, n: Any, k: Any = 0.0) -> Any:
    """Equivalent of `scipy.special.assoc_laguerre`.

    >>> float(assoc_laguerre(1.0, 1, 2.0))
    2.0
    """
    return ours.eval_genlaguerre(n, k, x)


# -- derivatives of Bessel functions: DLMF 10.6.7, 10.29.5


def _derivative(function: Any, v: Any, z: Any, n: Any, sign: float, name: str) -> Any:
    """Derivative of order `n`: 2^-n times the sum of (sign)^k (n over k) times the functions of order v - n + 2 k."""
    order = _whole(n, name, "n")
    if order < 0:
        raise ValueError("n must be a non-negative integer.")
    v, z = (as_traced(x) for x in (v, z))
    terms = [sign ** k * math.comb(order, k) * function(v - float(order) + 2.0 * k, z) for k in range(order + 1)]
    return function(v, z) if not order else sum(terms[1:], terms[0]) / 2.0 ** order


@_mirrors
def jvp(v: Any, z: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.special.jvp`: the derivative of order `n` of the Bessel function of the first kind.

    >>> float(jvp(0, 1.0).round(6))
    -0.440051
    """
    return _derivative(ours.jv, v, z, n, -1.0, "jvp")


@_mirrors
def yvp(v: Any, z: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.special.yvp`: the derivative of order `n` of the Bessel function of the second kind.

    >>> float(yvp(0, 1.0).round(6))
    0.781213
    """
    return _derivative(ours.yv, v, z, n, -1.0, "yvp")


@_mirrors
def ivp(v: Any, z: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.special.ivp`: the derivative of order `n` of the modified Bessel function of the first kind.

    >>> float(ivp(0, 0.0))
    0.0
    """
    return _derivative(ours.iv, v, z, n, 1.0, "ivp")


@_mirrors
def kvp(v: Any, z: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.special.kvp`: the derivative of order `n` of the modified Bessel function of the second kind.

    >>> float(kvp(0, 1.0).round(6))
    -0.601907
    """
    return (-1.0) ** _whole(n, "kvp", "n") * _derivative(ours.kv, v, z, n, 1.0, "kvp")


@_mirrors
def h1vp(v: Any, z: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.special.h1vp`: the derivative of order `n` of the Hankel function of the first kind.

    >>> h1vp(0, 1.0).round(6)
    np.complex128(-0.440051+0.781213j)
    """
    return _derivative(ours.hankel1, v, z, n, -1.0, "h1vp")


@_mirrors
def h2vp(v: Any, z: Any, n: int = 1) -> Any:
    """Equivalent of `scipy.special.h2vp`: the derivative of order `n` of the Hankel function of the second kind.

    >>> h2vp(0, 1.0).round(6)
    np.complex128(-0.440051-0.781213j)
    """
    return _derivative(ours.hankel2, v, z, n, -1.0, "h2vp")


# -- spherical Bessel functions of real arguments: DLMF 10.47, 10.53


def _series(n: Any, x: Any, sign: float) -> Any:
    """Power series at 0: x^n / (2n + 1)!! times the sum of (sign x^2 / 2)^k / (k! (2n + 3) ... (2n + 2k + 1))."""
    total, term = 1.0, 1.0
    for k in range(1, 9):
        term = term * (sign * 0.5 / k) * x * x / (2.0 * n + 2.0 * k + 1.0)
        total = total + term
    double_factorial = np.exp(ours.gammaln(2.0 * n + 2.0) - n * math.log(2.0) - ours.gammaln(n + 1.0))
    return np.power(x, n) / double_factorial * total


def _spherical(n: Any, z: Any, derivative: bool, name: str, function: Any, sign: float | None, parity: float) -> Any:
    """Value or derivative of sqrt(pi / 2x) times the function of order n + 1/2; near 0 by the series, below 0 by symmetry."""
    (x,) = inexact(z)
    if x.dtype.kind == "c":
        raise UnsupportedError(f"{name} of complex numbers", find_user_location(), hint="real arguments are supported")
    order = np.broadcast_to(as_traced(n), np.broadcast_shapes(np.shape(n), x.shape)).astype(x.dtype)
    x = np.broadcast_to(x, order.shape)

    def value(x: Any) -> Any:
        near = np.abs(x) < 0.5 if sign is not None else np.zeros(x.shape, bool)
        far = np.where(near, 1.0, np.abs(x))
        found = np.sqrt(0.5 * math.pi / far) * function(order + 0.5, far)
        below = math.nan if parity == 0.0 else parity * (1.0 - 2.0 * (order % 2.0))
        turned = np.where(x < 0, below, 1.0) * found
        found = turned if sign is None else np.where(near, _series(order, np.where(near, x, 0.25), sign), turned)
        return np.where(order < 0, math.nan, found)

    return _jvp(value, (x,), (np.ones(x.shape, x.dtype),))[1] if derivative else value(x)


@_mirrors
def spherical_jn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Equivalent of `scipy.special.spherical_jn`, of real `z`.

    >>> float(spherical_jn(0, 0.0))
    1.0
    """
    return _spherical(n, z, derivative, "spherical_jn", ours.jv, -1.0, 1.0)


@_mirrors
def spherical_yn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Equivalent of `scipy.special.spherical_yn`, of real `z`.

    >>> float(spherical_yn(0, 1.0).round(6))
    -0.540302
    """
    return _spherical(n, z, derivative, "spherical_yn", ours.yv, None, -1.0)


@_mirrors
def spherical_in(n: Any, z: Any, derivative: bool = False) -> Any:
    """Equivalent of `scipy.special.spherical_in`, of real `z`.

    >>> float(spherical_in(0, 0.0))
    1.0
    """
    return _spherical(n, z, derivative, "spherical_in", ours.iv, 1.0, 1.0)


@_mirrors
def spherical_kn(n: Any, z: Any, derivative: bool = False) -> Any:
    """Equivalent of `scipy.special.spherical_kn`, of real `z` that is not negative; NaN below 0.

    >>> float(spherical_kn(0, 1.0).round(6))
    0.577864
    """
    return _spherical(n, z, derivative, "spherical_kn", ours.kv, None, 0.0)


# -- Lambert's function

_STEPS = 12
"""Halley's steps from the first approximation; four are enough but near the branch point."""


def _first_approximation(z: Any, branch: int) -> Any:
    """By a series at the branch point, a quotient of polynomials at 0, logarithms elsewhere (Corless et al., "On the Lambert W function",
    1996)."""
    logarithm = np.log(np.where(z == 0, 1.0, z)) + 2j * math.pi * branch
    far = logarithm - np.log(np.where(logarithm == 0, 1.0, logarithm))
    if branch == -1:
        real = (z.imag == 0) & (z.real < 0) & (np.abs(z + math.exp(-1.0)) <= math.exp(-1.0))
        return np.where(real, np.log(np.where(real, -z.real, 1.0)) + 0j, far)
    if branch:
        return far
    p = np.sqrt(2.0 * (math.e * z + 1.0))
    quotient = z * ((12.85106382978723404255 * z + 12.34042553191489361902) * z + 1.0) / (
        (32.53191489361702127660 * z + 14.34042553191489361702) * z + 1.0)
    x, y = z.real, np.abs(z.imag)
    middle = (x > -1.0) & (x < 1.5) & (y < 1.0) & (-2.5 * y - 0.2 < x)
    return np.where(np.abs(z + math.exp(-1.0)) < 0.3, (-p / 3.0 + 1.0) * p - 1.0, np.where(middle, quotient, far))


def _lambert(branch: int) -> Any:
    def compute(z: Any) -> Any:
        def step(_: Any, w: Any) -> Any:
            positive = w.real >= 0      # the exponential is taken of what does not overflow
            e = np.exp(np.where(positive, -w, w))
            rest, slope = np.where(positive, w - z * e, w * e - z), np.where(positive, w + 1.0, w * e + e)
            at_branch_point = w == -1.0
            by = slope - (w + 2.0) * rest / np.where(at_branch_point, 1.0, 2.0 * w + 2.0)
            return np.where(at_branch_point | (by == 0), w, w - rest / np.where(by == 0, 1.0, by))

        w = fori_loop(0, _STEPS, step, _first_approximation(z, branch))
        zero = z if not branch else np.full(z.shape, complex(-math.inf, 0.0))
        return np.where(z == 0, zero, np.where(np.isinf(z.real), np.where(z.real > 0, z + 2j * math.pi * branch,
                                                                          -z + (2 * branch + 1) * 1j * math.pi), w))

    rule = pure_vjp(compute)

    def forward(z: Any) -> tuple[Any, Any]:
        w = rule(z)
        return w, w

    rule.defvjp(forward, lambda w, cotangent: (cotangent * np.conj(np.exp(-w) / (1.0 + w)),))
    return rule


_LAMBERT: dict[int, Any] = {}


@_mirrors
def lambertw(z: Any, k: int = 0, tol: float = 1e-8) -> Any:
    """Equivalent of `scipy.special.lambertw`, on a known branch `k`: w with w e^w = z, complex128.

    >>> lambertw(1.0).real.round(6)
    np.float64(0.567143)
    """
    branch = _whole(k, "lambertw", "k")
    rule = _LAMBERT.setdefault(branch, _lambert(branch))
    return rule(as_traced(z).astype(np.complex128))
