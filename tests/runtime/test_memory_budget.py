"""Budgets for the memory of a program: the arena that holds what is saved keeps to them, or the least is said; results stay."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.ir.analysis.buffer_assignment import arena_bytes

LAYERS = 12
X = np.random.default_rng(0).normal(size=(2048, 128))
W = np.random.default_rng(1).normal(size=(128, 128)) / 12
ONE = X.nbytes


def loss(x: Any, w: Any) -> Any:
    for _ in range(LAYERS):
        x = np.tanh(np.sin(x) @ w)
    return np.sum(x ** 2)


def compiled_for(budget: int | float | None) -> tuple[int, list[str], Any]:
    """Bytes of the arena, warnings, and gradients."""
    compiled = aj.compile(aj.grad(loss, (0, 1)), memory_budget=budget)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = compiled(X, W)
    for warning in said:
        assert warning.filename == __file__
    return arena_bytes(compiled.programs()[0].planned), [str(warning.message) for warning in said], found


def test_bytes_bound_the_arena_or_the_least_is_said() -> None:
    everything, said, expected = compiled_for(None)
    assert not said
    assert everything >= 2 * LAYERS * ONE * 0.9
    least, said, found = compiled_for(1)
    assert least < 0.6 * everything
    assert re.fullmatch(rf"memory_budget=1: grad_loss works in {least:,} bytes, the least .*", said[0])
    for part, same in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-11, atol=1e-12)
    for budget in (everything * 3 // 4, least):
        arena, said, found = compiled_for(budget)
        assert arena <= budget
        assert not said
        for part, same in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, same, rtol=1e-11, atol=1e-12)


@pytest.mark.share(3)
@pytest.mark.parametrize("share", [0.75, 0.5, 0.4])
def test_a_fraction_is_of_the_memory_without_a_budget(share: float) -> None:
    everything, _, expected = compiled_for(None)
    arena, said, found = compiled_for(share)
    assert arena <= share * everything
    assert not said
    for part, same in zip(found, expected, strict=True):
        np.testing.assert_allclose(part, same, rtol=1e-11, atol=1e-12)


def residual(x: Any, w: Any) -> Any:
    for _ in range(16):
        x = np.tanh(x @ w) + x
    return np.mean(x ** 2)


def test_residual_networks_are_computed_again_in_segments() -> None:
    """Each layer's input is a sum that goes back to the first: what is saved is the sum at the cuts, not a term of it."""
    x, w = X[:256, :64], W[:64, :64]
    free = aj.compile(aj.grad(residual, (0, 1)))
    expected = free(x, w)
    everything = free.memory().peak_bytes + free.memory().tile_bytes
    for budget in (0.5, everything * 9 // 20):
        tight = aj.compile(aj.grad(residual, (0, 1)), memory_budget=budget)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = tight(x, w)
        report = tight.memory()
        assert report.arena_bytes + report.tile_bytes <= (budget * everything if isinstance(budget, float) else budget)
        for part, same in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, same, rtol=1e-11, atol=1e-12)


def test_less_memory_is_never_more() -> None:
    x, w = X[:256, :64], W[:64, :64]
    table = aj.compile(aj.grad(residual, (0, 1))).memory(x, w).what_if([1.0, 0.5, 0.0])
    peaks = [choice.peak_bytes for choice in table.choices]
    assert peaks == sorted(peaks, reverse=True)
