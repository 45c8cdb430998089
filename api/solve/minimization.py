"""`newton`, `bfgs` and `lbfgsb`: minima of a number, as one loop of the program each.

An iteration evaluates one point, wherever it is in a line search: so the function stands in the program once, and a batch of problems keeps
in step.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.runtime.control_flow import scan, while_loop
from adjit.runtime.jacobians import hessian
from adjit.runtime.transforms import stop_gradient, value_and_grad
from adjit.solve.implicit import minimum
from adjit.solve.problem import Problem, Result, bounds_of, check_options, run
from adjit.tracer.tracebacks import user_frames_only

Function = Callable[..., Any]
State = dict[str, Any]

ARMIJO, CURVATURE = 1e-4, 0.9
"""Constants of the conditions of Wolfe, as in Nocedal and Wright, "Numerical Optimization", 2006, chapter 3."""

MAX_DAMPING = 1e12
MIN_STEP = 1e-16
NOISE = 1e-3
"""Gain of a step, of the function's rounding, below which the function is no measure of progress."""

MAX_IDLE = 3
"""Steps without progress, below rounding, after which a method that converges ends."""

FLAT = 1e-8
"""Least curvature, for each unit of the gradient, that damping counts with: where the Hessian is lost in rounding, steps are that long."""


@user_frames_only
def newton(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, tol: float = 1e-8, max_iterations: int = 100) -> Result:
    """A minimum of `fun(x, *args)`, a number, near `x0`, by Newton's method: for smooth functions of up to some hundred parameters.

    `x0` is a tree of real numbers and arrays. Steps use the exact Hessian; where it is not positive definite, or a step does not decrease
    the function, a multiple of its diagonal is added (Levenberg and Marquardt). It ends when no element of the gradient is larger than
    `tol`, or when the step would change the function by less than rounding does.

    The solution has derivatives, by `args` and by what `fun` closes over, of the implicit function theorem; that of `x0` is zero.

    Raises `ShapeError` if `fun` returns no number, `DTypeError` for parameters that are not real.

    >>> import numpy as np
    >>> found = newton(lambda p, a: (p["u"] - a) ** 2 + np.cosh(p["v"] - p["u"]), {"u": 0.0, "v": 0.0}, (3.0,))
    >>> round(float(found.x["u"]), 12), round(float(found.x["v"]), 12), bool(found.success)
    (3.0, 3.0, True)
    >>> from adjit import grad
    >>> float(grad(lambda a: newton(lambda x: np.exp(x) - a * x, 0.5).x)(2.0))      # x = log(a)
    0.5
    """
    return _minimize(fun, x0, args, None, "newton", tol, max_iterations, _newton)


@user_frames_only
def bfgs(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, tol: float = 1e-8, max_iterations: int = 1000) -> Result:
    """A minimum of `fun(x, *args)`, a number, near `x0`, by the method of Broyden, Fletcher, Goldfarb and Shanno, with a line search for
    the conditions of Wolfe: needs gradients only. Arguments, end, derivatives and errors are those of `newton`.

    >>> import numpy as np
    >>> found = bfgs(lambda x: np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2), np.zeros(4))
    >>> np.round(found.x, 6)
    array([1., 1., 1., 1.])
    """
    return _minimize(fun, x0, args, None, "bfgs", tol, max_iterations, _bfgs)


@user_frames_only
def lbfgsb(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, bounds: Any = None, memory: int = 10, tol: float = 1e-8,
           max_iterations: int = 1000) -> Result:
    """A minimum of `fun(x, *args)`, a number, within bounds, near `x0`, by the quasi-Newton method with limited memory: for many
    parameters.

    `bounds` is a pair (lower, upper), each None, a number, or a tree like `x0` of numbers, arrays and None. `memory` steps are kept.
    Parameters at a bound that the gradient pushes against are held; a step goes along the others and is projected (two-metric projection,
    Bertsekas 1982). It ends when a step along the gradient, projected, changes no parameter by more than `tol`. Other arguments,
    derivatives (those by bounds, too, that hold a parameter) and errors are those of `newton`.

    >>> import numpy as np
    >>> found = lbfgsb(lambda x, a: np.sum((x - a) ** 2), np.zeros(3), (np.array([-1.0, 0.5, 2.0]),), bounds=(0.0, 1.0))
    >>> found.x
    array([0. , 0.5, 1. ])
    """
    return _minimize(fun, x0, args, bounds, "lbfgsb", tol, max_iterations, functools.partial(_lbfgsb, memory=memory), (memory,))


def _minimize(fun: Function, x0: Any, args: tuple[Any, ...], bounds: Any, name: str, tol: float, max_iterations: int, loop: Function,
              settings: tuple[Any, ...] = ()) -> Result:
    tol, max_iterations = check_options(name, tol, max_iterations)

    def solve(x0: Any, args: tuple[Any, ...], bounds: Any) -> Result:
        problem = Problem(fun, x0, args, name, scalar=True)
        return minimize_problem(problem, bounds_of(bounds, problem.vectors, problem.what), lambda theta, bounds: loop(
            functools.partial(_value, problem, theta), problem.vectors.initial, bounds, tol, max_iterations), problem.value)

    return run(fun, name, (*settings, tol, max_iterations), solve, x0, args, bounds)        # type: ignore[no-any-return]


def _value(problem: Problem, theta: Any, x: Any) -> Any:
    return problem.value(x, theta)


def minimize_problem(problem: Problem, bounds: Any, loop: Function, value: Function) -> Result:
    """Result of a loop that minimises `value(x, theta)`, with its derivatives."""
    constants, fixed = stop_gradient(problem.theta), stop_gradient(bounds)
    last = loop(constants, fixed)
    x, found, gradient = minimum(value, last["x"], last["f"], last["g"], problem.theta, bounds)
    unravel = problem.vectors.unravel
    return Result(unravel(x), found, unravel(gradient), last["success"], last["nit"])


def start(x: Any, **more: Any) -> State:
    """State of a loop whose first iteration evaluates the initial point."""
    x = stop_gradient(x)
    return {"x": x, "trial": x, "f": np.asarray(np.inf, x.dtype), "g": np.zeros(x.shape, x.dtype), "nit": np.asarray(0),
            "stop": np.asarray(False), "success": np.asarray(False), **more}


def iterate(step: Function, state: State, most: int) -> State:
    """The last state of a loop over `step`, which returns what `state` has, in any order."""
    def ordered(before: State) -> State:
        after = step(before)
        return {name: after[name] for name in before}

    return while_loop(lambda state: ~state["stop"] & (state["nit"] < most), ordered, state)


def chosen(good: Any, state: State, **new: Any) -> tuple[Any, ...]:
    """New values where `good`, else those of the state by the same names."""
    return tuple(np.where(good, value, state[name]) for name, value in new.items())


def is_finite(value: Any, gradient: Any) -> Any:
    return np.isfinite(value) & np.all(np.isfinite(gradient))


def rounding(value: Any) -> Any:
    """Size of rounding errors of a number."""
    return 4 * np.finfo(value.dtype).eps * np.abs(value)


def _newton(value: Function, x: Any, bounds: Any, tol: float, most: int) -> State:
    size, dtype = x.shape[0], x.dtype

    def step(s: State) -> State:
        f, g = value_and_grad(value)(s["trial"])
        matrix = hessian(value)(s["trial"])
        moved = s["trial"] - s["x"]
        good = is_finite(f, g) & goes_down(s, f, g, moved, ARMIJO * np.sum(s["g"] * moved))
        x, f, g, matrix = chosen(good, s, x=s["trial"], f=f, g=g, H=matrix)
        damping = np.where(good, np.where(s["damping"] > 1e-6, 0.1 * s["damping"], 0.0), np.maximum(10.0 * s["damping"], 1e-3))
        p, damping = newton_direction(matrix, g, damping)
        gain = -0.5 * np.sum(g * p)
        low = floor(s, good, f, gain, damping == 0.0)
        done = (good & (np.max(np.abs(g)) <= tol)) | (low["idle"] > 0)
        return {"x": x, "f": f, "g": g, "H": matrix, "trial": x + p, "damping": damping, "nit": s["nit"] + 1, "success": done,
                "stop": done | ~(damping < MAX_DAMPING) | ~np.isfinite(f), **low}

    return iterate(step, start(x, H=np.eye(size, dtype=dtype), damping=np.zeros((), dtype), **at_start(dtype)), most)


def newton_direction(matrix: Any, g: Any, damping: Any) -> tuple[Any, Any]:
    """A step of Newton's method that goes down, and the damping that it takes."""
    size = np.abs(np.diagonal(matrix))
    least = np.maximum(np.finfo(g.dtype).eps * np.max(size), FLAT * np.max(np.abs(g)))
    size = np.maximum(size, least) + np.finfo(g.dtype).tiny

    def solved(damping: Any) -> Any:
        return -np.linalg.solve(matrix + np.diag(damping * size), g)

    def goes_up(state: tuple[Any, Any]) -> Any:
        slope = np.sum(state[0] * g)
        return ~((slope < 0) | (np.max(np.abs(g)) == 0.0)) & (state[1] < MAX_DAMPING)

    def damp(state: tuple[Any, Any]) -> tuple[Any, Any]:
        more = np.maximum(10.0 * state[1], 1e-3)
        return solved(more), more

    return while_loop(goes_up, damp, (solved(damping), damping))        # type: ignore[no-any-return]


def _bfgs(value: Function, x: Any, bounds: Any, tol: float, most: int) -> State:
    size, dtype = x.shape[0], x.dtype
    eye = np.eye(size, dtype=dtype)

    def step(s: State) -> State:
        f, g = value_and_grad(value)(s["trial"])
        first = s["nit"] == 0
        slope, new_slope = np.sum(s["g"] * s["p"]), np.sum(g * s["p"])
        moved, turned = s["trial"] - s["x"], g - s["g"]
        low_enough = is_finite(f, g) & goes_down(s, f, g, moved, ARMIJO * s["t"] * slope)
        flat_enough = new_slope >= CURVATURE * slope
        stuck = s["t"] - s["lo"] <= MIN_STEP
        good = low_enough & (first | flat_enough | stuck)
        curved = np.sum(moved * turned)
        scale = curved / np.where(curved > 0, np.sum(turned * turned), 1.0)
        inverse = np.where(s["fresh"], scale * eye, s["H"])
        rho = 1.0 / np.where(curved > 0, curved, 1.0)
        left = eye - rho * moved[:, None] * turned[None, :]
        updated = left @ inverse @ left.T + rho * moved[:, None] * moved[None, :]
        learned = good & ~first & (curved > np.finfo(dtype).eps * np.sum(turned * turned) * 1e-3)
        x, f_best, g_best = chosen(good, s, x=s["trial"], f=f, g=g)
        inverse = np.where(learned, updated, s["H"])
        fresh = s["fresh"] & ~learned
        p = np.where(good, -(inverse @ g_best), s["p"])
        unit = np.where(fresh, np.minimum(1.0, 1.0 / np.maximum(np.sum(np.abs(g_best)), np.finfo(dtype).tiny)), 1.0)
        hi = np.where(good, np.inf, np.where(low_enough, s["hi"], s["t"]))
        lo = np.where(good, 0.0, np.where(low_enough, s["t"], s["lo"]))
        t = np.where(good, unit, next_step(s["t"], lo, hi, f - s["f"], slope, low_enough))
        gain = -np.sum(g_best * p)
        low = floor(s, good, f_best, gain, ~fresh)
        done = (good & (np.max(np.abs(g_best)) <= tol)) | (low["idle"] >= MAX_IDLE)
        exhausted = ~good & (t - lo <= MIN_STEP)
        return {"x": x, "f": f_best, "g": g_best, "H": inverse, "p": p, "t": t, "lo": lo, "hi": hi, "trial": x + t * p, "fresh": fresh,
                "nit": s["nit"] + 1, "success": done | (exhausted & np.isfinite(f_best) & (gain <= 1e6 * rounding(low["scale"]))),
                "stop": done | exhausted | (first & ~good), **low}

    number = functools.partial(np.asarray, dtype=dtype)
    return iterate(step, start(x, H=eye, p=np.zeros(size, dtype), t=number(1.0), lo=number(0.0), hi=number(np.inf),
                               fresh=np.asarray(True), **at_start(dtype)), most)


def goes_down(state: State, f: Any, g: Any, moved: Any, least: Any) -> Any:
    """Whether a function falls by `least` along a step. Where rounding hides that, its fall is that of the gradients' mean along the step
    (Hager and Zhang 2005)."""
    by_gradients = 0.5 * np.sum((state["g"] + g) * moved) <= least
    return np.where(state["noise"], by_gradients, f <= state["f"] + least + rounding(np.maximum(np.abs(f), state["scale"])))


def floor(state: State, good: Any, f: Any, gain: Any, known: Any) -> State:
    """Entries of the next state: the largest value of late, whose rounding is that of the function; whether the expected gain of a step is
    below that, of a model that is `known`; how small it was there, and how often in succession no step has made it smaller."""
    scale = np.maximum(0.5 * state["scale"], np.abs(f))
    noise = known & (gain <= NOISE * rounding(scale))
    smaller = good & (gain < state["gain"])
    return {"scale": scale, "noise": noise, "gain": np.where(noise & smaller, gain, state["gain"]),
            "idle": np.where(smaller | ~state["noise"], 0, state["idle"] + 1)}


def at_start(dtype: Any) -> State:
    """Those entries before the first iteration."""
    return {"scale": np.zeros((), dtype), "noise": np.asarray(False), "gain": np.asarray(np.inf, dtype), "idle": np.asarray(0)}


def next_step(t: Any, lo: Any, hi: Any, change: Any, slope: Any, low_enough: Any) -> Any:
    """Length of the next step of a line search between `lo`, from which the function still falls, and `hi`, where it is too high: the
    minimum of a parabola where it was only seen to be too high, else the middle; twice as far if there is no `hi`."""
    excess = change - slope * t
    parabola = -0.5 * slope * t * t / np.where(excess > 0, excess, 1.0)
    middle = 0.5 * (lo + hi)
    fits = (lo == 0.0) & ~low_enough & np.isfinite(change) & (excess > 0)
    inner = np.where(fits, np.clip(parabola, 0.1 * hi, 0.5 * hi), middle)
    return np.where(np.isfinite(hi), inner, 2.0 * t)


def _lbfgsb(value: Function, x: Any, bounds: Any, tol: float, most: int, memory: int) -> State:
    size, dtype = x.shape[0], x.dtype
    lower, upper = bounds or (np.full(size, -np.inf, dtype), np.full(size, np.inf, dtype))
    x = np.clip(x, lower, upper)

    def step(s: State) -> State:
        f, g = value_and_grad(value)(s["trial"])
        moved, turned = s["trial"] - s["x"], g - s["g"]
        first = s["nit"] == 0
        slope = np.sum(s["g"] * moved)
        good = is_finite(f, g) & goes_down(s, f, g, moved, ARMIJO * slope)
        learned = good & ~first & (np.sum(moved * turned) > 1e-10 * np.sum(turned * turned))
        steps, turns = chosen(learned, s, steps=np.concatenate([s["steps"][1:], moved[None]]),
                              turns=np.concatenate([s["turns"][1:], turned[None]]))
        x, f_best, g_best = chosen(good, s, x=s["trial"], f=f, g=g)
        free = ~(((x <= lower) & (g_best > 0)) | ((x >= upper) & (g_best < 0)))
        fresh = s["fresh"] & ~learned
        p = two_loops(g_best, steps, turns, free)
        p = np.where(np.sum(p * g_best) < 0, p, np.where(free, -g_best, 0.0))
        unit = np.where(fresh, np.minimum(1.0, 1.0 / np.maximum(np.sum(np.abs(g_best)), np.finfo(dtype).tiny)), 1.0)
        shorter = s["t"] * np.clip(-0.5 * slope / np.where(f - s["f"] > slope, f - s["f"] - slope, 1.0), 0.1, 0.5)
        t = np.where(good, unit, np.where(np.isfinite(f), shorter, 0.1 * s["t"]))
        left = np.max(np.abs(np.clip(x - g_best, lower, upper) - x))
        trial = np.clip(x + t * p, lower, upper)
        gain = -np.sum(g_best * (trial - x))
        low = floor(s, good, f_best, gain, ~fresh)
        done = (good & (left <= tol)) | (low["idle"] >= MAX_IDLE)
        exhausted = ~good & (t <= MIN_STEP)
        return {"x": x, "f": f_best, "g": g_best, "steps": steps, "turns": turns, "t": t, "trial": trial, "nit": s["nit"] + 1,
                "fresh": fresh, "success": done | (exhausted & np.isfinite(f_best) & (gain <= 1e6 * rounding(low["scale"]))),
                "stop": done | exhausted | (first & ~good), **low}

    table = np.zeros((memory, size), dtype)
    return iterate(step, start(x, steps=table, turns=table, t=np.asarray(1.0, dtype), fresh=np.asarray(True),
                               **at_start(dtype)), most)


def two_loops(g: Any, steps: Any, turns: Any, free: Any) -> Any:
    """The quasi-Newton direction among the free parameters (Nocedal and Wright, algorithm 7.4). Rows of zeros are no steps."""
    steps, turns = np.where(free, steps, 0.0), np.where(free, turns, 0.0)
    curved = np.sum(steps * turns, axis=1)
    known = curved > np.finfo(g.dtype).eps * np.sum(turns * turns, axis=1)
    rho = np.where(known, 1.0 / np.where(known, curved, 1.0), 0.0)

    def down(q: Any, row: Any) -> tuple[Any, Any]:
        step, turn, rho = row
        alpha = rho * np.sum(step * q)
        return q - alpha * turn, alpha

    q, alphas = scan(down, np.where(free, g, 0.0), (steps, turns, rho), reverse=True)
    sizes = np.sum(turns * turns, axis=1)
    scales = np.where(known, curved / np.where(known, sizes, 1.0), 0.0)
    scale, _ = scan(lambda last, new: (np.where(new > 0, new, last), None), np.ones((), g.dtype), scales)

    def up(r: Any, row: Any) -> tuple[Any, None]:
        step, turn, rho, alpha = row
        return r + step * (alpha - rho * np.sum(turn * r)), None

    return -scan(up, scale * q, (steps, turns, rho, alphas))[0]


