"""What a measurement depends on beside the program: processor, cores, BLAS, and the environment of the processes that are measured."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path
from typing import Any


def processor() -> dict[str, Any]:
    """The processor's name, whether it has AVX-512, and how many cores this process may use."""
    name, flags = platform.processor() or platform.machine(), ""
    info = Path("/proc/cpuinfo")
    for line in info.read_text().splitlines() if info.exists() else []:
        key, _, value = line.partition(":")
        if key.strip() == "model name":
            name = value.strip()
        elif key.strip() == "flags":
            flags = value
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"processor": name, "avx512": "avx512f" in flags.split(), "cores": cores}


def blas() -> dict[str, Any]:
    """The kernels that NumPy's OpenBLAS has chosen and its threads, as the loaded library says; empty where there is none to ask."""
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    for path in sorted({line.split(maxsplit=5)[-1] for line in lines if "openblas" in line}):
        library = ctypes.CDLL(path)
        for form in ("scipy_openblas_{}64_", "scipy_openblas_{}", "openblas_{}64_", "openblas_{}"):
            core, threads = (getattr(library, form.format(name), None) for name in ("get_corename", "get_num_threads"))
            if core is not None and threads is not None:
                core.restype = ctypes.c_char_p
                return {"blas": f"OpenBLAS {core().decode()}", "blas_threads": threads()}
    return {}


def measured_environment(cache_folder: Path) -> dict[str, str]:
    """The environment of measured processes: adjit's settings are the default ones, with compiled kernels in `cache_folder`.

    OPENBLAS_CORETYPE goes too: some machines preset Haswell, which halves the speed of products on a processor with AVX-512.
    """
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith("ADJIT_") and name not in ("OPENBLAS_CORETYPE", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")}
    return {**kept, "ADJIT_CACHE_DIR": str(cache_folder)}
