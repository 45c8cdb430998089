"""The pictures of the report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from catalogue import CATALOGUE
from curves import AXES
from results import Cell, Results, median_of, ratio_of

COLOURS = {"adjit": "#d62728", "adjit_captured": "#7a0f10", "adjit_eager": "#17becf", "jax": "#1f77b4",
           "torch": "#ff7f0e", "torch_compile": "#8c564b",
           "autograd": "#2ca02c", "pytensor": "#9467bd", "tinygrad": "#e377c2", "numpy": "#7f7f7f"}
MARKERS = dict(zip(COLOURS, "ophsD^vP*X", strict=True))


def draw(results: Results, folder: Path) -> list[str]:
    """Write the pictures there are results for; their names."""
    import matplotlib
    matplotlib.use("Agg")
    drawn = []
    for name, picture in (("steps", _steps), ("first", _first_calls)):
        figure = picture(results)
        if figure is not None:
            _save(figure, folder / f"{name}.png")
            drawn.append(name)
    for axis in AXES:
        if any(cell.get("rounds") for _, cell in results.cells("curve", axis)):
            _save(_curve(results, axis), folder / f"curve-{axis}.png")
            drawn.append(f"curve-{axis}")
    return drawn


def _save(figure: Any, path: Path) -> None:
    from matplotlib import pyplot
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _steps(results: Results) -> Any:
    """Each library's time over adjit's, of each problem: the median of the rounds, from the least to the largest."""
    from matplotlib import pyplot
    peers = [library for library in results.libraries if library != "adjit"]
    cells = {(workload, library): cell for workload in results.workloads for library in peers
             if (cell := results.cell("step", workload, library)) is not None and cell.get("ratios")}
    if not cells:
        return None
    figure, axes = pyplot.subplots(figsize=(10, 4.2), layout="constrained")
    width = 0.84 / max(1, len(peers))
    for column, library in enumerate(peers):
        positions, heights, errors = [], [], ([], [])      # type: ignore[var-annotated]
        for row, workload in enumerate(results.workloads):
            if (cell := cells.get((workload, library))) is not None:
                middle = 1 / (ratio_of(cell) or 1)
                positions.append(row + (column - (len(peers) - 1) / 2) * width)
                heights.append(middle)
                errors[0].append(middle - 1 / max(cell["ratios"]))
                errors[1].append(1 / min(cell["ratios"]) - middle)
        axes.bar(positions, [height - 1 for height in heights], width * 0.92, bottom=1, yerr=errors, label=CATALOGUE[library].title,
                 color=COLOURS[library], error_kw={"elinewidth": 0.8, "ecolor": "#333333"})
    axes.axhline(1, color=COLOURS["adjit"], linewidth=1.6, label="adjit")
    axes.set_yscale("log")
    _plain_ticks(axes.yaxis)
    axes.set_xticks(range(len(results.workloads)), results.workloads)
    axes.set_ylabel("time / adjit's time")
    axes.set_title("Time of a step over adjit's: above the line, adjit is faster", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _first_calls(results: Results) -> Any:
    """The first step in a new process, with empty caches and with filled ones."""
    from matplotlib import pyplot
    libraries = [library for library in results.libraries
                 if any("first" in (results.cell("step", workload, library) or {}) for workload in results.workloads)]
    if not libraries:
        return None
    figure, axes = pyplot.subplots(figsize=(10, 4.2), layout="constrained")
    width = 0.84 / len(libraries)
    for column, library in enumerate(libraries):
        for kind, alpha in (("cold", 0.45), ("warm", 1.0)):
            found = [(row + (column - (len(libraries) - 1) / 2) * width, first[kind]) for row, workload in enumerate(results.workloads)
                     if kind in (first := (results.cell("step", workload, library) or {}).get("first", {}))]
            if found:
                axes.bar(*zip(*found, strict=True), width * 0.92, color=COLOURS[library], alpha=alpha,
                         label=CATALOGUE[library].title if kind == "cold" else None)
    axes.set_yscale("log")
    axes.set_xticks(range(len(results.workloads)), results.workloads)
    axes.set_ylabel("seconds")
    axes.set_title("First call in a new process: caches empty (pale), caches filled (full)", fontsize=11)
    axes.grid(axis="y", alpha=0.3)
    figure.legend(loc="outside lower center", ncols=5, fontsize=8)
    return figure


def _curve(results: Results, axis: str) -> Any:
    from matplotlib import pyplot
    figure, panels = pyplot.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    reads: list[tuple[str, Callable[[Cell], float | None]]] = [
        ("time of a step, s", median_of),
        ("most memory during steps, MB", _megabytes),
        ("first call, caches empty, s", lambda cell: cell.get("first", {}).get("cold"))]
    for panel, (label, read) in zip(panels, reads, strict=True):
        for library in results.libraries:
            found = [(int(parts[2]), value) for parts, cell in results.cells("curve", axis)
                     if parts[3] == library and "absent" not in cell and (value := read(cell)) is not None]
            if found:
                panel.plot(*zip(*sorted(found), strict=True), marker=MARKERS[library], markersize=4.5, linewidth=1.4,
                color=COLOURS[library], label=CATALOGUE[library].title)
        panel.set_xscale("log", base=2)
        panel.set_yscale("log")
        points = sorted({int(parts[2]) for parts, _ in results.cells("curve", axis)})
        panel.set_xticks(points, [str(point) for point in points])
        panel.minorticks_off()
        panel.set_xlabel(axis)
        panel.set_title(label, fontsize=10)
        panel.grid(alpha=0.3)
    panels[0].legend(fontsize=8)
    figure.suptitle(AXES[axis].title, fontsize=11)
    return figure


def _megabytes(cell: Cell) -> float | None:
    """Of what steps take; at least 0.1, for the logarithm's sake."""
    found = cell.get("memory", {}).get("steps")
    return None if found is None else max(0.1, found / 1e6)


def _plain_ticks(axis: Any) -> None:
    from matplotlib.ticker import FuncFormatter
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
