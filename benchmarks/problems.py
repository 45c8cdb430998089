"""The ten problems that every library solves: their data, made from a seed by NumPy alone, and the least work that they take.

A problem is a loss of parameters and data. `kind` says what one step does: `gradient` computes the loss and its gradients, `sgd` and
`adam` update the parameters with them as well. Sizes are arguments, for the curves of how cost grows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = np.ndarray
f32 = np.float32

LEARNING_RATE = 0.01
"""Of `sgd`."""

ADAM_RATE, ADAM_BETAS, ADAM_EPSILON = 1e-3, (0.9, 0.999), 1e-8


@dataclass(frozen=True)
class Problem:
    """One problem at one size.

    params       what is differentiated: a list of arrays, or a dict of them
    data         the other arguments of the loss
    constants    sizes that the arrays do not tell
    operations   floating-point operations of a step: two for each multiply-add of a product, one for each result of an elementwise function
    """

    name: str
    kind: Literal["sgd", "adam", "gradient"]
    params: list[Array] | dict[str, Array]
    data: tuple[Array, ...]
    operations: float
    constants: Mapping[str, int]

    @property
    def named_params(self) -> dict[str, Array]:
        return named(self.params)

    @property
    def dtype(self) -> np.dtype:
        return next(iter(self.named_params.values())).dtype

    @property
    def least_bytes(self) -> int:
        """Bytes that a step has to move if nothing else ever leaves the caches: data are read; parameters, and what Adam keeps of them,
        read and written; of a gradient problem the gradients written.
        """
        params = sum(array.nbytes for array in self.named_params.values())
        return sum(array.nbytes for array in self.data) + params * {"gradient": 2, "sgd": 2, "adam": 6}[self.kind]


def named(params: Sequence[Any] | Mapping[str, Any]) -> dict[str, Any]:
    """Parameters by name: those of a list by their index.

    >>> named([1.5, 2.5])
    {'0': 1.5, '1': 2.5}
    """
    return dict(params) if isinstance(params, Mapping) else {str(i): value for i, value in enumerate(params)}


def _rand(generator: np.random.Generator, *shape: int, scale: float = 1.0) -> Array:
    return (generator.standard_normal(shape) * scale).astype(f32)


def tiny() -> Problem:
    """A 2-3-1 network, batch 10, SGD."""
    g = np.random.default_rng(0)
    params = [_rand(g, 2, 3), np.zeros(3, f32), _rand(g, 3, 1), np.zeros(1, f32)]
    return Problem("tiny", "sgd", params, (_rand(g, 10, 2), _rand(g, 10, 1)), _network_operations((2, 3, 1), 10, update=2), {})


def mlp(sizes: Sequence[int] = (784, 512, 256, 10), batch: int = 128) -> Problem:
    """A 784-512-256-10 classifier, batch 128, cross entropy, Adam."""
    g = np.random.default_rng(0)
    params = []
    for i, o in itertools.pairwise(sizes):
        params += [_rand(g, i, o, scale=(2 / i) ** 0.5), np.zeros(o, f32)]
    data = _rand(g, batch, sizes[0]), g.integers(0, sizes[-1], batch)
    return Problem("mlp", "adam", params, data, _network_operations(sizes, batch, update=12), {})


def chain(size: int = 4_000_000) -> Problem:
    """sum(gelu(x * w + b)**2) of four million elements, and its three gradients."""
    g = np.random.default_rng(0)
    return Problem("chain", "gradient", [_rand(g, size) for _ in range(3)], (), 30 * size, {})


def lnsm(rows: int = 4096, columns: int = 1024) -> Problem:
    """Layer norm and softmax of 4096 rows of 1024, and three gradients."""
    g = np.random.default_rng(0)
    params = [_rand(g, rows, columns), _rand(g, columns), _rand(g, columns)]
    return Problem("lnsm", "gradient", params, (_rand(g, rows, columns),), 30 * rows * columns, {})


def transformer(batch: int = 8, length: int = 128, width: int = 256, heads: int = 8) -> Problem:
    """One transformer block with causal attention, width 256, 8 heads, batch 8 of length 128, SGD."""
    g = np.random.default_rng(0)
    D = width
    params = {"q": _rand(g, D, 3 * D, scale=0.06), "o": _rand(g, D, D, scale=0.06), "u": _rand(g, D, 4 * D, scale=0.06),
              "d": _rand(g, 4 * D, D, scale=0.03), "bu": np.zeros(4 * D, f32), "bd": np.zeros(D, f32), "s1": np.ones(D, f32),
              "c1": np.zeros(D, f32), "s2": np.ones(D, f32), "c2": np.zeros(D, f32)}
    data = _rand(g, batch, length, D), _rand(g, batch, length, D)
    tokens = batch * length
    products = 3 * 2 * tokens * 12 * D * D + 3 * 2 * 2 * batch * length * length * D
    elementwise = tokens * D * (2 * 20 + 4 * 25 + 10) + 10 * batch * heads * length * length
    return Problem("transformer", "sgd", params, data, products + elementwise, {"heads": heads})


def cnn(batch: int = 64) -> Problem:
    """Two 3x3 convolutions with max pooling on 64 images of 28x28, cross entropy, SGD."""
    g = np.random.default_rng(0)
    params = [_rand(g, 16, 1, 3, 3, scale=0.3), _rand(g, 32, 16, 3, 3, scale=0.1), _rand(g, 32 * 7 * 7, 10, scale=0.03)]
    data = _rand(g, batch, 1, 28, 28), g.integers(0, 10, batch)
    products = 2 * batch * (2 * 784 * 16 * 9 + 3 * 196 * 32 * 144 + 3 * 1568 * 10)
    elementwise = 8 * batch * (784 * 16 + 196 * 32)
    return Problem("cnn", "sgd", params, data, products + elementwise, {})


def rnn(steps: int = 64) -> Problem:
    """A recurrent network of 128 units over 64 steps, batch 32, SGD."""
    g = np.random.default_rng(0)
    T, B, D, H = steps, 32, 64, 128
    params = [_rand(g, D, H, scale=0.1), _rand(g, H, H, scale=0.08), np.zeros(H, f32), _rand(g, H, 1, scale=0.1)]
    data = _rand(g, T, B, D), _rand(g, B, 1)
    return Problem("rnn", "sgd", params, data, T * B * (2 * D * H * 2 + 2 * H * H * 3 + 8 * H), {})


def logreg() -> Problem:
    """Value and gradient of a logistic regression of 1000 rows of 20, float64."""
    g = np.random.default_rng(0)
    X, y, b = g.standard_normal((1000, 20)), (g.random(1000) > 0.5).astype("f8"), g.standard_normal(20)
    return Problem("logreg", "gradient", [b], (X, y), 4 * X.size + 8 * y.size, {})


def gmm(n: int = 1000, d: int = 10, k: int = 25) -> Problem:
    """Log likelihood of a mixture of 25 Gaussians in 10 dimensions, 1000 points, and its gradients, float64."""
    g = np.random.default_rng(0)
    params = [g.standard_normal(k), g.standard_normal((k, d)), g.standard_normal((k, d + d * (d - 1) // 2)) * 0.3]
    return Problem("gmm", "gradient", params, (g.standard_normal((n, d)),), n * k * (3 * d * d + 12 * d + 10), {})


def gp(n: int = 400, d: int = 5) -> Problem:
    """Likelihood of a Gaussian process at 400 points in 5 dimensions, and its gradients, float64."""
    g = np.random.default_rng(0)
    X = g.standard_normal((n, d))
    params = [0.1 * g.standard_normal(d) + 0.5, np.array([0.1, -1.0])]
    return Problem("gp", "gradient", params, (X, np.sin(X.sum(1)) + 0.1 * g.standard_normal(n)), n ** 3 + n * n * (4 * d + 8), {})


PROBLEMS: dict[str, Callable[..., Problem]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn, "logreg": logreg,
    "gmm": gmm, "gp": gp}


def lower_triangle(d: int) -> tuple[Array, Array]:
    """Rows and columns below the diagonal, in the order in which the `gmm` problem lists these elements."""
    rows, columns = np.tril_indices(d, -1)
    return rows, columns


def _network_operations(sizes: Sequence[int], batch: int, update: int) -> float:
    """Forward and both products of the backward half, but no gradient of the input; `update` operations for each parameter."""
    pairs = list(itertools.pairwise(sizes))
    products = sum(2 * batch * i * o * (2 if index == 0 else 3) for index, (i, o) in enumerate(pairs))
    return products + 4 * batch * sum(sizes[1:]) + update * sum(math.prod(pair) + pair[1] for pair in pairs)
