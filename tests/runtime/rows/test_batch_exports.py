"""Libraries for C for any number of rows: the bits of Python, and what the header says."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj

pytestmark = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
RNG = np.random.default_rng(7)
X, Y, W = RNG.normal(size=(300, 4)), RNG.normal(size=300), RNG.normal(size=4)


def loss(w: Any, x: Any, y: Any) -> Any:
    return np.mean((np.tanh(x @ w) - y) ** 2)


def run(path: Path, inputs: list[np.ndarray], outputs: list[np.ndarray | None]) -> int:
    library = ctypes.CDLL(str(path))
    size = getattr(library, f"{path.stem}_arena_bytes")
    size.restype = ctypes.c_int64
    arena = np.zeros(size() + 64, np.uint8)
    pointers = [(ctypes.c_void_p * len(group))(*(None if array is None else array.ctypes.data for array in group))
                for group in (inputs, outputs)]
    status: int = getattr(library, f"{path.stem}_run")(*pointers, ctypes.c_void_p(arena.ctypes.data + -arena.ctypes.data % 64))
    return status


def test_a_library_takes_the_number_of_rows(tmp_path: Path) -> None:
    @aj.compile(donate="w", batch=("x", "y"))
    def step(w: Any, x: Any, y: Any) -> Any:
        value, gradient = aj.value_and_grad(loss)(w, x, y)
        return w - 0.1 * gradient, value, np.stack([x[:, 0], y], axis=1).reshape(-1)

    path, header = step.export(tmp_path / "step.so", W.copy(), X[:10], Y[:10])
    text = header.read_text()
    for line in ("x: double [rows][4]", "rows: int64_t a number", "result.2: double [2 * rows]", "#define STEP_INPUT_x_ROW_BYTES 32"):
        assert line in text
    for size in (1, 7, 100, 300):
        w, value, joined = W.copy(), np.zeros(()), np.zeros(2 * size)
        assert run(path, [w, X[:size], Y[:size], np.array(size)], [None, value, joined]) == 0
        expected = step(W.copy(), X[:size], Y[:size])
        for one, two in zip((w, value, joined), expected, strict=True):
            assert np.array_equal(one, two)
    assert step.cache_info().traces == 1


def test_a_library_of_a_function_that_mixes_rows_is_for_one_size(tmp_path: Path) -> None:
    compiled = aj.compile(lambda x: x[1:] - x[:-1], batch="x")
    path, header = compiled.export(tmp_path / "mixed.so", X[:10])
    assert "x: double [10][4]" in header.read_text()
    out = np.zeros((9, 4))
    assert run(path, [X[:10]], [out]) == 0
    assert np.array_equal(out, np.diff(X[:10], axis=0))


def test_archives_are_for_the_sizes_of_the_examples(tmp_path: Path) -> None:
    compiled = aj.compile(lambda x: x * 2, batch="x")
    assert np.array_equal(compiled(X[:5]), X[:5] * 2)
    compiled.export(tmp_path / "double.adjit", X[:10])
    assert np.array_equal(aj.load(tmp_path / "double.adjit")(X[:10]), X[:10] * 2)
