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
    rounded = text.let(f"add i64 %high, {text.let(f'sub i64 {each}, 1')}")
    stop = text.smaller(text.let(f"udiv i64 {rounded}, {each}"), number(text, "units"))
    with text.for_range(first, stop, empty=True) as unit:
        done = text.let(f"mul i64 {unit.counter}, {each}")
        low, high = text.larger(text.let(f"sub i64 %low, {done}"), 0), text.smaller(text.let(f"sub i64 %high, {done}"), each)
        a, b, c = (_ahead(text, f"%{name}", unit.counter, number(text, f"step_{name}")) for name in "abc")
        tiles = _share(text, "by_rows", (_border(text, low, "block"), _border(text, high, "block")), ("0", number(text, "tiles")))
        stripe = text.let(f"urem i64 {unit.counter}, {number(text, 'stripes')}")
        ends = text.let(f"add i64 {stripe}, 1")
        panels = _share(text, "by_columns", (low, high), (_border(text, stripe, "stripe"), _border(text, ends, "stripe")))
        _parts(text, (a, b, c), tiles, panels)
    return Kernel(text.end_function(DRIVER, PARAMETERS, attributes=CALLER), text.declarations)


def _ahead(text: Builder, pointer: str, count: str, stride: str) -> str:
    return text.let(f"getelementptr i8, ptr {pointer}, i64 {text.let(f'mul i64 {count}, {stride}')}")


def _select(text: Builder, condition: str, type: str, yes: str, no: str) -> str:
    return text.let(f"select i1 {condition}, {type} {yes}, {type} {no}")


def _share(text: Builder, divided: str, some: tuple[str, str], all: tuple[str, str]) -> tuple[str, str]:
    """The range of tiles or panels: `some` of them, or `all`, where tasks do not divide them."""
    condition = text.let(f"icmp ne i64 {number(text, divided)}, 0")
    return _select(text, condition, "i64", some[0], all[0]), _select(text, condition, "i64", some[1], all[1])


def _border(text: Builder, index: str, group: Literal["block", "stripe"]) -> str:
    """The first tile of a block of rows, or the first panel of a stripe of columns."""
    before = text.let(f"mul i64 {index}, {number(text, group)}")
    return text.let(f"add i64 {before}, {text.smaller(index, number(text, f'larger_{group}s'))}")


def _row_of_tile(text: Builder, tile: str) -> str:
    large = text.smaller(tile, number(text, "large_tiles"))
    others = text.let(f"mul i64 {text.let(f'sub i64 {tile}, {large}')}, {number(text, 'small_rows')}")
    return text.let(f"add i64 {text.let(f'mul i64 {large}, ' + number(text, 'large_rows'))}, {others}")


def _parts(text: Builder, operands: tuple[str, str, str], tiles: tuple[str, str], panels: tuple[str, str]) -> None:
    a, b, c = operands
    count = number(text, "parts")
    last = text.let(f"sub i64 {count}, 1")
    strips = text.let(f"load ptr, ptr {place(text, '%plan', 'strips')}, align 8")
    copied = text.let(f"icmp ne ptr {strips}, null")
    with text.for_range(0, count) as part:
        entry = text.let(f"getelementptr i8, ptr %plan, i64 {PARTS}")
        entry = text.let(f"getelementptr [16 x i8], ptr {entry}, i64 {part.counter}")
        start = text.let(f"load i64, ptr {entry}, align 8")
        length = text.let(f"load i64, ptr {text.let(f'getelementptr i8, ptr {entry}, i64 8')}, align 8")
        begins, ends = text.let(f"icmp eq i64 {part.counter}, 0"), text.let(f"icmp eq i64 {part.counter}, {last}")
        flags = text.let(f"or i64 {_select(text, begins, 'i64', str(FIRST), '0')}, {_select(text, ends, 'i64', str(LAST), '0')}")
        a_part, b_part = (_ahead(text, pointer, start, number(text, f"source_inner_{name}")) for pointer, name in ((a, "a"), (b, "b")))
        together = number(text, "together")
        beside = number(text, "beside")
        with text.for_range(*panels, beside, empty=True) as side, text.for_range(tiles[0], tiles[1], together, empty=True) as group:
            low, high = group.counter, text.smaller(text.let(f"add i64 {group.counter}, {together}"), tiles[1])
            row = _row_of_tile(text, low)
            source = _ahead(text, a_part, row, number(text, "source_row_a"))
            with text.if_(copied):
                text.call("void", strips, ("ptr", source), ("ptr", "%strips"), ("i64", length), ("ptr", "%plan"), ("i64", low),
                          ("i64", high))
            source = _select(text, copied, "ptr", "%strips", source)
            begins = text.let(f"icmp eq i64 {low}, {tiles[0]}")
            with text.for_range(side.counter, text.smaller(text.let(f"add i64 {side.counter}, {beside}"), panels[1])) as panel:
                place_of_panel = _ahead(text, "%panels", text.let(f"sub i64 {panel.counter}, {side.counter}"), number(text, "panel"))
                _tiles(text, (source, b_part, c), (low, high), panel.counter, (place_of_panel, begins), row, copied, length, flags)


def _tiles(text: Builder, operands: tuple[str, str, str], tiles: tuple[str, str], panel: str, packing: tuple[str, str], top: str,
           copied: str, length: str, flags: str) -> None:
    """The tiles of one panel, the large ones and the small ones. `a` is that of the first, at row `top`. `packing` has the memory for the
    panel, where it is packed, and whether that is still to be done."""
    a, b, c = operands
    apart = number(text, "strip")
    wide = number(text, "wide_columns")
    behind, narrow_panels = text.let(f"sub i64 {panel}, {number(text, 'wide_panels')}"), number(text, "narrow_panels")
    less = text.let(f"mul i64 {text.smaller(text.larger(behind, 0), narrow_panels)}, "
                    f"{text.let(f'sub i64 {wide}, ' + number(text, 'narrow_columns'))}")
    column = text.let(f"sub i64 {text.let(f'mul i64 {panel}, {wide}')}, {less}")
    narrow = text.let(f"icmp ult i64 {behind}, {narrow_panels}")
    last = text.let(f"icmp sge i64 {panel}, {number(text, 'whole_panels')}")
    kind = _select(text, last, "i64", "2", text.let(f"zext i1 {narrow} to i64"))
    b = _ahead(text, b, column, number(text, "source_column_b"))
    pack = text.let(f"load ptr, ptr {place(text, '%plan', 'pack_0', kind, 8)}, align 8")
    packed = text.let(f"icmp ne ptr {pack}, null")
    ready, begins = packing
    with text.if_(text.let(f"and i1 {packed}, {begins}")):
        columns = text.let(f"load i64, ptr {place(text, '%plan', 'wide_columns', kind, 8)}, align 8")
        text.call("void", pack, ("ptr", b), ("ptr", ready), ("i64", length), ("ptr", "%plan"), ("i64", columns))
    b = _select(text, packed, "ptr", ready, b)
    corner = _ahead(text, c, column, number(text, "column_c"))
    ends = text.let(f"icmp ne i64 {text.let(f'and i64 {flags}, {LAST}')}, 0")
    finish = _select(text, ends, "ptr", text.let(f"load ptr, ptr {place(text, '%plan', 'finish')}, align 8"), "null")
    low, high = tiles
    large = number(text, "large_tiles")
    bounds = (low, text.smaller(high, large)), (text.larger(low, large), high)
    at = place(text, "%plan", "tile_0_0", kind, 8 * SIZES)
    for size, (first, stop) in enumerate(bounds):
        with text.if_(text.let(f"icmp slt i64 {first}, {stop}")):
            kernel = text.let(f"load ptr, ptr {text.let(f'getelementptr i8, ptr {at}, i64 {8 * size}')}, align 8")
            row, rows, row_a = _row_of_tile(text, first), number(text, ("large_rows", "small_rows")[size]), number(text, "source_row_a")
            strips_before = text.let(f"mul i64 {text.let(f'sub i64 {first}, {low}')}, {apart}")
            rows_before = text.let(f"mul i64 {text.let(f'sub i64 {row}, {top}')}, {row_a}")
            here = text.let(f"getelementptr i8, ptr {a}, i64 {_select(text, copied, 'i64', strips_before, rows_before)}")
            distance = _select(text, copied, "i64", apart, text.let(f"mul i64 {rows}, {row_a}"))
            goal, count = _ahead(text, corner, row, number(text, "row_c")), text.let(f"sub i64 {stop}, {first}")
            text.call("void", kernel, ("ptr", here), ("ptr", b), ("ptr", goal), ("i64", length), ("i64", flags), ("ptr", "%plan"),
                      ("i64", count), ("i64", distance), ("i64", row), ("i64", column), ("ptr", finish), ("ptr", "%more"))
