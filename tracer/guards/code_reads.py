"""Reads of sources in code, by the names in their paths: whether a number, an item or a length is read for more than to change it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from types import CodeType

from adjit.tracer.guards.bytecode import FILLS, Reads, deleted_by, optional_attributes, reads_of

COUNT = re.compile(r"(len|set|keys)\((.*)\)")
"""Paths of sources that are the length, the members or the keys of a container."""


class CodeReads:
    """Reads of sources in code, other than reads that only change them."""

    def __init__(self, codes: Sequence[CodeType]):
        self._codes = codes
        self._counts: Reads | None = None

    def of(self, path: str, whole: bool = False) -> bool:
        """True if the source with this path is read; with `whole`, if it is read in other ways than item by item. Sources that the code
        does not name count as read."""
        if path.startswith("the "):
            return True
        counted = COUNT.fullmatch(path)
        name = counted[2] if counted else path
        base = re.sub(r"(\[[^\[\]]*\])+$", "", name)
        if whole and base != name:
            return True
        default = re.fullmatch(r"\w+\((\w+)=\)", base)
        kind = "local" if default else "attribute" if "." in base else "variable"
        base = default[1] if default else base.rpartition(".")[2].removesuffix("()")
        counts = self._counted()
        if kind == "attribute" and base in self._asked():
            return True
        found = [counts.get((kind, base)), None if whole or counted else counts.get((f"{kind} item", base))]
        items = (f"{kind} item", base) in counts
        return any(count is not None and count > 0 for count in found) or not (items or found[0] is not None)

    def fills(self, path: str) -> bool:
        """True if the code fills the container whose length, keys or members this path is."""
        name = re.sub(r"\W", " ", path[path.index("(") + 1:-1]).split()
        return bool(name) and self._counted().get((FILLS, name[-1]), 0) > 0

    def reads_name(self, name: str) -> bool:
        """True if code reads a variable from outside or an attribute with this name, which may be that of another path."""
        counts = self._counted()
        return name in self._asked() or any(counts.get((kind, name), 0) > 0 for kind in ("attribute", "variable"))

    def names(self, path: str) -> bool:
        """True if the code names the source with this path to read it."""
        base = re.sub(r"(\[[^\[\]]*\])+$", "", counted[2] if (counted := COUNT.fullmatch(path)) else path)
        base = default[1] if (default := re.fullmatch(r"\w+\((\w+)=\)", base)) else base
        kinds = ("attribute",) if "." in base else ("variable", "local")
        name, counts = base.rpartition(".")[2], self._counted()
        return name in self._asked() or any(counts.get((f"{kind}{item}", name), 0) > 0 for kind in kinds for item in ("", " item"))

    def _asked(self) -> frozenset[str]:
        """Names of attributes that code asks for by their name as a text, or takes away."""
        return frozenset().union(*(optional_attributes(code) | deleted_by(code) for code in self._codes))

    def _counted(self) -> Reads:
        if self._counts is None:
            self._counts = Counter()
            for code in self._codes:
                self._counts.update(reads_of(code))
        return self._counts
