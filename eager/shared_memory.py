"""Which arrays lie on the same memory: a write to one is seen by the others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

MemoryKey = tuple[int, tuple[int, ...], tuple[int, ...], str]


def memory_key(array: np.ndarray) -> MemoryKey:
    """The memory of an array, and how it is read: equal for arrays that show the same elements."""
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype.str


def overlapping(arrays: Sequence[np.ndarray], written: Sequence[bool]) -> tuple[int, int] | None:
    """The numbers of two arrays that share memory, one of which is written to; None where there are none."""
    bounds = [np.lib.array_utils.byte_bounds(array) if array.size else (0, 0) for array in arrays]
    near: list[int] = []        # those that reach to where the next one begins
    for index in sorted((index for index, array in enumerate(arrays) if array.size), key=bounds.__getitem__):
        near = [other for other in near if bounds[other][1] > bounds[index][0]]
        for other in near:
            if (written[index] or written[other]) and _share(arrays[index], arrays[other]):
                return other, index
        near.append(index)
    return None


def _share(first: np.ndarray, second: np.ndarray) -> bool:
    try:
        return np.shares_memory(first, second, max_work=10_000)     # type: ignore[arg-type]  # any bound is allowed
    except np.exceptions.TooHardError:
        return True
