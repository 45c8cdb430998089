"""`docs/ops.md` is what `docs/make_ops_page.py` makes of the op records now."""

from __future__ import annotations

import importlib.util

from support.project import ROOT

from adjit.ir.definition import DEFINITIONS


def test_page_is_up_to_date() -> None:
    spec = importlib.util.spec_from_file_location("make_ops_page", ROOT / "docs" / "make_ops_page.py")
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    text = (ROOT / "docs" / "ops.md").read_text()
    assert text == script.page(), "run: python docs/make_ops_page.py"
    assert all(f"| `{name}` |" in text for name in DEFINITIONS)
