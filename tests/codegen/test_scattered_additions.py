"""Additions at indices in eager mode: the bits of `np.add.at`, whatever way they take."""

from __future__ import annotations

import numpy as np
import pytest

import adjit  # noqa: F401  (has the machine code)
from adjit.codegen.numpy.chunks import KernelCompiler
from adjit.codegen.numpy.op_functions import add_along, add_at
from adjit.runtime.native.code import native_is_supported

RNG = np.random.default_rng(0)


def base(shape: tuple[int, ...], dtype: type, order: str) -> np.ndarray:
    return np.array(RNG.standard_normal(shape) * 3, dtype, order=order)     # type: ignore[call-overload]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("shape", "axis", "indices"), [
    ((2, 4, 20, 64), 2, np.arange(128) // 7),
    ((2, 16, 12, 24), 3, RNG.integers(0, 24, (10, 4))),
    ((500, 20), 0, RNG.integers(0, 500, 700)),
    ((50, 64), 0, RNG.integers(0, 50, 3000)),
    ((50, 8), 0, RNG.integers(0, 50, 3000)),
    ((5, 3), 1, np.array([2, 0, 2])),
], ids=lambda value: str(np.shape(value)) if isinstance(value, np.ndarray) else str(value))
def test_slices(shape: tuple[int, ...], axis: int, indices: np.ndarray, order: str, dtype: type) -> None:
    found = base(shape, dtype, order)
    expected = found.copy("K")
    updates = base((*shape[:axis], *indices.shape, *shape[axis + 1:]), dtype, "C")
    np.add.at(expected, (slice(None),) * axis + (indices,), updates)
    add_at(found, indices, updates, axis)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")
def test_which_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many updates of floats are added by machine code, where the array that they are added to is contiguous."""
    taken: list[bool] = []
    machine_code = KernelCompiler.add_rows
    assert machine_code is not None
    monkeypatch.setattr(KernelCompiler, "add_rows", staticmethod(lambda *args: taken.append(machine_code(*args)) or taken[-1]))
    indices = np.arange(40) // 2
    for dtype, order in ((np.float32, "C"), (np.float64, "C"), (np.float64, "F"), (np.complex64, "C")):
        add_at(np.zeros((20, 16), dtype, order=order), indices, np.ones((40, 16), dtype), 0)     # type: ignore[call-overload]
    add_at(np.zeros((20, 2)), indices, np.ones((40, 2)), 0)
    assert taken == [True, True, False, False]


def test_operands_of_any_layout() -> None:
    """Updates may be broadcast, strided, or not aligned; indices of any integer dtype."""
    odd = np.zeros(40 * 16 * 8 + 1, np.uint8)[1:].view(np.float64).reshape(40, 16)
    odd[...] = RNG.standard_normal(odd.shape)
    for indices in (np.arange(40) // 2, (np.arange(80) // 4)[::2], np.arange(40, dtype=np.int32) // 2):
        for updates in (odd, np.broadcast_to(np.float64(2), (40, 16)), RNG.standard_normal((40, 32))[:, ::2]):
            found, expected = np.ones((20, 16)), np.ones((20, 16))
            add_at(found, indices, updates, 0)
            np.add.at(expected, indices, updates)
            np.testing.assert_array_equal(found, expected)


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
