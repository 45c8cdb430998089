"""Programs of any length: loops of Python, which tracing unrolls, as they are common in scientific code.

Each function takes a number of steps and gives a function of arrays with its arguments. `program` chooses the steps by the number of ops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import adjit as aj
from adjit.ir.graph import Graph
from adjit.tracer.trace import trace_function

f32 = np.float32
Program = tuple[Callable[..., Any], tuple[Any, ...]]


def stencil(steps: int) -> Program:
    """Diffusion without boundaries: the array gets two elements shorter at each step; the gradient of its energy."""
    def energy(u: Any) -> Any:
        for _ in range(steps):
            u = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return (u ** 2).sum()
    return aj.grad(energy), (np.ones(2 * steps + 64),)


def ring(steps: int) -> Program:
    """Diffusion on a ring, with its gradient."""
    def energy(u: Any) -> Any:
        for _ in range(steps):
            u = u + 0.1 * (np.roll(u, 1) - 2 * u + np.roll(u, -1))
        return (u ** 2).sum()
    return aj.grad(energy), (np.ones(512),)


def orbit(steps: int) -> Program:
    """The Lorenz system, as three numbers, by the method of Runge and Kutta."""
    def slope(x: Any, y: Any, z: Any) -> Any:
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z

    def function(x: Any, y: Any, z: Any, h: float = 0.01) -> Any:
        state = x, y, z
        for _ in range(steps):
            k1 = slope(*state)
            k2 = slope(*(s + h / 2 * k for s, k in zip(state, k1, strict=True)))
            k3 = slope(*(s + h / 2 * k for s, k in zip(state, k2, strict=True)))
            k4 = slope(*(s + h * k for s, k in zip(state, k3, strict=True)))
            state = tuple(s + h / 6 * (a + 2 * b + 2 * c + d) for s, a, b, c, d in zip(state, k1, k2, k3, k4, strict=True))
        return state
    return function, (np.float64(1.0),) * 3


def sensitivity(steps: int) -> Program:
    """The gradient of where the orbit ends."""
    function, arguments = orbit(steps)
    return aj.grad(lambda x, y, z: function(x, y, z)[0], argnums=(0, 1, 2)), arguments


def oscillators(steps: int) -> Program:
    """Coupled oscillators by the method of Runge and Kutta, with a small product at each slope; the gradient."""
    coupling = np.array([[0.0, 1.0, 0.0], [-1.0, 0.0, 0.1], [0.0, 0.2, -0.1]])

    def total(y: Any, h: float = 0.01) -> Any:
        for _ in range(steps):
            k1 = np.sin(y @ coupling)
            k2 = np.sin((y + h / 2 * k1) @ coupling)
            k3 = np.sin((y + h / 2 * k2) @ coupling)
            k4 = np.sin((y + h * k3) @ coupling)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y.sum()
    return aj.grad(total), (np.ones((16, 3)),)


def recurrent(steps: int) -> Program:
    """A recurrent network, and the gradients of its weights."""
    random = np.random.default_rng(0)
    inputs, *weights = (random.standard_normal(shape).astype(f32) for shape in ((steps, 16, 8), (8, 32), (32, 32), (32,)))

    def loss(weights: Any, inputs: Any) -> Any:
        h = aj.numpy.zeros((16, 32), f32)
        for row in inputs:
            h = np.tanh(h @ weights[1] + row @ weights[0] + weights[2])
        return np.mean(h ** 2)
    return aj.value_and_grad(loss), (weights, inputs)


def optimizer(steps: int) -> Program:
    """Adam for as many parameters as there are steps, of thirteen shapes."""
    adam = aj.optim.adam(1e-3)
    params = [np.ones((7, i % 13 + 3), f32) for i in range(steps)]

    def update(params: Any, state: Any) -> Any:
        return adam.update(params, [2 * p for p in params], state)
    return update, (params, adam.init(params))


def chain(steps: int) -> Program:
    """One elementwise function after another, and the gradients."""
    def total(x: Any, w: Any) -> Any:
        for _ in range(steps):
            x = np.tanh(x * w + 0.5)
        return x.sum()
    return aj.grad(total, argnums=(0, 1)), (np.ones((64, 128), f32), np.ones((64, 128), f32))


def residual_layers(steps: int) -> Program:
    """A deep network with normalisation, and the gradients."""
    def total(weights: Any, x: Any) -> Any:
        for w in weights:
            x = aj.nn.functional.gelu(x @ w) + x
            x = x - x.mean(-1, keepdims=True)
            x = x / np.sqrt((x ** 2).mean(-1, keepdims=True) + 1e-5)
        return x.sum()
    return aj.value_and_grad(total), ([np.ones((16, 16), f32)] * steps, np.ones((32, 16), f32))


PROGRAMS: dict[str, Callable[[int], Program]] = {make.__name__: make for make in (
    stencil, ring, orbit, sensitivity, oscillators, recurrent, optimizer, chain, residual_layers)}


def traced(name: str, steps: int) -> Graph:
    """The graph of a program as it is traced."""
    function, arguments = PROGRAMS[name](steps)
    return trace_function(function, arguments, {}).graph
