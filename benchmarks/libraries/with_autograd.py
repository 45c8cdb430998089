"""HIPS autograd, as its documentation uses it; its speed is NumPy's and Python's."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import autograd.numpy as anp
import numpy as np
from autograd import value_and_grad
from autograd.scipy.linalg import solve_triangular
from autograd.scipy.special import logsumexp
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle, named
from tasks import Library, Readings, Task, gradient_readings, training_readings

GELU_SLOPE, GELU_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


def library() -> Library:
    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        def total() -> Any:
            result = anp.multiply(arrays[0], 2)
            for array in arrays[1:]:
                result = anp.add(result, array)
            return result
        return total
    return Library({"autograd": importlib.metadata.version("autograd")}, None, open_task, small_sum)


def open_task(problem: Problem) -> Task:
    loss = LOSS_FUNCTIONS[problem.name]
    derivative = value_and_grad(lambda params: loss(params, *problem.data, **problem.constants))
    as_dict = isinstance(problem.params, dict)
    params: Any = {}
    moments: list[tuple[Any, Any]] = []
    count = 0

    def reset() -> None:
        nonlocal params, count
        params = {name: p.copy() for name, p in problem.params.items()} if as_dict else [p.copy() for p in problem.params]
        moments[:] = [(np.zeros_like(p), np.zeros_like(p)) for p in named(params).values()] if problem.kind == "adam" else []
        count = 0

    def compute() -> tuple[Any, dict[str, Any]]:
        value, gradients = derivative(params)
        return value, named(gradients)

    def train() -> Any:
        nonlocal count
        value, gradients = compute()
        count += 1
        for index, (name, p) in enumerate(named(params).items()):
            g = gradients[name]
            if problem.kind == "adam":
                mean, variance = moments[index]
                mean[:] = ADAM_BETAS[0] * mean + (1 - ADAM_BETAS[0]) * g
                variance[:] = ADAM_BETAS[1] * variance + (1 - ADAM_BETAS[1]) * g ** 2
                corrected = mean / (1 - ADAM_BETAS[0] ** count)
                p -= ADAM_RATE * corrected / (np.sqrt(variance / (1 - ADAM_BETAS[1] ** count)) + ADAM_EPSILON)
            else:
                p -= LEARNING_RATE * g
        return value

    def readings() -> Readings:
        if problem.kind == "gradient":
            return gradient_readings(problem, *compute())
        return training_readings(problem, reset, train, lambda: named(params), lambda: compute()[1])
    reset()
    return Task(compute if problem.kind == "gradient" else train, reset, readings)


def tiny(p: Any, x: Any, y: Any) -> Any:
    return anp.mean((anp.maximum(anp.dot(x, p[0]) + p[1], 0) @ p[2] + p[3] - y) ** 2)


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = x
    for i in range(0, len(p), 2):
        h = anp.dot(h, p[i]) + p[i + 1]
        if i < len(p) - 2:
            h = anp.maximum(h, 0)
    return _cross_entropy(h, y)


def chain(p: Any) -> Any:
    x, w, b = p
    return anp.sum(_gelu(x * w + b) ** 2)


def lnsm(p: Any, t: Any) -> Any:
    x, s, b = p
    return anp.sum(_softmax(_norm(x, s, b)) * t)


def transformer(p: Any, x: Any, target: Any, heads: int) -> Any:
    B, T, D = x.shape
    mask = np.tril(np.ones((T, T), bool))
    q, k, v = anp.transpose(anp.reshape(_norm(x, p["s1"], p["c1"]) @ p["q"], (B, T, 3, heads, D // heads)), (2, 0, 3, 1, 4))
    a = _softmax(anp.where(mask, q @ anp.swapaxes(k, -1, -2) / np.float32(np.sqrt(D // heads)), np.float32(-1e9)))
    h = x + anp.reshape(anp.transpose(a @ v, (0, 2, 1, 3)), (B, T, D)) @ p["o"]
    z = _norm(h, p["s2"], p["c2"])
    h = h + _gelu(z @ p["u"] + p["bu"]) @ p["d"] + p["bd"]
    return anp.mean((h - target) ** 2)


def cnn(p: Any, x: Any, y: Any) -> Any:
    """As products of shifted images: autograd's own convolution is many times slower."""
    h = _pool(anp.maximum(_convolve(x, p[0]), 0))
    h = _pool(anp.maximum(_convolve(h, p[1]), 0))
    return _cross_entropy(anp.dot(anp.reshape(h, (len(x), -1)), p[2]), y)


def _convolve(x: Any, w: Any) -> Any:
    n, channels, height, width = x.shape
    padded = anp.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)), "constant")
    patches = anp.stack([padded[:, :, i:i + height, j:j + width] for i in range(3) for j in range(3)], axis=2)
    columns = anp.reshape(anp.transpose(patches, (0, 3, 4, 1, 2)), (n * height * width, channels * 9))
    product = anp.dot(columns, anp.reshape(w, (w.shape[0], -1)).T)
    return anp.transpose(anp.reshape(product, (n, height, width, -1)), (0, 3, 1, 2))


def _pool(x: Any) -> Any:
    n, channels, height, width = x.shape
    return anp.max(anp.reshape(x, (n, channels, height // 2, 2, width // 2, 2)), axis=(3, 5))


def rnn(p: Any, x: Any, y: Any) -> Any:
    h = np.zeros((x.shape[1], p[2].shape[0]), np.float32)
    inputs = anp.dot(x, p[0]) + p[2]
    for t in range(len(x)):
        h = anp.tanh(inputs[t] + anp.dot(h, p[1]))
    return anp.mean((anp.dot(h, p[3]) - y) ** 2)


def logreg(p: Any, X: Any, y: Any) -> Any:
    z = anp.dot(X, p[0])
    return anp.sum(y * z - anp.logaddexp(0.0, z)) - 0.5 * anp.sum(p[0] * p[0])


def gmm(p: Any, X: Any) -> Any:
    """autograd has no assignment: the triangle is gathered from a row with a zero in front."""
    al, mu, icf = p
    (n, d), k = X.shape, len(al)
    indices = np.zeros((d, d), int)
    indices[lower_triangle(d)] = np.arange(1, d * (d - 1) // 2 + 1)
    L = anp.concatenate((np.zeros((k, 1)), icf[:, d:]), axis=1)[:, indices]
    Qd = anp.exp(icf[:, :d])
    xc = X[:, None, :] - mu[None]
    Qx = Qd[None] * xc + anp.einsum("kij,nkj->nki", L, xc)
    main = al + anp.sum(icf[:, :d], axis=1) - 0.5 * anp.sum(Qx ** 2, axis=-1)
    return (anp.sum(logsumexp(main, axis=1)) - n * logsumexp(al) + 0.5 * anp.sum(Qd ** 2) + 0.5 * anp.sum(icf[:, d:] ** 2)
            - anp.sum(icf[:, :d]))


def gp(p: Any, X: Any, y: Any) -> Any:
    lengths, scales = p
    z = X * anp.exp(-lengths)
    squares = anp.sum(z * z, axis=1)
    kernel = anp.exp(2 * scales[0] - 0.5 * (squares[:, None] + squares[None] - 2 * anp.dot(z, z.T)))
    factor = anp.linalg.cholesky(kernel + anp.exp(2 * scales[1]) * np.eye(len(y)))
    half = solve_triangular(factor, y, lower=True)
    return 0.5 * anp.sum(half ** 2) + anp.sum(anp.log(anp.diag(factor)))


LOSS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}


def _cross_entropy(logits: Any, y: Any) -> Any:
    shifted = logits - anp.max(logits, axis=1, keepdims=True)
    return anp.mean(anp.log(anp.sum(anp.exp(shifted), axis=1)) - shifted[np.arange(len(y)), y])


def _softmax(x: Any) -> Any:
    e = anp.exp(x - anp.max(x, axis=-1, keepdims=True))
    return e / anp.sum(e, axis=-1, keepdims=True)


def _norm(x: Any, s: Any, b: Any) -> Any:
    centred = x - anp.mean(x, axis=-1, keepdims=True)
    variance = anp.mean(centred ** 2, axis=-1, keepdims=True)
    return centred / anp.sqrt(variance + np.float32(1e-5)) * s + b


def _gelu(z: Any) -> Any:
    return np.float32(0.5) * z * (1 + anp.tanh(GELU_SLOPE * (z + GELU_CUBE * z ** 3)))
