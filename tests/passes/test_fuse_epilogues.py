"""Products with what follows them: which ops join them, and that the bits are those of separate kernels, on every target."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm.target import TARGETS, host_targets
from adjit.passes.fusion import fuse_epilogues
from adjit.passes.options import Options

pytestmark = pytest.mark.skipif(not host_targets(), reason="there is no native backend here")

Program = Callable[..., Any]


def arrays(rows: int, inner: int, columns: int, dtype: str, seed: int = 0) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "x": (rows, inner), "w": (inner, columns), "bias": (columns,), "residual": (rows, columns), "mask": (rows, columns),
        "scale": (), "shift": (rows, 1)}
    found = {name: np.asarray(rng.standard_normal(shape), dtype) for name, shape in shapes.items()}
    found["x"][rows // 2, inner // 2] = np.inf
    found["residual"][1, :3] = np.nan, -np.inf, -0.0
    return found


PROGRAMS: dict[str, Program] = {
    "bias-relu": lambda x, w, bias, **_: aj.nn.functional.relu(x @ w + bias),
    "mask": lambda x, w, mask, **_: np.where(mask > 0, x @ w, 0) * 2,
    "residual": lambda x, w, bias, residual, **_: residual + (x @ w + bias),
    "transposed": lambda x, w, bias, **_: (w.T @ x.T).T * 2 + bias,
    "numbers": lambda x, w, scale, shift, **_: (x @ w) * scale - shift,
    "column-sums": lambda x, w, mask, **_: (lambda h: (h, h.sum(0)))(np.where(mask > 0, x @ w, 0)),
    "row-maxima": lambda x, w, bias, residual, **_: (lambda h: (h, h.max(1)))(np.maximum(x @ w + bias, residual))}


def separate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuse_epilogues, "_fuse", lambda graph, written, rule: graph)


def run(program: Program, given: dict[str, np.ndarray]) -> tuple[list[np.ndarray], str]:
    """The results, and the graph after fusion."""
    compiled = aj.compile(lambda given: program(**given), backend="native")
    with np.errstate(all="ignore"):
        results = compiled(given)
    return [np.asarray(value) for value in (results if isinstance(results, tuple) else (results,))], compiled.ir("fused")


@pytest.mark.share(3)
@pytest.mark.parametrize("sizes", [(8, 1, 16), (37, 5, 49), (128, 784, 96), (24, 2100, 33)], ids=lambda sizes: "x".join(map(str, sizes)))
@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_those_of_separate_kernels(name: str, sizes: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in ("f4", "f8"):
        given = arrays(*sizes, dtype)
        joined, graph = run(PROGRAMS[name], given)
        assert "= matmul_epilogue " in graph
        with monkeypatch.context() as patch:
            separate(patch)
            apart, graph = run(PROGRAMS[name], given)
        assert "= matmul_epilogue " not in graph
        for value, expected in zip(joined, apart, strict=True):
            np.testing.assert_array_equal(value, expected)
            assert np.array_equal(np.signbit(value) | np.isnan(value), np.signbit(expected) | np.isnan(expected))


@pytest.mark.parametrize("target", [name for name in TARGETS if name != "avx512"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_targets(name: str, target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if TARGETS[target] not in host_targets():
        pytest.skip(f"this processor has no {target}")
    monkeypatch.setenv("ADJIT_TARGET", target)
    given = arrays(21, 70, 37, "f4")
    joined, graph = run(PROGRAMS[name], given)
    assert "= matmul_epilogue " in graph
    separate(monkeypatch)
    for value, expected in zip(joined, run(PROGRAMS[name], given)[0], strict=True):
        np.testing.assert_array_equal(value, expected)


REFUSED: dict[str, Program] = {
    "the-product-is-a-result": lambda x, w, bias, **_: (lambda h: (h, np.maximum(h + bias, 0)))(x @ w),
    "another-kernel-reads-the-product": lambda x, w, bias, **_: (lambda h: (np.maximum(h + bias, 0), h.T @ h))(x @ w),
    "expensive-functions": lambda x, w, bias, **_: np.exp(x @ w + bias),
    "a-sum-needs-the-product-itself": lambda x, w, bias, **_: (lambda h: (np.maximum(h + bias, 0), h.sum(1)))(x @ w),
    "few-rows": lambda x, w, bias, **_: np.maximum(x[:4] @ w + bias, 0),
    "few-columns": lambda x, w, bias, **_: np.maximum(x @ w[:, :8] + bias[:8], 0)}


@pytest.mark.parametrize("name", REFUSED)
def test_what_stays_apart(name: str) -> None:
    assert "= matmul_epilogue " not in run(REFUSED[name], arrays(32, 16, 48, "f4"))[1]


def test_donated_matrices_are_written_in_place_by_kernels() -> None:
    step = aj.compile(lambda p, x, g: p - 0.1 * (x.T @ g), donate="p", backend="native")
    p = np.ones((32, 48), np.float32)
    step(p, np.ones((16, 32), np.float32), np.ones((16, 48), np.float32))
    assert "= matmul_epilogue " not in step.ir("fused")
    assert "@ param+0 = fused" in step.ir("planned")


def test_reports_say_what_products_do() -> None:
    program = aj.compile(lambda x, w, b: aj.nn.functional.relu(x @ w + b), backend="native")
    given = [np.ones(shape, np.float32) for shape in ((32, 16), (16, 48), (48,))]
    program(*given)
    text = str(program.explain(*given))
    assert "1 product with 2 ops that follow" in text
    assert "matmul_relu_4" in text
    assert "matmul_relu_4" in str(program.profile(*given))


def test_other_backends_have_none() -> None:
    program = aj.compile(lambda x, w, b: aj.nn.functional.relu(x @ w + b), backend="interpret")
    program(*[np.ones(shape, np.float32) for shape in ((32, 16), (16, 48), (48,))])
    assert "= matmul_epilogue " not in program.ir("fused")
    graph = program.programs()[0].planned
    assert fuse_epilogues.fuse_epilogues(graph, Options()) is graph
