"""Kernels of products. A kernel has the tile's size as constants and reads strides from the plan's table, so that all products share it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from adjit.codegen.llvm.module import Function
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.ir.dataclass import dataclass

TILE = ("ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %c, i64 %length, i64 %part, ptr noalias readonly %plan, "
        "i64 %tiles, i64 %apart, i64 %row, i64 %column, ptr %finish, ptr noalias readonly %more")
"""Parameters of kernels that compute tiles of one size below each other: the first tile's corner in A (or its packed tile), in B (or its
panel) and in C; the length of the current block of k, and the bits `FIRST` and `LAST` for it; the plan's table; the number of tiles, and
the distance of two tiles in A in bytes; row and column of the first tile in C; the tile epilogue that runs after the last block of k, or
null, and the operands of the epilogue."""

TILE_EPILOGUE = "ptr noalias %c, i64 %rows, i64 %columns, i64 %pitch, i64 %row, i64 %column, ptr noalias readonly %more"
"""Parameters of a tile epilogue, which updates a tile of C in place: the tile's corner in C; its rows and columns; the distance of two rows
of C in bytes; row and column of the corner in C; pointers to further operands."""

PACK_B = "ptr noalias readonly %b, ptr noalias %panel, i64 %length, ptr noalias readonly %plan, i64 %columns"
"""Parameters of kernels that pack `length` rows of `columns` elements of op(B), from `b` on, into a panel."""

PACK_A = "ptr noalias readonly %a, ptr noalias %strips, i64 %length, ptr noalias readonly %plan, i64 %low, i64 %high"
"""Parameters of kernels that pack `length` columns of the tiles `low` <= t < `high` of op(A); `a` is the address of tile `low`."""

FIRST, LAST = 1, 2
"""Bits of `part`: the block of k is the first one, the last one."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """A function, and the `declare` lines that it needs. Equal names have equal text in every program."""

    function: Function
    declarations: frozenset[str]

    @property
    def name(self) -> str:
        return self.function.name


def named_by_content(function: Function) -> Function:
    """The function, with a digest of its content appended to its name."""
    digest = hashlib.sha1(function.text.partition(function.name)[2].encode()).hexdigest()[:16]
    return function.renamed(function.name, f"{function.name}_{digest}")


def write_kernel(target: Target, dtype: str, name: str, parameters: str, body: Callable[[VectorBuilder], None]) -> Kernel:
    """The kernel that `body` writes. `name` must identify the kernel up to target and dtype."""
    text = VectorBuilder(target, dtype)
    body(text)
    function = text.end_function(f"adjit_{name}_{dtype}x{text.lanes}", parameters)
    return Kernel(function, text.declarations)
