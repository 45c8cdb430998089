"""The section of the page about NVIDIA GPUs, from files of results of their own beside the comparison's: `gpu.json`, which a card writes,
and `gpu_counts.json`, which needs none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import prose
from figures import percent, ratio, seconds, size, table
from results import Results

RESULTS, COUNTS = "gpu.json", "gpu_counts.json"
OURS = "adjit"
NOTHING = "–"


def section(results: Results) -> Iterator[str]:
    """Parts of the page; none where no such file is beside the results."""
    counted, timed = (path if (path := results.path.with_name(name)).exists() else None for name in (COUNTS, RESULTS))
    if counted or timed:
        yield "## GPU"
    if timed:
        yield from parts(json.loads(timed.read_text()))
    if counted:
        yield from counts(json.loads(counted.read_text()), bool(timed))


def counts(content: dict[str, Any], timed: bool) -> Iterator[str]:
    """What programs ask of a card, and the least time in which it can do that."""
    card, works = content["card"], content["works"]
    yield "### What is counted without a card"
    yield (prose.GPU_COUNTS if timed else f"{prose.GPU_UNTIMED} {prose.GPU_COUNTS}").format(
        card=card["name"], bandwidth=f"{card['bytes'] / 1e12:.1f} TB/s", operations=f"{card['operations'] / 1e12:.0f} TFLOP/s",
        instructions=f"{card['instructions'] / 1e12:.1f} T")
    yield "\n".join(f"- `{name}`: {work['about']}" for name, work in works.items())
    yield table(["", "kernels", "launches", "longest chain", "memory moved", "least", "GFLOP", "instructions", "computed", "target"], [
        [f"`{name}`", str(work["kernels"]), str(work["launches"]), str(work["chain"]), size(work["bytes"]), size(work["least_bytes"]),
         f"{work['operations'] / 1e9:.3g}" if work["operations"] else NOTHING,
         f"{work['instructions']:.3g}" if "instructions" in work else NOTHING, seconds(work["seconds"]),
         seconds(work["target"]) or NOTHING] for name, work in works.items()])
    yield prose.GPU_PRODUCTS.format(tiles="; ".join(
        f"{percent(found['share'])} in tiles of {label}, {found['operations_a_byte']:.0f} operations for each byte that a tile reads"
        for label, found in content["products"].items()))


def parts(content: dict[str, Any]) -> Iterator[str]:
    """What a card measured."""
    cells = content["cells"]
    yield prose.GPU.format(card=content["card"], about=content["about"], date=content["begun"][:10], commit=content["commit"])
    yield "\n".join(f"- `{name}`: {cell['about']}" for name, cell in cells.items())
    libraries = [OURS, *dict.fromkeys(library for cell in cells.values() for library in cell["libraries"] if library != OURS)]
    rows = []
    for name, cell in cells.items():
        found, ours = cell["libraries"], cell["libraries"][OURS]
        rate = f"{size(cell['bytes'] / ours['seconds'])}/s" if cell["bytes"] else NOTHING
        rows.append([f"`{name}`", *(seconds(found[library]["seconds"]) if library in found else NOTHING for library in libraries), rate,
                     seconds(ours["cpu"]), seconds(ours["first"]),
                     *(ratio(found[library]["seconds"] / ours["seconds"]) if library in found else NOTHING for library in libraries[1:])])
    yield table(["", *libraries, "memory", "processor", "first call", *(f"{library} / adjit" for library in libraries[1:])], rows)
