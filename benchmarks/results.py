"""A file of results, written after each piece of work, so that a run that is ended keeps what it has measured.

A cell is what was measured of one library at one thing: `step/mlp/jax`, `overhead/5/jax`, `curve/batch/64/jax`. A cell that could not be
measured holds the reason instead: {"absent": "..."}.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import statistics
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = HERE / "results"
FORMAT = 2

Cell = dict[str, Any]


class Results:
    """Facts about the run, and cells by their keys."""

    def __init__(self, path: Path, content: dict[str, Any]):
        self.path, self.content = path, content

    @classmethod
    def read(cls, path: Path) -> Results:
        content = json.loads(path.read_text())
        if content.get("format") != FORMAT:
            raise ValueError(f"{path} has format {content.get('format')}, this program reads {FORMAT}")
        return cls(path, content)

    @classmethod
    def resume(cls, path: Path, settings: Mapping[str, Any], fresh: bool) -> Results:
        """The file, if it was made with these settings from these sources, to go on with; else a new one.

        What was there before is kept beside it as `NAME.before.json`, to compare with.
        """
        state = {"settings": dict(settings), "sources": sources()}
        if path.exists():
            try:
                old = cls.read(path)
            except ValueError:
                old = None
            if old is not None and not fresh and {name: old.content.get(name) for name in state} == state:
                return old
            path.replace(path.with_suffix(".before.json"))
        return cls(path, {"format": FORMAT, "begun": now(), "commit": commit(), **state,
                          "machine": {}, "libraries": {}, "ceilings": {}, "cells": {}})

    def write(self) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_suffix(".tmp")
        new.write_text(json.dumps({**self.content, "written": now()}, indent=1) + "\n")
        new.replace(self.path)

    def put(self, cells: Mapping[str, Cell]) -> None:
        self.content["cells"].update(cells)
        self.write()

    def cell(self, *key: object) -> Cell | None:
        return self.content["cells"].get("/".join(map(str, key)))

    def cells(self, *start: object) -> Iterator[tuple[list[str], Cell]]:
        """Keys, split, that begin like this, and their cells, in the order of measurement."""
        wanted = [str(part) for part in start]
        for key, cell in self.content["cells"].items():
            parts = key.split("/")
            if parts[:len(wanted)] == wanted:
                yield parts, cell

    @property
    def libraries(self) -> list[str]:
        return list(self.content["libraries"])

    @property
    def workloads(self) -> list[str]:
        return list(dict.fromkeys(parts[1] for parts, _ in self.cells("step")))


def median_of(cell: Cell | None) -> float | None:
    """Seconds of a step: the median of the rounds; None where there are none."""
    return statistics.median(cell["rounds"]) if cell and cell.get("rounds") else None


def ratio_of(cell: Cell | None) -> float | None:
    """adjit's time over this library's: the median of the ratios of each round."""
    return statistics.median(cell["ratios"]) if cell and cell.get("ratios") else None


def now() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def sources() -> str:
    """A hash of everything that decides what is measured: the package, and the programs that are run on it."""
    digest = hashlib.sha256()
    skipped = {"build", "dist", "docs", "examples", "out", "tests", HERE.name}
    for folder in sorted(ROOT.iterdir()):
        if folder.is_dir() and not folder.name.startswith(".") and folder.name not in skipped:
            for path in sorted(folder.rglob("*.py")):
                digest.update(path.read_bytes())
    for path in (*sorted((HERE / "libraries").glob("*.py")), *(HERE / name for name in ("problems.py", "workloads.py", "worker.py"))):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def commit() -> str:
    """The commit that was measured, with `+` where files differ from it; empty outside of a checkout."""
    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""
    head = git("rev-parse", "--short", "HEAD")
    return head + ("+" if head and git("status", "--porcelain", "--untracked-files=no") else "")
