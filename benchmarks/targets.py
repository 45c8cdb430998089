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
from results import FOLDER, Results, median_of, ratio_of

OURS = "adjit"

TIME_LIMITS = {("mlp", "jax"): 1.5, ("mlp", "torch"): 1.0, ("lnsm", "torch"): 1.0, ("logreg", "autograd"): 1 / 3}
"""The most time that adjit may take, over the other's."""

BYTES_LIMITS = {"lnsm": 1 / 20, "transformer": 1.0, "mlp": 1.0}
"""The most working memory that adjit may plan, over JAX's."""

COLD_SECONDS, WARM_SECONDS, IMPORT_SECONDS = 4.0, 1.0, 0.15

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
    return [*_times(results), *_bytes(results), *_starts(results), _allocations(results)]


def _times(results: Results) -> Iterator[Row]:
    for (workload, library), limit in TIME_LIMITS.items():
        name, target = f"{workload}, time / {CATALOGUE[library].title}", f"at most {limit:.3g}"
        cell = results.cell("step", workload, library)
        found = ratio_of(cell)
        if cell is None or found is None:
            yield Row(name, target, (cell or {}).get("absent", ""), None)
        else:
            ours = median_of(results.cell("step", workload, OURS))
            yield Row(name, target, f"{ratio(found)} ({seconds(ours)} / {seconds(median_of(cell))})", found <= limit)


def _bytes(results: Results) -> Iterator[Row]:
    for workload, limit in BYTES_LIMITS.items():
        ours, theirs = ((results.cell("step", workload, library) or {}).get("memory", {}).get("planned") for library in (OURS, "jax"))
        name, target = f"{workload}, working memory / JAX jit", f"at most {limit:.3g}"
        if ours is None or theirs is None:
            yield Row(name, target, "", None)
        else:
            yield Row(name, target, f"{ours / theirs:.3g} ({size(ours)} / {size(theirs)})", ours <= limit * theirs)


def _starts(results: Results) -> Iterator[Row]:
    first = (results.cell("step", "mlp", OURS) or {}).get("first", {})
    for kind, text, limit in (("cold", "empty kernel cache", COLD_SECONDS), ("warm", "from the disk cache", WARM_SECONDS)):
        found = first.get(kind)
        yield Row(f"mlp, first call, {text}", f"at most {seconds(limit)}", seconds(found), None if found is None else found <= limit)
    imports = [value for parts, cell in results.cells("step") if parts[2] == OURS for value in cell.get("import", ())]
    median = statistics.median(imports) if imports else None
    yield Row("import adjit", f"at most {seconds(IMPORT_SECONDS)}", seconds(median), None if median is None else median <= IMPORT_SECONDS)


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
