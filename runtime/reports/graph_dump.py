"""A dump of a compilation into a folder: the graph after every pass, and the source of every kernel."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from itertools import count
from pathlib import Path

from adjit.ir.graph import Graph
from adjit.ir.printer import print_graph


class Dump:
    """A new folder for one compiled signature, below `folder`: `00-traced.ir`, `01-simplify.ir`, ..., `kernels/NAME.py` (native programs:
    `.ll`).
    """

    def __init__(self, folder: Path, name: str):
        self.folder = _new_folder(folder, _file_name(name))
        self._count = 0

    def graph(self, name: str, graph: Graph) -> None:
        """Write the graph after the pass `name`."""
        (self.folder / f"{self._count:02}-{_file_name(name)}.ir").write_text(print_graph(graph))
        self._count += 1

    def kernels(self, texts: Mapping[str, str], suffix: str) -> None:
        """Write the source of each kernel."""
        for name, text in texts.items():
            path = self.folder / "kernels" / f"{_file_name(name)}.{suffix}"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)


def _new_folder(parent: Path, name: str) -> Path:
    """`parent/NUMBER-name`, with the lowest unused number."""
    parent.mkdir(parents=True, exist_ok=True)
    taken = {path.name.partition("-")[0] for path in parent.iterdir()}
    for number in count():
        if f"{number:03}" not in taken:
            with suppress(FileExistsError):     # another process has taken the number
                (parent / f"{number:03}-{name}").mkdir()
                break
    return parent / f"{number:03}-{name}"


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]+", "_", name)


