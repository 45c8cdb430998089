"""`docs/numpy.md` is what `docs/make_numpy_page.py` makes of NumPy's list of names and of the tables of functions now."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import numpy as np
import pytest
from support.project import ROOT

from adjit.tracer.registry import FUNCTIONS, REFUSED


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_numpy_page", ROOT / "docs" / "make_numpy_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_name_of_numpy_has_a_rule_or_a_reason(script: ModuleType) -> None:
    """A name that a new NumPy brings is reported here."""
    assert script.unexplained() == []


def test_a_name_without_either_is_seen(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FUNCTIONS, np.median)
    monkeypatch.delitem(FUNCTIONS, (np.hypot, "at"))
    monkeypatch.delitem(REFUSED, "savetxt")
    assert sorted(script.unexplained()) == ["hypot.at", "numpy.median", "numpy.savetxt"]


def test_page_is_up_to_date(script: ModuleType) -> None:
    text = (ROOT / "docs" / "numpy.md").read_text()
    if f"NumPy {np.__version__}" in text:       # an older or newer NumPy has other names
        assert text == script.page(), "run: python docs/make_numpy_page.py"
    assert all(f"`{name}`" in text for name in ("median", "add.reduceat", "savetxt", "swapaxes"))
