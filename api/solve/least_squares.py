"""`lm`: the sum of squares of residuals, by the method of Levenberg and Marquardt, within bounds."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.runtime.control_flow import while_loop
from adjit.runtime.jacobians import jacobian
from adjit.runtime.transforms import jvp
from adjit.solve.minimization import State, chosen, is_finite, iterate, minimize_problem, rounding, start
from adjit.solve.problem import Problem, Result, bounds_of, check_options, run
from adjit.tracer.tracebacks import user_frames_only

Function = Callable[..., Any]

MAX_DAMPING = 1e16

MIN_GAIN = 1e-3
"""Least decrease that a step is accepted for, of what the linear model promises. Where rounding hides the decrease of the sum of squares,
it is that of the gradients' mean along the step."""

FADING = 0.36
"""Share of the largest diagonal elements so far that is left after a step: of those far from the solution nothing, in the end."""

MAX_TURN = 0.375
"""Longest turn of a step, of the step, for which the model is believed."""


@user_frames_only
def lm(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, bounds: Any = None, tol: float = 1e-10, max_iterations: int = 1000) -> Result:
    """The parameters near `x0` for which half the sum of squares of the residuals `fun(x, *args)` is least, within bounds, by the method of
    Levenberg and Marquardt.

    `fun` returns an array, or a tree of arrays. `bounds` is a pair (lower, upper), each None, a number, or a tree like `x0` of numbers,
    arrays and None; parameters at a bound that the gradient pushes against are held. The damping is relative to the largest diagonal
    elements of J^T J of late, and changes as Nielsen proposes (IMM-REP-1999-05); steps follow the residuals' second derivative along them
    (geodesic acceleration, Transtrum and Sethna, arXiv:1201.5885), and are shortened where that bends them too much. It ends when the
    residuals' projection on the columns of the Jacobian (of parameters that are not held) is at most `tol` times their norm (Bates and
    Watts, 1981: each parameter is then `tol` times the square root of the degrees of freedom times its standard error from the solution,
    at most), when rounding leaves nothing to gain, or when residuals are as small as rounding of the parameters makes them.

    `fun` of the result is half the sum of squares, `jac` its gradient. Derivatives are those of `newton`, exact, and include second
    derivatives of the residuals. Raises the errors of `newton`, but for the shape of what `fun` returns.

    >>> import numpy as np
    >>> t = np.linspace(0.0, 4.0, 30)
    >>> def residuals(p, data):
    ...     return p["a"] * np.exp(-p["k"] * t) - data
    >>> found = lm(residuals, {"a": 1.0, "k": 1.0}, (3.0 * np.exp(-0.5 * t),), bounds=({"a": 0.0, "k": 0.0}, None))
    >>> round(float(found.x["a"]), 9), round(float(found.x["k"]), 9)
    (3.0, 0.5)
    """
    tol, max_iterations = check_options("lm", tol, max_iterations)

    def solve(x0: Any, args: tuple[Any, ...], bounds: Any) -> Result:
        problem = Problem(fun, x0, args, "lm", scalar=False)

        def cost(x: Any, theta: Any) -> Any:
            return 0.5 * np.sum(problem.value(x, theta) ** 2)

        return minimize_problem(problem, bounds_of(bounds, problem.vectors, problem.what), lambda theta, bounds: _lm(
            lambda x: problem.value(x, theta), problem.count, problem.vectors.initial, bounds, tol, max_iterations), cost)

    return run(fun, "lm", (tol, max_iterations), solve, x0, args, bounds)       # type: ignore[no-any-return]


def _lm(residuals: Function, rows: int, x: Any, bounds: Any, tol: float, most: int) -> State:
    size, dtype = x.shape[0], x.dtype
    lower, upper = bounds or (-np.inf, np.inf)
    x = x if bounds is None else np.clip(x, lower, upper)
    eps, tiny = np.finfo(dtype).eps, np.finfo(dtype).tiny

    def free_at(x: Any, g: Any) -> Any:
        return None if bounds is None else ~(((x <= lower) & (g > 0)) | ((x >= upper) & (g < 0)))

    def step(s: State) -> State:
        r, matrix = residuals(s["trial"]), jacobian(residuals)(s["trial"])
        f, g, normal = 0.5 * np.sum(r * r), matrix.T @ r, matrix.T @ matrix
        first = s["nit"] == 0
        fits = is_finite(f, g) & np.all(np.isfinite(normal))
        offset = -np.sum(g * _damped_step(normal, g, 4 * size * eps, np.diagonal(normal), free_at(s["trial"], g)))
        change = np.where(s["noise"], -0.5 * np.sum((s["g"] + g) * (s["trial"] - s["x"])), s["f"] - f)
        ratio = np.where(s["straight"] & (s["gain"] > 0), change / np.maximum(s["gain"], tiny), -1.0)
        good = fits & (first | ((ratio > MIN_GAIN) & (~s["noise"] | (offset < s["offset"]))))
        x, f, g, matrix, normal, offset = chosen(good, s, x=s["trial"], f=f, g=g, J=matrix, H=normal, offset=offset)
        sizes = np.diagonal(normal)
        units = np.where(good, np.maximum(FADING * s["units"], sizes), s["units"])
        calmer = s["damping"] * np.maximum(1.0 / 3.0, 1.0 - (2.0 * np.clip(ratio, -1.0, 1.0) - 1.0) ** 3)
        damping = np.where(first, 1e-3, np.where(good, np.maximum(calmer, 1e-16), s["damping"] * s["factor"]))
        factor = np.where(good, 2.0, 2.0 * s["factor"])

        free, inside = free_at(x, g), np.asarray(True)
        if free is None:
            trial = x + _damped_step(normal, g, damping, units, None)
        else:
            trial, inside = _step_within(x, normal, g, damping, units, ~free, lower, upper)
        p = trial - x
        gain = -(np.sum(g * p) + 0.5 * np.sum(p * (normal @ p)))
        bend = jvp(lambda x: jvp(residuals, (x,), (p,))[1], (x,), (p,))[1]
        turn = 0.5 * _damped_step(normal, matrix.T @ bend, damping, units, free)
        turned = trial + turn
        trial = np.where(inside & np.all((turned >= lower) & (turned <= upper)), turned, trial)
        straight = np.sum(units * turn * turn) <= MAX_TURN ** 2 * np.sum(units * p * p)

        rounded = eps * np.sum(np.sqrt(sizes) * np.abs(x))      # change of the residuals when the parameters are rounded
        done = good & ((offset <= 2.0 * f * tol * tol) | (f <= 0.5 * rounded * rounded))
        floor = ~good & s["noise"] & (factor > 4.0)
        return {"x": x, "f": f, "g": g, "J": matrix, "H": normal, "offset": offset, "units": units, "trial": trial, "gain": gain,
                "noise": gain <= rounding(f) + np.sqrt(2.0 * f) * rounded, "straight": straight, "damping": damping, "factor": factor,
                "nit": s["nit"] + 1, "success": done | floor,
                "stop": done | floor | (~good & (damping > MAX_DAMPING)) | (first & ~fits)}

    number = functools.partial(np.asarray, dtype=dtype)
    return iterate(step, start(x, J=np.zeros((rows, size), dtype), H=np.eye(size, dtype=dtype), offset=number(np.inf),
                               units=np.zeros(size, dtype), gain=number(0.0), noise=np.asarray(False), straight=np.asarray(True),
                               damping=number(0.0), factor=number(2.0)), most)


def _step_within(x: Any, normal: Any, g: Any, damping: Any, units: Any, held: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Where a damped step leads within bounds, and whether it meets none. Parameters that would pass a bound stop there, and the step of
    the others is solved again, given that: clipped alone, it may go up, however close the bound."""
    def solve(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        trial, held, _ = state
        given = normal @ np.where(held, trial - x, 0.0)
        trial = np.where(held, trial, x + _damped_step(normal, g + given, damping, units, ~held))
        past = (trial < lower) | (trial > upper)
        return np.clip(trial, lower, upper), held | past, np.any(past)

    trial, last, _ = while_loop(lambda state: state[2], solve, (x, held, np.asarray(True)))
    return trial, np.all(last == held)


def _damped_step(normal: Any, g: Any, damping: Any, units: Any, free: Any) -> Any:
    """Solution of the damped normal equations, each unknown in units of its column's size: the square of that is `units`."""
    unit = 1.0 / np.sqrt(np.where(units > 0, units, 1.0))
    scaled = normal * unit[:, None] * unit[None, :] + np.diag(np.broadcast_to(damping, unit.shape))
    slope = g * unit
    if free is not None:
        scaled = np.where(free[:, None] & free[None, :], scaled, np.eye(unit.shape[0], dtype=g.dtype))
        slope = np.where(free, slope, 0.0)
    return -np.linalg.solve(scaled, slope) * unit


