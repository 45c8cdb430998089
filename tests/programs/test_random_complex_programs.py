"""Random programs of complex numbers: compiled against NumPy, gradients against differences, eager tensors against both."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest

import adjit as aj

Step = Callable[[list[Any], Random], Any]


def pick(values: list[Any], random: Random) -> Any:
    return values[random.randrange(len(values))]


def bounded(z: Any) -> Any:
    """Numbers of at most length 1, so that chains stay finite."""
    return z / (1.0 + abs(z))


UNARY: list[Callable[[Any], Any]] = [
    lambda z: np.exp(bounded(z)), lambda z: np.log(z + 3), np.conj, lambda z: z.real + 0.5j, lambda z: 1j * z.imag, np.abs,
    lambda z: z * 1j,
    lambda z: np.sqrt(z + 4), lambda z: np.sin(bounded(z)), lambda z: np.tanh(bounded(z)), lambda z: np.arctan(0.3 * bounded(z)),
    lambda z: bounded(z) ** 3, lambda z: z[::-1], lambda z: z.T, lambda z: np.cumsum(z, axis=0) / 3,
    lambda z: z - np.mean(z, axis=1, keepdims=True),
    lambda z: np.roll(z, 1, axis=1),
    lambda z: np.where(z.real > 0.1, z, np.conj(z) - 1), lambda z: z[[2, 0, 1]], lambda z: np.angle(z + 2),
    lambda z: np.sort(z, axis=0), lambda z: z + np.max(z, axis=0),
    lambda z: np.prod(bounded(z) + 1, axis=1)[:, None] * z,
    lambda z: written(z)]
BINARY: list[Callable[[Any, Any], Any]] = [
    lambda z, w: z + w, lambda z, w: z - 2 * w, lambda z, w: bounded(z) * w, lambda z, w: z / (w + 4), lambda z, w: bounded(z) @ w,
    lambda z, w: np.einsum("ij,kj->ik", bounded(z), w.conj()), lambda z, w: np.concatenate([z[:1], w[1:]]),
    lambda z, w: (bounded(z) + 2) ** bounded(w), lambda z, w: np.maximum(z, w), lambda z, w: np.outer(z[0], w[:, 1]),
    lambda z, w: np.vdot(bounded(z), bounded(w)) + z]


def written(z: Any) -> Any:
    out = np.zeros((3, 3), complex) + z
    out[1] = out[0] * 1j
    out.real[2, 1:] = out.imag[0, :2]
    return out


def program(seed: int, length: int = 7) -> Callable[[Any, Any, Any], Any]:
    def run(z: Any, w: Any, x: Any) -> Any:
        random, values = Random(seed), [z, w, x, z * w]
        for _ in range(length):
            if random.random() < 0.55:
                values.append(pick(UNARY, random)(pick(values, random) + 0j))
            else:
                values.append(pick(BINARY, random)(pick(values, random) + 0j, pick(values, random) + 0j))
        return values[-1] + values[-2], sum(np.sum(np.real(bounded(value) * (0.3 + 0.8j))) for value in values[4:])
    return run


def arguments(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    z, w = (generator.normal(size=(3, 3)) + 1j * generator.normal(size=(3, 3)) for _ in range(2))
    return z, w, generator.normal(size=(3, 3))


@pytest.mark.share(3)
@pytest.mark.parametrize("part", range(3))
def test_random_programs(part: int, exhaustive: bool) -> None:
    count = 60 if exhaustive else 2
    for seed in range(part * count, (part + 1) * count):
        fun, given = program(seed), arguments(seed)
        expected, value = fun(*given)
        result, loss = aj.compile(fun)(*given)
        np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}")
        np.testing.assert_allclose(loss, value, rtol=1e-9, atol=1e-9, err_msg=f"seed {seed}")
        gradients = aj.compile(aj.grad(lambda *xs, fun=fun: fun(*xs)[1], (0, 1, 2)))(*given)
        directions = arguments(seed + 1000)
        slope = sum(np.sum((np.conj(gradient) * direction).real) for gradient, direction in zip(gradients, directions, strict=True))
        ends = [fun(*(x + step * direction for x, direction in zip(given, directions, strict=True)))[1] for step in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, rtol=2e-5, atol=1e-6, err_msg=f"seed {seed}")
