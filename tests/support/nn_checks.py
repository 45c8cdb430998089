"""Checks of every function of `adjit.nn.functional`: values and derivatives against a formula in plain NumPy, and its kernels."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import optree
import pytest

import adjit as aj

Case = tuple[Callable[..., Any], Callable[..., Any], tuple[np.ndarray, ...]]
"""Function, formula, and the arrays of floats that both are called with."""


def check_value(case: Case, dtype: type) -> None:
    """Check the value on plain arrays, and compiled; the dtype is preserved."""
    ours, formula, arrays = case
    arrays = tuple(array.astype(dtype) for array in arrays)
    expected = formula(*(array.astype(np.float64) for array in arrays))
    tolerance = {"rtol": 1e-12, "atol": 1e-12} if dtype is np.float64 else {"rtol": 2e-5, "atol": 2e-5}
    for function in (ours, aj.compile(ours, backend="interpret")):
        result = function(*arrays)
        assert result.dtype == dtype
        assert isinstance(result, np.ndarray | np.generic)
        np.testing.assert_allclose(result, expected, **tolerance)


def check_derivative(case: Case, seed: int = 0) -> None:
    """Check the derivative in every array, along a random direction, against central differences of the formula."""
    ours, formula, arrays = case
    generator = np.random.default_rng(seed)
    weights = np.asarray(generator.standard_normal(np.shape(formula(*arrays))))
    gradient_of = aj.grad(lambda *inputs: np.sum(ours(*inputs) * weights), argnums=tuple(range(len(arrays))))
    gradients = aj.compile(gradient_of, backend="interpret")(*arrays)
    for position, (array, gradient) in enumerate(zip(arrays, gradients, strict=True)):
        direction = generator.standard_normal(array.shape)
        ends = [float(np.sum(formula(*moved(arrays, position, step * direction)) * weights)) for step in (1e-6, -1e-6)]
        difference = (ends[0] - ends[1]) / 2e-6
        assert np.vdot(gradient, direction) == pytest.approx(difference, rel=1e-6, abs=1e-7)


def check_second_derivative(case: Case, seed: int = 0) -> None:
    """Check the derivative of the gradient along a random direction against central differences of the gradient."""
    ours, formula, arrays = case
    generator = np.random.default_rng(seed)
    weights = np.asarray(generator.standard_normal(np.shape(formula(*arrays))))
    places = tuple(range(len(arrays)))
    directions = tuple(generator.standard_normal(array.shape) for array in arrays)

    def along(*inputs: Any) -> Any:
        """Project the squared result: the square makes the second derivative of a linear function nonzero."""
        gradients = aj.grad(lambda *xs: np.sum((ours(*xs) + 0.5 * np.square(ours(*xs))) * weights), argnums=places)(*inputs)
        return sum(np.sum(gradient * direction) for gradient, direction in zip(gradients, directions, strict=True))

    slope = aj.compile(along, backend="interpret")
    second = aj.compile(aj.grad(along, argnums=places), backend="interpret")(*arrays)
    for position, gradient in enumerate(second):
        direction = generator.standard_normal(arrays[position].shape)
        ends = [float(slope(*moved(arrays, position, step * direction))) for step in (1e-5, -1e-5)]
        assert np.vdot(gradient, direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5, abs=1e-6)


def check_kernels(cases: Mapping[str, Case], dtype: type, backend: str) -> None:
    """Check all functions and their derivatives in one program: kernels that a backend compiles, and the interpreter, agree."""
    arrays = {name: tuple(array.astype(dtype) for array in case[2]) for name, case in cases.items()}

    def everything(inputs: Any) -> Any:
        def total(inputs: Any) -> Any:
            return sum(np.mean(case[0](*inputs[name])) for name, case in cases.items())
        return {name: case[0](*inputs[name]) for name, case in cases.items()}, aj.grad(total)(inputs)

    fast, slow = (optree.tree_flatten(aj.compile(everything, backend=name)(arrays)) for name in (backend, "interpret"))
    assert fast[1] == slow[1]
    for ours, reference in zip(fast[0], slow[0], strict=True):
        assert ours.dtype == reference.dtype == dtype
        np.testing.assert_allclose(ours, reference, *((1e-11, 1e-12) if dtype is np.float64 else (2e-5, 2e-6)))


def moved(arrays: tuple[np.ndarray, ...], position: int, step: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return the arrays, with `step` added to one."""
    return tuple(np.asarray(array + step) if index == position else array for index, array in enumerate(arrays))
