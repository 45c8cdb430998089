"""What a measurement depends on beside the program: processor, caches, cores, BLAS, load, and the environment of the processes that are
measured.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any


def processor() -> dict[str, Any]:
    """The processor's name, whether it has AVX-512, its caches in bytes, and how many cores this process may use."""
    name, flags = platform.processor() or platform.machine(), ""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() == "flags":
            flags = value
    return {"processor": name, "avx512": "avx512f" in flags.split(), "virtual": "hypervisor" in flags.split(), "cores": cores(),
            "caches": cache_sizes(), "system": f"{platform.system()} {platform.release()}"}


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cache_sizes() -> dict[str, int]:
    """Bytes of the data caches that the first core sees: `L1`, `L2`, `L3`."""
    found = {}
    for folder in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        kind, size = (folder / "type").read_text().strip(), (folder / "size").read_text().strip()
        if kind != "Instruction" and size.endswith("K"):
            found["L" + (folder / "level").read_text().strip()] = int(size[:-1]) * 1024
    return found


def blas() -> list[str]:
    """The BLAS and threading libraries that this process has loaded, with the kernels they chose and their threads."""
    from threadpoolctl import threadpool_info
    lines = []
    for pool in threadpool_info():
        parts = [pool["internal_api"], pool.get("version"), pool.get("architecture"), f"{pool['num_threads']} threads"]
        lines.append(" ".join(part for part in parts if part))
    return sorted(set(lines))


def measured_environment(folder: Path, library: str) -> dict[str, str]:
    """The environment of a measured process: default settings, and every cache in `folder`.

    OPENBLAS_CORETYPE goes: some machines preset Haswell, which halves the speed of products on a processor with AVX-512. So do variables
    that limit threads: each library takes as many as it would by itself.
    """
    prefixes = ("ADJIT_", "JAX_", "XLA_", "TORCH", "PYTENSOR_", "NUMBA_", "OMP_", "MKL_", "OPENBLAS_")
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(prefixes) and name not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "CC", "DEV")}
    if library == "tinygrad":
        names = ("clang", *(f"clang-{version}" for version in range(25, 13, -1)))
        kept |= {"DEV": "CPU", "CC": next(filter(shutil.which, names), "")}
    return {**kept, "ADJIT_CACHE_DIR": str(folder / "adjit"), "XDG_CACHE_HOME": str(folder),
            "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1", "JAX_PLATFORMS": "cpu",
            "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"), "NUMBA_CACHE_DIR": str(folder / "numba"),
            "PYTENSOR_FLAGS": f"base_compiledir={folder / 'pytensor'}"}


class Load:
    """How busy other processes kept the machine while ours were measured."""

    def __init__(self, processes: Sequence[int]):
        import psutil
        self._psutil = psutil
        self._processes = [psutil.Process(process) for process in (os.getpid(), *processes)]
        self._before = self._now()

    def others(self) -> float:
        """The share of all cores that went to others, or was taken by other machines on this host, since this was made."""
        busy, ours, total = (after - before for after, before in zip(self._now(), self._before, strict=True))
        return max(0.0, busy - ours) / total if total > 0 else 0.0

    def _now(self) -> tuple[float, float, float]:
        times = self._psutil.cpu_times()
        idle = times.idle + getattr(times, "iowait", 0.0)
        total = sum(times[:8])          # the guests' times after these are part of the first two
        ours = 0.0
        for process in self._processes:
            if process.is_running():
                own = process.cpu_times()
                ours += own.user + own.system + own.children_user + own.children_system
        return total - idle, ours, total
