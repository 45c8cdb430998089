"""PyTorch: eager, and under `torch.compile` (fullgraph, static shapes); its fused functions and fused optimisers in both."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle, named
from tasks import Library, Readings, Task, gradient_readings, training_readings
from torch.nn import functional

Compiler = Callable[[Callable[..., Any]], Callable[..., Any]]


def library(compiler: Compiler = lambda function: function) -> Library:
    torch.set_flush_denormal(True)      # before it has threads: they take it over from this one

    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        @compiler
        def total(*arrays: Any) -> Any:
            return sum(arrays[1:], arrays[0] * 2)
        tensors = [torch.from_numpy(array) for array in arrays]
        return lambda: total(*tensors)
    facts = {"parallel": torch.__config__.parallel_info().splitlines(), "mkl": torch.backends.mkl.is_available()}
    return Library({"torch": importlib.metadata.version("torch")}, torch.get_num_threads(), lambda problem: open_task(problem, compiler),
                   small_sum, facts)


def open_task(problem: Problem, compiler: Compiler) -> Task:
    def parameter(array: np.ndarray) -> Any:
        return torch.tensor(array, requires_grad=True)

    if isinstance(problem.params, dict):
        params: Any = {name: parameter(array) for name, array in problem.params.items()}
    else:
        params = [parameter(array) for array in problem.params]
    leaves = list(named(params).values())
    data = [torch.from_numpy(array) for array in problem.data]
    constants = {name: torch.from_numpy(array) for name, array in CONSTANTS.get(problem.name, lambda _: {})(problem).items()}
    loss = compiler(LOSS_FUNCTIONS[problem.name])
    optimizer: Any = None
    if problem.kind == "sgd":
        optimizer = torch.optim.SGD(leaves, lr=LEARNING_RATE, fused=True)
    elif problem.kind == "adam":
        optimizer = torch.optim.Adam(leaves, lr=ADAM_RATE, betas=ADAM_BETAS, eps=ADAM_EPSILON, fused=True)

    def compute() -> Any:
        for leaf in leaves:
            leaf.grad = None
        value = loss(params, *data, **problem.constants, **constants)
        value.backward()
        return value

    def train() -> Any:
        value = compute()
        optimizer.step()
        return value

    def reset() -> None:
        with torch.no_grad():
            for leaf, array in zip(leaves, problem.named_params.values(), strict=True):
                leaf.copy_(torch.from_numpy(array))
        if optimizer is not None:
            optimizer.state.clear()

    def gradients() -> dict[str, Any]:
        return {name: leaf.grad.numpy() for name, leaf in named(params).items()}

    def readings() -> Readings:
        value = compute()
        if problem.kind == "gradient":
            return gradient_readings(problem, value.detach(), gradients())
        return training_readings(problem, reset, lambda: train().detach(), lambda: {n: p.detach() for n, p in named(params).items()},
                                 lambda: (compute(), gradients())[1])
    return Task(compute if problem.kind == "gradient" else train, reset, readings)


def tiny(p: Any, x: Any, y: Any) -> Any:
    return functional.mse_loss(torch.addmm(p[3], functional.relu(torch.addmm(p[1], x, p[0])), p[2]), y)


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = x
    for i in range(0, len(p), 2):
        h = torch.addmm(p[i + 1], h, p[i])
        if i < len(p) - 2:
            h = functional.relu(h)
    return functional.cross_entropy(h, y)


def chain(p: Any) -> Any:
    x, w, b = p
    return (functional.gelu(x * w + b, approximate="tanh") ** 2).sum()


def lnsm(p: Any, t: Any) -> Any:
    x, s, b = p
    return (functional.softmax(functional.layer_norm(x, s.shape, s, b), -1) * t).sum()


def transformer(p: Any, x: Any, target: Any, heads: int) -> Any:
    B, T, D = x.shape
    h = functional.layer_norm(x, (D,), p["s1"], p["c1"])
    q, k, v = (h @ p["q"]).reshape(B, T, 3, heads, D // heads).permute(2, 0, 3, 1, 4).unbind(0)
    a = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    h = x + a.transpose(1, 2).reshape(B, T, D) @ p["o"]
    z = functional.layer_norm(h, (D,), p["s2"], p["c2"])
    h = h + functional.gelu(z @ p["u"] + p["bu"], approximate="tanh") @ p["d"] + p["bd"]
    return functional.mse_loss(h, target)


def cnn(p: Any, x: Any, y: Any) -> Any:
    h = functional.max_pool2d(functional.relu(functional.conv2d(x, p[0], padding=1)), 2)
    h = functional.max_pool2d(functional.relu(functional.conv2d(h, p[1], padding=1)), 2)
    return functional.cross_entropy(h.flatten(1) @ p[2], y)


def rnn(p: Any, x: Any, y: Any) -> Any:
    h = x.new_zeros(x.shape[1], p[2].shape[0])
    for row in (x @ p[0] + p[2]).unbind(0):
        h = torch.tanh(torch.addmm(row, h, p[1]))
    return functional.mse_loss(h @ p[3], y)


def logreg(p: Any, X: Any, y: Any) -> Any:
    z = X @ p[0]
    return (y * z - functional.softplus(z)).sum() - 0.5 * (p[0] * p[0]).sum()


def gmm(p: Any, X: Any, rows: Any, columns: Any) -> Any:
    al, mu, icf = p
    (n, d), k = X.shape, len(al)
    Qd = torch.exp(icf[:, :d])
    L = X.new_zeros(k, d, d).index_put((torch.arange(k)[:, None], rows[None], columns[None]), icf[:, d:])
    xc = X[:, None, :] - mu[None]
    Qx = Qd[None] * xc + torch.einsum("kij,nkj->nki", L, xc)
    main = al + icf[:, :d].sum(1) - 0.5 * (Qx ** 2).sum(-1)
    return (torch.logsumexp(main, 1).sum() - n * torch.logsumexp(al, 0) + 0.5 * (Qd ** 2).sum() + 0.5 * (icf[:, d:] ** 2).sum()
            - icf[:, :d].sum())


def gp(p: Any, X: Any, y: Any) -> Any:
    lengths, scales = p
    z = X * torch.exp(-lengths)
    squares = torch.sum(z * z, dim=1)
    kernel = torch.exp(2 * scales[0] - 0.5 * (squares[:, None] + squares[None] - 2 * z @ z.T))
    factor = torch.linalg.cholesky(kernel + torch.exp(2 * scales[1]) * torch.eye(len(y), dtype=y.dtype))
    half = torch.linalg.solve_triangular(factor, y[:, None], upper=False)
    return 0.5 * torch.sum(half ** 2) + torch.sum(torch.log(torch.diagonal(factor)))


LOSS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}

CONSTANTS: dict[str, Callable[[Problem], dict[str, np.ndarray]]] = {
    "gmm": lambda problem: dict(zip(("rows", "columns"), lower_triangle(problem.data[0].shape[1]), strict=True))}
"""Index arrays that a loss takes beside its data."""
