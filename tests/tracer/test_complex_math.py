"""`cmath` and `complex()` of traced numbers, and writes to the real and imaginary parts of arrays that the function makes."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3e200, -math.inf, math.inf, math.nan]
NAMES = ["exp", "sqrt", "log", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh",
         "phase", "isnan", "isinf", "isfinite"]


@pytest.mark.share(2)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", NAMES)
def test_functions_of_cmath_give_what_python_gives(name: str) -> None:
    function = getattr(cmath, name)
    compiled = aj.compile(lambda x, y: function(complex(x, y)), backend="interpret")
    for x in EDGES:
        for y in EDGES:
            found: Any = compiled(x, y)
            try:
                expected: Any = function(complex(x, y))
            except (ValueError, OverflowError):     # as NumPy
                assert not np.isfinite(found)
                continue
            np.testing.assert_allclose(found, expected, rtol=1e-13)
            if math.isfinite(x) and math.isfinite(y):       # elsewhere the standard leaves some signs open
                assert math.copysign(1, found.real) == math.copysign(1, expected.real)
    assert compiled.cache_info().traces == 1


def several(x, y):
    z = complex(x, y)
    radius, angle = cmath.polar(z)
    back = cmath.rect(radius, angle) * complex(y) + complex(1j, x) + complex(imag=y)
    return back, z.real * z.imag, abs(z), cmath.log(z, 2), cmath.isclose(z, back), cmath.isclose(z, z + 1e-12)


def test_complex_numbers_of_traced_parts() -> None:
    compiled = aj.compile(several)
    for x, y in ((1.5, -2.0), (-3.0, 0.25), (0.5, 0.5)):
        np.testing.assert_allclose(compiled(x, y), several(x, y), rtol=1e-14)
    assert compiled.cache_info().traces == 1


def of_roots(b):
    disc = b * b - 4
    root = math.sqrt(disc) if disc >= 0 else cmath.sqrt(disc)
    return abs((b + root) / 2) ** 2 + abs((root - b) / 2 * complex(b, 1.0))


def test_derivatives_go_through_complex_numbers() -> None:
    gradient = aj.grad(of_roots)
    for b in (3.0, 0.5, -1.0, -5.0):
        expected = (of_roots(b + 1e-6) - of_roots(b - 1e-6)) / 2e-6
        np.testing.assert_allclose(gradient(b), expected, rtol=1e-7)


def caught(x):
    try:
        return abs(cmath.log(x - 2))
    except ValueError:
        return 5.0 * x


def constant(x):
    return 1j if x > 0 else 2.0 + 3.0j


def test_caught_exceptions_and_constants() -> None:
    for function in (caught, constant):
        compiled = aj.compile(function, backend="interpret")
        for x in (2.0, 3.0, -1.0, 2.0):
            assert compiled(x) == function(x)
    with pytest.raises(TypeError, match="must be real number, not complex"):
        aj.compile(lambda x: cmath.rect(x * 1j, 1.0))(2.0)
    with pytest.raises(TypeError, match="length-1"):
        aj.compile(lambda x: complex(x))(np.ones(2))


def assigned(x):
    z = np.zeros(3, complex)
    z.real = x
    z.imag[1] = 2 * x
    z.real[...] += 1
    return z


def views(x):
    z = np.zeros((2, 3), complex)
    part, row = z.real, z[1].imag
    part[0, 1] = x
    part[:, ::-2] += 3
    row[...] = x * np.arange(3.0)
    z.T.imag[2] -= 1
    return z, part * 2, row


def targets(x):
    z = np.zeros(2, np.complex64)
    np.multiply(x, np.ones(2), out=z.real)
    np.add(z.imag, x, out=z.imag)
    return z


def real_array(x):
    y = np.zeros(2)
    y.real = x
    y.real[0] += 1
    return y


def argument(x, z=None):
    z = np.array([x + 1j, 2 * x])
    z.real[1:] = 5
    z.imag = z.real * x
    z.real += z.imag
    return z


@pytest.mark.parametrize("function", [assigned, views, targets, real_array, argument])
def test_parts_of_arrays_are_written_to(function: Callable[..., Any]) -> None:
    compiled = aj.compile(function)
    for x in (2.0, -3.5):
        found, expected = ((result if type(result) is tuple else (result,)) for result in (compiled(x), function(x)))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_array_equal(one, other)
            assert one.dtype == other.dtype
    assert compiled.cache_info().traces == 1


def test_derivatives_of_parts_that_are_written_to() -> None:
    def loss(x):
        z = np.zeros(2, complex)
        z.real[0] = x * x
        z.imag = np.array([x, 3 * x])
        z.imag[1] *= x
        return np.sum(np.abs(z) ** 2)

    assert aj.grad(loss)(2.0) == pytest.approx(4 * 8 + 4 + 4 * 9 * 8)
