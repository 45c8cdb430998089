"""The section of the page about NVIDIA GPUs, from a file of results of its own, `gpu.json` beside the comparison's."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import prose
from figures import ratio, seconds, size, table
from results import Results

RESULTS = "gpu.json"
OURS = "adjit"
NOTHING = "–"


def section(results: Results) -> Iterator[str]:
    """Parts of the page; none where no such run is beside the results."""
    path = results.path.with_name(RESULTS)
    if path.exists():
        yield from parts(json.loads(path.read_text()))


def parts(content: dict[str, Any]) -> Iterator[str]:
    cells = content["cells"]
    yield "## On a GPU"
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
