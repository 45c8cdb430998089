"""The numbers that this project promises, measured in one run against the peers that are installed.

    python benchmarks/targets.py [--peer-python PATH] [--rounds N] [--seconds S] [--starts N]

Prints a table, and writes everything measured to benchmarks/results/targets.json. Ends with status 1 where adjit and a peer do not
compute the same. See benchmarks/README.md for how to read it.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from machine import measured_environment, processor
from measuring import DisagreementError, Worker, compare, first_calls, open_and_check, time_in_turn

PEERS = {"jax": "JAX jit", "torch": "torch eager", "autograd": "HIPS autograd"}
RESULTS = Path(__file__).resolve().parent / "results" / "targets.json"

TIMED = {"mlp": ("jax", "torch"), "lnsm": ("jax", "torch"), "logreg": ("autograd",)}
"""The peers that each workload is timed against."""

TIME_LIMITS = {("mlp", "jax"): 1.5, ("mlp", "torch"): 1.0, ("lnsm", "torch"): 1.0, ("logreg", "autograd"): 1 / 3}
"""The most time that adjit may take, over the peer's."""

BYTES_LIMITS = {"lnsm": 1 / 20, "transformer": 1.0, "mlp": 1.0}
"""The most working memory that adjit may take, over JAX's."""

COLD_SECONDS, WARM_SECONDS, IMPORT_SECONDS = 4.0, 1.0, 0.15

ARRAY_BYTES = 16 * 1024
"""A step of the mlp that takes less than this, Python's objects included, has made no array of it but scalars."""


@dataclass(frozen=True)
class Row:
    """One promise: what came out, and whether it is kept; `met` is None where nothing was promised or the peer is absent."""

    name: str
    target: str
    measured: str
    met: bool | None
    details: Mapping[str, Any] = field(default_factory=dict)

    @property
    def verdict(self) -> str:
        return "-" if self.met is None else "met" if self.met else "MISSED"


def main() -> int:
    options = parse_arguments()
    with tempfile.TemporaryDirectory() as name:
        try:
            report = measure(options, Path(name))
        except DisagreementError as error:
            print(f"error: {error}", file=sys.stderr)
            return 1
    print_report(report)
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(report, default=asdict, indent=1) + "\n")
    print(f"\nwritten to {RESULTS}")
    return 0


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="interpreter that has the peers; default: this one")
    parser.add_argument("--rounds", type=int, default=9, help="rounds that each library is timed in (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=0.5, help="time of a round (default: %(default)s)")
    parser.add_argument("--starts", type=int, default=5, help="new processes for each first call and import (default: %(default)s)")
    return parser.parse_args()


def measure(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The report: the machine, the libraries, and a row for each promise."""
    environment = measured_environment(folder / "kernels")
    with ExitStack() as stack:
        ours = stack.enter_context(Worker("adjit", sys.executable, environment, folder))
        if ours.absent:
            raise SystemExit(f"error: adjit is not installed for {sys.executable}: {ours.absent}")
        peers = {name: stack.enter_context(Worker(name, options.peer_python, environment, folder)) for name in PEERS}
        rows = [*time_rows(ours, peers, options), *donation_rows(ours, options), *bytes_rows(ours, peers)]
        libraries = {worker.library: worker.about for worker in (ours, *peers.values())}
    rows += start_rows(options.starts, folder, environment)
    return {"date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), **processor(),
            "rounds": options.rounds, "seconds": options.seconds, "starts": options.starts, "libraries": libraries, "rows": rows}


def time_rows(ours: Worker, peers: Mapping[str, Worker], options: argparse.Namespace) -> list[Row]:
    rows = []
    for workload, names in TIMED.items():
        present = [peers[name] for name in names if not peers[name].absent]
        open_and_check(ours, present, workload)
        times = time_in_turn([ours, *present], options.rounds, options.seconds)
        mine = times["adjit"]
        for name in names:
            title, limit = f"{workload}: time / {PEERS[name]}", TIME_LIMITS.get((workload, name))
            target = f"<= {limit:.3g}" if limit else "(no target)"
            if name not in times:
                rows.append(absent(title, target, peers[name]))
                continue
            theirs = times[name]
            result = compare(mine, theirs)
            measured = f"{result.ratio:.3f}, of minima {result.minima:.3f} ({microseconds(mine.median)} / {microseconds(theirs.median)})"
            met = None if limit is None else result.ratio <= limit
            rows.append(Row(title, target, measured, met, {**asdict(result), "adjit": asdict(mine), name: asdict(theirs)}))
    return rows


def donation_rows(ours: Worker, options: argparse.Namespace) -> list[Row]:
    """The donated step of the mlp by itself: how fast, and what it allocates."""
    ours.open("mlp")
    times = time_in_turn([ours], options.rounds, options.seconds)["adjit"]
    found = ours.ask("allocations")
    return [
        Row("mlp: donated steps a second", "(no target)", f"{1 / times.median:.0f}, at best {1 / times.minimum:.0f}", None, asdict(times)),
        Row("mlp: arrays allocated by a donated step", "none",
            f"{found['left']} B left after 20 steps, {found['peak']} B of Python objects at the peak",
            found["left"] == 0 and found["peak"] < ARRAY_BYTES, found)]


def bytes_rows(ours: Worker, peers: Mapping[str, Worker]) -> list[Row]:
    jax = peers["jax"]
    rows = []
    for workload, limit in BYTES_LIMITS.items():
        title, target = f"{workload}: working memory / JAX", f"<= {limit:.3g}"
        open_and_check(ours, [] if jax.absent else [jax], workload)
        mine = ours.ask("bytes")["bytes"]
        if jax.absent:
            rows.append(absent(title, target, jax, adjit=mine))
            continue
        theirs = jax.ask("bytes")["bytes"]
        rows.append(Row(title, target, f"{mine / theirs:.4f} ({mine / 1e6:.2f} MB / {theirs / 1e6:.2f} MB)", mine <= limit * theirs,
                        {"adjit": mine, "jax": theirs}))
    return rows


def start_rows(starts: int, folder: Path, environment: Mapping[str, str]) -> list[Row]:
    """What a new process costs: the first call of the mlp step, and the import."""
    cold = [first_calls({**environment, "ADJIT_CACHE_DIR": str(folder / f"cold-{i}")}) for i in range(starts)]
    filled = {**environment, "ADJIT_CACHE_DIR": str(folder / "cold-0")}
    warm = [first_calls(filled) for _ in range(starts)]
    rows = [_start_row("mlp: first call, empty kernel cache", COLD_SECONDS, cold),
            _start_row("mlp: first call, from the disk cache", WARM_SECONDS, warm)]

    seconds: dict[str, list[float]] = {"numpy": [], "adjit": []}
    for _ in range(starts + 1):     # the first ones write bytecode and fill the file cache
        for module, found in seconds.items():
            code = f"import time; begin = time.perf_counter(); import {module}; print(time.perf_counter() - begin)"
            printed = subprocess.check_output([sys.executable, "-c", code], env=dict(environment), cwd=folder)
            found.append(float(printed))
    numpy, adjit = (statistics.median(found[1:]) for found in seconds.values())
    measured = f"{milliseconds(adjit)}; of it numpy {milliseconds(numpy)}"
    return [*rows, Row("import adjit", f"<= {milliseconds(IMPORT_SECONDS)}", measured, adjit <= IMPORT_SECONDS, seconds)]


def _start_row(name: str, limit: float, runs: Sequence[Mapping[str, float]]) -> Row:
    calls = [run["first call"] for run in runs]
    median = statistics.median(calls)
    imports = statistics.median(run["import"] for run in runs)
    measured = f"{median:.2f} s, at best {min(calls):.2f} s (and {milliseconds(imports)} of import)"
    return Row(name, f"<= {limit:g} s", measured, median <= limit, {"runs": runs})


def absent(title: str, target: str, peer: Worker, **details: Any) -> Row:
    return Row(title, target, f"{PEERS[peer.library]} is absent: {peer.absent}", None, details)


def microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.0f} us"


def milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.0f} ms"


def print_report(report: Mapping[str, Any]) -> None:
    avx512 = "with" if report["avx512"] else "no"
    print(f"{report['processor']}, {report['cores']} cores, {avx512} AVX-512; {report['date']}")
    for name, about in report["libraries"].items():
        print(f"{name}: {describe(about)}")
    print()
    cells = [("promise", "target", "measured", "")] + [(row.name, row.target, row.measured, row.verdict) for row in report["rows"]]
    if sys.stdout.isatty():
        with contextlib.suppress(ImportError):
            return print_with_rich(cells)
    widths = [max(len(row[column]) for row in cells) for column in range(4)]
    for row in cells:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def describe(about: Mapping[str, Any]) -> str:
    """Versions, threads and BLAS of a worker."""
    if "absent" in about:
        return f"absent ({about['absent']})"
    parts = [f"{name} {version}" for name, version in about["versions"].items()]
    if about["threads"]:
        parts.append(f"{about['threads']} threads")
    if "blas" in about:
        parts.append(f"NumPy on {about['blas']}, {about['blas_threads']} threads")
    return ", ".join(parts)


def print_with_rich(cells: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*cells[0])
    for row in cells[1:]:
        table.add_row(*(Text(cell, style="bold red" if cell == "MISSED" else "") for cell in row))
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
