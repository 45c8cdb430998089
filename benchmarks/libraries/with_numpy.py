"""Plain NumPy: gradients by hand, and everything in place that a careful person would do in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from problems import ADAM_BETAS, ADAM_EPSILON, ADAM_RATE, LEARNING_RATE, Problem, lower_triangle, named
from tasks import Library, Readings, Task, gradient_readings, training_readings

Array = np.ndarray
GELU_SLOPE, GELU_CUBE = np.float32(np.sqrt(2 / np.pi)), np.float32(0.044715)


def library() -> Library:
    def small_sum(arrays: list[Array]) -> Callable[[], Any]:
        def call() -> Array:
            total = arrays[0] * 2
            for array in arrays[1:]:
                total = total + array
            return total
        return call
    return Library({}, None, open_task, small_sum)


def open_task(problem: Problem) -> Task:
    loss_and_gradients = DERIVATIVES[problem.name]
    params = _copied(problem.params)
    moments = [(np.zeros_like(p), np.zeros_like(p)) for p in named(params).values()] if problem.kind == "adam" else []
    count = 0

    def compute() -> tuple[Any, dict[str, Array]]:
        value, gradients = loss_and_gradients(params, *problem.data, **problem.constants)
        return value, named(gradients)

    def train() -> Any:
        nonlocal count
        value, gradients = compute()
        count += 1
        for index, (name, p) in enumerate(named(params).items()):
            if problem.kind == "adam":
                _adam(p, gradients[name], *moments[index], count)
            else:
                p -= np.float32(LEARNING_RATE) * gradients[name]
        return value

    def reset() -> None:
        nonlocal count
        count = 0
        for name, p in named(params).items():
            np.copyto(p, problem.named_params[name])
        for pair in moments:
            for moment in pair:
                moment.fill(0)

    def readings() -> Readings:
        if problem.kind == "gradient":
            return gradient_readings(problem, *compute())
        return training_readings(problem, reset, train, lambda: named(params), lambda: compute()[1])
    return Task(compute if problem.kind == "gradient" else train, reset, readings)


def _copied(params: Any) -> Any:
    return {name: p.copy() for name, p in params.items()} if isinstance(params, dict) else [p.copy() for p in params]


def _adam(p: Array, g: Array, mean: Array, variance: Array, count: int) -> None:
    beta1, beta2 = ADAM_BETAS
    mean *= beta1
    mean += (1 - beta1) * g
    variance *= beta2
    variance += (1 - beta2) * np.square(g)
    scale = np.sqrt(variance)
    scale *= 1 / np.sqrt(1 - beta2 ** count)
    scale += ADAM_EPSILON
    np.divide(mean, scale, out=scale)
    scale *= ADAM_RATE / (1 - beta1 ** count)
    p -= scale


def tiny(p: list[Array], x: Array, y: Array) -> tuple[Any, list[Array]]:
    before = x @ p[0] + p[1]
    hidden = np.maximum(before, 0)
    error = hidden @ p[2] + p[3] - y
    d_out = 2 / error.size * error
    d_hidden = d_out @ p[2].T
    d_hidden[before <= 0] = 0
    return np.mean(error ** 2), [x.T @ d_hidden, d_hidden.sum(0), hidden.T @ d_out, d_out.sum(0)]


def mlp(p: list[Array], x: Array, y: Array) -> tuple[Any, list[Array]]:
    layers, h = [x], x
    for i in range(0, len(p), 2):
        h = h @ p[i]
        h += p[i + 1]
        if i < len(p) - 2:
            np.maximum(h, 0, out=h)
            layers.append(h)
    value, d = _cross_entropy(h, y)
    gradients: list[Array] = []
    for i in range(len(p) - 2, -1, -2):
        h = layers[i // 2]
        gradients[:0] = [h.T @ d, d.sum(0)]
        if i:
            d = d @ p[i].T
            d *= h > 0
    return value, gradients


def chain(p: list[Array]) -> tuple[Any, list[Array]]:
    x, w, b = p
    z = x * w
    z += b
    y, slope = _gelu(z)
    value = np.dot(y, y)
    slope *= y
    slope *= 2
    return value, [slope * w, slope * x, slope]


def lnsm(p: list[Array], t: Array) -> tuple[Any, list[Array]]:
    x, s, b = p
    normal, scale = _normalise(x)
    a = _softmax(normal * s + b)
    value = np.vdot(a, t)
    d = a * (t - np.einsum("ij,ij->i", a, t)[:, None])
    return value, list(_norm_gradients(d, normal, scale, s))


def transformer(p: dict[str, Array], x: Array, target: Array, heads: int) -> tuple[Any, dict[str, Array]]:
    B, T, D = x.shape
    depth = D // heads
    root = np.float32(np.sqrt(depth))
    n1, r1 = _normalise(x)
    z1 = n1 * p["s1"] + p["c1"]
    q, k, v = (z1 @ p["q"]).reshape(B, T, 3, heads, depth).transpose(2, 0, 3, 1, 4)
    scores = q @ k.swapaxes(-1, -2)
    scores /= root
    scores[..., ~np.tri(T, dtype=bool)] = -1e9
    a = _softmax(scores)
    mixed = (a @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
    h = x + mixed @ p["o"]
    n2, r2 = _normalise(h)
    z2 = n2 * p["s2"] + p["c2"]
    g, slope = _gelu(z2 @ p["u"] + p["bu"])
    error = h + g @ p["d"] + p["bd"] - target

    d = 2 / np.float32(error.size) * error
    d_g = d @ p["d"].T
    d_g *= slope
    d_h, d_s2, d_c2 = _norm_gradients(d_g @ p["u"].T, n2, r2, p["s2"])
    d_h += d
    d_heads = (d_h @ p["o"].T).reshape(B, T, heads, depth).transpose(0, 2, 1, 3)
    d_a = d_heads @ v.swapaxes(-1, -2)
    d_a -= np.einsum("bhij,bhij->bhi", d_a, a)[..., None]
    d_a *= a
    d_a /= root
    d_qkv = np.stack([d_a @ k, d_a.swapaxes(-1, -2) @ q, a.swapaxes(-1, -2) @ d_heads])
    d_qkv = d_qkv.transpose(1, 3, 0, 2, 4).reshape(B, T, 3 * D)
    _, d_s1, d_c1 = _norm_gradients(d_qkv @ p["q"].T, n1, r1, p["s1"])

    def weight(inputs: Array, d: Array) -> Array:
        return inputs.reshape(B * T, -1).T @ d.reshape(B * T, -1)
    return np.mean(error ** 2), {
        "q": weight(z1, d_qkv), "o": weight(mixed, d_h), "u": weight(z2, d_g), "d": weight(g, d),
        "bu": d_g.sum((0, 1)), "bd": d.sum((0, 1)),
        "s1": d_s1, "c1": d_c1, "s2": d_s2, "c2": d_c2}


def cnn(p: list[Array], x: Array, y: Array) -> tuple[Any, list[Array]]:
    """Images lie as [batch, height, width, channels], so that a convolution is one product of matrices."""
    w1, w2, w3 = p
    patches1 = _patches(x.transpose(0, 2, 3, 1))
    h1, pooled1 = _relu_pool(patches1 @ _as_matrix(w1))
    patches2 = _patches(pooled1)
    h2, pooled2 = _relu_pool(patches2 @ _as_matrix(w2))
    flat = pooled2.transpose(0, 3, 1, 2).reshape(len(x), -1)
    value, d = _cross_entropy(flat @ w3, y)

    n, height, width, channels = pooled2.shape
    d_h2 = _pool_gradient((d @ w3.T).reshape(n, channels, height, width).transpose(0, 2, 3, 1), h2, pooled2)
    d_patches = (d_h2 @ _as_matrix(w2).T).reshape(*d_h2.shape[:3], 3, 3, -1)
    padded = np.zeros((n, d_h2.shape[1] + 2, d_h2.shape[2] + 2, pooled1.shape[-1]), x.dtype)
    for i in range(3):
        for j in range(3):
            padded[:, i:i + d_h2.shape[1], j:j + d_h2.shape[2]] += d_patches[:, :, :, i, j]
    d_h1 = _pool_gradient(padded[:, 1:-1, 1:-1], h1, pooled1)

    def filters(patches: Array, d: Array, like: Array) -> Array:
        product = patches.reshape(-1, patches.shape[-1]).T @ d.reshape(-1, d.shape[-1])
        return product.reshape(3, 3, like.shape[1], like.shape[0]).transpose(3, 2, 0, 1)
    return value, [filters(patches1, d_h1, w1), filters(patches2, d_h2, w2), flat.T @ d]


def rnn(p: list[Array], x: Array, y: Array) -> tuple[Any, list[Array]]:
    w, u, b, out = p
    T, B, D = x.shape
    inputs = (x.reshape(T * B, D) @ w).reshape(T, B, -1)
    inputs += b
    h = np.zeros((T + 1, B, len(b)), x.dtype)
    for t in range(T):
        np.tanh(inputs[t] + h[t] @ u, out=h[t + 1])
    error = h[T] @ out - y
    d_out = 2 / np.float32(error.size) * error
    d_h = d_out @ out.T
    d_pre = np.empty_like(inputs)
    for t in range(T - 1, -1, -1):
        d_pre[t] = d_h * (1 - h[t + 1] ** 2)
        d_h = d_pre[t] @ u.T
    flat = d_pre.reshape(T * B, -1)
    return np.mean(error ** 2), [x.reshape(T * B, D).T @ flat, h[:-1].reshape(T * B, -1).T @ flat, flat.sum(0), h[T].T @ d_out]


def logreg(p: list[Array], X: Array, y: Array) -> tuple[Any, list[Array]]:
    (b,) = p
    z = X @ b
    value = np.dot(y, z) - np.logaddexp(0.0, z).sum() - 0.5 * np.dot(b, b)
    return value, [(y - 1 / (1 + np.exp(-z))) @ X - b]


def gmm(p: list[Array], X: Array) -> tuple[Any, list[Array]]:
    al, mu, icf = p
    n, d = X.shape
    k = len(al)
    rows, columns = lower_triangle(d)
    L = np.zeros((k, d, d))
    L[:, rows, columns] = icf[:, d:]
    diagonal = np.exp(icf[:, :d])
    L[:, range(d), range(d)] = diagonal
    centred = X - mu[:, None]
    Qx = centred @ L.swapaxes(1, 2)
    main = (al + icf[:, :d].sum(1))[:, None] - 0.5 * np.einsum("kni,kni->kn", Qx, Qx)
    top, top_al = main.max(0), al.max()
    weights, weights_al = np.exp(main - top), np.exp(al - top_al)
    total, total_al = weights.sum(0), weights_al.sum()
    weights /= total
    value = ((np.log(total) + top).sum() - n * (np.log(total_al) + top_al) + 0.5 * np.sum(diagonal ** 2) + 0.5 * np.sum(icf[:, d:] ** 2)
             - icf[:, :d].sum())
    per_part = weights.sum(1)
    Qx *= weights[:, :, None]
    d_L = -Qx.swapaxes(1, 2) @ centred
    d_icf = np.empty_like(icf)
    d_icf[:, :d] = d_L[:, range(d), range(d)] * diagonal + per_part[:, None] + diagonal ** 2 - 1
    d_icf[:, d:] = d_L[:, rows, columns] + icf[:, d:]
    return value, [per_part - n * weights_al / total_al, np.einsum("ki,kij->kj", Qx.sum(1), L), d_icf]


def gp(p: list[Array], X: Array, y: Array) -> tuple[Any, list[Array]]:
    lengths, (scale, noise) = p
    z = X * np.exp(-lengths)
    squares = np.sum(z * z, axis=1)
    kernel = np.exp(2 * scale - 0.5 * (squares[:, None] + squares[None] - 2 * z @ z.T))
    factor = np.linalg.cholesky(kernel + np.exp(2 * noise) * np.eye(len(y)))
    inverse = np.linalg.inv(factor)
    half = inverse @ y
    weights = half @ inverse
    slope = 0.5 * (inverse.T @ inverse - np.outer(weights, weights))
    of_noise = 2 * np.exp(2 * noise) * np.trace(slope)
    slope *= kernel
    of_lengths = 2 * (slope.sum(1) @ (z * z) - np.sum(z * (slope @ z), axis=0))
    value = 0.5 * np.sum(half ** 2) + np.sum(np.log(np.diagonal(factor)))
    return value, [of_lengths, np.array([2 * slope.sum(), of_noise])]


DERIVATIVES: dict[str, Callable[..., tuple[Any, Any]]] = {
    "tiny": tiny, "mlp": mlp, "chain": chain, "lnsm": lnsm, "transformer": transformer, "cnn": cnn, "rnn": rnn,
    "logreg": logreg, "gmm": gmm, "gp": gp}


def _cross_entropy(logits: Array, y: Array) -> tuple[Any, Array]:
    rows = np.arange(len(y))
    shifted = logits - logits.max(1, keepdims=True)
    exps = np.exp(shifted)
    totals = exps.sum(1, keepdims=True)
    value = np.mean(np.log(totals[:, 0]) - shifted[rows, y])
    exps /= totals
    exps[rows, y] -= 1
    exps /= np.float32(len(y))
    return value, exps


def _softmax(x: Array) -> Array:
    a = np.exp(x - x.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    return a


def _gelu(z: Array) -> tuple[Array, Array]:
    """gelu(z) in its tanh form, and its derivative."""
    square = z * z
    t = np.tanh(GELU_SLOPE * z * (1 + GELU_CUBE * square))
    half = np.float32(0.5)
    slope = half * (1 + t) + half * z * (1 - t * t) * GELU_SLOPE * (1 + 3 * GELU_CUBE * square)
    return half * z * (1 + t), slope


def _normalise(x: Array) -> tuple[Array, Array]:
    """Rows with mean 0 and variance 1, and what they were multiplied by."""
    normal = x - x.mean(-1, keepdims=True)
    scale = 1 / np.sqrt(np.square(normal).mean(-1, keepdims=True) + np.float32(1e-5))
    normal *= scale
    return normal, scale


def _norm_gradients(d: Array, normal: Array, scale: Array, s: Array) -> tuple[Array, Array, Array]:
    """Of layer norm: of its input, its scale, its shift."""
    axes = tuple(range(d.ndim - 1))
    d_s, d_shift = (d * normal).sum(axes), d.sum(axes)
    d = d * s
    d_x = d - d.mean(-1, keepdims=True) - normal * (d * normal).mean(-1, keepdims=True)
    d_x *= scale
    return d_x, d_s, d_shift


def _patches(x: Array) -> Array:
    """[n, height, width, 9 * channels] of [n, height, width, channels], zeros around."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(*x.shape[:3], -1)


def _as_matrix(w: Array) -> Array:
    return w.transpose(2, 3, 1, 0).reshape(-1, len(w))


def _relu_pool(h: Array) -> tuple[Array, Array]:
    np.maximum(h, 0, out=h)
    n, height, width, channels = h.shape
    return h, h.reshape(n, height // 2, 2, width // 2, 2, channels).max((2, 4))


def _pool_gradient(d: Array, h: Array, pooled: Array) -> Array:
    """Through max pooling and relu: to the largest element of each window, where it is above 0."""
    n, height, width, channels = h.shape
    windows = h.reshape(n, height // 2, 2, width // 2, 2, channels)
    largest = pooled[:, :, None, :, None]
    return ((windows == largest) & (largest > 0)).reshape(h.shape) * np.repeat(np.repeat(d, 2, 1), 2, 2)
