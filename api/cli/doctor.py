"""`python -m adjit doctor`: checks each thing that a compiled program needs on this machine, and names a remedy for each that fails."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable

import numpy as np

from adjit.codegen.llvm.target import host_targets
from adjit.ir.errors import UnsupportedError
from adjit.runtime import settings
from adjit.runtime.caches.disk_cache import DiskCache
from adjit.runtime.compile_function import compile
from adjit.runtime.cuda import devices
from adjit.runtime.transforms import value_and_grad

Finding = tuple[str, str]
"""Verdict ("ok", "note" or "PROBLEM") and text of a check."""


def add_parser(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add `doctor` to the command line."""
    parser = commands.add_parser("doctor", help="check that everything works on this machine", description=__doc__)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print one line for each check; returns status 1 if one of them found a problem."""
    problems = 0
    for title, check in CHECKS.items():
        try:
            verdict, text = check()
        except Exception as error:      # whatever is broken, the other checks are still of use
            verdict, text = "PROBLEM", f"{type(error).__name__}: {error}"
        problems += verdict == "PROBLEM"
        print(f"{verdict:<7}  {title:<10}  {text}")
    print("all is well" if not problems else f"{problems} problem{'s' * (problems > 1)}")
    return int(problems > 0)


def _python() -> Finding:
    version = f"{platform.python_implementation()} {platform.python_version()}"
    tested = sys.implementation.name == "cpython" and (3, 11) <= sys.version_info[:2] <= (3, 13)
    return ("ok", version) if tested else ("note", f"{version}: adjit is tested with CPython 3.11 to 3.13")


def _processor() -> Finding:
    names = [target.name for target in host_targets()]
    if names:
        return "ok", f"{platform.machine()}, machine code for {', '.join(names)}"
    return "note", f"{platform.machine()}: no machine code of our own; programs are compiled through Numba"


def _settings() -> Finding:
    settings.check()        # raises, naming the variable
    given = sorted(name for name in os.environ if name.startswith(settings.PREFIX) and os.environ[name])
    return "ok", f"set: {', '.join(given)}" if given else "all at their defaults"


def _cache() -> Finding:
    cache = DiskCache(settings.CACHE_DIR.get(), settings.CACHE_SIZE.get())
    problem = cache.problem()
    if problem:
        return "note", f"{problem}; every process compiles anew"
    assert cache.folder is not None
    with tempfile.TemporaryFile(dir=cache.folder):
        return "ok", f"{cache.folder}, {len(cache.entries())} entries"


def _gradient() -> Finding:
    """Compile a function on every backend, and compare its value and gradient with known ones."""

    def objective(x: np.ndarray) -> np.floating:
        return np.sum(np.exp(-x * x) @ np.ones((3, 2)))

    x = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    for backend in ("auto", "interpret"):
        value, gradient = compile(value_and_grad(objective), backend=backend)(x)
        known = 2.0 * np.exp(-x * x)
        if not (np.allclose(value, known.sum(), rtol=1e-12) and np.allclose(gradient, -2.0 * x * known, rtol=1e-12)):
            return "PROBLEM", f"backend {backend!r} gives a wrong value or gradient: please report this with the output of `adjit info`"
    return "ok", "a compiled value and gradient are right"


def _linker() -> Finding:
    found = next((path for name in ("cc", "gcc", "clang", "ld", "ld.lld") if (path := shutil.which(name))), None)
    if found:
        return "ok", f"{found}, for exports to shared libraries"
    return "note", "no linker (cc, gcc, clang, ld, lld): exports to .so need one; everything else works"


def _device() -> Finding:
    """Compile a function for the device that there is, and compare its value with the known one."""
    try:
        driver = devices.driver()
    except UnsupportedError as error:
        return "note", f"{error.message}; device='cuda' is for NVIDIA GPUs, everything else works"
    x = np.linspace(-1.0, 1.0, 12).reshape(4, 3)
    value = compile(lambda x: np.sum(np.exp(-x @ x.T)), device="cuda")(x)
    if not np.allclose(np.asarray(value), np.exp(-x @ x.T).sum(), rtol=1e-12):
        return "PROBLEM", f"{driver.name} gives a wrong value: please report this with the output of `adjit info`"
    return "ok", f"{driver.name}: {driver.describe()}; a compiled value is right"


CHECKS: dict[str, Callable[[], Finding]] = {
    "python": _python, "processor": _processor, "settings": _settings, "cache": _cache, "gradient": _gradient, "device": _device,
    "linker": _linker}
"""Checks in order."""
