"""`docs/torch.md` is what `docs/make_torch_page.py` makes of PyTorch's list of names and of adjit's modules now."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from support.project import ROOT

from adjit import nn

LEAST = {"nn": 160, "nn.functional": 112, "nn.utils.rnn": 8, "nn.utils.parametrize": 7, "nn.utils.parametrizations": 3}
"""Number of names that a section has at least."""


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_torch_page", ROOT / "docs" / "make_torch_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_is_up_to_date(script: ModuleType) -> None:
    assert (ROOT / "docs" / "torch.md").read_text() == script.page(), "run: python docs/make_torch_page.py"


def test_reasons_are_of_missing_names(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    assert script.wrong_reasons() == []
    monkeypatch.setitem(script.REASONS, "nn", {"reason": ["Linear", "NoSuchName"]})
    assert script.wrong_reasons() == ["nn.Linear", "nn.NoSuchName"]


def test_names_that_are_there(script: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    for section, least in LEAST.items():
        assert len(script.found(section)) >= least, section
    monkeypatch.delattr(nn, "Linear", raising=False)
    monkeypatch.setattr(nn, "__all__", [name for name in nn.__all__ if name != "Linear"])
    assert "Linear" not in script.found("nn")
    assert script.reason_of("nn", "Linear") == script.MISSING
