"""The harness of the benchmarks, on the tiny workload: what it must not compare, what it measures, how it reports."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

import ours
import targets
from agreement import disagreements
from machine import measured_environment
from measuring import Comparison, DisagreementError, Times, Worker, WorkerError, compare, open_and_check, time_in_turn


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.fixture(scope="module")
def worker(folder: Path) -> Iterator[Worker]:
    with Worker("adjit", sys.executable, measured_environment(folder / "kernels"), folder) as worker:
        yield worker


class WrongWorker(Worker):
    """A worker whose first gradient is off by a thousandth."""

    def open(self, workload: str) -> dict[str, np.ndarray]:
        readings = super().open(workload)
        name = next(name for name in readings if name != "losses")
        return {**readings, name: readings[name] * np.float32(1.001)}


def test_a_library_agrees_with_itself_and_is_timed_in_rounds(worker: Worker) -> None:
    open_and_check(worker, [worker], "tiny")
    times = time_in_turn([worker], rounds=2, seconds=0.01)["adjit"]
    assert len(times.medians) == 2
    assert 0 < times.minimum <= min(times.medians)
    assert worker.ask("bytes")["bytes"] < 10_000
    assert worker.ask("allocations")["left"] == 0
    assert {"adjit", "numpy", "python"} <= worker.about["versions"].keys()
    assert worker.about["threads"] >= 1


def test_a_wrong_gradient_is_caught_before_anything_is_timed(worker: Worker, folder: Path) -> None:
    with (WrongWorker("adjit", sys.executable, measured_environment(folder / "kernels"), folder) as wrong,
          pytest.raises(DisagreementError, match=r"tiny: adjit and adjit do not agree\n  update 0/0: differs by")):
        open_and_check(worker, [wrong], "tiny")


def test_an_absent_peer_says_so(folder: Path) -> None:
    (folder / "autograd.py").write_text("raise ImportError('no autograd here')")
    environment = {**measured_environment(folder / "kernels"), "PYTHONPATH": str(folder)}
    with Worker("autograd", sys.executable, environment, folder) as peer:
        assert peer.absent == "no autograd here"
        row = targets.absent("logreg", "<= 1", peer)
    assert row.verdict == "-"
    assert row.measured == "HIPS autograd is absent: no autograd here"


def test_a_worker_that_dies_is_an_error(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WorkerError, match="worker of pencil ended with code 1"):
        Worker("pencil", sys.executable, measured_environment(folder / "kernels"), folder)
    assert "KeyError: 'pencil'" in capfd.readouterr().err


@pytest.mark.parametrize(("theirs", "complaint"), [
    ({"gradient 0": np.array([1.0, 2.0001], np.float32)}, "losses: read on one side only"),
    ({"losses": np.array([1.0]), "gradient 0": np.array([1.0, 2.0])}, "losses: differs by 1e-06"),
    ({"losses": np.array([1 + 1e-6]), "gradient 0": np.array([1.0, 2.001])}, "gradient 0: differs by 0.001"),
    ({"losses": np.array([1 + 1e-6]), "gradient 0": np.array([1.0, np.nan])}, "gradient 0: differs by nan"),
    ({"losses": np.array([1 + 1e-6]), "gradient 0": np.array([[1.0, 2.0]])}, "gradient 0: shapes (2,) and (1, 2)"),
])
def test_disagreements_are_named(theirs: dict, complaint: str) -> None:
    mine = {"losses": np.array([1 + 1e-6]), "gradient 0": np.array([1.0, 2.0], np.float32)}
    found = disagreements(mine, theirs, {})
    assert len(found) == 1
    assert found[0].startswith(complaint)


def test_rounding_is_no_disagreement() -> None:
    mine = {"losses": np.array([3.0, 2.0]), "gradient 0": np.array([1.0, 2.0], np.float32), "gradient 1": np.empty((0, 3), np.float32)}
    theirs = {"losses": np.array([3.0, 2.0 + 1e-9]), "gradient 0": np.array([1.0001, 2.0]), "gradient 1": np.empty((0, 3), np.float32)}
    assert disagreements(mine, theirs, {}) == []


def test_an_update_is_as_exact_as_the_array_it_changes() -> None:
    data = {"0/w": np.array([4.0], np.float32)}
    mine, theirs = np.array([1e-5], np.float32), np.array([1e-5 + 4e-7], np.float32)
    assert disagreements({"update 0/w": mine}, {"update 0/w": theirs}, data) == []
    assert disagreements({"update 0/w": mine}, {"update 0/w": 2 * theirs}, data)


def test_a_reset_goes_back_to_the_first_step() -> None:
    task = ours.library().workloads["tiny"]({})
    task.reset()
    assert [task.step()[-1] for _ in range(5)] == list(task.readings["losses"])


def test_allocations_see_arrays_that_stay_and_arrays_that_go() -> None:
    kept: list[np.ndarray] = []
    assert ours.allocations(lambda: kept.append(np.zeros(100)), steps=3)["left"] == 2400
    passing = ours.allocations(lambda: np.zeros(targets.ARRAY_BYTES, np.uint8).sum(), steps=3)
    assert passing["left"] == 0
    assert passing["peak"] >= targets.ARRAY_BYTES


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    comparison = compare(Times([1.0, 8.0, 3.0], 1.0), Times([2.0, 2.0, 4.0], 2.0))
    assert comparison == Comparison([0.5, 4.0, 0.75], 0.5)
    assert comparison.ratio == 0.75


def test_measured_processes_get_the_default_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Haswell")
    monkeypatch.setenv("ADJIT_VERIFY", "1")
    environment = measured_environment(Path("kernels"))
    assert environment["ADJIT_CACHE_DIR"] == "kernels"
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"OPENBLAS_CORETYPE", "ADJIT_VERIFY"} & environment.keys()


def test_the_table_tells_what_is_missed(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [targets.Row("fast", "<= 1", "0.500", True), targets.Row("small", "<= 2", "3.000", False), targets.Row("speed", "-", "9", None)]
    about = {"versions": {"adjit": "0.1"}, "threads": 2, "blas": "OpenBLAS SkylakeX", "blas_threads": 2}
    targets.print_report({"processor": "Z80", "cores": 1, "avx512": False, "date": "today", "rows": rows,
                          "libraries": {"adjit": about, "jax": {"absent": "No module named 'jax'"}}})
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "Z80, 1 cores, no AVX-512; today", "adjit: adjit 0.1, 2 threads, NumPy on OpenBLAS SkylakeX, 2 threads",
        "jax: absent (No module named 'jax')", "", "promise target measured", "fast <= 1 0.500 met", "small <= 2 3.000 MISSED",
        "speed - 9 -"]
