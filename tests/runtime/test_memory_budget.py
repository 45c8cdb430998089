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
        np.testing.assert_allclose(part, same, rtol=1e-12)
    for budget in (everything * 3 // 4, least):
        arena, said, found = compiled_for(budget)
        assert arena <= budget
        assert not said
        for part, same in zip(found, expected, strict=True):
            np.testing.assert_allclose(part, same, rtol=1e-12)


@pytest.mark.parametrize("share", [0.75, 0.5, 0.3])
def test_a_fraction_bounds_what_tiles_would_keep(share: float) -> None:
    """Tiles of the whole program keep what the products after them need: with a budget they are left out where they take more."""
    everything, _, _ = compiled_for(None)
    arena, said, _ = compiled_for(share)
    assert arena < (share + 0.25) * everything
    assert not said
