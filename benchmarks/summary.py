"""The table that a run ends with, for the terminal."""

from __future__ import annotations

from catalogue import CATALOGUE
from figures import ratio, seconds
from results import Results, median_of, ratio_of

OURS = "adjit"


def print_summary(results: Results) -> None:
    """adjit's time of a step, and its share of the time of each other library."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    others = [library for library in results.libraries if library != OURS]
    table = Table("problem", "adjit", *(f"/ {CATALOGUE[library].title}" for library in others), title="adjit's time over the others'")
    for workload in results.workloads:
        row = [Text(seconds(median_of(results.cell("step", workload, OURS))))]
        for library in others:
            value = ratio_of(results.cell("step", workload, library))
            row.append(Text(ratio(value) or "-", style="" if value is None else "green" if value < 1 else "red"))
        table.add_row(workload, *row)
    console = Console()
    Console(width=None if console.is_terminal else 160).print(table)
