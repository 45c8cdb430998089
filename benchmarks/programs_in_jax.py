"""The programs of `programs.py` as JAX needs them: loops by `scan`, `fori_loop`, `while_loop` and `vmap`, branches by `where` and `cond`.

Reverse mode has no rule for `while_loop`. Where a program has one input, `FORWARD` names it, and its gradient is taken forward
through the loop; the others that stop by a tolerance run a `scan` of their own upper bound, the rest of which `cond` skips.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FORWARD = ("heun_adaptive", "implied_volatility")


def value_and_gradient(name: str, loss: Callable[..., Any], wrt: tuple[int, ...]) -> Callable[..., Any]:
    """Value and gradients, in the mode that suits the program, under `jit`."""
    if name not in FORWARD:
        return jax.jit(jax.value_and_grad(loss, wrt))

    def forward(*arguments: Any) -> Any:
        (place,) = wrt

        def of_chosen(given: Any) -> Any:
            return loss(*arguments[:place], given, *arguments[place + 1:])

        value, slope = jax.jvp(of_chosen, (arguments[place],), (jnp.ones(()),))
        return value, (slope,)
    return jax.jit(forward)


def nbody(pos: Any, vel: Any, mass: Any, softening: Any) -> Any:
    def acceleration(pos: Any) -> Any:
        x, y, z = pos[:, 0:1], pos[:, 1:2], pos[:, 2:3]
        dx, dy, dz = x.T - x, y.T - y, z.T - z
        squares = dx ** 2 + dy ** 2 + dz ** 2 + softening ** 2
        inverse = jnp.where(squares > 0, squares ** -1.5, squares)
        return jnp.stack([(difference * inverse) @ mass for difference in (dx, dy, dz)], axis=1)

    def step(state: Any, _: Any) -> Any:
        pos, vel, acc = state
        vel = vel + acc * 0.01 / 2.0
        pos = pos + vel * 0.01
        acc = acceleration(pos)
        vel = vel + acc * 0.01 / 2.0
        return (pos, vel, acc), 0.5 * jnp.sum(mass * jnp.sum(vel ** 2, axis=1))

    vel = vel - jnp.mean(mass[:, None] * vel, 0) / jnp.mean(mass)
    (pos, _, _), energies = lax.scan(step, (pos, vel, acceleration(pos)), length=3)
    return pos, jnp.concatenate([jnp.zeros(1), energies])


def lotka_volterra_rk4(y0: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    def f(y: Any) -> Any:
        prey, pred = y
        return jnp.array([a * prey - b * prey * pred, c * prey * pred - d * pred])

    h = 0.05

    def step(y: Any, _: Any) -> Any:
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return y, y

    return jnp.concatenate([y0[None], lax.scan(step, y0, length=len(np.arange(0, 0.4, h)))[1]])


def seir(beta: Any, sigma: Any, gamma: Any, i0: Any) -> Any:
    def day(state: Any, _: Any) -> Any:
        s, e, i, r = state
        new_e, new_i, new_r = beta * s * i, sigma * e, gamma * i
        return (s - new_e, e + new_e - new_i, i + new_i - new_r, r + new_r), jnp.stack(state)

    return lax.scan(day, (1 - i0, jnp.zeros(()), i0, jnp.zeros(())), length=8)[1]


def heun_adaptive(y: Any, tol: Any) -> Any:
    def body(state: Any) -> Any:
        t, h, y = state
        h = jnp.minimum(h, 1.0 - t)
        k1 = -y * y
        k2 = -(y + h * k1) ** 2
        accepted = jnp.abs(0.5 * h * (k2 - k1)) < tol
        return jnp.where(accepted, t + h, t), jnp.where(accepted, h * 1.5, h * 0.5), jnp.where(accepted, y + 0.5 * h * (k1 + k2), y)

    return lax.while_loop(lambda state: state[0] < 1.0, body, (jnp.zeros(()), jnp.full((), 0.1), y))[2]


def implied_volatility(price: Any, S: Any, K: Any, r: Any, T: Any) -> Any:
    def cdf(x: Any) -> Any:
        return 0.5 * (1 + jnp.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))

    def call(sigma: Any) -> Any:
        d1 = (jnp.log(S / K) + (r + 0.5 * sigma ** 2) * T) / (sigma * jnp.sqrt(T))
        return S * cdf(d1) - K * jnp.exp(-r * T) * cdf(d1 - sigma * jnp.sqrt(T))

    def body(state: Any) -> Any:
        sigma, diff, count = state
        sigma = sigma - diff / ((call(sigma + 1e-4) - call(sigma - 1e-4)) / 2e-4)
        return sigma, call(sigma) - price, count + 1

    start = jnp.full((), 0.3)
    return lax.while_loop(lambda state: (jnp.abs(state[1]) >= 1e-8) & (state[2] < 30), body, (start, call(start) - price, 0))[0]


def heat_2d(nu: Any, source: Any) -> Any:
    def step(_: Any, u: Any) -> Any:
        return u.at[1:-1, 1:-1].add(
            nu * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) + source[1:-1, 1:-1])

    return lax.fori_loop(0, 5, step, jnp.zeros(source.shape).at[0, :].set(1.0))


def kalman_filter(F: Any, H: Any, Q: Any, R: Any, ys: Any) -> Any:
    def step(state: Any, y: Any) -> Any:
        x, P, ll = state
        x = F @ x
        P = F @ P @ F.T + Q
        S = H @ P @ H.T + R
        K = P @ H.T @ jnp.linalg.inv(S)
        v = y - H @ x
        x = x + K @ v
        P = (jnp.eye(2) - K @ H) @ P
        ll = ll - 0.5 * (v @ jnp.linalg.solve(S, v) + jnp.log(jnp.linalg.det(S)) + jnp.log(2 * jnp.pi))
        return (x, P, ll), x

    (_, _, ll), xs = lax.scan(step, (jnp.zeros(2), jnp.eye(2), jnp.zeros(())), ys)
    return ll, xs


def garch(theta: Any, returns: Any) -> Any:
    omega, alpha, beta = theta

    def likelihood() -> Any:
        def step(s2: Any, last: Any) -> Any:
            s2 = omega + alpha * last ** 2 + beta * s2
            return s2, s2
        first = jnp.var(returns)
        s2 = jnp.concatenate([first[None], lax.scan(step, first, returns[:-1])[1]])
        return 0.5 * jnp.sum(jnp.log(2 * jnp.pi * s2) + returns ** 2 / s2)

    outside = (omega <= 0) | (alpha < 0) | (beta < 0) | (alpha + beta >= 1)
    return lax.cond(outside, lambda: jnp.full((), jnp.inf), likelihood)


def hmm_forward_backward(pi: Any, A: Any, B: Any, obs: Any) -> Any:
    def forward(alpha: Any, seen: Any) -> Any:
        alpha = (alpha @ A) * B[:, seen]
        scale = jnp.sum(alpha)
        alpha = alpha / scale
        return alpha, (alpha, scale)

    def backward(beta: Any, given: Any) -> Any:
        seen, scale = given
        beta = A @ (B[:, seen] * beta) / scale
        return beta, beta

    first = pi * B[:, obs[0]]
    total = first.sum()
    _, (alphas, scales) = lax.scan(forward, first / total, obs[1:])
    alpha, scale = jnp.concatenate([(first / total)[None], alphas]), jnp.concatenate([total[None], scales])
    last = jnp.ones(len(pi))
    betas = lax.scan(backward, last, (obs[1:], scales), reverse=True)[1]
    gamma = alpha * jnp.concatenate([betas, last[None]])
    return jnp.log(scale).sum(), gamma / gamma.sum(axis=1, keepdims=True)


def thomas(a: Any, b: Any, c: Any, d: Any) -> Any:
    def eliminate(above: Any, row: Any) -> Any:
        b_above, d_above = above
        a, b, c, d = row
        m = a / b_above
        kept = (b - m * c, d - m * d_above)
        return kept, kept

    def substitute(below: Any, row: Any) -> Any:
        b, c, d = row
        x = (d - c * below) / b
        return x, x

    _, (bs, ds) = lax.scan(eliminate, (b[0], d[0]), (a, b[1:], c, d[1:]))
    bs, ds = jnp.concatenate([b[:1], bs]), jnp.concatenate([d[:1], ds])
    last = ds[-1] / bs[-1]
    return jnp.concatenate([lax.scan(substitute, last, (bs[:-1], c, ds[:-1]), reverse=True)[1], last[None]])


def forward_substitution(L: Any, b: Any) -> Any:
    def row(i: Any, x: Any) -> Any:
        return x.at[i].set((b[i] - L[i] @ x) / L[i, i])      # what is not yet set is 0

    return lax.fori_loop(0, len(b), row, jnp.zeros(len(b)))


def soft_dtw(x: Any, y: Any, gamma: Any) -> Any:
    def soft_min(*values: Any) -> Any:
        z = -jnp.stack(values) / gamma
        m = jnp.max(z)
        return -gamma * (jnp.log(jnp.sum(jnp.exp(z - m))) + m)

    def column(left: Any, distances: Any) -> Any:
        def element(above: Any, given: Any) -> Any:
            distance, corner, left = given
            found = distance + soft_min(corner, above, left)
            return found, found
        filled = lax.scan(element, jnp.full((), 1e10), (distances, left[:-1], left[1:]))[1]
        return jnp.concatenate([jnp.full(1, 1e10), filled]), None

    start = jnp.full(len(x) + 1, 1e10).at[0].set(0.0)
    return lax.scan(column, start, ((x[:, None] - y[None, :]) ** 2).T)[0][-1]


def rnn_by_hand(Wxh: Any, Whh: Any, Why: Any, inputs: Any, targets: Any) -> Any:
    def step(h: Any, given: Any) -> Any:
        x, target = given
        h = jnp.tanh(Wxh @ x + Whh @ h)
        p = jnp.exp(Why @ h)
        return h, -jnp.log((p / jnp.sum(p))[target])

    return lax.scan(step, jnp.zeros(4), (inputs, targets))[1].sum()


def convolution_by_loops(image: Any, kernel: Any) -> Any:
    kh, kw = kernel.shape

    def pixel(i: Any, j: Any) -> Any:
        return jnp.sum(lax.dynamic_slice(image, (i, j), (kh, kw)) * kernel)

    over_row = jax.vmap(pixel, (None, 0))
    return jax.vmap(over_row, (0, None))(jnp.arange(image.shape[0] - kh + 1), jnp.arange(image.shape[1] - kw + 1))


def barrier_option(S0: Any, r: Any, sigma: Any, z: Any) -> Any:
    def path(row: Any) -> Any:
        def quarter(state: Any, e: Any) -> Any:
            s, alive = state
            s = jnp.where(alive, s * jnp.exp((r - 0.5 * sigma ** 2) * 0.25 + sigma * jnp.sqrt(0.25) * e), s)
            return (s, alive & (s >= 85.0)), None
        (s, alive), _ = lax.scan(quarter, (S0, jnp.array(True)), row)
        return jnp.where(alive, jnp.maximum(s - 100.0, 0.0), 0.0)

    return jnp.exp(-r) * jax.vmap(path)(z).mean()


def conjugate_gradients(A: Any, b: Any) -> Any:
    A = 0.5 * (A + A.T)

    def improve(state: Any) -> Any:
        x, r, p, rsold, _ = state
        Ap = A @ p
        alpha = rsold / (p @ Ap)
        x, r = x + alpha * p, r - alpha * Ap
        rsnew = r @ r
        return x, r, r + (rsnew / rsold) * p, rsnew, jnp.sqrt(rsnew) < 1e-9

    def step(state: Any, _: Any) -> Any:
        return lax.cond(state[-1], lambda state: state, improve, state), None

    return lax.scan(step, (jnp.zeros_like(b), b, b, b @ b, jnp.array(False)), length=10 * len(b))[0][0]
