"""Python's `round` of Python floats to decimals: the nearest decimal number of the float itself, not of a rounded product."""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import adjit as aj


@pytest.mark.parametrize("ndigits", [0, 1, 2, 5])
def test_it_is_pythons(ndigits: int) -> None:
    rounded = aj.compile(lambda x: round(x, ndigits))
    draw = random.Random(ndigits)
    numbers = [2.55, 2.675, 0.5, 1.5, -0.5, -0.0, 1e300, -2.5, 1e-20, 5e-324]
    for _ in range(300):
        numbers += [draw.uniform(-10, 10), round(draw.uniform(-100, 100), ndigits + 1), draw.randint(-2000, 2000) / 8,
                    draw.gauss(0, 1) * 10 ** draw.randint(-8, 8)]
    for x in numbers:
        found, expected = float(rounded(x)), round(x, ndigits)
        assert (found, math.copysign(1.0, found)) == (expected, math.copysign(1.0, expected)), x
    for x in (math.inf, -math.inf, math.nan):
        np.testing.assert_equal(float(rounded(x)), round(x, ndigits))


def test_numbers_of_numpy_keep_its_own() -> None:
    rounded: Any = aj.compile(lambda x: round(x, 1))
    assert rounded(np.float64(2.55)) == round(np.float64(2.55), 1) == 2.6
    assert rounded(2.55) == round(2.55, 1) == 2.5
    assert aj.grad(lambda x: round(x, 1) * x)(2.55) == 2.5
