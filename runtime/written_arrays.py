"""Memory of the arrays that a program writes to: which of its parameters are the same array, and which may not be written."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.lib.array_utils import byte_bounds

from adjit.ir.errors import ArgumentError
from adjit.tracer.array_checks import shares_with_itself
from adjit.tracer.trace import Pairs
from adjit.tracer.user_location import find_user_location

_NONE: Mapping[int, np.ndarray] = {}


def find_same(arrays: Sequence[np.ndarray], written: Collection[int], paths: Sequence[str], count: int | None = None) -> Pairs:
    """Pairs of arrays on the same memory, where one is among `written`: number of the first, and of another. Where `count` is given, those
    after the first `count` are not passed: a pair of them is found if they share any memory, which another trace of the function takes
    into account.

    Raises `ArgumentError` for other arrays that share only a part of their memory, and for a written array whose elements share memory.
    """
    if not written:
        return ()
    bounds = {number: byte_bounds(array) for number, array in enumerate(arrays) if isinstance(array, np.ndarray) and array.size}
    found: dict[int, int] = {}
    for number in written:
        if number not in bounds:
            continue
        array, (start, end) = arrays[number], bounds[number]
        if array.flags.writeable and shares_with_itself(array):
            raise ArgumentError(f"elements of {paths[number]} share memory with each other, and the function writes to it",
                                find_user_location(), hint=f"pass a copy ({paths[number]}.copy())")
        for other, (low, high) in bounds.items():
            if other == number or high <= start or end <= low:
                continue
            first, second = sorted((number, other))
            if _form(array) == _form(arrays[other]) or (count is not None and first >= count and _share(array, arrays[other])):
                found[second] = min(found.get(second, first), first)
            elif _share(array, arrays[other]):
                raise ArgumentError(f"{paths[number]} and {paths[other]} share a part of their memory, and the function writes to "
                                    f"{paths[number]}", find_user_location(), hint=f"pass a copy of one of the two ({paths[other]}.copy())")
    return tuple(sorted((found.get(first, first), other) for other, first in found.items()))


def check_apart(arrays: Sequence[np.ndarray], written: Collection[int], paths: Sequence[str]) -> None:
    """Raise `ArgumentError` if an array among `written` is also another one: for programs that cannot be traced again."""
    for first, second in find_same(arrays, written, paths):
        raise ArgumentError(f"{paths[first]} and {paths[second]} are the same array, and the function writes to it", find_user_location(),
                            hint=f"pass a copy of one of the two ({paths[second]}.copy())")


def check_captured(arrays: Sequence[np.ndarray], written: Collection[int], paths: Sequence[str], count: int) -> None:
    """Raise `ArgumentError` if an argument (the first `count` arrays) is an array that the function also reaches by itself."""
    for first, second in find_same(arrays, written, paths):
        if second >= count:
            raise ArgumentError(f"{paths[first]} and {paths[second]} are the same array, and the function writes to it",
                                find_user_location(), hint=f"pass a copy ({paths[first]}.copy())")


def find_read(arrays: Sequence[np.ndarray], written: Collection[int], read: Sequence[tuple[str, np.ndarray]],
              traced: Mapping[int, np.ndarray] = _NONE) -> tuple[int, str] | None:
    """Number of a written array, and path of an array that Python reads, on the same memory: what Python reads is the content from before
    the call, whatever is written. `traced` has arrays that the trace met, by number: one that it both read and wrote to is none."""
    for number in written:
        array = arrays[number]
        for path, other in read:
            plain = np.ndarray.view(other, np.ndarray)      # the trace's own class, where the function made it
            if other is not traced.get(number) and isinstance(array, np.ndarray) and np.may_share_memory(array, plain) and (
                    _share(array, plain)):
                return number, path
    return None


def check_read(arrays: Sequence[np.ndarray], written: Collection[int], paths: Sequence[str], read: Sequence[tuple[str, np.ndarray]],
               ) -> None:
    """Raise `ArgumentError` if the function writes to an argument, and Python reads the same memory by another name."""
    found = find_read(arrays, written, read)
    if found is not None:
        number, path = found[0], found[1].partition(",")[0]
        raise ArgumentError(f"{paths[number]} and {path} share memory: the function writes to {paths[number]}, and Python reads {path} as "
                            "it was before the call", find_user_location(),
                            hint=f"pass a copy ({paths[number]}.copy()), or read the argument in place of {path}")


def _form(array: np.ndarray) -> tuple[object, ...]:
    return array.__array_interface__["data"][0], array.shape, array.strides, array.dtype


def _share(a: np.ndarray, b: np.ndarray) -> bool:
    """True if two arrays share memory, or if finding out takes too long."""
    try:
        return np.shares_memory(a, b, max_work=10_000)      # type: ignore[arg-type]  # any number of candidates
    except np.exceptions.TooHardError:
        return True
