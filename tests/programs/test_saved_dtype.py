"""`compile(saved_dtype=)`: half the bytes are saved, results stay, gradients are those of rounded activations, training goes as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.backends import BACKENDS

import adjit as aj
from adjit import nn
from adjit.errors import ArgumentError, DTypeError

HALVES = ("bfloat16", "float16")


def loss(p: Any, x: Any, y: Any) -> Any:
    for w, b in p[:-1]:
        x = np.tanh(x @ w + b)
    w, b = p[-1]
    return np.mean((x @ w + b - y) ** 2)


def problem(dtype: Any, rows: int = 40, width: int = 8) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    p = [((rng.normal(size=(width, width)) / width**0.5).astype(dtype), np.zeros(width, dtype)) for _ in range(4)]
    return p, rng.normal(size=(rows, width)).astype(dtype), rng.normal(size=(rows, width)).astype(dtype)


def distance(a: Any, b: Any) -> float:
    """Largest distance of two lists of pairs of arrays, relative to the norms of the arrays."""
    return max(float(np.linalg.norm(x - y) / np.linalg.norm(x)) for x, y in zip(sum(a, ()), sum(b, ()), strict=True))


@pytest.mark.share(3)
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_are_near_and_results_equal(backend: str) -> None:
    for dtype, part in ((np.float32, 2), (np.float64, 4)):
        args = problem(dtype)
        plain = aj.compile(aj.value_and_grad(loss), backend=backend)
        value, gradient = plain(*args)
        for half, error in (("bfloat16", 0.02), ("float16", 2e-3)):
            narrow = aj.compile(aj.value_and_grad(loss), backend=backend, saved_dtype=half)
            found, rounded = narrow(*args)
            assert found == value
            assert {leaf.dtype for pair in rounded for leaf in pair} == {np.dtype(dtype)}
            assert 0 < distance(gradient, rounded) < error
            assert narrow.memory().saved_bytes * part == plain.memory().saved_bytes > 0


def test_halves_of_a_compiled_function_of_tensors() -> None:
    """What lies between the calls of both halves has half the bytes."""
    saved = {}
    x = aj.tensor(np.random.default_rng(1).normal(size=(30, 8)), dtype="float32")
    for half in (None, *HALVES):
        aj.manual_seed(0)
        net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 32), nn.GELU(), nn.Linear(32, 1))
        forward = aj.compile(lambda net, x: (net(x) ** 2).mean(), saved_dtype=half)
        value = forward(net, x)
        value.backward()
        saved[half] = forward.memory().saved_bytes, value.item(), [p.grad.numpy() for p in net.parameters()]
    for half in HALVES:
        assert saved[half][0] < 0.6 * saved[None][0]
        assert saved[half][1] == saved[None][1]
        for a, b in zip(saved[half][2], saved[None][2], strict=True):
            np.testing.assert_allclose(a, b, atol=0.01 * np.abs(b).max())


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops_stack_halves(backend: str) -> None:
    rng = np.random.default_rng(0)
    w, u = ((rng.normal(size=(8, 8)) / 3).astype(np.float32) for _ in range(2))
    xs = rng.normal(size=(20, 4, 8)).astype(np.float32)

    def recurrent(w, u, xs):
        def body(h, x):
            h = np.tanh(x @ w + h @ u)
            return h, np.sum(h * h)
        last, squares = aj.scan(body, np.zeros((4, 8), np.float32), xs)
        return np.mean(squares) + np.sum(last)

    plain, narrow = (aj.compile(aj.value_and_grad(recurrent, argnums=(0, 1, 2)), backend=backend, saved_dtype=half)
                     for half in (None, "bfloat16"))
    value, gradients = plain(w, u, xs)
    found, rounded = narrow(w, u, xs)
    np.testing.assert_allclose(found, value, rtol=1e-6)
    assert 0 < distance([gradients], [rounded]) < 0.02
    assert narrow.memory().saved_bytes * 2 == plain.memory().saved_bytes > 0


class Block(nn.Module):
    """A block of a transformer."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Any) -> Any:
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.second(x))


def test_a_transformer_trains_as_before() -> None:
    rng = np.random.default_rng(0)
    tokens, width, length = 12, 16, 10
    data = aj.tensor(rng.integers(0, tokens, (4, length + 1)))
    curves: dict[Any, list[float]] = {}
    saved: dict[Any, int] = {}
    for half in (None, "bfloat16"):
        aj.manual_seed(0)
        net = nn.Sequential(nn.Embedding(tokens, width), Block(width, 2), Block(width, 2), nn.Linear(width, tokens))
        optimizer = aj.optim.Adam(net.parameters(), lr=3e-3)

        @aj.compile(saved_dtype=half)
        def step(net: Any, optimizer: Any, data: Any) -> Any:
            optimizer.zero_grad()
            value = nn.functional.cross_entropy(net(data[:, :-1]).reshape(-1, tokens), data[:, 1:].reshape(-1))
            value.backward()
            optimizer.step()
            return value

        curves[half] = [step(net, optimizer, data).item() for _ in range(12)]
        saved[half] = step.memory().saved_bytes
    assert curves[None][-1] < 0.8 * curves[None][0]
    np.testing.assert_allclose(curves["bfloat16"], curves[None], rtol=2e-3)
    assert saved["bfloat16"] < 0.6 * saved[None]


def test_small_and_other_values_stay() -> None:
    """Means of rows, masks and integers are saved as they are."""
    def normalised(x, w):
        mean = np.mean(x, axis=1, keepdims=True)
        centred = x - mean
        return np.sum(np.where(centred > 0, centred / np.sqrt(np.mean(centred**2, axis=1, keepdims=True) + 1e-5), 0.0) @ w)

    x, w = np.random.default_rng(0).normal(size=(20, 64)), np.ones((64, 3))
    compiled = aj.compile(aj.grad(normalised, argnums=(0, 1)), saved_dtype="bfloat16", backend="interpret")
    exact = aj.grad(normalised, argnums=(0, 1))(x, w)
    for a, b in zip(compiled(x, w), exact, strict=True):
        np.testing.assert_allclose(a, b, atol=0.02 * np.abs(b).max())
    assert "bf16[20]" not in compiled.ir("optimized")


def test_options_are_checked() -> None:
    for wrong in ("float32", "int8", np.float64):
        with pytest.raises(ArgumentError, match="saved_dtype= takes 'bfloat16', 'float16' or None"):
            aj.compile(loss, saved_dtype=wrong)
    with pytest.raises((DTypeError, TypeError)):
        aj.compile(loss, saved_dtype="nothing")
