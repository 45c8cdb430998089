"""Interface of an exported program: its parameters and results by name, and the trees of its arguments and results."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.ir.dataclass import dataclass
from adjit.runtime.exports.trees import TreeDescription

SOURCES = ("argument", "state", "constant", "rows")


@dataclass(frozen=True, slots=True)
class ExportedParameter:
    """A parameter of the program.

    `source` is "argument" (leaf number `leaf` of the call), "state" (captured, and changed by the function: parameters of a module, the
    state of an optimiser), "constant" (a captured array that is only read, and that is part of the file) or "rows" (the number of rows, of
    a program for any number). A `weak` parameter was a Python float.
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

    `arguments` and `keywords` describe the trees of a call, with one numbering for the leaves of both. `names` are the names of the
    positional arguments. `result` describes the tree of results: leaf i is result i of the program; leaves from `len(results)` on are
    parameters, with their content after the run. `results` are the names of the program's results. `replaced` lists parameters with the
    result that becomes their new content, if the program did not write the result to their memory. `least_rows` is the least number of
    rows of a program for any number of them, whose shapes are those of a panel.
    """

    params: tuple[ExportedParameter, ...]
    names: tuple[str, ...]
    arguments: TreeDescription
    keywords: TreeDescription
    result: TreeDescription
    results: tuple[str, ...]
    replaced: tuple[tuple[int, int], ...] = ()
    least_rows: int = 0


def type_text(dtype: str, shape: Sequence[int], per_row: int) -> str:
    """The type of an array; one of rows has any number of them.

    >>> type_text("f32", (128, 3), 2), type_text("f32", (128, 3), 0)
    ('f32[2 rows,3]', 'f32[128,3]')
    """
    first = ["rows" if per_row == 1 else f"{per_row} rows"] if per_row else []
    return f"{dtype}[{','.join([*first, *map(str, shape[len(first):])])}]"
