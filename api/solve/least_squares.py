"""`lm`: the sum of squares of residuals, by the method of Levenberg and Marquardt, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.runtime.control_flow import while_loop
from adjit.runtime.jacobians import jacobian
from adjit.solve.minimization import State, chosen, is_finite, iterate, minimize_problem, rounding, start
from adjit.solve.problem import Problem, Result, bounds_of, check_options, run
from adjit.tracer.tracebacks import user_frames_only

Function = Callable[..., Any]

MAX_DAMPING = 1e16
MIN_GAIN = 1e-3


@user_frames_only
def lm(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, bounds: Any = None, tol: float = 1e-10, max_iterations: int = 1000) -> Result:
    """The parameters near `x0` for which half the sum of squares of the residuals `fun(x, *args)` is least, within bounds, by the method of
    Levenberg and Marquardt.

    `fun` returns an array, or a tree of arrays. `bounds` is a pair (lower, upper), each None, a number, or a tree like `x0` of numbers,
    arrays and None; parameters at a bound that the gradient pushes against are held. The damping is relative to the largest diagonal
    elements of J^T J so far (Marquardt's scaling, as in MINPACK) and changes as Nielsen proposes (IMM-REP-1999-05). It ends when no
    residual vector's cosine with a column of the Jacobian (of parameters that are not held) is larger than `tol`, when a step changes the
    sum of squares by less than rounding does, or when residuals are as small as rounding of the parameters makes them.

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
            lambda x: problem.value(x, theta), problem.vectors.initial, bounds, tol, max_iterations), cost)

    return run(fun, "lm", (tol, max_iterations), solve, x0, args, bounds)       # type: ignore[no-any-return]


def _lm(residuals: Function, x: Any, bounds: Any, tol: float, most: int) -> State:
    size, dtype = x.shape[0], x.dtype
    lower, upper = bounds or (None, None)
    x = x if bounds is None else np.clip(x, lower, upper)
    tiny = np.finfo(dtype).tiny

    def step(s: State) -> State:
        r, matrix = _with_jacobian(residuals, s["trial"])
        f, g, normal = 0.5 * np.sum(r * r), matrix.T @ r, matrix.T @ matrix
        first = s["nit"] == 0
        fits = is_finite(f, g) & np.all(np.isfinite(normal))
        noise = np.abs(s["gain"]) <= rounding(f)
        ratio = np.where(s["gain"] > 0, (s["f"] - f) / np.maximum(s["gain"], tiny), -1.0)
        good = fits & (first | (ratio > MIN_GAIN) | ((f <= s["f"] + rounding(f)) & noise))
        x, f, g, normal = chosen(good, s, x=s["trial"], f=f, g=g, H=normal)
        largest = np.where(good, np.maximum(s["largest"], np.diagonal(normal)), s["largest"])
        trust = np.where(noise, 1.0, np.clip(ratio, -1.0, 1.0))         # a change below rounding says nothing against the model
        calmer = s["damping"] * np.maximum(1.0 / 3.0, 1.0 - (2.0 * trust - 1.0) ** 3)
        damping = np.where(first, 1e-3, np.where(good, np.maximum(calmer, 1e-16), s["damping"] * s["factor"]))
        factor = np.where(good, 2.0, 2.0 * s["factor"])
        if bounds is None:
            trial, slope, inside = x + _damped_step(normal, g, damping, largest, None), np.abs(g), np.asarray(True)
        else:
            held = ((x <= lower) & (g > 0)) | ((x >= upper) & (g < 0))
            trial, inside = _step_within(x, normal, g, damping, largest, held, lower, upper)
            slope = np.where(held, 0.0, np.abs(g))
        p = trial - x
        gain = -(np.sum(g * p) + 0.5 * np.sum(p * (normal @ p)))
        cosines = slope / np.sqrt(np.maximum(np.diagonal(normal) * 2.0 * f, tiny))
        exact = f <= 0.5 * (np.finfo(dtype).eps * np.sum(np.sqrt(np.diagonal(normal)) * np.abs(x))) ** 2     # residuals of x, rounded
        done = good & ((np.max(cosines) <= tol) | s["last"] | exact)
        small = np.abs(gain) <= 0.25 * rounding(f)
        stuck = ~good & ~first & (small | (damping > MAX_DAMPING))
        return {"x": x, "f": f, "g": g, "H": normal, "largest": largest, "trial": trial, "gain": gain, "damping": damping,
                "factor": factor, "nit": s["nit"] + 1, "success": done | (stuck & small), "stop": done | stuck | (first & ~fits),
                "last": good & ~first & small & inside & (damping < 1e-2)}

    zero = np.zeros((), dtype)
    return iterate(step, start(x, H=np.eye(size, dtype=dtype), largest=np.zeros(size, dtype), gain=zero, damping=zero,
                               factor=np.asarray(2.0, dtype), last=np.asarray(False)), most)


def _with_jacobian(residuals: Function, x: Any) -> tuple[Any, Any]:
    return residuals(x), jacobian(residuals)(x)


def _step_within(x: Any, normal: Any, g: Any, damping: Any, largest: Any, held: Any, lower: Any, upper: Any) -> tuple[Any, Any]:
    """Where a damped step leads within bounds, and whether it meets none. Parameters that would pass a bound stop there, and the step of
    the others is solved again, given that: clipped alone, it may go up, however close the bound."""
    def solve(state: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
        trial, held, _ = state
        given = normal @ np.where(held, trial - x, 0.0)
        trial = np.where(held, trial, x + _damped_step(normal, g + given, damping, largest, ~held))
        past = (trial < lower) | (trial > upper)
        return np.clip(trial, lower, upper), held | past, np.any(past)

    trial, last, _ = while_loop(lambda state: state[2], solve, (x, held, np.asarray(True)))
    return trial, np.all(last == held)


def _damped_step(normal: Any, g: Any, damping: Any, largest: Any, free: Any) -> Any:
    """Solution of the damped normal equations, each unknown in units of its column's size."""
    unit = 1.0 / np.sqrt(np.where(largest > 0, largest, 1.0))
    scaled = normal * unit[:, None] * unit[None, :] + np.diag(np.broadcast_to(damping, unit.shape))
    slope = g * unit
    if free is not None:
        scaled = np.where(free[:, None] & free[None, :], scaled, np.eye(unit.shape[0], dtype=g.dtype))
        slope = np.where(free, slope, 0.0)
    return -np.linalg.solve(scaled, slope) * unit


