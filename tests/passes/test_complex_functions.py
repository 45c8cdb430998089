"""Elementary functions of complex numbers on pairs of reals, against NumPy: random numbers and a grid of special ones."""

from __future__ import annotations

import numpy as np
import pytest
from support.complex_cases import special_numbers
from support.each import parametrize_within

import adjit as aj
from adjit.ir.builder import trace_graph
from adjit.ir.definition import DEFINITIONS
from adjit.ir.interpreter import interpret
from adjit.ir.types import C64, C128, TensorType
from adjit.passes.complex_numbers.rules import RULES
from adjit.passes.complex_numbers.split_complex import split_complex
from adjit.passes.options import Options

FUNCTIONS = ("exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh",
             "arcsin", "arccos", "arctan", "arcsinh", "arccosh", "arctanh", "square", "reciprocal", "sign")


def of_pairs(name: str, *arrays: np.ndarray) -> np.ndarray:
    definition = DEFINITIONS[name]
    graph = trace_graph("f", [TensorType(array.dtype, array.shape) for array in arrays], lambda *values: [definition(*values)])
    (found,) = interpret(split_complex(graph, Options()), arrays)
    return found


def of_numpy(name: str, *arrays: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.asarray(DEFINITIONS[name].evaluate(*arrays))


def test_every_function_has_a_definition() -> None:
    assert set(FUNCTIONS) <= RULES.keys()


@parametrize_within("name", FUNCTIONS)
@parametrize_within("dtype", [C64, C128])
def test_random_numbers(name: str, dtype: np.dtype) -> None:
    """Each part within some units in the last place of the absolute value."""
    generator = np.random.default_rng(3)
    for scale in (1e-4, 0.3, 1.0, 3.0, 20.0):
        z = ((generator.normal(size=2000) + 1j * generator.normal(size=2000)) * scale).astype(dtype)
        found, expected = of_pairs(name, z), of_numpy(name, z.astype(np.clongdouble)).astype(dtype)
        assert found.dtype == dtype
        error = np.abs(found - expected) / np.maximum(np.abs(expected), np.finfo(dtype).tiny)
        allowed = 16 * max(scale, 1.0) if name == "exp2" else 16       # NumPy's is the exponential of a rounded product
        known = np.isfinite(expected) & (np.abs(z) > 1e-3 if name == "log1p" else True)     # NumPy's own log1p has few digits near 0
        assert np.max(error[known], initial=0.0) < allowed * np.finfo(dtype).eps, (scale, z[known][np.argmax(error[known])])


def same_part(found: float, expected: float, size: float, dtype: np.dtype) -> bool:
    if np.isnan(expected) or np.isnan(found) or np.isinf(expected):
        return bool(found == expected or (np.isnan(found) and np.isnan(expected)))
    size = size if np.isfinite(size) else abs(expected)
    near = abs(found - expected) <= 16 * np.finfo(dtype).eps * size + np.finfo(dtype).tiny
    return bool(near and (expected != 0 or found != 0 or np.signbit(found) == np.signbit(expected)))


ELSEWHERE = {
    "square": "NumPy fuses a product and a sum where the processor can",
    "sign": "the length of the largest numbers overflows",
    "log1p": "NumPy's has no digits near 0"}
"""Functions of which some special numbers differ, and why."""


@parametrize_within("name", [name for name in FUNCTIONS if name not in ELSEWHERE])
@parametrize_within("dtype", [C64, C128])
def test_special_numbers(name: str, dtype: np.dtype) -> None:
    """Infinities, NaN, the sign of zeros, branch cuts from both sides, overflow and underflow: as NumPy."""
    z = special_numbers(dtype)
    for number, found, expected in zip(z, of_pairs(name, z), of_numpy(name, z), strict=True):
        size = abs(expected)
        assert same_part(found.real, expected.real, size, dtype), (number, found, expected)
        assert same_part(found.imag, expected.imag, size, dtype), (number, found, expected)


@parametrize_within("name", ["divide", "less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "maximum", "minimum", "fmax",
                             "fmin"])
def test_special_pairs(name: str) -> None:
    z = special_numbers(C128)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(z, z))
    found, expected = of_pairs(name, a, b), of_numpy(name, a, b)
    if name == "divide":
        np.testing.assert_array_equal(np.isnan(found.real) | np.isnan(found.imag), np.isnan(expected.real) | np.isnan(expected.imag))
        known = np.isfinite(expected) & (np.abs(expected.real) > 1e-300) & (np.abs(expected.imag) > 1e-300)
        np.testing.assert_allclose(found[known], expected[known], rtol=1e-14)
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [C64, C128])
def test_special_numbers_in_machine_code(dtype: np.dtype, exhaustive: bool) -> None:
    names = [name for name in FUNCTIONS if name not in ELSEWHERE][::1 if exhaustive else 3]
    z = special_numbers(dtype)
    for name, result in zip(names, aj.compile(lambda z: tuple(getattr(np, name)(z) for name in names))(z), strict=True):
        for number, found, expected in zip(z, result, of_numpy(name, z), strict=True):
            size = abs(expected)
            assert same_part(found.real, expected.real, size, dtype), (name, number, found, expected)
            assert same_part(found.imag, expected.imag, size, dtype), (name, number, found, expected)
