"""Sums of negative zeros are 0.0, as NumPy has it, in every backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit

Function = Callable[[Any], Any]

SUMS: dict[str, Function] = {
    "sum": np.sum, "first": lambda x: np.sum(x, axis=0), "last": lambda x: np.sum(x, axis=-1),
    "kept": lambda x: np.sum(x, axis=0, keepdims=True),
    "no axis": lambda x: np.sum(x, axis=()), "add.reduce": np.add.reduce, "mean": np.mean, "mean of last": lambda x: np.mean(x, axis=-1),
    "trace": lambda x: np.trace(x.reshape(x.shape[0], -1)), "einsum": lambda x: np.einsum("i...->...", x),
    "vdot": lambda x: np.vdot(x, np.ones_like(x)), "einsum of two": lambda x: np.einsum("...i,i->...", x, np.ones(x.shape[-1], x.dtype)),
    "matmul": lambda x: x @ np.ones(x.shape[-1], x.dtype), "outer": lambda x: x.reshape(-1, 1) @ np.ones((1, 3), x.dtype),
    "repeated": lambda x: np.sum(np.broadcast_to(x, (5, *x.shape)), axis=0), "of a product": lambda x: np.sum(x * np.ones_like(x)),
    "of a negative": lambda x: np.sum(-(x * 0.0 - x), axis=0), "of a square root": lambda x: np.sum(np.sqrt(x), axis=-1),
    "of rows": lambda x: np.sum(np.sqrt(np.sum(x, axis=-1) * -1.0)), "cumsum": np.cumsum, "prod": np.prod,
    "dot": lambda x: np.dot(x, np.ones((x.shape[-1], 2))),
    "initial": lambda x: np.sum(x, axis=0, initial=0.0), "where": lambda x: np.sum(x, axis=0, where=np.ones(x.shape, bool))}

SHAPES = ((1,), (2,), (3, 1), (1, 3), (1, 1), (5, 4), (3, 2, 2), (1, 5000), (70, 40), (3000, 1), (2, 3, 1, 4), (4, 40000))


@pytest.mark.parametrize("backend", BACKENDS)
def test_sums_of_negative_zeros(backend: str) -> None:
    def all_sums(x: Any) -> list[Any]:
        return [function(x) for function in SUMS.values()]

    for shape in SHAPES[:4] if backend == "numba" else SHAPES:
        x = np.full(shape, -0.0)
        for name, found, expected in zip(SUMS, adjit.compile(lambda x: all_sums(x), backend=backend)(x), all_sums(x), strict=True):
            np.testing.assert_array_equal(np.signbit(found), np.signbit(expected), f"{name} of {shape}")


@pytest.mark.share(3)
@pytest.mark.parametrize("name", SUMS)
def test_each_by_itself(name: str) -> None:
    for shape in (1,), (3, 1), (1, 3), (5, 4), (2, 3, 1, 4), (2, 4000):
        x = np.full(shape, -0.0, np.float32)
        found = adjit.compile(lambda x: SUMS[name](x))(x)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(SUMS[name](x)), f"{name} of {shape}")
