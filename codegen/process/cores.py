"""Default number of threads of a program: one for each core that this process may run on, bounded by the CPU time that its control groups
grant, and by `OMP_NUM_THREADS`, which joblib, Dask and Ray set in their workers.
"""

from __future__ import annotations

import os
from pathlib import Path

_MEMBERSHIP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")

OPENMP = "OMP_NUM_THREADS"


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
    quota = processor_quota()
    if quota is not None:
        found[f"the control group's time, that of {quota:g} cores"] = max(1, -int(-quota // 1))
    wanted = openmp_threads(os.environ.get(OPENMP, ""))
    if wanted is not None:
        found[f"{OPENMP}={os.environ[OPENMP]}"] = wanted
    return found


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

    `membership` is a file in the format of `/proc/self/cgroup`, `groups` the folder where the groups are mounted.
    """
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
