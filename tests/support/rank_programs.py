"""Random programs with collectives, their gradients and products with Hessians: native, with donated arguments, and for a batch, against
the interpreter. Run by each rank: `rank_programs.py FIRST LAST` are the seeds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import adjit as aj
from adjit import distributed as dist

RANK, SIZE = dist.rank(), dist.size()
STEPS: tuple[Callable[[Any, Any, int], Any], ...] = (
    lambda u, v, root: np.sin(u),
    lambda u, v, root: u * 0.5 + v,
    lambda u, v, root: u * v * 0.3,
    lambda u, v, root: dist.all_reduce(u) * (0.5 / SIZE),
    lambda u, v, root: np.sum(dist.all_gather(u) * 0.4, axis=0),
    lambda u, v, root: np.reshape(dist.all_to_all(np.reshape(u, (SIZE, -1))), (-1,)),
    lambda u, v, root: dist.broadcast(u, root),
    lambda u, v, root: np.cumsum(u) * 0.1,
    lambda u, v, root: dist.replicated(u) + v,
    lambda u, v, root: aj.fori_loop(0, 3, lambda i, c: np.tanh(c + dist.all_reduce(c) * 0.1 / SIZE + v), u),
    lambda u, v, root: aj.cond(np.sum(dist.all_reduce(u)) > 0, lambda: dist.all_reduce(u) / SIZE + v, lambda: np.cos(u) * v),
    lambda u, v, root: np.concatenate([u[1:], u[:1]]) - v[::-1],
)


def random_program(seed: int) -> Callable[[Any, Any], tuple[Any, ...]]:
    """The same program on all ranks."""
    random = np.random.default_rng(seed)
    plan = [tuple(map(int, random.integers(0, (len(STEPS), 1000, 1000, SIZE)))) for _ in range(random.integers(5, 25))]
    chosen = random.integers(0, 1000, 3).tolist()

    def program(x: Any, y: Any) -> tuple[Any, ...]:
        pool = [x, y]
        for kind, a, b, root in plan:
            pool.append(STEPS[kind](pool[a % len(pool)], pool[b % len(pool)], root))
        return tuple(pool[number % len(pool)] * 1.0 for number in chosen)

    return program


def check(seed: int) -> None:
    program, random = random_program(seed), np.random.default_rng([seed, RANK])
    x, y = random.normal(size=8 * SIZE), random.normal(size=8 * SIZE)

    def total(x: Any, y: Any) -> Any:
        return dist.all_reduce(sum(np.sum(np.sin(result)) for result in program(x, y)))

    for function in (program, aj.grad(total, (0, 1)), lambda x, y: (aj.hvp(lambda x: total(x, y), (x,), (y,)),)):
        found = aj.compile(function)(x, y)
        donating = aj.compile(lambda x, y, function=function: function(x, y), donate=("x",))(x.copy(), y)
        batch = aj.vmap(function)(np.stack([x, y]), np.stack([y, x]))
        expected, swapped = (aj.compile(function, backend="interpret")(*pair) for pair in ((x, y), (y, x)))
        for number, array in enumerate(found):
            assert np.array_equal(array, donating[number]), (seed, number)
            for one, other in ((array, expected[number]), (batch[number][0], expected[number]), (batch[number][1], swapped[number])):
                np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-11, err_msg=f"seed {seed}, result {number}")


if __name__ == "__main__":
    for number in range(int(sys.argv[1]), int(sys.argv[2])):
        check(number)
    if RANK == 0:
        print(f"passed {sys.argv[1]} to {sys.argv[2]}")
