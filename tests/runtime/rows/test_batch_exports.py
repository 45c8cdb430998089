"""Exports for any number of rows: libraries for C, with the bits of Python, and archives."""

from __future__ import annotations

import ctypes
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.__main__ import main
from adjit.runtime.exports import load

needs_a_compiler = pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
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


@needs_a_compiler
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


@needs_a_compiler
def test_a_library_is_given_memory_for_what_one_loop_leaves_for_another(tmp_path: Path) -> None:
    compiled = aj.compile(lambda w, x: np.max(x @ w - np.mean(x @ w), axis=0), batch="x")
    path, header = compiled.export(tmp_path / "centred.so", W[:, None] * [1.0, 2.0], X[:10])
    assert "memory 1: double [rows][2]" in header.read_text()
    for size in (1, 100):
        out = np.zeros(2)
        assert run(path, [W[:, None] * [1.0, 2.0], X[:size], np.array(size)], [out, np.zeros((size, 2))]) == 0
        assert np.array_equal(out, compiled(W[:, None] * [1.0, 2.0], X[:size]))


@needs_a_compiler
def test_a_library_of_a_function_that_mixes_rows_is_for_one_size(tmp_path: Path) -> None:
    compiled = aj.compile(lambda x: x[1:] - x[:-1], batch="x")
    path, header = compiled.export(tmp_path / "mixed.so", X[:10])
    assert "x: double [10][4]" in header.read_text()
    out = np.zeros((9, 4))
    assert run(path, [X[:10]], [out]) == 0
    assert np.array_equal(out, np.diff(X[:10], axis=0))


def test_an_archive_is_for_any_number_of_rows(tmp_path: Path) -> None:
    @aj.compile(donate="w", batch=("x", "y"))
    def step(w: Any, x: Any, y: Any) -> Any:
        value, gradient = aj.value_and_grad(loss)(w, x, y)
        return w - 0.1 * gradient, value, {"rows": np.stack([x[:, 0], y], axis=1).reshape(-1)}

    path = tmp_path / "step.adjit"
    step.export(path, W.copy(), X[:10], Y[:10])
    loaded = aj.load(path)
    for size in (1, 7, 7, 7, 100, 300, 1):
        w = W.copy()
        updated, value, more = loaded(w, X[:size], Y[:size])
        expected = step(W.copy(), X[:size], Y[:size])
        assert updated is w
        for one, two in zip((w, value, more["rows"]), (*expected[:2], expected[2]["rows"]), strict=True):
            assert np.array_equal(one, two)
    assert np.array_equal(loaded(W.copy(), X[::3], Y[::3])[0], step(W.copy(), X[::3], Y[::3])[0])      # not contiguous: copied
    for x, y, said in ((X[:5], Y[:4], "y has 4 rows, and x has 5"), (X[:0], Y[:0], "x has 0 rows: the exported program is for 1 to"),
                       (X[:5, :3], Y[:5], r"x has to be f64\[rows,4\], got float64 of shape \(5, 3\)"),
                       (np.array(1.0), Y[:5], "x has to be"), (X[:5].astype(np.float32), Y[:5], "got float32")):
        with pytest.raises(TypeError, match=said):
            loaded(W.copy(), x, y)


def test_an_archive_without_code_for_this_processor_is_compiled_for_any_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                                      ) -> None:
    compiled = aj.compile(lambda w, x: (np.sum(x @ w), x * 2), batch="x")
    compiled.export(tmp_path / "products.adjit", W, X[:10], levels="x86-64-v2", params="x")
    monkeypatch.setattr(load, "_is_allowed", lambda target: False)
    loaded = aj.load(tmp_path / "products.adjit")
    assert "compiled for" in loaded._ways[0].executable.code.origin
    for one, two in zip(loaded(W, X), compiled(W, X), strict=True):
        assert np.allclose(one, two, rtol=1e-12)
    assert np.array_equal(loaded.arguments["x"], X[:10])


def test_an_archive_is_described_by_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    aj.compile(lambda x: (x * 2, np.sum(x)), batch="x").export(tmp_path / "double.adjit", X[:10])
    assert main(["inspect", str(tmp_path / "double.adjit")]) == 0
    said = capsys.readouterr().out
    assert "f64[rows,4]" in said
    assert "f64[64,4]" not in said
    assert "0 of arguments and 32 a row, " in said


def test_an_archive_of_a_training_step_of_modules(tmp_path: Path) -> None:
    aj.manual_seed(1)
    model = aj.nn.Sequential(aj.nn.Linear(4, 5), aj.nn.BatchNorm1d(5), aj.nn.Tanh(), aj.nn.Linear(5, 1))
    optimizer = aj.optim.Adam(model.parameters(), lr=1e-2)

    @aj.compile(batch=("x", "y"))
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        value = aj.nn.functional.mse_loss(model(x)[:, 0], y)
        value.backward()
        optimizer.step()
        return value

    x, y = X.astype(np.float32), Y.astype(np.float32)
    step.export(tmp_path / "step.adjit", aj.tensor(x[:8]), aj.tensor(y[:8]), levels="x86-64-v2")
    loaded = aj.load(tmp_path / "step.adjit")
    for size in (8, 8, 3, 100, 2):
        assert np.isclose(loaded(x[:size], y[:size]), step(aj.tensor(x[:size]), aj.tensor(y[:size])).item(), rtol=1e-6)
