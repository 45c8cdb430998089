"""Whether what ranks take for the same is the same: arrays, and values in programs on which derivatives rely."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from adjit.ir.communicator import WORLD
from adjit.ir.errors import DistributedError, Role
from adjit.ir.graph import Op
from adjit.ir.ops.collectives import vary
from adjit.runtime.debug.op_by_op import Arrays
from adjit.runtime.debug.watch import reference
from adjit.runtime.distributed.agreement import ranks_in_words
from adjit.runtime.distributed.world import init
from adjit.tracer.array_wrapper import ArrayWrapper
from adjit.tracer.scope import calls_in_python
from adjit.tracer.trees import flatten


def is_replicated(tree: Any) -> bool:
    """True if a tree of arrays, numbers and tensors is the same on all ranks, in every bit, as parameters and their gradients should be.

    >>> is_replicated({"w": 1.0})
    True
    """
    init()
    return not _different(*flatten(tree)[0])


@contextmanager
def check_replicated() -> Iterator[None]:
    """Have compiled functions and derivatives check, within the block, that what they take for replicated is the same on all ranks: what is
    handed to `replicated`, and the cotangents of results of collectives, which differ where `replicated` was forgotten.

    Programs run op by op in NumPy, so it is for a step or two while a program is written. Raises `DistributedError` on all ranks, with the
    line of the function. That a parameter was not marked at all is a matter of its gradient: see `is_replicated`.

    >>> import numpy as np
    >>> import adjit as aj
    >>> from adjit import distributed as dist
    >>> with dist.check_replicated():
    ...     aj.grad(lambda w: dist.all_reduce(np.sum(dist.replicated(w) ** 2)))(np.ones(2))
    array([2., 2.])
    """
    init()
    with calls_in_python(), reference(_check):
        yield


def _check(op: Op, operands: Arrays, results: Arrays) -> None:
    if op.definition is not vary:
        return
    different = _different(operands[0])
    if not different:
        return
    where = ranks_in_words(different)
    if op.role is Role.PRIMAL:
        raise DistributedError(f"replicated got an array that is another one on {where} than on rank 0", op.loc,
                               hint="broadcast it from one rank, or compute it alike on all of them")
    raise DistributedError(f"the cotangent of a collective's result is another one on {where} than on rank 0: ranks go on with the result "
                           "for themselves", op.loc, hint="wrap the result in replicated() before ranks compute different things from it")


def _different(*leaves: Any) -> list[int]:
    """Ranks on which the arrays are not those of rank 0."""
    if WORLD.size == 1:
        return []
    digest = hashlib.sha256()
    for leaf in leaves:
        array = np.ascontiguousarray(leaf.array if isinstance(leaf, ArrayWrapper) else leaf)
        digest.update(f"{array.dtype} {array.shape} ".encode() + array.tobytes())
    digests = WORLD.all_gather(np.frombuffer(digest.digest(), np.uint8))
    return [rank for rank in range(WORLD.size) if not np.array_equal(digests[rank], digests[0])]
