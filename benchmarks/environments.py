"""Environments to measure in: a virtual environment for each library, so that no library meets the pins or the sizes of another.

    python benchmarks/environments.py [adjit jax torch ...]

They lie in `.bench/` and are kept; changed requirements are installed again. adjit itself is built anew from a copy of the checkout each
time, so that a run measures one state of the sources, whoever edits them meanwhile. What cannot be installed is absent, with the reason.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
FOLDER = ROOT / ".bench"
NOT_SOURCES = shutil.ignore_patterns(".*", "build", "dist", "out", "tests", "docs", "benchmarks", "examples", "*.egg-info", "__pycache__")


@dataclass(frozen=True)
class Environment:
    """An interpreter with one library, or why there is none."""

    python: Path | None
    absent: str | None = None


def prepare(name: str) -> Environment:
    """The environment of a library (or of the `harness`), made where it is missing or out of date."""
    folder = FOLDER / name
    python = folder / "bin" / "python"
    requirements = [HERE / "requirements" / f"{part}.txt" for part in ("tools", name)]
    text = sys.version + "".join(path.read_text() for path in requirements)
    if name == "adjit":
        text += (ROOT / "constraints.txt").read_text() + (ROOT / "pyproject.toml").read_text()
    mark, state = folder / "installed", hashlib.sha256(text.encode()).hexdigest()
    try:
        if not mark.exists() or mark.read_text() != state:
            print(f"preparing {folder.relative_to(ROOT)}", flush=True)
            _run(sys.executable, "-m", "venv", "--clear", folder)
            with tempfile.TemporaryDirectory() as wheels:
                built = [_build_adjit(python, Path(wheels))] if name == "adjit" else []
                _run(python, "-m", "pip", "install", "-q", *(part for path in requirements for part in ("-r", path)), *built)
            mark.write_text(state)
        elif name == "adjit":
            with tempfile.TemporaryDirectory() as wheels:
                wheel = _build_adjit(python, Path(wheels))
                _run(python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--force-reinstall", wheel)
    except subprocess.CalledProcessError as error:
        return Environment(None, _reason(error.stderr))
    return Environment(python)


def _build_adjit(python: Path, folder: Path) -> Path:
    """A wheel of the checkout as it is now, built in a copy: what was built before leaves nothing in it."""
    copy = folder / "checkout"
    _run(python, "-m", "pip", "install", "-q", "-c", ROOT / "constraints.txt", "setuptools")
    shutil.copytree(ROOT, copy, ignore=NOT_SOURCES)
    _run(python, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "--no-index", "-w", folder, copy)
    (wheel,) = folder.glob("adjit-*.whl")
    return wheel


def _run(*command: object) -> None:
    subprocess.run([str(part) for part in command], check=True, stderr=subprocess.PIPE, text=True)


def _reason(message: str) -> str:
    """The line of pip's complaint that says most."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR: ") for line in lines if line.startswith("ERROR: ")]
    return "cannot be installed: " + (errors or lines or ["pip gave no reason"])[-1]


def main(names: Iterable[str]) -> None:
    names = list(names) or sorted(path.stem for path in (HERE / "requirements").glob("*.txt") if path.stem != "tools")
    for name in names:
        environment = prepare(name)
        print(f"{name}: {environment.absent or environment.python}")


if __name__ == "__main__":
    main(sys.argv[1:])
