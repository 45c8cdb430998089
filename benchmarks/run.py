"""Measures adjit side by side with what else a user might pick, and writes results and report.

    python benchmarks/run.py [--quick] [--workloads mlp,lnsm] [--peers jax,torch] [--parts steps,overhead,curves] [--fresh]

A run that was ended goes on where it stopped, as long as sources and settings are the same. See benchmarks/README.md for how to read what
comes out.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from agreement import disagreements
from catalogue import CATALOGUE
from curves import AXES
from environments import prepare
from machine import measured_environment, processor
from measuring import Times, Worker, WorkerError, ratios, time_interleaved
from problems import PROBLEMS
from report import render
from results import FOLDER, ROOT, Cell, Results, now
from summary import print_summary

HERE = Path(__file__).resolve().parent
OURS = "adjit"
PARTS = ("steps", "overhead", "curves")
QUICK_PARTS = ("steps", "overhead")
QUICK_WORKLOADS = ("mlp", "lnsm", "logreg")
SMALL_ARRAYS = (1, 5, 20)


@dataclass(frozen=True)
class Settings:
    """How long is measured: rounds of a step and seconds of each turn, the same of a point of a curve; the most seconds a first call may
    take; first calls with empty caches, whether there is one with filled caches, and seconds up to which a first call is repeated.

    Many short turns rather than a few long ones: where neighbours on the host slow the machine for some seconds, they slow all the turns of
    a round.
    """

    quick: bool
    rounds: int
    seconds: float
    point_rounds: int
    point_seconds: float
    first_limit: float
    point_limit: float
    first_calls: int
    starts: bool
    quick_first_call: float = 2.0

    @classmethod
    def of(cls, quick: bool) -> Settings:
        return cls(True, 7, 0.04, 3, 0.03, 12, 10, 1, False) if quick else cls(False, 21, 0.06, 5, 0.05, 45, 20, 5, True)


class Bench:
    """One run: its settings, the interpreters of the libraries, and the file of results."""

    def __init__(self, settings: Settings, pythons: Mapping[str, Path], results: Results, folder: Path, log: IO[str]):
        self.settings, self.pythons, self.results, self.folder, self.log = settings, pythons, results, folder, log

    @contextlib.contextmanager
    def workers(self, libraries: Sequence[str], caches: str, limit: float) -> Iterator[tuple[dict[str, Worker], dict[str, Cell]]]:
        """A process for each library, caches in a folder of this name, and the cells of those that do not start."""
        started: dict[str, Worker] = {}
        absent: dict[str, Cell] = {}
        try:
            for library in libraries:
                try:
                    started[library] = self.start(library, caches, limit)
                except WorkerError as error:
                    absent[library] = {"absent": str(error)}
            yield started, absent
        finally:
            for worker in started.values():
                worker.close()

    def start(self, library: str, caches: str, limit: float) -> Worker:
        folder = self.folder / f"{caches}-{library}"
        folder.mkdir(exist_ok=True)
        worker = Worker(library, self.pythons[library], CATALOGUE[library].modules, measured_environment(folder, library), limit, self.log)
        self.results.content["libraries"].setdefault(library, {}).update(
            {name: worker.about[name] for name in ("versions", "threads", "blas", "size", "facts")})
        return worker

    def steps(self, workload: str, libraries: Sequence[str]) -> None:
        """One problem in all libraries: first calls, agreement, rounds, memory; then, in new processes, first calls with filled caches and
        with empty ones.
        """
        missing = [library for library in libraries if self.results.cell("step", workload, library) is None]
        if not missing:
            return
        named = list(dict.fromkeys((OURS, *missing)))
        say(f"{workload}: {', '.join(named)}")
        with self.workers(named, workload, self.settings.first_limit) as (workers, cells):
            references: dict[str, np.ndarray] | None = None
            params = PROBLEMS[workload]().named_params
            for library, worker in list(workers.items()):
                cell: Cell = {"measured": now(), "import": [worker.about["import"]]}
                try:
                    opened = worker.ask("open", problem=workload, sizes={})
                    cell |= {"first": {"cold": opened["first"]}, "memory": {"cold": opened["peak"]}}
                    readings = worker.readings(self.folder)
                    problems = disagreements(references, readings, params) if references is not None else []
                    if problems:
                        raise WorkerError(f"does not agree with {OURS}: {'; '.join(problems)}")
                    references = readings if references is None else references
                    cells[library] = cell
                except WorkerError as error:
                    cells[library] = {**cell, "absent": str(error)}
                    workers.pop(library).close()
            times, load = time_interleaved(workers, self.settings.rounds, self.settings.seconds)
            for library, found in times.items():
                cells[library] |= step_cell(found, times.get(OURS, Times()), load)
                if found.failed is None:
                    self.ask_memory(workers[library], cells[library])
            if "absent" not in cells[OURS]:
                with contextlib.suppress(WorkerError):
                    cells[OURS]["allocations"] = workers[OURS].ask("allocations")
        measured = {library: cells[library] for library in workers if "absent" not in cells[library]}
        if self.settings.starts:
            for library, cell in measured.items():
                self.start_again(workload, library, cell)
        self.repeat_first_calls(workload, measured)
        for library, cell in cells.items():
            if "absent" in cell:
                say(f"  {CATALOGUE[library].title}: {cell['absent']}")
        self.results.put({f"step/{workload}/{library}": cell for library, cell in cells.items()})

    def ask_memory(self, worker: Worker, cell: Cell) -> None:
        """What steps take; where the caches are filled again in a new process, the peak is that of the new one."""
        try:
            answer = worker.ask("memory", steps=5)
            cell["memory"] |= {"steps": answer["peak"], "planned": answer["planned"]}
        except WorkerError as error:
            cell["memory"]["absent"] = str(error)

    def start_again(self, workload: str, library: str, cell: Cell) -> None:
        try:
            worker = self.start(library, workload, self.settings.first_limit)
        except WorkerError as error:
            cell["first"]["absent"] = str(error)
            return
        with worker:
            cell["import"].append(worker.about["import"])
            try:
                cell["first"]["warm"] = worker.ask("open", problem=workload, sizes={})["first"]
                cell["memory"]["steps"] = worker.ask("memory", steps=5)["peak"]
            except WorkerError as error:
                cell["first"]["absent"] = str(error)

    def repeat_first_calls(self, workload: str, cells: Mapping[str, Cell]) -> None:
        """More first calls with empty and with filled caches, in turn, of the libraries that are quick at it; what counts is the median."""
        for kind in ("cold", "warm"):
            quick = {library: [cell["first"][kind]] for library, cell in cells.items()
                     if cell["first"].get(kind, math.inf) < self.settings.quick_first_call}
            for number in range(1, self.settings.first_calls):
                folder = f"{workload}-{number}" if kind == "cold" else workload
                for library, found in quick.items():
                    with contextlib.suppress(WorkerError), self.start(library, folder, self.settings.first_limit) as worker:
                        cells[library]["import"].append(worker.about["import"])
                        found.append(worker.ask("open", problem=workload, sizes={})["first"])
            for library, found in quick.items():
                cells[library]["first"] |= {kind: statistics.median(found), f"all_{kind}": found}

    def overhead(self, libraries: Sequence[str]) -> None:
        """A call that adds 1, 5, 20 arrays of eight numbers."""
        missing = [library for library in libraries if any(self.results.cell("overhead", n, library) is None for n in SMALL_ARRAYS)]
        if not missing:
            return
        say("calls with small arrays")
        with self.workers(missing, "overhead", self.settings.first_limit) as (workers, absent):
            cells = {f"overhead/{n}/{library}": cell for library, cell in absent.items() for n in SMALL_ARRAYS}
            for n in SMALL_ARRAYS:
                for library, worker in workers.items():
                    try:
                        cells[f"overhead/{n}/{library}"] = {"rounds": worker.ask("overhead", arrays=n)["seconds"]}
                    except WorkerError as error:
                        cells[f"overhead/{n}/{library}"] = {"absent": str(error)}
            self.results.put(cells)

    def curve(self, axis: str, libraries: Sequence[str]) -> None:
        """Time, memory and first call at the points of one axis, a process for each library; one that took too long goes no further."""
        points = AXES[axis].points
        missing = [library for library in libraries if any(self.results.cell("curve", axis, point, library) is None for point in points)]
        if not missing:
            return
        say(f"curve: {axis} {', '.join(map(str, points))}")
        with self.workers(list(dict.fromkeys((OURS, *missing))), f"curve-{axis}", self.settings.point_limit) as (workers, absent):
            for point in points:
                cells = {f"curve/{axis}/{point}/{library}": cell for library, cell in absent.items()}
                opened: dict[str, Cell] = {}
                for library, worker in list(workers.items()):
                    try:
                        answer = worker.ask("open", problem=AXES[axis].problem, sizes=AXES[axis].sizes(point))
                        opened[library] = {"first": {"cold": answer["first"]}}
                    except WorkerError as error:
                        absent[library] = {"absent": f"at {axis} {point}: {error}"}
                        cells[f"curve/{axis}/{point}/{library}"] = absent[library]
                        workers.pop(library).close()
                times, load = time_interleaved(workers, self.settings.point_rounds, self.settings.point_seconds)
                for library, found in times.items():
                    cell = opened[library] | step_cell(found, times.get(OURS, Times()), load) | {"memory": {}}
                    if found.failed is None:
                        self.ask_memory(workers[library], cell)
                    cells[f"curve/{axis}/{point}/{library}"] = cell
                self.results.put(cells)


def step_cell(found: Times, ours: Times, load: Sequence[float]) -> Cell:
    if found.failed is not None or not found.medians:
        return {"absent": found.failed or "not timed"}
    return {"rounds": found.medians, "minimum": found.minimum, "ratios": ratios(ours, found), "load": list(load)}


def say(text: str) -> None:
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under three minutes: fewer problems and rounds, no curves, one first call")
    parser.add_argument("--workloads", default="", metavar="A,B", help=f"of {', '.join(PROBLEMS)}")
    parser.add_argument("--peers", default="", metavar="A,B", help=f"of {', '.join(name for name in CATALOGUE if name != OURS)}")
    parser.add_argument("--parts", default="", metavar="A,B", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--results", type=Path, metavar="FILE",
                        help="default: benchmarks/results/comparison.json; quick.json of a quick run, "
                                                                   "partial.json where workloads, peers or parts are chosen")
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    options = parser.parse_args(arguments)
    options.chosen = bool(options.workloads or options.peers or options.parts)
    options.workloads = names(parser, options.workloads, QUICK_WORKLOADS if options.quick else tuple(PROBLEMS), tuple(PROBLEMS))
    options.curve_peers = bool(options.peers)
    options.peers = names(parser, options.peers, tuple(CATALOGUE), tuple(CATALOGUE))
    options.parts = names(parser, options.parts, QUICK_PARTS if options.quick else PARTS, PARTS)
    if options.results is None:
        options.results = FOLDER / ("quick.json" if options.quick else "partial.json" if options.chosen else "comparison.json")
    return options


def names(parser: argparse.ArgumentParser, text: str, default: Sequence[str], known: Sequence[str]) -> list[str]:
    chosen = text.replace(",", " ").split() or list(default)
    for name in chosen:
        if name not in known:
            parser.error(f"{name!r} is none of {', '.join(known)}")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse_arguments(arguments)
    begun = time.monotonic()
    settings = Settings.of(options.quick)
    libraries = list(dict.fromkeys((OURS, *options.peers)))
    environments = {name: prepare(name) for name in dict.fromkeys(CATALOGUE[library].environment for library in libraries)}
    found = {library: environments[CATALOGUE[library].environment] for library in libraries}
    ours = found[OURS]
    problem = ours.absent if ours.python is None else import_error(ours.python)
    if ours.python is None or problem:
        print(f"error: adjit: {problem}", file=sys.stderr)
        return 1
    results = Results.resume(options.results, vars(settings), options.fresh)
    for library, environment in found.items():
        results.content["libraries"].setdefault(library, {})
        if environment.absent:
            results.content["libraries"][library] = {"absent": environment.absent}
    pythons = {library: environment.python for library, environment in found.items() if environment.python is not None}
    if not results.content["ceilings"]:
        say("limits of this machine")
        results.content["machine"] = processor()
        results.content["ceilings"] = measure_ceilings(ours.python, options.quick)
        results.write()
    log_path = ROOT / ".bench" / "log.txt"
    log_path.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, log_path.open("w") as log:
        measure(Bench(settings, pythons, results, Path(folder), log), options)
    seconds = time.monotonic() - begun
    results.content["seconds"] = results.content.get("seconds", 0.0) + seconds
    results.write()
    committed = options.results.name == "comparison.json"
    page = ROOT / "docs" / "benchmarks.md" if committed else ROOT / "out" / f"bench-{options.results.stem}.md"
    page.parent.mkdir(exist_ok=True)
    render(results, page)
    print_summary(results)
    say(f"done in {seconds / 60:.1f} minutes; results: {options.results}; report: {page}; what the libraries printed: {log_path}")
    disagreeing = [key for key, cell in results.content["cells"].items() if "does not agree" in cell.get("absent", "")]
    return 1 if disagreeing else 0


def measure(bench: Bench, options: argparse.Namespace) -> None:
    libraries = list(bench.pythons)
    if "steps" in options.parts:
        for workload in options.workloads:
            bench.steps(workload, libraries)
    if "overhead" in options.parts:
        bench.overhead(libraries)
    if "curves" in options.parts:
        drawn = [library for library in libraries if options.curve_peers or CATALOGUE[library].curves is True]
        for axis in AXES:
            if not options.chosen or AXES[axis].problem in options.workloads:
                bench.curve(axis, drawn)


def import_error(python: Path) -> str:
    """Why adjit cannot be imported, in a word; empty where it can."""
    done = subprocess.run([str(python), "-c", "import adjit"], capture_output=True, text=True, check=False)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def measure_ceilings(python: Path, quick: bool) -> dict[str, Any]:
    command = [str(python), str(HERE / "ceilings.py"), *(["--quick"] if quick else [])]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    sys.exit(main())
