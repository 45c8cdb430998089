"""The examples run, in a small size, learn something, and draw their pictures."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import pytest
from support.project import ROOT
from support.ranks import run_ranks


def main_of(name: str) -> Any:
    return runpy.run_path(str(ROOT / "examples" / f"{name}.py"), run_name="example")["main"]


def run(name: str, monkeypatch: pytest.MonkeyPatch, folder: Path, **sizes: Any) -> float:
    monkeypatch.chdir(folder)
    result = main_of(name)(out=folder / "pictures", **sizes)
    assert (folder / "pictures" / f"{name}.png").stat().st_size > 5000
    return float(result)


def test_regression_is_not_spoiled_by_outliers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("regression", monkeypatch, tmp_path) < 0.6       # least squares: 1.025


def test_convolutional_network_learns_digits(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("digits_cnn", monkeypatch, tmp_path, epochs=6) > 0.9


def test_character_model_learns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert run("character_model", monkeypatch, tmp_path, steps=40, length=20) < 5.0     # of 6.6 bits for 96 characters


def test_one_line_takes_a_script_to_a_device(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("with --exhaustive")
    monkeypatch.setenv("ADJIT_CUDA", "emulated")
    text = (ROOT / "examples" / "character_model.py").read_text()
    small = text.replace("LAYERS, BATCH = 64, 96, 4, 2, 32", "LAYERS, BATCH = 8, 16, 2, 1, 4")
    bits = []
    for source in (small, small.replace('DEVICE = "cpu"', 'DEVICE = "cuda"')):
        names: dict[str, Any] = {"__name__": "example"}
        exec(compile(source, str(ROOT / "examples" / "character_model.py"), "exec"), names)
        bits.append(names["main"](steps=3, length=2, out=tmp_path))
    assert bits[1] == pytest.approx(bits[0], rel=1e-4)


def test_network_on_ranks_learns_digits(tmp_path: Path, exhaustive: bool) -> None:
    accuracy, digest = main_of("digits_mpi")(epochs=3, checkpoint=str(tmp_path / "checkpoint"))
    accuracy, digest = main_of("digits_mpi")(epochs=6, checkpoint=str(tmp_path / "checkpoint"))
    assert accuracy > 0.75
    if exhaustive:
        ran = run_ranks(2, ROOT / "examples" / "digits_mpi.py", "--epochs", "6")
        assert f"digest of the parameters {digest}" in ran.stdout, ran.stdout


def test_character_model_on_ranks_learns(exhaustive: bool) -> None:
    if not exhaustive:
        pytest.skip("with --exhaustive")
    bits, digest = main_of("character_model_mpi")(steps=40)
    assert bits < 5.0
    ran = run_ranks(2, ROOT / "examples" / "character_model_mpi.py", "--steps", "40")
    assert f"digest of the parameters {digest}" in ran.stdout, ran.stdout
