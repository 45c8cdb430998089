"""ARCHITECTURE.md stays short, and its links to other pages lead somewhere."""

from __future__ import annotations

import re

from support.project import ROOT


def test_the_page_is_short() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_bytes()) <= 10_000


def test_links_lead_to_files() -> None:
    for page in [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))]:
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), (page.name, link)
