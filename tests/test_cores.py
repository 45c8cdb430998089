"""The number of usable cores: affinity, and quotas of control groups as they lie in the file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from adjit.runtime import cores

CASES = {
    "no limit": ("0::/\n", {"cpu.max": "max 100000\n"}, None),
    "a container": ("0::/\n", {"cpu.max": "150000 100000\n"}, 1.5),
    "a group within one that has less": ("0::/a/b\n", {"a/cpu.max": "100000 50000\n", "a/b/cpu.max": "400000 100000\n"}, 2.0),
    "a group that is not mounted here": ("0::/host/path\n", {"cpu.max": "50000 100000\n"}, 0.5),
    "version 1": ("5:memory:/x\n4:cpu,cpuacct:/x\n", {"cpu/x/cpu.cfs_quota_us": "300000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 3.0),
    "version 1 without limit": ("4:cpu:/\n", {"cpu/cpu.cfs_quota_us": "-1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
    "another controller's": ("4:cpuset:/\n", {"cpu/cpu.cfs_quota_us": "1\n", "cpu/cpu.cfs_period_us": "100000\n"}, None),
}


@pytest.mark.parametrize("case", CASES)
def test_quotas(case: str, tmp_path: Path) -> None:
    membership, files, quota = CASES[case]
    (tmp_path / "membership").write_text(membership)
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(text)
    assert cores.processor_quota(tmp_path / "membership", tmp_path / "groups") == quota


@pytest.mark.parametrize(("quota", "most"), [(None, 10**6), (0.1, 1), (1.0, 1), (1.2, 2), (64.0, 64)])
def test_quotas_are_rounded_up(quota: float | None, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(cores, "processor_quota", lambda: quota)
    assert cores.usable_cores() == min(16, most)


def test_systems_without_control_groups(tmp_path: Path) -> None:
    assert cores.processor_quota(tmp_path / "nothing", tmp_path) is None
