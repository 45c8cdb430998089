"""Kernel of a tile made of dot products, for few rows times B transposed: lanes run along k, and are summed at the end in a fixed tree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

from adjit.codegen.gemm.kernels import TILE, Kernel, write_kernel
from adjit.codegen.gemm.table import number
from adjit.codegen.llvm.compensated_sums import BLOCK_ADDITIONS, add_block, compensated_total
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import VectorBuilder
from adjit.ir.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class DotKind:
    """Key of a dot-product kernel: rows of A and of B; `chains`, the vectors that a step of k takes from each row, each for its own sum;
    `rest`, the elements of k after the last whole step; `whole`, true if there are whole steps; `blocked`, true if k is summed in blocks
    (`llvm/compensated_sums.py`). The kernel goes from tile to tile down C, or `along` C; then the parameters A and B are swapped.
    """

    rows: int
    columns: int
    chains: int
    rest: int
    whole: bool
    blocked: bool
    along: bool

    @classmethod
    def of(cls, rows: int, columns: int, inner: int, lanes: int, along: bool) -> DotKind:
        """The kind for a known k."""
        cells = rows * columns
        block_steps = _block_steps(cells)
        chains = max(MIN_PARALLEL_SUMS // cells, 1) if inner > block_steps * lanes else 1
        group = chains * lanes
        return cls(rows, columns, chains, inner % group, inner >= group, inner > block_steps * group, along)

    @property
    def name(self) -> str:
        marks = "" if self.whole else "_short"
        marks += f"_chains{self.chains}" * (self.chains > 1) + f"_rest{self.rest}" * (self.rest > 0)
        return f"dots_{self.rows}x{self.columns}{marks}{'_stretched' * self.blocked}{'_along' * self.along}"


MIN_PARALLEL_SUMS = 4
"""Independent sums for a long k: with fewer, additions would wait for each other."""


def _block_steps(cells: int) -> int:
    """Steps of a block. The work at its end grows with the cells (4 cells cost about one step), and so do the steps."""
    return BLOCK_ADDITIONS * max(cells // 2, 1)


@cache
def dot_kernel(target: Target, dtype: str, rows: int, columns: int, inner: int, along: bool) -> Kernel:
    """The kernel for tiles of `rows` rows of A times `columns` rows of B, both in place."""
    kind = DotKind.of(rows, columns, inner, VectorBuilder(target, dtype).lanes, along)
    return write_kernel(target, dtype, kind.name, TILE, lambda text: _write(text, kind))


def _write(text: VectorBuilder, kind: DotKind) -> None:
    lanes, rows, columns, cells, chains = text.lanes, kind.rows, kind.columns, kind.rows * kind.columns, kind.chains
    names = ("inner_b", "lda", "column_c") if kind.along else ("lda", "inner_b", "ldc")
    lda, ldb, ldc = (text.strides(number(text, name), count) for name, count in zip(names, (rows, columns, rows), strict=True))
    left = text.sub(kind.rest, "%length")
    tile_columns = lanes // rows      # columns of a full tile: lane i * tile_columns + j gets the sum of row i and column j
    group = chains * lanes

    def step(sums: Sequence[str], a: str, b: str, count: int) -> list[str]:
        from_a, from_b = lda.bases(a, rows), ldb.bases(b, columns)
        xs = [text.load_vector(lda.row(from_a, i), count) for i in range(rows)]
        ys = [text.load_vector(ldb.row(from_b, j), count) for j in range(columns)]
        return [text.multiply_add(x, y, c) for (x, y), c in zip(itertools.product(xs, ys), sums, strict=True)]

    def steps(start: str, stop: str | int, a: str, b: str, sums: Sequence[str]) -> list[str]:
        """Whole steps of k. Returns the next addresses in A and B, and each cell's sum over all chains."""
        with text.for_range(start, stop, group, [("ptr", a), ("ptr", b), *((text.vector, x) for x in sums)], exact=True) as loop:
            a, b, *now = loop.values
            found = [x for k in range(chains)
                     for x in step(now[k * cells:(k + 1) * cells], text.at(a, text.scalar, k * lanes), text.at(b, text.scalar, k * lanes),
                                   lanes)]
            loop.following = [text.at(a, text.scalar, group), text.at(b, text.scalar, group), *found]
        a, b, *now = loop.following
        while len(now) > cells:
            now = [text.fadd(x, y) for x, y in zip(now[:len(now) // 2], now[len(now) // 2:], strict=True)]
        return [a, b, *now]

    def blocked_steps(a: str, b: str) -> list[str]:
        zeros, length = [(text.vector, "zeroinitializer")] * (2 * cells), _block_steps(cells) * group
        with text.for_range(left, 0, length, [("ptr", a), ("ptr", b), *zeros]) as loop:
            a, b, *before = loop.values
            stop = text.smaller(text.add(loop.counter, length), 0)
            a, b, *parts = steps(loop.counter, stop, a, b, ["zeroinitializer"] * (cells * chains))
            loop.following = [a, b]
            for cell, part in enumerate(parts):
                loop.following += add_block(text, text.vector, *before[2 * cell:2 * cell + 2], part)
        a, b, *last = loop.following
        return [a, b, *(compensated_total(text, text.vector, *last[2 * cell:2 * cell + 2]) for cell in range(cells))]

    with text.for_range(0, "%tiles", carried=[("ptr", "%a"), ("ptr", "%c")]) as tile:
        moving, c = tile.values
        a, b = ("%b", moving) if kind.along else (moving, "%b")
        sums = ["zeroinitializer"] * cells
        if kind.whole:
            a, b, *sums = blocked_steps(a, b) if kind.blocked else steps(left, 0, a, b, sums * chains)
        for first in range(0, kind.rest, lanes):
            sums = step(sums, text.at(a, text.scalar, first), text.at(b, text.scalar, first), min(kind.rest - first, lanes))
        padded = [sums[i * columns + j] if j < columns else "zeroinitializer" for i in range(rows) for j in range(tile_columns)]
        total = _sum_lanes(text, padded)
        for i in range(rows):
            part = text.shuffle(text.vector, total, "poison", range(i * tile_columns, (i + 1) * tile_columns))
            text.store_vector(part, ldc.row([c], i), columns, lanes=tile_columns)
        below = text.at(c, text.scalar, columns) if kind.along else ldc.next(c, rows)
        tile.following = [text.at(moving, 1, "%apart"), below]


def _sum_lanes(text: VectorBuilder, vectors: Sequence[str]) -> str:
    """A vector whose lane r is the sum of the lanes of `vectors[r]`."""
    lanes, distance = text.lanes, 1
    while distance < lanes:
        even = [lane for k in range(0, lanes, 2 * distance) for lane in (*range(k, k + distance), *range(lanes + k, lanes + k + distance))]
        odd = [lane + distance for lane in even]
        vectors = [text.fadd(text.shuffle(text.vector, x, y, even), text.shuffle(text.vector, x, y, odd)) for x,
                   y in zip(vectors[::2], vectors[1::2], strict=True)]
        distance *= 2
    return vectors[0]
