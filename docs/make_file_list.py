"""Writes the list of files at the end of ARCHITECTURE.md from the modules' own first sentences: `python docs/make_file_list.py`."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "ARCHITECTURE.md"
MARK = "## Files\n"
PACKAGES = ("ir", "tracer", "passes", "codegen", "eager", "runtime", "api")


def first_sentence(path: Path) -> str:
    """The first sentence of a module's docstring, on one line; raises `ValueError` for a module without one."""
    text = ast.get_docstring(ast.parse(path.read_text()))
    if not text:
        raise ValueError(f"{path.relative_to(ROOT)} has no docstring")
    paragraph = " ".join(text.split("\n\n")[0].split())
    end = paragraph.find(". ")
    return paragraph if end < 0 else paragraph[:end + 1]


def file_list() -> str:
    """The section, from its heading on."""
    lines = [MARK]
    for package in PACKAGES:
        lines += [f"### {package}/\n", "| file | holds |", "|---|---|"]
        for path in sorted((ROOT / package).rglob("*.py")):
            sentence = first_sentence(path).replace("|", "\\|")
            lines.append(f"| `{path.relative_to(ROOT / package)}` | {sentence} |")
        lines.append("")
    return "\n".join(lines)


def page() -> str:
    """ARCHITECTURE.md with the list as it should be."""
    return PAGE.read_text().split(MARK)[0] + file_list()


if __name__ == "__main__":
    PAGE.write_text(page())
