"""Division of integers at the ends of their dtypes: quotients and remainders are NumPy's, in every backend."""

from __future__ import annotations

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj


def pairs(dtype: str) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of numbers that lie at an end of the dtype, next to 0, or at an end of those that floats divide; and multiples of numbers
    with their neighbours, whose quotients are closest to whole numbers."""
    limits = np.iinfo(dtype)
    near = [number for number in (-7, -2, -1, 0, 1, 2, 5) if number >= limits.min]
    near += [number for number in (2**51 - 1, 2**51, -2**51, -2**51 - 1, 2**53 + 1) if limits.min <= number <= limits.max]
    numbers = np.array([limits.min, limits.min + 1, limits.max // 2, limits.max - 1, limits.max, *near], dtype)
    a, b = (each.reshape(-1) for each in np.meshgrid(numbers, numbers))
    divisors = np.random.default_rng(0).integers(2, 2**min(limits.bits // 2 - 1, 26), 500).astype(dtype)
    multiples = 2**min(limits.bits - 1, 51) // divisors.astype(np.int64) * divisors.astype(np.int64)
    return (np.concatenate([a, *((multiples - less).astype(dtype) for less in (1, 2, divisors.astype(np.int64)))]),
            np.concatenate([b, divisors, divisors, divisors]))


@pytest.mark.share(2)
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_quotients_and_remainders_are_those_of_numpy(dtype: str, backend: str) -> None:
    def divisions(a, b):
        return np.fmod(a, b), np.remainder(a, b), np.floor_divide(a, b), *np.divmod(a, b), *divmod(a, b), a // b, a % b

    a, b = pairs(dtype)
    with np.errstate(all="ignore"):
        expected = divisions(a, b)
    for result, want in zip(aj.compile(divisions, backend=backend)(a, b), expected, strict=True):
        assert result.dtype == want.dtype
        assert result.tolist() == want.tolist()


@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_a_tensor_has_the_same_fmod(dtype: str) -> None:
    a, b = pairs(dtype)
    a, b = a[b != 0], b[b != 0]         # an error of tensors, as in PyTorch
    with np.errstate(all="ignore"):
        assert aj.tensor(a).fmod(aj.tensor(b)).numpy().tolist() == np.fmod(a, b).tolist()
