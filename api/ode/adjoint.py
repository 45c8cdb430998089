"""Derivatives of an initial value problem by its adjoint equations, solved backward in time."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ode.events import Events
from adjit.runtime.control_flow import scan
from adjit.runtime.custom_vjp import custom_vjp
from adjit.runtime.transforms import stop_gradient, vjp
from adjit.solve.problem import Problem

Function = Callable[..., Any]


@dataclasses.dataclass(frozen=True)
class _Plain:
    """Vectors as trees of one array."""

    def unravel(self, rows: Any) -> Any:
        return rows


LARGEST_DEVIATION = 0.1
"""Of a state that is solved backward from the one that is known there, in proportion to its size."""


def solve_by_adjoint(problem: Problem, begin: Any, end: Any, times: Any, integrate: Function, settings: Any, result: Function) -> Any:
    """Result of an integration whose derivatives in y0, times and what the right-hand side reads are those of the adjoint equations.

    The state at the end of each interval between times is known from the forward solution; within an interval it is solved backward again,
    together with its cotangent and the cotangent of `theta`. Derivatives are NaN where either solution fails, or the one backward does
    not come near the state where the interval begins: of problems that are unstable backward in time it says nothing.
    """
    rtol, atol = settings.tolerances
    nothing = Events.of(None, 1).bound(())
    plain = _Plain()
    vectors = problem.vectors
    floats = [index for index, array in enumerate(problem.theta[1:]) if array.dtype.kind == "f"]
    shapes = [problem.theta[1 + index].shape for index in floats]
    ends = np.cumsum([0, *(int(np.prod(shape, dtype=np.int64)) for shape in shapes)]).tolist()

    def slope(t: Any, y: Any, theta: tuple[Any, ...]) -> Any:
        return problem.value(y, (t, *theta))

    def forward_solution(y0: Any, begin: Any, end: Any, times: Any, theta: tuple[Any, ...]) -> Any:
        found = integrate(lambda t, y: slope(t, y, theta), begin, end, y0, times, plain, nothing, settings)
        return found.y, (found.success, found.nsteps, found.nfev, found.t)

    solved = custom_vjp(lambda y0, begin, end, times, theta: forward_solution(y0, begin, end, times, theta))

    def forward(y0: Any, begin: Any, end: Any, times: Any, theta: tuple[Any, ...]) -> Any:
        found = forward_solution(y0, begin, end, times, theta)
        return found, (y0, found[0], found[1][0], begin, end, times, theta)

    def backward(saved: Any, cotangent: Any) -> tuple[Any, ...]:
        y0, found, success, begin, end, times, theta = saved
        of_states, (_, _, _, of_time) = cotangent
        size = y0.shape[0]

        def pulled(t: Any, y: Any, a: Any) -> Any:
            def of(y: Any, t: Any, *chosen: Any) -> Any:
                given = list(theta)
                for index, array in zip(floats, chosen, strict=True):
                    given[index] = array
                return slope(t, y, tuple(given))

            value, pull = vjp(of, y, t, *(theta[index] for index in floats))
            by_y, _, *by_theta = pull(a)
            return value, by_y, np.concatenate([np.zeros(0), *(np.reshape(x, (-1,)) for x in by_theta)])

        def joint(t: Any, z: Any) -> Any:
            value, by_y, by_theta = pulled(t, z[:size], z[size:2 * size])
            return np.concatenate([value, -by_y, -by_theta])

        of_cotangents = np.broadcast_to(np.min(atol), size + ends[-1])
        joint_settings = dataclasses.replace(settings, tolerances=(rtol, np.concatenate([np.broadcast_to(atol, size), of_cotangents])))

        def back(start: Any, stop: Any, y: Any, known: Any, a: Any, total: Any) -> Any:
            solution = integrate(joint, start, stop, np.concatenate([y, a, total]), None, plain, nothing, joint_settings)
            z = solution.y
            deviation = np.sqrt(np.mean(((z[:size] - known) / (atol + rtol * np.abs(known))) ** 2))
            good = success & solution.success & (deviation * rtol <= LARGEST_DEVIATION)
            return np.where(good, z[size:2 * size], np.nan), np.where(good, z[2 * size:], np.nan)

        total = np.zeros(ends[-1])
        if times is None:
            a, total = back(end, begin, found, y0, of_states, total)
            of_end = np.sum(of_states * slope(end, found, theta)) + of_time
            of_times = None
        else:
            starts, states = np.concatenate([begin[None], times[:-1]]), np.concatenate([y0[None], found[:-1]])

            def interval(carry: Any, row: Any) -> tuple[Any, Any]:
                a, total = carry
                start, stop, known, y, of_y = row
                of_stop = np.sum(of_y * slope(stop, y, theta))
                return back(stop, start, y, known, a + of_y, total), of_stop

            (a, total), of_times = scan(interval, (np.zeros(size), total), (starts, times, states, found, of_states), reverse=True)
            of_end, of_times = np.zeros(()), of_times + of_time
        of_begin = -np.sum(a * slope(begin, y0, theta))
        of_theta: list[Any] = [np.zeros(np.shape(array)) for array in theta]
        for index, start, stop, shape in zip(floats, ends, ends[1:], shapes, strict=False):
            of_theta[index] = np.reshape(total[start:stop], shape)
        return a, of_begin, of_end, of_times, tuple(of_theta)

    solved.defvjp(forward, backward)
    found, (success, steps, evaluations, t) = solved(vectors.initial, begin, end, times, problem.theta[1:])
    success, steps, evaluations = map(stop_gradient, (success, steps, evaluations))
    return result(t, vectors.unravel(found), success, steps, evaluations, None, None, None)
