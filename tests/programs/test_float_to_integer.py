"""Floats as integers, those that do not fit among them: the same in every backend, and what NumPy gives on x86-64."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS
from support.op_cases import assert_identical

import adjit
from adjit.ir import ops
from adjit.ir.ops.sampling import FLOATS, INTEGERS, ends_of_integers
from adjit.ir.types import U32

LENGTHS = (*range(1, 10), 15, 16, 17, 23, 31, 32, 33, 47, 63, 64, 65)
"""Whole vectors and what is left behind them, for vectors of any size."""


def converted(backend: str) -> Any:
    """A function of an array as all integer types."""
    return adjit.compile(lambda x: [x.astype(dtype) for dtype in INTEGERS], backend=backend)


def numbers(source: np.dtype) -> np.ndarray:
    values = ends_of_integers(source)
    return np.concatenate([values, np.array([0.9, 1.5, 127.5, -0.9, -128.9, 300.0, -3e9, 5e9], source)])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_all_backends_agree(backend: str, source: np.dtype) -> None:
    values = numbers(source)
    for array, dtype in zip(converted(backend)(values), INTEGERS, strict=True):
        assert_identical(array, ops.convert.evaluate(values, dtype=dtype))


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_all_lengths(source: np.dtype) -> None:
    values = numbers(source)
    for length in LENGTHS:
        x = np.resize(np.roll(values, 7 * length), length)
        for array, dtype in zip(converted(BACKENDS[0])(x), INTEGERS, strict=True):
            assert_identical(array, ops.convert.evaluate(x, dtype=dtype))


@pytest.mark.parametrize("source", FLOATS, ids=str)
def test_tensors(source: np.dtype) -> None:
    values = numbers(source)
    for dtype in INTEGERS:
        assert_identical(adjit.tensor(values).to(dtype).numpy(), ops.convert.evaluate(values, dtype=dtype))
        last = adjit.tensor(values)[-1]
        assert_identical(last.to(dtype).numpy(), ops.convert.evaluate(values[-1:], dtype=dtype)[0])


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="NumPy leaves it to the processor")
@pytest.mark.parametrize("source", FLOATS, ids=str)
@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_as_numpy_on_this_processor(source: np.dtype, dtype: np.dtype) -> None:
    """But for u32 in whole vectors, where NumPy's own answers differ by the place in the array."""
    values = numbers(source)
    one_by_one = np.repeat(values, 2)[::2]
    with np.errstate(invalid="ignore"):
        expected = one_by_one.astype(dtype)
        if dtype != U32:
            assert_identical(values.astype(dtype), expected)
    assert_identical(ops.convert.evaluate(values, dtype=dtype), expected)
