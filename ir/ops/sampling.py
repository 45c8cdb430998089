"""Operands for the samples of op records. Deterministic: the same numbers in every process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from adjit.ir.definition import Sample
from adjit.ir.types import F32, F64, SHORT_NAMES, Shape, real_dtype

INTEGERS = tuple(dtype for dtype in SHORT_NAMES.values() if dtype.kind in "iu")
FLOATS = (F32, F64)
BOTH_BOOLS = np.array([[False, False, True, True], [False, True, False, True]])


def no_samples() -> Iterator[Sample]:
    """No samples: ops with regions, and ops of planned graphs, are tested through the programs that contain them."""
    return iter(())


def uniform(shape: Shape, low: float = -2.0, high: float = 2.0, dtype: np.dtype = F64, seed: int = 0) -> np.ndarray:
    """Numbers between `low` and `high`, no two equal."""
    return np.asarray(np.random.default_rng(seed).uniform(low, high, shape)).astype(dtype)


def edges(dtype: np.dtype) -> np.ndarray:
    """NaN, infinities, both zeros, subnormal, smallest and largest numbers; for integers, zero and the ends of the range; complex numbers
    have all pairs of such parts."""
    if dtype.kind == "c":
        parts = edges(real_dtype(dtype))
        out = np.empty((parts.size, parts.size), dtype)
        out.real, out.imag = parts[:, None], parts
        return out.reshape(-1)
    if dtype.kind == "b":
        return np.array([False, True])
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return np.array([limits.min, limits.min + 1, 0, 1, 2, 7, limits.max - 1, limits.max], dtype)
    info = np.finfo(dtype)
    positive = [0.0, info.smallest_subnormal, info.tiny, 1e-3, 0.5, 1.0, 1.5, 2.5, 20.0, 90.0, info.max, np.inf]
    return np.array([np.nan, *positive, *(-number for number in positive)], dtype)


def ends_of_integers(dtype: np.dtype) -> np.ndarray:
    """Floats around the limits of integer types, and their neighbours: some fit, some do not."""
    ends = np.array([0.0, 1.0, *(2.0**bits for bits in (7, 8, 15, 16, 31, 32, 40, 53, 63, 64, 65, 100)), 1.7e308, np.inf, np.nan])
    with np.errstate(over="ignore"):
        ends = ends.astype(dtype)
        found = np.concatenate([ends, ends - 0.5, ends + 0.5, 1.5 * ends, np.nextafter(ends, 0), np.nextafter(ends, dtype.type(np.inf))])
    return np.concatenate([found, -found])


def edge_pairs(dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of edge values, as two matrices."""
    values = edges(dtype)
    left, right = np.meshgrid(values, values, indexing="ij")
    return np.ascontiguousarray(left), np.ascontiguousarray(right)


def unary_samples(low: float, high: float, *, differentiable: bool, twice: bool = True,
                  others: Sequence[np.dtype] = ()) -> Iterator[Sample]:
    """Samples of an elementwise op of one float operand between `low` and `high`; `others` are further dtypes of the op."""
    yield Sample((uniform((3, 4), low, high),), differentiable=(0,) if differentiable else (), twice=twice)
    yield Sample((uniform((), low, high, seed=1),), differentiable=(0,) if differentiable else (), twice=twice)
    yield Sample((uniform((0, 3)),))
    yield Sample((uniform((5,), low, high, F32),))
    for dtype in (*FLOATS, *others):
        yield Sample((edges(dtype),))


def binary_samples(low: float = -2.0, high: float = 2.0, *, differentiable: bool, twice: bool = True,
                   others: Sequence[np.dtype] = ()) -> Iterator[Sample]:
    """Samples of an elementwise op of two float operands between `low` and `high`; `others` are further dtypes of the op."""
    wrt = (0, 1) if differentiable else ()
    yield Sample((uniform((3, 4), low, high), uniform((3, 4), low, high, seed=1)), differentiable=wrt, twice=twice)
    yield Sample((uniform((), low, high), uniform((), low, high, seed=1)), differentiable=wrt, twice=twice)
    yield Sample((uniform((2, 0)), uniform((2, 0))))
    yield Sample((uniform((5,), low, high, F32), uniform((5,), low, high, F32, seed=1)))
    for dtype in (*FLOATS, *others):
        yield Sample(edge_pairs(dtype))
