"""How many cores this process may use: those it may run on, and no more than the time its control groups give it."""

from __future__ import annotations

import os
from pathlib import Path

_MEMBERSHIP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """The cores in the process's affinity; fewer where a container's quota of processor time is smaller; at least 1."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = processor_quota()
    return cores if quota is None else max(1, min(cores, -int(-quota // 1)))


def processor_quota(membership: Path = _MEMBERSHIP, groups: Path = _GROUPS) -> float | None:
    """Cores' worth of time that the process's control groups, version 1 or 2, and those around them grant; None where there is no limit.

    `membership` is what `/proc/self/cgroup` is, `groups` the folder where the groups are mounted.
    """
    try:
        lines = membership.read_text().splitlines()
    except OSError:
        return None
    quotas = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and "cpu" not in controllers.split(","):
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
        return float(quota) / float(period) if float(quota) > 0 else None
    except (OSError, ValueError):       # no such group here, or "max"
        return None
