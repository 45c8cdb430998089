"""Default number of threads of a program: one for each core that this process may run on, bounded by the CPU time that its control groups
grant, by `OMP_NUM_THREADS`, which joblib, Dask and Ray set in their workers, and by what launchers of ranks say (`mpirun`, `srun`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Sequence
from pathlib import Path

_MEMBERSHIP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

OPENMP = "OMP_NUM_THREADS"
SLURM = "SLURM_CPUS_PER_TASK"

_RANKS = "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_STEP_NUM_TASKS"
_LOCAL_RANKS = "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"
"""Variables that Open MPI, MPICH (and Intel MPI), MVAPICH and Slurm set: ranks in all, and on this machine."""

_quotas: dict[tuple[Path, Path], tuple[float, float | None]] = {}

agreed: dict[str, int] = {}
"""Bounds that the ranks of this machine have told each other, as those of `bounds`: who may run on which core."""


def usable_cores() -> int:
    """The default number of threads: the least of all bounds."""
    return min(bounds().values())


def bounds() -> dict[str, int]:
    """Upper bounds on the number of threads, each at least 1, keyed by a description.

    >>> "the process's affinity" in bounds()
    True
    """
    found = {"the process's affinity": len(os.sched_getaffinity(0))} if hasattr(os, "sched_getaffinity") else \
        {"the machine's cores": os.cpu_count() or 1}
    ranks = local_ranks()
    if ranks > 1:
        found[f"the machine's cores, divided by its {ranks} ranks"] = max(1, (os.cpu_count() or 1) // ranks)
    quota = processor_quota()
    if quota is not None:
        divided = f", divided by {ranks} ranks" if ranks > 1 else ""
        found[f"the control group's time, that of {quota:g} cores{divided}"] = max(1, -int(-quota / ranks // 1))
    for name in (OPENMP, SLURM):
        wanted = openmp_threads(os.environ.get(name, ""))
        if wanted is not None:
            found[f"{name}={os.environ[name]}"] = wanted
    return found | agreed


def launched_ranks() -> int:
    """Number of ranks that a launcher has started, this process among them; 1 without one."""
    return _first_number(_RANKS)


def local_ranks() -> int:
    """Number of those ranks that are on this machine."""
    tasks, node = os.environ.get("SLURM_STEP_TASKS_PER_NODE", ""), os.environ.get("SLURM_NODEID", "")
    return max(_first_number(_LOCAL_RANKS), slurm_tasks(tasks, node))


def slurm_tasks(text: str, node: str) -> int:
    """Tasks of a Slurm step on node number `node`, by the numbers of all nodes; 1 for texts that are none.

    >>> slurm_tasks("2(x3),1", "2"), slurm_tasks("2(x3),1", "3"), slurm_tasks("", "")
    (2, 1, 1)
    """
    counts: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part.strip())
        if found is None:
            return 1
        counts += [int(found[1])] * int(found[2] or 1)
    return counts[int(node)] if node.isdecimal() and int(node) < len(counts) else 1


def _first_number(names: tuple[str, ...]) -> int:
    return next((int(text) for name in names if (text := os.environ.get(name, "")).isdecimal() and 0 < len(text) < 7), 1)


def fair_share(mine: Collection[int], everyone: Sequence[Collection[int]]) -> int:
    """Number of cores for a rank that may run on the cores `mine`, if the ranks of a machine share those that several may run on.

    >>> fair_share({0, 1}, [{0, 1}, {0, 1}]), fair_share({0}, [{0}, {1}]), fair_share({0, 1, 2, 3}, [{0, 1, 2, 3}, {3}])
    (1, 1, 3)
    """
    return max(1, int(sum(1 / max(1, sum(core in cores for cores in everyone)) for core in mine) + 1e-9))


def openmp_threads(text: str) -> int | None:
    """Number of threads that a value of `OMP_NUM_THREADS` asks for. A list holds one number per level of nested regions; the first counts.
    None for values that OpenMP's libraries ignore: no number, or a number below 1.

    >>> openmp_threads("4,2"), openmp_threads("many")
    (4, None)
    """
    first = text.partition(",")[0].strip()
    return int(first) if first.isascii() and first.isdecimal() and 0 < len(first) < 10 and int(first) else None


def processor_quota(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> float | None:
    """CPU time, in cores, that the process's control groups (version 1 or 2) and their parents grant; None if there is no limit.

    `membership` is a file in the format of `/proc/self/cgroup`, `groups` the folder where the groups are mounted. They are read at most
    once a second: that takes longer than many a first call of an eager operation.
    """
    now = time.monotonic()
    known = _quotas.get((membership, groups))
    if known is None or known[0] < now - 1:
        known = _quotas[membership, groups] = now, _read_quota(membership, groups)
    return known[1]


def _read_quota(membership: Path, groups: Path) -> float | None:
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not path or (controllers and "cpu" not in controllers.split(",")):
            continue
        top = groups / "cpu" if controllers else groups
        group = top / path.lstrip("/")
        for folder in (group, *group.parents):
            quotas.append(_quota_in(folder))
            if folder == top:
                break
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota_in(folder: Path) -> float | None:
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota, period = ((folder / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(quota) / int(period) if int(quota) > 0 else None
    except (OSError, ValueError, ZeroDivisionError):       # no such group here, or "max"
        return None
