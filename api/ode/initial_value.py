"""`solve_ivp`: an initial value problem, as one loop of the program with adaptive steps.

An iteration tries a step, or saves the state at one of the times that were asked for. Sizes of steps are constants for derivatives.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import ArgumentError, ShapeError, TraceError
from adjit.ode.adjoint import solve_by_adjoint
from adjit.ode.events import Events
from adjit.ode.interpolation import DenseOutput, between
from adjit.ode.methods import METHODS, Method
from adjit.runtime.control_flow import cond, while_loop
from adjit.runtime.number_lists import stacked_lists
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import stop_gradient
from adjit.solve.problem import Problem, Vectors, run
from adjit.tracer.array import TracedArray, as_traced
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location, return_location

Function = Callable[..., Any]
State = dict[str, Any]

SAFETY, SMALLEST, LARGEST = 0.9, 0.2, 10.0
"""Bounds of the change of a step's size, as SciPy has them."""


@dataclasses.dataclass(frozen=True)
class OdeResult:
    """Outcome of `solve_ivp`; a tree.

    `t`, `y`: the times that were asked for, and the states there, with times as first axis of each array; without `t_eval` the last time
    and state. `success`: True if the end of the interval or a terminal event was reached, and all events are there. `nsteps`: steps that
    were tried; `nfev`: evaluations of the right-hand side in them. `t_events`, `y_events`: for each event its times, NaN behind the last
    one, and the states. `sol`: the solution as a function of time, or None.

    >>> import numpy as np
    >>> found = solve_ivp(lambda t, y: -y, (0.0, 1.0), 1.0, t_eval=np.array([0.5, 1.0]))
    >>> found.y.round(3), bool(found.success)
    (array([0.606, 0.368]), True)
    """

    t: Any
    y: Any
    success: Any
    nsteps: Any
    nfev: Any
    t_events: Any
    y_events: Any
    sol: Any


@user_frames_only
def solve_ivp(fun: Function, t_span: tuple[Any, Any], y0: Any, method: str = "RK45", t_eval: Any = None, dense_output: bool = False,
              events: Any = None, args: tuple[Any, ...] = (), *, rtol: float = 1e-3, atol: Any = 1e-6, first_step: float | None = None,
              max_step: float = np.inf, max_steps: int = 10_000, max_events: int | None = None, gradient: str = "steps") -> OdeResult:
    """The solution of y' = fun(t, y, *args) from `y0` at `t_span[0]` to `t_span[1]`, which may be before; as `scipy.integrate.solve_ivp`.

    `y0` is a number, an array, or a tree of them, and becomes float64; `fun` returns the like. `method`: "RK45", of Dormand and Prince,
    fifth order; "Rodas", of Rosenbrock's kind, fifth order, for stiff problems. Steps keep the root mean square of error /
    (atol + rtol |y|) below 1; `atol` may be a tree like `y0`. `t_eval`: times, in order, at which the state is returned, interpolated
    within steps. Its ends may be any numbers of the interval.

    `events`: a function `event(t, y, *args)` of a number, or a list of such, with the attributes `terminal` and `direction` of SciPy's:
    the times at which it is zero: all of them, outside of compiled functions. In one `max_events` times of each are returned, 16 unless
    told otherwise, or as many as end the integration; NaN follows the last, and `success` is False if there were more. A terminal event
    ends the integration; states at later times of `t_eval` are NaN. `dense_output` returns the solution as a function of time, which takes
    memory for `max_steps` steps.

    `gradient="steps"` differentiates the steps, to any order, from checkpoints: the derivative of what is computed. "adjoint" solves the
    adjoint equations backward in time: first derivatives in reverse mode, in the memory of a state, as accurate as the tolerances; without
    events and dense output. It is NaN where the solution backward in time does not come back to the states that are known, as of stiff
    problems. Where the steps are differentiated, their sizes are constants.

    Raises `ShapeError` if `fun` does not return as many numbers as `y0` has, `TraceError` for options that do not fit, `ArgumentError` (a
    `ValueError`) for times that are out of order, or outside of `t_span`.

    >>> import numpy as np
    >>> def pendulum(t, y, damping):
    ...     return [y[1], -np.sin(y[0]) - damping * y[1]]
    >>> found = solve_ivp(pendulum, (0.0, 10.0), [1.0, 0.0], t_eval=np.array([5.0, 10.0]), args=(0.1,), rtol=1e-8, atol=1e-10)
    >>> np.round(found.y[:, 0], 6)
    array([-0.01714 , -0.593263])
    >>> from adjit import grad
    >>> def last_angle(damping):
    ...     return solve_ivp(pendulum, (0.0, 10.0), [1.0, 0.0], args=(damping,), rtol=1e-8, atol=1e-10).y[0]
    >>> round(float(grad(last_angle)(0.1)), 6)
    3.057912
    """
    _check(method, gradient, t_span, t_eval, events, dense_output, args)
    found = Events.of(events, max_events)
    chosen = METHODS[method]

    def solve(t_span: tuple[Any, Any], y0: Any, t_eval: Any, args: tuple[Any, ...], rtol: Any, atol: Any, first_step: Any,
              max_step: Any) -> OdeResult:
        name = f"solve_ivp of {describe(fun)}"
        begin, end = (as_traced(float(t) if isinstance(t, (int, np.integer)) else t).astype(np.float64) for t in t_span)
        problem = Problem(functools.wraps(fun)(lambda y, t, *args: fun(t, y, *args)), y0, (begin, *args), "solve_ivp", scalar=False,
                          dtype=np.float64, varying=2)
        vectors = problem.vectors
        count = sum(value.type.size for value in problem.region.graph.results)
        if count != vectors.size:
            raise ShapeError(f"{name}: it returns {count} numbers for a state of {vectors.size}",
                             return_location(fun) or find_user_location())
        times = None if t_eval is None else as_traced(stacked_lists(t_eval)).astype(np.float64)
        if times is not None and times.ndim != 1:
            raise ShapeError(f"{name}: t_eval has shape {times.shape}, expected one axis", find_user_location())
        tolerances = rtol, _tolerance(atol, vectors, name)
        settings = Settings(chosen, tolerances, first_step, max_step, max_steps, dense_output)
        if gradient == "adjoint":
            return solve_by_adjoint(problem, begin, end, times, integrate, settings, OdeResult)
        g = [functools.partial(lambda event, t, y: event(t, vectors.unravel(y), *args), event) for event in found.functions]
        return integrate(lambda t, y: problem.value(y, (t, *problem.theta[1:])), begin, end, vectors.initial, times, vectors,
                         found.bound(g), settings)

    result: OdeResult = run(fun, "solve_ivp", (method, dense_output, found.key, max_steps, gradient), solve, tuple(t_span), y0, t_eval,
                            tuple(args), rtol, atol, first_step, max_step)
    if max_events is not None or not found.functions or not all(type(times) is np.ndarray for times in result.t_events):
        return result
    most = found.most
    while not result.success and not np.isnan([times[-1] for times in result.t_events]).all():      # there may be more
        most *= 4
        result = solve_ivp(fun, t_span, y0, method, t_eval, dense_output, events, args, rtol=rtol, atol=atol, first_step=first_step,
                           max_step=max_step, max_steps=max_steps, max_events=most)
    return _without_rest(result)


def _without_rest(result: OdeResult) -> OdeResult:
    """A result whose events end with the last one."""
    counts = [int(np.count_nonzero(~np.isnan(times))) for times in result.t_events]
    return dataclasses.replace(result, t_events=[times[:n] for times, n in zip(result.t_events, counts, strict=True)],
                               y_events=[_first(n, tree) for n, tree in zip(counts, result.y_events, strict=True)])


def _first(count: int, tree: Any) -> Any:
    leaves, spec = flatten(tree)
    return unflatten(spec, [states[:count] for states in leaves])


@dataclasses.dataclass(frozen=True)
class Settings:
    """Options of an integration."""

    method: Method
    tolerances: tuple[Any, Any]
    first_step: Any
    max_step: Any
    max_steps: int
    dense: bool


def _check(method: str, gradient: str, t_span: Any, t_eval: Any, events: Any, dense_output: bool, args: Any) -> None:
    here = find_user_location
    if method not in METHODS:
        raise TraceError(f"solve_ivp: there is no method {method!r}", here(), hint="'RK45', or 'Rodas' for stiff problems")
    if gradient not in ("steps", "adjoint"):
        raise TraceError(f"solve_ivp: gradient is {gradient!r}", here(), hint="'steps' or 'adjoint'")
    if not isinstance(t_span, (tuple, list)) or len(t_span) != 2:
        raise TraceError("solve_ivp: t_span is not a pair (begin, end)", here())
    if not isinstance(args, (tuple, list)):
        raise TraceError(f"solve_ivp: args is {type(args).__name__}, expected a tuple", here(), hint="write (data,) for a single argument")
    if t_eval is not None and not any(isinstance(leaf, (TracedArray, ArrayWrapper)) for leaf in flatten((t_span, t_eval))[0]):
        begin, end = map(float, t_span)
        times = np.asarray(t_eval, np.float64)
        if np.any((times < min(begin, end)) | (times > max(begin, end))):
            raise ArgumentError(f"solve_ivp: times of t_eval are not within t_span, from {begin:g} to {end:g}: they are from "
                                f"{times.min():g} to {times.max():g}", here())
        if times.ndim == 1 and np.any(np.diff(times) <= 0 if end > begin else np.diff(times) >= 0):
            raise ArgumentError("solve_ivp: times of t_eval are not in order", here(), hint="np.sort, or the other way if t_span goes back")
    if gradient == "adjoint" and (events is not None or dense_output):
        raise TraceError("solve_ivp: gradient='adjoint' has no events and no dense output", here(), hint="gradient='steps' has both")


def _tolerance(atol: Any, vectors: Vectors, name: str) -> Any:
    from_tree = Vectors(atol, f"{name}: atol").initial
    if from_tree.shape[0] not in (1, vectors.size):
        raise ShapeError(f"{name}: atol has {from_tree.shape[0]} numbers for a state of {vectors.size}", find_user_location())
    return from_tree


def integrate(f: Function, begin: Any, end: Any, y: Any, times: Any, vectors: Vectors, events: Any, settings: Settings) -> OdeResult:
    """The loop over steps."""
    method, dtype = settings.method, y.dtype
    forward = np.where(end >= begin, 1.0, -1.0)
    slope = f(begin, y)
    size = _first_size(f, begin, y, slope, forward, settings)
    degree = method.degree
    state: State = {
        "t": begin, "y": y, "slope": slope, "h": stop_gradient(np.minimum(size, np.abs(end - begin))), "old_t": begin, "old_y": y,
        "step": np.zeros_like(begin), "q": np.zeros((degree, y.shape[0]), dtype), "steps": np.asarray(0), "stop": begin == end,
        "failed": np.asarray(False), "rejected": np.asarray(False), "accepted": np.asarray(0), **events.start(begin, y)}
    stacks: State = {}
    if settings.dense:
        rows = settings.max_steps
        stacks = {"times": np.full(rows, np.inf) * forward, "sizes": np.zeros(rows), "states": np.zeros((rows, y.shape[0]), dtype),
                  "rows": np.zeros((rows, degree, y.shape[0]), dtype)}

    def attempt(s: State) -> State:
        return _step(f, s, end, forward, settings, events)

    saved: State = {}
    count = 0 if times is None else times.shape[0]
    if count:
        saved = {"index": np.asarray(0), "ys": np.full((count, y.shape[0]), np.nan, dtype)}

    def going(s: State) -> Any:
        open_end = ~s["stop"] & (s["steps"] < settings.max_steps)
        return open_end | ((s["index"] < count) & _is_reached(s)) if count else open_end

    def _is_reached(s: State) -> Any:
        wanted = times[np.minimum(s["index"], count - 1)]
        return (forward * wanted <= forward * s["t"]) & ~s["failed"]

    def iteration(s: State) -> State:
        inner = {name: s[name] for name in state}
        if not count:
            new = attempt(inner)
        else:
            pending = (s["index"] < count) & _is_reached(s)
            new = cond(pending, lambda inner: inner, attempt, inner)
            index = np.minimum(s["index"], count - 1)
            wanted = times[index]
            part = (wanted - s["old_t"]) / np.where(s["step"] != 0, s["step"], 1.0)
            ys = s["ys"].copy()
            ys[index] = np.where(pending, between(s["old_y"], s["step"], s["q"], part), ys[index])
            new = {**new, "index": s["index"] + np.where(pending, 1, 0), "ys": ys}
        if stacks:
            moved = new["accepted"] > s["accepted"]
            place = s["accepted"]
            for name, value in (("times", new["old_t"]), ("sizes", new["step"]), ("states", new["old_y"]), ("rows", new["q"])):
                table = s[name].copy()
                table[place] = np.where(moved, value, table[place])
                new[name] = table
        return {name: new[name] for name in s}

    last = while_loop(going, iteration, {**state, **saved, **stacks})
    unravel = vectors.unravel
    sol = DenseOutput(last["times"], last["states"], last["sizes"], last["rows"], forward, unravel) if stacks else None
    t_events, y_events = events.results(last, unravel)
    if times is None:
        t, found = last["t"], unravel(last["y"])
    else:
        t, found = times, unravel(last["ys"] if count else np.zeros((0, y.shape[0]), dtype))
    evaluations = method.evaluations * last["steps"] + 2
    success = last["stop"] & ~last["failed"] & events.are_complete(last)
    return OdeResult(t, found, success, last["steps"], evaluations, t_events, y_events, sol)


def _step(f: Function, s: State, end: Any, forward: Any, settings: Settings, events: Any) -> State:
    method, (rtol, atol) = settings.method, settings.tolerances
    t, y = s["t"], s["y"]
    left = end - t
    size = np.minimum(s["h"], settings.max_step)
    is_last = size >= np.abs(stop_gradient(left)) * (1 - 1e-12)
    h = np.where(is_last, left, forward * size)
    # Problems of a batch that are done take further steps, which are dropped: back, where `f` is defined, as what is singular, such as a
    # step of size 0, would make derivatives NaN
    h = np.where(s["stop"], -1e-3 * forward * size, h)
    step = method.step(f, t, y, s["slope"], h)
    scale = atol + rtol * np.maximum(np.abs(y), np.abs(step.y))
    norm = stop_gradient(np.sqrt(np.mean((step.error / scale) ** 2)))
    finite = np.isfinite(norm) & np.all(np.isfinite(step.y))
    good = finite & (norm <= 1.0)
    factor = np.where(finite, SAFETY * np.maximum(norm, 1e-10) ** (-1.0 / (method.order + 1)), SMALLEST)
    factor = np.clip(factor, SMALLEST, np.where(s["rejected"] | ~good, 1.0, LARGEST))
    new_t = np.where(is_last, end, t + h)
    found = events.within(t, y, h, step, new_t, good, forward, s)
    ends = good & found.ends
    failed = ~good & (size * factor <= 10 * np.finfo(np.float64).eps * np.abs(t))
    after = {
        "t": np.where(ends, found.t, new_t), "y": np.where(ends, found.y, step.y), "slope": step.slope, "old_t": t, "old_y": y, "step": h,
        "q": step.coefficients}
    new = {name: np.where(good, value, s[name]) for name, value in after.items()}
    return {**s, **new, **found.records, "h": stop_gradient(np.abs(size * factor)), "steps": s["steps"] + 1,
            "accepted": s["accepted"] + np.where(good, 1, 0), "rejected": ~good, "failed": s["failed"] | failed,
            "stop": (good & (is_last | found.ends)) | failed}


def _first_size(f: Function, t: Any, y: Any, slope: Any, forward: Any, settings: Settings) -> Any:
    """Size of the first step: Hairer, Norsett and Wanner, "Solving Ordinary Differential Equations I", section II.4."""
    if settings.first_step is not None:
        return stop_gradient(np.abs(as_traced(settings.first_step).astype(np.float64)))
    rtol, atol = settings.tolerances
    t, y, slope, forward = map(stop_gradient, (t, y, slope, forward))
    scale = atol + rtol * np.abs(y)

    def norm(x: Any) -> Any:
        return np.sqrt(np.mean((x / scale) ** 2))

    d0, d1 = norm(y), norm(slope)
    h0 = np.where((d0 < 1e-5) | (d1 < 1e-5), 1e-6, 0.01 * d0 / np.where(d1 > 0, d1, 1.0))
    d2 = norm(f(t + forward * h0, y + forward * h0 * slope) - slope) / h0
    larger = np.maximum(d1, d2)
    exponent = 1.0 / (settings.method.order + 1)
    h1 = np.where(larger <= 1e-15, np.maximum(1e-6, 1e-3 * h0), (0.01 / np.where(larger > 0, larger, 1.0)) ** exponent)
    size = np.minimum(100 * h0, h1)
    return stop_gradient(np.where(np.isfinite(size), size, 1e-6))


