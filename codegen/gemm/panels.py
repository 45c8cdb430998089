"""Brings a panel of B, or a block of A, into memory that suits the tiles.

Of B rows lie one after the other, aligned, filled up with zeros to whole vectors. Of A the rows of a tile are a strip: its first
column, its second, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.gemm.plan import Plan, runs
from adjit.codegen.gemm.tile import Prologue
from adjit.codegen.gemm.vectors import VectorText


def emit_packing(text: VectorText, plan: Plan, counts: tuple[int, ...], prologue: Prologue | None, b: str, panel: str,
                 length: int) -> None:
    """Pack `length` rows of op(B), from `b` on, by `counts` columns."""
    p, lanes = plan.product, plan.lanes
    if plan.b == "copied":
        name = _emit_copy(text, plan, counts, prologue)
        text.do(f"call void @{name}(ptr {b}, ptr {panel}, i64 {length})")
        return
    name = _emit_turn(text, plan, prologue)
    for _, start, count, times in runs(counts):
        with text.loop(0, times) as vectors:
            source = text.at(b, (vectors.counter, lanes * p.row_b), start * p.row_b)
            text.do(f"call void @{name}(ptr {source}, ptr {text.at(panel, (vectors.counter, lanes), start)}, i64 {length}, i64 {count})")


def _emit_copy(text: VectorText, plan: Plan, counts: tuple[int, ...], prologue: Prologue | None) -> str:
    """The name of the function that copies rows of B."""
    name = f"copy_{'_'.join(map(str, counts))}"
    if name in text.functions:
        return name
    with text.function(name, "ptr noalias %b, ptr noalias %panel, i64 %length"), text.loop(0, "%length") as inner:
        b, panel = text.at("%b", (inner.counter, plan.product.row_b)), text.at("%panel", (inner.counter, plan.panel_columns))
        for j, count in enumerate(counts):
            vector = text.load(text.at(b, j * plan.lanes), count)
            text.store(vector if prologue is None else prologue(text, vector), text.at(panel, j * plan.lanes), aligned=True)
    return name


def _emit_turn(text: VectorText, plan: Plan, prologue: Prologue | None) -> str:
    """The name of the function that turns rows of B as it lies into one column of vectors of the panel, square by square.

    One square is all its code: where k does not fill the last one, it begins earlier, and where there are fewer rows than lanes, the
    last row is repeated, in lanes that do not count.
    """
    name = "turn"
    if name in text.functions:
        return name
    lanes, inner = plan.lanes, plan.product.inner
    with text.function(name, "ptr noalias %b, ptr noalias %panel, i64 %length, i64 %count"):
        last = text.let("sub i64 %count, 1")
        rows = [text.let(f"mul i64 {text.smaller(last, r)}, {plan.product.row_b}") for r in range(1, lanes)]
        width = min(inner, lanes)
        latest = text.let(f"sub i64 %length, {width}")
        with text.loop(0, "%length", lanes) as loop:
            k = text.smaller(loop.counter, latest)
            source, panel = text.at("%b", k), text.at("%panel", (k, plan.panel_columns))
            square = [text.load(text.at(source, row), width) for row in ("0", *rows)]
            if prologue is not None:
                square = [prologue(text, vector) for vector in square]
            for k_in_square, vector in enumerate(turned(text, square)[:width]):
                text.store(vector, text.at(panel, k_in_square * plan.panel_columns), aligned=True)
    return name


def turned(text: VectorText, square: list[str]) -> list[str]:
    """The square transposed, by rounds of interleaving its halves."""
    half = text.lanes // 2
    for _ in range(text.lanes.bit_length() - 1):
        square = [text.shuffle(square[i], square[i + half], [lane for k in range(half) for lane in (first + k, text.lanes + first + k)])
                  for i in range(half) for first in (0, half)]
    return square


AT_ONCE = 8
"""Rows of A as it lies that are read together: the first cache holds as many of equal place in a page."""


def emit_strips(text: VectorText, plan: Plan, tiles: Sequence[int], a: str, strips: str, length: int) -> None:
    """Copy `length` rows of A, which is transposed, from `a` on, to a strip for each of the tiles."""
    row_a, whole = plan.product.row_a, length - length % AT_ONCE
    for first, count in ((0, whole), (whole, length - whole)):
        if not count:
            continue
        together = min(count, AT_ONCE)
        with text.loop(0, count, together) as inner:
            k = text.let(f"add i64 {inner.counter}, {first}")
            for _, start, rows, times in runs(tiles):
                with text.loop(0, times) as tile:
                    row = text.let(f"add i64 {text.let(f'mul i64 {tile.counter}, {rows}')}, {start}")
                    source, strip = text.at(a, row, (k, row_a)), text.at(strips, (row, length), (k, rows))
                    for i in range(together):
                        columns = text.let(f"load <{rows} x {text.scalar}>, ptr {text.at(source, i * row_a)}, align {text.bytes}")
                        text.do(f"store <{rows} x {text.scalar}> {columns}, ptr {text.at(strip, i * rows)}, align {text.bytes}")
