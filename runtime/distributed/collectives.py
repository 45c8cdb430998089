"""Collectives on trees of arrays: ops of the program within a trace, mpi4py's calls outside of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from adjit.ir import ops
from adjit.ir.communicator import WORLD
from adjit.ir.errors import ArgumentError, DTypeError, ShapeError
from adjit.ir.types import is_half
from adjit.runtime.distributed.world import init
from adjit.tracer.array import TracedArray, as_traced, wrap
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.tracebacks import user_frames_only
from adjit.tracer.trees import flatten, unflatten
from adjit.tracer.user_location import find_user_location

Tree = TypeVar("Tree")

REDUCTIONS = ("sum", "mean", "max", "min")


def rank() -> int:
    """The number of this process among those of the world, from 0 on.

    >>> rank()
    0
    """
    return init().rank


def size() -> int:
    """The number of processes in the world: 1 without MPI.

    >>> size()
    1
    """
    return init().size


@user_frames_only
def all_reduce(x: Tree, op: str = "sum") -> Tree:
    """The sum, "mean", "max" or "min" of the arrays of all ranks, element by element; the same on each of them.

    `x` is an array, a number, a tensor, or a tree of them, with the same shapes and dtypes on all ranks. Bools are counted by "sum", and
    are floats for "mean". The order of the additions is MPI's: equal for equal numbers of ranks (`mean_gradients(shards=)` fixes it).
    "sum" and "mean" have derivatives: the cotangent of the result, which is the same on all ranks, goes to each of them.

    Raises `ArgumentError` for another `op`, `DTypeError` for "max" and "min" of complex numbers, `DistributedError` if MPI reports one.

    >>> import numpy as np
    >>> all_reduce({"loss": 2.0, "hits": np.array([True, False])})
    {'loss': np.float64(2.0), 'hits': array([1, 0])}
    """
    if op not in REDUCTIONS:
        raise ArgumentError(f"all_reduce has no op {op!r}", find_user_location(), hint=f"one of {', '.join(REDUCTIONS)}")
    world = init()

    def reduce(x: Any) -> Any:
        given = x.dtype
        if given.kind == "c" and op in ("max", "min"):
            raise DTypeError(f"complex numbers have no {op}", find_user_location(), hint="reduce their absolute values")
        if given.kind == "b" and op in ("sum", "mean"):
            x = x.astype(np.float64 if op == "mean" else np.int64)
        elif op == "mean" and given.kind in "iu":
            x = x.astype(np.float64)
        elif is_half(given):
            x = x.astype(np.float32)
        x = reduce_array(x, "sum" if op == "mean" else op)
        if op == "mean":
            x = x / x.dtype.type(world.size)
        return x.astype(given) if is_half(given) else x

    return _map(reduce, x)


@user_frames_only
def all_gather(x: Tree) -> Tree:
    """The arrays of all ranks along a new first axis, in the order of the ranks; the same on each of them.

    `x` is an array, a number, a tensor, or a tree of them, with the same shapes and dtypes on all ranks.

    >>> import numpy as np
    >>> all_gather(np.arange(3.0))
    array([[0., 1., 2.]])
    """
    init()
    return _map(gather_array, x)


@user_frames_only
def all_to_all(x: Tree) -> Tree:
    """Of each rank's array the slice along the first axis that is for this rank: slice `r` of the result comes from rank `r`.

    `x` is an array, a tensor, or a tree of them, whose first axis is as long as there are ranks; else `ShapeError`.

    >>> import numpy as np
    >>> all_to_all(np.array([[1.0, 2.0]]))
    array([[1., 2.]])
    """
    world = init()

    def exchange(x: Any) -> Any:
        if not x.shape or x.shape[0] != world.size:
            raise ShapeError(f"all_to_all got an array of shape {x.shape}, and there are {world.size} ranks", find_user_location(),
                             hint="give it a first axis with a slice for each rank")
        return exchange_array(x)

    return _map(exchange, x)


@user_frames_only
def broadcast(x: Tree, root: int = 0) -> Tree:
    """The arrays of rank `root`, on all ranks. The arrays of the others count for their shapes and dtypes alone.

    Raises `ArgumentError` if there is no such rank.

    >>> import numpy as np
    >>> broadcast({"w": np.ones(2)})
    {'w': array([1., 1.])}
    """
    world = init()
    if isinstance(root, bool) or not isinstance(root, int) or not 0 <= root < world.size:
        raise ArgumentError(f"there is no rank {root!r}", find_user_location(), hint=f"the world has {world.size} ranks, from 0 on")
    return _map(lambda x: x if world.size == 1 else _emit(ops.broadcast_rank, lambda array: world.broadcast(array, root), x, root=root), x)


@user_frames_only
def replicated(x: Tree) -> Tree:
    """`x`, which is the same on all ranks, where ranks begin to compute different things from it: its gradient is summed over them.

    The parameters of a loss that each rank computes of data of its own are replicated. Results of `all_reduce`, `all_gather` and
    `broadcast` are, too, if a rank goes on with them for itself. Without it, the gradient is that of this rank's copy alone.

    >>> import numpy as np
    >>> import adjit as aj
    >>> def loss(w, x):                                    # x are the rows of this rank
    ...     return all_reduce(np.sum((x @ replicated(w)) ** 2)) + np.sum(w ** 2)
    >>> aj.grad(loss)(np.array([1.0, 2.0]), np.eye(2))
    array([4., 8.])
    """
    world = init()
    return _map(lambda x: _emit(ops.vary, lambda array: array, x) if world.size > 1 and x.dtype.kind in "fc" else x, x)


# -- of one array, traced or not; `note` says what has to be the same on all ranks besides the shape


def reduce_array(x: Any, op: str = "sum", note: str = "") -> Any:
    """The sum, maximum or minimum over ranks of an array of numbers."""
    if WORLD.size == 1:
        return x
    if x.dtype.kind == "c":
        parts = reduce_array(np.stack([np.real(x), np.imag(x)]), op, note)
        return (parts[0] + 1j * parts[1]).astype(x.dtype)
    return _emit(ops.all_reduce, lambda array: WORLD.all_reduce(array, op), x, op=op, note=note)


def gather_array(x: Any, note: str = "") -> Any:
    """The arrays of all ranks along a new first axis."""
    return x[np.newaxis] if WORLD.size == 1 else _emit(ops.all_gather, WORLD.all_gather, x, size=WORLD.size, note=note)


def exchange_array(x: Any, note: str = "") -> Any:
    """The slices for this rank of the arrays of all ranks."""
    return x if WORLD.size == 1 else _emit(ops.all_to_all, WORLD.all_to_all, x, size=WORLD.size, note=note)


def _map(function: Callable[[Any], Any], tree: Any) -> Any:
    leaves, spec = flatten(tree)
    return unflatten(spec, [_apply(function, leaf) for leaf in leaves])


def _apply(function: Callable[[Any], Any], leaf: Any) -> Any:
    """`function` of traced arrays and of arrays, applied to a leaf."""
    if isinstance(leaf, ArrayWrapper):
        return type(leaf).apply_wrapped(function, (leaf,), {})
    if isinstance(leaf, TracedArray):
        return function(leaf)
    if isinstance(leaf, (np.ndarray, np.generic, bool, int, float, complex)):
        return np.asarray(function(np.asarray(leaf)))[()]
    raise ArgumentError(f"a collective got a {type(leaf).__name__}", find_user_location(), hint="pass arrays, numbers, tensors or trees")


def _emit(definition: Any, run: Callable[[np.ndarray], np.ndarray], x: Any, **attrs: Any) -> Any:
    if not isinstance(x, TracedArray):
        return run(x)
    return wrap(definition(x.value, as_traced(WORLD.table).value, **attrs))
