"""Check of derivatives by finite differences."""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError, NonDifferentiableError
from adjit.runtime.parameter_vectors import ravel_pytree
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import jvp, vjp
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten, paths, unflatten
from adjit.tracer.user_location import find_user_location

STEPS = (1e-4, 1e-5, 1e-6, 1e-3)
"""Steps of the differences, relative to the arguments: the one that agrees best counts, as each function has its own noise."""


@dataclass(frozen=True, slots=True)
class GradientCheck:
    """Report of `check_grads` on what it compared: `rows` are (order, direction, derivative, difference). `print` it for words.

    >>> print(GradientCheck("f", ((1, "direction 1", 0.5, 0.5),)))
    f: derivatives agree with finite differences
      order 1, direction 1: 0.5, by differences 0.5
    """

    name: str
    rows: tuple[tuple[int, str, float, float], ...]

    def __str__(self) -> str:
        lines = [f"{self.name}: derivatives agree with finite differences"]
        for order, direction, found, wanted in self.rows:
            lines.append(f"  order {order}, {direction}: {found:.8g}, by differences {wanted:.8g}")
        return "\n".join(lines)


@user_frames_only
def check_grads(f: Callable[..., Any], args: Any, order: int = 2, directions: int = 2, rtol: float = 1e-5, atol: float = 1e-8,
                seed: int = 0) -> GradientCheck:
    """Compare derivatives of `f(*args)`, in reverse and in forward mode, with central differences along random directions, up to `order`.

    Arguments and results are trees of float64 arrays or numbers; a single argument may be given as it is, if it is no tuple or list.
    Integers, bools and texts among the arguments are passed on as they are.
    Derivatives of order n are those of the derivative of order n - 1, weighted at random. Returns a report; `print` it.

    Where a function has no forward mode (`pure_callback` with a `vjp=`), reverse mode alone is compared.

    Raises `NonDifferentiableError` for derivatives that differ, which says of which order, along which direction, of which argument alone,
    and what differences give at other steps, so that a kink or noise is told from a wrong rule. Raises `ArgumentError` for
    other dtypes, for no numbers, for a NaN or an infinity among the arguments or in the result, and for an order below 1.

    >>> import numpy as np
    >>> import adjit as aj
    >>> report = aj.debug.check_grads(lambda x: np.sum(np.sin(x) * x), np.array([1.0, 2.0]), directions=1)
    >>> print(str(report).splitlines()[0])
    <lambda>: derivatives agree with finite differences
    >>> [(order, direction) for order, direction, _, _ in report.rows]
    [(1, 'direction 1'), (2, 'direction 1')]
    """
    for name, number in (("order", order), ("directions", directions)):
        if isinstance(number, bool) or not hasattr(number, "__index__") or operator.index(number) < 1:
            raise ArgumentError(f"check_grads: {name} is {number!r}, expected a positive integer", find_user_location(),
                                hint="order=2 checks first and second derivatives" if name == "order" else "directions=2 tries two of them")
    args = tuple(args) if isinstance(args, (tuple, list)) else (args,)
    leaves, tree = flatten(args)
    moved = [index for index, leaf in enumerate(leaves) if _is_moved(f"args{paths(tree)[index]}", leaf)]
    if not any(np.size(leaves[index]) for index in moved):
        raise ArgumentError("check_grads: the arguments have no numbers to differentiate by", find_user_location(),
                            hint="give the point, floats for what is differentiated: check_grads(f, (2.0, 3))")
    point, unravel = ravel_pytree([leaves[index] for index in moved])
    draw = np.random.default_rng(seed)
    labels = [label for index in moved for label in _labels(f"args{paths(tree)[index]}", leaves[index])]
    rows: list[tuple[int, str, float, float]] = []

    def outputs(vector: Any) -> Any:
        given = list(leaves)
        for index, leaf in zip(moved, unravel(vector), strict=True):
            given[index] = leaf
        return ravel_pytree(f(*unflatten(tree, given)))[0]

    function: Callable[[Any], Any] = outputs
    for number in range(1, order + 1):
        value = function(point)
        if number == 1 and not np.isfinite(value).all():
            raise ArgumentError(f"check_grads: {describe(f)} gives a NaN or an infinity at this point, where it has no derivative",
                                find_user_location(), hint="check a point within its domain; adjit.debug.nans() names the op that made it")
        weights = draw.normal(size=np.shape(value))
        check = _Order(describe(f), function, weights, point, number, rtol, atol)
        for count in range(1, directions + 1):
            direction = draw.normal(size=point.shape)
            rows.append((number, f"direction {count}", *check.compare(direction / max(float(np.linalg.norm(direction)), 1e-300), labels)))
        function = functools.partial(_gradient, function, weights)
    return GradientCheck(describe(f), tuple(rows))


class _Order:
    """Comparison of the derivatives of one order."""

    def __init__(self, name: str, function: Callable[[Any], Any], weights: Any, point: Any, order: int, rtol: float, atol: float):
        self.name, self.function, self.weights, self.point, self.order = name, function, weights, point, order
        self.rtol, self.atol = rtol, atol
        self.gradient = vjp(function, point)[1](weights)[0]

    def difference(self, direction: Any, step: float) -> float:
        """Central difference of the weighted results."""
        ends = [np.sum(self.weights * self.function(self.point + sign * step * direction)) for sign in (1.0, -1.0)]
        return float(ends[0] - ends[1]) / (2 * step)

    def compare(self, direction: Any, labels: list[str]) -> tuple[float, float]:
        """The derivative along a direction, and the difference. Raises `NonDifferentiableError` if they differ."""
        found = float(self.gradient @ direction)
        values = [("reverse mode", found)]
        with contextlib.suppress(NonDifferentiableError):       # of a function of Python that has a vjp alone: reverse mode went through it
            values.append(("forward mode", float(np.sum(self.weights * jvp(self.function, (self.point,), (direction,))[1]))))
        scale = max(1.0, float(np.max(np.abs(self.point), initial=0.0)))
        tried = {step * scale: self.difference(direction, step * scale) for step in STEPS}
        wanted = min(tried.values(), key=lambda value: abs(value - found) if np.isfinite(value) else np.inf)
        for mode, value in values:
            if not abs(value - wanted) <= self.atol + self.rtol * max(abs(wanted), abs(value)):
                raise NonDifferentiableError(self.words(mode, value, tried, labels), find_user_location(), hint=self.hint(tried))
        return found, wanted

    def words(self, mode: str, value: float, tried: dict[float, float], labels: list[str]) -> str:
        """Description of a mismatch, with the elements whose own derivatives are furthest off."""
        lines = [f"check_grads: the derivative of order {self.order} of {self.name} along a random direction is {value:.8g} in {mode}, "
                 f"and {min(tried.values(), key=lambda other: abs(other - value)):.8g} by differences"]
        lines += [f"    step {step:.0e}: {other:.8g}" for step, other in sorted(tried.items())]
        elements = range(min(len(labels), MAX_ELEMENTS))
        step = sorted(tried)[len(tried) // 2]
        alone = [(index, self.difference(np.eye(1, len(labels), index)[0], step)) for index in elements]
        alone.sort(key=lambda item: -abs(item[1] - self.gradient[item[0]]))
        lines += [f"    by {labels[index]} alone: {self.gradient[index]:.8g} in reverse mode, {other:.8g} by differences"
                  for index, other in alone[:3]]
        return "\n".join(lines)

    @staticmethod
    def hint(tried: dict[float, float]) -> str:
        values = np.array(list(tried.values()))
        if not np.isfinite(values).all() or np.ptp(values) > 1e-2 * np.max(np.abs(values)):
            return "the differences disagree among themselves: the function has a kink or a jump near, or is noisy; check another point"
        return "the differences agree among themselves: a derivative rule (custom_vjp, pure_callback's vjp=) or stop_gradient is to blame"


MAX_ELEMENTS = 64
"""Elements of the arguments by which a mismatch is looked at one by one."""


def _is_moved(name: str, leaf: Any) -> bool:
    """True for floats, which are differentiated; False for integers, bools and texts, which stay what they are."""
    dtype = getattr(leaf, "dtype", None)
    if isinstance(leaf, (str, int)) or (dtype is not None and dtype.kind in "iub"):
        return False
    if not isinstance(leaf, float) and dtype != np.float64:
        raise ArgumentError(f"check_grads: {name} is of {dtype if dtype is not None else type(leaf).__name__}, expected float64",
                            find_user_location(), hint="differences of narrower floats are noise: convert with .astype(np.float64)")
    if not np.isfinite(leaf).all():
        raise ArgumentError(f"check_grads: {name} has a NaN or an infinity", find_user_location(), hint="check another point")
    return True


def _labels(name: str, leaf: Any) -> list[str]:
    """A name for each element of an argument."""
    shape = np.shape(leaf)
    return [name + (f"[{', '.join(map(str, index))}]" if shape else "") for index in np.ndindex(shape)]


def _gradient(function: Callable[[Any], Any], weights: Any, point: Any) -> Any:
    return vjp(function, point)[1](weights)[0]
