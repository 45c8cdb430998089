"""`python -m adjit`: what it prints, and what it says to a wrong command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import adjit
from adjit.__main__ import main
from adjit.codegen.llvm.link import CompiledObject
from adjit.runtime.caches.disk_cache import DiskCache

GRAPH = """graph @double(%x: f64[3]) {
  %0: f64[3] = add %x, %x
  return %0
}
"""


def test_info_tells_versions_machine_and_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "kernel").write_bytes(bytes(2048))
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("ADJIT_THREADS", "3")
    assert main(["info"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    assert lines["adjit"].split()[1] == adjit.__version__
    assert lines["numpy"].split()[1] == np.__version__
    assert lines["threads"].split()[1] == "3"
    assert str(tmp_path) in lines["folder"]
    assert "2.05 kB in 1 files" in lines["size"]
    assert {"numba", "interpret", "cpu", "ADJIT_DUMP"} <= lines.keys()


def test_info_without_disk_cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ADJIT_CACHE_SIZE", "0")
    assert main(["info"]) == 0
    assert "not kept on disk" in capsys.readouterr().out


def test_opt_runs_passes_on_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "double.ir"
    file.write_text(GRAPH)
    assert main(["opt", str(file), "--passes", "eliminate_dead_code", "--print-after-all"]) == 0
    printed = capsys.readouterr().out
    assert "eliminate_dead_code" in printed
    assert "add %x, %x" in printed


@pytest.mark.parametrize(("arguments", "words"), [
    (["opt", "nowhere.ir"], "nowhere.ir"),
    (["opt", "FILE", "--passes", "polish"], "there is no pass named polish"),
    (["opt", "PLANNED"], 'been through the pipeline\n    the text of an earlier stage: f.ir("traced")'),
])
def test_errors_are_told_in_one_message(arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {"FILE": tmp_path / "double.ir", "PLANNED": tmp_path / "planned.ir"}
    files["FILE"].write_text(GRAPH)
    assert main(["opt", str(files["FILE"])]) == 0
    files["PLANNED"].write_text(capsys.readouterr().out)
    assert main([str(files.get(argument, argument)) for argument in arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith("adjit opt: ")
    assert words in error
    assert "Traceback" not in error


def test_bad_setting_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ADJIT_THREADS", "many")
    assert main(["info"]) == 1
    assert "ADJIT_THREADS='many'" in capsys.readouterr().err


def test_module_runs_and_names_its_commands(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-m", "adjit"], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 2
    done = subprocess.run([sys.executable, "-m", "adjit", "--help"], capture_output=True, text=True, cwd=tmp_path, check=True)
    assert "info" in done.stdout
    assert "opt" in done.stdout


def test_a_reader_that_stops_early_is_no_error(tmp_path: Path) -> None:
    command = f"{sys.executable} -m adjit info | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, cwd=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_command_line_needs_no_extras(tmp_path: Path) -> None:
    code = "import sys; sys.modules.update(rich=None, matplotlib=None); from adjit.__main__ import main; sys.exit(main(['info']))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=tmp_path).returncode == 0


def test_bench_times_each_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--seconds", "0.01"]) == 0
    lines = capsys.readouterr().out.splitlines()
    begin = next(index for index, line in enumerate(lines) if line.startswith("program"))
    assert "versions" in lines[:begin]
    rows = lines[begin + 1:]
    assert len(rows) == 4
    for row in rows:
        cells = row[54:].split()
        assert cells[1::2] == [*(unit for unit in cells[1:6:2] if unit in ("s", "ms", "us")), "MB"]
        median, fastest = (float(cells[i]) * {"s": 1e6, "ms": 1e3, "us": 1}[cells[i + 1]] for i in (2, 4))
        assert 0 < fastest <= median < 1e7


def test_bench_refuses_no_time() -> None:
    with pytest.raises(SystemExit):
        main(["bench", "--seconds", "0"])


def test_doctor_finds_all_well_here(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines[:-1]] == ["python", "processor", "settings", "cache", "gradient", "device", "linker"]
    assert lines[-1] == "all is well"


def test_doctor_notices_a_setting_that_nobody_reads(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ADJIT_VERFY", "1")
    assert main(["doctor"]) == 1
    assert "ADJIT_VERFY is not a setting of adjit: ADJIT_VERIFY?" in capsys.readouterr().out


@pytest.mark.parametrize(("arguments", "status", "words"), [
    (["--version"], 0, f"adjit {adjit.__version__}\n"),
    (["opt", "-", "--memory-budget", "half"], 2, "expected a whole number of bytes, or a fraction such as 0.5, got 'half'"),
])
def test_the_parser_answers(arguments: list[str], status: int, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == status
    assert words in "".join(capsys.readouterr())


def test_doctor_names_a_setting_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ADJIT_SIGNATURES", "many")
    assert main(["doctor"]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if " settings " in line]
    assert line.startswith("PROBLEM")
    assert "ADJIT_SIGNATURES='many'" in line


def test_cache_counts_and_clears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    cache = DiskCache(tmp_path / "adjit", 1 << 20)
    for key in "ab":
        assert cache.put(key * 64, CompiledObject(bytes(1000), "entry")) == ""
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(tmp_path / "adjit"))
    assert main(["cache"]) == 0
    assert "entries  2, " in capsys.readouterr().out
    assert main(["cache", "--clear"]) == 0
    assert "removed 2 entries" in capsys.readouterr().out
    assert cache.entries() == []


def test_cache_says_why_it_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "adjit"
    folder.mkdir()
    folder.chmod(0o777)
    monkeypatch.setenv("ADJIT_CACHE_DIR", str(folder))
    assert main(["cache"]) == 1
    assert "may be written by others" in capsys.readouterr().out
