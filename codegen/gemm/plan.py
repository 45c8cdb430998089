"""Decides how a product is computed, by the product and the target, never by the number of threads: the only place with thresholds.

C is cut into tiles of some rows by some vectors, which stay in registers while k runs. Rows are cut into *equal* tiles and columns
into *equal* panels as far as can be, so most products need one or two kernels. An element of C is one chain of fused
multiply-adds for each part of k, and the sum of the parts in order, whatever the tile: the same bits on every target that has them. So the
sizes of the parts (`PART`) belong to the meaning of a product. Dot products, and products whose tiles all have fewer than `LATENCY`
vectors, add up in several chains, whose number depends on the shape and the lanes.

The numbers were measured on processors of two makers, as ratios to the other choices:

- Tiles of at least 12 vectors and 6 rows are within 3 % of the peak of multiply-adds where B is near; with 8 rows, A needs no copy;
  with 3 vectors they are up to 10 % faster than with 2 where B is not near. Where 4 or 8 vectors are a row of C, 6 rows by 4 vectors
  are 2 to 5 % faster than panels of 3 and 2, and 10 to 15 % faster than panels of 2.
- Copying a panel of B costs as much as some 2 rows of C. It pays from `COPY_TILES` row tiles on where a panel does not
  fit into the first cache by itself: 3 to 60 %, most where rows of B are far apart.
- B transposed has to be turned, which costs as much as 7 rows of C; for few rows, dot products along k are faster.
- Small matrices times vectors (`UNROLLED`) are written out as they stand: dot products take the driver 30 to 50 ns each. 10 x 3 is 1.5 to
  1.8 times as fast so, a batch of 8 x 8 twice, of 3 x 3 ten times. A single one with rows longer than `SHORT_DOT` would be slower.
- A transposed is read a few elements a row. Where its rows are far apart that is up to twice as slow as reading a copy.

What depends on caches, or on how long a tile takes, is in `Limits`. Those of 32 registers were measured with AVX-512, first caches of 48 kB
and second ones of 2 MB; those of 16 registers with AVX2 on a Zen 3 (32 and 512 kB), whose tiles take half as long a step of k:

- Parts as long as they may be: 5 to 12 % faster than parts of 128 to 208. But where A is transposed and read in place, up to 13 % slower.
- A transposed is copied from rows of 1 kB on: 6 to 20 % faster; from shorter ones, with short parts, as fast or 2 to 7 % slower.
- B is copied where its rows are 1 kB apart: 2 to 15 % faster at 256 to 320 columns and as much of k; at 200, 12 % slower. With a
  dozen tiles and 8 kB a panel it is not: training a network took 5 % longer.
- A of more than 1 MB a part, though not transposed, is copied: up to 10 % faster at 2048, where its rows evict each other.
- Tiles of 4 rows by 3 vectors, which need all 16 registers, take twice as long as others: LLVM keeps a sum in memory.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Literal, TypeVar

from adjit.codegen.gemm.product import Product
from adjit.codegen.target import Target
from adjit.ir.dataclass import dataclass

PART = 384
"""Length of the parts of k that are summed on their own, about that of BLAS: errors grow with it. Up to `WHOLE` it is one part."""

WHOLE = 768

WHOLE_IN_STRETCHES = 1024
"""The same where tiles have so few cells that their kernels divide k themselves (`Plan.few_cells`)."""

NARROW = {32: 8, 16: 16}
"""Most vectors of a row of C for tiles of 6 rows by 4 vectors (with 16 registers, for 3 rows by 3), by the number of registers. At 16
vectors they are 2 to 5 % faster on one of the two makers' processors with 32 registers, and no faster on the other, and LLVM takes 10 ms
for kernels that other products of a network have no use for."""

ONE_PANEL = {1: 6, 2: 5}
"""Vectors of a row of C up to which so few rows are one panel where there are 16 registers: 1.4 to 1.7 times as fast as two, which read B
in pieces. More than one panel of these widths gains nothing."""

GRAIN = 16
"""Parts are multiples of it, whatever the target: the lanes of the widest vectors, so that squares of B are cut at the end of k only."""

LARGE = 1 << 20
"""Bytes of C from which each part of a chain costs a pass through a farther cache: then parts are longer, but where A is transposed, whose
elements come one row after the other from the second cache unless the part is short."""

COPY_TILES = 8
DOT_ROWS = 4
DOT_BYTES = 64 << 10
SHORT_DOT = 6

A_PANELS = 3
"""Panels of B from which it pays to copy A, where that pays at all."""

PACKED_TILES, PACKED_TASKS = 4, 8
"""Where every task packs B: the fewest tiles, and the most tasks, but for those that the former makes."""

STRIPES = {40: 4, 6: 2, 0: 1}
"""Where A is copied too: what tasks divide columns into, by the least number of panels. A block of rows has as many times more tiles, and
less of B is packed for it: from 512 to 2048 two threads are 2 to 8 % faster than without, one is up to 3 % slower."""

LATENCY = 8
"""Vectors of a tile from which on the multiply-adds do not wait for each other."""

UNROLLED = 64
"""Vector multiply-adds up to which a tile is written without a loop."""

WRITTEN_OUT, WRITTEN_TILES = 2048, 2
"""Vector multiply-adds up to which a product is written out, and the most different tiles of one that is."""

Size = TypeVar("Size", int, tuple[int, ...])


@dataclass(frozen=True, slots=True)
class Limits:
    """Numbers that suit the tiles of a target, and the caches of the processors that have it; none of them changes bits.

    Chained parts of k are at most `chained` long, `chained_turned` where A is transposed and read in place, and a panel's at most
    `chained_bytes`, which stay in the first cache beside A. Panels of B are copied from `copy_bytes` on, and from `copy_bytes_far` where
    its rows are `far` bytes apart or more, so that they fall into few sets of the first cache, and all tiles together read
    `copy_read_far` of it. A is copied where it is transposed and its rows are `far_a` bytes apart; or is not, and a part of it has more
    than `a_scattered` bytes.

    Of A in place, up to `a_near` bytes of a part stay in the second cache while one panel of B after the other passes. Where there is
    more, or A is copied, `a_group` bytes of tiles and `b_group` of packed panels pass each other before the next tiles come: A is read
    that much less often from a farther cache, and no panel is packed twice: a tenth to a fifth of the time of products of 1024 or 2048
    rows in float64. Where A is copied, that is done again for each group of panels, and costs more than reading panels from the
    third cache: groups of panels are wider then (`b_group_wide`), and those of tiles, where parts of k are long (`a_group_wide`).
    """

    chained: int
    chained_turned: int
    chained_bytes: int
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
        chained=208, chained_turned=208, chained_bytes=40 << 10, copy_bytes=24 << 10, copy_bytes_far=8 << 10, copy_read_far=0,
        far=2048, far_a=2048, a_scattered=sys.maxsize, a_near=1 << 20,
        a_group=256 << 10, a_group_wide=512 << 10, b_group=512 << 10, b_group_wide=2 << 20),
    16: Limits(
        chained=PART, chained_turned=160, chained_bytes=48 << 10, copy_bytes=24 << 10, copy_bytes_far=8 << 10, copy_read_far=144 << 10,
        far=1024, far_a=1024, a_scattered=1 << 20, a_near=512 << 10,
        a_group=256 << 10, a_group_wide=128 << 10, b_group=512 << 10, b_group_wide=2 << 20)}
"""By the number of registers."""


@dataclass(frozen=True, slots=True)
class Plan:
    """How one product is computed.

    `blocks` has, for each block of rows, the rows of its tiles; `panels` has for each panel the columns of its vectors; `parts` has the
    lengths that k is cut into, each summed from zero and then added to C, or, where `chained`, continuing the sums in C. `a` and `b` say
    how A and B are read. `dots`, if not empty: each tile is made of dot products along k; a kernel goes
    down C from tile to tile, or along it, where one tile has all rows. `axis` is what tasks divide, all of the batch together: a task is a
    block of rows, in one of so many `stripes` of columns, or a panel of columns.
    """

    product: Product
    lanes: int
    swapped: bool
    dots: Literal["", "down", "along"]
    blocks: tuple[tuple[int, ...], ...]
    panels: tuple[tuple[int, ...], ...]
    parts: tuple[int, ...]
    chained: bool
    a: Literal["in place", "copied"]
    b: Literal["in place", "copied", "transposed"]
    axis: Literal["rows", "columns", "batch"]
    limits: Limits
    stripes: int = 1

    @property
    def written_out(self) -> bool:
        """Whether the product has code of its own, for all its sizes and strides, which does not divide it; otherwise it is a table for the
        driver of all products."""
        p = self.product
        if self.dots or self.a == "copied" or self.b == "copied" or len(self.parts) > 1:
            return False
        vectors = p.rows * p.inner * sum(map(len, self.panels))
        return not vectors or (vectors <= WRITTEN_OUT and len(set(self.tiles)) * len(set(self.panels)) <= WRITTEN_TILES)

    @property
    def tiles(self) -> tuple[int, ...]:
        """Rows of each tile."""
        return tuple(itertools.chain.from_iterable(self.blocks))

    @property
    def tasks_each(self) -> int:
        """Tasks of one product of the batch."""
        return 1 if self.written_out else {"rows": len(self.blocks), "columns": len(self.panels), "batch": 1}[self.axis]

    @property
    def tasks(self) -> int:
        return self.product.batch * self.stripes * self.tasks_each if self.tiles and self.panels else 0

    @property
    def chains(self) -> int:
        """Sums that each element is made of, which are added at the end: more than one where even the largest tile has so few
        vectors that their multiply-adds would wait for each other."""
        chains, cells = 1, max(self.tiles) * max(map(len, self.panels))
        if not (self.chained and len(self.parts) > 1):
            while chains * cells < LATENCY and all(length % (2 * chains) == 0 for length in self.parts):
                chains *= 2
        return chains

    @property
    def few_cells(self) -> bool:
        """Whether tiles are so small that sums of stretches cost nothing beside them."""
        return max(self.tiles) * max(map(len, self.panels)) <= LATENCY

    @property
    def together(self) -> int:
        """Tiles that a group of panels passes before the next tiles."""
        tile = max(self.parts) * self.product.element_bytes * self.tiles[0]
        if self.dots or (self.a == "in place" and len(self.tiles) * tile <= self.limits.a_near):
            return len(self.tiles)
        most = self.limits.a_group_wide if self.a == "copied" and not self.chained else self.limits.a_group
        return max(equal_parts(len(self.tiles), max(most // tile, 1)))

    @property
    def beside(self) -> int:
        """Panels of a stripe that pass a group of tiles: where they are packed, as many as stay near, or one at once if all tiles are
        one group in place."""
        if self.b == "in place":
            return len(self.panels)
        if self.a == "in place" and self.together == len(self.tiles):
            return 1
        most = self.limits.b_group_wide if self.a == "copied" else self.limits.b_group
        stripe = -(-len(self.panels) // self.stripes)
        return max(equal_parts(stripe, max(most // (self.panel_elements * self.product.element_bytes), 1)))

    @property
    def strides_a(self) -> tuple[int, int]:
        """Elements from one row of op(A) to the next, and from one column to the next, as tiles read them."""
        p, copied = self.product, self.a == "copied"
        return (1, self.tiles[0] if copied else p.row_a) if p.transpose_a else (max(self.parts) if copied else p.row_a, 1)

    @property
    def strip_elements(self) -> int:
        """Elements of the copied rows of a large tile."""
        return max(self.parts) * self.tiles[0]

    @property
    def panel_elements(self) -> int:
        """Elements of the largest packed panel."""
        return max(self.parts) * self.panel_columns

    @property
    def panel_columns(self) -> int:
        """Columns of the widest panel, in whole vectors."""
        return self.lanes * max(map(len, self.panels))

    def __str__(self) -> str:
        kinds = f"{max(self.tiles, default=0)} x {len(max(self.panels, key=len, default=()))}"
        return (f"{'dot products' if self.dots else 'tiles'} of {kinds} vectors, {len(self.tiles)} x {len(self.panels)} of them, "
                f"k in {len(self.parts)}, {'A copied, ' * (self.a == 'copied')}B {self.b}, split by {self.axis}"
                f"{' and columns' * (self.stripes > 1)}")


def equal_parts(total: int, most: int) -> tuple[int, ...]:
    """`total` as the fewest parts of at most `most`, as equal as can be.

    >>> equal_parts(20, 8)
    (7, 7, 6)
    """
    count = -(-total // most)
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
        p.rows <= DOT_ROWS or (p.inner >= 4 * p.rows and p.rows * p.inner * p.element_bytes < DOT_BYTES))
    if dots and swapped and p.columns * p.inner <= UNROLLED and (p.inner <= SHORT_DOT or p.batch > 1):
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
    elif len(tiles) >= COPY_TILES and (panel_bytes >= limits.copy_bytes or (
            p.row_b * p.element_bytes >= limits.far and panel_bytes >= limits.copy_bytes_far
            and len(tiles) * panel_bytes >= limits.copy_read_far)):
        b = "copied"
    few_cells = max(tiles, default=0) * widest <= LATENCY
    chained = p.inner <= (WHOLE_IN_STRETCHES if few_cells else WHOLE)
    copies_a = p.inner > 0 < len(tiles) and len(panels) >= A_PANELS
    turns_a = copies_a and p.transpose_a and p.row_a * p.element_bytes >= limits.far_a
    parts = _parts(p.inner, _longest_part(p, len(tiles), widest * target.vector_bytes, limits, turns_a) if chained else PART)
    axis = _axis(p, len(tiles), len(panels), b != "in place")
    together = max(PACKED_TILES, -(-len(tiles) // PACKED_TASKS))
    if turns_a or (copies_a and not p.transpose_a and p.rows * max(parts) * p.element_bytes > limits.a_scattered):
        stripes = 1 if p.batch > 1 else next(count for least, count in STRIPES.items() if len(panels) >= least)
        together = max(PACKED_TILES, -(-len(tiles) * stripes // PACKED_TASKS))
        blocks, axis = _blocks(tiles, together), "rows" if axis == "columns" else axis
        return Plan(p, lanes, swapped, "", blocks, panels, parts, chained, "copied", b, axis, limits, stripes)
    if axis == "columns":
        panels = _balanced(panels, p, lanes)
    blocks = _blocks(tiles, 1 if b == "in place" else together)
    return Plan(p, lanes, swapped, "", blocks, panels, parts, chained, "in place", b, axis, limits)


def _blocks(tiles: Sequence[int], most: int) -> tuple[tuple[int, ...], ...]:
    """Tiles in blocks of at most `most`, as equal as can be."""
    ends = itertools.accumulate(equal_parts(len(tiles), most), initial=0)
    return tuple(tuple(tiles[first:last]) for first, last in itertools.pairwise(ends))


def _panels(p: Product, lanes: int, target: Target) -> tuple[tuple[int, ...], ...]:
    """Vectors of each panel, the last one not full where the columns do not fill it."""
    vectors, narrow = -(-p.columns // lanes), NARROW[target.registers]
    widths: tuple[int, ...]
    if target.registers < 32:
        several = (4, 3) if p.rows <= 2 else (3, 2) if p.rows == 3 else (2, 3) if p.rows > 4 and vectors <= narrow else (2,)
        widths = (vectors,) if 0 < vectors <= ONE_PANEL.get(p.rows, 0) else several
    else:
        widths = (8, 6) if p.rows <= 2 else (4, 3) if p.rows <= 4 else (3, 4) if p.rows > 8 and vectors <= narrow else (3,)
    width = next((w for w in widths if vectors % w == 0), widths[0])
    ends = itertools.accumulate(equal_parts(vectors, width), initial=0)
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
    most = min((target.registers - spare - width) // width, 16)
    best = [8] * (most > 8) + list(range(most, most * 2 // 3, -1))
    return equal_parts(rows, next((r for r in best if rows % r == 0), min(most, 9)))


def _longest_part(p: Product, tiles: int, row_bytes: int, limits: Limits, turns_a: bool) -> int:
    """Most of a part of a chain; `row_bytes` are those of a row of a panel; `turns_a`: A is transposed, and copied. Sums go on in C, so
    this changes no bits."""
    if tiles <= 1:
        return sys.maxsize
    near = min(limits.chained_turned if p.transpose_a and not turns_a else limits.chained, limits.chained_bytes // row_bytes)
    return near if p.transpose_a or p.rows * p.columns * p.element_bytes <= LARGE else PART


def _parts(inner: int, most: int) -> tuple[int, ...]:
    """Parts of k, all but the last a multiple of `GRAIN`."""
    sizes = [GRAIN * grains for grains in equal_parts(-(-inner // GRAIN), max(most // GRAIN, 1))] or [0]
    return (*sizes[:-1], inner - sum(sizes[:-1]))


def _axis(p: Product, tiles: int, panels: int, packed: bool) -> Literal["rows", "columns", "batch"]:
    """Tasks that are many enough and repeat no packing; a thread's part of C should be contiguous."""
    if p.batch >= 8:
        return "batch"
    if packed:
        return "columns" if panels >= 4 or panels >= tiles else "rows"
    return "rows" if tiles >= 8 or tiles >= panels else "columns"
