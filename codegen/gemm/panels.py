"""Brings a panel of B, or strips of A, into memory that suits the tiles.

Of B rows lie one after the other, aligned, filled up to whole vectors. Of A the rows of a tile are a strip: its first column, its second,
and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from adjit.codegen.gemm.kernels import PACK, STRIPS, Kernel, write_kernel
from adjit.codegen.gemm.table import number
from adjit.codegen.gemm.tile import Prologue
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.codegen.target import Target

PART = 16
"""Bytes of a part of a vector within which elements are moved at once."""

AT_ONCE = 8
"""Rows of A or B as they lie that are read together: the first cache holds as many of equal place in a page."""


def copy_kernel(target: Target, dtype: str, counts: tuple[int, ...], prologue: Prologue | None) -> Kernel:
    """The function that copies rows of B."""
    if prologue is None:
        return _plain_copy(target, dtype, counts)
    return write_kernel(target, dtype, _copy_name(counts), PACK, lambda text: _write_copy(text, counts, prologue), hooks=True)


@cache
def _plain_copy(target: Target, dtype: str, counts: tuple[int, ...]) -> Kernel:
    return write_kernel(target, dtype, _copy_name(counts), PACK, lambda text: _write_copy(text, counts, None))


def _copy_name(counts: tuple[int, ...]) -> str:
    return f"copy_{'_'.join(map(str, counts))}"


def _write_copy(text: VectorBuilder, counts: tuple[int, ...], prologue: Prologue | None) -> None:
    row_b, row_panel = (text.strides(number(text, name), 1) for name in ("source_inner_b", "inner_b"))
    with text.for_range(text.sub(0, "%length"), 0, carried=[("ptr", "%b"), ("ptr", "%panel")], exact=True) as loop:
        b, panel = loop.values
        for j, count in enumerate(counts):
            vector = text.load_vector(text.at(b, text.scalar, j * text.lanes), count)
            text.store_vector(vector if prologue is None else prologue(text, vector), text.at(panel, text.scalar, j * text.lanes),
                              aligned=True)
        loop.following = [row_b.next(b), row_panel.next(panel)]


def turn_kernel(target: Target, dtype: str, inner: int, columns: int, prologue: Prologue | None) -> Kernel:
    """The function that turns rows of B as it lies, `columns` of them or more, where k has `inner` elements."""
    lanes = VectorBuilder(target, dtype).lanes
    shape = min(columns, lanes, AT_ONCE), min(inner, lanes)
    if prologue is None:
        return _plain_turn(target, dtype, *shape)
    return write_kernel(target, dtype, _turn_name(*shape), PACK, lambda text: _write_turn(text, *shape, prologue), hooks=True)


@cache
def _plain_turn(target: Target, dtype: str, rows: int, width: int) -> Kernel:
    return write_kernel(target, dtype, _turn_name(rows, width), PACK, lambda text: _write_turn(text, rows, width, None))


def _turn_name(rows: int, width: int) -> str:
    return f"turn_{rows}x{width}"


def _write_turn(text: VectorBuilder, rows: int, width: int, prologue: Prologue | None) -> None:
    """Block by block: a vector of some rows, of which `width` elements count.

    One block is all its code: where k or the rows of B do not fill the last one, it begins earlier. Where all rows are fewer, the last one
    is repeated, in lanes that do not count.
    """
    at_once = min(text.lanes, AT_ONCE)
    row_b, row_panel = text.strides(number(text, "source_column_b"), at_once), text.strides(number(text, "inner_b"), width)
    latest_row, latest = text.sub("%columns", rows), text.sub("%length", width)
    with text.for_range(0, "%columns", text.lanes) as vector, text.for_range(0, "%length", text.lanes) as inner:
        k = text.smaller(inner.counter, latest)
        b = text.at("%b", text.scalar, k)
        panel = text.at("%panel", 1, text.mul(k, row_panel.stride))
        stop = text.smaller(text.add(vector.counter, text.lanes), "%columns")
        with text.for_range(vector.counter, stop, at_once) as group:
            row = text.smaller(group.counter, latest_row)
            first = text.at(b, 1, text.mul(row, row_b.stride))
            bases = row_b.bases(first, rows)
            vectors = [text.load_vector(row_b.row(bases, min(i, rows - 1)), width) for i in range(at_once)]
            if prologue is not None:
                vectors = [prologue(text, vector) for vector in vectors]
            to = row_panel.bases(text.at(panel, text.scalar, row), width)
            for k_in_block, turned_row in enumerate(turned_block(text, vectors)[:width]):
                text.store_vector(turned_row, row_panel.row(to, k_in_block), lanes=at_once)


def turned_block(text: VectorBuilder, rows: Sequence[str]) -> list[str]:
    """For each lane, what the rows have there, from the first row to the last one.

    Squares that fit into a part of `PART` bytes are turned within it, then whole parts are moved: moving within is cheap.
    """
    lanes, part = text.lanes, PART // text.bytes
    squares = [_turned_squares(text, list(rows[i:i + part]), part) for i in range(0, len(rows), part)]
    vectors = []
    for alike in zip(*squares, strict=True):        # lane `part` times q + j of all rows is in part q of the j-th ones
        row = list(alike)
        half = len(row) // 2
        for _ in range(len(row).bit_length() - 1):
            row = [text.shuffle(text.vector, row[i], row[i + half], _interleaved(first, lanes, part))
                   for i in range(half) for first in (0, lanes // 2)]
        vectors.append(row)
    found = []
    for lane in range(lanes):
        index, place = divmod(lane // part * len(rows), lanes)
        vector = vectors[lane % part][index]
        found.append(vector if len(rows) == lanes else text.shuffle(text.vector, vector, "poison", range(place, place + len(rows))))
    return found


def _interleaved(first: int, lanes: int, size: int) -> list[int]:
    """Places of half the lanes of two vectors, from `first` on, in turns of `size` lanes."""
    return [at + offset + lane for at in range(first, first + lanes // 2, size) for offset in (0, lanes) for lane in range(size)]


def _turned_squares(text: VectorBuilder, square: list[str], size: int) -> list[str]:
    """Squares of `size` rows beside each other, transposed by rounds of interleaving their halves."""
    half = size // 2
    for _ in range(size.bit_length() - 1):
        square = [text.shuffle(text.vector, square[i], square[i + half], [
                      lane for q in range(0, text.lanes, size) for k in range(q, q + half) for lane in (first + k, text.lanes + first + k)])
                  for i in range(half) for first in (0, half)]
    return square


@cache
def strips_kernel(target: Target, dtype: str, large: int, small: int | None) -> Kernel:
    """The function that copies rows of A, which is transposed, to a strip for each of the tiles, which have `large` or `small` rows."""
    name = f"strips_{large}" if small is None else f"strips_{large}_{small}"
    return write_kernel(target, dtype, name, STRIPS, lambda text: _write_strips(text, large, small))


def _write_strips(text: VectorBuilder, large: int, small: int | None) -> None:
    """All strips are as large as those of large tiles."""
    row_a = text.strides(number(text, "source_inner_a"), AT_ONCE)
    large_tiles = number(text, "large_tiles")
    apart = number(text, "strip")
    whole = text.let(f"and i64 %length, {-AT_ONCE}")
    for first, stop, together in (("0", whole, AT_ONCE), (whole, "%length", 1)):
        with text.for_range(first, stop, together, empty=True) as inner:
            source = text.at("%a", 1, text.mul(inner.counter, row_a.stride))
            strip = text.at("%strips", text.scalar, (inner.counter, large))
            with text.for_range("%low", "%high", carried=[("ptr", source), ("ptr", strip)]) as tile:
                a, to = tile.values
                is_large = text.compare("slt", tile.counter, large_tiles)
                for rows in (large,) if small is None else (large, small):
                    wanted = is_large if rows == large else text.not_(is_large)
                    with text.if_(wanted):
                        for i in range(together):
                            columns = text.load_vector(row_a.row([a], i), lanes=rows)
                            text.store_vector(columns, text.at(to, text.scalar, i * large), lanes=rows)
                rows_here = text.select(is_large, "i64", large, small or 0)
                tile.following = [text.at(a, text.scalar, rows_here), text.at(to, 1, apart)]


@cache
def rows_kernel(target: Target, dtype: str) -> Kernel:
    """The function that copies rows of A, which is not transposed, to a strip for each of the tiles."""
    return write_kernel(target, dtype, "rows", STRIPS, _write_rows)


def _write_rows(text: VectorBuilder) -> None:
    large_tiles, large, small = (number(text, name) for name in ("large_tiles", "large_rows", "small_rows"))
    row_a, row_strip, strip = (number(text, name) for name in ("source_row_a", "row_a", "strip"))
    whole = text.let(f"and i64 %length, {-text.lanes}")
    with text.for_range("%low", "%high", carried=[("ptr", "%a"), ("ptr", "%strips")]) as tile:
        is_large = text.compare("slt", tile.counter, large_tiles)
        rows = text.select(is_large, "i64", large, small)
        with text.for_range(0, rows, carried=[("ptr", tile.values[0]), ("ptr", tile.values[1])]) as row:
            a, to = row.values
            with text.for_range(0, whole, text.lanes, empty=True) as inner:
                text.store_vector(text.load_vector(text.at(a, text.scalar, inner.counter)), text.at(to, text.scalar, inner.counter))
            with text.for_range(whole, "%length", empty=True) as inner:
                text.store_vector(text.load_vector(text.at(a, text.scalar, inner.counter), lanes=1),
                                  text.at(to, text.scalar, inner.counter), lanes=1)
            row.following = [text.at(pointer, 1, apart) for pointer, apart in ((a, row_a), (to, row_strip))]
        tile.following = [row.following[0], text.at(tile.values[1], 1, strip)]
