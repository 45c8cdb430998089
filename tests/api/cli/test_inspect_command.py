"""`python -m adjit inspect`: says what is in an exported program, and refuses damaged files."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

import adjit as aj
from adjit.__main__ import main
from adjit.ir.parser import parse
from adjit.runtime.native.code import native_is_supported

pytestmark = pytest.mark.skipif(not native_is_supported(), reason="native programs are for Linux on x86-64")
OFFSET = np.linspace(0.0, 1.0, 5)


@aj.compile(donate="params")
def step(params, x, *, rate):
    return {"w": params["w"] - rate * np.sum(x) + OFFSET}, [np.sum(np.sin(x)), None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    step.export(tmp_path / "step.adjit", {"w": np.zeros(5)}, np.ones((3, 4), "f4"), kwargs={"rate": 0.5}, params="params")
    return tmp_path / "step.adjit"


def test_it_says_what_the_program_is(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path)]) == 0
    text = " ".join(capsys.readouterr().out.split())
    for words in ("name step", "signature (params: {'w': *}, x: *, *, rate: *) -> ({'w': *}, [*, None])",
                  "params.w f64[5], overwritten, stored", "x f32[3,4]", "f64[5], constant", "in the memory of params.w",
                  "x86-64-v2", "x86-64-v3", "x86-64-v4", "operations fused",
                  "bytes of working memory", f"file sha256 {hashlib.sha256(path.read_bytes()).hexdigest()}"):
        assert words in text, words


def test_the_graph_can_be_read_again(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(path), "--ir"]) == 0
    assert parse(capsys.readouterr().out).name == "step"


def test_damaged_files_are_told(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = path.read_bytes()
    for damaged in (b"", content[:1000], content.replace(b"f64[5]", b"f64[6]"), content.replace(b'"source"', b'"sauce!"')):
        path.write_bytes(damaged)
        assert main(["inspect", str(path)]) == 1
        assert "is damaged" in capsys.readouterr().err
    assert main(["inspect", str(path.parent / "none.adjit")]) == 1
    assert "cannot be read" in capsys.readouterr().err


def test_info_says_what_native_is_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    native = next(line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["native"])
    assert "(the default)" in native
    assert "sse2" in native
