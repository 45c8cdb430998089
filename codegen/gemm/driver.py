"""Driver of all products of a program: the loops around the tiles, with bounds from the plan's table.

    for each product of the batch, or each column split, for each block of k, for each group of panels:
        for each group of tiles:    pack A
            for each panel of the group:    pack B, unless an earlier group of tiles did, then compute each tile of the group

Packed panels and the tiles' rows of A of one pair of groups fit into the L2 cache. Most products have one group of tiles, and groups of
one panel.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from adjit.codegen.gemm.kernels import FIRST, LAST, Kernel
from adjit.codegen.gemm.table import K_BLOCKS_OFFSET, SIZES, entry_address, number
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.module import OPTNONE

DRIVER = "adjit_multiply"
PARAMETERS = "ptr noalias readonly %plan, ptr %a, ptr %b, ptr %c, ptr %strips, ptr %panels, ptr %more, i64 %low, i64 %high"
"""Parameters: the table; the operands; memory for packed tiles of A and packed panels of B, if the plan packs; the operands of the tile
epilogue; the range of tasks, `low` <= t < `high`."""


@cache
def driver() -> Kernel:
    """The driver function. Its text is the same for all products."""
    text = Builder()
    each = number(text, "tasks_each")
    first = text.let(f"udiv i64 %low, {each}")
    rounded = text.add("%high", text.sub(each, 1))
    stop = text.smaller(text.let(f"udiv i64 {rounded}, {each}"), number(text, "units"))
    with text.for_range(first, stop, empty=True) as unit:
        done = text.mul(unit.counter, each)
        low, high = text.larger(text.sub("%low", done), 0), text.smaller(text.sub("%high", done), each)
        a, b, c = (_ahead(text, f"%{name}", unit.counter, number(text, f"batch_stride_{name}")) for name in "abc")
        tiles = _share(text, "by_rows", (_first_index(text, low, "block"), _first_index(text, high, "block")), ("0", number(text, "tiles")))
        split = text.let(f"urem i64 {unit.counter}, {number(text, 'column_splits')}")
        ends = text.add(split, 1)
        panels = _share(text, "by_columns", (low, high), (_first_index(text, split, "split"), _first_index(text, ends, "split")))
        _k_blocks(text, (a, b, c), tiles, panels)
    return Kernel(text.end_function(DRIVER, PARAMETERS, attributes=OPTNONE), text.declarations)


def _ahead(text: Builder, pointer: str, count: str, stride: str) -> str:
    return text.at(pointer, 1, text.mul(count, stride))


def _share(text: Builder, divided: str, some: tuple[str, str], all: tuple[str, str]) -> tuple[str, str]:
    """The range of tiles or panels: the range `some` if tasks divide this axis, else `all`."""
    condition = text.compare("ne", number(text, divided), 0)
    return text.select(condition, "i64", some[0], all[0]), text.select(condition, "i64", some[1], all[1])


def _first_index(text: Builder, index: str, group: Literal["block", "split"]) -> str:
    """Index of the first tile of a row block, or of the first panel of a column split."""
    before = text.mul(index, number(text, group))
    return text.add(before, text.smaller(index, number(text, f"larger_{group}s")))


def _row_of_tile(text: Builder, tile: str) -> str:
    large = text.smaller(tile, number(text, "large_tiles"))
    others = text.mul(text.sub(tile, large), number(text, "small_rows"))
    return text.add(text.mul(large, number(text, "large_rows")), others)


def _k_blocks(text: Builder, operands: tuple[str, str, str], tiles: tuple[str, str], panels: tuple[str, str]) -> None:
    a, b, c = operands
    count = number(text, "k_blocks")
    last = text.sub(count, 1)
    packed_a = text.load("ptr", entry_address(text, "%plan", "packed_a"), align=8)
    packs_a = text.differ(packed_a, "null")
    with text.for_range(0, count) as k_block:
        entry = text.at("%plan", 1, K_BLOCKS_OFFSET)
        entry = text.let(f"getelementptr [16 x i8], ptr {entry}, i64 {k_block.counter}")
        start = text.load("i64", entry, align=8)
        length = text.load("i64", text.at(entry, 1, 8), align=8)
        begins = text.both(text.compare("eq", k_block.counter, 0), text.compare("eq", number(text, "adds"), 0))
        ends = text.compare("eq", k_block.counter, last)
        flags = text.let(f"or i64 {text.select(begins, 'i64', str(FIRST), '0')}, {text.select(ends, 'i64', str(LAST), '0')}")
        a_block, b_block = (_ahead(text, pointer, start, number(text, f"source_inner_{name}")) for pointer, name in ((a, "a"), (b, "b")))
        mc_tiles = number(text, "mc_tiles")
        nc_panels = number(text, "nc_panels")
        with text.for_range(*panels, nc_panels, empty=True) as side, text.for_range(tiles[0], tiles[1], mc_tiles, empty=True) as group:
            low, high = group.counter, text.smaller(text.add(group.counter, mc_tiles), tiles[1])
            row = _row_of_tile(text, low)
            source = _ahead(text, a_block, row, number(text, "source_lda"))
            with text.if_(packs_a):
                text.call("void", packed_a, ("ptr", source), ("ptr", "%strips"), ("i64", length), ("ptr", "%plan"), ("i64", low),
                          ("i64", high))
            source = text.select(packs_a, "ptr", "%strips", source)
            begins = text.compare("eq", low, tiles[0])
            with text.for_range(side.counter, text.smaller(text.add(side.counter, nc_panels), panels[1])) as panel:
                panel_address = _ahead(text, "%panels", text.sub(panel.counter, side.counter), number(text, "panel"))
                _tiles(text, (source, b_block, c), (low, high), panel.counter, (panel_address, begins), row, packs_a, length, flags)


def _tiles(text: Builder, operands: tuple[str, str, str], tiles: tuple[str, str], panel: str, packing: tuple[str, str], top: str,
           packs_a: str, length: str, flags: str) -> None:
    """The tiles of one panel, first the large ones, then the small ones. `a` is the address of the first tile, at row `top`. `packing`
    holds the address of the packed panel, and true if the panel is still to be packed."""
    a, b, c = operands
    apart = number(text, "packed_tile")
    wide = number(text, "wide_columns")
    behind, narrow_panels = text.sub(panel, number(text, "wide_panels")), number(text, "narrow_panels")
    less = text.mul(text.smaller(text.larger(behind, 0), narrow_panels), text.sub(wide, number(text, "narrow_columns")))
    column = text.sub(text.mul(panel, wide), less)
    narrow = text.compare("ult", behind, narrow_panels)
    last = text.compare("sge", panel, number(text, "whole_panels"))
    kind = text.select(last, "i64", "2", text.let(f"zext i1 {narrow} to i64"))
    b = _ahead(text, b, column, number(text, "source_column_b"))
    pack = text.load("ptr", entry_address(text, "%plan", "pack_0", kind, 8), align=8)
    packed = text.differ(pack, "null")
    ready, begins = packing
    with text.if_(text.both(packed, begins)):
        columns = text.load("i64", entry_address(text, "%plan", "wide_columns", kind, 8), align=8)
        text.call("void", pack, ("ptr", b), ("ptr", ready), ("i64", length), ("ptr", "%plan"), ("i64", columns))
    b = text.select(packed, "ptr", ready, b)
    corner = _ahead(text, c, column, number(text, "column_c"))
    ends = text.compare("ne", text.let(f"and i64 {flags}, {LAST}"), 0)
    tile_epilogue = text.select(ends, "ptr", text.load("ptr", entry_address(text, "%plan", "tile_epilogue"), align=8), "null")
    low, high = tiles
    large = number(text, "large_tiles")
    bounds = (low, text.smaller(high, large)), (text.larger(low, large), high)
    at = entry_address(text, "%plan", "tile_0_0", kind, 8 * SIZES)
    for size, (first, stop) in enumerate(bounds):
        with text.if_(text.compare("slt", first, stop)):
            kernel = text.load("ptr", text.at(at, 1, 8 * size), align=8)
            row, rows, lda = _row_of_tile(text, first), number(text, ("large_rows", "small_rows")[size]), number(text, "source_lda")
            packed_before = text.mul(text.sub(first, low), apart)
            rows_before = text.mul(text.sub(row, top), lda)
            here = text.at(a, 1, text.select(packs_a, "i64", packed_before, rows_before))
            distance = text.select(packs_a, "i64", apart, text.mul(rows, lda))
            goal, count = _ahead(text, corner, row, number(text, "ldc")), text.sub(stop, first)
            text.call("void", kernel, ("ptr", here), ("ptr", b), ("ptr", goal), ("i64", length), ("i64", flags), ("ptr", "%plan"),
                      ("i64", count), ("i64", distance), ("i64", row), ("i64", column), ("ptr", tile_epilogue), ("ptr", "%more"))
