"""Decides how a product is computed, by the product and the target, never by the number of threads: the only place with thresholds.

C is cut into tiles of some rows by some vectors, which stay in registers while k runs. Rows are cut into *equal* tiles and columns into
*equal* panels as far as can be, so most products need one or two kernels. An element of C is one chain of fused multiply-adds for each
block of k, and the sum of the blocks in order, whatever the tile: the same bits on every target that has them. So the sizes of the blocks
(`KC`) belong to the meaning of a product. Dot products, and products whose tiles all have fewer than `MIN_PIPELINED_VECTORS` vectors, add
up in several chains, whose number depends on the shape and the lanes.

The numbers were measured on processors of two makers, as ratios to the other choices:

- Tiles of at least 12 vectors and 6 rows are within 3 % of the peak of multiply-adds where B is near; with 8 rows, A needs no copy;
  with 3 vectors they are up to 10 % faster than with 2 where B is not near. Where 4 or 8 vectors are a row of C, 6 rows by 4 vectors
  are 2 to 5 % faster than panels of 3 and 2, and 10 to 15 % faster than panels of 2.
- Copying a panel of B costs as much as some 2 rows of C. It pays from `MIN_TILES_TO_PACK_B` row tiles on where a panel does not
  fit into the first cache by itself: 3 to 60 %, most where rows of B are far apart.
- B transposed has to be packed by transposing, which costs as much as 7 rows of C; for few rows, dot products along k are faster.
- Small matrices times vectors (`MAX_UNROLLED_FMAS`) are specialised as they stand: dot products take the driver 30 to 50 ns each. 10 x 3 is
  1.5 to 1.8 times as fast so, a batch of 8 x 8 twice, of 3 x 3 ten times. A single one with rows longer than `MAX_SHORT_DOT` would be
  slower.
- A transposed is read a few elements a row. Where its rows are far apart that is up to twice as slow as reading a copy.

What depends on caches, or on how long a tile takes, is in `Limits`. Those of 32 registers were measured with AVX-512, first caches of 48 kB
and second ones of 2 MB; those of 16 registers with AVX2 on a Zen 3 (32 and 512 kB), whose tiles take half as long a step of k:

- Blocks of k as long as they may be: 5 to 12 % faster than ones of 128 to 208. But where A is transposed and read in place, up to 13 %
  slower.
- A transposed is copied from rows of 1 kB on: 6 to 20 % faster; from shorter ones, with short blocks, as fast or 2 to 7 % slower.
- B is copied where its rows are 1 kB apart: 2 to 15 % faster at 256 to 320 columns and as much of k; at 200, 12 % slower. With a
  dozen tiles and 8 kB a panel it is not: training a network took 5 % longer.
- A of more than 1 MB a block, though not transposed, is copied: up to 10 % faster at 2048, where its rows evict each other.
- Tiles of 4 rows by 3 vectors, which need all 16 registers, take twice as long as others: LLVM keeps a sum in memory.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

from adjit.codegen.gemm.product import Product
from adjit.codegen.llvm.target import Target
from adjit.ir.dataclass import dataclass

KC = 384
"""Length of the blocks of k that are summed on their own, about that of BLAS: errors grow with it. Up to `MAX_SINGLE_K` it is one block."""

MAX_SINGLE_K = 768

MAX_SINGLE_K_SMALL_TILES = 1024
"""The same where tiles have so few cells that their kernels divide k themselves (`Plan.has_small_tiles`)."""

MAX_NARROW_VECTORS = {32: 8, 16: 16}
"""Most vectors of a row of C for tiles of 6 rows by 4 vectors (with 16 registers, for 3 rows by 3), by the number of registers. At 16
vectors they are 2 to 5 % faster on one of the two makers' processors with 32 registers, and no faster on the other, and LLVM takes 10 ms
for kernels that other products of a network have no use for."""

MAX_SINGLE_PANEL_VECTORS = {1: 6, 2: 5}
"""Vectors of a row of C up to which so few rows are one panel where there are 16 registers: 1.4 to 1.7 times as fast as two, which read B
in pieces. More than one panel of these widths gains nothing."""

K_ALIGN = 16
"""Blocks of k are multiples of it, whatever the target: the lanes of the widest vectors, so that squares of B are cut at the end of k
only."""

MIN_LARGE_C_BYTES = 1 << 20
"""Bytes of C from which each block of a chain costs a pass through a farther cache: then blocks are longer, but where A is transposed,
whose elements come one row after the other from the second cache unless the block is short."""

MIN_TILES_TO_PACK_B = 8
MAX_DOT_ROWS = 4
MAX_DOT_BYTES = 64 << 10
MAX_SHORT_DOT = 6

MIN_PANELS_TO_PACK_A = 3
"""Panels of B from which it pays to copy A, where that pays at all."""

MIN_TILES_PER_PACKING_TASK, MAX_PACKING_TASKS = 4, 8
"""Bounds where each task packs B for itself, so that tasks are few and large: at least 4 row tiles each, at most 8 tasks."""

COLUMN_SPLITS = {40: 4, 6: 2, 0: 1}
"""Where A is copied too: what tasks divide columns into, by the least number of panels. A block of rows has as many times more tiles, and
less of B is packed for it: from 512 to 2048 two threads are 2 to 8 % faster than without, one is up to 3 % slower."""

MIN_PIPELINED_VECTORS = 8
"""Vectors of a tile from which on the multiply-adds do not wait for each other."""

MAX_UNROLLED_FMAS = 64
"""Vector multiply-adds up to which a tile is written without a loop."""

MAX_SPECIALISED_FMAS, MAX_SPECIALISED_TILES = 2048, 2
"""Vector multiply-adds up to which a product is specialised, and the most different tiles of one that is."""

Size = TypeVar("Size", int, tuple[int, ...])


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers that suit the tiles of a target, and the caches of the processors that have it; none of them changes bits.

    Blocks of k whose sums go on in C are at most `max_k_block` long, `max_k_block_transposed` where A is transposed and read in place, and
    a panel's at most `max_panel_bytes`, which stay in the first cache beside A. Panels of B are copied from `copy_bytes` on, and from
    `copy_bytes_far` where its rows are `far` bytes apart or more, so that they fall into few sets of the first cache, and all tiles
    together read `copy_read_far` of it. A is copied where it is transposed and its rows are `far_a` bytes apart; or is not, and a block of
    it has more than `a_scattered` bytes.

    Of A in place, up to `a_near` bytes of a block stay in the second cache while one panel of B after the other passes. Where there is
    more, or A is copied, `a_group` bytes of tiles and `b_group` of packed panels pass each other before the next tiles come: A is read
    that much less often from a farther cache, and no panel is packed twice: a tenth to a fifth of the time of products of 1024 or 2048
    rows in float64. Where A is copied, that is done again for each group of panels, and costs more than reading panels from the
    third cache: groups of panels are wider then (`b_group_wide`), and those of tiles, where blocks of k are long (`a_group_wide`).
    """

    max_k_block: int
    max_k_block_transposed: int
    max_panel_bytes: int
    copy_bytes: int
    copy_bytes_far: int
    copy_read_far: int
    far: int
    far_a: int
    a_scattered: int
    a_near: int
    a_group: int
    a_group_wide: int
    b_group: int
    b_group_wide: int


LIMITS = {
    32: Limits(
        max_k_block=208, max_k_block_transposed=208, max_panel_bytes=40 << 10, copy_bytes=24 << 10, copy_bytes_far=8 << 10,
        copy_read_far=0, far=2048, far_a=2048, a_scattered=sys.maxsize, a_near=1 << 20,
        a_group=256 << 10, a_group_wide=512 << 10, b_group=512 << 10, b_group_wide=2 << 20),
    16: Limits(
        max_k_block=KC, max_k_block_transposed=160, max_panel_bytes=48 << 10, copy_bytes=24 << 10, copy_bytes_far=8 << 10,
        copy_read_far=144 << 10, far=1024, far_a=1024, a_scattered=1 << 20, a_near=512 << 10,
        a_group=256 << 10, a_group_wide=128 << 10, b_group=512 << 10, b_group_wide=2 << 20)}
"""By the number of registers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of one product.

    `blocks` has, for each block of rows, the rows of its tiles; `panels` has for each panel the columns of its vectors; `k_blocks` has the
    lengths that k is cut into, each summed from zero and then added to C, or, where `accumulates_in_c`, continuing the sums in C. `a` and
    `b` say how A and B are read. `dots`, if not empty: each tile is made of dot products along k; a kernel goes down C from tile to tile,
    or along it, where one tile has all rows. `axis` is what tasks divide, all of the batch together: a task is a block of rows, in one of
    so many `column_splits`, or a panel of columns.
    """

    product: Product
    lanes: int
    swapped: bool
    dots: Literal["", "down", "along"]
    blocks: tuple[tuple[int, ...], ...]
    panels: tuple[tuple[int, ...], ...]
    k_blocks: tuple[int, ...]
    accumulates_in_c: bool
    a: Literal["in place", "copied"]
    b: Literal["in place", "copied", "transposed"]
    axis: Literal["rows", "columns", "batch"]
    limits: Limits
    column_splits: int = 1

    @property
    def specialised(self) -> bool:
        """True if the product has code of its own, for all its sizes and strides, which does not divide it; otherwise it is a table for the
        driver of all products."""
        p = self.product
        if self.dots or self.a == "copied" or self.b == "copied" or len(self.k_blocks) > 1:
            return False
        vectors = p.rows * p.inner * sum(map(len, self.panels))
        return not vectors or (vectors <= MAX_SPECIALISED_FMAS and len(set(self.tiles)) * len(set(self.panels)) <= MAX_SPECIALISED_TILES)

    @property
    def tiles(self) -> tuple[int, ...]:
        """Rows of each tile."""
        return tuple(itertools.chain.from_iterable(self.blocks))

    @property
    def tasks_each(self) -> int:
        """Tasks of one product of the batch."""
        return 1 if self.specialised else {"rows": len(self.blocks), "columns": len(self.panels), "batch": 1}[self.axis]

    @property
    def tasks(self) -> int:
        return self.product.batch * self.column_splits * self.tasks_each if self.tiles and self.panels else 0

    @property
    def chains(self) -> int:
        """Sums that each element is made of, which are added at the end: more than one where even the largest tile has so few
        vectors that their multiply-adds would wait for each other."""
        chains, cells = 1, max(self.tiles) * max(map(len, self.panels))
        if not (self.accumulates_in_c and len(self.k_blocks) > 1):
            while chains * cells < MIN_PIPELINED_VECTORS and all(length % (2 * chains) == 0 for length in self.k_blocks):
                chains *= 2
        return chains

    @property
    def has_small_tiles(self) -> bool:
        """True if tiles are so small that sums of blocks cost nothing beside them."""
        return max(self.tiles) * max(map(len, self.panels)) <= MIN_PIPELINED_VECTORS

    @property
    def mc_tiles(self) -> int:
        """Tiles that a group of panels passes before the next tiles."""
        tile = max(self.k_blocks) * self.product.element_bytes * self.tiles[0]
        if self.dots or (self.a == "in place" and len(self.tiles) * tile <= self.limits.a_near):
            return len(self.tiles)
        limit = self.limits.a_group_wide if self.a == "copied" and not self.accumulates_in_c else self.limits.a_group
        return max(split_evenly(len(self.tiles), max(limit // tile, 1)))

    @property
    def nc_panels(self) -> int:
        """Panels of a column split that pass a group of tiles: where they are packed, as many as stay near, or one at once if all tiles are
        one group in place."""
        if self.b == "in place":
            return len(self.panels)
        if self.a == "in place" and self.mc_tiles == len(self.tiles):
            return 1
        limit = self.limits.b_group_wide if self.a == "copied" else self.limits.b_group
        split = -(-len(self.panels) // self.column_splits)
        return max(split_evenly(split, max(limit // (self.panel_elements * self.product.element_bytes), 1)))

    @property
    def strides_a(self) -> tuple[int, int]:
        """Elements from one row of op(A) to the next, and from one column to the next, as tiles read them."""
        p, copied = self.product, self.a == "copied"
        return (1, self.tiles[0] if copied else p.lda) if p.transpose_a else (max(self.k_blocks) if copied else p.lda, 1)

    @property
    def packed_tile_elements(self) -> int:
        """Elements of the copied rows of a large tile."""
        return max(self.k_blocks) * self.tiles[0]

    @property
    def panel_elements(self) -> int:
        """Elements of the largest packed panel."""
        return max(self.k_blocks) * self.panel_columns

    @property
    def panel_columns(self) -> int:
        """Columns of the widest panel, in whole vectors."""
        return self.lanes * max(map(len, self.panels))

    def __str__(self) -> str:
        kinds = f"{max(self.tiles, default=0)} x {len(max(self.panels, key=len, default=()))}"
        return (f"{'dot products' if self.dots else 'tiles'} of {kinds} vectors, {len(self.tiles)} x {len(self.panels)} of them, "
                f"k in {len(self.k_blocks)}, {'A copied, ' * (self.a == 'copied')}B {self.b}, split by {self.axis}"
                f"{' and columns' * (self.column_splits > 1)}")


def split_evenly(total: int, limit: int) -> tuple[int, ...]:
    """`total` as the fewest parts of at most `limit`, as equal as can be.

    >>> split_evenly(20, 8)
    (7, 7, 6)
    """
    count = -(-total // limit)
    return tuple(total // count + (i < total % count) for i in range(count))


def runs(sizes: Sequence[Size]) -> Iterator[tuple[int, int, Size, int]]:
    """Neighbours of equal size taken together: index of the first, where it begins, the size, how many. A tuple counts as its sum.

    >>> list(runs((8, 8, 7)))
    [(0, 0, 8, 2), (2, 16, 7, 1)]
    """
    index = start = 0
    for size, group in itertools.groupby(sizes):
        times = len(list(group))
        yield index, start, size, times
        index += times
        start += times * (size if isinstance(size, int) else sum(size))


def plan_product(product: Product, target: Target, hooks: bool = False) -> Plan:
    """The plan for the product on the target. With `hooks`, something is computed from B or C on the way: rows of C stay rows, and
    every element is summed in one register."""
    p, swapped = (product, False) if hooks else product.as_rows()
    lanes, limits = target.lanes(p.element_bytes), LIMITS[target.registers]
    dots = p.transpose_b and not p.transpose_a and not hooks and p.inner > 0 and (
        p.rows <= MAX_DOT_ROWS or (p.inner >= 4 * p.rows and p.rows * p.inner * p.element_bytes < MAX_DOT_BYTES))
    if dots and swapped and p.columns * p.inner <= MAX_UNROLLED_FMAS and (p.inner <= MAX_SHORT_DOT or p.batch > 1):
        p, swapped, dots = product, False, False
    if dots:
        rows = next(r for r in (4, 2, 1) if p.rows % r == 0 and r <= lanes)
        columns = lanes // rows
        tiles = (rows,) * (p.rows // rows)
        groups = tuple((min(columns, p.columns - n),) for n in range(0, p.columns, columns))
        axis = _axis(p, len(tiles), len(groups), False)
        way: Literal["down", "along"] = "down" if len(tiles) > 1 else "along"
        return Plan(p, lanes, swapped, way, _blocks(tiles, 1), groups, (p.inner,), False, "in place", "in place", axis, limits)
    panels = _panels(p, lanes, target)
    widest = max(map(len, panels), default=1)
    tiles = row_tiles(p.rows, widest, target)
    panel_bytes = p.inner * widest * target.vector_bytes
    b: Literal["in place", "copied", "transposed"] = "in place"
    if p.transpose_b and p.inner:
        b = "transposed"
    elif len(tiles) >= MIN_TILES_TO_PACK_B and (panel_bytes >= limits.copy_bytes or (
            p.ldb * p.element_bytes >= limits.far and panel_bytes >= limits.copy_bytes_far
            and len(tiles) * panel_bytes >= limits.copy_read_far)):
        b = "copied"
    has_small_tiles = max(tiles, default=0) * widest <= MIN_PIPELINED_VECTORS
    accumulates_in_c = p.inner <= (MAX_SINGLE_K_SMALL_TILES if has_small_tiles else MAX_SINGLE_K)
    may_pack_a = p.inner > 0 < len(tiles) and len(panels) >= MIN_PANELS_TO_PACK_A
    packs_transposed_a = may_pack_a and p.transpose_a and p.lda * p.element_bytes >= limits.far_a
    max_length = _max_k_block(p, len(tiles), widest * target.vector_bytes, limits, packs_transposed_a) if accumulates_in_c else KC
    k_blocks = _k_blocks(p.inner, max_length)
    axis = _axis(p, len(tiles), len(panels), b != "in place")
    mc_tiles = max(MIN_TILES_PER_PACKING_TASK, -(-len(tiles) // MAX_PACKING_TASKS))
    if packs_transposed_a or (may_pack_a and not p.transpose_a and p.rows * max(k_blocks) * p.element_bytes > limits.a_scattered):
        column_splits = 1 if p.batch > 1 else next(count for least, count in COLUMN_SPLITS.items() if len(panels) >= least)
        mc_tiles = max(MIN_TILES_PER_PACKING_TASK, -(-len(tiles) * column_splits // MAX_PACKING_TASKS))
        blocks, axis = _blocks(tiles, mc_tiles), "rows" if axis == "columns" else axis
        return Plan(p, lanes, swapped, "", blocks, panels, k_blocks, accumulates_in_c, "copied", b, axis, limits, column_splits)
    if axis == "columns":
        panels = _balanced(panels, p, lanes)
    blocks = _blocks(tiles, 1 if b == "in place" else mc_tiles)
    return Plan(p, lanes, swapped, "", blocks, panels, k_blocks, accumulates_in_c, "in place", b, axis, limits)


def _blocks(tiles: Sequence[int], limit: int) -> tuple[tuple[int, ...], ...]:
    """Tiles in blocks of at most `limit`, as equal as can be."""
    ends = itertools.accumulate(split_evenly(len(tiles), limit), initial=0)
    return tuple(tuple(tiles[first:last]) for first, last in itertools.pairwise(ends))


def _panels(p: Product, lanes: int, target: Target) -> tuple[tuple[int, ...], ...]:
    """Vectors of each panel, the last one not full where the columns do not fill it."""
    vectors, narrow = -(-p.columns // lanes), MAX_NARROW_VECTORS[target.registers]
    widths: tuple[int, ...]
    if target.registers < 32:
        several = (4, 3) if p.rows <= 2 else (3, 2) if p.rows == 3 else (2, 3) if p.rows > 4 and vectors <= narrow else (2,)
        widths = (vectors,) if 0 < vectors <= MAX_SINGLE_PANEL_VECTORS.get(p.rows, 0) else several
    else:
        widths = (8, 6) if p.rows <= 2 else (4, 3) if p.rows <= 4 else (3, 4) if p.rows > 8 and vectors <= narrow else (3,)
    width = next((w for w in widths if vectors % w == 0), widths[0])
    ends = itertools.accumulate(split_evenly(vectors, width), initial=0)
    return tuple(tuple(min(lanes, p.columns - v * lanes) for v in range(first, last)) for first, last in itertools.pairwise(ends))


def _balanced(panels: tuple[tuple[int, ...], ...], p: Product, lanes: int) -> tuple[tuple[int, ...], ...]:
    """The panels with the narrow ones in the middle, so that threads, which begin with equal shares of them, have as many columns each."""
    if p.columns % lanes:
        return panels       # the last one has to be that which is not full
    wide = [counts for counts in panels if counts == panels[0]]
    before = -(-len(wide) // 2)
    return (*wide[:before], *panels[len(wide):], *wide[before:])


def row_tiles(rows: int, width: int, target: Target) -> tuple[int, ...]:
    """Equal tiles: of 8 rows where 8 divides the rows, else of about as many as the registers hold."""
    spare = 1 if target.fma else 2      # for a splat of A; without fused operations, and for a product
    if target.registers < 32 and rows > 2:
        spare = 2       # of all 16, LLVM would keep a sum in memory
    limit = min((target.registers - spare - width) // width, 16)
    best = [8] * (limit > 8) + list(range(limit, limit * 2 // 3, -1))
    return split_evenly(rows, next((r for r in best if rows % r == 0), min(limit, 9)))


def _max_k_block(p: Product, tiles: int, row_bytes: int, limits: Limits, packs_transposed_a: bool) -> int:
    """The longest block of a chain; `row_bytes` are those of a row of a panel; `packs_transposed_a`: A is transposed, and copied. Sums go
    on in C, so this changes no bits."""
    if tiles <= 1:
        return sys.maxsize
    length = limits.max_k_block_transposed if p.transpose_a and not packs_transposed_a else limits.max_k_block
    near = min(length, limits.max_panel_bytes // row_bytes)
    return near if p.transpose_a or p.rows * p.columns * p.element_bytes <= MIN_LARGE_C_BYTES else KC


def _k_blocks(inner: int, limit: int) -> tuple[int, ...]:
    """Blocks of k, all but the last a multiple of `K_ALIGN`."""
    sizes = [K_ALIGN * units for units in split_evenly(-(-inner // K_ALIGN), max(limit // K_ALIGN, 1))] or [0]
    return (*sizes[:-1], inner - sum(sizes[:-1]))


def _axis(p: Product, tiles: int, panels: int, packed: bool) -> Literal["rows", "columns", "batch"]:
    """Tasks that are many enough and repeat no packing; a thread's part of C should be contiguous."""
    if p.batch >= 8:
        return "batch"
    if packed:
        return "columns" if panels >= 4 or panels >= tiles else "rows"
    return "rows" if tiles >= 8 or tiles >= panels else "columns"
