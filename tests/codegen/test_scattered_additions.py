"""Additions at indices in eager mode: the bits of `np.add.at`, whatever way they take."""

from __future__ import annotations

import numpy as np
import pytest

from adjit.codegen.numpy import op_functions
from adjit.codegen.numpy.op_functions import add_along, add_at

RNG = np.random.default_rng(0)


def base(shape: tuple[int, ...], dtype: type, order: str) -> np.ndarray:
    return np.array(RNG.standard_normal(shape) * 3, dtype, order=order)     # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("shape", "axis", "indices"), [
    ((2, 4, 20, 64), 2, np.arange(128) // 7),                               # in rounds
    ((2, 16, 12, 24), 3, RNG.integers(0, 24, (10, 4))),
    ((500, 20), 0, RNG.integers(0, 500, 700)),
    ((50, 64), 0, RNG.integers(0, 50, 3000)),                               # too many rounds: row by row
    ((50, 8), 0, RNG.integers(0, 50, 3000)),                                # or by NumPy
    ((5, 3), 1, np.array([2, 0, 2])),                                       # too small
], ids=lambda value: str(np.shape(value)) if isinstance(value, np.ndarray) else str(value))
def test_slices(shape: tuple[int, ...], axis: int, indices: np.ndarray, order: str, dtype: type) -> None:
    found = base(shape, dtype, order)
    expected = found.copy("K")
    updates = base((*shape[:axis], *indices.shape, *shape[axis + 1:]), dtype, "C")
    np.add.at(expected, (slice(None),) * axis + (indices,), updates)
    add_at(found, indices, updates, axis)
    np.testing.assert_array_equal(found, expected)


def test_which_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many updates with few repeats are added in rounds; others are not."""
    taken = []
    rounds = op_functions.add_in_rounds
    monkeypatch.setattr(op_functions, "add_in_rounds", lambda *args: taken.append(rounds(*args)) or taken[-1])
    for repeats, rows in ((2, 500), (20, 500), (2, 5)):
        indices = np.repeat(np.arange(rows), repeats)
        add_at(np.zeros((rows, 16)), indices, np.ones((indices.size, 16)), 0)
    assert taken == [True, False]


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("shape", "axis"), [((40, 300, 5), 1), ((9000, 2), 0), ((3, 4), 1)])
def test_single_elements(shape: tuple[int, ...], axis: int, order: str) -> None:
    found = base(shape, np.float32, order)
    expected = found.copy("K")
    indices, updates = RNG.integers(0, shape[axis], shape), base(shape, np.float32, "C")
    grid = list(np.indices(shape, sparse=True))
    np.add.at(expected, (*grid[:axis], indices, *grid[axis + 1:]), updates)
    add_along(found, indices, updates, axis, tuple(grid[:axis]), tuple(grid[axis + 1:]))
    np.testing.assert_array_equal(found, expected)
