"""Data-parallel training on any number of ranks: prints the digest of the parameters, and goes on from a checkpoint if there is one."""

from __future__ import annotations

import argparse
import hashlib
import os
from typing import Any

import numpy as np

import adjit as aj
from adjit import distributed as dist
from adjit.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=8)
parser.add_argument("--shards", type=int, default=8)
parser.add_argument("--sharded", action="store_true")
parser.add_argument("--checkpoint", default="")
parser.add_argument("--die-at", type=int, default=-1)
options = parser.parse_args()
rank, size = dist.rank(), dist.size()

RANDOM = np.random.default_rng(0)
IMAGES, LABELS = RANDOM.normal(size=(options.steps, 64, 1, 8, 8)).astype(np.float32), RANDOM.integers(0, 10, (options.steps, 64))
params: Any = {"kernel": 0.3 * RANDOM.normal(size=(8, 1, 3, 3)).astype(np.float32), "bias": np.zeros(8, np.float32),
               "w": RANDOM.normal(size=(8 * 16, 10)).astype(np.float32) / 11, "b": np.zeros(10)}      # float32 and float64


def loss(params: Any, images: Any, labels: Any) -> Any:
    hidden = F.max_pool2d(F.relu(F.conv2d(images, params["kernel"], params["bias"], padding=1)), 2)
    scores = np.reshape(hidden, (len(labels), -1)) @ params["w"] + params["b"]
    shifted = scores - np.max(scores, axis=1, keepdims=True)
    return np.mean(np.log(np.sum(np.exp(shifted), axis=1)) - np.take_along_axis(shifted, labels[:, None], 1)[:, 0])


adam = aj.optim.adam(1e-2)
optimizer: Any = dist.sharded(adam) if options.sharded else adam
gradients = dist.mean_gradients(loss, shards=options.shards or None, scatter=options.sharded)
state = optimizer.init(params)


@aj.compile(donate=("params", "state"))
def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
    value, grads = gradients(params, images, labels)
    return *optimizer.update(params, grads, state), value


first = 0
if options.checkpoint and os.path.exists(options.checkpoint):
    whole = optimizer.gather(state, params) if options.sharded else state
    params, whole, first = dist.load(options.checkpoint, (params, whole, 0))
    state = optimizer.scatter(whole) if options.sharded else whole
    if rank == 0:
        print(f"goes on from step {first}", flush=True)
rows = 64 // size
for number in range(first, options.steps):
    if number == options.die_at and rank == size - 1:
        os._exit(9)
    own = slice(rank * rows, (rank + 1) * rows)
    params, state, value = step(params, state, IMAGES[number, own], LABELS[number, own])
    if options.checkpoint and number % 2:
        dist.save((params, optimizer.gather(state, params) if options.sharded else state, number + 1), options.checkpoint)

digest = hashlib.sha256(b"".join(params[name].tobytes() for name in sorted(params))).hexdigest()[:16]
if rank == 0:
    print(f"digest {digest} value {float(value)!r}", flush=True)
