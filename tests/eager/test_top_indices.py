"""`topk` of tensors: indices that NumPy finds by a bound are those of a stable sort."""

from __future__ import annotations

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.numpy import top_indices as module
from adjit.codegen.numpy.top_indices import BLOCK, top_indices

RNG = np.random.default_rng(0)


def expected(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """By a stable sort of Python's, NaN as the largest."""
    sign = -1 if largest else 1

    def place(number: float) -> tuple[float, float]:
        return (sign, 0) if number != number else (0, sign * number)

    def first(line: np.ndarray) -> list[int]:
        numbers = line.tolist()
        return sorted(range(len(numbers)), key=lambda i: place(numbers[i]))[:k]
    return np.apply_along_axis(first, axis, x).astype(np.int64)


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int8, np.uint8, np.bool_])
def test_order_and_equal_elements(dtype: type, largest: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MIN_ELEMENTS", 1)
    limits = {np.bool_: (0, 1), np.int8: (-100, 100), np.uint8: (0, 200)}
    whole = ((7, 8 * BLOCK + 3), 1, 5), ((5 * BLOCK, 3), 0, 4), ((2, 3 * BLOCK, 2), 1, 3), ((90,), 0, 1), ((4, 6), 1, 6), ((3, 4), 0, 0)
    for shape, axis, k in whole:
        for levels in (2, 40, 10 ** 6):
            x = RNG.integers(-levels, levels, shape).clip(*limits.get(dtype, (-levels, levels))).astype(dtype)
            if dtype in (np.float32, np.float64) and levels == 40:
                x.reshape(-1)[::7] = np.nan
                x.reshape(-1)[1::5] = -0.0
            np.testing.assert_array_equal(top_indices(x, k, axis, largest), expected(x, k, axis, largest))


def test_bounds_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    results = []
    by_bound = module._by_bound
    monkeypatch.setattr(module, "_by_bound", lambda *args: results.append(by_bound(*args)) or results[-1])
    x = RNG.normal(size=(64, 500))
    top_indices(x, 5, 1, True)
    x[3, 3] = np.nan
    top_indices(x, 5, 1, True)
    top_indices(np.zeros((64, 500)), 5, 1, False)
    assert [result is None for result in results] == [False, True, True]


def test_tensors_and_their_gradient() -> None:
    x = aj.tensor(RNG.normal(size=(3, 2000)), requires_grad=True)
    values, indices = x.topk(4)
    np.testing.assert_array_equal(values.detach().numpy(), -np.sort(-x.detach().numpy(), 1)[:, :4])
    assert values.grad_fn.name() == "TopkBackward0"
    assert indices.dtype == np.int64
    (values * aj.tensor([1.0, 2.0, 3.0, 4.0], dtype=aj.float64)).sum().backward()
    wanted = np.zeros(x.shape)
    np.put_along_axis(wanted, indices.numpy(), [[1.0, 2.0, 3.0, 4.0]], 1)
    np.testing.assert_array_equal(x.grad.numpy(), wanted)
    lowest = aj.topk(x, 2, dim=0, largest=False)
    np.testing.assert_array_equal(lowest.indices.numpy(), np.argsort(x.detach().numpy(), 0)[:2])
    np.testing.assert_array_equal(x.topk(k=1, axis=-1, sorted=False)[1].numpy()[:, 0], np.argmax(x.detach().numpy(), 1))
    for wrong in (lambda: x.topk(2001), lambda: x.topk(1, 5), lambda: x.topk(), lambda: x.topk(1, by=3)):
        with pytest.raises((aj.errors.AdjitError, TypeError, IndexError, ValueError)):
            wrong()
    np.testing.assert_array_equal(aj.compile(lambda x: aj.topk(x, 4).indices)(x.detach()).numpy(), indices.numpy())
