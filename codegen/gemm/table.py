"""Plan of a product as a table of constants, which the one driver of all products, and their kernels, read.

Numbers come first, then pointers to kernels, each found by its name, then the blocks of k. Strides are in bytes, so that one driver works
for every dtype.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Literal

from adjit.codegen.gemm.plan import Plan
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.module import Definition
from adjit.ir.dataclass import dataclass

SIZES, KINDS = 2, 3
"""Sizes of tiles: large and small. Kinds of panels: wide, narrow, and the last panel, if partly filled."""

NUMBERS = (
    "units", "tasks_each", "batch_stride_a", "batch_stride_b", "batch_stride_c",     # products of the batch, or splits; tasks of each
    "by_rows", "by_columns",                            # axis that tasks divide: 1 for one of the two, both 0 if tasks are units
    "block", "larger_blocks",                           # tiles of a row block; number of (leading) blocks with one tile more
    "column_splits", "split", "larger_splits",              # number of splits; panels of a split; number of splits with one panel more
    "tiles", "large_tiles", "large_rows", "small_rows",
    "panels", "wide_panels", "narrow_panels", "whole_panels", "wide_columns", "narrow_columns", "last_columns",
    "source_lda", "source_inner_a", "source_inner_b", "source_column_b",
    "lda", "inner_a", "inner_b", "ldc", "column_c",     # strides that the tile kernels read
    "mc_tiles", "nc_panels", "packed_tile", "panel",     # tiles of a group, panels of a group, bytes of a packed tile of A and panel of B
    "k_blocks", "adds")

POINTERS = (
    "tile_epilogue", "packed_a", *(f"pack_{kind}" for kind in range(KINDS)),
    *(f"tile_{kind}_{size}" for kind in range(KINDS) for size in range(SIZES)))

_OFFSETS = {name: 8 * k for k, name in enumerate((*NUMBERS, *POINTERS))}
K_BLOCKS_OFFSET = 8 * len(_OFFSETS)
"""Byte offset of the k blocks in the table: start and length of each."""


def entry_address(text: Builder, plan: str, name: str, index: str = "0", size: int = 0) -> str:
    """The address of a table entry; with `index`, the address `index * size` bytes behind it, for entries chosen at run time."""
    at = text.at(plan, 1, _OFFSETS[name])
    return at if index == "0" else text.let(f"getelementptr [{size} x i8], ptr {at}, i64 {index}")


def number(text: Builder, name: str, plan: str = "%plan") -> str:
    return text.load("i64", entry_address(text, plan, name), align=8)


@dataclass(frozen=True, slots=True)
class Kinds:
    """Kinds of tiles and panels of a plan. `tiles`: rows of large and small tiles. `panels`: the columns of each vector of a wide, a narrow
    and the last panel; None for a kind that the plan does not have. `large_tiles`: number of large tiles. Wide panels come first
    (`wide_panels`), then narrow ones (`narrow_panels`), then wide ones again; `whole_panels` counts all panels but the last, partly filled
    one.
    """

    tiles: tuple[int, int | None]
    panels: tuple[tuple[int, ...] | None, tuple[int, ...] | None, tuple[int, ...] | None]
    large_tiles: int
    wide_panels: int
    narrow_panels: int
    whole_panels: int


def plan_of_kernels(plan: Plan) -> Plan:
    """The plan as kernels see it, which go down C. A plan that goes along C becomes the plan of the transpose, with A and B swapped."""
    if plan.dots != "along":
        return plan
    p = plan.product
    product = replace(p, rows=p.columns, columns=p.rows, lda=p.ldb, ldb=p.lda,
                      batch_stride_a=p.batch_stride_b, batch_stride_b=p.batch_stride_a)
    axes: dict[str, Literal["rows", "columns", "batch"]] = {"rows": "columns", "columns": "rows", "batch": "batch"}
    return replace(plan, product=product, blocks=plan.panels, panels=tuple((rows,) for rows in plan.tiles), axis=axes[plan.axis])


def kinds_of(plan: Plan) -> Kinds:
    """The kinds of tiles and panels. Larger tiles come first and are all equal, and so are the smaller ones. Wide panels come before and
    after the narrow ones, except the last panel."""
    tiles, panels = plan.tiles, plan.panels
    large = sum(rows == tiles[0] for rows in tiles)
    full = panels[0][0] if plan.dots else plan.lanes
    whole = sum(counts[-1] == full for counts in panels)
    wide = len(list(takewhile(lambda counts: counts == panels[0], panels[:whole])))
    narrow = panels[wide] if wide < whole else None
    return Kinds(
        (tiles[0], tiles[-1] if large < len(tiles) else None),
        (panels[0] if wide else None, narrow, panels[-1] if whole < len(panels) else None),
        large, wide, panels[:whole].count(narrow) if narrow else 0, whole)


def plan_table(name: str, plan: Plan, pointers: Mapping[str, str]) -> Definition:
    """The table as a constant. `pointers` maps the names of entries to the names of kernels. `plan` comes from `plan_of_kernels`."""
    p, size, kinds = plan.product, plan.product.element_bytes, kinds_of(plan)
    (lda, inner_a), (inner_b, column_b) = p.strides_a, p.strides_b
    ldc, column_c = (1, p.ldc) if plan.dots == "along" else (p.ldc, 1)
    seen_row_a, seen_inner_a = plan.strides_a
    seen_inner_b = column_b if plan.dots else inner_b if plan.b == "in place" else plan.panel_columns
    wide, narrow, last = (sum(counts or ()) for counts in kinds.panels)
    least, (split, larger_splits) = len(plan.blocks[-1]), divmod(len(plan.panels), plan.column_splits)
    batch_stride_a, batch_stride_b, batch_stride_c = p.batch_strides
    elements = {
        "batch_stride_a": batch_stride_a, "batch_stride_b": batch_stride_b, "batch_stride_c": batch_stride_c,
        "source_lda": lda, "source_inner_a": inner_a, "source_inner_b": inner_b, "source_column_b": column_b,
        "lda": seen_row_a, "inner_a": seen_inner_a, "inner_b": seen_inner_b, "ldc": ldc, "column_c": column_c}
    numbers = {name: count * size for name, count in elements.items()} | {
        "units": p.batch * plan.column_splits, "tasks_each": plan.tasks_each,
        "by_rows": plan.axis == "rows", "by_columns": plan.axis == "columns",
        "block": least, "larger_blocks": sum(len(block) > least for block in plan.blocks),
        "column_splits": plan.column_splits, "split": split, "larger_splits": larger_splits,
        "tiles": len(plan.tiles), "large_tiles": kinds.large_tiles, "large_rows": kinds.tiles[0], "small_rows": kinds.tiles[1] or 0,
        "panels": len(plan.panels), "wide_panels": kinds.wide_panels,
        "narrow_panels": kinds.narrow_panels, "whole_panels": kinds.whole_panels,
        "wide_columns": wide, "narrow_columns": narrow, "last_columns": last,
        "mc_tiles": plan.mc_tiles, "nc_panels": plan.nc_panels, "packed_tile": plan.packed_tile_elements * size,
        "panel": plan.panel_elements * size, "k_blocks": len(plan.k_blocks), "adds": p.adds}
    starts = [sum(plan.k_blocks[:k]) for k in range(len(plan.k_blocks))]
    words = [f"i64 {int(numbers[name])}" for name in NUMBERS]
    links = [f"ptr {'@' + pointers[name] if name in pointers else 'null'}" for name in POINTERS]
    k_blocks = [f"i64 {start}, i64 {length}" for start, length in zip(starts, plan.k_blocks, strict=True)]
    text = (f"@{name} = internal constant {{ [{len(words)} x i64], [{len(links)} x ptr], [{2 * len(k_blocks)} x i64] }} "
            f"{{ [{len(words)} x i64] [{', '.join(words)}], [{len(links)} x ptr] [{', '.join(links)}], "
            f"[{2 * len(k_blocks)} x i64] [{', '.join(k_blocks)}] }}, align 8")
    return Definition(name, text, pointers.values())
