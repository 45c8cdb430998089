"""Steps of the methods: `dormand_prince`, explicit, for problems that are not stiff, and `rodas`, a method of Rosenbrock, for stiff ones.

A step returns the new state, the error and the coefficients of the polynomial that interpolates within it. Derivatives go through it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from adjit.runtime.jacobians import jacobian
from adjit.runtime.transforms import jvp

RightHandSide = Callable[[Any, Any], Any]


class Step(NamedTuple):
    """Outcome of a step of size h from (t, y): `y`, `slope` (the right-hand side there), `error`, and `coefficients`: the rows q of the
    polynomial y + h (q1 s + q2 s^2 + ...) at t + s h."""

    y: Any
    slope: Any
    error: Any
    coefficients: Any


class Method(NamedTuple):
    """`step(f, t, y, slope, h)`; `order` of the error estimate; `degree` of the interpolating polynomial; evaluations a step."""

    step: Callable[[RightHandSide, Any, Any, Any, Any], Step]
    order: int
    degree: int
    evaluations: int


def combined(weights: Sequence[float], rows: Sequence[Any]) -> Any:
    """Sum of rows with weights that are not zero."""
    terms = [weight * row for weight, row in zip(weights, rows, strict=False) if weight]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


# Dormand and Prince, "A family of embedded Runge-Kutta formulae", 1980; the interpolant is Shampine's, of fourth order, 1986.
_C = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0)
_A = ((1 / 5,), (3 / 40, 9 / 40), (44 / 45, -56 / 15, 32 / 9), (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
      (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656))
_B = (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84)
_E = (-71 / 57600, 0, 71 / 16695, -71 / 1920, 17253 / 339200, -22 / 525, 1 / 40)
_P = ((1, -8048581381 / 2820520608, 8663915743 / 2820520608, -12715105075 / 11282082432),
      (0, 0, 0, 0),
      (0, 131558114200 / 32700410799, -68118460800 / 10900136933, 87487479700 / 32700410799),
      (0, -1754552775 / 470086768, 14199869525 / 1410260304, -10690763975 / 1880347072),
      (0, 127303824393 / 49829197408, -318862633887 / 49829197408, 701980252875 / 199316789632),
      (0, -282668133 / 205662961, 2019193451 / 616988883, -1453857185 / 822651844),
      (0, 40617522 / 29380423, -110615467 / 29380423, 69997945 / 29380423))


def _dormand_prince(f: RightHandSide, t: Any, y: Any, slope: Any, h: Any) -> Step:
    slopes = [slope]
    for c, row in zip(_C, _A, strict=True):
        slopes.append(f(t + c * h, y + h * combined(row, slopes)))
    new = y + h * combined(_B, slopes)
    slopes.append(f(t + h, new))
    coefficients = np.stack([combined(column, slopes) for column in zip(*_P, strict=True)])
    return Step(new, slopes[-1], h * combined(_E, slopes), coefficients)


# RODAS of Hairer and Wanner, "Solving Ordinary Differential Equations II", 1996, section IV.7: order 4(3), stiffly accurate.
_GAMMA = 0.25
_RC = (0.0, 0.386, 0.21, 0.63, 1.0, 1.0)
_RD = (0.25, -0.1043, 0.1035, -0.0362, 0.0, 0.0)
_RA = ((), (1.544,), (0.9466785280815826, 0.2557011698983284), (3.314825187068521, 2.896124015972201, 0.9986419139977817),
       (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950))
_RG = ((), (-5.6688,), (-2.430093356833875, -0.2063599157091915), (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
       (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
       (8.083246795921522, -7.981132988064893, -31.52159432874371, 16.31930543123136, -6.058818238834054))
_R2 = (10.12623508344586, -7.487995877610167, -34.80091861555747, -7.992771707568823, 1.025137723295662)
_R3 = (-0.6762803392801253, 6.087714651680015, 16.43084320892478, 24.76722511418386, -6.594389125716872)


def _rodas(f: RightHandSide, t: Any, y: Any, slope: Any, h: Any) -> Step:
    matrix = np.eye(y.shape[0], dtype=y.dtype) / (_GAMMA * h) - jacobian(lambda y: f(t, y))(y)
    in_time = jvp(lambda t: f(t, y), (t,), (np.ones_like(t),))[1]
    stages: list[Any] = []
    at, value = y, slope
    for number, (c, d, coupling) in enumerate(zip(_RC, _RD, _RG, strict=True)):
        if number:
            at = y + combined(_RA[number], stages) if number < 5 else at + stages[-1]
            value = f(t + c * h, at)
        right = value + combined(coupling, stages) / h if coupling else value
        stages.append(np.linalg.solve(matrix, right + d * h * in_time if d else right))
    new = at + stages[-1]
    change = new - y
    second, third = combined(_R2, stages), combined(_R3, stages)
    # y + s change + s (1 - s) (-second ... ): Hairer's CONTRO, as powers of s
    coefficients = np.stack([change + second, third - second, -third]) / h
    return Step(new, f(t + h, new), stages[-1], coefficients)


METHODS = {"RK45": Method(_dormand_prince, 4, 4, 6), "Rodas": Method(_rodas, 3, 3, 6)}
