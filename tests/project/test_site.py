"""The site: its examples run, every page of the docs is in a section, and Sphinx makes it without a warning, where it is installed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from fnmatch import fnmatch
from importlib import util
from pathlib import Path
from types import ModuleType

import pytest
from support.each import for_each
from support.project import ROOT

GALLERY = sorted((ROOT / "docs/gallery").glob("plot_*.py"))
QUICK = ("plot_curve_fit.py", "plot_hmc.py", "plot_custom_derivative.py")


def make_site() -> ModuleType:
    spec = util.spec_from_file_location("make_site", ROOT / "docs/make_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(script: Path, tmp_path: Path) -> str:
    environment = {**os.environ, "MPLBACKEND": "agg", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_run(tmp_path: Path, exhaustive: bool) -> None:
    """They print what they find. The others take a second or two each, and run when the site is built."""
    for_each({script.stem: script for script in GALLERY if exhaustive or script.name in QUICK},
             lambda script: check(run(script, tmp_path)))


def check(printed: str) -> None:
    assert printed


def test_there_are_examples() -> None:
    assert len(GALLERY) >= 12
    for script in GALLERY:
        text = script.read_text()
        assert re.match(r'"""\n.+\n=+\n\n', text), script.name
        assert "plt.show()" in text


def test_every_page_is_in_a_section() -> None:
    site = make_site()
    listed = [re.sub(r".*<(.*)>", r"\1", entry) for _, entries in site.SECTIONS.values() for entry in entries]
    pages = [page.relative_to(ROOT / "docs").with_suffix("").as_posix() for page in (ROOT / "docs").rglob("*.md")]
    missing = [page for page in pages if page != "index" and not page.startswith("internals/")
               and not any(fnmatch(page, entry) for entry in listed)]
    assert not missing
    assert all(entry.endswith(("*", "/index")) or entry in pages or entry in {name[:-3] for name in site.TOP.values()}
               for entry in listed if entry != "callables")


def test_the_site_has_no_warnings(exhaustive: bool) -> None:
    if not exhaustive or util.find_spec("sphinx") is None:
        pytest.skip("runs all examples: with --exhaustive, where Sphinx is installed")
    subprocess.run([sys.executable, str(ROOT / "docs/make_site.py")], check=True)
