"""Folders of the project, and the installed module name of each file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

ROOT = Path(__file__).resolve().parent.parent.parent
TESTS = ROOT / "tests"
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
VERSION = re.search(r'^VERSION = "(.+)"$', (ROOT / "ir/version.py").read_text(), re.MULTILINE)[1]  # type: ignore[index]
PACKAGES = ("ir", "tracer", "passes", "codegen", "eager", "runtime", "api")
PUBLIC_MODULES = ("adjit", "adjit.autograd", "adjit.autograd.functional", "adjit.cuda", "adjit.debug", "adjit.distributions",
                  "adjit.errors", "adjit.fit", "adjit.linalg", "adjit.nn",
                  "adjit.nn.functional", "adjit.nn.init", "adjit.nn.utils", "adjit.nn.utils.rnn", "adjit.numpy", "adjit.ode",
                  "adjit.optim", "adjit.optim.lr_scheduler", "adjit.random", "adjit.solve", "adjit.special", "adjit.stats", "adjit.tree",
                  "adjit.utils", "adjit.utils.checkpoint", "adjit.utils.data", "adjit.viz")


@cache
def modules(root: Path = ROOT) -> Mapping[str, Path]:
    """Return every module of the package by its dotted name, with its file in the checkout `root`."""
    found = {}
    for package in PACKAGES:
        prefix = ("adjit",) if package == "api" else ("adjit", package)
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root / package).with_suffix("").parts
            found[".".join((*prefix, *parts)).removesuffix(".__init__")] = path
    return MappingProxyType(found)


def package_of(module: str) -> str:
    """Return the package of a dotted module name: `adjit.ir.graph` is in "ir", `adjit.optim` in "api"."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in PACKAGES else "api"
