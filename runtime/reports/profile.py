"""Profile of a call: the measured time of each step, with its source line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location
from adjit.ir.graph import Op
from adjit.ir.ops.control_flow import display_name


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One step of a program.

    `milliseconds` is its mean over the measured calls; `begin` (microseconds since the call began) and `duration` are of the last call.
    """

    name: str
    milliseconds: float
    role: str
    location: Location | None
    begin: float
    duration: float

    @property
    def source(self) -> str:
        """File, line and text of the source; empty if the line is not known."""
        return f"{self.location.file}:{self.location.line}  {self.location.source()}".rstrip() if self.location else ""


@dataclass(frozen=True, slots=True)
class Profile:
    """The steps of a program in execution order, over `calls` measured calls. `print` it for a table."""

    name: str
    calls: int
    entries: tuple[ProfileEntry, ...]

    @property
    def milliseconds(self) -> float:
        """Total time of all steps, per call."""
        return sum(entry.milliseconds for entry in self.entries)

    def save_chrome_trace(self, path: str | Path) -> None:
        """Write the last call as a file for chrome://tracing or ui.perfetto.dev."""
        events = [
            {"name": entry.name, "cat": entry.role, "ph": "X", "ts": entry.begin, "dur": entry.duration, "pid": 0, "tid": 0,
             "args": {"source": entry.source}}
            for entry in self.entries]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))

    def __str__(self) -> str:
        total = self.milliseconds
        lines = [f"@{self.name}: {total:.3f} ms a call in {len(self.entries)} steps (mean of {self.calls} calls)",
                 f"{'ms':>9}  {'share':>5}  {'step':<28}  {'role':<9}  source"]
        for entry in sorted(self.entries, key=lambda entry: -entry.milliseconds):
            share = entry.milliseconds / total if total else 0.0
            lines.append(f"{entry.milliseconds:9.4f}  {share:5.0%}  {entry.name:<28}  {entry.role:<9}  {entry.source}".rstrip())
        return "\n".join(lines)


def make_profile(name: str, runs: Sequence[Sequence[tuple[Op, int, int]]]) -> Profile:
    """The profile of some calls of one program; `runs` has, for each call, the ops in order, with start and end in nanoseconds."""
    last = runs[-1]
    start = last[0][1] if last else 0
    entries = []
    for index, (op, begin, end) in enumerate(last):
        mean = sum(run[index][2] - run[index][1] for run in runs) / len(runs)
        entries.append(ProfileEntry(
            display_name(op), mean / 1e6, op.role.value, op.loc, (begin - start) / 1e3, (end - begin) / 1e3))
    return Profile(name, len(runs), tuple(entries))
