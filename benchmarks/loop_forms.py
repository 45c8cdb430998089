"""Loops in three forms: Python's, rolled; Python's, unrolled; and the same written with `aj.scan`. Value and gradient, microseconds a call.

    python benchmarks/loop_forms.py                    all
    python benchmarks/loop_forms.py garch char_lstm

The three are called in turn; the least of many calls counts. The last columns are CPU seconds of the first call of each, without caches.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.compiler_threads import wait_for_compilers

import adjit as aj

Form = Callable[..., Any]
Loop = tuple[Form, Form, tuple[Any, ...], tuple[int, ...]]
"""A function with a Python loop, the same with `scan`, arguments, and which of them are differentiated."""

LOOPS: dict[str, Callable[[], Loop]] = {}
N = 128
draws = np.random.default_rng(0)
normal = draws.standard_normal


def loop(make: Callable[[], Loop]) -> Callable[[], Loop]:
    LOOPS[make.__name__] = make
    return make


def carried(step: Form, end: Form, start: Form, rows: Form, count: int) -> tuple[Form, Form]:
    """Both forms of `state = step(state, row, *arguments)`, from `start(*arguments)` over `rows(*arguments)`, then `end(state)`."""
    def python(*arguments: Any) -> Any:
        state, given = start(*arguments), rows(*arguments)
        for index in range(count):
            state = step(state, None if given is None else given[index], *arguments)
        return end(state)

    def scan(*arguments: Any) -> Any:
        return end(aj.scan(lambda state, row: (step(state, row, *arguments), None), start(*arguments), rows(*arguments), count)[0])
    return python, scan


@loop
def sgd() -> Loop:
    inputs, targets = normal((64, 4)), normal(64)

    def step(w: Any, _: Any, __: Any, rate: Any) -> Any:
        return w - rate * aj.grad(lambda w: np.mean((inputs @ w - targets) ** 2))(w)
    return *carried(step, lambda w: np.sum(w * w), lambda w, rate: w, lambda *_: None, N), (normal(4), 0.01), (0, 1)


@loop
def sgd_by_example() -> Loop:
    """The loss is a function that closes over the example."""
    def python(w: Any, rate: Any, inputs: Any, targets: Any) -> Any:
        for i in range(N):
            w = w - rate * aj.grad(lambda w, i=i: (inputs[i] @ w - targets[i]) ** 2)(w)
        return np.sum(w * w)

    def scan(w: Any, rate: Any, inputs: Any, targets: Any) -> Any:
        def step(w: Any, given: Any) -> Any:
            return w - rate * aj.grad(lambda w: (given[0] @ w - given[1]) ** 2)(w), None
        return np.sum(aj.scan(step, w, (inputs, targets))[0] ** 2)
    return python, scan, (normal(8), 0.01, normal((N, 8)), normal(N)), (0, 1)


@loop
def gauss_seidel() -> Loop:
    size = 12

    def row(x: Any, a: Any, b: Any, j: Any) -> Any:
        x = x.copy()
        x[j] = (b[j] - a[j] @ x + a[j, j] * x[j]) / a[j, j]
        return x

    def python(a: Any, b: Any) -> Any:
        x = np.zeros_like(b)
        for _ in range(10):
            for j in range(size):
                x = row(x, a, b, j)
        return np.sum(x ** 2)

    def scan(a: Any, b: Any) -> Any:
        def sweep(x: Any, _: Any) -> Any:
            return aj.scan(lambda x, j: (row(x, a, b, j), None), x, np.arange(size))[0], None
        return np.sum(aj.scan(sweep, np.zeros(size), None, 10)[0] ** 2)
    return python, scan, (normal((size, size)) + size * np.eye(size), normal(size)), (0, 1)


@loop
def hidden_markov() -> Loop:
    seen = draws.integers(0, 5, N)

    def python(log_a: Any, log_b: Any, log_pi: Any) -> Any:
        alpha = log_pi
        for symbol in seen:
            alpha = forward(alpha, log_a, log_b[:, symbol])
        return np.log(np.sum(np.exp(alpha - np.max(alpha)))) + np.max(alpha)

    def forward(alpha: Any, log_a: Any, column: Any) -> Any:
        most = np.max(alpha)
        return np.log(np.exp(alpha - most) @ np.exp(log_a)) + most + column

    def scan(log_a: Any, log_b: Any, log_pi: Any) -> Any:
        alpha = aj.scan(lambda alpha, symbol: (forward(alpha, log_a, log_b[:, symbol]), None), log_pi, seen)[0]
        return np.log(np.sum(np.exp(alpha - np.max(alpha)))) + np.max(alpha)
    return python, scan, (normal((4, 4)), normal((4, 5)), normal(4)), (0, 1, 2)


@loop
def lorenz() -> Loop:
    def slope(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z

    def step(s: Any, *_: Any, h: float = 0.001) -> Any:
        k1 = slope(*s)
        k2 = slope(*(a + h / 2 * k for a, k in zip(s, k1, strict=True)))
        k3 = slope(*(a + h / 2 * k for a, k in zip(s, k2, strict=True)))
        k4 = slope(*(a + h * k for a, k in zip(s, k3, strict=True)))
        return tuple(a + h / 6 * (p + 2 * q + 2 * r + t) for a, p, q, r, t in zip(s, k1, k2, k3, k4, strict=True))
    return *carried(step, lambda s: s[0], lambda *s: s, lambda *_: None, N), (1.0, 1.1, 1.2), (0, 1, 2)


@loop
def rnn() -> Loop:
    def step(h: Any, x: Any, w: Any, u: Any, b: Any, _: Any) -> Any:
        return np.tanh(h @ w + x @ u + b)
    arguments = 0.2 * normal((24, 24)), 0.2 * normal((6, 24)), normal(24), normal((N, 8, 6))
    return *carried(step, lambda h: np.mean(h ** 2), lambda *_: np.zeros((8, 24)), lambda *a: a[3], N), arguments, (0, 1, 2)


@loop
def char_lstm() -> Loop:
    hidden, symbols, length = 16, 20, 64
    text = draws.integers(0, symbols, length + 1)

    def step(state: Any, now: Any, then: Any, embedding: Any, w: Any, u: Any, b: Any, out: Any) -> Any:
        h, c, total = state
        z = h @ w + embedding[now] @ u + b
        i, f, o = (1 / (1 + np.exp(-z[k * hidden:(k + 1) * hidden])) for k in range(3))
        c = f * c + i * np.tanh(z[3 * hidden:])
        h = o * np.tanh(c)
        scores = h @ out
        most = np.max(scores)
        return h, c, total + np.log(np.sum(np.exp(scores - most))) + most - scores[then]

    def start() -> Any:
        return np.zeros(hidden), np.zeros(hidden), 0.0

    def python(*weights: Any) -> Any:
        state = start()
        for now, then in zip(text[:-1].tolist(), text[1:].tolist(), strict=True):
            state = step(state, now, then, *weights)
        return state[2] / length

    def scan(*weights: Any) -> Any:
        return aj.scan(lambda state, at: (step(state, *at, *weights), None), start(), (text[:-1], text[1:]))[0][2] / length
    weights = (normal((symbols, 8)), 0.2 * normal((hidden, 4 * hidden)), 0.2 * normal((8, 4 * hidden)), normal(4 * hidden),
               0.2 * normal((hidden, symbols)))
    return python, scan, weights, (0, 1, 2, 3, 4)


@loop
def leapfrog() -> Loop:
    def step(state: Any, _: Any, __: Any, c: Any) -> Any:
        before, now = state
        return now, 2 * now - before + c * (np.roll(now, 1) - 2 * now + np.roll(now, -1))
    arguments = np.sin(np.linspace(0, 6.28, 64)), 0.1
    return *carried(step, lambda s: np.sum(s[1] ** 2) + np.sum(s[0]), lambda u, c: (u, u), lambda *_: None, N), arguments, (0, 1)


@loop
def kalman() -> Loop:
    def step(state: Any, y: Any, f: Any, h: Any, q: Any, r: Any, _: Any) -> Any:
        x, p, total = state
        x, p = f @ x, f @ p @ f.T + q
        s, v = h @ p @ h.T + r, y - h @ x
        gain = np.linalg.solve(s, h @ p).T
        return x + gain @ v, p - gain @ h @ p, total - 0.5 * (v @ np.linalg.solve(s, v) + np.log(np.linalg.det(s)))
    arguments = np.eye(4) + 0.1 * normal((4, 4)), normal((2, 4)), np.eye(4), np.eye(2), normal((32, 2))
    return *carried(step, lambda s: s[2], lambda *_: (np.zeros(4), np.eye(4), 0.0), lambda *a: a[4], 32), arguments, (0, 1, 2, 3)


@loop
def garch() -> Loop:
    def step(state: Any, x: Any, w: Any, a: Any, b: Any, _: Any) -> Any:
        s2, total = state
        return w + a * x ** 2 + b * s2, total + np.log(s2) + x ** 2 / s2
    arguments = 0.1, 0.1, 0.8, normal(N)
    return *carried(step, lambda s: s[1], lambda *a: (np.var(a[3]), 0.0), lambda *a: a[3], N), arguments, (0, 1, 2)


@loop
def fill() -> Loop:
    def python(y: Any, a: Any) -> Any:
        track = np.zeros((N, 3))
        for i in range(N):
            y = y + 0.01 * np.tanh(a @ y)
            track[i] = y
        return np.sum(track ** 2)

    def scan(y: Any, a: Any) -> Any:
        def step(y: Any, _: Any) -> Any:
            y = y + 0.01 * np.tanh(a @ y)
            return y, y
        return np.sum(aj.scan(step, y, None, N)[1] ** 2)
    return python, scan, (np.ones(3), normal((3, 3))), (0, 1)


@loop
def adam() -> Loop:
    def step(state: Any, t: Any, _: Any) -> Any:
        x, m, v = state
        g = 2 * x + np.cos(x)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        return x - 0.1 * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8), m, v
    return *carried(step, lambda s: np.sum(s[0] ** 2), lambda x: (x, np.zeros(16), np.zeros(16)), lambda *_: np.arange(float(N)), N), \
        (normal(16),), (0,)


@loop
def layers() -> Loop:
    def step(x: Any, w: Any, *_: Any) -> Any:
        return x + np.tanh(x @ w)
    arguments = 0.1 * normal((64, 16, 16)), normal((8, 16))
    return *carried(step, lambda x: np.mean(x ** 2), lambda ws, x: x, lambda ws, x: ws, 64), arguments, (0,)


def measure(functions: Sequence[Form], arguments: Sequence[Any], seconds: float) -> list[float]:
    """Least microseconds of a call of each."""
    for function in functions:
        for _ in range(4):
            function(*arguments)
    wait_for_compilers()
    best, end = [float("inf")] * len(functions), time.perf_counter() + seconds
    while time.perf_counter() < end:
        for index, function in enumerate(functions):
            for _ in range(5):
                begin = time.perf_counter()
                function(*arguments)
                best[index] = min(best[index], time.perf_counter() - begin)
    return [least * 1e6 for least in best]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="loops (default: all)")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each loop")
    options = parser.parse_args()
    os.environ["ADJIT_CACHE_SIZE"] = "0"
    print(f"{'':16}{'rolled':>9}{'unrolled':>10}{'scan':>9}{'rolled / unrolled':>19}{'rolled / scan':>15}   first calls, s")
    for name in options.names or LOOPS:
        python, scan, arguments, wrt = LOOPS[name]()
        functions = [aj.compile(aj.value_and_grad(python, wrt)), aj.compile(aj.value_and_grad(python, wrt), roll_loops=False),
                     aj.compile(aj.value_and_grad(scan, wrt))]
        firsts, found = [], []
        for function in functions:
            begin = time.process_time()
            found.append(function(*arguments))
            firsts.append(time.process_time() - begin)
        for value, gradients in found[1:]:
            np.testing.assert_allclose(value, found[0][0], rtol=1e-9)
            for got, wanted in zip(gradients, found[0][1], strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-9)
        rolled, unrolled, scanned = measure(functions, arguments, options.seconds)
        print(f"{name:16}{rolled:9.1f}{unrolled:10.1f}{scanned:9.1f}{rolled / unrolled:19.2f}{rolled / scanned:15.2f}   "
              + "  ".join(f"{first:.2f}" for first in firsts), flush=True)


if __name__ == "__main__":
    main()
