"""What other memory budgets would cost: the program is compiled again for each, and run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import UnsupportedError
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.reports.memory_blocks import format_bytes, html_table
from adjit.runtime.reports.reports import memory_of

if TYPE_CHECKING:
    from adjit.runtime.program import Program

HEAD = ("budget", "saved", "peak", "arena", "predicted ms", "measured ms")


@dataclass(frozen=True, slots=True)
class Choice:
    """A program for one memory budget; None is no budget. `peak_bytes` include the tile of one thread. `predicted` are milliseconds on one
    thread by the compiler's own estimate, None where the backend has none; `measured` are those of a call."""

    budget: int | float | None
    saved_bytes: int
    peak_bytes: int
    arena_bytes: int
    predicted: float | None
    measured: float

    def cells(self) -> tuple[str, ...]:
        """Texts for a table."""
        budget = "none" if self.budget is None else format_bytes(self.budget) if isinstance(self.budget, int) else f"{self.budget:.0%}"
        return (budget, format_bytes(self.saved_bytes), format_bytes(self.peak_bytes), format_bytes(self.arena_bytes),
                "" if self.predicted is None else f"{self.predicted:.3f}", f"{self.measured:.3f}")


@dataclass(frozen=True, slots=True)
class WhatIf:
    """Programs of one function for several memory budgets. `print` it for a table, `.plot(path)` it for a picture."""

    name: str
    choices: tuple[Choice, ...]

    def __str__(self) -> str:
        rows = [HEAD, *(choice.cells() for choice in self.choices)]
        widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
        return "\n".join([f"@{self.name}, by memory budget",
                          *("  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows)])

    def plot(self, path: str | Path) -> None:
        """Draw peak bytes and measured time over the budgets to an image file (PNG, SVG or PDF). Needs matplotlib."""
        try:
            from matplotlib.figure import Figure
        except ImportError:
            raise UnsupportedError("a picture needs matplotlib, which is not installed", hint="pip install 'adjit[plot]'") from None
        figure = Figure(figsize=(6.4, 4.0), layout="constrained")
        axes = figure.add_subplot()
        labels = [choice.cells()[0] for choice in self.choices]
        axes.bar(labels, [choice.peak_bytes / 1e6 for choice in self.choices], color="#9ecae1", label="peak")
        axes.set_ylabel("working memory at the peak, MB")
        axes.set_xlabel("memory budget")
        times = axes.twinx()
        times.plot(labels, [choice.measured for choice in self.choices], color="#c0392b", marker="o")
        times.set_ylabel("milliseconds a call", color="#c0392b")
        times.set_ylim(bottom=0)
        axes.set_title(f"@{self.name}")
        figure.savefig(path)

    def _repr_html_(self) -> str:
        return html_table(HEAD, [choice.cells() for choice in self.choices])


def compare_budgets(compile_for: Callable[[int | float | None], Program], run: Callable[[Program], float],
                    budgets: Sequence[int | float | None]) -> WhatIf:
    """The programs that `compile_for` makes for `budgets`, each measured by `run`, in milliseconds."""
    choices, name = [], ""
    for budget in budgets:
        program = compile_for(budget)
        report = memory_of(program)
        executable = program.executable
        predicted = executable.code.artifact.work / 1e6 if isinstance(executable, NativeExecutable) else None
        name = program.planned.name
        working = report.peak_bytes + report.tile_bytes
        choices.append(Choice(budget, report.saved_bytes, working, report.arena_bytes, predicted, run(program)))
    return WhatIf(name, tuple(choices))

