"""Writes what was measured as a page of tables and pictures.

    python benchmarks/report.py [RESULTS] [--output docs/benchmarks.md]
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gpu_report
import programs_report
import prose
import targets
from catalogue import CATALOGUE
from curves import AXES
from figures import binary_size, percent, ratio, seconds, size, table
from limits import limit_of
from plots import draw
from problems import PROBLEMS
from results import FOLDER, ROOT, Cell, Results, median_of, ratio_of

OURS = "adjit"
BUSY = 0.05
"""The share of the machine taken by others from which on a run is called disturbed."""

NOTHING = "–"


def render(results: Results, output: Path) -> None:
    """Write the page, and its pictures into the folder of the same name beside it."""
    pictures = output.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    drawn = draw(results, pictures)
    output.write_text(page(results, {name: f"{pictures.name}/{name}.png" for name in drawn}))


def page(results: Results, pictures: dict[str, str]) -> str:
    parts = [_head(results), *_times(results, pictures), *_limits(results), *_first_calls(results, pictures), *_memory(results),
             *_calls(results), *programs_report.section(results), *gpu_report.section(results), *_curves(results, pictures),
             *_promises(results), *_absent(results), *_fairness(results), prose.METHOD]
    return "\n\n".join(parts) + "\n"


def _titles(libraries: list[str]) -> list[str]:
    return [CATALOGUE[library].title for library in libraries]


def _present(results: Results) -> list[str]:
    return [library for library in results.libraries if "absent" not in results.content["libraries"][library]]


def _head(results: Results) -> str:
    content = results.content
    quick = ", in quick mode" if content["settings"]["quick"] else ""
    parts = ["# Benchmarks", prose.INTRODUCTION.format(file=results.path.name),
             f"Measured {content['begun'][:10]} at commit `{content['commit']}` on {_machine(content['machine'])}{quick}."]
    best = {name: max(found) for name in results.workloads if (found := _against_others(results, name))}
    ahead = [name for name, value in best.items() if value < 1]
    behind = [name for name in best if name not in ahead]
    if best:
        parts.append(f"Against the fastest of the others, adjit is ahead in {len(ahead)} of {len(best)} problems"
                     + (f" ({', '.join(ahead)})" if ahead else "") + (f" and behind in {', '.join(behind)}." if behind else "."))
    load = _loads(results)
    if load and statistics.median(load) > BUSY:
        parts.append(prose.DISTURBED.format(most=percent(max(load)), median=percent(statistics.median(load))))
    return "\n\n".join(parts)


def _machine(machine: dict[str, Any]) -> str:
    facts = ["AVX-512" if machine["avx512"] else "no AVX-512",
             *(f"{name} {binary_size(value)}" for name, value in machine["caches"].items())]
    return f"{machine['cores']} cores of {machine['processor']} ({', '.join([*facts, *['a virtual machine'] * machine['virtual']])})"


def _loads(results: Results) -> list[float]:
    return [load for _, cell in results.cells("step") for load in cell.get("load", ())]


def _against_others(results: Results, workload: str) -> list[float]:
    """adjit's time over each other library's."""
    ratios = [ratio_of(results.cell("step", workload, library)) for library in _present(results) if not CATALOGUE[library].ours]
    return [value for value in ratios if value is not None]


def _times(results: Results, pictures: dict[str, str]) -> Iterator[str]:
    libraries = _present(results)
    others = [library for library in libraries if library != OURS]
    times, ratios = [], []
    for workload in results.workloads:
        cells = {library: results.cell("step", workload, library) for library in libraries}
        medians = [value for cell in cells.values() if (value := median_of(cell)) is not None]
        times.append([f"`{workload}`", *(_time_text(cell, min(medians, default=0.0)) for cell in cells.values())])
        ratios.append([f"`{workload}`", *(_ratio_text(cells[library]) for library in others)])
    if times:
        yield "## Time of a step"
        yield "\n".join(f"- `{name}`: {(PROBLEMS[name].__doc__ or '').strip()}" for name in results.workloads)
        yield prose.TIMES
        yield table(["", *_titles(libraries)], times)
        yield from _picture(pictures, "steps", "Time of a step over adjit's")
        yield prose.RATIOS
        yield table(["", *_titles(others)], ratios)


def _time_text(cell: Cell | None, best: float) -> str:
    value = median_of(cell)
    if cell is None or value is None:
        return NOTHING
    text = f"{seconds(value)}<br>{seconds(cell['minimum'])}"
    return f"**{text}**" if value == best else text


def _ratio_text(cell: Cell | None) -> str:
    value = ratio_of(cell)
    return NOTHING if cell is None or value is None else f"{ratio(value)} ({ratio(min(cell['ratios']))}–{ratio(max(cell['ratios']))})"


def _picture(pictures: dict[str, str], name: str, text: str) -> list[str]:
    return [f"![{text}]({pictures[name]})"] if name in pictures else []


def _limits(results: Results) -> Iterator[str]:
    ceilings, libraries = results.content["ceilings"], _present(results)
    if not ceilings or not results.workloads:
        return
    rows = []
    for workload in results.workloads:
        problem = PROBLEMS[workload]()
        limit = limit_of(problem, ceilings)
        medians = [median_of(results.cell("step", workload, library)) for library in libraries]
        shares = [NOTHING if value is None else percent(limit.seconds / value) for value in medians]
        rows.append([f"`{workload}`", f"{problem.operations / 1e6:.3g}", size(problem.least_bytes), seconds(limit.seconds), limit.by,
                     *shares])
    yield "## How far from the limit"
    yield prose.LIMITS.format(
        threads=ceilings["threads"],
        peaks=", ".join(f"{value / 1e9:.0f} GFLOP/s in {dtype}" for dtype, value in ceilings["operations"].items()),
        levels=", ".join(f"{ceilings[level] / 1e9:.0f} GB/s from {level}" for level in ("L2", "L3", "DRAM")))
    yield table(["", "MFLOP", "least bytes", "limit", "by", *_titles(libraries)], rows)


def _first_calls(results: Results, pictures: dict[str, str]) -> Iterator[str]:
    libraries = _present(results)
    rows = []
    for workload in results.workloads:
        firsts = [(results.cell("step", workload, library) or {}).get("first", {}) for library in libraries]
        rows.append([f"`{workload}`", *("<br>".join(seconds(first[kind]) for kind in ("cold", "warm") if kind in first) or NOTHING
                                        for first in firsts)])
    if not rows:
        return
    imports: dict[str, list[float]] = {library: [] for library in libraries}
    for parts, cell in results.cells("step"):
        imports.get(parts[2], []).extend(cell.get("import", ()))
    rows.append(["`import`", *(seconds(statistics.median(found)) if found else NOTHING for found in imports.values())])
    rows.append(["installed", *(size(results.content["libraries"][library].get("size")) for library in libraries)])
    yield "## First call, import, size"
    settings = results.content["settings"]
    yield prose.FIRST_CALLS.format(repeated=prose.REPEATED.format(**settings) if settings["first_calls"] > 1 else "")
    yield table(["", *_titles(libraries)], rows)
    yield from _picture(pictures, "first", "First calls")


def _memory(results: Results) -> Iterator[str]:
    libraries = _present(results)
    rows = []
    for workload in results.workloads:
        texts = []
        for library in libraries:
            memory = (results.cell("step", workload, library) or {}).get("memory", {})
            lines = [size(memory[kind]) for kind in ("steps", "cold") if memory.get(kind) is not None]
            planned = memory.get("planned")
            texts.append("<br>".join([*lines, *([f"*{size(planned)}*"] if planned is not None else [])]) or NOTHING)
        rows.append([f"`{workload}`", *texts])
    if rows:
        yield "## Memory"
        yield prose.MEMORY.format(where=" in a process that found filled caches" if results.content["settings"]["starts"] else "")
        yield table(["", *_titles(libraries)], rows)


def _calls(results: Results) -> Iterator[str]:
    libraries = _present(results)
    counts = list(dict.fromkeys(parts[1] for parts, _ in results.cells("overhead")))
    if counts:
        yield "## What a call costs"
        yield prose.CALLS
        yield table(["arrays", *_titles(libraries)],
                    [[count, *(seconds(median_of(results.cell("overhead", count, library))) or NOTHING for library in libraries)]
                     for count in counts])


def _curves(results: Results, pictures: dict[str, str]) -> Iterator[str]:
    axes = [axis for axis in AXES if any(results.cells("curve", axis))]
    if not axes:
        return
    drawn = {parts[3] for parts, _ in results.cells("curve")}
    libraries = [library for library in _present(results) if library in drawn]
    yield "## How cost grows"
    yield prose.CURVES.format(limit=results.content["settings"]["point_limit"])
    for axis in axes:
        points = list(dict.fromkeys(parts[2] for parts, _ in results.cells("curve", axis)))
        yield f"### {AXES[axis].title}"
        yield from _picture(pictures, f"curve-{axis}", AXES[axis].title)
        yield table([axis, *_titles(libraries)],
                    [[point, *(seconds(median_of(results.cell("curve", axis, point, library))) or NOTHING for library in libraries)]
                     for point in points])
    left_out = [f"{entry.title}, {entry.curves}" for library, entry in CATALOGUE.items()
                if library in _present(results) and library not in drawn and isinstance(entry.curves, str)]
    if left_out:
        yield prose.LEFT_OUT.format(libraries="; ".join(left_out))


def _promises(results: Results) -> Iterator[str]:
    found = [row for row in targets.rows(results) if row.met is not None]
    if found:
        yield "## What was promised"
        yield table(["", "target", "measured", ""], [
            [row.name, row.target, row.measured, row.verdict if row.met else f"**{row.verdict}**"] for row in found])


def _absent(results: Results) -> Iterator[str]:
    facts = results.content["libraries"]
    lines = [f"- {CATALOGUE[library].title}: {facts[library]['absent']}" for library in facts if "absent" in facts[library]]
    what = {"step": "`{}`", "overhead": "{} small arrays", "curve": "curve of {}"}
    reasons: dict[tuple[str, str], list[str]] = {}
    for parts, cell in results.cells():
        if "absent" in cell and "absent" not in facts[parts[-1]]:
            texts = reasons.setdefault((parts[-1], cell["absent"]), [])
            if (text := what[parts[0]].format(parts[1])) not in texts:
                texts.append(text)
    lines += [f"- {CATALOGUE[library].title}, {', '.join(texts)}: {reason}" for (library, reason), texts in reasons.items()]
    if lines:
        yield "## What is absent, and why"
        yield "\n".join(lines)


def _fairness(results: Results) -> Iterator[str]:
    libraries = results.content["libraries"]
    lines = []
    for library in _present(results):
        facts, entry = libraries[library], CATALOGUE[library]
        known = [", ".join(f"{name} {version}" for name, version in facts.get("versions", {}).items()),
                 f"{facts['threads']} threads" if facts.get("threads") else "", ", ".join(facts.get("blas", ()))]
        lines.append(f"**{entry.title}** ({'; '.join(filter(None, known))}): {entry.usage}. Results: {entry.outputs}.")
    mkl = libraries.get("torch", {}).get("facts", {}).get("mkl")
    if mkl is not None:
        lines.append(prose.PRODUCTS.format(source="MKL, which is linked into it" if mkl else "the BLAS that it was built with"))
    lines += [prose.VARIABLES.format(system=results.content["machine"]["system"]), prose.DTYPES]
    if libraries.get("adjit", {}).get("facts", {}).get("flushing"):
        lines.append(prose.SUBNORMALS)
    load = _loads(results)
    if load:
        lines.append(prose.LOAD.format(median=percent(statistics.median(load)), most=percent(max(load))))
    yield "## Fairness"
    yield "\n".join(f"- {line}" for line in lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="?", default=FOLDER / "comparison.json")
    parser.add_argument("--output", type=Path, default=ROOT / "docs" / "benchmarks.md")
    options = parser.parse_args()
    render(Results.read(options.results), options.output)
    print(f"written: {options.output}")


if __name__ == "__main__":
    main()
