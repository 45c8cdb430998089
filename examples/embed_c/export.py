"""Writes a training step as a library for C, and the data that it is to be trained on.

A classifier of handwritten digits, 64-64-10, trained with Adam; one call of the step does forward, backward and update.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

import adjit as aj

STEPS, BATCH = 200, 128
OPTIMIZER = aj.optim.adam(lr=2e-3)


def loss(params, x, y):
    hidden = np.maximum(x @ params["w1"] + params["b1"], 0)
    return aj.nn.functional.cross_entropy(hidden @ params["w2"] + params["b2"], y)


@aj.compile(donate=("params", "state"))
def step(params, state, x, y):
    value, gradients = aj.value_and_grad(loss)(params, x, y)
    params, state = OPTIMIZER.update(params, gradients, state)
    return params, state, value


def main(folder: Path) -> None:
    rng = np.random.default_rng(0)
    params = {"w1": rng.normal(0, 0.15, (64, 64)), "b1": np.zeros(64), "w2": rng.normal(0, 0.15, (64, 10)), "b2": np.zeros(10)}
    params = {name: array.astype(np.float32) for name, array in params.items()}
    state = OPTIMIZER.init(params)
    images, labels = load_digits(return_X_y=True)
    images, labels = (images / 16).astype(np.float32), labels.astype(np.int64)

    folder.mkdir(exist_ok=True)
    step.export(folder / "step.so", params, state, images[:BATCH], labels[:BATCH])
    step.export(folder / "step.adjit", params, state, images[:BATCH], labels[:BATCH], params=("params", "state"))
    (folder / "images.bin").write_bytes(images.tobytes())
    (folder / "labels.bin").write_bytes(labels.tobytes())
    leaves = [*params.values(), *(leaf for part in state for leaf in (part.values() if isinstance(part, dict) else [part]))]
    (folder / "start.bin").write_bytes(b"".join(np.asarray(leaf).tobytes() for leaf in leaves))

    losses = []
    for number in range(STEPS):
        first = number * BATCH % (len(images) - BATCH)
        params, state, value = step(params, state, images[first:first + BATCH], labels[first:first + BATCH])
        losses.append(float(value).hex())
    (folder / "losses.txt").write_text("\n".join(losses) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "build"))
