"""Indices of the largest or smallest elements of arrays, by NumPy, for tensors whose values are known."""

from __future__ import annotations

import numpy as np

from adjit.ir.types import Shape

BLOCK = 16
"""Elements of which one extremum is kept to find a bound."""

MIN_ELEMENTS = 1 << 12
"""Elements from which the search for a bound is faster than a sort."""

MAX_CANDIDATES = 8
"""Elements that reach the bound, for each that is wanted, with which it is of use. There are more where many are equal."""


class TopFunction:
    """`top_indices` with these arguments, as the function of a graph: a tuple of its one result."""

    def __init__(self, k: int, axis: int, largest: bool):
        self.k, self.axis, self.largest = k, axis, largest

    def __call__(self, x: np.ndarray) -> tuple[np.ndarray]:
        return (top_indices(x, self.k, self.axis, self.largest),)

    def shape(self, shape: Shape) -> Shape:
        """Shape of the result for arrays of a shape."""
        return (*shape[:self.axis], self.k, *shape[self.axis + 1:])


def top_indices(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """Indices along `axis` of the `k` largest (or smallest) elements, in their order. Equal elements stay in the order of their indices;
    NaN counts as the largest."""
    is_last = axis == x.ndim - 1
    lines = x if is_last else np.moveaxis(x, axis, -1)
    found = None
    if x.dtype.kind in "fiu" and x.size >= MIN_ELEMENTS and 0 < k * BLOCK <= lines.shape[-1]:
        found = _by_bound(np.ascontiguousarray(lines).reshape(-1, lines.shape[-1]), k, largest)
    if found is not None:
        found = found.reshape(*lines.shape[:-1], k)
    elif largest:       # sorted backwards, equal elements keep their order at the end
        order = lines[..., ::-1].argsort(-1, kind="stable")
        found = np.subtract(lines.shape[-1] - 1, order, out=order)[..., :-k - 1:-1]
    else:
        found = lines.argsort(-1, kind="stable")[..., :k]
    return np.ascontiguousarray(found if is_last else np.moveaxis(found, -1, axis))


def _by_bound(lines: np.ndarray, k: int, largest: bool) -> np.ndarray | None:
    """The same for the rows of a matrix: the k-th of the extrema of blocks is a bound that at least k elements reach, and few others. None
    if there is a NaN, or too many reach it."""
    rows, size = lines.shape
    blocks = size // BLOCK
    extremum = np.maximum if largest else np.minimum
    extrema = extremum.reduce(lines[:, :BLOCK * blocks].reshape(rows, BLOCK, blocks), 1)
    if blocks * BLOCK < size:
        extrema[:, 0] = extremum(extrema[:, 0], extremum.reduce(lines[:, BLOCK * blocks:], 1))
    place = blocks - k if largest else k - 1
    bound = np.partition(extrema, place, 1)[:, place:place + 1]
    if lines.dtype.kind == "f" and np.isnan(extremum.reduce(extrema, None)):
        return None
    candidates = np.flatnonzero(lines >= bound if largest else lines <= bound)
    if candidates.size > MAX_CANDIDATES * k * rows:
        return None
    row, values = candidates // size, lines.reshape(-1)[candidates]
    order = np.lexsort((values if not largest else np.negative(values) if values.dtype.kind == "f" else ~values, row))
    first = np.searchsorted(row, np.arange(rows))
    return candidates[order][first[:, None] + np.arange(k)] - size * np.arange(rows)[:, None]
