"""`python -m adjit info`: versions, machine, backends, cache, settings."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from pathlib import Path

from adjit.codegen.llvm.target import host_targets, is_installed
from adjit.codegen.process.cores import bounds
from adjit.ir.errors import UnsupportedError
from adjit.runtime import settings
from adjit.runtime.cuda import devices
from adjit.runtime.exports.library import SYSTEMS
from adjit.runtime.native.code import native_is_supported
from adjit.runtime.reports.memory_blocks import format_bytes

LIBRARIES = ("adjit", "numpy", "llvmlite", "numba", "optree")
VECTOR_FEATURES = ("sse4.2", "avx", "avx2", "fma", "avx512f", "avx512bw", "avx512vl", "neon", "sve")


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `info` to the command line."""
    parser = commands.add_parser("info", help="versions, machine, backends, cache", description=__doc__)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the facts that a report of a problem needs."""
    for title, lines in (("versions", _versions()), ("machine", _machine()), ("backends", _backends()), ("cache", _cache()),
                         ("settings", _settings())):
        print(title)
        width = max(map(len, lines))
        for name, text in lines.items():
            print(f"  {name:<{width}}  {text}")
    return 0


def _backends() -> dict[str, str]:
    native = native_is_supported()
    default = "native" if native else "numba" if is_installed("numba") else "interpret"
    targets = f"for {', '.join(target.name for target in host_targets())}" if native else "not on this system"
    backends = {
        "native": f"the whole program as machine code, {targets}",
        "numba": f"fused kernels, compiled by Numba{'' if is_installed('numba') else ', which is not installed'}",
        "interpret": "NumPy, one op at a time: the reference",
        "cuda": _card()}
    backends[default] += " (the default)"
    return {
        **backends,
        "exports": "; ".join(f"{system}: {', '.join(levels)}" for system, levels in SYSTEMS.items()),
    }


def _card() -> str:
    try:
        driver = devices.driver()
    except UnsupportedError as error:
        return f"programs for NVIDIA GPUs: {error.message}"
    return f"programs for the {driver.name}: {driver.describe()}"


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: _version(name) for name in LIBRARIES}, **_llvm()}


def _llvm() -> dict[str, str]:
    if not is_installed("llvmlite"):
        return {}
    from llvmlite import binding

    return {"llvm": ".".join(map(str, binding.llvm_version_info))}


def _processor() -> dict[str, str]:
    if not is_installed("llvmlite"):
        return {}
    from llvmlite import binding

    features = binding.get_host_cpu_features()
    vectors = " ".join(name for name in VECTOR_FEATURES if features.get(name))
    return {"cpu": binding.get_host_cpu_name(), "vectors": vectors or "none known"}


def _version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _machine() -> dict[str, str]:
    found = bounds()
    is_set = os.environ.get(settings.THREADS.variable, "").strip()
    why = f"the setting {settings.THREADS.variable}" if is_set else min(found, key=lambda what: found[what])
    return {
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        **_processor(),
        "cores": ", ".join(f"{count} by {what}" for what, count in found.items()),
        "threads": f"{settings.THREADS.get()} for a program, by {why}",
    }


def _cache() -> dict[str, str]:
    folder = settings.CACHE_DIR.get()
    limit = settings.CACHE_SIZE.get()
    if folder is None or not limit:
        return {"kernels": "not kept on disk"}
    sizes = [path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()]
    return {"folder": str(folder), "size": f"{format_bytes(sum(sizes))} in {len(sizes)} files, at most {format_bytes(limit)}"}


def _settings() -> dict[str, str]:
    return {setting.variable: setting.doc for setting in settings.SETTINGS}
