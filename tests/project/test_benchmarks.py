"""The harness of the benchmarks, on tiny problems and installed libraries: what it must not time, what it measures, what it keeps."""

from __future__ import annotations

import importlib
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from support.project import ROOT

sys.path.insert(0, str(ROOT / "benchmarks" / "libraries"))
sys.path.insert(0, str(ROOT / "benchmarks"))

import catalogue
import ceilings
import environments
import machine
import measuring
import problems
import run
import targets
import with_adjit
import with_numpy
from agreement import disagreements
from limits import limit_of
from measuring import Times, Worker, WorkerError
from results import Results
from tasks import Readings

SMALL: dict[str, Callable[[], problems.Problem]] = {
    "tiny": problems.tiny, "mlp": lambda: problems.mlp((8, 6, 4), 5), "chain": lambda: problems.chain(1000),
    "lnsm": lambda: problems.lnsm(8, 16), "transformer": lambda: problems.transformer(2, 5, 16, 4), "cnn": lambda: problems.cnn(2),
    "rnn": lambda: problems.rnn(3), "logreg": problems.logreg, "gmm": lambda: problems.gmm(20, 3, 4),
    "gp": lambda: problems.gp(12, 2)}

PLANTED = '''
import dataclasses
import numpy as np
import with_numpy

def library():
    def open_task(problem):
        task = with_numpy.open_task(problem)
        def readings():
            found = dict(task.readings())
            {change}
            return found
        return dataclasses.replace(task, readings=readings)
    return dataclasses.replace(with_numpy.library(), open=open_task)
'''


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, exhaustive: bool) -> run.Bench:
    """A run of adjit, NumPy and whatever a test puts into `with_planted.py`, all with this interpreter. Processes take seconds each: one
    test does without `--exhaustive`."""
    if not exhaustive and "in_turn" not in request.node.name:
        pytest.skip("times libraries in processes of their own, which takes long: --exhaustive")
    monkeypatch.setitem(catalogue.CATALOGUE, "planted", catalogue.Entry("Planted", "planted", ("numpy",), "wrongly", "nowhere"))
    clean = machine.measured_environment
    monkeypatch.setattr(run, "measured_environment", lambda folder, library: {**clean(folder, library), "PYTHONPATH": str(tmp_path)})
    settings = run.Settings(quick=True, rounds=2, seconds=0.005, point_rounds=1, point_seconds=0.002, first_limit=60, point_limit=60,
                            first_calls=3 if exhaustive else 1, starts=True)
    caches = tmp_path / "caches"
    caches.mkdir()
    python = Path(sys.executable)
    results = Results.resume(tmp_path / "results.json", vars(settings), fresh=False)
    with (tmp_path / "log.txt").open("w") as log:
        yield run.Bench(settings, {"adjit": python, "numpy": python, "planted": python}, results, caches, log)


def rounds(bench: run.Bench, *key: object) -> list[float]:
    """Of a cell that has to be measured: where it is not, the reason is what a test fails with."""
    cell = bench.results.cell(*key)
    assert cell is not None
    assert "absent" not in cell, cell["absent"]
    return cell["rounds"]


def test_libraries_are_timed_in_turn_and_the_file_keeps_it(bench: run.Bench) -> None:
    calls = bench.settings.first_calls
    bench.steps("tiny", ["adjit", "numpy"])
    cells = json.loads(bench.results.path.read_text())["cells"]
    assert list(cells) == ["step/tiny/adjit", "step/tiny/numpy"]
    assert rounds(bench, "step", "tiny", "adjit")
    ours, theirs = cells.values()
    assert ours["ratios"] == [1.0, 1.0]
    assert theirs["ratios"] == [a / b for a, b in zip(ours["rounds"], theirs["rounds"], strict=True)]
    for cell in (ours, theirs):
        assert 0 < cell["minimum"] <= min(cell["rounds"]) < 1
        for kind in ("cold", "warm"):
            assert len(cell["first"][f"all_{kind}"]) == calls
            assert cell["first"][kind] == sorted(cell["first"][f"all_{kind}"])[calls // 2] > 0
        assert len(cell["import"]) == 2 * calls
        assert len(cell["load"]) == 2
        assert all(0 <= load <= 1 for load in cell["load"])
        assert -1e6 < cell["memory"]["steps"] < 1e9
    assert ours["memory"]["planned"] < 10_000
    assert theirs["memory"]["planned"] is None
    assert ours["allocations"]["left"] == 0
    about = bench.results.content["libraries"]["adjit"]
    assert {"adjit", "numpy", "python"} <= about["versions"].keys()
    assert about["threads"] >= 1
    assert about["size"] > 1e6


@pytest.mark.parametrize(("change", "complaint"), [
    ("found['gradient 0'] = found['gradient 0'] * np.float32(1.001)", "gradient 0: differs by"),
    ("found['update 2'] = found['update 2'] * 2", "update 2: differs by"),
    ("found['losses'][3] *= np.float32(1.01)", "losses: differs by"),
])
def test_what_is_wrong_is_not_timed(bench: run.Bench, tmp_path: Path, change: str, complaint: str) -> None:
    (tmp_path / "with_planted.py").write_text(PLANTED.format(change=change))
    bench.steps("tiny", ["adjit", "planted"])
    cell = bench.results.cell("step", "tiny", "planted")
    assert cell is not None
    assert cell["absent"].startswith(f"does not agree with adjit: {complaint}")
    assert "rounds" not in cell
    assert len(rounds(bench, "step", "tiny", "adjit")) == 2


def test_planted_itself_is_right_before_it_is_changed(bench: run.Bench, tmp_path: Path) -> None:
    (tmp_path / "with_planted.py").write_text(PLANTED.format(change="pass"))
    bench.steps("tiny", ["adjit", "planted"])
    assert len(rounds(bench, "step", "tiny", "planted")) == 2


@pytest.mark.parametrize(("text", "reason"), [
    ("raise ImportError('no planted here')", "no planted here"),
    ("from tasks import AbsentError\ndef library():\n    raise AbsentError('needs clang')", "needs clang"),
    ("import os\ndef library():\n    os._exit(3)", "its process ended with code 3"),
    ("import dataclasses, with_numpy\ndef refuse(problem):\n    raise ValueError('no such op')\n"
     "def library():\n    return dataclasses.replace(with_numpy.library(), open=refuse)", "ValueError: no such op"),
])
def test_an_absent_or_failing_library_is_reported_and_the_others_go_on(bench: run.Bench, tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "with_planted.py").write_text(text)
    bench.steps("tiny", ["adjit", "planted"])
    assert (bench.results.cell("step", "tiny", "planted") or {})["absent"] == reason
    assert rounds(bench, "step", "tiny", "adjit")


def test_a_first_call_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    (tmp_path / "with_planted.py").write_text(
        "import dataclasses, time, with_numpy\ndef sleep(problem):\n    time.sleep(60)\n"
        "def library():\n    return dataclasses.replace(with_numpy.library(), open=sleep)")
    environment = {**machine.measured_environment(tmp_path, "planted"), "PYTHONPATH": str(tmp_path)}
    with Worker("planted", sys.executable, ("numpy",), environment) as worker:
        worker.limit = 0.5
        with pytest.raises(WorkerError, match=r"first call takes more than 0\.5 s"):
            worker.ask("open", problem="tiny", sizes={})
        with pytest.raises(WorkerError, match="its process"):
            worker.ask("run", steps=1, warm=0)


def test_what_is_there_is_not_measured_again(bench: run.Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.steps("tiny", ["adjit", "numpy"])
    before = bench.results.path.read_text()

    def start(library: str, caches: str, limit: float) -> Worker:
        raise AssertionError(f"{library} was started again")
    monkeypatch.setattr(bench, "start", start)
    bench.steps("tiny", ["adjit", "numpy"])
    assert bench.results.path.read_text() == before


def test_a_run_goes_on_only_with_the_same_settings_and_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "results.json"
    first = Results.resume(path, {"rounds": 2}, fresh=False)
    first.put({"step/tiny/adjit": {"rounds": [1.0]}})
    assert Results.resume(path, {"rounds": 2}, fresh=False).cell("step", "tiny", "adjit") == {"rounds": [1.0]}
    assert Results.resume(path, {"rounds": 3}, fresh=False).cell("step", "tiny", "adjit") is None
    before = path.with_suffix(".before.json")
    assert Results.read(before).cell("step", "tiny", "adjit") == {"rounds": [1.0]}
    for change in (lambda: monkeypatch.setattr("results.sources", lambda: "others"), lambda: None):
        first.write()
        change()
        assert Results.resume(path, {"rounds": 2}, fresh=True).content["cells"] == {}
    first.write()
    assert Results.resume(path, {"rounds": 2}, fresh=False).content["cells"] == {}


def test_calls_with_small_arrays(bench: run.Bench) -> None:
    bench.overhead(["adjit", "numpy"])
    for count in (1, 5, 20):
        for library in ("adjit", "numpy"):
            found = rounds(bench, "overhead", count, library)
            assert len(found) == 7
            assert 1e-8 < min(found) < 1e-2


def test_a_curve_ends_where_a_library_fails(bench: run.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "with_planted.py").write_text(
        "import dataclasses, with_numpy\ndef small(problem):\n    if len(problem.data[0]) > 2: raise ValueError('too large')\n"
        "    return with_numpy.open_task(problem)\n"
        "def library():\n    return dataclasses.replace(with_numpy.library(), open=small)")
    monkeypatch.setitem(run.AXES, "steps", run.AXES["steps"].__class__("rnn", "rnn", lambda n: {"steps": n}, (2, 4, 6)))
    bench.curve("steps", ["adjit", "planted"])
    assert [len(rounds(bench, "curve", "steps", n, "adjit")) for n in (2, 4, 6)] == [1] * 3
    assert len(rounds(bench, "curve", "steps", 2, "planted")) == 1
    for n in (4, 6):
        assert (bench.results.cell("curve", "steps", n, "planted") or {})["absent"] == "at steps 4: ValueError: too large"


def readings(library: str, problem: problems.Problem) -> Readings:
    return importlib.import_module(f"with_{library}").library().open(problem).readings()


@pytest.mark.share(3)
@pytest.mark.parametrize("library", ["adjit", "adjit_captured", "adjit_eager", "autograd"])
@pytest.mark.parametrize("name", SMALL)
def test_libraries_compute_what_numpy_computes_by_hand(name: str, library: str) -> None:
    if library == "autograd":
        pytest.importorskip("autograd")
    problem = SMALL[name]()
    assert disagreements(readings("numpy", problem), readings(library, problem), problem.named_params) == []


def test_gradients_by_hand_are_those_of_finite_differences() -> None:
    problem = SMALL["gmm"]()
    value, gradients = with_numpy.gmm(problem.params, *problem.data)
    for param, gradient in zip(problem.params, gradients, strict=True):
        place = tuple(size // 2 for size in param.shape)
        original = param[place]
        found = []
        for sign in (1, -1):
            param[place] = original + sign * 1e-6
            found.append(with_numpy.gmm(problem.params, *problem.data)[0])
        param[place] = original
        assert gradient[place] == pytest.approx((found[0] - found[1]) / 2e-6, rel=1e-5, abs=1e-6 * abs(value))


@pytest.mark.parametrize("name", ["tiny", "mlp"])
def test_a_reset_goes_back_to_the_first_step(name: str) -> None:
    for module in (with_adjit, with_numpy):
        problem = SMALL[name]()
        initial = {key: value.copy() for key, value in problem.named_params.items()}
        task = module.open_task(problem)
        losses = task.readings()["losses"]
        for _ in range(3):
            task.step()
        np.testing.assert_array_equal(task.readings()["losses"], losses)
        for key, value in problem.named_params.items():
            np.testing.assert_array_equal(value, initial[key])


@pytest.mark.parametrize(("theirs", "complaint"), [
    ({"gradient 0": np.array([1.0, 2.0001], np.float32)}, "losses: read on one side only"),
    ({"losses": np.array([1.0]), "gradient 0": np.array([1.0, 2.0])}, "losses: differs by 1e-06"),
    ({"losses": np.array([1 + 1e-6]), "gradient 0": np.array([1.0, 2.001])}, "gradient 0: differs by 0.001"),
    ({"losses": np.array([1 + 1e-6]), "gradient 0": np.array([1.0, np.nan])}, "gradient 0: differs by nan"),
    ({"losses": np.array([1 + 1e-6]), "gradient 0": np.array([[1.0, 2.0]])}, "gradient 0: shapes (2,) and (1, 2)"),
])
def test_disagreements_are_named(theirs: Mapping[str, np.ndarray], complaint: str) -> None:
    mine = {"losses": np.array([1 + 1e-6]), "gradient 0": np.array([1.0, 2.0], np.float32)}
    found = disagreements(mine, theirs, {})
    assert len(found) == 1
    assert found[0].startswith(complaint)


def test_rounding_is_no_disagreement() -> None:
    mine = {"losses": np.array([3.0, 2.0]), "gradient 0": np.array([1.0, 2.0], np.float32), "gradient 1": np.empty((0, 3), np.float32)}
    theirs = {"losses": np.array([3.0, 2.0 + 1e-9]), "gradient 0": np.array([1.0001, 2.0]), "gradient 1": np.empty((0, 3), np.float32)}
    assert disagreements(mine, theirs, {}) == []


def test_an_update_is_as_exact_as_the_array_it_changes() -> None:
    params = {"w": np.array([4.0], np.float32)}
    mine, theirs = np.array([1e-5], np.float32), np.array([1e-5 + 4e-7], np.float32)
    assert disagreements({"update w": mine}, {"update w": theirs}, params) == []
    assert disagreements({"update w": mine}, {"update w": 2 * theirs}, params)


def test_allocations_see_arrays_that_stay_and_arrays_that_go() -> None:
    kept: list[np.ndarray] = []
    assert with_adjit.allocations(lambda: kept.append(np.zeros(100)), steps=3)["left"] == 2400
    passing = with_adjit.allocations(lambda: np.zeros(targets.ARRAY_BYTES, np.uint8).sum(), steps=3)
    assert passing["left"] == 0
    assert passing["peak"] >= targets.ARRAY_BYTES


def test_a_ratio_is_that_of_one_round() -> None:
    assert measuring.ratios(Times([1.0, 8.0, 3.0], 1.0), Times([2.0, 2.0, 4.0], 2.0)) == [0.5, 4.0, 0.75]


def test_measured_processes_get_default_settings_and_their_own_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENBLAS_CORETYPE", "ADJIT_VERIFY", "OMP_NUM_THREADS", "CC"):
        monkeypatch.setenv(name, "1")
    environment = machine.measured_environment(Path("caches"), "jax")
    assert environment["PATH"] == os.environ["PATH"]
    assert not {"OPENBLAS_CORETYPE", "ADJIT_VERIFY", "OMP_NUM_THREADS", "CC"} & environment.keys()
    for name in ("ADJIT_CACHE_DIR", "JAX_COMPILATION_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "NUMBA_CACHE_DIR", "PYTENSOR_FLAGS"):
        assert "caches" in environment[name]
    assert "CC" in machine.measured_environment(Path("caches"), "tinygrad")


def test_operations_and_bytes_are_counted_from_the_formulas() -> None:
    tiny = problems.tiny()
    products = 2 * 2 * 10 * 2 * 3 + 3 * 2 * 10 * 3 * 1
    assert tiny.operations == products + 4 * 10 * (3 + 1) + 2 * 13
    assert tiny.least_bytes == 4 * (20 + 10 + 2 * 13)
    assert problems.chain(1000).least_bytes == 4 * 6000
    assert problems.mlp((2, 3), 4).least_bytes == 4 * (8 + 6 * 9) + 8 * 4


def test_a_limit_is_the_slower_of_operations_and_bytes() -> None:
    measured = {"operations": {"float32": 1e10, "float64": 5e9}, "sizes": [2 ** 15, 2 ** 25], "read": [4e9, 1e9], "triad": [3e9, 2e9]}
    chain = problems.chain(1_000_000)
    assert limit_of(chain, measured).seconds == pytest.approx(24e6 / 2e9)
    assert limit_of(chain, measured).by == "bytes"
    assert limit_of(chain, measured | {"operations": {"float32": 3e8}}).by == "operations"
    assert limit_of(problems.chain(1000), measured | {"operations": {"float32": 1e12}}).seconds == pytest.approx(24e3 / 4e9)


def test_kernels_of_the_ceilings_compute_what_they_say() -> None:
    import ctypes
    compiler = ceilings.Compiler.for_host()
    pointer, count = ctypes.c_void_p, 128 * 8
    x, y = np.arange(count, dtype=np.float32) % 7, np.arange(count, dtype=np.float32) % 5
    sums, out = np.zeros(16, np.float32), np.zeros(count, np.float32)
    text = ceilings.read(compiler.lanes) + "\n" + ceilings.repeated("read", "xo")
    compiler.function(text.replace("read", "again"), "again_repeated", *[ctypes.c_int64] * 2, pointer, pointer)(
        2, count, x.ctypes.data, sums.ctypes.data)
    blocks = x.reshape(-1, 8, compiler.lanes)      # the last of the eight sums is what stays
    np.testing.assert_array_equal(sums[:compiler.lanes], blocks[:, 7].sum(0))
    triad = compiler.function(ceilings.triad(compiler.lanes), "triad", ctypes.c_int64, *[pointer] * 3)
    triad(count, x.ctypes.data, y.ctypes.data, out.ctypes.data)
    np.testing.assert_array_equal(out, x * 3 + y)


def test_ceilings_are_measured() -> None:
    compiler = ceilings.Compiler.for_host()
    assert 1e9 < ceilings.peak_operations(compiler, "float", threads=1, repeats=1) < 1e13
    found = ceilings.bandwidths(compiler, 1, [2 ** 15, 2 ** 18], 0.0005)
    assert found.keys() == {"read", "triad"}
    assert all(1e8 < value < 1e13 for values in found.values() for value in values)


def without_a_pip_of_its_own(run: Callable[..., None]) -> Callable[..., None]:
    """New environments get the pip of this one: to install another takes seconds."""
    def command(*arguments: object) -> None:
        if "venv" not in arguments:
            return run(*arguments)
        run(*arguments[:-1], "--without-pip", arguments[-1])
        (site,) = Path(str(arguments[-1])).glob("lib/python*/site-packages")
        (site / "pip").symlink_to(Path(find_spec("pip").origin).parent)      # type: ignore[union-attr, arg-type]
    return command


def test_a_requirement_that_cannot_be_installed_is_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "requirements").mkdir()
    (tmp_path / "requirements" / "tools.txt").write_text("")
    (tmp_path / "requirements" / "planted.txt").write_text("./nowhere/planted-1.0-py3-none-any.whl\n")
    monkeypatch.setattr(environments, "HERE", tmp_path)
    monkeypatch.setattr(environments, "ROOT", tmp_path)
    monkeypatch.setattr(environments, "FOLDER", tmp_path / ".bench")
    monkeypatch.setattr(environments, "_run", without_a_pip_of_its_own(environments._run))
    environment = environments.prepare("planted")
    assert environment.python is None
    assert (environment.absent or "").startswith("cannot be installed: ")
    assert "planted" in (environment.absent or "")


@pytest.mark.parametrize(("arguments", "file", "workloads"), [
    ([], "comparison.json", list(problems.PROBLEMS)), (["--quick"], "quick.json", list(run.QUICK_WORKLOADS)),
    (["--workloads", "mlp,tiny"], "partial.json", ["mlp", "tiny"]), (["--peers", "jax torch"], "partial.json", list(problems.PROBLEMS))])
def test_a_part_of_a_run_has_a_file_of_its_own(arguments: list[str], file: str, workloads: list[str]) -> None:
    options = run.parse_arguments(arguments)
    assert options.results.name == file
    assert options.workloads == workloads


def test_unknown_names_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = io.StringIO()
    monkeypatch.setattr(sys, "stderr", errors)
    with pytest.raises(SystemExit):
        run.parse_arguments(["--peers", "pencil"])
    assert "'pencil' is none of adjit, " in errors.getvalue()
