"""Integrals of samples by `scipy.integrate`'s rules, for traced arrays and tensors; plain arrays outside of a trace go to SciPy's own.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit.scipy import integrate
    >>> aj.grad(lambda y: integrate.simpson(y, dx=3.0))(np.ones(3))
    array([1., 4., 1.])

Derivatives go to samples and to the places of samples. What else SciPy's module has, such as `quad` and `solve_ivp`, takes plain arrays
alone (`docs/scipy.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError, UnsupportedError
from adjit.scipy.mirror import is_plain, mirrors, scipys, without_rule
from adjit.scipy.sliding import inexact
from adjit.tracer.array import as_traced
from adjit.tracer.functions.shapes import normalize_axis
from adjit.tracer.user_location import find_user_location

__all__ = ["cumulative_simpson", "cumulative_trapezoid", "fixed_quad", "romb", "simpson", "trapezoid"]

_others = without_rule("integrate", __all__)


def __getattr__(name: str) -> Any:
    """Return what else SciPy's module has under this name, for plain arrays."""
    return _others(name)


def _samples(y: Any, x: Any, axis: int) -> tuple[Any, Any, int]:
    """Samples and their places (None if not given) along the last axis, and the axis."""
    y = as_traced(y)
    axis = normalize_axis(axis, y.ndim)
    if x is not None:
        x = as_traced(x)
        if x.ndim != 1 and x.ndim != y.ndim:
            raise ValueError("If given, shape of x must be 1-D or the same as y.")
        if x.shape[axis if x.ndim == y.ndim else 0] != y.shape[axis]:
            raise ValueError("If given, length of x along axis must be the same as y.")
        x = np.moveaxis(x, axis, -1) if x.ndim == y.ndim else x
    return np.moveaxis(y, axis, -1), x, axis


def _divided(a: Any, b: Any) -> Any:
    """Quotient, 0 where `b` is 0."""
    nothing = b == 0
    return np.where(nothing, 0.0, a / np.where(nothing, 1.0, b))


@mirrors("integrate")
def trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """Equivalent of `scipy.integrate.trapezoid`.

    >>> import numpy as np
    >>> float(trapezoid(np.array([0.0, 1.0, 4.0])))
    3.0
    """
    return np.trapezoid(as_traced(y), None if x is None else as_traced(x), dx, axis)


@mirrors("integrate")
def cumulative_trapezoid(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: float | None = None) -> Any:
    """Equivalent of `scipy.integrate.cumulative_trapezoid`.

    >>> import numpy as np
    >>> cumulative_trapezoid(np.array([0.0, 1.0, 4.0]), initial=0)
    array([0. , 0.5, 3. ])
    """
    y, x, axis = _samples(y, x, axis)
    if not y.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    steps = dx if x is None else np.diff(x)
    found = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2.0, axis=-1)
    if initial is not None:
        if initial != 0:
            raise ValueError("`initial` must be `None` or `0`.")
        found = np.concatenate([np.zeros_like(found, shape=(*found.shape[:-1], 1)), found], axis=-1)
    return np.moveaxis(found, -1, axis)


def _simpson_of_pairs(y: Any, x: Any, dx: Any) -> Any:
    """Simpson's rule for an odd number of samples along the last axis."""
    first, middle, last = y[..., :-2:2], y[..., 1:-1:2], y[..., 2::2]
    if x is None:
        return np.sum(first + 4.0 * middle + last, axis=-1) * (dx / 3.0)
    steps = np.diff(x)
    h0, h1 = steps[..., ::2], steps[..., 1::2]
    both, ratio = h0 + h1, _divided(h0, h1)
    weighted = first * (2.0 - _divided(1.0, ratio)) + middle * (both * _divided(both, h0 * h1)) + last * (2.0 - ratio)
    return np.sum(both / 6.0 * weighted, axis=-1)


@mirrors("integrate")
def simpson(y: Any, x: Any = None, *, dx: Any = 1.0, axis: int = -1) -> Any:
    """Equivalent of `scipy.integrate.simpson`: an even number of samples ends with Cartwright's correction.

    >>> import numpy as np
    >>> float(simpson(np.array([0.0, 1.0, 4.0])).round(6))
    2.666667
    """
    y, x, _ = _samples(y, x, axis)
    count = y.shape[-1]
    if count % 2:
        return _simpson_of_pairs(y, x, dx)
    if count == 2:
        step = dx if x is None else x[..., 1] - x[..., 0]
        return 0.5 * step * (y[..., 0] + y[..., 1])
    found = _simpson_of_pairs(y[..., :-1], None if x is None else x[..., :-1], dx)
    h0, h1 = (dx, dx) if x is None else (x[..., -2] - x[..., -3], x[..., -1] - x[..., -2])
    alpha = _divided(2.0 * h1 ** 2 + 3.0 * h0 * h1, 6.0 * (h1 + h0))
    beta = _divided(h1 ** 2 + 3.0 * h0 * h1, 6.0 * h0)
    eta = _divided(h1 ** 3, 6.0 * h0 * (h0 + h1))
    return found + (alpha * y[..., -1] + beta * y[..., -2] - eta * y[..., -3])


def _first_intervals(y: Any, steps: Any) -> Any:
    """Integrals over the first of each two intervals that follow one another."""
    a, b = steps[..., :-1], steps[..., 1:]
    by_both, by_second = a / (a + b), a / b
    product = by_both * by_second
    return a / 6.0 * ((3.0 - by_both) * y[..., :-2] + (3.0 + product + by_both) * y[..., 1:-1] - product * y[..., 2:])


@mirrors("integrate")
def cumulative_simpson(y: Any, *, x: Any = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Any:
    """Equivalent of `scipy.integrate.cumulative_simpson`.

    >>> import numpy as np
    >>> cumulative_simpson(np.array([0.0, 1.0, 4.0]), initial=0.0).round(6)
    array([0.      , 0.333333, 2.666667])
    """
    (y,) = inexact(y)
    y, x, axis = _samples(y, x, axis)
    count = y.shape[-1]
    if count < 3:
        found = cumulative_trapezoid(y, x, dx, -1)
    else:
        if x is not None:
            steps = np.diff(inexact(x)[0])
        else:
            given: Any = as_traced(dx)
            if given.ndim and given.shape != tuple(1 if k == axis else size for k, size in enumerate(np.moveaxis(y, -1, axis).shape)):
                raise ShapeError("dx must be a number or have the shape of y with one point along axis", find_user_location())
            steps = np.moveaxis(given, axis, -1) if given.ndim else given
        steps = np.broadcast_to(steps, (*y.shape[:-1], count - 1))
        forward = _first_intervals(y, steps)
        back = np.flip(_first_intervals(np.flip(y, -1), np.flip(steps, -1)), -1)
        pairs = np.stack([forward[..., :(count - 1) // 2 * 2:2], back[..., :(count - 1) // 2 * 2:2]], axis=-1)
        parts = np.reshape(pairs, (*y.shape[:-1], -1))
        if count % 2 == 0:      # the last interval has none after it
            parts = np.concatenate([parts, back[..., -1:]], axis=-1)
        found = np.cumsum(parts, axis=-1)
    if initial is not None:
        start: Any = as_traced(initial)
        start = np.broadcast_to(np.moveaxis(start, axis, -1) if start.ndim else start, (*y.shape[:-1], 1)).astype(found.dtype)
        found = np.concatenate([start, found + start], axis=-1)
    return np.moveaxis(found, -1, axis)


@mirrors("integrate")
def romb(y: Any, dx: Any = 1.0, axis: int = -1, show: Any = False) -> Any:
    """Equivalent of `scipy.integrate.romb`, of 2^k + 1 samples; the table is not shown.

    >>> import numpy as np
    >>> float(romb(np.arange(5.0) ** 2).round(6))
    21.333333
    """
    if show:
        raise UnsupportedError("romb(show=True)", find_user_location(), hint="its table is that of plain numbers")
    y, _, _ = _samples(y, None, axis)
    intervals = y.shape[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    width, row = intervals * dx, [(y[..., 0] + y[..., -1]) / 2.0 * (intervals * dx)]
    step = intervals
    while step > 1:
        middle = y[..., step // 2::step]
        last, row = row, [0.5 * (row[0] + width * np.sum(middle, axis=-1))]
        for k, before in enumerate(last):
            row.append(row[k] + (row[k] - before) / (4.0 ** (k + 1) - 1.0))
        step, width = step // 2, width / 2.0
    return row[-1]


def fixed_quad(func: Callable[..., Any], a: Any, b: Any, args: Any = (), n: int = 5) -> tuple[Any, None]:
    """Equivalent of `scipy.integrate.fixed_quad`: an integral by Gauss and Legendre's rule of order `n`; derivatives go to the bounds and
    to what `func` reads.

    >>> float(fixed_quad(lambda x: x ** 2, 0.0, 3.0)[0].round(6))
    9.0
    """
    if is_plain(a, b, args):
        found: tuple[Any, None] = scipys("integrate").fixed_quad(func, a, b, args, n)
        return found
    nodes, weights = np.polynomial.legendre.leggauss(n)
    half = (b - a) / 2.0
    return half * np.sum(weights * func(half * (nodes + 1.0) + a, *args), axis=-1), None
