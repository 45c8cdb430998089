"""The section of the page about whole NumPy programs, from a file of results of its own, `programs.json` beside the comparison's."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator

import prose
from catalogue import CATALOGUE
from figures import percent, ratio, seconds, table
from results import Cell, Results, median_of

RESULTS = "programs.json"
OURS = "adjit"
TITLES = {"adjit": "adjit", "jax": "JAX, rewritten", "autograd": "HIPS autograd", "numpy": "NumPy, value alone"}
NOTHING = "–"


def section(results: Results) -> Iterator[str]:
    """Parts of the page; none where no such run is beside the results."""
    path = results.path.with_name(RESULTS)
    if path.exists():
        yield from parts(Results.read(path))


def parts(results: Results) -> Iterator[str]:
    cases = _cases(results)
    if not cases:
        return
    load = [value for _, cell in results.cells("program") for value in cell.get("load", ())]
    machine = results.content["machine"]
    yield "## Whole NumPy programs"
    yield prose.PROGRAMS.format(
        cases=len(cases), names=len({name for name, _ in cases}), date=results.content["begun"][:10], commit=results.content["commit"],
        cores=machine["cores"], processor=machine["processor"], rounds=results.content["settings"]["rounds"],
        load=percent(statistics.median(load)) if load else NOTHING, most=percent(max(load)) if load else NOTHING)
    yield "\n".join(f"- {line}" for line in geometric_means(results))
    others = [library for library in TITLES if library != OURS]
    rows = []
    for name, size in cases:
        cells = {library: results.cell("program", name, size, library) for library in TITLES}
        rows.append([f"`{name}`", size, *(_time(cells[library]) for library in TITLES),
                     *(_times_as_fast(cells[library]) for library in others)])
    yield table(["", "size", *TITLES.values(), *(f"{TITLES[library]} / adjit" for library in others)], rows)
    yield prose.PROGRAMS_FIRST
    yield table(["", "size", *TITLES.values()], [
        [f"`{name}`", size, *(_first(results.cell("program", name, size, library)) for library in TITLES)] for name, size in cases])
    yield from _absent(results)


def geometric_means(results: Results) -> list[str]:
    """A line for each library: its time over adjit's in the geometric mean of all that both ran; least times and first calls too."""
    lines = []
    for library, title in TITLES.items():
        if library == OURS:
            continue
        medians = _mean(results, library, lambda ours, theirs: 1 / statistics.median(theirs["ratios"]))
        if medians is None:
            continue
        least = _mean(results, library, lambda ours, theirs: theirs["minimum"] / ours["minimum"])
        text = (f"{title} takes {ratio(medians[0])} times as long as adjit ({medians[1]} cases; "
                f"{ratio(least and least[0])} by the least times)")
        first = _mean(results, library, lambda ours, theirs: theirs["cpu"] / ours["cpu"])
        bounded = _mean(results, library, lambda ours, theirs: 1 / statistics.median(theirs["ratios"]), ("conjugate_gradients",))
        if library == "jax" and bounded is not None and bounded[1] < medians[1]:
            text += f", {ratio(bounded[0])} times without `conjugate_gradients`"
        if library == "jax" and first is not None:
            text += f", its first calls {ratio(first[0])} times the CPU seconds"
        lines.append(text + ".")
    return lines


def _mean(results: Results, library: str, quotient: Callable[[Cell, Cell], float],
          without: tuple[str, ...] = ()) -> tuple[float, int] | None:
    found = []
    for name, size in _cases(results):
        if name in without:
            continue
        ours, theirs = (results.cell("program", name, size, each) for each in (OURS, library))
        if ours and theirs and ours.get("rounds") and theirs.get("ratios"):
            found.append(math.log(quotient(ours, theirs)))
    return (math.exp(statistics.fmean(found)), len(found)) if found else None


def _cases(results: Results) -> list[tuple[str, str]]:
    return list(dict.fromkeys((key[1], key[2]) for key, _ in results.cells("program")))


def _time(cell: Cell | None) -> str:
    value = median_of(cell)
    return NOTHING if cell is None or value is None else f"{seconds(value)}<br>{seconds(cell['minimum'])}"


def _times_as_fast(cell: Cell | None) -> str:
    return ratio(1 / statistics.median(cell["ratios"])) if cell and cell.get("ratios") else NOTHING


def _first(cell: Cell | None) -> str:
    return f"{seconds(cell['first'])}<br>{seconds(cell['cpu'])}" if cell and "first" in cell else NOTHING


def _absent(results: Results) -> Iterator[str]:
    reasons: dict[tuple[str, str], list[str]] = {}
    for (_, name, _, library), cell in results.cells("program"):
        if "absent" in cell:
            names = reasons.setdefault((library, cell["absent"]), [])
            if f"`{name}`" not in names:
                names.append(f"`{name}`")
    if reasons:
        yield "Not run:"
        yield "\n".join(f"- {CATALOGUE[library].title}, {', '.join(names)}: {reason}" for (library, reason), names in reasons.items())

