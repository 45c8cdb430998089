"""The number of usable cores: affinity, and quotas of control groups as they lie in the file system."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import adjit as aj
from adjit.__main__ import main
from adjit.codegen.process import cores
from adjit.runtime import settings

CASES = {
    "a group in the hybrid form": (
        "4:cpu,cpuacct:/x\n0::/y\n", {"cpu/x/cpu.cfs_quota_us": "250000\n", "cpu/x/cpu.cfs_period_us": "100000\n"}, 2.5),
    "a limit around a version 1 group": (
        "4:cpu:/a/b\n", {"cpu/a/cpu.cfs_quota_us": "50000\n", "cpu/a/cpu.cfs_period_us": "100000\n",
                         "cpu/a/b/cpu.cfs_quota_us": "-1\n", "cpu/a/b/cpu.cfs_period_us": "100000\n"}, 0.5),
    "nonsense": ("0::/\nnonsense\n", {"cpu.max": "nonsense\n"}, None),
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
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(cores, "processor_quota", lambda: quota)
    assert cores.usable_cores() == min(16, most)


def test_systems_without_control_groups(tmp_path: Path) -> None:
    assert cores.processor_quota(tmp_path / "nothing", tmp_path) is None


@pytest.mark.parametrize(("text", "threads"), [
    ("1", 1), (" 3 ", 3), ("4,2", 4), ("64", 8), ("", 8), (" ", 8), ("0", 8), ("-1", 8), ("many", 8),
    ("2.5", 8), (",2", 8), ("²", 8), ("9" * 5000, 8)])
def test_openmp_is_a_bound(text: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers of joblib, Dask and Ray are as many as there are cores, and have it set to 1. What is no number bounds nothing."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cores, "processor_quota", lambda: None)
    monkeypatch.delenv("ADJIT_THREADS", raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", text)
    assert cores.usable_cores() == settings.THREADS.get() == threads


def test_who_says_how_many_gets_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv("ADJIT_THREADS", "3")
    assert settings.THREADS.get() == 3
    function = aj.compile(lambda x: x + 1, threads=2)
    function(1.0)
    assert function.programs()[0].threads == 2


def test_info_says_which_bound_is_in_force(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cores, "processor_quota", lambda: 2.5)
    monkeypatch.delenv("ADJIT_THREADS", raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)

    def info() -> str:
        assert main(["info"]) == 0
        return capsys.readouterr().out

    assert "threads  3 for a program, by the control group's time, that of 2.5 cores\n" in info()
    monkeypatch.setenv("OMP_NUM_THREADS", "2,1")
    assert "threads  2 for a program, by OMP_NUM_THREADS=2,1\n" in info()
    assert "8 by the process's affinity, 3 by the control group's time, that of 2.5 cores, 2 by OMP_NUM_THREADS=2,1\n" in info()
    monkeypatch.setenv("ADJIT_THREADS", "5")
    assert "threads  5 for a program, by the setting ADJIT_THREADS\n" in info()


@pytest.mark.parametrize(("variables", "threads"), [
    ({}, 16),
    ({"OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 4),
    ({"MPI_LOCALNRANKS": "5"}, 3),
    ({"MPI_LOCALNRANKS": "64"}, 1),
    ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),8", "SLURM_NODEID": "3"}, 2),
    ({"SLURM_STEP_TASKS_PER_NODE": "2(x3),8", "SLURM_NODEID": "0"}, 8),
    ({"SLURM_STEP_TASKS_PER_NODE": "nonsense", "SLURM_NODEID": "0"}, 16),
    ({"SLURM_CPUS_PER_TASK": "3", "OMPI_COMM_WORLD_LOCAL_SIZE": "4"}, 3),
    ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2", "OMP_NUM_THREADS": "6"}, 6),
    ({"OMPI_COMM_WORLD_LOCAL_SIZE": "none"}, 16)])
def test_ranks_of_a_machine_share_its_cores(variables: dict[str, str], threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OMP_NUM_THREADS", "SLURM_CPUS_PER_TASK", *cores._LOCAL_RANKS):
        monkeypatch.delenv(name, raising=False)
    for name, text in variables.items():
        monkeypatch.setenv(name, text)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    monkeypatch.setattr(cores, "processor_quota", lambda: None)
    assert cores.usable_cores() == threads


def test_ranks_share_a_quota(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OMPI_COMM_WORLD_LOCAL_SIZE", "4")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(cores, "processor_quota", lambda: 12.0)
    assert cores.usable_cores() == 3


def test_what_ranks_agreed_on_is_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    monkeypatch.setattr(cores, "agreed", {"the cores of this rank": 1})
    assert cores.usable_cores() == 1
