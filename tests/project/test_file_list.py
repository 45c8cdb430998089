"""ARCHITECTURE.md lists every file with its own first sentence."""

from __future__ import annotations

import runpy

from support.project import ROOT


def test_the_list_of_files_is_current() -> None:
    script = runpy.run_path(str(ROOT / "docs" / "make_file_list.py"))
    assert script["page"]() == (ROOT / "ARCHITECTURE.md").read_text(), "run: python docs/make_file_list.py"
