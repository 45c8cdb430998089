"""Optimizers whose state is divided among the ranks: each updates its share of the parameters, and all gather them."""

from __future__ import annotations

from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError
from adjit.optim.functional import FunctionalOptimizer
from adjit.runtime.distributed.collectives import all_gather
from adjit.runtime.distributed.gradients import Share
from adjit.runtime.distributed.packing import pack, share_of
from adjit.runtime.distributed.world import init as join
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location

Tree = Any


@dataclass(frozen=True)
class ShardedOptimizer:
    """`init` and `update` of a functional optimizer, for this rank's share of the parameters; `gather` and `scatter` for checkpoints."""

    optimizer: FunctionalOptimizer

    def init(self, params: Tree) -> Tree:
        """The state of this rank's share: 1/`size()` of that of the whole."""
        world = join()
        return self.optimizer.init(tuple(share_of(vector, world.rank, world.size) for vector in pack(params)[0]))

    def update(self, params: Tree, grads: Tree, state: Tree) -> tuple[Tree, Tree]:
        """The new parameters, on all ranks, and the new state of this rank's share. `grads` are those of `mean_gradients`, with or without
        `scatter=True`."""
        world = join()
        vectors, unpack = pack(params)
        given = grads.vectors if isinstance(grads, Share) else [share_of(vector, world.rank, world.size) for vector in pack(grads)[0]]
        shares = tuple(share_of(vector, world.rank, world.size) for vector in vectors)
        updated, state = self.optimizer.update(shares, tuple(given), state)
        whole = [np.reshape(all_gather(share), (-1,))[:len(vector)] for share, vector in zip(updated, vectors, strict=True)]
        return unpack(whole), state

    def gather(self, state: Tree, params: Tree) -> Tree:
        """The whole state, on all ranks: what a checkpoint holds, whatever the number of ranks."""
        leaves, spec = flatten(state)
        whole = flatten(self.optimizer.init(pack(params)[0]))[0]
        return unflatten(spec, [np.reshape(all_gather(leaf), (-1,))[:len(like)] if np.ndim(like) else leaf
                                for leaf, like in zip(leaves, whole, strict=True)])

    def scatter(self, state: Tree) -> Tree:
        """This rank's share of a whole state."""
        world = join()
        leaves, spec = flatten(state)
        return unflatten(spec, [share_of(leaf, world.rank, world.size) if np.ndim(leaf) else leaf for leaf in leaves])


def sharded(optimizer: FunctionalOptimizer) -> ShardedOptimizer:
    """A functional optimizer (`adjit.optim.adam`, ...) whose state is divided among the ranks.

    Each rank updates one of `size()` equal parts of the parameters, then all of them gather the parts. With
    `mean_gradients(scatter=True)` a step sends as many bytes as one that sums gradients on all ranks; state and work of the update are
    divided by the number of ranks. The parameters have the bits of the undivided optimizer, which works on each number by itself.

    >>> import numpy as np
    >>> import adjit as aj
    >>> adam = sharded(aj.optim.adam(0.1))
    >>> params = {"w": np.array([1.0, 2.0])}
    >>> gradients = aj.distributed.mean_gradients(lambda params, x: np.mean((x @ params["w"]) ** 2), scatter=True)
    >>> _, grads = gradients(params, np.eye(2))
    >>> params, state = adam.update(params, grads, adam.init(params))
    >>> params["w"].round(6)
    array([0.9, 1.9])
    """
    if not isinstance(optimizer, FunctionalOptimizer):
        raise ArgumentError(f"sharded got a {type(optimizer).__name__}", find_user_location(),
                            hint="pass an optimizer such as adjit.optim.adam(1e-3), of trees of arrays")
    return ShardedOptimizer(optimizer)
