"""The numbers that this project promises, read from the results of a run.

    python benchmarks/targets.py [RESULTS]

Prints a line for each promise; ends with status 1 where one is not kept.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from catalogue import CATALOGUE
from figures import ratio, seconds, size
from results import FOLDER, Results, ratio_of

OURS = "adjit"

FASTER = {"tiny": 10.0, "mlp": 1.4, "chain": 2.0, "lnsm": 3.0, "transformer": 1.4, "cnn": 1.3, "rnn": 1.5, "logreg": 2.0, "gmm": 3.0,
          "gp": 1.1}
"""How many times as fast as the fastest other library a step is at least."""

COLD_RATIO = 1 / 3
"""The most time of a first call without caches, over JAX's."""

COLD_SECONDS, WARM_SECONDS, IMPORT_SECONDS = 0.1, 0.02, 0.15
"""Of the mlp's first call without caches, from the disk cache; and of `import adjit`."""

BYTES_RATIO = 0.5
"""The most working memory over JAX's: the geometric mean of the problems."""

BYTES = {"lnsm": 1e6, "gmm": 1e6, "transformer": 16e6}
"""The most working memory of a problem."""

ARRAY_BYTES = 16 * 1024
"""A step of the mlp that takes less than this, Python's objects included, has made no array of it but scalars."""


@dataclass(frozen=True)
class Row:
    """One promise: what came out, and whether it is kept; `met` is None where it was not measured."""

    name: str
    target: str
    measured: str
    met: bool | None

    @property
    def verdict(self) -> str:
        return "not measured" if self.met is None else "met" if self.met else "MISSED"


def rows(results: Results) -> list[Row]:
    return [*_times(results), *_first_calls(results), _import(results), *_bytes(results), _allocations(results)]


def _times(results: Results) -> Iterator[Row]:
    for workload, least in FASTER.items():
        found = {entry.title: 1 / share for library, entry in CATALOGUE.items()
                 if not entry.ours and (share := ratio_of(results.cell("step", workload, library)))}
        name, target = f"{workload}, times as fast as the best other library", f"at least {least:.3g}"
        best = min(found, key=found.__getitem__, default="")
        yield Row(name, target, f"{found[best]:.4g} ({best})", found[best] >= least) if found else Row(name, target, "", None)


def _first_calls(results: Results) -> Iterator[Row]:
    for workload in FASTER:
        ours, theirs = ((results.cell("step", workload, library) or {}).get("first", {}).get("cold") for library in (OURS, "jax"))
        name, target = f"{workload}, first call without caches / JAX jit", f"at most {ratio(COLD_RATIO)}"
        if ours is None or theirs is None:
            yield Row(name, target, "", None)
        else:
            yield Row(name, target, f"{ratio(ours / theirs)} ({seconds(ours)} / {seconds(theirs)})", ours <= COLD_RATIO * theirs)
    first = (results.cell("step", "mlp", OURS) or {}).get("first", {})
    for kind, text, limit in (("cold", "without caches", COLD_SECONDS), ("warm", "from the disk cache", WARM_SECONDS)):
        found = first.get(kind)
        yield Row(f"mlp, first call {text}", f"at most {seconds(limit)}", seconds(found), None if found is None else found <= limit)


def _import(results: Results) -> Row:
    imports = [value for parts, cell in results.cells("step") if parts[2] == OURS for value in cell.get("import", ())]
    median = statistics.median(imports) if imports else None
    return Row("import adjit", f"at most {seconds(IMPORT_SECONDS)}", seconds(median), None if median is None else median <= IMPORT_SECONDS)


def _bytes(results: Results) -> Iterator[Row]:
    planned = {library: {workload: bytes for workload in FASTER
                         if (bytes := (results.cell("step", workload, library) or {}).get("memory", {}).get("planned"))}
               for library in (OURS, "jax")}
    ours, theirs = planned[OURS], planned["jax"]
    shares = [ours[workload] / theirs[workload] for workload in ours if workload in theirs]
    mean = statistics.geometric_mean(shares) if shares else None
    yield Row("working memory / JAX jit, geometric mean", f"at most {BYTES_RATIO}", ratio(mean),
              None if mean is None else mean <= BYTES_RATIO)
    for workload, limit in BYTES.items():
        found = ours.get(workload)
        yield Row(f"{workload}, working memory", f"at most {size(limit)}", size(found), None if found is None else found <= limit)


def _allocations(results: Results) -> Row:
    found = (results.cell("step", "mlp", OURS) or {}).get("allocations")
    text = f"{size(found['left'])} left after 20 steps, {size(found['peak'])} of Python objects at the peak" if found else ""
    return Row("mlp, arrays that a donated step allocates", "none", text,
               None if not found else found["left"] == 0 and found["peak"] < ARRAY_BYTES)


def main(path: Path) -> int:
    found = rows(Results.read(path))
    widths = [max(len(text) for text in column) for column in zip(*((row.name, row.target, row.measured) for row in found), strict=True)]
    for row in found:
        cells = [text.ljust(width) for text, width in zip((row.name, row.target, row.measured), widths, strict=True)]
        print("  ".join([*cells, row.verdict]))
    return 1 if any(row.met is False for row in found) else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER / "comparison.json"))
