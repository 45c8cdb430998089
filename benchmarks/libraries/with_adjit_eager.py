"""adjit's eager tensors, define-by-run: parameters, `backward()` and an optimiser; or the same training step captured by `aj.compile`."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle
from tasks import Library, Readings, Task, gradient_readings, training_readings

import adjit as aj
from adjit.nn import functional

Step = Callable[..., Any]


def library(compiler: Callable[[Step], Step] = lambda function: function) -> Library:
    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        @compiler
        def total(*arrays: Any) -> Any:
            return sum(arrays[1:], arrays[0] * 2)
        tensors = [aj.tensor(array) for array in arrays]
        return lambda: total(*tensors)
    return Library({"adjit": importlib.metadata.version("adjit")}, None, lambda problem: open_task(problem, compiler), small_sum)


def open_task(problem: Problem, compiler: Callable[[Step], Step]) -> Task:
    loss = LOSS_FUNCTIONS[problem.name]
    params: Any = {name: aj.nn.Parameter(aj.tensor(array.copy())) for name, array in problem.named_params.items()}
    leaves = dict(params)
    params = params if isinstance(problem.params, dict) else list(params.values())
    data = [aj.tensor(array) for array in problem.data]
    optimizer: Any = None
    if problem.kind == "sgd":
        optimizer = aj.optim.SGD(list(leaves.values()), lr=LEARNING_RATE)
    elif problem.kind == "adam":
        optimizer = aj.optim.Adam(list(leaves.values()), lr=ADAM_RATE, betas=ADAM_BETAS, eps=ADAM_EPSILON)

    @compiler
    def train(params: Any, optimizer: Any, *data: Any) -> Any:
        optimizer.zero_grad()
        value = loss(params, *data, **problem.constants)
        value.backward()
        optimizer.step()
        return value

    @compiler
    def differentiate(params: Any, *data: Any) -> Any:
        value = loss(params, *data, **problem.constants)
        value.backward()
        return value

    def compute() -> Any:
        for p in leaves.values():
            p.grad = None
        return differentiate(params, *data)

    def step() -> Any:
        return train(params, optimizer, *data) if optimizer else compute()

    initial = optimizer.state_dict() if optimizer else {}

    def reset() -> None:
        if optimizer:
            with aj.no_grad():
                for name, p in leaves.items():
                    p.copy_(aj.tensor(problem.named_params[name]))
            optimizer.load_state_dict(initial)

    def gradients() -> dict[str, Any]:
        compute()
        return {name: p.grad.numpy() for name, p in leaves.items()}

    def readings() -> Readings:
        if not optimizer:
            return gradient_readings(problem, compute().item(), gradients())
        return training_readings(problem, reset, lambda: step().item(), lambda: {name: p.detach().numpy() for name, p in leaves.items()},
                                 gradients)
    def planned_bytes() -> int | None:
        program: Any = train if optimizer else differentiate
        return int(program.memory().arena_bytes) if isinstance(program, aj.CompiledFunction) else None
    return Task(step, reset, readings, planned_bytes)


def tiny(p: Any, x: Any, y: Any) -> Any:
    return functional.mse_loss(functional.relu(x @ p[0] + p[1]) @ p[2] + p[3], y)


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = x
    for i in range(0, len(p), 2):
        h = h @ p[i] + p[i + 1]
        if i < len(p) - 2:
            h = functional.relu(h)
    return functional.cross_entropy(h, y)


def chain(p: Any) -> Any:
    x, w, b = p
    return np.sum(functional.gelu(x * w + b, approximate="tanh") ** 2)


def lnsm(p: Any, t: Any) -> Any:
    x, s, b = p
    return np.sum(functional.softmax(functional.layer_norm(x, s.shape, s, b), -1) * t)


def transformer(p: Any, x: Any, target: Any, heads: int) -> Any:
    B, T, D = x.shape
    h = functional.layer_norm(x, (D,), p["s1"], p["c1"])
    q, k, v = (h @ p["q"]).reshape(B, T, 3, heads, D // heads).permute(2, 0, 3, 1, 4)
    a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    h = x + a.transpose(1, 2).reshape(B, T, D) @ p["o"]
    z = functional.layer_norm(h, (D,), p["s2"], p["c2"])
    h = h + functional.gelu(z @ p["u"] + p["bu"], approximate="tanh") @ p["d"] + p["bd"]
    return functional.mse_loss(h, target)


def cnn(p: Any, x: Any, y: Any) -> Any:
    h = functional.max_pool2d(functional.relu(functional.conv2d(x, p[0], padding=1)), 2)
    h = functional.max_pool2d(functional.relu(functional.conv2d(h, p[1], padding=1)), 2)
    return functional.cross_entropy(h.reshape(len(x), -1) @ p[2], y)


def rnn(p: Any, x: Any, y: Any) -> Any:
    h = aj.tensor(np.zeros((x.shape[1], p[2].shape[0]), np.float32))
    for row in x @ p[0] + p[2]:
        h = np.tanh(row + h @ p[1])
    return functional.mse_loss(h @ p[3], y)


def logreg(p: Any, X: Any, y: Any) -> Any:
    z = X @ p[0]
    return np.sum(y * z - np.logaddexp(0.0, z)) - 0.5 * np.sum(p[0] * p[0])


def gmm(p: Any, X: Any) -> Any:
    """The triangle is gathered from a row with a zero in front."""
    al, mu, icf = p
    (n, d), k = X.shape, len(al)
    indices = np.zeros((d, d), int)
    indices[lower_triangle(d)] = np.arange(1, d * (d - 1) // 2 + 1)
    L = np.concatenate([aj.tensor(np.zeros((k, 1))), icf[:, d:]], axis=1)[:, indices]
    Qd = np.exp(icf[:, :d])
    xc = X[:, None, :] - mu[None]
    Qx = Qd[None] * xc + np.einsum("kij,nkj->nki", L, xc)
    main = al + icf[:, :d].sum(1) - 0.5 * (Qx ** 2).sum(-1)
    return (aj.numpy.logsumexp(main, axis=1).sum() - n * aj.numpy.logsumexp(al) + 0.5 * (Qd ** 2).sum() + 0.5 * (icf[:, d:] ** 2).sum()
            - icf[:, :d].sum())


def gp(p: Any, X: Any, y: Any) -> Any:
    lengths, scales = p
    z = X * np.exp(-lengths)
    squares = np.sum(z * z, axis=1)
    kernel = np.exp(2 * scales[0] - 0.5 * (squares[:, None] + squares[None] - 2 * z @ z.T))
    factor = np.linalg.cholesky(kernel + np.exp(2 * scales[1]) * np.eye(len(y)))
    half = aj.linalg.solve_triangular(factor, y, lower=True)
    return 0.5 * np.sum(half ** 2) + np.sum(np.log(np.diagonal(factor)))


LOSS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}
