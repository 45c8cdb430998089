"""Memory blocks: the byte ranges of a program's arena over its ops; and the format of sizes."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location, Role


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """A range of bytes of the arena that one op writes (for a fused op: one of its results, or its scratch memory).

    `first_use` is the number of the op that writes the block, `last_use` the number of the last op that reads it; `free` ops are not
    counted. If a block is overwritten in place, the next block begins at the same `offset`, with the op that is the last use of the old
    one. `role` is the purpose of the op: the user's computation, its adjoint, a recomputation or an optimiser's update.
    """

    name: str
    size: int
    first_use: int
    last_use: int
    role: Role
    location: Location | None
    offset: int

    @property
    def source(self) -> str:
        """File, line and text of the source; the name of the value if the line is not known."""
        if self.location is None:
            return self.name
        return f"{Path(self.location.file).name}:{self.location.line}  {self.location.source()}".rstrip()


def ends(blocks: Sequence[MemoryBlock]) -> list[int]:
    """Number of the first op at which each block is no longer in use: the op after `last_use`, or `last_use` itself if it overwrites the
    block."""
    begun = {(block.offset, block.first_use) for block in blocks}
    return [block.last_use if block.last_use > block.first_use and (block.offset, block.last_use) in begun else block.last_use + 1
            for block in blocks]


def format_bytes(count: int) -> str:
    """A number of bytes in readable form, with powers of 1000.

    >>> format_bytes(1536), format_bytes(2_400_000)
    ('1.54 kB', '2.4 MB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"


def html_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table for notebooks."""
    def row(cells: Sequence[Any], tag: str) -> str:
        return f"<tr>{''.join(f'<{tag}>{escape(str(cell))}</{tag}>' for cell in cells)}</tr>"

    return f"<table><thead>{row(head, 'th')}</thead><tbody>{''.join(row(cells, 'td') for cells in rows)}</tbody></table>"
