"""Functions of matrices: exponentials, roots, logarithms, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir import ops
from adjit.ir.errors import UnsupportedError
from adjit.ir.thread_context import thread
from adjit.ir.types import real_dtype
from adjit.linalg import rules
from adjit.linalg.functions import square
from adjit.runtime.control_flow import fori_loop, while_loop
from adjit.runtime.custom_vjp import MAX_ORDER
from adjit.runtime.transforms import stop_gradient
from adjit.scipy.linalg.systems import identity
from adjit.scipy.mirror import mirrors
from adjit.tracer.array import wrap
from adjit.tracer.user_location import find_user_location

_scipy = mirrors("linalg")


_PADE = (64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0, 10559470521600.0,
         670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0)
_PADE_RADIUS = 5.371920351148152
"""1-norm below which the approximant of order 13 is exact to rounding (Higham, "The scaling and squaring method for the matrix exponential
revisited", 2005)."""


def _by_frechet_derivative(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Give a function of matrices its derivative: that in a direction e is the upper right block of the function of [[a, e], [0, a]]
    (Higham, "Functions of Matrices", 2008, 3.6); the rule is that of the adjoint matrix, in the direction of the cotangent."""
    rule = rules.pure_vjp(function)

    def backward(a: Any, cotangent: Any) -> tuple[Any]:
        size = a.shape[-1]
        turned = rules.adjoint(a)
        top = np.concatenate([turned, cotangent], axis=-1)
        bottom = np.concatenate([np.zeros_like(turned), turned], axis=-1)
        return (rule(np.concatenate([top, bottom], axis=-2))[..., :size, size:],)

    rule.defvjp(lambda a: (rule(a), a), backward)
    return rule


def _one_norm(a: Any) -> Any:
    return np.max(np.sum(np.abs(a), axis=-2), axis=-1)


def _expm_of(a: Any) -> Any:
    largest = stop_gradient(_one_norm(a))[..., None, None]
    squarings = np.where(np.isfinite(largest), np.ceil(np.log2(np.maximum(largest / _PADE_RADIUS, 1.0))), 0.0)
    x = a * np.exp2(-squarings).astype(a.dtype)
    one, x2 = identity(a), x @ x
    x4 = x2 @ x2
    x6 = x4 @ x2
    c = _PADE
    odd = x @ (x6 @ (c[13] * x6 + c[11] * x4 + c[9] * x2) + c[7] * x6 + c[5] * x4 + c[3] * x2 + c[1] * one)
    even = x6 @ (c[12] * x6 + c[10] * x4 + c[8] * x2) + c[6] * x6 + c[4] * x4 + c[2] * x2 + c[0] * one
    result = rules.factored(even - odd).solve(even + odd)
    if a.ndim == 2:
        return fori_loop(0, squarings[0, 0].astype(np.int64), lambda _, r: r @ r, result)
    return fori_loop(0, np.max(squarings).astype(np.int64), lambda i, r: np.where(i < squarings, r @ r, r), result)


_expm = _by_frechet_derivative(_expm_of)


@_scipy
def expm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.expm`: the exponential of matrices (..., n, n), by scaling, the Padé approximant of order 13, and
    squaring.

    >>> import numpy as np
    >>> expm(np.zeros((2, 2)))
    array([[1., 0.],
           [0., 1.]])
    """
    a = square(A, "expm")
    return _expm(a) if a.size else np.copy(a)


def _sqrtm_of(a: Any) -> Any:
    """The principal root by the product form of Denman's and Beavers' iteration, scaled by determinants (Higham, "Functions of Matrices",
    2008, 6.29); NaN if it does not converge.

    Derivatives beyond those that use the rule are those of the iteration. Of a matrix whose eigenvalues are equal it is exact after a few
    steps, while a derivative, to first order in what is not, needs one step more, and one of twice the order another one.
    """
    size, one = a.shape[-1], identity(a)
    steps_behind = 4 if thread.context.order >= MAX_ORDER else 0
    tolerance = size * float(np.finfo(a.dtype).eps)

    def goes_on(error: Any, behind: Any) -> Any:
        return (error > tolerance) | (behind > 0)

    def step(state: Any) -> Any:
        before, x, error, behind, count = state
        factored = rules.factored(before)
        scale = np.exp(-factored.log_abs_det() / (2 * size))[..., None, None]
        scale = np.where(np.isfinite(scale) & (np.abs(np.log(scale)) > 1e-2), scale, 1.0).astype(a.dtype)
        inverse = factored.inverse() / scale ** 2
        after = 0.5 * scale * x @ (one + inverse)
        m = 0.5 * (one + 0.5 * (scale ** 2 * before + inverse))
        if a.ndim > 2:      # those of a stack that are done stay as they are
            active = goes_on(error, behind)[..., None, None]
            m, after = np.where(active, m, before), np.where(active, after, x)
        return m, after, _one_norm(m - one), np.where(error > tolerance, behind, behind - 1), count + 1

    start = (a, a, np.full(a.shape[:-2], np.inf, real_dtype(a.dtype)), np.full(a.shape[:-2], steps_behind), np.asarray(0))
    _, x, error, _, _ = while_loop(lambda state: np.any(goes_on(state[2], state[3])) & (state[4] < 100), step, start)
    return np.where((error < 1e3 * tolerance)[..., None, None], x, np.asarray(np.nan, a.dtype))


_sqrtm = _by_frechet_derivative(_sqrtm_of)


@_scipy
def sqrtm(A: Any, disp: bool = True, blocksize: int = 64) -> Any:
    """Equivalent of `scipy.linalg.sqrtm`, in the dtype of the matrix: the principal root. NaN for real matrices with a negative eigenvalue,
    whose root is complex: that of `A + 0j` is right, with derivatives.

    The root of a singular matrix is found if it has a basis of eigenvectors; its derivative is NaN or infinite.

    >>> import numpy as np
    >>> np.round(sqrtm(np.array([[4.0, 0.0], [0.0, 9.0]])), 9)
    array([[2., 0.],
           [0., 3.]])
    """
    if not disp:
        raise UnsupportedError("sqrtm(disp=False)", find_user_location(), hint="leave it out: SciPy does not recommend it any more")
    a = square(A, "sqrtm")
    return _where_singular(_root(a), a, np.sqrt) if a.size else np.copy(a)


def _root(a: Any) -> Any:
    if a.dtype.kind != "c":
        return _sqrtm(a)
    turn = _turn(a)
    return _sqrtm(a * np.exp(-1j * turn).astype(a.dtype)) * np.exp(0.5j * turn).astype(a.dtype)


def _noise(w: Any) -> Any:
    """Size of eigenvalues that rounding may have left of 0."""
    return w.shape[-1] * float(np.finfo(w.dtype).eps) * np.max(np.abs(w), axis=-1, keepdims=True)


def _turn(a: Any) -> Any:
    """An angle for each complex matrix, [..., 1, 1]: less by it, the angles of its eigenvalues are far from that of the negative real axis,
    where roots and logarithms jump and iterations fail; 0 if they are so already. Eigenvalues on the axis have the angle pi."""
    w: Any = wrap(ops.eigvals(stop_gradient(a).value))
    noise = _noise(w)
    angles = np.where((np.real(w) < 0) & (np.abs(np.imag(w)) <= noise), np.pi, np.angle(w))
    counts = np.abs(w) > noise
    lowest, highest = np.min(np.where(counts, angles, 4.0), axis=-1), np.max(np.where(counts, angles, -4.0), axis=-1)
    turn = np.where(np.maximum(highest, -lowest) > 3.0, 0.5 * (lowest + highest), 0.0)
    found: Any = np.where(np.any(counts, axis=-1), turn, 0.0)
    return found[..., None, None]


def _where_singular(found: Any, a: Any, function: Callable[[Any], Any]) -> Any:
    """What was found for matrices; where it is not finite, the function of matrices that have a basis of eigenvectors, by these."""
    failed = (~np.all(np.isfinite(found), axis=(-2, -1)) & np.all(np.isfinite(a), axis=(-2, -1)))[..., None, None]
    tolerance = 1e3 * a.shape[-1] * float(np.finfo(a.dtype).eps)

    def repaired(state: Any) -> Any:
        pending = state[0]      # without it the work would be moved out of the loop
        chosen: Any = np.where(failed & pending, stop_gradient(a), identity(a))
        half: Any = 0.5 * (chosen + rules.adjoint(chosen))
        hermitian = (_one_norm(chosen - half) <= tolerance * _one_norm(chosen))[..., None]      # vectors of equal values are a basis then
        general: Any = map(wrap, ops.eig.emit(chosen.value))
        orthonormal: Any = map(wrap, ops.eigh.emit(half.value, lower=True))
        (w, v), (real_w, orthonormal_v) = general, orthonormal
        w, v = np.where(hermitian, real_w, w), np.where(hermitian[..., None], orthonormal_v, v)
        w = np.where(np.abs(w) > _noise(w), w, 0.0)
        factored = rules.factored(np.swapaxes(v, -2, -1))

        def of_values(values: Any) -> Any:      # v @ diag(values) @ v^-1
            return np.swapaxes(factored.solve(np.swapaxes(v * values[..., None, :].astype(v.dtype), -2, -1)), -2, -1)

        right = _one_norm(of_values(w) - chosen) <= tolerance * _one_norm(chosen)
        better = of_values(function(w))
        if a.dtype.kind != "c":
            right = right & (np.max(np.abs(np.imag(better)), axis=(-2, -1)) <= tolerance * np.max(np.abs(better), axis=(-2, -1)))
            better = np.real(better)
        better = np.where(right[..., None, None], better, np.asarray(np.nan, a.dtype))
        return ~pending, np.where(failed, better, state[1])

    better = while_loop(lambda state: state[0], repaired, (np.any(failed), stop_gradient(found)))[1]
    return np.where(failed, better, found)


_LOG_NODES, _LOG_WEIGHTS = (numbers.tolist() for numbers in np.polynomial.legendre.leggauss(8))
_LOG_RADIUS = 0.25
"""1-norm of a - 1 below which eight nodes integrate the logarithm to rounding."""


def _logm_of(a: Any) -> Any:
    """Inverse scaling and squaring: roots until the matrix is near 1, then the integral of x / (1 + t x) by Gauss and Legendre (Higham,
    "Functions of Matrices", 2008, 11.5)."""
    one = identity(a)

    def far(m: Any, count: Any) -> Any:
        return (_one_norm(m - one) > _LOG_RADIUS) & (count < 60)

    def step(state: Any) -> Any:
        m, count = state
        rest = far(m, count)
        root = _sqrtm_of(m)
        return root if a.ndim == 2 else np.where(rest[..., None, None], root, m), count + rest

    m, count = while_loop(lambda state: np.any(far(*state)), step, (a, np.zeros(a.shape[:-2], np.int64)))
    x = m - one
    total = np.zeros_like(a)
    for node, weight in zip(_LOG_NODES, _LOG_WEIGHTS, strict=True):
        total = total + 0.5 * weight * rules.factored(one + 0.5 * (node + 1) * x).solve(x)
    return total * np.exp2(count.astype(a.dtype))[..., None, None]


_logm = _by_frechet_derivative(_logm_of)


@_scipy
def logm(A: Any, disp: bool = True) -> Any:
    """Equivalent of `scipy.linalg.logm`, in the dtype of the matrix. NaN for singular matrices, and for real ones with a negative
    eigenvalue, whose logarithm is complex: that of `A + 0j` is right, with derivatives.

    >>> import numpy as np
    >>> np.round(logm(np.eye(2)), 9) + 0.0
    array([[0., 0.],
           [0., 0.]])
    """
    if not disp:
        raise UnsupportedError("logm(disp=False)", find_user_location(), hint="leave it out: SciPy does not recommend it any more")
    a = square(A, "logm")
    return _logarithm(a) if a.size else np.copy(a)


def _logarithm(a: Any) -> Any:
    if a.dtype.kind != "c":
        return _logm(a)
    turn = _turn(a)
    return _logm(a * np.exp(-1j * turn).astype(a.dtype)) + (1j * turn).astype(a.dtype) * identity(a)


@_scipy
def expm_frechet(A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True) -> Any:
    """Equivalent of `scipy.linalg.expm_frechet`: the exponential and its derivative in the direction E, both of one block matrix,
    in float64 or complex128.

    >>> import numpy as np
    >>> expm_frechet(np.zeros((2, 2)), np.eye(2), compute_expm=False)
    array([[1., 0.],
           [0., 1.]])
    """
    a, direction = square(A, "expm_frechet"), square(E, "expm_frechet")
    dtype = np.result_type(a.dtype, direction.dtype, np.float64)
    a, direction = a.astype(dtype), direction.astype(dtype)
    if a.shape != direction.shape:
        raise ValueError("expected A and E to be the same shape")
    size = a.shape[-1]
    whole = np.concatenate([np.concatenate([a, direction], axis=-1), np.concatenate([np.zeros_like(a), a], axis=-1)], axis=-2)
    found = _expm(whole)
    return (found[..., :size, :size], found[..., :size, size:]) if compute_expm else found[..., :size, size:]


def _turning(a: Any) -> tuple[Any, Any]:
    """Cosine and sine of a matrix."""
    a = square(a, "cosm")
    if a.dtype.kind != "c":
        found = _expm(a * 1j)
        return np.real(found), np.imag(found)
    forward, back = _expm(a * 1j), _expm(a * -1j)
    return 0.5 * (forward + back), -0.5j * (forward - back)


def _stretching(a: Any) -> tuple[Any, Any]:
    """Hyperbolic cosine and sine of a matrix."""
    a = square(a, "coshm")
    forward, back = _expm(a), _expm(-a)
    return 0.5 * (forward + back), 0.5 * (forward - back)


@_scipy
def cosm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.cosm`: the cosine of a matrix.

    >>> import numpy as np
    >>> cosm(np.zeros((1, 1)))
    array([[1.]])
    """
    return _turning(A)[0]


@_scipy
def sinm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.sinm`: the sine of a matrix.

    >>> import numpy as np
    >>> sinm(np.zeros((1, 1)))
    array([[0.]])
    """
    return _turning(A)[1]


@_scipy
def tanm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.tanm`: the tangent of a matrix.

    >>> import numpy as np
    >>> tanm(np.zeros((1, 1)))
    array([[0.]])
    """
    cosine, sine = _turning(A)
    return rules.factored(cosine).solve(sine)


@_scipy
def coshm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.coshm`: the hyperbolic cosine of a matrix.

    >>> import numpy as np
    >>> coshm(np.zeros((1, 1)))
    array([[1.]])
    """
    return _stretching(A)[0]


@_scipy
def sinhm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.sinhm`: the hyperbolic sine of a matrix.

    >>> import numpy as np
    >>> sinhm(np.zeros((1, 1)))
    array([[0.]])
    """
    return _stretching(A)[1]


@_scipy
def tanhm(A: Any) -> Any:
    """Equivalent of `scipy.linalg.tanhm`: the hyperbolic tangent of a matrix.

    >>> import numpy as np
    >>> tanhm(np.zeros((1, 1)))
    array([[0.]])
    """
    cosine, sine = _stretching(A)
    return rules.factored(cosine).solve(sine)


@_scipy
def signm(A: Any, disp: bool = True) -> Any:
    """Equivalent of `scipy.linalg.signm`: a @ (a @ a) ** -1/2, NaN for eigenvalues on the imaginary axis.

    >>> import numpy as np
    >>> np.round(signm(np.array([[2.0, 1.0], [0.0, -3.0]])), 9)
    array([[ 1. ,  0.4],
           [ 0. , -1. ]])
    """
    if not disp:
        raise UnsupportedError("signm(disp=False)", find_user_location(), hint="leave it out: SciPy does not recommend it any more")
    a: Any = square(A, "signm")
    if not a.size:
        return np.copy(a)
    size = stop_gradient(_one_norm(a))[..., None, None]
    a = a * np.exp2(-np.round(np.log2(np.where((size > 0) & np.isfinite(size), size, 1.0)))).astype(a.dtype)      # whose square is finite
    return rules.factored(_root(a @ a)).solve(a)


@_scipy
def fractional_matrix_power(A: Any, t: Any) -> Any:
    """Equivalent of `scipy.linalg.fractional_matrix_power`: exp(t log a), of matrices as `logm` takes, and with a positive
    `t` of singular ones as `sqrtm` does; products for a known whole number.

    >>> import numpy as np
    >>> np.round(fractional_matrix_power(np.diag([4.0, 9.0]), 0.5), 9)
    array([[2., 0.],
           [0., 3.]])
    """
    a = square(A, "fractional_matrix_power")
    if not a.size:
        return np.copy(a)
    if isinstance(t, (int, float)) and t == int(t):
        return np.linalg.matrix_power(a, int(t))
    return _where_singular(_expm(t * _logarithm(a)), a, lambda w: np.where(w == 0, np.where(np.asarray(t) > 0, 0.0, np.nan), w ** t))
