"""Kernels of products: functions that know the size of a tile as constants and find strides in a table, so that all products share them."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from adjit.codegen.llvm.module import Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.ir.dataclass import dataclass

TILE = ("ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %length, i64 %part, ptr noalias readonly %plan, "
        "i64 %tiles, i64 %apart, i64 %row, i64 %column, ptr %finish, ptr noalias readonly %more")
"""Parameters of what computes tiles of one size below each other: the corner of the first in A (or its packed tile), B (or its panel) and
C; the length of this block of k, and which block it is, as `FIRST` and `LAST` say; the table of the plan; the number of tiles, and bytes
from one to the next in A; where in the whole C the first one is; and what finishes tiles after the last block, where there is such, with
pointers to what it reads."""

TILE_EPILOGUE = "ptr noalias %c, i64 %rows, i64 %columns, i64 %pitch, i64 %row, i64 %column, ptr noalias readonly %more"
"""Of what replaces the elements of a tile by what follows from them: the tile's corner in C, its rows and columns; bytes from one row of C
to the next; where in C the corner is; and pointers to what else it reads."""

PACK_B = "ptr noalias readonly %b, ptr noalias %panel, i64 %length, ptr noalias readonly %plan, i64 %columns"
"""Of what brings `length` rows of `columns` elements of op(B), from `b` on, into a panel."""

PACK_A = "ptr noalias readonly %a, ptr noalias %strips, i64 %length, ptr noalias readonly %plan, i64 %low, i64 %high"
"""Of what copies `length` columns of the tiles `low` <= t < `high` of op(A) into packed tiles; `a` is that of tile `low`."""

FIRST, LAST = 1, 2
"""Bits of `part`."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function, and the `declare` lines that it needs. In any program, equal names have equal text."""

    function: Function
    declarations: frozenset[str]

    @property
    def name(self) -> str:
        return self.function.name


def named_by_content(function: Function) -> Function:
    """The function under a name that says what is in it: its own, and a digest behind that."""
    digest = hashlib.sha1(function.text.partition(function.name)[2].encode()).hexdigest()[:16]
    return function.renamed(function.name, f"{function.name}_{digest}")


def write_kernel(target: Target, dtype: str, name: str, parameters: str, body: Callable[[VectorBuilder], None],
                 hooks: bool = False) -> Kernel:
    """The kernel that `body` writes. `name` says all that it depends on but for target and dtype, and for `hooks`."""
    text = VectorBuilder(target, dtype)
    body(text)
    function = text.end_function(f"adjit_{name}_{dtype}x{text.lanes}", parameters)
    return Kernel(named_by_content(function) if hooks else function, text.declarations)
