"""Trees of parameters as vectors, for optimizers that take vectors, and a check of gradients by differences."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import DTypeError, NonDifferentiableError
from adjit.runtime.transforms import vjp
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location


def ravel_pytree(tree: Any) -> tuple[Any, Callable[[Any], Any]]:
    """`(vector, unravel)`: the leaves of a tree one after the other in a vector, and the function that makes a tree of such a vector.

    `unravel` gives arrays the shapes and dtypes of the leaves, and may be called in compiled functions. Raises `DTypeError` for leaves
    that are no numbers, `ValueError` for a vector of another size.

    >>> import numpy as np
    >>> vector, unravel = ravel_pytree({"w": np.array([[1.0, 2.0]]), "b": 3.0})
    >>> vector
    array([1., 2., 3.])
    >>> unravel(2 * vector)
    {'w': array([[2., 4.]]), 'b': np.float64(6.0)}
    """
    leaves, spec = flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, (bool, int, float, complex)) and not hasattr(leaf, "dtype"):
            raise DTypeError(f"ravel_pytree: a leaf is {leaf!r}, which is no array", find_user_location())
    shapes = [np.shape(leaf) for leaf in leaves]
    dtypes = [leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype for leaf in leaves]
    sizes = [int(np.prod(shape, dtype=np.int64)) for shape in shapes]
    ends = np.cumsum([0, *sizes]).tolist()

    def unravel(vector: Any) -> Any:
        if np.shape(vector) != (ends[-1],):
            raise ValueError(f"unravel: the vector has the shape {np.shape(vector)}, expected {(ends[-1],)}")
        parts = (np.reshape(vector[start:start + size], shape).astype(dtype)[()]
                 for start, size, shape, dtype in zip(ends, sizes, shapes, dtypes, strict=False))
        return unflatten(spec, list(parts))

    vector = np.concatenate([np.ravel(leaf) for leaf in leaves]) if leaves else np.zeros(0)
    return vector, unravel


def check_grads(fun: Callable[..., Any], args: Any, order: int = 1, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-4
                ) -> None:
    """Compare derivatives of `fun(*args)` with differences, up to `order`, along a random direction; trees of float64 or complex128 in
    and out. A single argument may be given as it is, if it is no tuple or list.

    Raises `NonDifferentiableError` where they differ by more than `atol` and `rtol` allow.

    >>> import numpy as np
    >>> check_grads(lambda x: np.sin(x) * x, [np.array([1.0, 2.0])], order=2)
    """
    draw = np.random.default_rng(0)
    point, unravel = ravel_pytree(tuple(args) if isinstance(args, (tuple, list)) else (args,))
    direction = _direction(draw, point)

    def outputs(vector: Any) -> Any:
        return ravel_pytree(fun(*unravel(vector)))[0]

    function: Callable[[Any], Any] = outputs
    for number in range(1, order + 1):
        value, pullback = vjp(function, point)
        weights = _direction(draw, value)
        (gradient,) = pullback(weights)
        found = float(np.vdot(gradient, direction).real)
        ends = [float(np.vdot(weights, function(point + sign * eps * direction)).real) for sign in (1.0, -1.0)]
        wanted = (ends[0] - ends[1]) / (2 * eps)
        if not abs(found - wanted) <= atol + rtol * abs(wanted):
            raise NonDifferentiableError(f"check_grads: the derivative of order {number} along a random direction is {found:.8g}, and "
                                         f"{wanted:.8g} by differences", find_user_location())
        function = functools.partial(_gradient, function, weights)


def _direction(draw: np.random.Generator, like: Any) -> Any:
    """Random numbers of a shape, complex ones for complex arrays."""
    found = draw.normal(size=np.shape(like))
    return found + 1j * draw.normal(size=np.shape(like)) if like.dtype.kind == "c" else found


def _gradient(function: Callable[[Any], Any], weights: Any, point: Any) -> Any:
    return vjp(function, point)[1](weights)[0]
