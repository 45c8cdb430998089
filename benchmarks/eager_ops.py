"""Common operations on eager tensors beside PyTorch's: `make bench-eager` prints them by their ratio, at 10 x 10 and at a million elements,
forward alone and with the backward pass. One thread each; the least processor time of many runs, both in turns.

    python benchmarks/eager_ops.py [--seconds 0.1] [--only softmax,conv2d]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import adjit as aj
from adjit.eager.apply import machine_code

# Expressions of `L`, the library, and of `F`, its `nn.functional`. x, y, p, w: float32, p positive, w square; i, j: int64; m: bool.
ELEMENTWISE = (
    "x + y", "x - y", "x * y", "x / p", "x * 2.0", "1.0 - x", "x ** 2", "p ** y", "-x", "abs(x)", "x + y[0]", "x.exp()", "p.log()",
    "p.sqrt()", "p.rsqrt()", "x.sin()", "x.tanh()", "x.sigmoid()", "x.erf()", "p.lgamma()", "x.square()", "x.clamp(-1.0, 1.0)",
    "L.maximum(x, y)", "L.where(m, x, y)", "x.masked_fill(m, 0.0)", "L.lerp(x, y, 0.3)", "x.addcmul(x, y, value=0.5)", "x.float()",
    "x.double()", "x.clone()", "F.relu(x)", "F.gelu(x)", "F.silu(x)", "F.softplus(x)", "F.elu(x)", "F.leaky_relu(x, 0.1)",
    "F.mse_loss(x, y)", "F.l1_loss(x, y)", "F.smooth_l1_loss(x, y)", "F.binary_cross_entropy_with_logits(x, p)", "F.dropout(x, 0.5)",
)
REDUCTIONS = (
    "x.sum()", "x.sum(0)", "x.sum(-1)", "x.mean()", "x.mean(-1, keepdim=True)", "x.var(-1)", "x.std()", "x.amax(-1)", "x.max(-1)[0]",
    "x.prod(-1)", "x.norm()", "x.logsumexp(-1)", "F.softmax(x, -1)", "F.log_softmax(x, -1)", "x.cumsum(-1)",
    "F.layer_norm(x, x.shape[-1:])", "F.normalize(x, dim=-1)", "F.cross_entropy(x, i)",
)
SHAPES = (
    "x.reshape(-1)", "x.t()", "x.transpose(0, 1)", "x[0]", "x[:, 1:]", "x[:, :, None]", "x[i]", "x[m]", "x.unsqueeze(0)", "L.cat([x, y])",
    "L.stack([x, y])", "x.split(5)[1]", "x.chunk(2, 1)[0]", "x.flip(0)", "x.roll(1, 0)", "x.tril()", "x.expand(2, *x.shape)",
    "x.repeat(1, 2)", "x.gather(1, j)", "x.index_select(0, i)", "x.t().contiguous()", "F.pad(x, (1, 1))",
)
PRODUCTS = (
    "x @ w", "F.linear(x, w, w[0])", "L.einsum('ij,kj->ik', x, w)", "x[0] @ w", "L.bmm(x[None], w[None])", "L.outer(x[0], y[0])",
)
WITHOUT_GRADIENT = (
    "x > y", "x == y", "~m", "m & m", "x.argmax(-1)", "x.argsort(-1)", "m.any()", "i + i", "L.zeros(x.shape)", "L.ones_like(x)",
    "L.randn(x.shape)", "L.rand(x.shape)", "L.arange(x.numel())", "x.detach()", "x.isnan()", "x.round()", "x.floor()", "j.float()",
    "L.tensor(1.0)", "F.one_hot(i, 10)",
)
ORDER = ("x.sort(-1)[0]", "x.topk(5, -1)[0]", "x.flatten().topk(5)[0]", "x.median(-1)[0]")

# Layers, which have sizes of their own: expression, and the shapes of its float32 operands `a`, `b`, ...
LAYERS = {
    "conv2d 8x3x32x32": ("F.conv2d(a, b, c, padding=1)", ((8, 3, 32, 32), (16, 3, 3, 3), (16,))),
    "conv2d 8x16x32x32": ("F.conv2d(a, b, c, padding=1)", ((8, 16, 32, 32), (32, 16, 3, 3), (32,))),
    "conv2d 4x64x32x32": ("F.conv2d(a, b, c, padding=1)", ((4, 64, 32, 32), (64, 64, 3, 3), (64,))),
    "conv2d 2x3x16x16": ("F.conv2d(a, b, c, padding=1)", ((2, 3, 16, 16), (8, 3, 3, 3), (8,))),
    "conv_transpose2d 8x16x16x16": ("F.conv_transpose2d(a, b, c, stride=2, padding=1)", ((8, 16, 16, 16), (16, 8, 4, 4), (8,))),
    "conv3d 2x4x8x16x16": ("F.conv3d(a, b, c, padding=1)", ((2, 4, 8, 16, 16), (8, 4, 3, 3, 3), (8,))),
    "max_pool2d 2x4x16x16": ("F.max_pool2d(a, 2)", ((2, 4, 16, 16),)),
    "conv1d 8x16x128": ("F.conv1d(a, b, c, padding=1)", ((8, 16, 128), (16, 16, 3), (16,))),
    "max_pool2d 8x16x32x32": ("F.max_pool2d(a, 2)", ((8, 16, 32, 32),)),
    "avg_pool2d 8x16x32x32": ("F.avg_pool2d(a, 2)", ((8, 16, 32, 32),)),
    "batch_norm 8x16x32x32": ("F.batch_norm(a, None, None, b, c, training=True)", ((8, 16, 32, 32), (16,), (16,))),
    "layer_norm 64x128": ("F.layer_norm(a, (128,), b, c)", ((64, 128), (128,), (128,))),
    "group_norm 8x16x16x16": ("F.group_norm(a, 4, b, c)", ((8, 16, 16, 16), (16,), (16,))),
    "embedding 1000x64": ("F.embedding(i, a)", ((1000, 64),)),
    "embedding_bag 1000x64": ("F.embedding_bag(i.reshape(-1, 8), a, mode='mean')", ((1000, 64),)),
    "attention 4x8x64x32": ("F.scaled_dot_product_attention(a, b, c)", ((4, 8, 64, 32),) * 3),
    "linear 128x256": ("F.linear(a, b, c)", ((128, 256), (256, 256), (256,))),
    "solve 30x30": ("L.linalg.solve(a + 9.0 * e, b)", ((30, 30), (30, 4))),
    "inv 30x30": ("L.linalg.inv(a + 9.0 * e)", ((30, 30),)),
    "cholesky 30x30": ("L.linalg.cholesky(a @ a.t() + 9.0 * e)", ((30, 30),)),
    "lstm 16x20x32": ("lstm(a)[0]", ((16, 20, 32),)),
    "gru 16x20x32": ("gru(a)[0]", ((16, 20, 32),)),
    "rnn 16x20x32": ("rnn(a)[0]", ((16, 20, 32),)),
    "layer_norm 8x64x256": ("F.layer_norm(a, (256,), b, c)", ((8, 64, 256), (256,), (256,))),
    "prelu 8x16x16x16": ("F.prelu(a, b)", ((8, 16, 16, 16), (16,))),
    "grid_sample 4x8x16x16": ("F.grid_sample(a, b, align_corners=False)", ((4, 8, 16, 16), (4, 16, 16, 2))),
    "nearest 4x8x16x16": ("F.interpolate(a, scale_factor=2, mode='nearest')", ((4, 8, 16, 16),)),
    "mlp of modules 32x64": ("mlp(a)", ((32, 64),)),
    "interpolate 4x8x16x16": ("F.interpolate(a, scale_factor=2, mode='bilinear', align_corners=False)", ((4, 8, 16, 16),)),
}


class Case:
    """An expression in one library: what it reads, and its forward pass, alone or with the backward pass."""

    def __init__(self, library: Any, text: str, arrays: dict[str, np.ndarray], gradients: bool):
        self.names: dict[str, Any] = {"L": library, "F": library.nn.functional}
        library.manual_seed(0)
        for name in ("lstm", "gru", "rnn"):
            if text.startswith(name):
                self.names[name] = getattr(library.nn, name.upper())(32, 32, batch_first=True)
        if text.startswith("mlp"):
            self.names["mlp"] = library.nn.Sequential(library.nn.Linear(64, 64), library.nn.ReLU(), library.nn.Linear(64, 10))
        self.leaves = []
        for name, array in arrays.items():
            tensor = library.tensor(array)
            if gradients and array.dtype == np.float32 and name != "e" and name in text:
                tensor.requires_grad_()
                self.leaves.append(tensor)
            self.names[name] = tensor
        modules = [self.names[name] for name in ("lstm", "gru", "rnn", "mlp") if name in self.names]
        self.leaves += [parameter for module in modules for parameter in module.parameters()]
        self.function: Callable[[], Any] = eval(f"lambda {', '.join(f'{name}={name}' for name in self.names)}: {text}", self.names)
        self.run = self.forward_and_backward if gradients else self.function
        if gradients:
            result = self.function()
            if not result.requires_grad:
                raise ValueError(f"{text} has no gradient")
            self.seed = library.ones_like(result.detach())

    def forward_and_backward(self) -> None:
        self.function().backward(self.seed)
        for leaf in self.leaves:
            leaf.grad = None


def cases(only: list[str]) -> Iterator[tuple[str, str, dict[str, np.ndarray], bool]]:
    """Names, expressions, arrays, and whether they are differentiated."""
    draw = np.random.default_rng(0)
    floats = lambda *shape: draw.standard_normal(shape).astype(np.float32)     # noqa: E731
    for size in (10, 1000):
        arrays = {"x": floats(size, size), "y": floats(size, size), "w": floats(size, size), "p": np.abs(floats(size, size)) + 0.1,
                  "i": draw.integers(0, 10, size), "j": draw.integers(0, size, (size, size)), "m": draw.random((size, size)) < 0.3}
        for text in (*ELEMENTWISE, *REDUCTIONS, *SHAPES, *PRODUCTS, *WITHOUT_GRADIENT, *ORDER):
            if wanted(text, only):
                yield f"{text}, {size}x{size}", text, arrays, False
                if text not in WITHOUT_GRADIENT:
                    yield f"{text}, {size}x{size}", text, arrays, True
    for name, (text, shapes) in LAYERS.items():
        if wanted(name, only):
            arrays = {letter: floats(*shape) / 4 for letter, shape in zip("abc", shapes, strict=False)}
            arrays |= {"i": draw.integers(0, 1000, 256), "e": np.eye(30, dtype=np.float32)}
            for gradients in (False, True):
                yield name, text, arrays, gradients


def wanted(name: str, only: list[str]) -> bool:
    return not only or any(part in name for part in only)


def least(functions: tuple[Callable[[], Any], ...], seconds: float) -> list[float]:
    """Least time of each function, run in turns."""
    for function in functions:
        once(function, 2)       # imports, traces, compiles
    repeats = max(int(2e-4 / max(once(functions[1], 1), 1e-7)), 1)
    times = [np.inf] * len(functions)
    end = time.perf_counter() + seconds
    rounds = 0
    while rounds < 5 or time.perf_counter() < end:
        times = [min(best, once(function, repeats)) for best, function in zip(times, functions, strict=True)]
        rounds += 1
    return times


def once(function: Callable[[], Any], repeats: int) -> float:
    function()      # the other one's results have left the caches
    start = time.process_time()
    for _ in range(repeats):
        function()
    return (time.process_time() - start) / repeats


def warm_up() -> None:
    """Run many calls, after which adjit has machine code for all of them: the first case would be measured without."""
    x, end = aj.ones(2), time.perf_counter() + 5
    while machine_code.call is None and time.perf_counter() < end:
        x + x


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.1, help="wall time for each case")
    parser.add_argument("--only", default="", help="parts of names, separated by commas")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results = []
    warm_up()
    for name, text, arrays, gradients in cases([part for part in options.only.split(",") if part]):
        try:
            functions = tuple(Case(library, text, arrays, gradients).run for library in (aj, torch))
            ours, theirs = least(functions, options.seconds)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error).splitlines()[0]}")
            continue
        results.append((ours / theirs, f"{name}{', with backward' if gradients else ''}", ours, theirs))
    results.sort(reverse=True)
    for ratio, name, ours, theirs in results:
        print(f"{ratio:8.2f}  {name:60} {ours * 1e6:12.2f} us, PyTorch {theirs * 1e6:12.2f} us")
    ratios = np.array([ratio for ratio, *_ in results])
    print(f"{len(ratios)} cases, {np.sum(ratios > 1.5)} above 1.5 times PyTorch's time; median ratio {np.median(ratios):.2f}")


if __name__ == "__main__":
    main()
