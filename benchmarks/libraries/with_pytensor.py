"""PyTensor in Numba mode: symbolic gradients, parameters and data as shared variables, updates as part of the compiled function."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle
from pytensor.compile.mode import Mode
from pytensor.tensor.slinalg import cholesky, solve_triangular
from tasks import Library, Readings, Task, gradient_readings, training_readings


def library() -> Library:
    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        inputs = [pt.vector(dtype=array.dtype) for array in arrays]
        function = pytensor.function(inputs, sum(inputs[1:], inputs[0] * np.float32(2)), mode="NUMBA", trust_input=True)
        return lambda: function(*arrays)
    versions = {name: importlib.metadata.version(name) for name in ("pytensor", "numba", "llvmlite")}
    return Library(versions, None, open_task, small_sum)


def open_task(problem: Problem) -> Task:
    pytensor.config.floatX = problem.dtype.name
    shared = {name: pytensor.shared(array, name) for name, array in problem.named_params.items()}
    params: Any = shared if isinstance(problem.params, dict) else list(shared.values())
    data = [pytensor.shared(array) for array in problem.data]
    value = LOSS_FUNCTIONS[problem.name](params, *data, **problem.constants)
    gradients = dict(zip(shared, pt.grad(value, list(shared.values())), strict=True))
    moments = {name: [pytensor.shared(np.zeros_like(array)) for _ in range(2)] for name, array in problem.named_params.items()}
    count = pytensor.shared(np.array(0, problem.dtype))
    function: Any = None

    def compile_step() -> Any:
        if problem.kind == "gradient":
            outputs = [pytensor.Out(output, borrow=True) for output in (value, *gradients.values())]
            return pytensor.function([], outputs, mode="NUMBA", trust_input=True)
        if problem.kind == "sgd":
            rate = np.asarray(LEARNING_RATE, problem.dtype)
            updates = [(p, p - rate * gradients[name]) for name, p in shared.items()]
        else:
            updates = _adam(shared, gradients, moments, count)
        return pytensor.function([], pytensor.Out(value, borrow=True), updates=updates, mode="NUMBA", trust_input=True)

    def step() -> Any:
        nonlocal function
        if function is None:
            function = compile_step()
        return function()

    def reset() -> None:
        for name, p in shared.items():
            p.set_value(problem.named_params[name])
            for moment in moments[name]:
                moment.set_value(np.zeros_like(problem.named_params[name]))
        count.set_value(np.array(0, problem.dtype))

    def readings() -> Readings:
        if problem.kind == "gradient":
            value, *found = step()
            return gradient_readings(problem, value, dict(zip(shared, found, strict=True)))
        plain = pytensor.function([], list(gradients.values()), mode=Mode(linker="py", optimizer="fast_compile"))
        return training_readings(problem, reset, step, lambda: {name: p.get_value() for name, p in shared.items()},
                                 lambda: dict(zip(shared, plain(), strict=True)))
    return Task(step, reset, readings)


def _adam(params: dict[str, Any], gradients: dict[str, Any], moments: dict[str, list[Any]], count: Any) -> list[tuple[Any, Any]]:
    beta1, beta2 = (np.float32(beta) for beta in ADAM_BETAS)
    one = np.float32(1)
    steps = count + one
    rate, correction = np.float32(ADAM_RATE) / (one - beta1 ** steps), pt.sqrt(one - beta2 ** steps)
    updates = [(count, steps)]
    for name, p in params.items():
        mean, variance = moments[name]
        new_mean = beta1 * mean + (one - beta1) * gradients[name]
        new_variance = beta2 * variance + (one - beta2) * gradients[name] ** 2
        new = p - rate * new_mean / (pt.sqrt(new_variance) / correction + np.float32(ADAM_EPSILON))
        updates += [(mean, new_mean), (variance, new_variance), (p, new)]
    return updates


def tiny(p: Any, x: Any, y: Any) -> Any:
    return pt.mean((pt.maximum(x @ p[0] + p[1], 0) @ p[2] + p[3] - y) ** 2)


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = x
    for i in range(0, len(p), 2):
        h = h @ p[i] + p[i + 1]
        if i < len(p) - 2:
            h = pt.maximum(h, 0)
    return _cross_entropy(h, y)


def chain(p: Any) -> Any:
    x, w, b = p
    return pt.sum(_gelu(x * w + b) ** 2)


def lnsm(p: Any, t: Any) -> Any:
    x, s, b = p
    return pt.sum(pt.special.softmax(_norm(x, s, b), axis=-1) * t)


def transformer(p: Any, x: Any, target: Any, heads: int) -> Any:
    B, T, D = x.get_value(borrow=True).shape
    mask = np.tril(np.ones((T, T), bool))
    q, k, v = ((_norm(x, p["s1"], p["c1"]) @ p["q"]).reshape((B, T, 3, heads, D // heads)).transpose(2, 0, 3, 1, 4)[i] for i in range(3))
    scores = q @ k.transpose(0, 1, 3, 2) / np.float32(np.sqrt(D // heads))
    a = pt.special.softmax(pt.where(mask, scores, np.float32(-1e9)), axis=-1)
    h = x + (a @ v).transpose(0, 2, 1, 3).reshape((B, T, D)) @ p["o"]
    z = _norm(h, p["s2"], p["c2"])
    h = h + _gelu(z @ p["u"] + p["bu"]) @ p["d"] + p["bd"]
    return pt.mean((h - target) ** 2)


def cnn(p: Any, x: Any, y: Any) -> Any:
    """As products of shifted images: PyTensor has no convolution of batches and channels any more."""
    n, _, height, width = x.get_value(borrow=True).shape

    def layer(x: Any, w: Any, height: int, width: int) -> Any:
        filters, channels = w.get_value(borrow=True).shape[:2]
        padded = pt.zeros((n, channels, height + 2, width + 2), dtype=x.dtype)[:, :, 1:-1, 1:-1].set(x)
        patches = pt.stack([padded[:, :, i:i + height, j:j + width] for i in range(3) for j in range(3)], axis=2)
        columns = patches.transpose(0, 3, 4, 1, 2).reshape((n * height * width, channels * 9))
        h = pt.maximum(columns @ w.reshape((filters, channels * 9)).T, 0)
        pooled = h.reshape((n, height // 2, 2, width // 2, 2, filters)).max(axis=(2, 4))
        return pooled.transpose(0, 3, 1, 2)
    h = layer(layer(x, p[0], height, width), p[1], height // 2, width // 2)
    return _cross_entropy(h.reshape((n, -1)) @ p[2], y)


def rnn(p: Any, x: Any, y: Any) -> Any:
    batch, units = x.get_value(borrow=True).shape[1], p[2].get_value(borrow=True).size

    def cell(row: Any, h: Any, u: Any) -> Any:
        return pt.tanh(row + h @ u)
    states = pytensor.scan(cell, sequences=x @ p[0] + p[2], outputs_info=pt.zeros((batch, units), dtype=x.dtype), non_sequences=[p[1]],
                           strict=True, return_updates=False)
    return pt.mean((states[-1] @ p[3] - y) ** 2)


def logreg(p: Any, X: Any, y: Any) -> Any:
    z = X @ p[0]
    return pt.sum(y * z - pt.softplus(z)) - 0.5 * pt.sum(p[0] * p[0])


def gmm(p: Any, X: Any) -> Any:
    al, mu, icf = p
    n, d = X.get_value(borrow=True).shape
    k = al.get_value(borrow=True).size
    rows, columns = lower_triangle(d)
    Qd = pt.exp(icf[:, :d])
    L = pt.zeros((k, d, d))[:, rows, columns].set(icf[:, d:])
    xc = X[:, None, :] - mu[None]
    Qx = Qd[None] * xc + pt.einsum("kij,nkj->nki", L, xc)
    main = al + icf[:, :d].sum(1) - 0.5 * (Qx ** 2).sum(-1)
    return (pt.logsumexp(main, axis=1).sum() - n * pt.logsumexp(al) + 0.5 * (Qd ** 2).sum() + 0.5 * (icf[:, d:] ** 2).sum()
            - icf[:, :d].sum())


def gp(p: Any, X: Any, y: Any) -> Any:
    lengths, scales = p
    z = X * pt.exp(-lengths)
    squares = pt.sum(z * z, axis=1)
    kernel = pt.exp(2 * scales[0] - 0.5 * (squares[:, None] + squares[None] - 2 * z @ z.T))
    factor = cholesky(kernel + pt.exp(2 * scales[1]) * np.eye(y.get_value(borrow=True).size))
    half = solve_triangular(factor, y, lower=True)
    return 0.5 * pt.sum(half ** 2) + pt.sum(pt.log(pt.diagonal(factor)))


LOSS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}


def _cross_entropy(logits: Any, y: Any) -> Any:
    log_probabilities = pt.special.log_softmax(logits, axis=-1)
    return -pt.mean(log_probabilities[pt.arange(y.shape[0]), y])


def _norm(x: Any, s: Any, b: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    variance = (centred ** 2).mean(-1, keepdims=True)
    return centred / pt.sqrt(variance + np.float32(1e-5)) * s + b


def _gelu(z: Any) -> Any:
    slope, cube = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)
    return np.float32(0.5) * z * (1 + pt.tanh(slope * (z + cube * z ** 3)))
