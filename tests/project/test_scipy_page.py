"""`docs/scipy.md` is what `docs/make_scipy_page.py` makes of SciPy's names and of the modules of `adjit.scipy` now."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from support.project import ROOT

scipy = pytest.importorskip("scipy")
from adjit.scipy import signal  # noqa: E402
from adjit.scipy.reasons import REASONS  # noqa: E402


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_scipy_page", ROOT / "docs" / "make_scipy_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_name_of_scipy_has_a_rule_or_a_reason(script: ModuleType) -> None:
    """A name that a new SciPy brings is reported here."""
    assert script.unexplained() == []
    assert script.superfluous() == []


def test_a_name_without_either_is_seen(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(REASONS["signal"], "butter")
    monkeypatch.setitem(REASONS["signal"], "sosfilt", "tested")
    monkeypatch.setattr(signal, "__all__", [name for name in signal.__all__ if name != "lfilter"])
    assert script.unexplained() == ["signal.butter", "signal.lfilter"]
    assert script.superfluous() == ["signal.sosfilt"]


def test_page_is_up_to_date(script: ModuleType) -> None:
    text = (ROOT / "docs" / "scipy.md").read_text()
    if f"SciPy {scipy.__version__}" in text:        # an older or newer SciPy has other names
        assert text == script.page(), "run: python docs/make_scipy_page.py"
    assert all(f"`{name}`" in text for name in ("gammainc", "lfilter", "butter", "norm", "CubicSpline", "cdist"))
