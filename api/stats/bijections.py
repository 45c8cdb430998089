"""Bijections between unconstrained numbers and numbers that obey a constraint, with the logarithm of the Jacobian determinant.

They are those of Stan's reference manual, chapter "Constraint transforms".
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit import special
from adjit.ir.errors import ShapeError, TraceError
from adjit.tracer.trees import NAMESPACE, flatten, optree, unflatten
from adjit.tracer.user_location import find_user_location


class Bijection:
    """A map of unconstrained arrays, `x = forward(u)`, its inverse, `u = inverse(x)`, and `log_jacobian(u)`: the logarithm of
    |det dx/du|, summed over all elements. `axes` is the number of last axes that belong together; the others count examples.

    >>> import numpy as np
    >>> simplex.forward(np.zeros(3))
    array([0.25, 0.25, 0.25, 0.25])
    >>> np.abs(ordered.inverse(np.array([1.0, 2.0, 4.0])).round(6))
    array([1.      , 0.      , 0.693147])
    """

    axes = 0

    def forward(self, u: Any) -> Any:
        """Constrained array of an unconstrained one."""
        raise NotImplementedError

    def inverse(self, x: Any) -> Any:
        """Unconstrained array of a constrained one; NaN or infinite outside of the constraint."""
        raise NotImplementedError

    def log_jacobian(self, u: Any) -> Any:
        """The logarithm of the Jacobian determinant at the unconstrained array."""
        raise NotImplementedError

    def checked(self, array: Any) -> Any:
        """Array as NumPy's or as it is traced. Raises `ShapeError` if it has less axes than belong together."""
        array = array if hasattr(array, "dtype") else np.asarray(array, np.float64)
        if len(np.shape(array)) < self.axes:
            raise ShapeError(f"{self!r}: an array of shape {np.shape(array)}, expected at least {self.axes} axes", find_user_location())
        return array

    def __repr__(self) -> str:
        return type(self).__name__.lower().strip("_")


class _Real(Bijection):
    """All numbers."""

    def forward(self, u: Any) -> Any:
        return self.checked(u)

    def inverse(self, x: Any) -> Any:
        return self.checked(x)

    def log_jacobian(self, u: Any) -> Any:
        return np.sum(0.0 * self.checked(u))


class _Beyond(Bijection):
    """x = bound + sign exp(u)."""

    def __init__(self, bound: Any, sign: float) -> None:
        self.bound, self.sign = bound, sign

    def forward(self, u: Any) -> Any:
        return self.bound + self.sign * np.exp(self.checked(u))

    def inverse(self, x: Any) -> Any:
        return np.log(self.sign * (self.checked(x) - self.bound))

    def log_jacobian(self, u: Any) -> Any:
        return np.sum(self.checked(u))

    def __repr__(self) -> str:
        return f"{'greater' if self.sign > 0 else 'less'}({self.bound!r})"


class _Interval(Bijection):
    """x = low + (high - low) expit(u)."""

    def __init__(self, low: Any, high: Any) -> None:
        self.low, self.high = low, high

    def forward(self, u: Any) -> Any:
        return self.low + (self.high - self.low) * special.expit(self.checked(u))

    def inverse(self, x: Any) -> Any:
        x = self.checked(x)
        return np.log(x - self.low) - np.log(self.high - x)

    def log_jacobian(self, u: Any) -> Any:
        u = self.checked(u)
        return np.sum(np.log(self.high - self.low) - np.logaddexp(0.0, u) - np.logaddexp(0.0, -u))

    def __repr__(self) -> str:
        return f"interval({self.low!r}, {self.high!r})"


class _Ordered(Bijection):
    """Rising numbers: the first as it is, then differences exp(u)."""

    axes = 1

    def forward(self, u: Any) -> Any:
        u = self.checked(u)
        return np.cumsum(np.concatenate([u[..., :1], np.exp(u[..., 1:])], axis=-1), axis=-1)

    def inverse(self, x: Any) -> Any:
        x = self.checked(x)
        return np.concatenate([x[..., :1], np.log(x[..., 1:] - x[..., :-1])], axis=-1)

    def log_jacobian(self, u: Any) -> Any:
        return np.sum(self.checked(u)[..., 1:])


class _Simplex(Bijection):
    """k + 1 positive numbers whose sum is 1, from k numbers: parts of a stick, broken off one after the other. Zeros are the middle.

    The Jacobian is that of the first k numbers.
    """

    axes = 1

    def _parts(self, u: Any) -> Any:
        """Logits of the parts of what is left."""
        return u - np.log(np.arange(u.shape[-1], 0.0, -1.0))

    def forward(self, u: Any) -> Any:
        u = self.checked(u)
        logits = self._parts(u)
        left = np.cumsum(-np.logaddexp(0.0, logits), axis=-1)         # logarithms of what is left behind each part
        zero = 0.0 * left[..., :1] if u.shape[-1] else np.zeros((*u.shape[:-1], 1))
        taken = np.concatenate([-np.logaddexp(0.0, -logits), zero], axis=-1)
        return np.exp(taken + np.concatenate([zero, left], axis=-1))

    def inverse(self, x: Any) -> Any:
        x = self.checked(x)
        left = np.flip(np.cumsum(np.flip(x, -1), axis=-1), -1)        # before each part
        logits = np.log(x[..., :-1]) - np.log(left[..., 1:])
        return logits + np.log(np.arange(x.shape[-1] - 1, 0.0, -1.0))

    def log_jacobian(self, u: Any) -> Any:
        u = self.checked(u)
        logits = self._parts(u)
        left = np.cumsum(-np.logaddexp(0.0, logits), axis=-1)
        before = left + np.logaddexp(0.0, logits)
        return np.sum(before - np.logaddexp(0.0, logits) - np.logaddexp(0.0, -logits))


class _CholeskyFactor(Bijection):
    """Lower triangular matrices of n rows with positive diagonals, from n (n + 1) / 2 numbers, row by row."""

    axes = 1

    @staticmethod
    def _rows(count: int) -> int:
        rows = int((np.sqrt(8 * count + 1) - 1) / 2)
        if rows * (rows + 1) // 2 != count:
            raise ShapeError(f"cholesky_factor: {count} numbers make no triangle", find_user_location(), hint="1, 3, 6, 10, 15, ...")
        return rows

    @staticmethod
    def _diagonal(rows: int) -> Any:
        return np.cumsum(np.arange(1, rows + 1)) - 1

    def forward(self, u: Any) -> Any:
        u = self.checked(u)
        rows = self._rows(u.shape[-1])
        is_diagonal = np.zeros(u.shape[-1], bool)
        is_diagonal[self._diagonal(rows)] = True
        values = np.where(is_diagonal, np.exp(np.where(is_diagonal, u, 0.0)), u)
        place = np.full((rows, rows), u.shape[-1])
        place[np.tril_indices(rows)] = np.arange(u.shape[-1])
        padded = np.concatenate([values, 0.0 * values[..., :1]], axis=-1)
        return np.reshape(np.take(padded, place.reshape(-1), axis=-1), (*u.shape[:-1], rows, rows))

    def inverse(self, x: Any) -> Any:
        x = self.checked(x)
        rows = x.shape[-1]
        i, j = np.tril_indices(rows)
        values = np.take(np.reshape(x, (*x.shape[:-2], rows * rows)), i * rows + j, axis=-1)
        return np.where(i == j, np.log(np.where(i == j, values, 1.0)), values)

    def log_jacobian(self, u: Any) -> Any:
        u = self.checked(u)
        return np.sum(np.take(u, self._diagonal(self._rows(u.shape[-1])), axis=-1))


real = _Real()
positive = _Beyond(0.0, 1.0)
ordered = _Ordered()
simplex = _Simplex()
cholesky_factor = _CholeskyFactor()


def greater(bound: Any) -> Bijection:
    """Numbers above a bound, a number or an array.

    >>> float(greater(2.0).forward(0.0)), float(greater(2.0).inverse(3.0)), float(greater(2.0).log_jacobian(1.5))
    (3.0, 0.0, 1.5)
    """
    return _Beyond(bound, 1.0)


def less(bound: Any) -> Bijection:
    """Numbers below a bound, a number or an array.

    >>> float(less(2.0).forward(0.0)), float(less(2.0).inverse(1.0))
    (1.0, 0.0)
    """
    return _Beyond(bound, -1.0)


def interval(low: Any, high: Any) -> Bijection:
    """Numbers between two bounds, numbers or arrays.

    >>> float(interval(0.0, 4.0).forward(0.0)), float(interval(0.0, 4.0).inverse(2.0))
    (2.0, 0.0)
    """
    return _Interval(low, high)


def constrain(bijections: Any, tree: Any) -> tuple[Any, Any]:
    """`(constrained, log_jacobian)` for a tree of unconstrained arrays and a tree of bijections like it, or like its upper part.

    >>> import numpy as np
    >>> x, log_jacobian = constrain({"rate": positive, "share": interval(0.0, 1.0)}, {"rate": np.log(2.0), "share": 0.0})
    >>> float(x["rate"]), float(x["share"]), round(float(log_jacobian - np.log(2.0 * 0.25)), 12)
    (2.0, 0.5, 0.0)
    """
    leaves, chosen, spec = _matched(bijections, tree, "constrain")
    parts = [bijection.log_jacobian(leaf) for bijection, leaf in zip(chosen, leaves, strict=True)]
    total = parts[0] if parts else 0.0
    for part in parts[1:]:
        total = total + part
    return unflatten(spec, [bijection.forward(leaf) for bijection, leaf in zip(chosen, leaves, strict=True)]), total


def unconstrain(bijections: Any, tree: Any) -> Any:
    """The tree of unconstrained arrays of a constrained one: the inverse of `constrain`.

    >>> float(unconstrain({"rate": positive}, {"rate": 1.0})["rate"])
    0.0
    """
    leaves, chosen, spec = _matched(bijections, tree, "unconstrain")
    return unflatten(spec, [bijection.inverse(leaf) for bijection, leaf in zip(chosen, leaves, strict=True)])


def _matched(bijections: Any, tree: Any, what: str) -> tuple[list[Any], list[Bijection], Any]:
    leaves, spec = flatten(tree)
    try:
        chosen = optree.broadcast_prefix(bijections, tree, namespace=NAMESPACE)
    except ValueError:
        raise TraceError(f"{what}: the bijections have another structure than the tree", find_user_location(),
                         hint="the containers of the tree, down to where one bijection will do") from None
    for bijection in chosen:
        if not isinstance(bijection, Bijection):
            raise TraceError(f"{what}: {bijection!r} is no bijection", find_user_location(), hint="adjit.stats.real, positive, ...")
    return leaves, chosen, spec
