"""tinygrad on its CPU device: a `TinyJit` around the whole step, its own optimisers; it compiles with clang."""

from __future__ import annotations

import importlib.metadata
import os
import shutil
from collections.abc import Callable
from typing import Any

import numpy as np
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle
from tasks import AbsentError, Library, Readings, Task, gradient_readings, training_readings
from tinygrad import Context, Tensor, TinyJit, nn


def library() -> Library:
    compiler = os.environ.get("CC", "")
    if "clang" not in compiler or not shutil.which(compiler):
        raise AbsentError("its CPU device needs clang, which is not installed")

    def small_sum(arrays: list[np.ndarray]) -> Callable[[], Any]:
        @TinyJit
        def total(*tensors: Tensor) -> Any:
            return sum(tensors[1:], tensors[0] * 2).realize()
        tensors = [Tensor(array).realize() for array in arrays]
        return lambda: _done(total(*tensors))
    versions = {"tinygrad": importlib.metadata.version("tinygrad")}
    return Library(versions, None, open_task, small_sum, {"device": "CPU", "compiler": compiler})


def open_task(problem: Problem) -> Task:
    params: Any = {name: Tensor(array).is_param_().realize() for name, array in problem.named_params.items()}
    leaves = dict(params)
    params = params if isinstance(problem.params, dict) else list(params.values())
    data = [Tensor(array).realize() for array in problem.data]
    loss = LOSS_FUNCTIONS[problem.name]
    optimizer = None
    if problem.kind == "sgd":
        optimizer = nn.optim.SGD(list(leaves.values()), lr=LEARNING_RATE)
    elif problem.kind == "adam":
        optimizer = nn.optim.Adam(list(leaves.values()), lr=ADAM_RATE, b1=ADAM_BETAS[0], b2=ADAM_BETAS[1], eps=ADAM_EPSILON)

    def compute() -> tuple[Any, list[Any]]:
        value = loss(params, *data, **problem.constants)
        return value, list(value.gradient(*leaves.values()))

    @TinyJit
    def compiled() -> Any:
        if optimizer is None:
            value, gradients = compute()
            Tensor.realize(value, *gradients)
            return value, *gradients
        with Context(TRAINING=1):
            optimizer.zero_grad()
            value = loss(params, *data, **problem.constants).backward()
            return value.realize(*optimizer.schedule_step())

    def step() -> Any:
        return _done(compiled())

    def optimizer_state() -> dict[str, Tensor]:
        """By name, asked for anew each time: the optimiser replaces some of its tensors."""
        return {name: tensor for name, tensor in nn.state.get_state_dict(optimizer).items() if not name.startswith("params.")}

    initial = {} if optimizer is None else {name: tensor.numpy().copy() for name, tensor in optimizer_state().items()}

    def reset() -> None:
        if optimizer is None:
            return
        for name, p in leaves.items():
            p.assign(Tensor(problem.named_params[name])).realize()
        for name, tensor in optimizer_state().items():
            tensor.assign(Tensor(initial[name])).realize()

    def readings() -> Readings:
        if problem.kind == "gradient":
            value, *found = step()
            return gradient_readings(problem, value.item(), {name: g.numpy() for name, g in zip(leaves, found, strict=True)})
        return training_readings(problem, reset, lambda: step().item(), lambda: {name: p.numpy() for name, p in leaves.items()},
                                 lambda: {name: g.numpy() for name, g in zip(leaves, compute()[1], strict=True)})
    return Task(step, reset, readings)


def _done(result: Any) -> Any:
    """Results of tinygrad are promises: wait for them, and copy nothing."""
    from tinygrad import Device

    Device[Device.DEFAULT].synchronize()
    return result


def tiny(p: Any, x: Any, y: Any) -> Any:
    return (((x @ p[0] + p[1]).relu() @ p[2] + p[3] - y) ** 2).mean()


def mlp(p: Any, x: Any, y: Any) -> Any:
    h = x
    for i in range(0, len(p), 2):
        h = h @ p[i] + p[i + 1]
        if i < len(p) - 2:
            h = h.relu()
    return h.sparse_categorical_crossentropy(y)


def chain(p: Any) -> Any:
    x, w, b = p
    return ((x * w + b).gelu() ** 2).sum()


def lnsm(p: Any, t: Any) -> Any:
    x, s, b = p
    return ((x.layernorm(eps=1e-5) * s + b).softmax(-1) * t).sum()


def transformer(p: Any, x: Any, target: Any, heads: int) -> Any:
    B, T, D = x.shape
    qkv = ((x.layernorm(eps=1e-5) * p["s1"] + p["c1"]) @ p["q"]).reshape(B, T, 3, heads, D // heads).permute(2, 0, 3, 1, 4)
    a = qkv[0].scaled_dot_product_attention(qkv[1], qkv[2], is_causal=True)
    h = x + a.transpose(1, 2).reshape(B, T, D) @ p["o"]
    z = h.layernorm(eps=1e-5) * p["s2"] + p["c2"]
    h = h + (z @ p["u"] + p["bu"]).gelu() @ p["d"] + p["bd"]
    return ((h - target) ** 2).mean()


def cnn(p: Any, x: Any, y: Any) -> Any:
    h = x.conv2d(p[0], padding=1).relu().max_pool2d((2, 2))
    h = h.conv2d(p[1], padding=1).relu().max_pool2d((2, 2))
    return (h.flatten(1) @ p[2]).sparse_categorical_crossentropy(y)


def rnn(p: Any, x: Any, y: Any) -> Any:
    h = Tensor.zeros(x.shape[1], p[2].shape[0])
    inputs = x @ p[0] + p[2]
    for t in range(x.shape[0]):
        h = (inputs[t] + h @ p[1]).tanh().contiguous()
    return ((h @ p[3] - y) ** 2).mean()


def logreg(p: Any, X: Any, y: Any) -> Any:
    z = X @ p[0]
    return (y * z - z.softplus()).sum() - 0.5 * (p[0] * p[0]).sum()


def gmm(p: Any, X: Any) -> Any:
    """The triangle is gathered from a row with a zero in front."""
    al, mu, icf = p
    (n, d), k = X.shape, al.shape[0]
    indices = np.zeros((d, d), np.int32)
    indices[lower_triangle(d)] = np.arange(1, d * (d - 1) // 2 + 1)
    L = icf[:, d:].pad((1, 0))[:, Tensor(indices.ravel())].reshape(k, d, d)
    Qd = icf[:, :d].exp()
    xc = X[:, None, :] - mu[None]
    Qx = Qd[None] * xc + Tensor.einsum("kij,nkj->nki", L, xc)
    main = al + icf[:, :d].sum(1) - 0.5 * (Qx ** 2).sum(-1)
    return (main.logsumexp(1).sum() - n * al.logsumexp(0) + 0.5 * (Qd ** 2).sum() + 0.5 * (icf[:, d:] ** 2).sum() - icf[:, :d].sum())


def gp(p: Any, X: Any, y: Any) -> Any:
    raise AbsentError("it has no Cholesky factors")


LOSS_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}
