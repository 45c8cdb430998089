"""One page of a compiled program: an HTML file that needs no network, with graphs, kernels, times, memory and what was saved.

Python gathers the facts (`page_data`), the script of the page shows them (`page/page.js`). Graphs are laid out by dagre and drawn by
Cytoscape.js, which the page holds (`page/LICENSES.txt`).
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from adjit.ir.analysis.cost import cost_of
from adjit.ir.definition import Kind
from adjit.ir.errors import ArgumentError, Location, Role
from adjit.ir.graph import Graph, Op, Value, producers
from adjit.ir.ops.control_flow import display_name
from adjit.ir.printer import attribute
from adjit.passes.autodiff.partition.choose_saved_values import backward_ops, saved_values
from adjit.runtime.native.executable import NativeExecutable
from adjit.runtime.reports.memory_blocks import format_bytes
from adjit.runtime.reports.memory_report import MemoryReport
from adjit.runtime.reports.native_report import step_names
from adjit.runtime.reports.reports import assembly_texts, kernel_texts, memory_of
from adjit.tracer.user_location import find_user_location

if TYPE_CHECKING:
    from adjit.runtime.capture.compiled_operation import Half
    from adjit.runtime.program import Program
    from adjit.runtime.reports.profile import Profile

HIDDEN_ATTRIBUTES = frozenset({"scratch_bytes", "rows", "columns", "in_place"})
MAX_ATTRIBUTE = 120
"""Letters of an attribute that a page shows: tables of numbers are longer."""


class Page:
    """The page of a program: `html` is its text; a notebook shows it. `path` is its file, None if it was not written."""

    def __init__(self, name: str, html: str, path: Path | None):
        self.name, self.html, self.path = name, html, path

    def __fspath__(self) -> str:
        if self.path is None:
            raise ArgumentError("the page was not written to a file", find_user_location(), hint='name one: f.report("page.html")')
        return str(self.path)

    def __repr__(self) -> str:
        return f"<page of @{self.name}{'' if self.path is None else f' in {self.path}'}>"

    def _repr_html_(self) -> str:
        return f'<iframe srcdoc="{escape(self.html)}" style="width:100%;height:720px;border:1px solid #ccc"></iframe>'


def make_page(program: Program, path: str | Path | None, explained: str, profile: Profile | None) -> Page:
    """Make the page of a program, and write it to a file if a path is given."""
    html = page_text(page_data(program, explained, profile))
    if path is not None:
        path = Path(path)
        path.write_text(html, encoding="utf-8")
    return Page(program.planned.name, html, path)


def page_text(data: Mapping[str, Any]) -> str:
    """The HTML text of a page."""
    parts = {name: (files("adjit.runtime.reports") / "page" / name).read_text(encoding="utf-8")
             for name in ("page.html", "page.css", "page.js", "cytoscape.min.js", "dagre.min.js")}
    text = parts.pop("page.html").replace("/*data*/", json.dumps(data).replace("<", "\\u003c"))
    for name, part in parts.items():
        text = text.replace(f"/*{name}*/", part)
    return text.replace("<!--name-->", str(data["name"]).replace("<", "&lt;"))


def page_data(program: Program, explained: str, profile: Profile | None) -> dict[str, Any]:
    """The facts of a page, as JSON has them. `explained` is the text of `explain()`, `profile` the measured times, if there are any."""
    graphs = program.pipeline.graphs
    backward = program.backward
    shown = {"before fusion": _graph(graphs["optimized"]), "after fusion": _graph(graphs["fused"]), "as traced": _graph(graphs["traced"])}
    if backward is not None:
        shown["backward half, before fusion"] = _graph(backward.pipeline.graphs["optimized"])
        shown["backward half, after fusion"] = _graph(backward.pipeline.graphs["fused"])
    return {
        "name": program.planned.name, "explain": explained, "graphs": shown, "kernels": _kernels(program), "steps": _steps(profile),
        "memory": _memory(memory_of(program)), "saved": _saved(program), "recomputed": _recomputed(graphs["optimized"]),
        "machine": machine_limits() if profile is not None else None}


# -- graphs


def _graph(graph: Graph) -> dict[str, Any]:
    nodes = _Nodes(graph)
    return {"nodes": nodes.nodes, "lines": nodes.lines}


class _Nodes:
    """Nodes of a graph: parameters, ops, those in the regions of loops and kernels, results. Constants are left out."""

    def __init__(self, graph: Graph):
        self.nodes: list[dict[str, Any]] = []
        self.lines: dict[str, str] = {}
        self._of: dict[Value, int] = {}
        self._kept = set(saved_values(graph))
        for value, role in zip(graph.params, graph.param_roles, strict=True):
            self._of[value] = self._add(op=value.name or "parameter", type=str(value.type), role=f"{role} parameter", kind="parameter")
        self._ops(graph, None, 1)
        for number, value in enumerate(graph.results):
            if value in self._of:
                self._add(op=f"result {number}", type=str(value.type), role="result", kind="result", operands=[self._of[value]])

    def _add(self, **fields: Any) -> int:
        self.nodes.append({"id": len(self.nodes), "operands": [], "parent": None, "line": None, **fields})
        return len(self.nodes) - 1

    def _ops(self, graph: Graph, parent: int | None, times: int) -> None:
        for op in graph.ops:
            if op.definition.kind in (Kind.MEMORY, Kind.CREATION):
                continue
            cost = cost_of(Graph("", op.operands, (op,), op.results))
            number = self._add(
                op=display_name(op) if op.regions else op.name, type=", ".join(str(value.type) for value in op.results), role=op.role.value,
                kind=_kind(op), operands=[self._of[value] for value in dict.fromkeys(op.operands) if value in self._of], parent=parent,
                line=self._line(op.loc), operations=cost.operations * times, bytes=cost.nbytes * times, attributes=_attributes(op),
                saved=any(value in self._kept for value in op.results), loop=_loop(op))
            self._of.update((value, number) for value in op.results)
            trips = op.attrs.get(op.definition.runs, 1) if op.definition.runs else 1
            outer = op.operands[1:] if op.name == "cond" else op.operands
            for region in op.regions:
                self._of.update((param, self._of[value]) for param, value in zip(region.params, outer, strict=False) if value in self._of)
                self._ops(region, number, times * int(trips))

    def _line(self, location: Location | None) -> str | None:
        if location is None:
            return None
        key = f"{location.file}:{location.line}"
        self.lines.setdefault(key, f"{location.function}\n{location.source()}")
        return key


def _kind(op: Op) -> str:
    return "kernel" if op.name in ("fused", "matmul_epilogue") else "loop" if op.regions else "op"


def _loop(op: Op) -> str:
    """What a box says of the runs of its regions."""
    if op.name == "scan":
        return f"loop, {op.attrs['length']} times"
    return {"while_loop": "while loop", "cond": "branch", "tiled": "tiles"}.get(op.name, "")


def _attributes(op: Op) -> str:
    texts = (f"{name}={attribute(value)}" for name, value in sorted(op.attrs.items()) if name not in HIDDEN_ATTRIBUTES)
    return ", ".join(text if len(text) <= MAX_ATTRIBUTE else f"{text[:MAX_ATTRIBUTE]}..." for text in texts)


MAX_ASSEMBLY = 1 << 20
"""Characters of assembly in a page, which is to be there in a second."""

# -- kernels and times


def _kernels(program: Program) -> list[dict[str, Any]]:
    """Code of each kernel or step, with lines, operations and bytes of the ops in it."""
    texts = kernel_texts(program)
    found: dict[str, dict[str, Any]] = {name: {"name": name, "text": text, "lines": [], "operations": 0, "bytes": 0, "uses": 0}
                                        for name, text in texts.items()}
    left = MAX_ASSEMBLY
    for name, text in assembly_texts(program).items():
        if name in found and len(text) <= left:
            found[name]["assembly"] = text
            left -= len(text)
    halves: list[Program | Half] = [program, *([] if program.backward is None else [program.backward])]
    for half in halves:
        for name, op in _named_steps(half):
            entry = found.get(name) or found.get(op.name)
            if entry is None:
                continue
            cost = cost_of(Graph("", op.operands, (op,), op.results))
            entry["operations"] += cost.operations
            entry["bytes"] += cost.nbytes
            entry["uses"] += 1
            located = (inner.loc for inner in (*_region_ops(op), op) if inner.loc is not None)
            lines = (f"{loc.file}:{loc.line}  {loc.source()}" for loc in located)
            entry["lines"] = list(dict.fromkeys((*entry["lines"], *lines)))
    return list(found.values())


def _named_steps(half: Program | Half) -> Iterator[tuple[str, Op]]:
    """The ops of a program, each with the name of its code: steps of equal ops may have code of their own."""
    executable = half.executable
    if not isinstance(executable, NativeExecutable):
        yield from ((display_name(op), op) for op in _all_ops(half.planned))
        return
    names, ops = step_names(executable), executable.assignment.ops
    yield from ((names[call.function], ops[call.number]) for call in executable.program.calls if call.number >= 0)


def _all_ops(graph: Graph) -> Iterator[Op]:
    for op in graph.ops:
        yield op
        if _kind(op) == "loop":
            for region in op.regions:
                yield from _all_ops(region)


def _region_ops(op: Op) -> Iterator[Op]:
    for region in op.regions:
        yield from region.ops


def _steps(profile: Profile | None) -> list[dict[str, Any]]:
    if profile is None:
        return []
    return [{"name": entry.name, "ms": entry.milliseconds, "role": entry.phase, "source": entry.source, "operations": entry.operations,
             "bytes": entry.nbytes} for entry in profile.entries]


@cache
def machine_limits() -> dict[str, float]:
    """Operations a second of NumPy's product of float32 matrices, and bytes a second of its copy: what the roofline is drawn with."""
    a = np.ones((512, 512), np.float32)
    source, target = np.ones(1 << 23, np.float32), np.empty(1 << 23, np.float32)
    product = min(_seconds(lambda: a @ a) for _ in range(20))
    copy = min(_seconds(lambda: np.copyto(target, source)) for _ in range(10))
    return {"operations": 2 * 512.0 ** 3 / product, "bytes": 2 * source.nbytes / copy}


def _seconds(run: Any) -> float:
    begin = time.perf_counter()
    run()
    return time.perf_counter() - begin


# -- memory


def _memory(report: MemoryReport) -> dict[str, Any]:
    blocks = [{"name": block.name, "size": block.size, "first": block.first_use, "last": block.last_use, "role": block.role.value,
               "offset": block.offset, "line": None if block.location is None else f"{block.location.file}:{block.location.line}",
               "source": block.source} for block in report.blocks]
    return {"blocks": blocks, "live": list(report.live_bytes), "arena": report.arena_bytes, "peak": report.peak_bytes,
            "naive": report.naive_bytes, "saved": report.saved_bytes}


def _saved(program: Program) -> list[dict[str, str]]:
    """Values that the backward half reads, and the ops that read each."""
    if program.backward is None:
        graph = program.pipeline.graphs["optimized"]
        values, readers = saved_values(graph), backward_ops(graph)
        maker = producers(graph)
        made = {value: maker[value] for value in values}
    else:
        assert program.tensors is not None
        assert program.tensors.operation is not None
        half, front = program.backward.pipeline.graphs["traced"], program.tensors.operation
        values, readers = list(half.params[:len(front.saved)]), set(half.ops)
        makers = producers(front.graph)
        sources = [front.graph.results[slot.index] if slot.is_result else front.graph.params[slot.index] for slot in front.saved]
        made = {value: makers[source] for value, source in zip(values, sources, strict=True) if source in makers}
    rows = []
    for value in values:
        uses = Counter(_where(op) for op in readers if value in op.operands)
        op = made.get(value)
        rows.append({"value": value.name or ("an argument" if op is None else op.name), "type": str(value.type),
                     "size": format_bytes(value.type.nbytes), "made": "" if op is None else _where(op),
                     "why": "; ".join(f"read by {where}{f' ({count} times)' if count > 1 else ''}" for where, count in sorted(uses.items()))
                     or "read by the backward half"})
    return rows


def _recomputed(graph: Graph) -> list[dict[str, str]]:
    return [{"value": op.name, "type": ", ".join(str(value.type) for value in op.results), "where": _where(op)}
            for op in graph.ops if op.role is Role.RECOMPUTE]


def _where(op: Op) -> str:
    return op.name if op.loc is None else f"{op.name} at {op.loc.file}:{op.loc.line}"

