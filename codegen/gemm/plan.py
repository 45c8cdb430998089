"""Planning of a product: tile sizes, packing, blocks of k, tasks. The plan follows from the product and the target, never from the number
of threads; all thresholds are in this module.

C is cut into tiles of some rows by some vectors; a tile stays in registers while k runs. Rows are cut into *equal* tiles and columns into
*equal* panels as far as possible, so most products need one or two kernels. An element of C is one chain of fused multiply-adds for each
block of k, and the sum of the blocks in order, whatever the tile size: the same bits on every target with fused multiply-adds. So the block
length `KC` is part of the product's definition. Dot products, and products whose tiles all have fewer than `MIN_PIPELINED_VECTORS` vectors,
use several chains per element; the number of chains depends on the shape and the lanes.

The numbers were measured on processors of two makers, as ratios to the alternatives:

- Tiles of at least 12 vectors and 6 rows are within 3 % of peak multiply-add throughput if B is in the L1 cache; with 8 rows, A needs no
  packing. With 3 vectors, tiles are up to 10 % faster than with 2 if B is not in the L1 cache. If a row of C has 4 or 8 vectors, 6 rows
  by 4 vectors are 2 to 5 % faster than panels of 3 and 2, and 10 to 15 % faster than panels of 2.
- Packing a panel of B costs as much as some 2 rows of C. It pays from `MIN_TILES_TO_PACK_B` row tiles on, if a panel does not fit into the
  L1 cache by itself: 3 to 60 %, most if the rows of B are far apart.
- B transposed is packed with a transposition, which costs as much as 7 rows of C; for few rows, dot products along k are faster.
- Small matrices times vectors (`MAX_UNROLLED_FMAS`) are specialised: in the driver, a dot product takes 30 to 50 ns. Specialised, 10 x 3 is
  1.5 to 1.8 times as fast, a batch of 8 x 8 twice, of 3 x 3 ten times. A single product (no batch) with rows longer than `MAX_SHORT_DOT`
  would be slower.
- A transposed is read a few elements per row. If its rows are far apart, that is up to twice as slow as reading a packed copy.

Numbers that depend on caches, or on the time a tile takes, are in `Limits`. The limits for 32 registers were measured with AVX-512, first
caches of 48 kB and L2 caches of 2 MB; the limits for 16 registers with AVX2 on a Zen 3 (32 and 512 kB), whose tiles take half as long
per step of k:

- Blocks of k as long as possible are 5 to 12 % faster than blocks of 128 to 208. But if A is transposed and read in place, long blocks are
  up to 13 % slower.
- A transposed is packed if its rows have 1 kB or more: 6 to 20 % faster. With shorter rows and short blocks, packing is as fast or 2 to 7 %
  slower.
- B is packed if its rows are 1 kB apart: 2 to 15 % faster at 256 to 320 columns and as much of k; 12 % slower at 200. With a dozen tiles
  and 8 kB a panel, B is not packed: training a network took 5 % longer.
- A of more than 1 MB a block, though not transposed, is packed: up to 10 % faster at 2048, where its rows evict each other.
- Tiles of 4 rows by 3 vectors, which need all 16 registers, take twice as long as others: LLVM spills a sum.
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
"""Length of the blocks of k, each summed on its own; about the block length of BLAS, since errors grow with it. Up to `MAX_SINGLE_K`, k is
one block."""

MAX_SINGLE_K = 768

MAX_SINGLE_K_SMALL_TILES = 1024
"""`MAX_SINGLE_K` for tiles with so few cells that their kernels divide k themselves (`Plan.has_small_tiles`)."""

MAX_NARROW_VECTORS = {32: 8, 16: 16}
"""Maximum vectors of a row of C for tiles of 6 rows by 4 vectors (3 rows by 3 with 16 registers), by number of registers. At 16 vectors
such tiles are 2 to 5 % faster on one maker's processors with 32 registers, and no faster on the other's, and LLVM takes 10 ms for kernels
that other products of a network cannot use."""

MAX_SINGLE_PANEL_VECTORS = {1: 6, 2: 5}
"""Maximum vectors of a row of C that are one panel, by number of rows, with 16 registers: 1.4 to 1.7 times as fast as two panels, which
read B in pieces. More than one panel of these widths gains nothing."""

K_ALIGN = 16
"""Divisor of the lengths of k's blocks, whatever the target: the lanes of the widest vectors, so that squares of B are cut at the end of k
only."""

MIN_LARGE_C_BYTES = 1 << 20
"""Bytes of C from which each block of k costs a pass through a farther cache. Then blocks are longer, except if A is transposed: its
elements come one row after the other from the L2 cache unless the block is short."""

MIN_TILES_TO_PACK_B = 8
MAX_DOT_ROWS = 4
MAX_DOT_BYTES = 64 << 10
MAX_SHORT_DOT = 6

MIN_PANELS_TO_PACK_A = 3
"""Panels of B from which packing A pays, for products in which it pays at all."""

MIN_TILES_PER_PACKING_TASK, MAX_PACKING_TASKS = 4, 8
"""Bounds if each task packs B for itself, so that tasks are few and large: at least 4 row tiles each, at most 8 tasks."""

COLUMN_SPLITS = {40: 4, 6: 2, 0: 1}
"""Number of column splits, by the minimum number of panels, for plans that pack A too. A row block has as many times more tiles, and less
of B is packed for it: from 512 to 2048 two threads are 2 to 8 % faster than without splits, one thread is up to 3 % slower."""

MIN_PIPELINED_VECTORS = 8
"""Vectors of a tile from which multiply-adds do not wait for each other."""

MAX_UNROLLED_FMAS = 64
"""Vector multiply-adds up to which a tile is written without a loop."""

MAX_SPECIALISED_FMAS, MAX_SPECIALISED_TILES = 2048, 2
"""Maximum of vector multiply-adds, and of different tile sizes, of a product that is specialised."""

Size = TypeVar("Size", int, tuple[int, ...])


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that suit the tiles of a target, and the caches of its processors. No limit changes bits.

    Blocks of k whose sums continue in C have at most `max_k_block` elements (`max_k_block_transposed` if A is transposed and read in
    place), and at most `max_panel_bytes` per panel, so that the panel stays in the L1 cache beside A. Panels of B are packed from
    `copy_bytes` on, or from `copy_bytes_far` if the rows of B are at least `far` bytes apart (such rows fall into few sets of the L1
    cache) and all tiles together read at least `copy_read_far` bytes of B. A transposed is packed if its rows are `far_a` bytes apart; A
    not transposed, if a block of A has more than `a_scattered` bytes.

    If A is read in place, up to `a_near` bytes of a block of A stay in the L2 cache while the panels of B pass. For a larger block, or
    for packed A, `a_group` bytes of tiles and `b_group` bytes of packed panels are combined before the next tiles follow: A is read less
    often from a farther cache, and no panel is packed twice. That saves a tenth to a fifth of the time of products of 1024 or 2048 rows in
    float64. Packed A is packed again for each group of panels, which costs more than reading panels from the L3 cache: then groups of
    panels are wider (`b_group_wide`), and so are groups of tiles, if blocks of k are long (`a_group_wide`).
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
"""Limits by the number of registers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of one product.

    `blocks` has, for each row block, the rows of its tiles. `panels` has, for each panel, the columns of its vectors. `k_blocks` has the
    lengths of the blocks of k; each is summed from zero and then added to C, or, with `accumulates_in_c`, continues the sums in C. `a` and
    `b` say how A and B are read. `dots`, if not empty: each tile is made of dot products along k, and the kernel goes down C from tile to
    tile, or along C if one tile has all rows. `axis` is the axis that tasks divide, over the whole batch: a task is a row block, in one of
    `column_splits` splits, or a panel of columns.
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
        """True if the product has code of its own, for all its sizes and strides, which is not divided into tasks; else the product is a
        table for the driver of all products."""
        p = self.product
        if self.dots or self.a == "copied" or self.b == "copied" or len(self.k_blocks) > 1 or p.adds:
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
        """Independent sums of each element, which are added at the end: more than one if even the largest tile has so few vectors that
        multiply-adds would wait for each other."""
        chains, cells = 1, max(self.tiles) * max(map(len, self.panels))
        if not (self.accumulates_in_c and len(self.k_blocks) > 1):
            while chains * cells < MIN_PIPELINED_VECTORS and all(length % (2 * chains) == 0 for length in self.k_blocks):
                chains *= 2
        return chains

    @property
    def has_small_tiles(self) -> bool:
        """True if tiles are so small that their kernels sum blocks of k at no cost."""
        return max(self.tiles) * max(map(len, self.panels)) <= MIN_PIPELINED_VECTORS

    @property
    def mc_tiles(self) -> int:
        """Tiles of a group: a group of panels passes all of them before the next tiles follow."""
        tile = max(self.k_blocks) * self.product.element_bytes * self.tiles[0]
        if self.dots or (self.a == "in place" and len(self.tiles) * tile <= self.limits.a_near):
            return len(self.tiles)
        limit = self.limits.a_group_wide if self.a == "copied" and not self.accumulates_in_c else self.limits.a_group
        return max(split_evenly(len(self.tiles), max(limit // tile, 1)))

    @property
    def nc_panels(self) -> int:
        """Panels of a group, which passes a group of tiles. Packed panels: as many as the L2 cache holds, or one if all tiles are one
        group in place. Panels in place: all."""
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
        if self.a == "in place":
            return self.product.strides_a
        return (1, self.tiles[0]) if self.product.transpose_a else (max(self.k_blocks), 1)

    @property
    def packed_tile_elements(self) -> int:
        """Elements of a large tile of A when packed."""
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
    """`total` as the fewest summands of at most `limit`, as equal as possible.

    >>> split_evenly(20, 8)
    (7, 7, 6)
    """
    count = -(-total // limit)
    return tuple(total // count + (i < total % count) for i in range(count))


def runs(sizes: Sequence[Size]) -> Iterator[tuple[int, int, Size, int]]:
    """Runs of equal neighbours: index of the first, its offset, the size, the number of neighbours. A tuple counts as its sum.

    >>> list(runs((8, 8, 7)))
    [(0, 0, 8, 2), (2, 16, 7, 1)]
    """
    index = start = 0
    for size, group in itertools.groupby(sizes):
        times = len(list(group))
        yield index, start, size, times
        index += times
        start += times * (size if isinstance(size, int) else sum(size))


def plan_product(product: Product, target: Target, has_epilogue: bool = False) -> Plan:
    """The plan for the product on the target. `has_epilogue`: ops follow on tiles of C. Then rows of C stay rows, and every
    element is summed in one register."""
    of_pairs = product.conjugates is not None
    p, swapped = (product, False) if has_epilogue or of_pairs else product.as_rows()
    lanes, limits = target.lanes(p.element_bytes), LIMITS[target.registers]
    dots = p.transpose_b and not p.transpose_a and not (has_epilogue or of_pairs or p.adds) and p.inner > 0 and (
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
    tiles = row_tiles(p.rows, widest, target) if not of_pairs else tuple(2 * count for count in pair_tiles(p.rows // 2, widest, target))
    panel_bytes = p.inner * widest * target.vector_bytes
    b: Literal["in place", "copied", "transposed"] = "in place"
    if p.transpose_b and p.inner:
        b = "transposed"
    elif len(tiles) >= MIN_TILES_TO_PACK_B and (panel_bytes >= limits.copy_bytes or (
            p.strides_b[0] * p.element_bytes >= limits.far and panel_bytes >= limits.copy_bytes_far
            and len(tiles) * panel_bytes >= limits.copy_read_far)):
        b = "copied"
    has_small_tiles = max(tiles, default=0) * widest <= MIN_PIPELINED_VECTORS
    accumulates_in_c = p.inner <= (MAX_SINGLE_K_SMALL_TILES if has_small_tiles else MAX_SINGLE_K) and not of_pairs
    may_pack_a = p.inner > 0 < len(tiles) and len(panels) >= MIN_PANELS_TO_PACK_A
    packs_transposed_a = may_pack_a and p.transpose_a and p.strides_a[1] * p.element_bytes >= limits.far_a
    max_length = _max_k_block(p, len(tiles), widest * target.vector_bytes, limits, packs_transposed_a) if accumulates_in_c else KC
    k_blocks = _k_blocks(p.inner, max_length)
    axis = _axis(p, len(tiles), len(panels), b != "in place")
    mc_tiles = max(MIN_TILES_PER_PACKING_TASK, -(-len(tiles) // MAX_PACKING_TASKS))
    is_scattered = p.rows * max(k_blocks) * p.element_bytes > limits.a_scattered and not p.transpose_a and not of_pairs
    if packs_transposed_a or (may_pack_a and is_scattered):
        column_splits = 1 if p.batch > 1 else next(count for least, count in COLUMN_SPLITS.items() if len(panels) >= least)
        mc_tiles = max(MIN_TILES_PER_PACKING_TASK, -(-len(tiles) * column_splits // MAX_PACKING_TASKS))
        blocks, axis = _blocks(tiles, mc_tiles), "rows" if axis == "columns" else axis
        return Plan(p, lanes, swapped, "", blocks, panels, k_blocks, accumulates_in_c, "copied", b, axis, limits, column_splits)
    if axis == "columns":
        panels = _balanced(panels, p, lanes)
    blocks = _blocks(tiles, 1 if b == "in place" else mc_tiles)
    return Plan(p, lanes, swapped, "", blocks, panels, k_blocks, accumulates_in_c, "in place", b, axis, limits)


def _blocks(tiles: Sequence[int], limit: int) -> tuple[tuple[int, ...], ...]:
    """Tiles in blocks of at most `limit`, as equal as possible."""
    ends = itertools.accumulate(split_evenly(len(tiles), limit), initial=0)
    return tuple(tuple(tiles[first:last]) for first, last in itertools.pairwise(ends))


def _panels(p: Product, lanes: int, target: Target) -> tuple[tuple[int, ...], ...]:
    """Vectors of each panel. The last vector is partly filled if the columns do not fill it."""
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
    """The panels with the narrow ones in the middle: threads begin with equal shares of panels, and so have equally many columns."""
    if p.columns % lanes:
        return panels       # the partly filled panel has to stay the last
    wide = [counts for counts in panels if counts == panels[0]]
    before = -(-len(wide) // 2)
    return (*wide[:before], *panels[len(wide):], *wide[before:])


def row_tiles(rows: int, width: int, target: Target) -> tuple[int, ...]:
    """Equal tiles: of 8 rows if 8 divides the rows, else of about as many rows as the registers hold."""
    limit = _max_rows(rows, width, target)
    best = [8] * (limit > 8) + list(range(limit, limit * 2 // 3, -1))
    return split_evenly(rows, next((r for r in best if rows % r == 0), min(limit, 9)))


def _max_rows(rows: int, width: int, target: Target) -> int:
    """Maximum rows of a tile, whose sums are in registers."""
    spare = 1 if target.fma else 2      # registers for a splat of A, and, without FMA, for a product
    if target.registers < 32 and rows > 2:
        spare = 2       # with all 16 registers in use, LLVM would spill a sum
    return min((target.registers - spare - width) // width, 16)


def pair_tiles(rows: int, width: int, target: Target) -> tuple[int, ...]:
    """Equal tiles of rows of complex numbers, each of which takes the registers of two rows: of 4 rows if 4 divides the rows, else of as
    many as the registers hold."""
    limit = max(_max_rows(2 * rows, width, target) // 2, 1)
    best = [4] * (limit > 4) + list(range(limit, limit * 2 // 3, -1))
    return split_evenly(rows, next((r for r in best if rows % r == 0), min(limit, 4)))


def _max_k_block(p: Product, tiles: int, row_bytes: int, limits: Limits, packs_transposed_a: bool) -> int:
    """Maximum length of a block of k whose sum continues in C, which changes no bits. `row_bytes`: bytes of a row of a panel;
    `packs_transposed_a`: A is transposed, and packed."""
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
    """The axis that tasks divide: there are enough tasks, no packing is repeated, and a thread's share of C is contiguous if possible."""
    if p.batch >= 8:
        return "batch"
    if packed:
        return "columns" if panels >= 4 or panels >= tiles else "rows"
    return "rows" if tiles >= 8 or tiles >= panels else "columns"
