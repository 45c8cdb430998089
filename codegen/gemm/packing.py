"""Packing of panels of B and of tiles of A into contiguous memory, in the order in which tiles read them.

A packed panel of B holds its rows one after the other, aligned and padded to whole vectors. A packed tile of A is column-major: the tile's
first column, its second, and so on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from adjit.codegen.gemm.kernels import PACK_A, PACK_B, Kernel, write_kernel
from adjit.codegen.gemm.table import number
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import VectorBuilder

SHUFFLE_LANE_BYTES = 16
"""Bytes of a 128-bit lane group of a vector; shuffles within a group are cheap."""

MAX_ROWS_AT_ONCE = 8
"""Rows of A or B, in place, that are read together: the L1 cache has that many ways for addresses of equal offset in a page."""


@cache
def pack_b_kernel(target: Target, dtype: str, counts: tuple[int, ...]) -> Kernel:
    """The function that packs rows of B."""
    return write_kernel(target, dtype, f"copy_{'_'.join(map(str, counts))}", PACK_B, lambda text: _write_pack_b(text, counts))


def _write_pack_b(text: VectorBuilder, counts: tuple[int, ...]) -> None:
    ldb, row_panel = (text.strides(number(text, name), 1) for name in ("source_inner_b", "inner_b"))
    with text.for_range(text.sub(0, "%length"), 0, carried=[("ptr", "%b"), ("ptr", "%panel")], exact=True) as loop:
        b, panel = loop.values
        for j, count in enumerate(counts):
            vector = text.load_vector(text.at(b, text.scalar, j * text.lanes), count)
            text.store_vector(vector, text.at(panel, text.scalar, j * text.lanes), aligned=True)
        loop.following = [ldb.next(b), row_panel.next(panel)]


def pack_b_transposed_kernel(target: Target, dtype: str, inner: int, columns: int, unit: int = 1) -> Kernel:
    """The function that packs B transposed: it transposes `columns` rows of B, or more, of `inner` elements (the length of k) each. An
    element has `unit` numbers, and `columns` counts numbers."""
    lanes = VectorBuilder(target, dtype).lanes // unit
    return _pack_b_transposed(target, dtype, min(columns // unit, lanes, MAX_ROWS_AT_ONCE), min(inner, lanes), unit)


@cache
def _pack_b_transposed(target: Target, dtype: str, rows: int, width: int, unit: int) -> Kernel:
    return write_kernel(target, dtype, f"turn_{rows}x{width}{'_complex' * (unit == 2)}", PACK_B,
                        lambda text: _write_pack_b_transposed(text, rows, width, unit))


def _write_pack_b_transposed(text: VectorBuilder, rows: int, width: int, unit: int) -> None:
    """Transpose-pack block by block: a block is a vector from each of several rows, of which `width` elements are active.

    All blocks share one code. If k or the rows of B do not fill the last block, that block begins earlier and overlaps. If there are fewer
    rows than a block has, the last row is repeated, in lanes that are not used.
    """
    lanes = text.lanes // unit
    at_once = min(lanes, MAX_ROWS_AT_ONCE)
    ldb = text.strides(_of_elements(text, number(text, "source_column_b"), unit), at_once)
    row_panel = text.strides(number(text, "inner_b"), width)
    columns = "%columns" if unit == 1 else text.let("lshr i64 %columns, 1")
    latest_row, latest = text.sub(columns, rows), text.sub("%length", width)
    with text.for_range(0, columns, lanes) as vector, text.for_range(0, "%length", lanes) as inner:
        k = text.smaller(inner.counter, latest)
        b = text.at("%b", text.scalar, _of_elements(text, k, unit))
        panel = text.at("%panel", 1, text.mul(k, row_panel.stride))
        stop = text.smaller(text.add(vector.counter, lanes), columns)
        with text.for_range(vector.counter, stop, at_once) as group:
            row = text.smaller(group.counter, latest_row)
            first = text.at(b, 1, text.mul(row, ldb.stride))
            bases = ldb.bases(first, rows)
            vectors = [text.load_vector(ldb.row(bases, min(i, rows - 1)), width * unit) for i in range(at_once)]
            to = row_panel.bases(text.at(panel, text.scalar, _of_elements(text, row, unit)), width)
            for k_in_block, transposed_row in enumerate(transposed_block(text, vectors, unit)[:width]):
                text.store_vector(transposed_row, row_panel.row(to, k_in_block), lanes=at_once * unit)


def _of_elements(text: VectorBuilder, count: str, unit: int) -> str:
    """Numbers, or a stride, of that many elements."""
    return count if unit == 1 else text.shl(count, 1)


def transposed_block(text: VectorBuilder, rows: Sequence[str], unit: int = 1) -> list[str]:
    """The block transposed: for each lane, a vector of that lane's elements of all rows, from the first row to the last. An element has
    `unit` numbers.

    Squares within a group of `SHUFFLE_LANE_BYTES` are transposed first, then whole groups are moved: shuffles within a group are cheap.
    """
    lanes, part = text.lanes // unit, max(SHUFFLE_LANE_BYTES // (text.bytes * unit), 1)
    squares = [_transposed_squares(text, list(rows[i:i + part]), part, unit) for i in range(0, len(rows), part)]
    vectors = []
    for alike in zip(*squares, strict=True):        # lane `part * q + j` of all rows is in group q of the j-th ones
        row = list(alike)
        half = len(row) // 2
        for _ in range(len(row).bit_length() - 1):
            row = [_shuffled(text, row[i], row[i + half], _interleaved_lanes(first, lanes, part), unit)
                   for i in range(half) for first in (0, lanes // 2)]
        vectors.append(row)
    found = []
    for lane in range(lanes):
        index, lane_offset = divmod(lane // part * len(rows), lanes)
        vector = vectors[lane % part][index]
        lanes_taken = range(lane_offset, lane_offset + len(rows))
        found.append(vector if len(rows) == lanes else _shuffled(text, vector, "poison", lanes_taken, unit))
    return found


def _shuffled(text: VectorBuilder, a: str, b: str, order: Sequence[int], unit: int) -> str:
    """Elements selected from two vectors."""
    return text.shuffle(text.vector, a, b, order if unit == 1 else [number for lane in order for number in (2 * lane, 2 * lane + 1)])


def _interleaved_lanes(first: int, lanes: int, size: int) -> list[int]:
    """Shuffle indices that interleave half the lanes of two vectors, from `first` on, in groups of `size` lanes."""
    return [at + offset + lane for at in range(first, first + lanes // 2, size) for offset in (0, lanes) for lane in range(size)]


def _transposed_squares(text: VectorBuilder, square: list[str], size: int, unit: int) -> list[str]:
    """Adjacent squares of `size` rows, transposed by repeated interleaving of their halves."""
    half, lanes = size // 2, text.lanes // unit
    for _ in range(size.bit_length() - 1):
        square = [_shuffled(text, square[i], square[i + half], [
                      lane for q in range(0, lanes, size) for k in range(q, q + half) for lane in (first + k, lanes + first + k)], unit)
                  for i in range(half) for first in (0, half)]
    return square


@cache
def pack_a_transposed_kernel(target: Target, dtype: str, large: int, small: int | None) -> Kernel:
    """The function that packs tiles of A transposed; tiles have `large` or `small` rows."""
    name = f"strips_{large}" if small is None else f"strips_{large}_{small}"
    return write_kernel(target, dtype, name, PACK_A, lambda text: _write_pack_a_transposed(text, large, small))


def _write_pack_a_transposed(text: VectorBuilder, large: int, small: int | None) -> None:
    """Loop over the tiles. Every packed tile takes as much memory as a large tile."""
    lda = text.strides(number(text, "source_inner_a"), MAX_ROWS_AT_ONCE)
    large_tiles = number(text, "large_tiles")
    apart = number(text, "packed_tile")
    whole = text.let(f"and i64 %length, {-MAX_ROWS_AT_ONCE}")
    for first, stop, rows_at_once in (("0", whole, MAX_ROWS_AT_ONCE), (whole, "%length", 1)):
        with text.for_range(first, stop, rows_at_once, empty=True) as inner:
            source = text.at("%a", 1, text.mul(inner.counter, lda.stride))
            packed_tile = text.at("%strips", text.scalar, (inner.counter, large))
            with text.for_range("%low", "%high", carried=[("ptr", source), ("ptr", packed_tile)]) as tile:
                a, to = tile.values
                is_large = text.compare("slt", tile.counter, large_tiles)
                for rows in (large,) if small is None else (large, small):
                    wanted = is_large if rows == large else text.not_(is_large)
                    with text.if_(wanted):
                        for i in range(rows_at_once):
                            columns = text.load_vector(lda.row([a], i), lanes=rows)
                            text.store_vector(columns, text.at(to, text.scalar, i * large), lanes=rows)
                rows_here = text.select(is_large, "i64", large, small or 0)
                tile.following = [text.at(a, text.scalar, rows_here), text.at(to, 1, apart)]


@cache
def pack_a_kernel(target: Target, dtype: str) -> Kernel:
    """The function that packs tiles of A, which is not transposed."""
    return write_kernel(target, dtype, "rows", PACK_A, _write_pack_a)


def _write_pack_a(text: VectorBuilder) -> None:
    large_tiles, large, small = (number(text, name) for name in ("large_tiles", "large_rows", "small_rows"))
    lda, row_packed, packed_tile = (number(text, name) for name in ("source_lda", "lda", "packed_tile"))
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
            row.following = [text.at(pointer, 1, apart) for pointer, apart in ((a, lda), (to, row_packed))]
        tile.following = [row.following[0], text.at(tile.values[1], 1, packed_tile)]
