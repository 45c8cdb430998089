"""Gradients of the mean over the data of all ranks, on request with the same bits for any number of ranks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, wraps
from typing import Any

import numpy as np

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import ArgumentError, ShapeError
from adjit.runtime.control_flow import scan
from adjit.runtime.distributed.collectives import exchange_array, gather_array, reduce_array
from adjit.runtime.distributed.packing import Vectors, pack, tree_sum
from adjit.runtime.distributed.world import init
from adjit.runtime.transform_arguments import describe
from adjit.runtime.transforms import transform, value_and_grad
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location

SMALL_BYTES = 1 << 14
"""Bytes of a vector up to which it is gathered whole, in one collective; longer ones are exchanged in parts, in two."""


@user_frames_only
def mean_gradients(loss: Callable[..., Any], shards: int | None = None, *, has_aux: bool = False,
                   scatter: bool = False) -> Callable[..., tuple[Any, Any]]:
    """A function `(params, *batch) -> (value, gradients)`: the mean of `loss(params, *batch)` over all ranks and its gradient by `params`.

    Each rank passes the same `params`, a tree of arrays, and in `batch` its own rows: equally many on each rank, along the first axis of
    each array (0-d arrays and numbers are passed as they are). `loss` is the mean over the rows that it gets. The value and the gradients
    are the same on all ranks; they go through one collective for each dtype.

    With `shards`, the rows of all ranks together are cut into that many shards, whose losses and gradients are computed one by one and
    summed in a fixed order: the results have the same bits for 1, 2, 4, ... ranks that `shards` is a multiple of. Without it the order is
    MPI's.

    With `has_aux`, `loss` returns a pair (value, aux), and so does the function, in place of the value; numbers in the tree `aux` are
    averaged, too. With `scatter`, the gradients are those of `sharded` optimizers: each rank gets its share alone, in half the traffic.

    Raises `ArgumentError` for a number of shards that is not a multiple of the ranks (by 1, 2, 4, ...), `ShapeError` for arrays with
    different numbers of rows, or with rows that cannot be cut into shards, `DistributedError` if ranks have different numbers of rows.

    >>> import numpy as np
    >>> def loss(w, x, y):
    ...     return np.mean((x @ w - y) ** 2)
    >>> value, gradient = mean_gradients(loss, shards=2)(np.zeros(2), np.eye(4, 2), np.ones(4))
    >>> float(value), gradient
    (1.0, array([-0.5, -0.5]))
    """
    world = init()
    if shards is not None:
        if isinstance(shards, bool) or not isinstance(shards, int) or shards < 1 or shards % world.size:
            raise ArgumentError(f"mean_gradients: shards is {shards!r}, and there are {world.size} ranks", find_user_location(),
                                hint="a multiple of the number of ranks; 8 does for 1, 2, 4 and 8 ranks")
        own = shards // world.size
        if world.size > 1 and own & (own - 1):
            raise ArgumentError(f"mean_gradients: {own} shards for each of {world.size} ranks would be summed in another order than on "
                                "other numbers of ranks", find_user_location(), hint="give each rank 1, 2, 4, ... shards")
    gradient = value_and_grad(loss, has_aux=has_aux)

    def body(params: Any, *batch: Any) -> tuple[Any, Any]:
        note = f", mean over {_rows(batch, describe(loss))} rows of each rank"
        if shards is None:
            (result, grads), count = gradient(params, *batch), world.size
        else:
            (result, grads), count = _sum_of_shards(gradient, params, batch, shards // world.size, describe(loss)), shards
        return _over_ranks(result, grads, count, shards is not None, scatter, note)

    name = f"mean_gradients_{'' if shards is None else shards}"
    return transform(loss, name, (shards, has_aux, scatter), wraps(loss)(body), like_fun=False)


def _sum_of_shards(gradient: Callable[..., Any], params: Any, batch: Sequence[Any], count: int, name: str) -> tuple[Any, Any]:
    """The sum of the results for the `count` shards of this rank."""
    leaves, spec = flatten(batch)
    cut = [number for number, leaf in enumerate(leaves) if np.ndim(leaf)]
    for number in cut:
        rows = np.shape(leaves[number])[0]
        if rows % count:
            raise ShapeError(f"mean_gradients of {name}: {rows} rows on this rank cannot be cut into {count} shards", find_user_location(),
                             hint="take batches whose rows are a multiple of the shards")

    def one(parts: Sequence[Any]) -> Any:
        filled = list(leaves)
        for number, part in zip(cut, parts, strict=True):
            filled[number] = part
        return pack(gradient(params, *unflatten(spec, filled)))

    unpack: list[Any] = []

    def leaf(parts: Sequence[Any]) -> Vectors:
        vectors, unpack[:] = (found := one(parts))[0], [found[1]]
        return vectors

    def total(parts: Sequence[Any], count: int) -> Vectors:
        """The sum of `count` shards, each of which is computed by the same code: in loops of two, whose results alone are in memory."""
        if count == 1:
            return tuple(vector[0] for vector in scan(lambda _, part: (None, leaf(part)), None, parts)[1])
        each = 2 if count % 2 == 0 else count
        halves = [np.reshape(part, (each, count // each, *part.shape[1:])) for part in parts]
        _, sums = scan(lambda _, half: (None, total(half, count // each)), None, halves)
        return tuple(map(tree_sum, sums))

    shards = [np.reshape(leaves[number], (count, -1, *np.shape(leaves[number])[1:])) for number in cut]
    vectors = total(shards, count)
    result, grads = unpack[0](vectors)
    return result, grads


@dataclass(frozen=True)
class Share:
    """This rank's share of gradients, as vectors."""

    vectors: Vectors


def _rows(batch: Any, name: str) -> int:
    """Rows of the arrays of a batch; 0 if it has none. Raises `ShapeError` if they do not agree."""
    found = list(dict.fromkeys(np.shape(leaf)[0] for leaf in flatten(batch)[0] if np.ndim(leaf)))
    if len(found) > 1:
        raise ShapeError(f"mean_gradients of {name}: arrays of the batch have {found[0]} and {found[1]} rows", find_user_location(),
                         hint="pass arrays of rows alone; the loss can read others from its closure, or from params")
    return int(found[0]) if found else 0


def _over_ranks(result: Any, grads: Any, count: int, fixed: bool, scatter: bool, note: str) -> tuple[Any, Any]:
    """The mean over `count` parts of which each rank has the sum of its own; with `fixed`, in that order. Ranks compare `note`."""
    world = init()
    reduce = partial(_fixed_sum if fixed else reduce_array, note=note)
    if scatter:
        values, unpack_values = pack(result)
        vectors, _ = pack(grads)
        shares = tuple(_scatter_sum(vector, note) / vector.dtype.type(count) for vector in vectors)
        summed = tuple(map(reduce, values)) if world.size > 1 else values
        return unpack_values([vector / vector.dtype.type(count) for vector in summed]), Share(shares)
    vectors, unpack = pack((result, grads))
    if world.size > 1:
        vectors = tuple(map(reduce, vectors))
    result, grads = unpack([vector / vector.dtype.type(count) for vector in vectors])
    return result, grads


def _fixed_sum(vector: Any, note: str) -> Any:
    """The sum of the vectors of all ranks in the order of `tree_sum`, whatever MPI's own would be."""
    world = init()
    length = len(vector)
    if world.size == 1:
        return vector
    if length * vector.dtype.itemsize <= SMALL_BYTES:
        return tree_sum(gather_array(vector, note))
    return np.reshape(gather_array(_scatter_sum(vector, note), note), (-1,))[:length]


def _scatter_sum(vector: Any, note: str) -> Any:
    """This rank's share of the sum of the vectors of all ranks, in the order of `tree_sum`."""
    world = init()
    length = -(-len(vector) // world.size)
    padded = np.concatenate([vector, np.zeros(length * world.size - len(vector), vector.dtype)])
    return tree_sum(exchange_array(np.reshape(padded, (world.size, length)), note))


__all__ = ["Share", "mean_gradients"]
