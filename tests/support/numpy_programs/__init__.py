"""Programs as people write them, in plain NumPy, one file a field: `all_programs` gives them by name."""

from __future__ import annotations

import importlib
import pkgutil

from support.numpy_programs.program import NumPyProgram


def all_programs() -> dict[str, NumPyProgram]:
    """Return the programs of all files, by name."""
    found: dict[str, NumPyProgram] = {}
    for file in sorted(module.name for module in pkgutil.iter_modules(__path__)):
        module = importlib.import_module(f"{__name__}.{file}")
        for program in getattr(module, "programs", ()):
            assert program.name not in found, f"two programs are named {program.name}"
            found[program.name] = program
    return found
