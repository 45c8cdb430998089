"""`python -m adjit opt`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from adjit.__main__ import main
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.passes.options import Options
from adjit.passes.pipeline import PIPELINE, run_pipeline

TRACED = """\
graph @gradient(%x: f32[4], %ct: f32[4]) {
  %y: f32[4], %dx: f32[4] = vjp %x, %ct {cotangents=(0,), wrt=(0,)} [
    graph @f(%x: f32[4]) {
      %s: f32[4] = stop_gradient %x
      %y: f32[4] = multiply %x, %s
      return %y
    }
  ]
  return %y, %dx
}
"""

REPEATED = """\
graph @f(%x: f32[4]) {
  %a: f32[4] = sin %x
  %b: f32[4] = sin %x
  %c: f32[4] = add %a, %b
  return %c
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "graph.ir"
    path.write_text(REPEATED)
    return path


def test_runs_the_named_passes(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "--passes", "eliminate_common_subexpressions, eliminate_dead_code"]) == 0
    out = capsys.readouterr().out
    assert [op.name for op in parse(out).ops] == ["sin", "add"]
    assert out == print_graph(parse(out))


def test_prints_after_all(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "--passes", "simplify,eliminate_common_subexpressions", "--print-after-all"]) == 0
    blocks = capsys.readouterr().out.split("// ")[1:]
    assert [block.splitlines()[0] for block in blocks] == ["traced", "simplify", "eliminate_common_subexpressions"]
    assert [len(parse(block.partition("\n")[2]).ops) for block in blocks] == [3, 3, 2]


def test_whole_pipeline_from_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TRACED))
    assert main(["opt", "-", "--time-passes"]) == 0
    printed = capsys.readouterr()
    assert all(op.slots for op in parse(printed.out).ops if op.name != "free")
    assert "differentiate: 1 -> " in printed.err
    assert "plan_memory: " in printed.err


def test_a_pass_may_run_at_any_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verification asks for no more than the graph has reached: transforms may stay where nothing expanded them."""
    path = tmp_path / "traced.ir"
    path.write_text(TRACED)
    assert main(["opt", str(path), "--passes", "simplify"]) == 0
    assert "vjp" in capsys.readouterr().out
    assert main(["opt", str(path), "--passes", "differentiate,remove_stop_gradients"]) == 0
    assert "stop_gradient" not in capsys.readouterr().out


def test_single_passes_over_the_graph_of_every_stage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What ADJIT_DUMP writes can be read again, and the next pass run on it."""
    path = tmp_path / "graph.ir"
    path.write_text(TRACED)
    for step in PIPELINE:
        assert main(["opt", str(path), "--passes", step.name]) == 0
        path.write_text(capsys.readouterr().out)
    assert parse(path.read_text()) == run_pipeline(parse(TRACED), Options(), verify=True).final


def test_unknown_pass(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(file), "--passes", "simplify,tidy_up"]) == 1
    assert "no pass named tidy_up" in capsys.readouterr().err


def test_text_that_cannot_be_read(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(REPEATED.replace("add", "plus"))
    assert main(["opt", str(file)]) == 1
    assert "line 4, column 16: unknown op 'plus'" in capsys.readouterr().err


def test_a_broken_graph_is_refused(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(REPEATED.replace("%c: f32[4] = add", "%c: f32[5] = add"))
    assert main(["opt", str(file), "--passes", "simplify"]) == 1
    assert "V4" in capsys.readouterr().err


def test_missing_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["opt", str(tmp_path / "none.ir")]) == 1
    assert "none.ir" in capsys.readouterr().err


def test_memory_budget(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "saving.ir"
    path.write_text("""\
graph @f(%x: f32[64], %ct: f32[64]) {
  %a: f32[64] = exp %x
  %b: f32[64] = exp %a
  %d: f32[64] = multiply %b, %ct  # adjoint
  %e: f32[64] = multiply %d, %a  # adjoint
  return %e
}
""")
    counts = []
    for budget in ("1.0", "0.5", "0"):
        assert main(["opt", str(path), "--passes", "choose_saved_values", "--memory-budget", budget]) == 0
        counts.append(capsys.readouterr().out.count("recompute"))
    assert counts == [0, 1, 2]
