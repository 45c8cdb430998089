"""Checkpoints of all ranks: one file, which any number of ranks goes on from."""

from __future__ import annotations

import os
import pickle
from typing import Any

import numpy as np

from adjit.eager.tensor import Tensor, tensor
from adjit.ir.communicator import Communicator
from adjit.ir.errors import StateError
from adjit.nn import state as states
from adjit.runtime.distributed.world import init
from adjit.tracer.trees import flatten, paths, unflatten
from adjit.tracer.user_location import find_user_location

_LEAF = "leaf {}"


def save(tree: Any, path: str | os.PathLike[str]) -> None:
    """Write a checkpoint, which is the same on all ranks: rank 0 does, the others wait for it.

    `tree` is a tree of arrays, numbers, texts and tensors, as `(params, state, step)`. The file (safetensors, as of `adjit.save`) appears
    whole or not at all: it is written beside, then renamed. Raises `StateError` on all ranks if it cannot be written.

    >>> import numpy as np, tempfile
    >>> path = tempfile.mkdtemp() + "/checkpoint"
    >>> save({"w": np.arange(3.0), "step": 20}, path)
    >>> load(path, {"w": np.zeros(3), "step": 0})
    {'w': array([0., 1., 2.]), 'step': 20}
    """
    world = init()
    problem = ""
    if world.rank == 0:
        try:
            leaves, spec = flatten(tree)
            content = {_LEAF.format(number): _plain(leaf) for number, leaf in enumerate(leaves)}
            states.save_state({**content, "paths": list(paths(spec))}, path)
        except Exception as error:      # the others would wait for ever
            problem = f"{type(error).__name__}: {error}"
            failure = error
    problem = _told(world, problem)
    if problem:
        if world.rank == 0:
            raise StateError(f"the checkpoint {os.fspath(path)} cannot be written: {problem}", find_user_location()) from failure
        raise StateError(f"rank 0 cannot write the checkpoint {os.fspath(path)}: {problem}", find_user_location())


def load(path: str | os.PathLike[str], like: Any) -> Any:
    """The checkpoint in a file, as a tree like `like`: its structure, and arrays or tensors where it has them. Rank 0 reads the file.

    The number of ranks that wrote it does not matter. Raises `StateError`, on all ranks, for a file that is missing, damaged, or of a tree
    with other places, shapes or dtypes.
    """
    world = init()
    content, problem = b"", ""
    if world.rank == 0:
        try:
            with open(path, "rb") as file:
                content = file.read()
        except OSError as error:
            problem = error.strerror or str(error)
    problem, content = _told(world, (problem, content))
    if problem:
        raise StateError(f"the checkpoint {os.fspath(path)} cannot be read: {problem}", find_user_location())
    found = states.state_of(content, os.fspath(path))
    leaves, spec = flatten(like)
    expected = list(paths(spec))
    if not isinstance(found, dict) or list(found.get("paths", ())) != expected:
        raise StateError(f"the checkpoint {os.fspath(path)} is of another tree: {_first_difference(found, expected)}", find_user_location(),
                         hint="pass as `like` a tree of the structure that was saved")
    return unflatten(spec, [_like(found[_LEAF.format(number)], leaf, place, path)
                            for number, (leaf, place) in enumerate(zip(leaves, expected, strict=True))])


def _told(world: Communicator, value: Any) -> Any:
    """What rank 0 has, on all ranks."""
    return value if world.size == 1 else pickle.loads(world.comm.bcast(pickle.dumps(value) if world.rank == 0 else None))


def _plain(leaf: Any) -> Any:
    return tensor(np.array(leaf)) if isinstance(leaf, (np.ndarray, np.generic)) else leaf.detach() if isinstance(leaf, Tensor) else leaf


def _like(found: Any, leaf: Any, place: str, path: Any) -> Any:
    if isinstance(leaf, (np.ndarray, np.generic, Tensor)):
        array = found.numpy() if isinstance(found, Tensor) else np.asarray(found)
        if array.shape != np.shape(leaf) or array.dtype != leaf.dtype:
            raise StateError(f"the checkpoint {os.fspath(path)} holds at {place or 'its top'} {array.dtype} of shape {array.shape}, and "
                             f"the tree {leaf.dtype} of shape {np.shape(leaf)}", find_user_location())
        if not isinstance(leaf, Tensor):
            return array[()] if isinstance(leaf, np.generic) else array
        made = tensor(array)
        made.requires_grad = leaf.requires_grad
        return made
    return found


def _first_difference(found: Any, expected: list[str]) -> str:
    if not isinstance(found, dict) or "paths" not in found:
        return "it was not written by adjit.distributed.save"
    there = list(found["paths"])
    missing = [place for place in there if place not in expected]
    return f"it holds {missing[0]}" if missing else f"it lacks {next((place for place in expected if place not in there), 'its order')}"
