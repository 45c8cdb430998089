"""The ten problems in adjit: the programs that benchmarks time and that golden tests count.

A workload is a compiled function and its arguments; where the function is a training step, its first results are the next call's first
arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, PROBLEMS, Problem, lower_triangle

import adjit as aj

f32 = np.float32
FLUSHING = ("auto", "native")
"""Backends whose training steps take subnormal numbers for zeros, as JAX always does."""


@dataclass
class Workload:
    """`function(*arguments)`; the first `carried` results replace the first arguments in the next call.

    `gradients(*arguments)` gives value and gradients at the arguments, and changes nothing.
    """

    name: str
    function: Any
    gradients: Callable[..., Any]
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


def workload(problem: Problem, backend: str = "auto") -> Workload:
    """The problem as a program of adjit; parameters are copies of the problem's."""
    return MAKERS[problem.name](problem, backend)


def _copy(params: Any) -> Any:
    return {name: p.copy() for name, p in params.items()} if isinstance(params, dict) else [p.copy() for p in params]


def _sgd(loss: Callable[..., Any], problem: Problem, backend: str) -> Workload:
    sgd = aj.optim.sgd(LEARNING_RATE)
    params = _copy(problem.params)

    @aj.compile(donate=("params",), backend=backend, flush_subnormals=backend in FLUSHING)
    def step(params: Any, *data: Any) -> Any:
        value, grads = aj.value_and_grad(loss)(params, *data)
        return sgd.update(params, grads, sgd.init(params))[0], value
    return Workload(problem.name, step, aj.value_and_grad(loss), (params, *problem.data), 1)


def tiny(problem: Problem, backend: str) -> Workload:
    def loss(p: Any, x: Any, y: Any) -> Any:
        hidden = aj.nn.functional.relu(x @ p[0] + p[1])
        return np.mean((hidden @ p[2] + p[3] - y) ** 2)
    return _sgd(loss, problem, backend)


def mlp(problem: Problem, backend: str) -> Workload:
    adam = aj.optim.adam(ADAM_RATE, ADAM_BETAS, ADAM_EPSILON)

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = x
        for i in range(0, len(p), 2):
            h = h @ p[i] + p[i + 1]
            if i < len(p) - 2:
                h = aj.nn.functional.relu(h)
        return aj.nn.functional.cross_entropy(h, y)

    @aj.compile(donate=("params", "state"), backend=backend, flush_subnormals=backend in FLUSHING)
    def step(params: Any, state: Any, x: Any, y: Any) -> Any:
        value, grads = aj.value_and_grad(loss)(params, x, y)
        params, state = adam.update(params, grads, state)
        return params, state, value

    def gradients(params: Any, state: Any, x: Any, y: Any) -> Any:
        return aj.value_and_grad(loss)(params, x, y)
    params = _copy(problem.params)
    return Workload("mlp", step, gradients, (params, adam.init(params), *problem.data), 2)


def chain(problem: Problem, backend: str) -> Workload:
    @aj.compile(backend=backend)
    def function(x: Any, w: Any, b: Any) -> Any:
        def loss(x: Any, w: Any, b: Any) -> Any:
            return np.sum(aj.nn.functional.gelu(x * w + b, approximate="tanh") ** 2)
        return aj.value_and_grad(loss, argnums=(0, 1, 2))(x, w, b)
    return _value_and_gradients(function, problem)


def lnsm(problem: Problem, backend: str) -> Workload:
    @aj.compile(backend=backend)
    def function(x: Any, s: Any, b: Any, t: Any) -> Any:
        def loss(x: Any, s: Any, b: Any) -> Any:
            mean = x.mean(-1, keepdims=True)
            variance = ((x - mean) ** 2).mean(-1, keepdims=True)
            h = (x - mean) / np.sqrt(variance + 1e-5) * s + b
            return np.sum(aj.nn.functional.softmax(h) * t)
        return aj.value_and_grad(loss, argnums=(0, 1, 2))(x, s, b)
    return _value_and_gradients(function, problem)


def transformer(problem: Problem, backend: str) -> Workload:
    batch, length, D = problem.data[0].shape
    heads = problem.constants["heads"]
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
    return _sgd(loss, problem, backend)


def cnn(problem: Problem, backend: str) -> Workload:
    """With the functions of `nn.functional`."""
    batch = len(problem.data[0])
    f = aj.nn.functional

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = f.max_pool2d(f.relu(f.conv2d(x, p[0], padding=1)), 2)
        h = f.max_pool2d(f.relu(f.conv2d(h, p[1], padding=1)), 2)
        return f.cross_entropy(h.reshape(batch, -1) @ p[2], y)
    return _sgd(loss, problem, backend)


def rnn(problem: Problem, backend: str) -> Workload:
    B, H = problem.data[0].shape[1], len(problem.named_params["2"])

    def loss(p: Any, x: Any, y: Any) -> Any:
        def step(h: Any, row: Any) -> tuple[Any, None]:
            return np.tanh(row @ p[0] + h @ p[1] + p[2]), None
        h, _ = aj.scan(step, aj.numpy.zeros((B, H), f32), x)
        return np.mean((h @ p[3] - y) ** 2)
    return _sgd(loss, problem, backend)


def logreg(problem: Problem, backend: str) -> Workload:
    @aj.compile(backend=backend)
    def function(b: Any, X: Any, y: Any) -> Any:
        def objective(b: Any) -> Any:
            z = X @ b
            return np.sum(y * z - np.logaddexp(0.0, z)) - 0.5 * np.sum(b * b)
        return aj.value_and_grad(objective)(b)
    return _value_and_gradients(function, problem)


def gmm(problem: Problem, backend: str) -> Workload:
    n, d = problem.data[0].shape
    k = len(problem.named_params["0"])
    rows, cols = lower_triangle(d)

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
    return _value_and_gradients(function, problem)


def gp(problem: Problem, backend: str) -> Workload:
    def objective(lengths: Any, scales: Any, X: Any, y: Any) -> Any:
        z = X * np.exp(-lengths)
        squares = np.sum(z * z, axis=1)
        kernel = np.exp(2 * scales[0] - 0.5 * (squares[:, None] + squares[None] - 2 * z @ z.T))
        factor = np.linalg.cholesky(kernel + np.exp(2 * scales[1]) * np.eye(len(y)))
        half = aj.linalg.solve_triangular(factor, y, lower=True)
        return 0.5 * np.sum(half ** 2) + np.sum(np.log(np.diagonal(factor)))

    @aj.compile(backend=backend)
    def function(lengths: Any, scales: Any, X: Any, y: Any) -> Any:
        return aj.value_and_grad(objective, argnums=(0, 1))(lengths, scales, X, y)
    return _value_and_gradients(function, problem)


def _value_and_gradients(function: Any, problem: Problem) -> Workload:
    return Workload(problem.name, function, function, (*_copy(problem.params), *problem.data))


MAKERS: dict[str, Callable[[Problem, str], Workload]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}


def _at_full_size(name: str, backend: str = "auto") -> Workload:
    return workload(PROBLEMS[name](), backend)


WORKLOADS: dict[str, Callable[..., Workload]] = {name: partial(_at_full_size, name) for name in PROBLEMS}
