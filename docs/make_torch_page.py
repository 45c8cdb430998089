"""Writes `docs/torch.md`, what of PyTorch is there by the same name: `python docs/make_torch_page.py`.

The names are PyTorch's own (`docs/pytorch_names.json`, by `tests/support/pytorch_names.py`); reasons for what is not there are in
`docs/pytorch_reasons.toml`.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib import import_module
from pathlib import Path
from typing import Any

import adjit

DOCS = Path(__file__).resolve().parent
PAGE = DOCS / "torch.md"
PYTORCH = json.loads((DOCS / "pytorch_names.json").read_text())
NAMES: dict[str, list[str]] = PYTORCH["names"]
REASONS: dict[str, dict[str, list[str]]] = tomllib.loads((DOCS / "pytorch_reasons.toml").read_text())
MISSING = "not yet"

HEAD = f"""\
# PyTorch's names

What of PyTorch {PYTORCH["version"]} there is by the same name: `torch.nn.Linear` is `adjit.nn.Linear`. This page is made by
`docs/make_torch_page.py` from PyTorch's own lists and adjit's modules; a test keeps it up to date. Arguments, defaults and names of
parameters are PyTorch's where a name is the same, and so are values and gradients (`tests/api/nn/test_nn_torch.py` compares them).

| module | there | of |
|---|---:|---:|
"""


def home_of(section: str) -> Any:
    """The module or class of adjit that has the names of a section; None if there is none."""
    if section in ("torch", "Tensor"):
        return adjit if section == "torch" else adjit.Tensor
    home: Any = adjit
    for part in section.split("."):
        if not hasattr(home, part):
            try:
                import_module(f"{home.__name__}.{part}")
            except ImportError:
                return None
        home = getattr(home, part)
    return home


def found(section: str) -> list[str]:
    """Names of a section that are there."""
    home = home_of(section)
    return [name for name in NAMES[section] if hasattr(home, name)]


def reason_of(section: str, name: str) -> str:
    """Why a name is not there."""
    return next((reason for reason, patterns in REASONS.get(section, {}).items() if any(fnmatchcase(name, each) for each in patterns)),
                MISSING)


def wrong_reasons() -> list[str]:
    """Patterns that say why not of a name that is there, or of none."""
    there = {section: set(found(section)) for section in REASONS}
    return [f"{section}.{pattern}" for section, reasons in REASONS.items() for patterns in reasons.values() for pattern in patterns
            if not (names := [name for name in NAMES[section] if fnmatchcase(name, pattern)]) or set(names) & there[section]]


def of_section(section: str, there: list[str]) -> Iterator[str]:
    yield f"## {'torch' if section == 'torch' else f'torch.{section}'}\n"
    yield f"{', '.join(f'`{name}`' for name in there) or 'None of them'}.\n"
    refused: dict[str, list[str]] = {}
    for name in NAMES[section]:
        if name not in there:
            refused.setdefault(reason_of(section, name), []).append(f"`{name}`")
    if refused:
        yield "| not there | because |"
        yield "|---|---|"
        for reason, members in sorted(refused.items(), key=lambda item: item[0] == MISSING):
            yield f"| {', '.join(members)} | {reason} |"
        yield ""


def page() -> str:
    """The text of the page."""
    there = {section: found(section) for section in NAMES}
    rows = "".join(f"| {section} | {len(names)} | {len(NAMES[section])} |\n" for section, names in there.items())
    return HEAD + rows + "\n" + "\n".join(line for section, names in there.items() for line in of_section(section, names))


if __name__ == "__main__":
    PAGE.write_text(page())
