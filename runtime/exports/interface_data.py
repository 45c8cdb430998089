"""The interface of an exported program: its parameters and results by name, and the trees that its callers see."""

from __future__ import annotations

from adjit.ir.dataclass import dataclass
from adjit.runtime.exports.trees import TreeDescription

SOURCES = ("argument", "state", "constant")


@dataclass(frozen=True, slots=True)
class ExportedParameter:
    """A parameter of the program.

    `source` says where it comes from: "argument" (leaf number `leaf` of the call), "state" (what the function reaches by itself and may
    change: parameters of a module, the state of an optimiser) or "constant" (an array that it only reads, and that is part of the file).
    `weak` ones were Python floats.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    role: str
    source: str
    leaf: int = -1
    weak: bool = False

    @property
    def written(self) -> bool:
        return self.role in ("donated", "updated")


@dataclass(frozen=True, slots=True)
class Interface:
    """The parameters of a program, and its trees.

    `arguments` and `keywords` describe the trees of a call; their leaves are numbered together. `names` are those of the positional
    arguments. `result` describes what it gives: leaf i is result i of the program; those from `len(results)` on are parameters,
    as they are after the run. `results` are names of the program's results. `replaced` says which parameters take the content of a result
    that did not go to their memory.
    """

    params: tuple[ExportedParameter, ...]
    names: tuple[str, ...]
    arguments: TreeDescription
    keywords: TreeDescription
    result: TreeDescription
    results: tuple[str, ...]
    replaced: tuple[tuple[int, int], ...] = ()
