"""Nine workloads, from a tiny network to a mixture model: the programs that benchmarks time and that golden tests count.

A workload gives a compiled function and its arguments; where the function is a training step, its first results are the next
call's first arguments. Data and arithmetic are fixed by a seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import adjit as aj

f32 = np.float32


@dataclass
class Workload:
    """`function(*arguments)`; the first `carried` results replace the first arguments in the next call."""

    name: str
    function: Any
    arguments: tuple[Any, ...]
    carried: int = 0

    def runner(self) -> Callable[[], Any]:
        """A call that does one step, on the results of the one before."""
        state = list(self.arguments)

        def step() -> Any:
            results = self.function(*state)
            if self.carried:
                state[:self.carried] = results[:self.carried]
            return results
        return step


def _rand(generator: np.random.Generator, *shape: int, scale: float = 1.0) -> np.ndarray:
    return (generator.standard_normal(shape) * scale).astype(f32)


def _sgd(loss: Callable[..., Any], backend: str, donate: bool = True) -> Any:
    @aj.compile(donate=("params",) if donate else (), backend=backend)
    def step(params: Any, *data: Any) -> Any:
        value, grads = aj.value_and_grad(loss)(params, *data)
        return aj.optim.sgd(0.01).update(params, grads, aj.optim.sgd(0.01).init(params))[0], value
    return step


def tiny(backend: str = "auto") -> Workload:
    """A 2-3-1 network, batch 10, SGD."""
    g = np.random.default_rng(0)
    params = [_rand(g, 2, 3), np.zeros(3, f32), _rand(g, 3, 1), np.zeros(1, f32)]

    def loss(p: Any, x: Any, y: Any) -> Any:
        hidden = aj.nn.functional.relu(x @ p[0] + p[1])
        return np.mean((hidden @ p[2] + p[3] - y) ** 2)
    return Workload("tiny", _sgd(loss, backend), (params, _rand(g, 10, 2), _rand(g, 10, 1)), 1)


def mlp(backend: str = "auto", sizes: tuple[int, ...] = (784, 512, 256, 10), batch: int = 128) -> Workload:
    """A 784-512-256-10 classifier, batch 128, Adam, all in one donated step."""
    g = np.random.default_rng(0)
    params = []
    for i, o in itertools.pairwise(sizes):
        params += [_rand(g, i, o, scale=(2 / i) ** 0.5), np.zeros(o, f32)]
    x, y = _rand(g, batch, sizes[0]), g.integers(0, sizes[-1], batch)
    adam = aj.optim.adam(1e-3)

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = x
        for i in range(0, len(p), 2):
            h = h @ p[i] + p[i + 1]
            if i < len(p) - 2:
                h = aj.nn.functional.relu(h)
        return aj.nn.functional.cross_entropy(h, y)

    @aj.compile(donate=("params", "state"), backend=backend)
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = aj.value_and_grad(loss)(params, x, y)
        params, state = adam.update(params, grads, state)
        return params, state, value
    return Workload("mlp", step, (params, adam.init(params), x, y), 2)


def chain(backend: str = "auto", size: int = 4_000_000) -> Workload:
    """sum(gelu(x * w + b)**2) and its three gradients."""
    g = np.random.default_rng(0)
    arrays = tuple(_rand(g, size) for _ in range(3))

    @aj.compile(backend=backend)
    def function(x: Any, w: Any, b: Any) -> Any:
        def loss(x: Any, w: Any, b: Any) -> Any:
            return np.sum(aj.nn.functional.gelu(x * w + b, approximate="tanh") ** 2)
        return aj.value_and_grad(loss, argnums=(0, 1, 2))(x, w, b)
    return Workload("chain", function, arrays)


def lnsm(backend: str = "auto", rows: int = 4096, columns: int = 1024) -> Workload:
    """Layer norm and softmax of 4096 rows, and three gradients."""
    g = np.random.default_rng(0)
    x, s, b, t = _rand(g, rows, columns), _rand(g, columns), _rand(g, columns), _rand(g, rows, columns)

    @aj.compile(backend=backend)
    def function(x: Any, s: Any, b: Any, t: Any) -> Any:
        def loss(x: Any, s: Any, b: Any) -> Any:
            mean = x.mean(-1, keepdims=True)
            variance = ((x - mean) ** 2).mean(-1, keepdims=True)
            h = (x - mean) / np.sqrt(variance + 1e-5) * s + b
            return np.sum(aj.nn.functional.softmax(h) * t)
        return aj.value_and_grad(loss, argnums=(0, 1, 2))(x, s, b)
    return Workload("lnsm", function, (x, s, b, t))


def transformer(backend: str = "auto", batch: int = 8, length: int = 128, width: int = 256, heads: int = 8) -> Workload:
    """One transformer block with causal attention, SGD."""
    g = np.random.default_rng(0)
    D = width
    params = {"q": _rand(g, D, 3 * D, scale=0.06), "o": _rand(g, D, D, scale=0.06), "u": _rand(g, D, 4 * D, scale=0.06),
              "d": _rand(g, 4 * D, D, scale=0.03), "bu": np.zeros(4 * D, f32), "bd": np.zeros(D, f32), "s1": np.ones(D, f32),
              "c1": np.zeros(D, f32), "s2": np.ones(D, f32), "c2": np.zeros(D, f32)}
    x, t = _rand(g, batch, length, D), _rand(g, batch, length, D)
    mask = np.tril(np.ones((length, length), bool))

    def norm(x: Any, s: Any, b: Any) -> Any:
        mean = x.mean(-1, keepdims=True)
        variance = ((x - mean) ** 2).mean(-1, keepdims=True)
        return (x - mean) / np.sqrt(variance + 1e-5) * s + b

    def loss(p: Any, x: Any, t: Any) -> Any:
        h = norm(x, p["s1"], p["c1"])
        q, k, v = (h @ p["q"]).reshape(batch, length, 3, heads, D // heads).transpose(2, 0, 3, 1, 4)
        a = (q @ k.swapaxes(-1, -2)) / f32(np.sqrt(D // heads))
        a = aj.nn.functional.softmax(np.where(mask, a, -1e9))
        h = x + (a @ v).transpose(0, 2, 1, 3).reshape(batch, length, D) @ p["o"]
        z = norm(h, p["s2"], p["c2"])
        h = h + aj.nn.functional.gelu(z @ p["u"] + p["bu"], approximate="tanh") @ p["d"] + p["bd"]
        return np.mean((h - t) ** 2)
    return Workload("transformer", _sgd(loss, backend), (params, x, t), 1)


def cnn(backend: str = "auto", batch: int = 64) -> Workload:
    """Two 3x3 convolutions with max pooling on 28x28 images, SGD; convolution as a product of shifted images."""
    g = np.random.default_rng(0)
    params = [_rand(g, 16, 1, 3, 3, scale=0.3), _rand(g, 32, 16, 3, 3, scale=0.1), _rand(g, 32 * 7 * 7, 10, scale=0.03)]
    x, y = _rand(g, batch, 1, 28, 28), g.integers(0, 10, batch)

    def convolve(x: Any, w: Any) -> Any:
        _, c, height, length = x.shape
        padded = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
        patches = np.stack([padded[:, :, i:i + height, j:j + length] for i in range(3) for j in range(3)], axis=2)
        return np.einsum("ncphw,ocp->nohw", patches, w.reshape(w.shape[0], c, 9))

    def pool(x: Any) -> Any:
        n, c, height, length = x.shape
        return x.reshape(n, c, height // 2, 2, length // 2, 2).max(axis=(3, 5))

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = pool(aj.nn.functional.relu(convolve(x, p[0])))
        h = pool(aj.nn.functional.relu(convolve(h, p[1])))
        return aj.nn.functional.cross_entropy(h.reshape(batch, -1) @ p[2], y)
    return Workload("cnn", _sgd(loss, backend), (params, x, y), 1)


def rnn(backend: str = "auto", steps: int = 64) -> Workload:
    """An unrolled recurrent network, SGD."""
    g = np.random.default_rng(0)
    T, B, D, H = steps, 32, 64, 128
    params = [_rand(g, D, H, scale=0.1), _rand(g, H, H, scale=0.08), np.zeros(H, f32), _rand(g, H, 1, scale=0.1)]
    x, y = _rand(g, T, B, D), _rand(g, B, 1)

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = aj.numpy.zeros((B, H), f32)
        for row in x:
            h = np.tanh(row @ p[0] + h @ p[1] + p[2])
        return np.mean((h @ p[3] - y) ** 2)
    return Workload("rnn", _sgd(loss, backend), (params, x, y), 1)


def logreg(backend: str = "auto") -> Workload:
    """Value and gradient of a logistic regression, float64."""
    g = np.random.default_rng(0)
    X, y, b = g.standard_normal((1000, 20)), (g.random(1000) > 0.5).astype("f8"), g.standard_normal(20)

    @aj.compile(backend=backend)
    def function(b: Any, X: Any, y: Any) -> Any:
        def objective(b: Any) -> Any:
            z = X @ b
            return np.sum(y * z - np.logaddexp(0.0, z)) - 0.5 * np.sum(b * b)
        return aj.value_and_grad(objective)(b)
    return Workload("logreg", function, (b, X, y))


def gmm(backend: str = "auto", n: int = 1000, d: int = 10, k: int = 25) -> Workload:
    """Log likelihood of a Gaussian mixture and its gradients, float64."""
    g = np.random.default_rng(0)
    arguments = (g.standard_normal(k), g.standard_normal((k, d)), g.standard_normal((k, d + d * (d - 1) // 2)) * 0.3,
                 g.standard_normal((n, d)))
    rows, cols = np.tril_indices(d, -1)

    def objective(al: Any, mu: Any, icf: Any, X: Any) -> Any:
        Qd = np.exp(icf[:, :d])
        L = aj.numpy.zeros((k, d, d))
        L[:, rows, cols] = icf[:, d:]
        xc = X[:, None, :] - mu[None]
        Qx = Qd[None] * xc + np.einsum("kij,nkj->nki", L, xc)
        main = al + icf[:, :d].sum(1) - 0.5 * (Qx ** 2).sum(-1)
        return (aj.numpy.logsumexp(main, axis=1).sum() - n * aj.numpy.logsumexp(al) + 0.5 * (Qd ** 2).sum()
                + 0.5 * (icf[:, d:] ** 2).sum() - icf[:, :d].sum())

    @aj.compile(backend=backend)
    def function(al: Any, mu: Any, icf: Any, X: Any) -> Any:
        return aj.value_and_grad(objective, argnums=(0, 1, 2))(al, mu, icf, X)
    return Workload("gmm", function, arguments)


WORKLOADS: dict[str, Callable[..., Workload]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn, "logreg": logreg,
    "gmm": gmm}
