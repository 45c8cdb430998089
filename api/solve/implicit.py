"""Derivatives of solutions by the implicit function theorem.

A solver's loop computes with constants, as far as derivatives can see. Behind it stands an identity with a rule of its own: the cotangent
of a solution of G(x, theta) = 0 is solved with the Jacobian of G, and pulled back through G to theta. What the next derivative sees of the
solution is such an identity, too, and at last two steps of Newton's method, whose derivatives are right to third order: fifth in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.jacobians import hessian, jacobian
from adjit.runtime.transforms import grad, stop_gradient, vjp

Function = Callable[..., Any]
Arrays = tuple[Any, ...]

RULES = 2
"""Derivatives that have a rule of their own."""


def minimum(value: Function, x: Any, fun: Any, gradient: Any, theta: Arrays, bounds: tuple[Any, Any] | None) -> tuple[Any, Any, Any]:
    """`(x, fun, gradient)` of a minimum of `value(x, theta)` as functions of `theta` and of the bounds."""
    return _attach_minimum(value, RULES)(*map(stop_gradient, (x, fun, gradient)), theta, bounds)        # type: ignore[no-any-return]


def _attach_minimum(value: Function, rules: int) -> Function:
    """Function that gives a minimum its derivatives, `rules` times by a rule."""
    def slope(x: Any, theta: Arrays) -> Any:
        return grad(value)(x, theta)

    def newton_step(x: Any, theta: Arrays, bounds: Any) -> Any:
        free, low = at_bounds(x, slope(x, theta), bounds)
        matrix, g = hessian(value)(x, theta), slope(x, theta)
        if free is None:
            return x - np.linalg.solve(matrix, g)
        return np.where(free, x - _solve_free(matrix, g, free), np.where(low, *bounds))

    if not rules:
        def refined(x: Any, fun: Any, gradient: Any, theta: Arrays, bounds: Any) -> tuple[Any, Any, Any]:
            x = newton_step(newton_step(x, theta, bounds), theta, bounds)
            return x, value(x, theta), slope(x, theta)
        return refined

    attached = custom_vjp(lambda x, fun, gradient, theta, bounds: (x, fun, gradient))
    inner = _attach_minimum(value, rules - 1)

    def forward(x: Any, fun: Any, gradient: Any, theta: Arrays, bounds: Any) -> tuple[Any, Any]:
        found = inner(x, fun, gradient, theta, bounds)      # what the next derivative sees
        return found, (found[0], found[2], theta, bounds)

    def backward(saved: Any, cotangent: Any) -> tuple[Any, ...]:
        x, gradient, theta, bounds = saved
        of_x, of_fun, of_gradient = cotangent
        matrix = hessian(value)(x, theta)
        free, low = at_bounds(x, gradient, bounds)
        total = of_x + of_fun * gradient + matrix @ of_gradient
        solved = np.linalg.solve(matrix, total) if free is None else _solve_free(matrix, total, free)
        of_theta = _pull(lambda theta: (value(x, theta), slope(x, theta)), theta, (of_fun, of_gradient - solved))
        of_bounds = None
        if free is not None:
            held = np.where(free, 0.0, total - matrix @ solved)
            of_bounds = np.where(low, held, 0.0), np.where(low, 0.0, held)
        return None, None, None, of_theta, of_bounds

    attached.defvjp(forward, backward)
    return attached


def at_bounds(x: Any, gradient: Any, bounds: Any) -> tuple[Any, Any]:
    """Masks of what is not held by a bound, and of what is held by the lower one; None without bounds."""
    if bounds is None:
        return None, None
    low, high = (x <= bounds[0]) & (gradient > 0), (x >= bounds[1]) & (gradient < 0)
    return ~(low | high | (bounds[0] >= bounds[1])), low | (bounds[0] >= bounds[1])


def _solve_free(matrix: Any, vector: Any, free: Any) -> Any:
    """Solution of the equations among the free unknowns; zero for the others."""
    both = free[:, None] & free[None, :]
    return np.linalg.solve(np.where(both, matrix, np.eye(vector.shape[0], dtype=vector.dtype)), np.where(free, vector, 0.0))


def solution(equations: Function, x: Any, theta: Arrays) -> Any:
    """The root `x` of `equations(x, theta)` as a function of `theta`."""
    return _attach_solution(equations, RULES)(stop_gradient(x), theta)


def _attach_solution(equations: Function, rules: int) -> Function:
    if not rules:
        def refined(x: Any, theta: Arrays) -> Any:
            for _ in range(2):
                x = x - np.linalg.solve(jacobian(equations)(x, theta), equations(x, theta))
            return x
        return refined

    attached = custom_vjp(lambda x, theta: x)
    inner = _attach_solution(equations, rules - 1)

    def backward(saved: Any, of_x: Any) -> tuple[Any, ...]:
        x, theta = saved
        solved = np.linalg.solve(jacobian(equations)(x, theta).T, of_x)
        return None, _pull(lambda theta: equations(x, theta), theta, -solved)

    def forward(x: Any, theta: Arrays) -> tuple[Any, Any]:
        found = inner(x, theta)         # what the next derivative sees
        return found, (found, theta)

    attached.defvjp(forward, backward)
    return attached


def _pull(fun: Function, theta: Arrays, cotangent: Any) -> Any:
    """Cotangents of the floats of `theta`; None for the others."""
    places = [index for index, array in enumerate(theta) if array.dtype.kind in "fc"]
    if not places:
        return None

    def of_floats(*floats: Any) -> Any:
        given = list(theta)
        for place, array in zip(places, floats, strict=True):
            given[place] = array
        return fun(tuple(given))

    pulled = iter(vjp(of_floats, *(theta[place] for place in places))[1](cotangent))
    return tuple(next(pulled) if index in places else np.zeros(array.shape) for index, array in enumerate(theta))
