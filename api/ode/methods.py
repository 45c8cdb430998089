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


# Steinebach, "Construction of Rosenbrock-Wanner method Rodas5P", BIT Numerical Mathematics 63, 2023: order 5(4), stiffly accurate, and of
# nearly that order where a stiff problem follows a function of time; the interpolant has order 4. Weights are those of stages that solve
# with I / (gamma h) - J.
_GAMMA = 0.21193756319429014
_RC = (0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1.0, 1.0, 1.0)
_RD = (_GAMMA, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0.0, 0.0, 0.0)
_RA = ((), (3.0,), (2.849394379747939, 0.45842242204463923), (-6.954028509809101, 2.489845061869568, -10.358996098473584),
       (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
       (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946))
_RG = ((), (-14.155112264123755,), (-17.97296035885952, -2.859693295451294), (147.12150275711716, -1.41221402718213, 71.68940251302358),
       (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
       (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
       (30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623, -28.087943162872662),
       (37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002, -54.66780262877968,
        -9.48861652309627))
_RP = ((25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204, 0.524948541321073, 1.1241088310450404,
        0.4272876194431874, -0.17202221070155493),
       (-9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796, 20.176138334709044, 15.98066361424651,
        -6.789040303419874, -6.710236069923372),
       (11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643, -52.072871366152654, -59.78993625266729,
        -0.15582684282751913, 4.883087185713722))


def _rodas(f: RightHandSide, t: Any, y: Any, slope: Any, h: Any) -> Step:
    matrix = np.eye(y.shape[0], dtype=y.dtype) / (_GAMMA * h) - jacobian(lambda y: f(t, y))(y)
    in_time = jvp(lambda t: f(t, y), (t,), (np.ones_like(t),))[1]
    stages: list[Any] = []
    at, value = y, slope
    for number, (c, d, coupling) in enumerate(zip(_RC, _RD, _RG, strict=True)):
        if number:
            at = y + combined(_RA[number], stages) if number < len(_RA) else at + stages[-1]
            value = f(t + c * h, at)
        right = value + combined(coupling, stages) / h if coupling else value
        stages.append(np.linalg.solve(matrix, right + d * h * in_time if d else right))
    new = at + stages[-1]
    second, third, fourth = (combined(weights, stages) for weights in _RP)
    # y + s (new - y) + s (1 - s) (second + s third + s^2 fourth), as powers of s
    coefficients = np.stack([new - y + second, third - second, fourth - third, -fourth]) / h
    return Step(new, f(t + h, new), stages[-1], coefficients)


METHODS = {"RK45": Method(_dormand_prince, 4, 4, 6), "Rodas": Method(_rodas, 4, 4, 8)}
