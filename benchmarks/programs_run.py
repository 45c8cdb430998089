"""Measures value and gradient of whole NumPy programs: adjit and HIPS autograd on the programs unchanged, JAX on its own versions, and
NumPy's run of the value alone.

    python benchmarks/programs_run.py [--programs garch,thomas] [--peers jax,numpy] [--rounds 9] [--results FILE] [--no-page]

Every program and size has new processes, without caches. Before anything is timed, values and gradients for eight data sets have to agree
with adjit's. What an interrupted run has measured is kept, as in `run.py`.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import programs
import report
from agreement import disagreements
from catalogue import CATALOGUE
from environments import prepare
from machine import measured_environment, processor
from measuring import Worker, WorkerError, ratios, time_interleaved
from programs_report import RESULTS, geometric_means
from results import FOLDER, ROOT, Cell, Results

HERE = Path(__file__).resolve().parent
OURS = "adjit"
LIBRARIES = (OURS, "jax", "autograd", "numpy")
SECONDS = 0.03
"""Of a turn."""
FIRST_LIMIT = 60.0
TOLERANCES = {np.dtype(np.float64): 1e-9}


def start(library: str, python: Path, folder: Path, log: IO[str]) -> Worker:
    environment = {**measured_environment(folder, library), "ADJIT_CACHE_SIZE": "0", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    modules = CATALOGUE[library].modules
    return Worker(library, python, modules, environment, FIRST_LIMIT, log, HERE / "programs_worker.py")


def measure(name: str, size: int, pythons: dict[str, Path], rounds: int, results: Results, folder: Path, log: IO[str]) -> None:
    """Cells `program/NAME/SIZE/LIBRARY` of one program at one size."""
    workers: dict[str, Worker] = {}
    cells: dict[str, Cell] = {}
    references: dict[str, Any] | None = None
    try:
        for library, python in pythons.items():
            try:
                worker = workers[library] = start(library, python, folder, log)
                results.content["libraries"][library]["versions"] = worker.about["versions"]
                opened = worker.ask("open", problem=name, sizes={"size": size})
                readings = worker.readings(folder)
                references = readings if library == OURS else references
                if references is not None:
                    wanted = {"value": references["value"]} if library == "numpy" else references
                    if wrong := disagreements(wanted, readings, {}, TOLERANCES):
                        raise WorkerError(f"does not agree with {OURS}: {'; '.join(wrong)}")
                cells[library] = {"first": opened["first"], "cpu": opened["cpu"]}
            except WorkerError as error:
                cells[library] = {"absent": str(error)}
                if library in workers:
                    workers.pop(library).close()
        times, load = time_interleaved(workers, rounds, SECONDS)
        for library, found in times.items():
            if found.failed is not None:
                cells[library] = {"absent": found.failed}
                continue
            cells[library] |= {"rounds": found.medians, "minimum": found.minimum, "load": load}
            if OURS in times:
                cells[library]["ratios"] = ratios(times[OURS], found)
    finally:
        for worker in workers.values():
            worker.close()
    results.put({f"program/{name}/{size}/{library}": cell for library, cell in cells.items()})


def line_of(name: str, size: int, results: Results) -> str:
    texts = []
    for library in LIBRARIES:
        cell = results.cell("program", name, size, library) or {"absent": "not asked for"}
        texts.append(f"{library} {cell['absent'][:60]}" if "absent" in cell else
                     f"{library} {statistics.median(cell['rounds']) * 1e6:.1f} us")
    return f"{name} {size}: " + ", ".join(texts)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default=",".join(programs.NAMES), metavar="A,B")
    parser.add_argument("--peers", default=",".join(LIBRARIES[1:]), metavar="A,B")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--results", type=Path, default=FOLDER / RESULTS)
    parser.add_argument("--fresh", action="store_true", help="measure everything anew")
    parser.add_argument("--no-page", action="store_true", help="leave docs/benchmarks.md as it is")
    options = parser.parse_args(arguments)
    begun = time.monotonic()
    results = Results.resume(options.results, {"rounds": options.rounds, "seconds": SECONDS}, options.fresh)
    results.content["machine"] = results.content["machine"] or processor()
    pythons: dict[str, Path] = {}
    for library in dict.fromkeys((OURS, *options.peers.replace(",", " ").split())):
        environment = prepare(CATALOGUE[library].environment)
        results.content["libraries"].setdefault(library, {})
        if environment.python is None:
            results.content["libraries"][library] = {"absent": environment.absent}
        else:
            pythons[library] = environment.python
    chosen = programs.chosen()
    with tempfile.TemporaryDirectory() as folder, (ROOT / ".bench" / "programs_log.txt").open("w") as log:
        for name in options.programs.replace(",", " ").split():
            for size in programs.sizes(chosen[name]):
                if any(results.cell("program", name, size, library) is None for library in pythons):
                    measure(name, size, pythons, options.rounds, results, Path(folder), log)
                    print(line_of(name, size, results), flush=True)
    results.content["seconds"] = results.content.get("seconds", 0.0) + time.monotonic() - begun
    results.write()
    for line in geometric_means(results):
        print(line)
    comparison = FOLDER / "comparison.json"
    if not options.no_page and options.results == FOLDER / RESULTS and comparison.exists():
        report.render(Results.read(comparison), ROOT / "docs" / "benchmarks.md")
    print(f"done in {(time.monotonic() - begun) / 60:.1f} minutes; results: {options.results}")
    wrong = [key for key, cell in results.content["cells"].items() if "does not agree" in cell.get("absent", "")]
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
