"""`root` and `fixed_point`: as many equations as unknowns, as one loop of the program each."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.errors import ShapeError
from adjit.runtime.jacobians import jacobian
from adjit.runtime.transforms import stop_gradient
from adjit.solve.implicit import solution
from adjit.solve.minimization import State, chosen, iterate
from adjit.solve.problem import Problem, Result, check_options, run
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.user_location import find_user_location, return_location

Function = Callable[..., Any]

MIN_STEP = 1e-10
"""Shortest step, of Newton's, that a line search tries."""


@user_frames_only
def root(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, tol: float = 1e-10, max_iterations: int = 100) -> Result:
    """A solution of `fun(x, *args) = 0` near `x0`, by Newton's method with the exact Jacobian.

    `x0` is a tree of real numbers and arrays; `fun` returns as many numbers, as an array or a tree of arrays. A step that does not make the
    norm of the equations smaller is shortened; where the Jacobian is singular it goes down the gradient of the norm. It ends when no
    equation is off by more than `tol`, or when rounding leaves nothing to gain.

    `fun` of the result is what is left of the equations, `jac` their Jacobian there, a matrix. The solution has derivatives, by `args` and
    by what `fun` closes over, of the implicit function theorem; that of `x0` is zero.

    Raises `ShapeError` if `fun` does not return as many numbers as there are unknowns, `DTypeError` for numbers that are not real.

    >>> import numpy as np
    >>> found = root(lambda x, r: [x[0] ** 2 + x[1] ** 2 - r ** 2, x[0] - x[1]], np.array([1.0, 0.5]), (2.0,))
    >>> found.x
    array([1.41421356, 1.41421356])
    """
    return _solve(fun, x0, args, "root", tol, max_iterations, lambda value, x, theta: value, _newton)


@user_frames_only
def fixed_point(fun: Function, x0: Any, args: tuple[Any, ...] = (), *, memory: int = 5, tol: float = 1e-10, max_iterations: int = 1000
                ) -> Result:
    """A solution of `x = fun(x, *args)` near `x0`, by iteration with Anderson's acceleration over the last `memory` steps (Walker and Ni
    2011); `memory=0` only iterates.

    `fun` returns a tree like `x0`. It ends when no number changes by more than `tol` in an iteration. `fun` of the result is `fun(x) - x`,
    `jac` its Jacobian. Derivatives and errors are those of `root`.

    >>> import numpy as np
    >>> found = fixed_point(np.cos, 1.0)
    >>> round(float(found.x), 9)
    0.739085133
    >>> from adjit import grad
    >>> round(float(grad(lambda a: fixed_point(lambda x: np.cos(a * x), 1.0).x)(1.0)), 6)
    -0.297474
    """
    return _solve(fun, x0, args, "fixed_point", tol, max_iterations, lambda value, x, theta: value - x,
                  functools.partial(_anderson, memory=memory), (memory,))


def _solve(fun: Function, x0: Any, args: tuple[Any, ...], name: str, tol: float, max_iterations: int, equations: Function, loop: Function,
           settings: tuple[Any, ...] = ()) -> Result:
    tol, max_iterations = check_options(name, tol, max_iterations)

    def solve(x0: Any, args: tuple[Any, ...]) -> Result:
        problem = Problem(fun, x0, args, name, scalar=False)
        vectors = problem.vectors

        def residual(x: Any, theta: Any) -> Any:
            return equations(problem.value(x, theta), x, theta)

        initial, constants = stop_gradient(vectors.initial), stop_gradient(problem.theta)
        if problem.count != vectors.size:
            raise ShapeError(f"{problem.what}: {problem.count} equations for {vectors.size} unknowns",
                             return_location(fun) or find_user_location(),
                             hint="as many as there are unknowns; adjit.solve.lm minimizes the sum of squares of more")
        last = loop(lambda x: residual(x, constants), initial, tol, max_iterations)
        x = solution(residual, last["x"], problem.theta)
        left = residual(x, problem.theta)
        return Result(vectors.unravel(x), problem.rebuilt(left), jacobian(residual)(x, problem.theta),
                      last["success"], last["nit"])

    return run(fun, name, (*settings, tol, max_iterations), solve, x0, args)        # type: ignore[no-any-return]


def _newton(value: Function, x: Any, tol: float, most: int) -> State:
    size, dtype = x.shape[0], x.dtype

    def step(s: State) -> State:
        r, matrix = value(s["trial"]), jacobian(value)(s["trial"])
        first = s["nit"] == 0
        largest = np.max(np.abs(r))
        norm = np.sqrt(np.sum(r * r))
        finite = np.isfinite(norm) & np.all(np.isfinite(matrix))
        good = finite & (first | (norm <= (1.0 - 1e-4 * s["t"]) * s["norm"]) | (largest <= tol))
        x, r, matrix, norm = chosen(good, s, x=s["trial"], r=r, H=matrix, norm=norm)
        p = -np.linalg.solve(matrix, r)
        slope = matrix.T @ r
        along = matrix @ slope
        down = -slope * (np.sum(slope * slope) / np.maximum(np.sum(along * along), np.finfo(dtype).tiny))
        regular = np.all(np.isfinite(p))
        p = np.where(regular, p, down)
        t = np.where(good, 1.0, 0.5 * s["t"])
        done = good & (np.max(np.abs(r)) <= tol)
        still = np.all(np.abs(t * p) <= 4 * np.finfo(dtype).eps * np.abs(x))        # nothing moves: rounding
        return {"x": x, "r": r, "H": matrix, "norm": norm, "t": t, "trial": x + t * p, "nit": s["nit"] + 1,
                "success": done | (still & finite & regular & (t == 1.0)), "stop": done | still | (t < MIN_STEP)}

    return iterate(step, {
        "x": x, "trial": x, "r": np.zeros(size, dtype), "H": np.eye(size, dtype=dtype), "norm": np.asarray(np.inf, dtype),
        "t": np.asarray(1.0, dtype), "nit": np.asarray(0), "success": np.asarray(False), "stop": np.asarray(False)}, most)


def _anderson(value: Function, x: Any, tol: float, most: int, memory: int) -> State:
    size, dtype = x.shape[0], x.dtype
    memory = min(memory, size)

    def step(s: State) -> State:
        r = value(s["trial"])
        x = s["trial"]
        first = s["nit"] == 0
        moved, turned = x - s["x"], r - s["r"]
        norm = np.sqrt(np.sum(r * r))
        worse = norm > 2.0 * s["norm"]                  # then start again from plain iteration
        new = x + r
        tables = {}
        if memory:
            for name, row in (("moves", moved), ("turns", turned)):
                table = np.where(first, s[name], np.concatenate([s[name][1:], row[None]]))
                tables[name] = np.where(worse, 0.0, table)
            turns = tables["turns"]
            normal = turns @ turns.T
            size_of = np.diagonal(normal)
            normal = normal + np.diag(1e-14 * np.max(size_of) + np.where(size_of > 0, 0.0, 1.0))
            weights = np.linalg.solve(normal, turns @ r)
            better = new - (tables["moves"] + turns).T @ weights
            new = np.where(np.all(np.isfinite(better)), better, new)
        done = np.max(np.abs(r)) <= tol
        return {"x": x, "r": r, "norm": norm, "trial": np.where(done, x, new), "nit": s["nit"] + 1, "success": done,
                "stop": done | ~np.isfinite(norm), **tables}

    table = np.zeros((memory, size), dtype)
    more = {"moves": table, "turns": table} if memory else {}
    return iterate(step, {"x": x, "r": np.zeros(size, dtype), "norm": np.asarray(np.inf, dtype), "trial": x, "nit": np.asarray(0),
                          "success": np.asarray(False), "stop": np.asarray(False), **more}, most)
