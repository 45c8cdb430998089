"""Profile of a call: the measured time of each step, with its source line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from adjit.ir.analysis.cost import cost_of
from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location
from adjit.ir.graph import Graph, Op
from adjit.ir.ops.control_flow import display_name
from adjit.passes.pipeline import PassRecord


@dataclass(frozen=True, slots=True)
class ProfileEntry:
    """One step of a program.

    `milliseconds` is its mean over the measured calls; `begin` (microseconds since the call began) and `duration` are of the last call.
    `operations` and `nbytes` are floating-point operations, and bytes read and written.
    """

    name: str
    milliseconds: float
    phase: str
    location: Location | None
    begin: float
    duration: float
    operations: int = 0
    nbytes: int = 0

    @property
    def source(self) -> str:
        """File, line and text of the source; empty if the line is not known."""
        return f"{self.location.file}:{self.location.line}  {self.location.source()}".rstrip() if self.location else ""


@dataclass(frozen=True, slots=True)
class Span:
    """A stage or a pass of the first call: `begin` and `milliseconds` since the call began, the `row` that it is drawn in."""

    name: str
    begin: float
    milliseconds: float
    row: int
    remark: str = ""


@dataclass(frozen=True, slots=True)
class ThreadSpan:
    """A range of a step's tasks in the last call: `begin` and `duration` in microseconds; threads are numbered from 0."""

    name: str
    thread: int
    begin: float
    duration: float


@dataclass(frozen=True, slots=True)
class Profile:
    """The steps of a program in execution order, over `calls` measured calls. `print` it for a table.

    `compilation` are the stages and passes of the first call, `live_bytes` the bytes of working memory in use during each step,
    `threads` what each thread ran of the steps that are divided among threads.
    """

    name: str
    calls: int
    entries: tuple[ProfileEntry, ...]
    compilation: tuple[Span, ...] = ()
    live_bytes: tuple[int, ...] = ()
    threads: tuple[ThreadSpan, ...] = ()

    @property
    def milliseconds(self) -> float:
        """Total time of all steps, per call."""
        return sum(entry.milliseconds for entry in self.entries)

    def save(self, path: str | Path) -> None:
        """Write the last call, and the first one with its passes, as a file for ui.perfetto.dev or chrome://tracing.

        Two processes are shown: "call", in which each step is a slice with its line, operations and bytes, and the bytes of working memory
        in use are a counter, with a row below for each thread that ran a part of a step; and "first call", with the trace, each pass and
        the generation of machine code.
        """
        events: list[dict[str, object]] = [
            {"name": "process_name", "ph": "M", "pid": pid, "args": {"name": name}}
            for pid, name in enumerate((f"call of @{self.name}", f"first call of @{self.name}"))]
        events += [{"name": "thread_name", "ph": "M", "pid": pid, "tid": tid, "args": {"name": name}}
                   for pid, tid, name in ((0, 0, "steps"), (1, 0, "stages"), (1, 1, "passes"))]
        events += [
            {"name": entry.name, "cat": entry.phase, "ph": "X", "ts": entry.begin, "dur": entry.duration, "pid": 0, "tid": 0,
             "args": {"source": entry.source, "mean ms": entry.milliseconds, "operations": entry.operations, "bytes": entry.nbytes}}
            for entry in self.entries]
        events += [{"name": "thread_name", "ph": "M", "pid": 0, "tid": 1 + thread, "args": {"name": f"thread {thread}"}}
                   for thread in sorted({span.thread for span in self.threads})]
        events += [{"name": span.name, "cat": "tasks", "ph": "X", "ts": span.begin, "dur": span.duration, "pid": 0, "tid": 1 + span.thread}
                   for span in self.threads]
        events += [{"name": "working memory", "ph": "C", "ts": entry.begin, "pid": 0, "args": {"bytes": nbytes}}
                   for entry, nbytes in zip(self.entries, self.live_bytes, strict=False)]
        events += [{"name": span.name, "cat": "compile", "ph": "X", "ts": span.begin * 1e3, "dur": span.milliseconds * 1e3, "pid": 1,
                    "tid": span.row, "args": {"remark": span.remark}} for span in self.compilation]
        Path(path).write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))

    def __str__(self) -> str:
        total = self.milliseconds
        lines = [f"@{self.name}: {total:.3f} ms a call in {len(self.entries)} steps (mean of {self.calls} calls)",
                 f"{'ms':>9}  {'share':>5}  {'step':<28}  {'phase':<10}  source"]
        for entry in sorted(self.entries, key=lambda entry: -entry.milliseconds):
            share = entry.milliseconds / total if total else 0.0
            lines.append(f"{entry.milliseconds:9.4f}  {share:5.0%}  {entry.name:<28}  {entry.phase:<10}  {entry.source}".rstrip())
        return "\n".join(lines)


def first_call(trace: float, records: Sequence[PassRecord], passes: float, kernels: float) -> tuple[Span, ...]:
    """The stages of a first call, of these milliseconds, and its passes. A program that the disk cache has ran none of them."""
    spans = [Span("trace", 0.0, trace, 0), Span("passes", trace, passes, 0), Span("machine code (LLVM)", trace + passes, kernels, 0)]
    at = trace
    for record in records if passes else ():
        remark = f"{record.ops_before} -> {record.ops_after} ops {record.remark}".strip()
        spans.append(Span(record.name, at, record.milliseconds, 1, remark))
        at += record.milliseconds + record.verify_milliseconds
    return tuple(spans)


def make_profile(name: str, runs: Sequence[Sequence[tuple[Op, int, int]]], compilation: tuple[Span, ...] = (),
                 live_bytes: tuple[int, ...] = (), spans: Sequence[tuple[Op, int, int, int]] = ()) -> Profile:
    """The profile of some calls of one program; `runs` has, for each call, the ops in order, with start and end in nanoseconds, `spans`
    for each range of tasks in the last call the op, a number that tells the thread, start and end."""
    last = runs[-1]
    start = last[0][1] if last else 0
    entries = []
    for index, (op, begin, end) in enumerate(last):
        mean = sum(run[index][2] - run[index][1] for run in runs) / len(runs)
        entries.append(ProfileEntry(
            display_name(op), mean / 1e6, op.role.phase, op.loc, (begin - start) / 1e3, (end - begin) / 1e3,
            *_cost(op)))
    numbers = {thread: number for number, thread in enumerate(sorted({thread for _, thread, _, _ in spans}))}
    threads = tuple(ThreadSpan(display_name(op), numbers[thread], (begin - start) / 1e3, (end - begin) / 1e3)
                    for op, thread, begin, end in sorted(spans, key=lambda span: span[2]))
    return Profile(name, len(runs), tuple(entries), compilation, live_bytes, threads)


def _cost(op: Op) -> tuple[int, int]:
    cost = cost_of(Graph("", op.operands, (op,), op.results))
    return cost.operations, cost.nbytes
