"""The pages for those who come from other libraries: what their right columns say runs, and gives what the left column gives where that
library is a dependency."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.project import ROOT

PAGES = sorted((ROOT / "docs/coming_from").glob("*.md"))


def rows(page: Path) -> dict[str, str]:
    """Theirs beside ours."""
    found = re.findall(r"^\| (.*?) \| (`.*) \|$", page.read_text(), re.MULTILINE)
    return dict(found)


def setting(page: Path) -> dict[str, Any]:
    """What the first block of a page defines."""
    match = re.search(r"^```python\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    assert match is not None
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(match[1], names)
    return names


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_rows_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names = setting(page)

    def check(theirs: str, ours: str) -> None:
        for code in re.findall(r"`(.+?)`", ours):
            if code.startswith("import "):
                exec(code, names)
                continue
            result = eval(code, names)
            assert result is not None or ".backward()" in code or code.startswith("aj.save"), code
            if theirs.startswith(("`numba.njit(", "`numba.vectorize(")):
                np.testing.assert_allclose(result, eval(re.findall(r"`(.+?)`", theirs)[0], names), rtol=1e-14)

    assert len(rows(page)) >= 12
    for_each({theirs: (theirs, ours) for theirs, ours in rows(page).items()}, check)


def test_each_library_has_a_page() -> None:
    assert [page.stem for page in PAGES] == ["autograd", "jax", "numba", "pytorch"]
    assert all(f"## What is {word}\n" in page.read_text() for page in PAGES for word in ("different", "missing"))
