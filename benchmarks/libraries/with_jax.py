"""JAX: every step under `jax.jit`, parameters and optimiser state donated, compiled programs kept in its persistent cache."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle, named
from tasks import Library, Readings, Task, gradient_readings, training_readings


def library() -> Library:
    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        @jax.jit
        def total(*arrays: Any) -> Any:
            return sum(arrays[1:], arrays[0] * 2)
        converted = [jnp.asarray(array) for array in arrays]
        return lambda: total(*converted).block_until_ready()
    versions = {name: importlib.metadata.version(name) for name in ("jax", "jaxlib")}
    return Library(versions, None, open_task, small_sum)


def open_task(problem: Problem) -> Task:
    jax.config.update("jax_enable_x64", problem.dtype == np.float64)
    loss = LOSS_FUNCTIONS[problem.name]
    data = [jnp.asarray(array) for array in problem.data]
    derivative = jax.value_and_grad(lambda params, *data: loss(params, *data, **problem.constants))

    def sgd(state: Any, *data: Any) -> Any:
        (params,) = state
        value, gradients = derivative(params, *data)
        return value, (jax.tree.map(lambda p, g: p - LEARNING_RATE * g, params, gradients),)

    def adam(state: Any, *data: Any) -> Any:
        params, means, variances, count = state
        value, gradients = derivative(params, *data)
        beta1, beta2 = ADAM_BETAS
        count = count + 1
        means = jax.tree.map(lambda m, g: beta1 * m + (1 - beta1) * g, means, gradients)
        variances = jax.tree.map(lambda v, g: beta2 * v + (1 - beta2) * g * g, variances, gradients)
        rate, correction = ADAM_RATE / (1 - beta1 ** count), jnp.sqrt(1 - beta2 ** count)
        params = jax.tree.map(lambda p, m, v: p - rate * m / (jnp.sqrt(v) / correction + ADAM_EPSILON), params, means, variances)
        return value, (params, means, variances, count)

    def fresh() -> Any:
        params = jax.tree.map(lambda array: jnp.array(array), problem.params)
        if problem.kind == "adam":
            return params, jax.tree.map(jnp.zeros_like, params), jax.tree.map(jnp.zeros_like, params), jnp.float32(0)
        return (params,)

    state = fresh()
    if problem.kind == "gradient":
        function = jax.jit(derivative)

        def step() -> Any:
            return jax.block_until_ready(function(*state, *data))
    else:
        function = jax.jit({"sgd": sgd, "adam": adam}[problem.kind], donate_argnums=0)

        def step() -> Any:
            nonlocal state
            value, state = function(state, *data)
            return jax.block_until_ready((value, state))[0]

    def reset() -> None:
        nonlocal state
        if problem.kind != "gradient":
            state = fresh()

    def readings() -> Readings:
        if problem.kind == "gradient":
            value, gradients = step()
            return gradient_readings(problem, value, named(gradients))
        return training_readings(problem, reset, step, lambda: named(state[0]), lambda: named(jax.jit(derivative)(state[0], *data)[1]))

    def planned_bytes() -> int:
        lowered = function.lower(*state, *data) if problem.kind == "gradient" else function.lower(state, *data)
        return int(lowered.compile().memory_analysis().temp_size_in_bytes)
    return Task(step, reset, readings, planned_bytes)


def tiny(p: Any, x: Any, y: Any) -> Any:
    return jnp.mean((jax.nn.relu(x @ p[0] + p[1]) @ p[2] + p[3] - y) ** 2)


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = x
    for i in range(0, len(p), 2):
        h = h @ p[i] + p[i + 1]
        if i < len(p) - 2:
            h = jax.nn.relu(h)
    return _cross_entropy(h, y)


def chain(p: Any) -> Any:
    x, w, b = p
    return jnp.sum(jax.nn.gelu(x * w + b) ** 2)


def lnsm(p: Any, t: Any) -> Any:
    x, s, b = p
    return jnp.sum(jax.nn.softmax(_norm(x, s, b)) * t)


def transformer(p: Any, x: Any, target: Any, heads: int) -> Any:
    B, T, D = x.shape
    mask = jnp.tril(jnp.ones((T, T), bool))
    q, k, v = (_norm(x, p["s1"], p["c1"]) @ p["q"]).reshape(B, T, 3, heads, D // heads).transpose(2, 0, 3, 1, 4)
    a = jax.nn.softmax(jnp.where(mask, (q @ k.swapaxes(-1, -2)) / np.float32(np.sqrt(D // heads)), -1e9))
    h = x + (a @ v).transpose(0, 2, 1, 3).reshape(B, T, D) @ p["o"]
    z = _norm(h, p["s2"], p["c2"])
    h = h + jax.nn.gelu(z @ p["u"] + p["bu"]) @ p["d"] + p["bd"]
    return jnp.mean((h - target) ** 2)


def cnn(p: Any, x: Any, y: Any) -> Any:
    def layer(x: Any, w: Any) -> Any:
        convolved = jax.nn.relu(lax.conv_general_dilated(x, w, (1, 1), "SAME"))
        return lax.reduce_window(convolved, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
    return _cross_entropy(layer(layer(x, p[0]), p[1]).reshape(len(x), -1) @ p[2], y)


def rnn(p: Any, x: Any, y: Any) -> Any:
    def cell(h: Any, row: Any) -> Any:
        return jnp.tanh(row @ p[0] + h @ p[1] + p[2]), None
    h, _ = lax.scan(cell, jnp.zeros((x.shape[1], p[2].size), x.dtype), x)
    return jnp.mean((h @ p[3] - y) ** 2)


def logreg(p: Any, X: Any, y: Any) -> Any:
    z = X @ p[0]
    return jnp.sum(y * z - jnp.logaddexp(0.0, z)) - 0.5 * jnp.sum(p[0] * p[0])


def gmm(p: Any, X: Any) -> Any:
    al, mu, icf = p
    (n, d), k = X.shape, len(al)
    rows, columns = lower_triangle(d)
    Qd = jnp.exp(icf[:, :d])
    L = jnp.zeros((k, d, d), X.dtype).at[:, rows, columns].set(icf[:, d:])
    xc = X[:, None, :] - mu[None]
    Qx = Qd[None] * xc + jnp.einsum("kij,nkj->nki", L, xc)
    main = al + icf[:, :d].sum(1) - 0.5 * (Qx ** 2).sum(-1)
    return (jax.nn.logsumexp(main, 1).sum() - n * jax.nn.logsumexp(al) + 0.5 * (Qd ** 2).sum() + 0.5 * (icf[:, d:] ** 2).sum()
            - icf[:, :d].sum())


def gp(p: Any, X: Any, y: Any) -> Any:
    lengths, scales = p
    z = X * jnp.exp(-lengths)
    squares = jnp.sum(z * z, axis=1)
    kernel = jnp.exp(2 * scales[0] - 0.5 * (squares[:, None] + squares[None] - 2 * z @ z.T))
    factor = jnp.linalg.cholesky(kernel + jnp.exp(2 * scales[1]) * jnp.eye(len(y), dtype=y.dtype))
    half = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * jnp.sum(half ** 2) + jnp.sum(jnp.log(jnp.diagonal(factor)))


LOSS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}


def _cross_entropy(logits: Any, y: Any) -> Any:
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), y[:, None], 1))


def _norm(x: Any, s: Any, b: Any) -> Any:
    mean = x.mean(-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(-1, keepdims=True)
    return (x - mean) * lax.rsqrt(variance + 1e-5) * s + b
