"""Train a digit classifier on real images, with one compiled program a step: forward, backward and Adam, updated in place.

    python examples/digits.py

Writes out/loss.png and out/memory.png. Needs the extra `demo`: pip install 'adjit[demo]'.
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import adjit as aj
from adjit.nn import functional as F

OUT = Path("out")
SIZES = (64, 256, 128, 10)
BATCH = 128
EPOCHS = 60
Params = list[dict[str, np.ndarray]]

adam = aj.optim.adam(2e-3)


def init(generator: np.random.Generator) -> Params:
    """Weights scaled for gelu, float32."""
    return [{"w": generator.normal(0, np.sqrt(2 / fan_in), (fan_in, fan_out)).astype(np.float32), "b": np.zeros(fan_out, np.float32)}
            for fan_in, fan_out in itertools.pairwise(SIZES)]


def logits(params: Params, x: np.ndarray) -> np.ndarray:
    *hidden, last = params
    for layer in hidden:
        x = F.gelu(x @ layer["w"] + layer["b"], approximate="tanh")
        x = F.layer_norm(x, x.shape[-1])
    return x @ last["w"] + last["b"]


def loss(params: Params, x: np.ndarray, labels: np.ndarray) -> np.ndarray:
    return F.cross_entropy(logits(params, x), labels)


def step(params: Params, state: Any, x: np.ndarray, labels: np.ndarray, key: np.ndarray) -> tuple[Params, Any, np.ndarray]:
    """One step on a batch, with a tenth of the pixels dropped."""
    x = F.dropout(x, 0.1, key=aj.random.fold_in(key, state.count))
    value, grads = aj.value_and_grad(loss)(params, x, labels)
    params, state = adam.update(params, grads, state)
    return params, state, value


def batches(count: int, generator: np.random.Generator) -> np.ndarray:
    """The numbers of the images in each batch of an epoch; what does not fill a batch waits for the next epoch."""
    order = generator.permutation(count)
    return order[:count - count % BATCH].reshape(-1, BATCH)


def train(compiled: Any, images: np.ndarray, labels: np.ndarray, console: Console) -> tuple[Params, list[float]]:
    """The trained parameters and the loss of every step."""
    generator = np.random.default_rng(0)
    params = init(generator)
    state = adam.init(params)
    key = aj.random.key(0)
    losses: list[float] = []
    begin = time.perf_counter()
    total = EPOCHS * len(batches(len(images), generator))
    with Progress(TextColumn("training"), BarColumn(), MofNCompleteColumn(), TextColumn("loss {task.fields[loss]:.3f}"),
                  TextColumn("{task.fields[speed]:.0f} steps/s"), console=console) as progress:
        task = progress.add_task("", total=total, loss=float("nan"), speed=0.0)
        for _ in range(EPOCHS):
            for chosen in batches(len(images), generator):
                params, state, value = compiled(params, state, images[chosen], labels[chosen], key)
                losses.append(float(value))
                if len(losses) == 1:
                    begin = time.perf_counter()     # the first step compiles
            progress.update(task, completed=len(losses), loss=np.mean(losses[-20:]), speed=len(losses) / (time.perf_counter() - begin))
    return params, losses


def accuracy(params: Params, images: np.ndarray, labels: np.ndarray) -> float:
    return float(np.mean(np.argmax(aj.compile(logits)(params, images), axis=1) == labels))


def steps_per_second(backend: str, images: np.ndarray, labels: np.ndarray, steps: int = 300) -> float:
    """The median speed of the step with a backend, on one batch, without the first calls."""
    compiled = aj.compile(step, donate=("params", "state"), backend=backend)
    params = init(np.random.default_rng(0))
    state = adam.init(params)
    key = aj.random.key(0)
    times = []
    for _ in range(steps):
        begin = time.perf_counter()
        params, state, _ = compiled(params, state, images[:BATCH], labels[:BATCH], key)
        times.append(time.perf_counter() - begin)
    return 1 / float(np.median(times[10:]))


def plot_loss(losses: list[float], path: Path) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    smooth = np.convolve(losses, np.full(21, 1 / 21), "valid")
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot(losses, color="0.8", linewidth=1, label="one batch")
    axes.plot(np.arange(10, len(losses) - 10), smooth, color="tab:blue", linewidth=2, label="mean of 21 batches")
    axes.set(xlabel="step", ylabel="cross entropy", yscale="log", title="Digits: loss of the training batches", xlim=(0, len(losses)))
    axes.grid(alpha=0.3, which="both")
    axes.legend()
    figure.savefig(path, dpi=120)


def report(compiled: Any, fast: float, slow: float, test: float) -> Table:
    memory = compiled.memory()
    compiling = next(line for line in compiled.explain().splitlines() if line.startswith("compiled in "))
    table = Table(title="one compiled step: forward, backward and Adam", show_header=False)
    for name, text in (
            ("compiled in", compiling.removeprefix("compiled in ")),
            ("speed", f"{fast:.0f} steps/s"),
            ("ratio to the interpret backend", f"{fast / slow:.1f} ({slow:.0f} steps/s)"),
            ("working memory of the step", f"{memory.peak_bytes / 1e6:.2f} MB at the peak"),
            ("keeping every value would take", f"{memory.naive_bytes / 1e6:.2f} MB"),
            ("accuracy on images not trained on", f"{test:.2%}")):
        table.add_row(name, text)
    return table


def main() -> None:
    console = Console()
    OUT.mkdir(exist_ok=True)
    digits = load_digits()
    images = (digits.data / 16.0).astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, digits.target, test_size=0.25, random_state=0, stratify=digits.target)
    console.print(f"{len(train_images)} images to train on, {len(test_images)} to test; compiling for this machine ...")
    compiled = aj.compile(step, donate=("params", "state"))
    params, losses = train(compiled, train_images, train_labels, console)
    test = accuracy(params, test_images, test_labels)
    fast, slow = (steps_per_second(backend, train_images, train_labels) for backend in ("auto", "interpret"))
    console.print(report(compiled, fast, slow, test))
    plot_loss(losses, OUT / "loss.png")
    compiled.memory().plot(OUT / "memory.png")
    console.print(f"pictures: {OUT / 'loss.png'}, {OUT / 'memory.png'}")
    if test < 0.97:
        raise SystemExit(f"the test accuracy is {test:.2%}, expected at least 97 %")


if __name__ == "__main__":
    main()
