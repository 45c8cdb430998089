"""The derivative of a maximum goes to the elements that equal it, wherever they were computed: every op rounds on its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import adjit as aj
from adjit.codegen.llvm.target import host_targets

Loss = Callable[[Any, Any, Any], Any]


def normalised(x: Any, w: Any, c: Any) -> Any:
    h = x * w
    z = h - np.log(np.sum(np.exp(h), -1, keepdims=True))
    return np.sum(np.tanh(z - 0.5 * z.max(0)))


def shifted(x: Any, w: Any, c: Any) -> Any:
    h = x * w
    return np.sum(np.exp(h)) + np.sum(np.maximum(h - c, 0.3 * x).max(1))


def standardised(x: Any, w: Any, c: Any) -> Any:
    h = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 0.01) * w
    h = h - np.log(np.sum(np.exp(h - h.max(-1, keepdims=True)), -1, keepdims=True))
    h = h - h.max(0) * 0.5
    return np.mean((np.tanh(h / (1 + np.abs(h).sum(0))) @ c) ** 2)


def squared(x: Any, w: Any, c: Any) -> Any:
    h = x * x - w * c
    return np.sum(h.max(0) * np.sum(np.sin(h), 0)) + np.sum(np.sin(h * c).min(1))


LOSSES = (normalised, shifted, standardised, squared)
BACKENDS = ["numba", *host_targets()]


@pytest.mark.share(12)
@pytest.mark.parametrize("budget", [None, 0])
@pytest.mark.parametrize("backend", BACKENDS, ids=lambda backend: getattr(backend, "name", backend))
@pytest.mark.parametrize("loss", LOSSES)
def test_what_is_made_again_is_as_large_as_before(loss: Loss, backend: Any, budget: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if backend != "numba":
        monkeypatch.setenv("ADJIT_TARGET", backend.name)
    elif budget is not None:
        pytest.skip("compiled by the same rules, in seconds")
    rng = np.random.default_rng(0)
    arguments = rng.standard_normal((50, 37)), rng.standard_normal(37), rng.standard_normal(37)
    expected = aj.compile(aj.grad(loss, (0, 1, 2)), backend="interpret")(*arguments)
    found = aj.compile(aj.grad(loss, (0, 1, 2)), backend="numba" if backend == "numba" else "native", memory_budget=budget)(*arguments)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11 * max(1.0, np.abs(other).max()))
