"""Collectives on 2 and 4 ranks, and in a world of one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.ranks import SUPPORT, launcher, run_ranks

import adjit as aj
from adjit import distributed as dist
from adjit.errors import ArgumentError

PROGRAM = SUPPORT / "rank_checks.py"
CHECKS = [line.split("(")[0].split()[1] for line in PROGRAM.read_text().splitlines() if line.startswith("def check_")]
SHORT = {2: [name for name in CHECKS if name != "check_numba"], 4: ["check_world", "check_loops"]}
"""Checks without --exhaustive."""


@pytest.mark.parametrize("count", [2, 4])
def test_checks_of_ranks(count: int, exhaustive: bool) -> None:
    wanted = CHECKS if exhaustive else SHORT[count]
    ran = run_ranks(count, PROGRAM, str(count), *wanted)
    assert ran.returncode == 0, ran.stdout
    assert [line.split()[1] for line in ran.stdout.splitlines() if line.startswith("passed ")] == wanted, ran.stdout


@pytest.mark.parametrize(("count", "seeds"), [(2, ("0", "20")), (4, ("20", "26"))])
def test_random_programs(count: int, seeds: tuple[str, str], exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("with --exhaustive")
    ran = run_ranks(count, SUPPORT / "rank_programs.py", *seeds, timeout=600)
    assert "passed" in ran.stdout, ran.stdout


def test_communicator_of_the_user(exhaustive: bool) -> None:
    """Two worlds of two ranks each."""
    if not exhaustive:
        pytest.skip("with --exhaustive")
    code = ("from mpi4py import MPI; import numpy as np; import adjit as aj; from adjit import distributed as dist\n"
            "group = MPI.COMM_WORLD.Split(MPI.COMM_WORLD.rank % 2)\n"
            "assert dist.init(group).size == 2\n"
            "total = aj.compile(dist.all_reduce)(np.full(3, float(MPI.COMM_WORLD.rank)))\n"
            "assert np.array_equal(total, np.full(3, 2.0 + 2 * (MPI.COMM_WORLD.rank % 2))), total\n"
            "try:\n    dist.init(MPI.COMM_WORLD)\nexcept aj.errors.DistributedError as error:\n    print(error.message)\n")
    ran = run_ranks(4, Path("-c"), code)
    assert ran.stdout.count("init was called with another communicator before") == 4, ran.stdout


def test_world_of_one() -> None:
    assert (dist.rank(), dist.size(), dist.init().comm) == (0, 1, None)
    tree = {"a": np.arange(3), "b": 2.5}
    assert np.array_equal(dist.all_reduce(tree, "mean")["a"], np.arange(3.0))
    assert dist.all_gather(tree)["a"].shape == (1, 3)
    assert float(aj.grad(lambda x: dist.all_reduce(dist.replicated(x) ** 2))(3.0)) == 6.0
    with pytest.raises(ArgumentError, match="no op 'median'"):
        dist.all_reduce(1.0, "median")
    with pytest.raises(ArgumentError, match="there is no rank 1"):
        dist.broadcast(1.0, 1)
    with pytest.raises(ArgumentError, match="a collective got a str"):
        dist.all_reduce("text")


def test_no_mpi_at_import() -> None:
    code = "import sys, adjit, adjit.distributed; adjit.distributed.all_reduce(1.0); sys.exit('mpi4py' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_launcher_of_another_mpi() -> None:
    """Ranks that each believe to be alone would train on their own, and nobody would be told."""
    launcher()
    code = "from adjit import distributed as dist; dist.rank()"
    variables = {name: text for name, text in os.environ.items() if not name.startswith(("OMPI_", "PMI", "SLURM_"))}
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**variables, "SLURM_STEP_NUM_TASKS": "4"})
    assert "DistributedError: the launcher started 4 ranks, and MPI (" in ran.stderr, ran.stderr
