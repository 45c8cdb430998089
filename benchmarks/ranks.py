"""Collectives in programs: their time by size beside C's, the time of a step of training by ranks, and what an overlap would save.

    python benchmarks/ranks.py                   # one rank: the step of training alone
    mpirun -n 2 python benchmarks/ranks.py

Numbers in docs/distributed.md are from here. Least times: the machine may do other things.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

os.environ.setdefault("ADJIT_THREADS", "1")

import numpy as np

import adjit as aj
from adjit import distributed as dist

RANK, SIZE = dist.rank(), dist.size()


def least(run: Callable[[], Any], calls: int, rounds: int = 15) -> float:
    """The least time of a call, in seconds: of `rounds` rounds of `calls` calls that all ranks begin together."""
    run()
    best = np.inf
    for _ in range(rounds):
        dist.all_reduce(0.0)
        begin = time.perf_counter()
        for _ in range(calls):
            run()
        best = min(best, (time.perf_counter() - begin) / calls)
    return best


def show(text: str) -> None:
    if RANK == 0:
        print(text, flush=True)


def in_a_loop(count: int, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return aj.compile(lambda x: aj.fori_loop(0, count, lambda i, x: function(x), x))


def collectives() -> None:
    """Time of one collective in a loop of a program, less that of the loop, and of the call by mpi4py."""
    comm = dist.init().comm
    show(f"{'bytes':>10} {'all_reduce':>11} {'all_gather':>11} {'fixed sum':>11} {'mpi4py':>11}   microseconds; GB/s of all_reduce")
    for nbytes in (8, 1_000, 10_000, 100_000, 1_000_000, 10_000_000):
        x = np.zeros(max(1, nbytes // 8))
        count = max(2, min(200, 4_000_000 // nbytes))
        bare, times = least(partial(in_a_loop(count, lambda x: x * 0.5), x), 3) / count, []
        for function in (lambda x: dist.all_reduce(x) * 0.5, lambda x: dist.all_gather(x)[0] * 0.5, fixed_sum):
            times.append(max(least(partial(in_a_loop(count, function), x), 3) / count - bare, 0.0))
        times.append(least(partial(comm.Allreduce, x, np.empty_like(x)), count))
        show(f"{x.nbytes:>10} " + " ".join(f"{each * 1e6:>11.2f}" for each in times) + f"   {x.nbytes / times[0] / 1e9:.2f}")


def fixed_sum(x: Any) -> Any:
    """The sum whose order does not depend on MPI: of `mean_gradients(shards=)`."""
    length = -(-len(x) // SIZE)
    padded = np.concatenate([x, np.zeros(length * SIZE - len(x))])
    parts = dist.all_to_all(np.reshape(padded, (SIZE, length)))
    return np.reshape(dist.all_gather(np.sum(parts, axis=0)), (-1,))[:len(x)] * 0.5


def overlap(width: int = 512, rows: int = 128, layers: int = 1) -> None:
    """Whether a reduction that was begun goes on while the processor computes: `Iallreduce`, then products, then `Wait`."""
    comm = dist.init().comm
    x, w = np.ones((rows, width), np.float32), np.ones((layers, width, width), np.float32) / width
    compute = aj.compile(lambda x, w: aj.scan(lambda x, w: (np.tanh(x @ w), None), x, w)[0])
    buffer, out = np.ones(width * width, np.float32), np.empty(width * width, np.float32)

    def overlapped() -> None:
        request = comm.Iallreduce(buffer, out)
        compute(x, w)
        request.Wait()

    alone, reduced = least(lambda: compute(x, w), 3, 100), least(lambda: comm.Allreduce(buffer, out), 3, 100)
    both = least(overlapped, 3, 100)
    show(f"computing {alone * 1e3:.3f} ms, all_reduce of {buffer.nbytes / 1e6:.1f} MB {reduced * 1e3:.3f} ms, one after the other "
         f"{(alone + reduced) * 1e3:.3f} ms, begun before and awaited behind {both * 1e3:.3f} ms: "
         f"{100 * (alone + reduced - both) / reduced:.0f} % of the reduction hidden")


def training(batch: int = 512) -> None:
    """A step of training of 784-512-256-10 in float32, 536,000 parameters: gradient, sum over ranks, update by Adam."""
    random = np.random.default_rng(0)
    sizes = (784, 512, 256, 10)
    params = [(random.normal(size=pair).astype(np.float32) / 28, np.zeros(pair[1], np.float32)) for pair in pairwise(sizes)]
    x, y = random.normal(size=(batch // SIZE, 784)).astype(np.float32), random.integers(0, 10, batch // SIZE)

    def loss(params: Any, x: Any, y: Any) -> Any:
        for w, b in params[:-1]:
            x = np.maximum(x @ w + b, 0.0)
        return aj.nn.functional.cross_entropy(x @ params[-1][0] + params[-1][1], y)

    adam = aj.optim.adam(1e-3)
    for name, shards, optimizer in (("MPI's order", None, adam), ("MPI's order, sharded Adam", None, dist.sharded(adam)),
                                    ("shards=8, sharded Adam", 8, dist.sharded(adam))):
        gradients = dist.mean_gradients(loss, shards=shards, scatter=isinstance(optimizer, dist.ShardedOptimizer))
        state = optimizer.init(params)

        @aj.compile
        def step(params: Any, state: Any, x: Any, y: Any, gradients: Any = gradients, optimizer: Any = optimizer) -> Any:
            value, grads = gradients(params, x, y)
            return *optimizer.update(params, grads, state), value

        spent = least(lambda step=step, state=state: step(params, state, x, y), 3)
        show(f"a step with {batch} rows on {SIZE} ranks, {name}: {spent * 1e3:.2f} ms")


if __name__ == "__main__":
    if SIZE > 1:
        collectives()
        overlap()
    training()
