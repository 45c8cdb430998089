"""The examples run, in a small size, learn something, and draw their pictures."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT


def run(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, **sizes: Any) -> float:
    monkeypatch.chdir(folder)
    result = runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="example")["main"](out=folder / "pictures", **sizes)
    assert (folder / "pictures" / f"{name}.png").stat().st_size > 5000
    return float(result)


def test_regression_is_not_spoiled_by_outliers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("regression", monkeypatch, tmp_path) < 0.6       # least squares: 1.025


def test_convolutional_network_learns_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("digits_cnn", monkeypatch, tmp_path, epochs=6) > 0.9


def test_character_model_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("character_model", monkeypatch, tmp_path, steps=40, length=20) < 5.0     # of 6.6 bits for 96 characters
