"""The driver of all products of a program: the loops around the tiles, by the plan's table.

    for each product of the batch, or each stripe of columns, for each part of k, for each group of panels:
        for each group of tiles:    copy strips of A
            for each panel of the group:    pack B, unless an earlier group of tiles did, then compute each tile of the group

The groups are such that packed panels and the tiles' rows of A stay in the second cache; most products have but one group of tiles, and a
panel at once.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

from adjit.codegen.gemm.kernels import FIRST, LAST, Kernel
from adjit.codegen.gemm.table import PARTS, SIZES, number, place
from adjit.codegen.llvm.builder import Builder
from adjit.codegen.llvm.module import CALLER

DRIVER = "adjit_multiply"
PARAMETERS = "ptr noalias readonly %plan, ptr %a, ptr %b, ptr %c, ptr %strips, ptr %panels, ptr %more, i64 %low, i64 %high"
"""The table; the operands; memory for strips of A and panels of B, where the plan has them; what is read when tiles are finished; the
tasks `low` <= t < `high` to do."""


@cache
def driver() -> Kernel:
    """The function, which depends on nothing."""
    text = Builder()
    each = number(text, "tasks_each")
    first = text.let(f"udiv i64 %low, {each}")
    rounded = text.add("%high", text.sub(each, 1))
    stop = text.smaller(text.let(f"udiv i64 {rounded}, {each}"), number(text, "units"))
    with text.for_range(first, stop, empty=True) as unit:
        done = text.mul(unit.counter, each)
        low, high = text.larger(text.sub("%low", done), 0), text.smaller(text.sub("%high", done), each)
        a, b, c = (_ahead(text, f"%{name}", unit.counter, number(text, f"step_{name}")) for name in "abc")
        tiles = _share(text, "by_rows", (_border(text, low, "block"), _border(text, high, "block")), ("0", number(text, "tiles")))
        stripe = text.let(f"urem i64 {unit.counter}, {number(text, 'stripes')}")
        ends = text.add(stripe, 1)
        panels = _share(text, "by_columns", (low, high), (_border(text, stripe, "stripe"), _border(text, ends, "stripe")))
        _parts(text, (a, b, c), tiles, panels)
    return Kernel(text.end_function(DRIVER, PARAMETERS, attributes=CALLER), text.declarations)


def _ahead(text: Builder, pointer: str, count: str, stride: str) -> str:
    return text.at(pointer, 1, text.mul(count, stride))


def _share(text: Builder, divided: str, some: tuple[str, str], all: tuple[str, str]) -> tuple[str, str]:
    """The range of tiles or panels: `some` of them, or `all`, where tasks do not divide them."""
    condition = text.compare("ne", number(text, divided), 0)
    return text.select(condition, "i64", some[0], all[0]), text.select(condition, "i64", some[1], all[1])


def _border(text: Builder, index: str, group: Literal["block", "stripe"]) -> str:
    """The first tile of a block of rows, or the first panel of a stripe of columns."""
    before = text.mul(index, number(text, group))
    return text.add(before, text.smaller(index, number(text, f"larger_{group}s")))


def _row_of_tile(text: Builder, tile: str) -> str:
    large = text.smaller(tile, number(text, "large_tiles"))
    others = text.mul(text.sub(tile, large), number(text, "small_rows"))
    return text.add(text.mul(large, number(text, "large_rows")), others)


def _parts(text: Builder, operands: tuple[str, str, str], tiles: tuple[str, str], panels: tuple[str, str]) -> None:
    a, b, c = operands
    count = number(text, "parts")
    last = text.sub(count, 1)
    strips = text.load("ptr", place(text, "%plan", "strips"), align=8)
    copied = text.differ(strips, "null")
    with text.for_range(0, count) as part:
        entry = text.at("%plan", 1, PARTS)
        entry = text.let(f"getelementptr [16 x i8], ptr {entry}, i64 {part.counter}")
        start = text.load("i64", entry, align=8)
        length = text.load("i64", text.at(entry, 1, 8), align=8)
        begins, ends = text.compare("eq", part.counter, 0), text.compare("eq", part.counter, last)
        flags = text.let(f"or i64 {text.select(begins, 'i64', str(FIRST), '0')}, {text.select(ends, 'i64', str(LAST), '0')}")
        a_part, b_part = (_ahead(text, pointer, start, number(text, f"source_inner_{name}")) for pointer, name in ((a, "a"), (b, "b")))
        together = number(text, "together")
        beside = number(text, "beside")
        with text.for_range(*panels, beside, empty=True) as side, text.for_range(tiles[0], tiles[1], together, empty=True) as group:
            low, high = group.counter, text.smaller(text.add(group.counter, together), tiles[1])
            row = _row_of_tile(text, low)
            source = _ahead(text, a_part, row, number(text, "source_row_a"))
            with text.if_(copied):
                text.call("void", strips, ("ptr", source), ("ptr", "%strips"), ("i64", length), ("ptr", "%plan"), ("i64", low),
                          ("i64", high))
            source = text.select(copied, "ptr", "%strips", source)
            begins = text.compare("eq", low, tiles[0])
            with text.for_range(side.counter, text.smaller(text.add(side.counter, beside), panels[1])) as panel:
                place_of_panel = _ahead(text, "%panels", text.sub(panel.counter, side.counter), number(text, "panel"))
                _tiles(text, (source, b_part, c), (low, high), panel.counter, (place_of_panel, begins), row, copied, length, flags)


def _tiles(text: Builder, operands: tuple[str, str, str], tiles: tuple[str, str], panel: str, packing: tuple[str, str], top: str,
           copied: str, length: str, flags: str) -> None:
    """The tiles of one panel, the large ones and the small ones. `a` is that of the first, at row `top`. `packing` has the memory for the
    panel, where it is packed, and whether that is still to be done."""
    a, b, c = operands
    apart = number(text, "strip")
    wide = number(text, "wide_columns")
    behind, narrow_panels = text.sub(panel, number(text, "wide_panels")), number(text, "narrow_panels")
    less = text.mul(text.smaller(text.larger(behind, 0), narrow_panels), text.sub(wide, number(text, "narrow_columns")))
    column = text.sub(text.mul(panel, wide), less)
    narrow = text.compare("ult", behind, narrow_panels)
    last = text.compare("sge", panel, number(text, "whole_panels"))
    kind = text.select(last, "i64", "2", text.let(f"zext i1 {narrow} to i64"))
    b = _ahead(text, b, column, number(text, "source_column_b"))
    pack = text.load("ptr", place(text, "%plan", "pack_0", kind, 8), align=8)
    packed = text.differ(pack, "null")
    ready, begins = packing
    with text.if_(text.both(packed, begins)):
        columns = text.load("i64", place(text, "%plan", "wide_columns", kind, 8), align=8)
        text.call("void", pack, ("ptr", b), ("ptr", ready), ("i64", length), ("ptr", "%plan"), ("i64", columns))
    b = text.select(packed, "ptr", ready, b)
    corner = _ahead(text, c, column, number(text, "column_c"))
    ends = text.compare("ne", text.let(f"and i64 {flags}, {LAST}"), 0)
    finish = text.select(ends, "ptr", text.load("ptr", place(text, "%plan", "finish"), align=8), "null")
    low, high = tiles
    large = number(text, "large_tiles")
    bounds = (low, text.smaller(high, large)), (text.larger(low, large), high)
    at = place(text, "%plan", "tile_0_0", kind, 8 * SIZES)
    for size, (first, stop) in enumerate(bounds):
        with text.if_(text.compare("slt", first, stop)):
            kernel = text.load("ptr", text.at(at, 1, 8 * size), align=8)
            row, rows, row_a = _row_of_tile(text, first), number(text, ("large_rows", "small_rows")[size]), number(text, "source_row_a")
            strips_before = text.mul(text.sub(first, low), apart)
            rows_before = text.mul(text.sub(row, top), row_a)
            here = text.at(a, 1, text.select(copied, "i64", strips_before, rows_before))
            distance = text.select(copied, "i64", apart, text.mul(rows, row_a))
            goal, count = _ahead(text, corner, row, number(text, "row_c")), text.sub(stop, first)
            text.call("void", kernel, ("ptr", here), ("ptr", b), ("ptr", goal), ("i64", length), ("i64", flags), ("ptr", "%plan"),
                      ("i64", count), ("i64", distance), ("i64", row), ("i64", column), ("ptr", finish), ("ptr", "%more"))
