"""Arrays whose operations are rounded at random, by a few units in the last place: a program's results on them show how much another order
of operations may change, and whether rounding decides a comparison."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

EXACT = frozenset((np.negative, np.positive, np.absolute, np.fabs, np.sign, np.copysign, np.maximum, np.minimum, np.fmax, np.fmin, np.floor,
                   np.ceil, np.trunc, np.rint))
"""Functions that have one correct rounding. A product may be rounded together with a sum that it is an operand of."""

SHAKES = 4
RUNS_SYMBOL = 3


class NoisyArray(np.ndarray):
    """Array that adds noise to the results of its ufuncs and products, and to the operands of sums and products."""

    generator = np.random.default_rng(0)

    @classmethod
    def shaken(cls, array: Any, times: float = 1.0) -> Any:
        dtype = getattr(array, "dtype", np.dtype(object))
        if dtype.kind != "f":
            return array
        noise = 1 + times * SHAKES * np.finfo(dtype).eps * cls.generator.uniform(-1, 1, array.shape)
        shaken = np.asarray(array * noise, dtype)
        return shaken if isinstance(array, np.ndarray) else shaken[()]

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **more: Any) -> Any:
        plain = [_plain(value) for value in inputs]
        if out:
            more["out"] = tuple(_plain(value) for value in out)
        if "where" in more:
            more["where"] = _plain(more["where"])
        if method != "__call__" or ufunc.signature:
            plain = [self.shaken(value) for value in plain]
        results = getattr(ufunc, method)(*plain, **more)
        if out:
            for target in out:
                if ufunc not in EXACT and "where" not in more:
                    target[...] = self.shaken(_plain(target))
            return out[0] if len(out) == 1 else out
        if isinstance(results, tuple):
            return tuple(map(_noisy, results))
        return _noisy(results if ufunc in EXACT else self.shaken(results))

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in PRODUCTS or function.__module__ == "numpy.linalg":
            times = 1.0 if function in PRODUCTS else 10.0       # eliminations round element by element
            result = function(*_each(args, lambda array: self.shaken(array, times)), **_each(kwargs, _plain))
            return _noisy(self.shaken(result, times))
        result = super().__array_function__(function, types, args, kwargs)
        return [_noisy(part) for part in result] if isinstance(result, list) else _noisy(result)

    def astype(self, *args: Any, **kwargs: Any) -> Any:
        return _noisy(self.shaken(_plain(super().astype(*args, **kwargs))))


PRODUCTS = frozenset((np.dot, np.einsum, np.inner, np.outer, np.vdot, np.tensordot, np.kron))


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, NoisyArray) else value


def _noisy(value: Any) -> Any:
    return value.view(NoisyArray) if isinstance(value, np.ndarray) else value


def _each(value: Any, what: Callable[[Any], Any]) -> Any:
    if isinstance(value, (tuple, list)):
        return type(value)(_each(part, what) for part in value)
    if isinstance(value, dict):
        return {name: _each(part, what) for name, part in value.items()}
    return what(_plain(value))


def tolerances(run: Callable[[Callable[[np.ndarray], np.ndarray]], Sequence[Any]], wanted: Sequence[Any]) -> list[np.ndarray | None]:
    """Tolerance of each element of a program's results; None for a result that depends on rounding.

    `run` returns the results for a function that is applied to the program's initial arrays.
    """
    found: list[np.ndarray | None] = []
    runs = [run(lambda array: array.view(NoisyArray) if array.ndim else NoisyArray.shaken(array)) for _ in range(RUNS_SYMBOL)]
    if any(isinstance(results, Exception) for results in runs):
        return [None] * len(wanted)
    for index, expected in enumerate(map(np.asarray, wanted)):
        noisy = [np.asarray(results[index]).view(np.ndarray) for results in runs]
        if expected.dtype.kind != "f":
            found.append(np.zeros(expected.shape) if all(np.array_equal(expected, other) for other in noisy) else None)
            continue
        finite = np.isfinite(expected)
        if not all(np.array_equal(expected[~finite], other[~finite], equal_nan=True) and np.all(np.isfinite(other[finite]))
                   for other in noisy):
            found.append(None)
            continue
        size = np.where(finite, np.abs(expected), 0).astype(float)
        apart = np.max([np.where(finite, np.abs(other.astype(float) - np.where(finite, expected, 0)), 0) for other in noisy], axis=0)
        most = np.max(apart, initial=0)
        eps = float(np.finfo(expected.dtype).eps)
        found.append(20 * apart + 4 * most + 8 * eps * size if most <= 1e6 * eps * (1 + np.max(size, initial=0)) else None)
    return found
