"""What is made of benchmark results: the page, its pictures, the promises, and the comparison of two runs; on results written down here."""

from __future__ import annotations

import ast
import copy
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import compare
import figures
import gpu_report
import programs
import programs_report
import report
import summary
import targets
from results import FORMAT, Results

CEILINGS = {"operations": {"float32": 1e11, "float64": 5e10}, "threads": 2, "vector_bytes": 64, "sizes": [2 ** 15, 2 ** 25],
            "read": [1e11, 2e10], "triad": [9e10, 1e10], "L2": 9e10, "L3": 3e10, "DRAM": 2e10}


def step(seconds: float, ours: float = 1e-3, **more: Any) -> dict[str, Any]:
    rounds = [seconds * factor for factor in (1.0, 1.02, 0.98, 1.0, 1.01)]
    return {"rounds": rounds, "minimum": min(rounds) * 0.97, "ratios": [ours / seconds] * 5, "load": [0.01] * 5, "import": [0.1],
            "first": {"cold": 1.0, "warm": 0.2}, "memory": {"cold": 5e7, "steps": 3e7, "planned": 1_000_000}, **more}


def results(path: Path, scale: float = 1.0) -> Results:
    """adjit at a millisecond times `scale`, JAX at half of one, torch at two, of which one problem was not measured."""
    cells = {"step/mlp/adjit": step(1e-3 * scale, 1e-3 * scale, allocations={"left": 0, "peak": 2000}),
             "step/mlp/jax": step(5e-4, 1e-3 * scale), "step/mlp/torch": step(2e-3, 1e-3 * scale, memory={"cold": 5e7, "steps": 3e7}),
             "step/lnsm/adjit": step(1e-3, 1e-3), "step/lnsm/jax": step(4e-3), "step/lnsm/torch": {"absent": "ValueError: no | such op"},
             "overhead/5/adjit": {"rounds": [2e-6]}, "overhead/5/jax": {"rounds": [5e-6]}}
    cells |= {f"curve/batch/{n}/{library}": step(n * seconds) for n in (1, 64) for library, seconds in (("adjit", 1e-5), ("jax", 2e-5))}
    facts = {"versions": {"numpy": "2.4"}, "threads": 2, "blas": ["openblas SkylakeX 2 threads"], "size": 3e8, "facts": {}}
    return Results(path, {
        "format": FORMAT, "begun": "2026-01-02T03:04:05+00:00", "commit": "abc1234", "sources": "s",
        "settings": {"quick": False, "starts": True, "first_calls": 5, "quick_first_call": 2.0, "point_limit": 20},
        "machine": {"processor": "Z80", "cores": 2, "avx512": False, "virtual": False, "caches": {"L1": 49152}, "system": "CP/M"},
        "libraries": {"adjit": copy.deepcopy(facts), "jax": copy.deepcopy(facts), "torch": facts | {"facts": {"mkl": True}},
                      "tinygrad": {"absent": "its CPU device needs clang"}},
        "ceilings": CEILINGS, "cells": cells})


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page, with its pictures beside it."""
    folder = tmp_path_factory.mktemp("report")
    report.render(results(folder / "r.json"), folder / "page.md")
    return folder / "page.md"


@pytest.fixture
def page(rendered: Path) -> str:
    return rendered.read_text()


def test_the_page_has_a_line_for_each_problem(page: str) -> None:
    assert "| `mlp` | 1 ms<br>951 us | **500 us<br>475 us** | 2 ms<br>1.9 ms |" in page
    assert "| `lnsm` | **1 ms<br>951 us** | 4 ms<br>3.8 ms | – |" in page
    assert "| `mlp` | 2.00 (2.00–2.00) | 0.50 (0.50–0.50) |" in page
    assert "ahead in 1 of 2 problems (lnsm) and behind in mlp." in page
    assert "| `import` | 100 ms |" in page
    assert "| installed | 300 MB |" in page
    assert "| 5 | 2 us | 5 us | – |" in page
    assert "| 64 | 640 us | 1.28 ms |" in page
    assert "30 MB<br>50 MB<br>*1 MB*" in page


def test_the_page_says_what_is_absent_and_why(page: str) -> None:
    assert "- tinygrad: its CPU device needs clang" in page
    assert "- PyTorch, `lnsm`: ValueError: no | such op" in page
    assert "PyTorch's products come from MKL" in page
    assert "Measured 2026-01-02 at commit `abc1234` on 2 cores of Z80 (no AVX-512, L1 48 KiB)." in page


def test_a_fraction_of_the_limit(page: str) -> None:
    line = next(line for line in page.splitlines() if line.startswith("| `lnsm` | 126 |"))
    assert "| 50.4 MB |" in line or "| 50.3 MB |" in line
    assert "| 2.52 ms | bytes | 252% | 63% | – |" in line


def test_a_busy_machine_is_not_hidden(tmp_path: Path, page: str) -> None:
    assert "Other processes took up" not in page
    busy = results(tmp_path / "r.json")
    for _, cell in busy.cells("step"):
        if "load" in cell:
            cell["load"] = [0.3, 0.6, 0.3, 0.3, 0.3]
    text = report.page(busy, {}).replace("\n", " ")
    assert "**Other processes took up to 60% of the machine during rounds (30% in the median).**" in text


def test_pictures_are_drawn_and_shown(rendered: Path, page: str) -> None:
    for name in ("steps", "first", "curve-batch"):
        assert (rendered.with_suffix("") / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert f"](page/{name}.png)" in page


def test_a_page_of_almost_nothing(tmp_path: Path) -> None:
    empty = results(tmp_path / "r.json")
    empty.content["cells"] = {}
    report.render(empty, tmp_path / "page.md")
    text = (tmp_path / "page.md").read_text()
    assert "## Time of a step" not in text
    assert "## Fairness" in text


def test_the_committed_report_is_that_of_the_committed_results() -> None:
    committed = ROOT / "benchmarks" / "results" / "comparison.json"
    if not committed.exists():
        pytest.skip("no run has been committed")
    pictures = {path.stem: f"benchmarks/{path.name}" for path in (ROOT / "docs" / "benchmarks").glob("*.png")}
    assert (ROOT / "docs" / "benchmarks.md").read_text() == report.page(Results.read(committed), pictures)


def programs_results(path: Path) -> Results:
    """One program at two sizes: JAX takes four times as long as adjit at one and nine times at the other; autograd does not run it."""
    cells: dict[str, Any] = {}
    for size, factor in ((8, 4.0), (300, 9.0)):
        for library, seconds in (("adjit", 1e-6), ("jax", factor * 1e-6)):
            cells[f"program/garch/{size}/{library}"] = {"rounds": [seconds] * 3, "minimum": seconds / 2, "ratios": [1e-6 / seconds] * 3,
                                                        "load": [0.01, 0.02, 0.6], "first": 0.05, "cpu": 2e4 * seconds}
        cells[f"program/garch/{size}/autograd"] = {"absent": "ValueError: a sequence"}
    return Results(path, {"format": FORMAT, "begun": "2026-01-02T03:04:05+00:00", "commit": "abc1234", "settings": {"rounds": 3},
                          "machine": {"processor": "Z80", "cores": 2}, "cells": cells})


def test_whole_programs_are_a_section_where_they_were_measured(tmp_path: Path, page: str) -> None:
    assert "Whole NumPy programs" not in page
    programs_results(tmp_path / programs_report.RESULTS).write()
    text = report.page(results(tmp_path / "r.json"), {})
    assert "## Whole NumPy programs" in text
    assert "| `garch` | 300 | 1 us<br>500 ns | 9 us<br>4.5 us | – | – | 9.00 | – | – |" in text
    assert "| `garch` | 8 | 50 ms<br>20 ms | 50 ms<br>80 ms | – | – |" in text
    assert "- JAX, rewritten takes 6.00 times as long as adjit (2 cases; 6.00 by the least times), its first calls 6.00 times the" in text
    assert "2 cores of Z80, 3 rounds" in text
    assert "took 2% of the machine" in text.replace("\n", " ")
    assert "- HIPS autograd, `garch`: ValueError: a sequence" in text


def test_every_measured_program_is_there_with_a_version_for_jax() -> None:
    chosen = programs.chosen()
    written = ast.parse((ROOT / "benchmarks" / "programs_in_jax.py").read_text())
    arguments = {item.name: [argument.arg for argument in item.args.args] for item in written.body if isinstance(item, ast.FunctionDef)}
    for name, program in chosen.items():
        assert len(arguments[name]) == len(program.arguments(0))
        assert programs.sizes(program)[0] == program.small
        value = programs.loss_of(program.function, np.sum)(*programs.data_sets(program, program.small)[0])
        assert np.isfinite(value)


def test_promises(tmp_path: Path) -> None:
    rows = {row.name: row for row in targets.rows(results(tmp_path / "r.json"))}
    assert rows["mlp, times as fast as the best other library"] == targets.Row(
        "mlp, times as fast as the best other library", "at least 1.4", "0.5 (JAX jit)", False)
    assert rows["lnsm, times as fast as the best other library"].measured == "4 (JAX jit)"
    assert rows["gmm, times as fast as the best other library"].met is None
    assert rows["mlp, first call without caches / JAX jit"].verdict == "MISSED"
    assert rows["mlp, first call without caches / JAX jit"].measured == "1.00 (1 s / 1 s)"
    assert rows["mlp, first call from the disk cache"].verdict == "MISSED"
    assert rows["working memory / JAX jit, geometric mean"].measured == "1.00"
    assert rows["lnsm, working memory"].verdict == "met"
    assert rows["mlp, arrays that a donated step allocates"].verdict == "met"


def test_the_promises_command_fails_where_one_is_missed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "r.json"
    content = results(path).content
    path.write_text(json.dumps(content))
    assert targets.main(path) == 1
    assert any(line.endswith("MISSED") for line in capsys.readouterr().out.splitlines())
    content["cells"] = {key: cell for key, cell in content["cells"].items() if key == "step/mlp/torch"}
    path.write_text(json.dumps(content))
    assert targets.main(path) == 0
    assert not any(line.endswith("MISSED") for line in capsys.readouterr().out.splitlines())


def compared(tmp_path: Path, scale: float, **changes: Any) -> dict[str, compare.Change]:
    before, after = results(tmp_path / "a.json"), results(tmp_path / "b.json", scale)
    for key, cell in changes.items():
        after.content["cells"][key.replace("__", "/")].update(cell)
    return {change.name: change for change in compare.changes(before, after)}


def test_what_got_slower_by_more_than_the_noise_is_flagged(tmp_path: Path) -> None:
    found = compared(tmp_path, 1.3)
    assert found["step/mlp"].verdict == "SLOWER"
    assert found["step/mlp"].factor == pytest.approx(1.3)
    assert found["step/lnsm"].verdict == ""
    assert compared(tmp_path, 0.7)["step/mlp"].verdict == "faster"
    assert compared(tmp_path, 1.01)["step/mlp"].verdict == ""


def test_noise_is_that_of_both_runs(tmp_path: Path) -> None:
    noisy = {"rounds": [1.3e-3, 0.7e-3, 1.9e-3, 1.3e-3, 1.5e-3]}
    assert compared(tmp_path, 1.3, step__mlp__adjit=noisy)["step/mlp"].verdict == ""
    assert compare.spread([1.0, 1.0, 1.0]) == 0
    assert compare.spread([1.0, 1.5]) == pytest.approx(0.4)


def test_what_the_machine_did_is_no_change_of_ours(tmp_path: Path) -> None:
    slower = {f"step__{name}__{library}": step(seconds * 1.3) for name, library, seconds in
              (("mlp", "jax", 5e-4), ("mlp", "torch", 2e-3), ("lnsm", "jax", 4e-3))}
    found = compared(tmp_path, 1.3, **slower)
    assert found["step/mlp"].verdict == ""
    assert found["step/lnsm"].verdict == "faster"


def test_another_version_of_a_library_says_nothing_about_the_machine(tmp_path: Path) -> None:
    before, after = results(tmp_path / "a.json"), results(tmp_path / "b.json")
    for key in ("step/mlp/jax", "step/lnsm/jax"):
        after.content["cells"][key] = step(1.0)
    assert compare.machine_drift(before, after) > 100
    after.content["libraries"]["jax"]["versions"] = {"numpy": "2.5"}
    assert compare.machine_drift(before, after) == pytest.approx(1)


def test_more_memory_is_flagged(tmp_path: Path) -> None:
    assert compared(tmp_path, 1.0)["step/mlp: planned memory"].verdict == ""
    found = compared(tmp_path, 1.0, step__mlp__adjit={"memory": {"planned": 1_100_000}})
    assert found["step/mlp: planned memory"].verdict == "SLOWER"


def test_the_compare_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, scale in zip(paths, (1.0, 1.3), strict=True):
        path.write_text(json.dumps(results(path, scale).content))
    assert compare.main([str(paths[0]), str(paths[1])]) == 1
    printed = capsys.readouterr().out
    assert "SLOWER" in next(line for line in printed.splitlines() if line.startswith("step/mlp "))
    assert compare.main([str(paths[0]), str(paths[0])]) == 0
    paths[1].write_text(json.dumps({"format": 1}))
    assert compare.main([str(paths[0]), str(paths[1])]) == 2
    assert f"has format 1, this program reads {FORMAT}" in capsys.readouterr().err


def test_the_table_of_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    summary.print_summary(results(tmp_path / "r.json"))
    line = next(line for line in capsys.readouterr().out.splitlines() if "mlp" in line)
    assert [cell.strip() for cell in line.split("│")[1:-1]] == ["mlp", "1 ms", "2.00", "0.50", "-"]


@pytest.mark.parametrize(("value", "text"), [
    (None, ""), (1.0, "1 s"), (0.9996, "1 s"), (123e-6, "123 us"), (0.0, "0 ns"), (5e-10, "0.5 ns")])
def test_seconds_for_people(value: float | None, text: str) -> None:
    assert figures.seconds(value) == text


def test_the_section_of_a_gpu() -> None:
    cell = {"about": "Adam.", "bytes": 2_800_000_000, "libraries": {"adjit": {"seconds": 7e-4, "cpu": 5e-6, "first": 0.5},
                                                                   "JAX": {"seconds": 1.4e-3, "cpu": 9e-6, "first": 1.0}}}
    content = {"card": "NVIDIA H200", "about": "132 multiprocessors", "begun": "2026-01-02T03:04", "commit": "abc1234",
               "cells": {"adam": cell, "mlp": {**cell, "bytes": 0, "libraries": {"adjit": cell["libraries"]["adjit"]}}}}
    head, _, rows = gpu_report.parts(content)
    assert "NVIDIA H200 (132 multiprocessors), 2026-01-02 at commit `abc1234`" in head
    assert rows.splitlines()[0] == "|  | adjit | JAX | memory | processor | first call | JAX / adjit |"
    assert rows.splitlines()[2:] == ["| `adam` | 700 us | 1.4 ms | 4000 GB/s | 5 us | 500 ms | 2.00 |",
                                     "| `mlp` | 700 us | – | – | 5 us | 500 ms | – |"]


def test_what_is_counted_without_a_gpu(tmp_path: Path) -> None:
    """Times of a card come before what was counted; without a card the page says that nothing was measured."""
    work = {"about": "A step.", "target": 3e-5, "launches": 1, "kernels": 22, "chain": 10, "bytes": 18_000_000, "least_bytes": 12_000_000,
            "operations": 209_000_000, "seconds": 1.4e-5}
    content = {"card": {"name": "H200", "bytes": 4.8e12, "operations": 67e12, "instructions": 33.4e12},
               "products": {"128 x 128": {"share": 0.866, "operations_a_byte": 32.0}},
               "works": {"mlp": work, "adam": {**work, "operations": 0, "instructions": 20.5, "target": None}}}
    (tmp_path / gpu_report.COUNTS).write_text(json.dumps(content))
    parts = list(gpu_report.section(results(tmp_path / "r.json")))
    assert parts[0] == "## GPU"
    assert parts[2].startswith("Nothing has been measured on a card yet: `make bench-cuda`")
    assert "4.8 TB/s, 67 TFLOP/s in float32, 33.4 T" in parts[2]
    assert parts[4].splitlines()[2:] == ["| `mlp` | 22 | 1 | 10 | 18 MB | 12 MB | 0.209 | – | 14 us | 30 us |",
                                         "| `adam` | 22 | 1 | 10 | 18 MB | 12 MB | – | 20.5 | 14 us | – |"]
    assert "87% in tiles of 128 x 128, 32 operations" in parts[5]
