"""One stretch of memory in a program's life, and how sizes are written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from adjit.ir.dataclass import dataclass
from adjit.ir.errors import Location, Role


@dataclass(frozen=True, slots=True)
class MemoryBlock:
    """Bytes of the arena that one op writes (for a fused op: one of its results, or its scratch memory).

    `first_use` is the number of the op that writes it, `last_use` that of the last op that reads it; ops are counted without `free`.
    Where a block is written over in place, the next one begins at the same `offset` with the op that is its last use.
    `role` is why the op exists: the user's computation, its adjoint, a recomputation or an optimiser's update.
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
        """The file, line and text that made it; the name of the value where the line is not known."""
        if self.location is None:
            return self.name
        return f"{Path(self.location.file).name}:{self.location.line}  {self.location.source()}".rstrip()


def ends(blocks: Sequence[MemoryBlock]) -> list[int]:
    """The op from which on each block is no longer in use: the one after `last_use`, or `last_use` itself where that writes over it."""
    begun = {(block.offset, block.first_use) for block in blocks}
    return [block.last_use if block.last_use > block.first_use and (block.offset, block.last_use) in begun else block.last_use + 1
            for block in blocks]


def format_bytes(count: int) -> str:
    """A number of bytes for readers, in powers of 1000.

    >>> format_bytes(1536), format_bytes(2_400_000)
    ('1.54 kB', '2.4 MB')
    """
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5 or unit == "GB":
            break
        size /= 1000
    return f"{size:.3g} {unit}"
