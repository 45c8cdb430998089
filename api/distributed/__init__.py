"""Programs over several processes and machines, by MPI.

    mpirun -n 4 python train.py

Within traced functions collectives are ops, with derivatives to any order; outside they are calls of mpi4py.

>>> import numpy as np
>>> import adjit as aj
>>> from adjit import distributed as dist
>>> rows = np.arange(12.0).reshape(6, 2)[dist.rank()::dist.size()]      # the rows of this rank
>>> def loss(w):
...     return dist.all_reduce(np.sum((rows @ dist.replicated(w) - 1.0) ** 2)) / 6
>>> aj.grad(loss)(np.zeros(2)).round(6)
array([-10., -12.])
"""

from adjit.distributed.checkpoints import load, save
from adjit.distributed.sharding import ShardedOptimizer, sharded
from adjit.runtime.distributed.collectives import all_gather, all_reduce, all_to_all, broadcast, rank, replicated, size
from adjit.runtime.distributed.gradients import mean_gradients
from adjit.runtime.distributed.replication import check_replicated, is_replicated
from adjit.runtime.distributed.world import init

__all__ = [
    "ShardedOptimizer", "all_gather", "all_reduce", "all_to_all", "broadcast", "check_replicated", "init", "is_replicated", "load",
    "mean_gradients", "rank", "replicated", "save", "sharded", "size",
]
