"""Programs with Python loops: written ones of many kinds, and random ones as source text; and a rule that rolls short loops."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import adjit as aj
from adjit.codegen.process.gc_pause import gc_paused
from adjit.ir.graph import Graph, Op, walk
from adjit.passes.loops.roll_loops import REGION_NAME, roll_loops
from adjit.passes.options import Options, RollingRule
from adjit.tracer.trace import Trace, trace_function

SHORT_LOOPS = RollingRule(min_trips=4, min_ops=12)
"""Rule for tests: loops too short to gain by it are rolled as well."""

Loop = tuple[Callable[..., Any], tuple[Any, ...], tuple[int, ...]]
"""Function, arguments, and the numbers of the arguments that are differentiated."""

LOOPS: dict[str, Callable[[int], Loop]] = {}


def loop(make: Callable[[int], Loop]) -> Callable[[int], Loop]:
    LOOPS[make.__name__] = make
    return make


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def trace_of(function: Callable[..., Any], args: Sequence[Any]) -> tuple[Trace, list[np.ndarray]]:
    """Trace of a function, and an array for each parameter of its graph."""
    with gc_paused():
        trace = trace_function(function, tuple(args), {})
    return trace, [*map(np.asarray, trace.signature.leaves), *trace.captured]


def rolled(graph: Graph, rule: RollingRule = SHORT_LOOPS) -> Graph:
    return roll_loops(graph, Options(rolling=rule))


def loops_of(graph: Graph) -> list[tuple[int, int]]:
    """Iterations, and ops of an iteration, of the loops that were found in a graph; inner loops first."""
    return [(op.attrs["length"], len(op.regions[0].ops)) for op in rolled_scans(graph)]


def rolled_scans(graph: Graph) -> list[Op]:
    return [op for op in walk(graph) if op.name == "scan" and op.regions[0].name == REGION_NAME]


@loop
def lorenz(n: int) -> Loop:
    """Runge-Kutta steps of three numbers."""
    def slope(x: Any, y: Any, z: Any) -> tuple[Any, ...]:
        return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z

    def end(x: Any, y: Any, z: Any, h: float = 0.001) -> Any:
        s: tuple[Any, ...] = x, y, z
        for _ in range(n):
            k1 = slope(*s)
            k2 = slope(*(a + h / 2 * k for a, k in zip(s, k1, strict=True)))
            k3 = slope(*(a + h / 2 * k for a, k in zip(s, k2, strict=True)))
            k4 = slope(*(a + h * k for a, k in zip(s, k3, strict=True)))
            s = tuple(a + h / 6 * (p + 2 * q + 2 * r + t) for a, p, q, r, t in zip(s, k1, k2, k3, k4, strict=True))
        return s[0]
    return end, (1.0, 1.1, 1.2), (0, 1, 2)


@loop
def fill(n: int) -> Loop:
    def f(y: Any, a: Any) -> Any:
        track = np.zeros_like(y, shape=(n, 3))
        for i in range(n):
            y = y + 0.01 * np.tanh(a @ y)
            track[i] = y
        return np.sum(track ** 2)
    return f, (np.ones(3), normal(3, 3)), (0, 1)


@loop
def fill_backwards_by_columns(n: int) -> Loop:
    def f(y: Any) -> Any:
        track = np.zeros_like(y, shape=(3, n + 2))
        for i in reversed(range(n)):
            y = np.sin(y) + 0.1
            track[:, i + 1] = y
        return np.sum(track[:, ::2] ** 2)
    return f, (normal(3),), (0,)


@loop
def fill_at_irregular_places(n: int) -> Loop:
    places = np.random.default_rng(1).permutation(n).tolist()

    def f(y: Any) -> Any:
        track = np.zeros_like(y, shape=(n, 3))
        for i in places:
            y = np.sin(y) + 0.1
            track[i] = y
        return np.sum(track[1:] * track[:-1])
    return f, (normal(3),), (0,)


@loop
def fill_and_read(n: int) -> Loop:
    def f(x0: Any, a: Any) -> Any:
        x = np.zeros_like(x0, shape=(n + 1,))
        x[0] = x0
        for i in range(n):
            x[i + 1] = np.sin(a * x[i]) + 0.1 * i
        return np.sum(x)
    return f, (0.3, 1.1), (0, 1)


@loop
def leapfrog(n: int) -> Loop:
    def f(u: Any, c: Any) -> Any:
        prev, now = u, u
        for _ in range(n):
            lap = np.roll(now, 1) - 2 * now + np.roll(now, -1)
            prev, now = now, 2 * now - prev + c * lap
        return np.sum(now ** 2) + np.sum(prev)
    return f, (np.sin(np.linspace(0, 6.28, 64)), 0.1), (0, 1)


@loop
def delays(n: int) -> Loop:
    def f(a: Any, b: Any) -> Any:
        xs = [a, b, a * b]
        for _ in range(n):
            xs.append(np.sin(xs[-1]) + 0.5 * xs[-2] + 0.25 * xs[-3])
        return xs[-1] * xs[-2]
    return f, (0.1, 0.7), (0, 1)


@loop
def gauss_seidel(n: int) -> Loop:
    size = 12

    def f(a: Any, b: Any) -> Any:
        x = np.zeros_like(b)
        for _ in range(n // 2):
            for j in range(size):
                x[j] = (b[j] - a[j] @ x + a[j, j] * x[j]) / a[j, j]
        return np.sum(x ** 2)
    return f, (normal(size, size) + size * np.eye(size), normal(size)), (0, 1)


@loop
def riccati_backwards(n: int) -> Loop:
    weights = np.stack([np.eye(4)] * n) * np.random.default_rng(0).uniform(0.5, 1.5, (n, 1, 1))

    def f(a: Any, b: Any, qs: Any) -> Any:
        p = qs[0]
        for t in reversed(range(n)):
            s = qs[0][:2, :2] + b.T @ p @ b
            k = np.linalg.solve(s, b.T @ p @ a)
            p = qs[t] + a.T @ p @ (a - b @ k)
        return np.trace(p)
    return f, (np.eye(4) + 0.1 * normal(4, 4), normal(4, 2), weights), (0, 1, 2)


@loop
def alternating(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        for i in range(n):
            x = np.tanh(w @ x) if i % 2 == 0 else x + 0.1 * np.sin(x)
        return np.sum(x)
    return f, (normal(8), 0.3 * normal(8, 8)), (0, 1)


@loop
def first_iteration_is_special(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        total = None
        for _ in range(n):
            x = np.tanh(w @ x)
            loss = np.sum(x * x)
            total = loss if total is None else total + loss
        return total
    return f, (normal(8), 0.3 * normal(8, 8)), (0, 1)


@loop
def last_iteration_breaks_out(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        for i in range(n):
            x = np.tanh(w @ x)
            if i == n - 1:
                break
            x = x + np.sin(x)
        return np.sum(x)
    return f, (normal(8), 0.3 * normal(8, 8)), (0, 1)


@loop
def bias_correction(n: int) -> Loop:
    """Adam: numbers that change by a power."""
    def f(x: Any) -> Any:
        m = v = np.zeros_like(x)
        for i in range(n):
            g = 2 * x + np.cos(x)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            mh, vh = m / (1 - 0.9 ** (i + 1)), v / (1 - 0.999 ** (i + 1))
            x = x - 0.1 / (1 + 0.01 * i) * mh / (np.sqrt(vh) + 1e-8)
        return np.sum(x ** 2)
    return f, (normal(16),), (0,)


@loop
def windows(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        out = 0.0
        for i in range(n):
            out = np.tanh(out + x[i:i + 5] @ w)
        return out
    return f, (normal(n + 4), normal(5)), (0, 1)


@loop
def blocks(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        s = 0.0
        for j in range(n):
            s = s + np.sum(np.tanh(x[4 * j:4 * j + 4] * w)) * s
            s = s + 1.0
        return s
    return f, (0.1 * normal(4 * n), normal(4)), (0, 1)


@loop
def accumulated_time(n: int) -> Loop:
    def f(y: Any) -> Any:
        t, dt = 0.0, 0.1
        for _ in range(n):
            y = y + dt * np.cos(y + t)
            t += dt
        return y
    return f, (0.5,), (0,)


@loop
def list_of_weights(n: int) -> Loop:
    def f(ws: Any, x: Any) -> Any:
        for w in ws:
            x = x + np.tanh(x @ w)
        return np.mean(x ** 2)
    return f, ([0.1 * normal(16, 16, seed=i) for i in range(n)], normal(8, 16)), (0,)


@loop
def list_that_is_stacked(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        hs = [x]
        for _ in range(n):
            x = np.tanh(w @ x)
            hs.append(x)
        h = np.stack(hs)
        return np.sum(h[::2]) + np.sum(h[:, 1] ** 2) + hs[3][0]
    return f, (normal(8), 0.3 * normal(8, 8)), (0, 1)


@loop
def list_that_is_summed(n: int) -> Loop:
    def f(x: Any, w: Any, y: Any) -> Any:
        losses = []
        for i in range(n):
            x = np.tanh(w @ x)
            losses.append(np.sum((x - y[i]) ** 2))
        return sum(losses) / len(losses)
    return f, (normal(8), 0.3 * normal(8, 8), normal(n, 8)), (0, 1)


@loop
def hidden_markov_model(n: int) -> Loop:
    observed = np.random.default_rng(0).integers(0, 5, n)

    def f(log_a: Any, log_b: Any, log_pi: Any) -> Any:
        alpha = log_pi + log_b[:, observed[0]]
        for t in range(1, n):
            m = np.max(alpha)
            alpha = np.log(np.exp(alpha - m) @ np.exp(log_a)) + m + log_b[:, observed[t]]
        return np.log(np.sum(np.exp(alpha - np.max(alpha)))) + np.max(alpha)
    return f, (normal(4, 4), normal(4, 5), normal(4)), (0, 1, 2)


@loop
def short_loop_within(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        for _ in range(n):
            for layer in range(3):
                x = np.tanh(w[layer] @ x)
            x = x / np.sqrt(np.sum(x * x))
        return np.sum(x)
    return f, (normal(6), 0.3 * normal(3, 6, 6)), (0, 1)


@loop
def long_loop_within(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        for _ in range(n // 2):
            for layer in range(12):
                x = np.tanh(w[layer] @ x)
            x = x / np.sqrt(np.sum(x * x))
        return np.sum(x)
    return f, (normal(6), 0.3 * normal(12, 6, 6)), (0, 1)


@loop
def shapes_that_shrink(n: int) -> Loop:
    def f(u: Any) -> Any:
        for _ in range(n):
            u = u[1:-1] + 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        return np.sum(u ** 2)
    return f, (normal(2 * n + 8),), (0,)


@loop
def columns(n: int) -> Loop:
    def f(x: Any, a: Any) -> Any:
        s = np.zeros_like(x[:, 0])
        for j in range(n):
            s = np.tanh(s + a * x[:, j])
        return np.sum(s)
    return f, (normal(5, n), 0.7), (0, 1)


@loop
def random_draws(n: int) -> Loop:
    def f(x: Any, key: Any) -> Any:
        for i in range(n):
            x = 0.9 * x + 0.1 * aj.random.normal(aj.random.fold_in(key, i), x.shape)
        return np.sum(x ** 2)
    return f, (normal(5), aj.random.key(0)), (0,)


@loop
def triangle_of_pairs(n: int) -> Loop:
    def f(p: Any) -> Any:
        e = 0.0
        for i in range(n // 3):
            for j in range(i):
                d = p[i] - p[j]
                e = e + 1.0 / (np.sum(d * d) + 1.0)
        return e
    return f, (normal(n, 3),), (0,)


@loop
def value_of_the_first_iteration(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        first = None
        for _ in range(n):
            x = np.tanh(w @ x)
            if first is None:
                first = x * 2.0
            x = x + 0.01 * first
        return np.sum(x)
    return f, (normal(8), 0.3 * normal(8, 8)), (0, 1)


@loop
def two_writes_of_parts(n: int) -> Loop:
    def f(x: Any, w: Any) -> Any:
        a = np.zeros_like(x, shape=(n, 8, 2))
        for i in range(n):
            x = np.tanh(w @ x)
            a[i, :, 0] = x
            a[i, :, 1] = x * x
        return np.sum(a ** 2)
    return f, (normal(8), 0.3 * normal(8, 8)), (0, 1)


@loop
def two_loops_that_share(n: int) -> Loop:
    """The second loop reads the values of the first, and both read one matrix."""
    def f(x: Any, w: Any) -> Any:
        scale, hs = 0.1 * np.exp(w), []
        for _ in range(n):
            x = np.tanh(scale @ x)
            hs.append(x)
        y = x
        for h in reversed(hs):
            y = np.sin(scale.T @ y) + h
        return np.sum(y) + np.sum(hs[2])
    return f, (normal(8), 0.1 * normal(8, 8)), (0, 1)


@loop
def decisions_of_values(n: int) -> Loop:
    """Numbers that are NaN, negative zero, subnormal: tables keep every bit."""
    numbers = [(np.nan, -0.0, 5e-324, 1e-310, -np.inf)[i % 5] if i % 3 == 0 else 0.1 * i for i in range(n)]

    def f(x: Any) -> Any:
        s = x
        for number in numbers:
            s = np.fmin(np.copysign(s, number + 0.0 * x[0]) + 0.01, 3.0) + np.where(np.isfinite(number + x), 0.0, 1e-3)
        return np.sum(s)
    return f, (normal(4),), (0,)


@loop
def plain_weights_that_fade(n: int) -> Loop:
    """Small arrays, which NumPy computes anew in each round: together one table."""
    def f(x: Any) -> Any:
        w = np.array([1.0, 2.0, 2.5])
        for _ in range(n):
            w = w * 0.9
            x = np.sin(x * w) + 0.1
        return np.sum(x * x)
    return f, (normal(3),), (0,)


@loop
def plain_masks_and_indices(n: int) -> Loop:
    """Masks that come back after some rounds, and index arrays."""
    def f(x: Any) -> Any:
        mask, order = np.arange(4) == 0, np.array([1, 3, 0, 2])
        for i in range(n):
            mask, order = np.roll(mask, i % 3), (order * 3 + 1) % 4
            x = np.where(mask, 0.9 * x, x[order] + 0.01)
        return np.sum(x * x)
    return f, (normal(4),), (0,)


@loop
def plain_matrix_that_grows(n: int) -> Loop:
    """A product of matrices without traced values, zeros at first, of 5 kB: rows of one captured array."""
    def f(x: Any) -> Any:
        a, power = np.eye(25) + np.tri(25) / 100, np.zeros((25, 25))
        for _ in range(n):
            x = np.tanh(power @ x) + 0.1 * x
            power = power @ a + 0.01 * a
        return np.sum(x * x)
    return f, (normal(25),), (0,)


@loop
def plain_state_written_in_place(n: int) -> Loop:
    """Times that are added up in place, and a view of them."""
    def f(x: Any) -> Any:
        t = np.linspace(0.0, 1.0, 60) ** 2
        for _ in range(n):
            t += 0.01
            t[3:] *= 0.99
            x = x + 0.1 * np.cos(t * x) + np.sum(t[1::2])
        return np.sum(x * x)
    return f, (normal(60),), (0,)


def random_loop(seed: int) -> str:
    """Source of a function `f(x, w, a)` with a random loop over rows of `x`."""
    draw = random.Random(seed)
    n = loop_length(seed)
    names = ["a", "b", "c"]
    lines = ["def f(x, w, a):", "    b, c, hist, rows, s, p, q = a * 2.0, a, [a, a, a], [], 0.0, np.array([0.5, 1.5, -1.0]), np.zeros(3)",
             f"    buf = np.zeros_like(x, shape=({n + 5}, 3))"]
    lines.append(f"    for i in {f'reversed(range({n}))' if draw.random() < 0.2 else f'range({n})'}:")

    def value() -> str:
        return draw.choice([*names, f"hist[-{draw.randint(1, 3)}]"])

    for _ in range(draw.randint(2, 7)):
        t = draw.choice(names)
        line = draw.choice((
            f"{t} = np.tanh({value()} + {value()})", f"{t} = w @ {value()}", f"{t} = {value()} + x[i]", f"{t} = {value()} * x[{n} - 1 - i]",
            f"{t} = {value()} - x[2 * i]", f"{t} = {value()} + i * 0.25", f"{t} = {value()} * (1.0 / (i + 1))",
            f"hist.append({value()} * 0.5)",
            f"rows.append({value()})", f"buf[i] = {value()}", f"buf[i % {draw.choice((2, 3, 4))}] += {value()}",
            f"{t} = {value()} + buf[{draw.choice(('i', 'i - 1', '0', 'i % 3'))}]", f"s = s + np.sum({value()})",
            f"{t} = np.where(x[i] > 0, {value()}, {value()})", f"{t} = {value()} + x[i:i + 2].sum(axis=0)",
            f"{t}, {draw.choice(names)} = {value()}, {value()}", f"buf[i:i + 2] *= {value()}", f"{t} = {value()} * x[i // 2]",
            f"{t} = x[i, {draw.choice(('0', 'i % 3'))}] + {value()}", f"buf[:, {draw.choice(('1', 'i % 3'))}] += x[i, 0]",
            f"p = np.roll(p, 1) * 1.1; {t} = {value()} * p", f"q[i % 3] += 0.5; {t} = {value()} - q",
            f"p[1:] *= -0.9; {t} = w @ p + p @ {value()}", f"{t} = {value()}[np.argsort(p)] + p[0]"))
        chance = draw.random()
        if chance < 0.15:
            line = f"if i % {draw.choice((2, 3))} == 0: {line}"
        elif chance < 0.25:
            line = f"if i > {draw.choice((0, 1, 2))}: {line}"
        elif chance < 0.3:
            line = f"if i < {n - 1}: {line}"
        if draw.random() < 0.15:
            lines += [f"        for j in range({draw.choice((2, 9))}):", f"            {line}"]
        else:
            lines.append(f"        {line}")
    lines.append("    out = a + b + c + s + hist[-1] + hist[len(hist) // 2] + buf.sum(axis=0)")
    lines.append("    for r in rows: out = out + r * 0.1" if draw.random() < 0.5
                 else "    out = out + (np.stack(rows).sum(axis=0) if rows else 0.0)")
    lines.append("    return out, buf, b")
    return "\n".join(lines)


def loop_length(seed: int) -> int:
    return (9, 12, 17, 24)[seed % 4]


def random_loop_function(seed: int) -> tuple[Callable[..., Any], tuple[np.ndarray, ...]]:
    """The function of `random_loop`, and arguments."""
    space: dict[str, Any] = {"np": np}
    exec(compile(random_loop(seed), f"<loop {seed}>", "exec"), space)
    n, draws = loop_length(seed), np.random.default_rng(seed)
    return space["f"], (draws.standard_normal((2 * n + 4, 3)), 0.5 * draws.standard_normal((3, 3)), draws.standard_normal(3))
