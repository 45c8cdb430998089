"""The peers' side of the comparison: the same workloads as a user of JAX, PyTorch or HIPS autograd would write them.

Each function gives the library's workloads, for the data of ours, and raises ImportError where the library is not installed.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable
from typing import Any

import numpy as np
from tasks import LOSSES, Data, Library, Task


def _tree(data: Data, position: int) -> Any:
    """The argument at a position: an array, a list, or a dict of arrays."""
    if str(position) in data:
        return data[str(position)]
    found = {name.split("/", 1)[1]: array for name, array in data.items() if name.startswith(f"{position}/")}
    return [found[str(i)] for i in range(len(found))] if "0" in found else found


def jax() -> Library:
    """Everything jitted; the parameters and state of Adam are donated."""
    import jax
    import jax.numpy as jnp

    def mlp(data: Data) -> Task:
        def loss(params: Any, x: Any, y: Any) -> Any:
            h = x
            for i in range(0, len(params), 2):
                h = h @ params[i] + params[i + 1]
                if i < len(params) - 2:
                    h = jax.nn.relu(h)
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1))

        def adam(p: Any, g: Any, m: Any, v: Any, t: Any) -> Any:
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            return p - 1e-3 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(v / (1 - 0.999 ** t)) + 1e-8), m, v

        def train(params: Any, means: Any, variances: Any, t: Any, x: Any, y: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(params, x, y)
            new = [adam(*each, t + 1) for each in zip(params, gradients, means, variances, strict=True)]
            return value, [n[0] for n in new], [n[1] for n in new], [n[2] for n in new], t + 1

        train = jax.jit(train, donate_argnums=(0, 1, 2))
        state: list[Any] = []
        batch = jnp.asarray(data["2"]), jnp.asarray(data["3"])

        def reset() -> None:
            params = [jnp.array(p) for p in _tree(data, 0)]
            state[:] = [params, [jnp.zeros_like(p) for p in params], [jnp.zeros_like(p) for p in params], jnp.float32(0)]

        def step() -> Any:
            value, *state[:] = train(*state, *batch)
            return jax.block_until_ready(value)

        reset()
        losses = [step()]
        readings = {f"gradient 0/{i}": np.array(m) / 0.1 for i, m in enumerate(state[1])}
        losses += [step() for _ in range(LOSSES - 1)]
        return Task(step, {"losses": np.array(losses), **readings}, lambda: temporary_bytes(train, *state, *batch), reset)

    def lnsm(data: Data) -> Task:
        arguments = [jnp.asarray(_tree(data, i)) for i in range(4)]

        def loss(x: Any, s: Any, b: Any, t: Any) -> Any:
            mean = x.mean(-1, keepdims=True)
            variance = ((x - mean) ** 2).mean(-1, keepdims=True)
            return jnp.sum(jax.nn.softmax((x - mean) / jnp.sqrt(variance + 1e-5) * s + b) * t)

        gradients = jax.jit(jax.value_and_grad(loss, (0, 1, 2)))

        def step() -> Any:
            return jax.block_until_ready(gradients(*arguments))
        return Task(step, _value_and_gradients(*step()), lambda: temporary_bytes(gradients, *arguments))

    def transformer(data: Data) -> Task:
        x, target = jnp.asarray(data["1"]), jnp.asarray(data["2"])
        (B, T, D), H = x.shape, 8
        mask = jnp.tril(jnp.ones((T, T), bool))

        def norm(x: Any, s: Any, b: Any) -> Any:
            mean = x.mean(-1, keepdims=True)
            variance = ((x - mean) ** 2).mean(-1, keepdims=True)
            return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * s + b

        def loss(p: Any, x: Any, target: Any) -> Any:
            q, k, v = (norm(x, p["s1"], p["c1"]) @ p["q"]).reshape(B, T, 3, H, D // H).transpose(2, 0, 3, 1, 4)
            a = (q @ k.swapaxes(-1, -2)) / np.float32(np.sqrt(D // H))
            a = jax.nn.softmax(jnp.where(mask, a, -1e9))
            h = x + (a @ v).transpose(0, 2, 1, 3).reshape(B, T, D) @ p["o"]
            z = norm(h, p["s2"], p["c2"])
            h = h + jax.nn.gelu(z @ p["u"] + p["bu"]) @ p["d"] + p["bd"]
            return jnp.mean((h - target) ** 2)

        def train(p: Any, x: Any, target: Any) -> Any:
            value, gradients = jax.value_and_grad(loss)(p, x, target)
            return value, {name: p[name] - 0.01 * gradients[name] for name in p}

        train = jax.jit(train)      # donation would take it 3 MB more of temporaries
        state: list[Any] = []

        def reset() -> None:
            state[:] = [{name: jnp.array(array) for name, array in _tree(data, 0).items()}]

        def step() -> Any:
            value, state[0] = train(state[0], x, target)
            return jax.block_until_ready(value)

        reset()
        losses = [step()]
        readings = {f"update 0/{name}": np.array(p) - data[f"0/{name}"] for name, p in state[0].items()}
        losses += [step() for _ in range(LOSSES - 1)]
        return Task(step, {"losses": np.array(losses), **readings}, lambda: temporary_bytes(train, *state, x, target), reset)

    def temporary_bytes(function: Any, *arguments: Any) -> int:
        return int(function.lower(*arguments).compile().memory_analysis().temp_size_in_bytes)

    return Library(_versions("jax", "jaxlib"), None, {"mlp": mlp, "lnsm": lnsm, "transformer": transformer})


def torch() -> Library:
    """Eager PyTorch with its fused functions."""
    import torch
    from torch.nn import functional

    def parameter(array: np.ndarray) -> Any:
        return torch.tensor(array, requires_grad=True)

    def mlp(data: Data) -> Task:
        params = [parameter(p) for p in _tree(data, 0)]
        x, y = torch.tensor(data["2"]), torch.tensor(data["3"])
        optimizer = torch.optim.Adam(params, lr=1e-3, fused=True)

        def step() -> Any:
            optimizer.zero_grad()
            h = x
            for i in range(0, len(params), 2):
                h = torch.addmm(params[i + 1], h, params[i])
                if i < len(params) - 2:
                    h = functional.relu(h)
            loss = functional.cross_entropy(h, y)
            loss.backward()
            optimizer.step()
            return loss

        def reset() -> None:
            optimizer.state.clear()
            with torch.no_grad():
                for p, array in zip(params, _tree(data, 0), strict=True):
                    p.copy_(torch.from_numpy(array))

        losses = [step().item()]
        readings = {f"gradient 0/{i}": p.grad.numpy().copy() for i, p in enumerate(params)}
        losses += [step().item() for _ in range(LOSSES - 1)]
        return Task(step, {"losses": np.array(losses, np.float32), **readings}, reset=reset)

    def lnsm(data: Data) -> Task:
        x, s, b = (parameter(_tree(data, i)) for i in range(3))
        t = torch.tensor(data["3"])

        def step() -> Any:
            x.grad = s.grad = b.grad = None
            loss = (functional.softmax(functional.layer_norm(x, s.shape, s, b), -1) * t).sum()
            loss.backward()
            return loss
        value = step().detach()
        return Task(step, _value_and_gradients(value, [p.grad.numpy().copy() for p in (x, s, b)]))

    return Library(_versions("torch"), torch.get_num_threads(), {"mlp": mlp, "lnsm": lnsm})


def autograd() -> Library:
    """HIPS autograd; its speed is NumPy's and Python's."""
    import autograd.numpy as anp
    from autograd import value_and_grad

    def logreg(data: Data) -> Task:
        b, X, y = (_tree(data, i) for i in range(3))

        def objective(b: Any) -> Any:
            z = anp.dot(X, b)
            return anp.sum(y * z - anp.logaddexp(0.0, z)) - 0.5 * anp.sum(b * b)

        gradient = value_and_grad(objective)

        def step() -> Any:
            return gradient(b)
        value, grad = step()
        return Task(step, _value_and_gradients(value, [grad]))

    return Library(_versions("autograd"), None, {"logreg": logreg})


def _value_and_gradients(value: Any, gradients: Any) -> dict[str, np.ndarray]:
    return {"losses": np.array([value]), **{f"gradient {i}": np.array(g) for i, g in enumerate(gradients)}}


def _versions(*names: str) -> dict[str, str]:
    return {name: importlib.metadata.version(name) for name in names}


PEERS: dict[str, Callable[[], Library]] = {"jax": jax, "torch": torch, "autograd": autograd}
