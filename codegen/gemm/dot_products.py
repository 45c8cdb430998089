"""The kernel of a tile made of dot products, for few rows times B transposed: lanes run along k, and are summed at last in a fixed tree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache

from adjit.codegen.gemm.kernels import TILE, Kernel, write_kernel
from adjit.codegen.gemm.table import number
from adjit.codegen.gemm.vectors import VectorText
from adjit.codegen.target import Target


@cache
def dot_kernel(target: Target, dtype: str, rows: int, columns: int, inner: int) -> Kernel:
    """The kernel for tiles of `rows` rows of B as it lies times `columns` rows of A, below each other in the transpose of C; of `inner` it
    knows what is left behind whole vectors, and whether there are such."""
    lanes = VectorText(target, dtype).lanes
    whole, rest = inner >= lanes, inner % lanes
    name = f"dots_{columns}x{rows}{'' if whole else '_short'}{f'_rest{rest}' if rest else ''}"
    return write_kernel(target, dtype, name, TILE, lambda text: _write(text, rows, columns, whole, rest))


def _write(text: VectorText, rows: int, columns: int, whole: bool, rest: int) -> None:
    lanes = text.lanes
    row_a, row_b = text.strides(number(text, "row_a"), rows), text.strides(number(text, "inner_b"), columns)
    row_c = text.strides(number(text, "column_c"), columns)
    left = text.let(f"sub i64 {rest}, %length")
    places = lanes // columns       # rows of a full tile: lane j * places + i gets the sum of row i and column j

    def step(sums: Sequence[str], a: str, b: str, count: int) -> list[str]:
        from_a, from_b = row_a.bases(a, rows), row_b.bases(b, columns)
        ys = [text.load(row_b.row(from_b, j), count) for j in range(columns)]
        xs = [text.load(row_a.row(from_a, i), count) for i in range(rows)]
        return [text.multiply_add(y, x, c) for (y, x), c in zip(itertools.product(ys, xs), sums, strict=True)]

    with text.loop(0, "%tiles", carried=[("ptr", "%a"), ("ptr", "%c")]) as tile:
        a, c = tile.values
        b, sums = "%b", ["zeroinitializer"] * (rows * columns)
        if whole:
            with text.loop(left, 0, lanes, [("ptr", a), ("ptr", b), *((text.vector, x) for x in sums)], exact=True) as loop:
                a, b, *sums = loop.values
                loop.following = [text.at(a, lanes), text.at(b, lanes), *step(sums, a, b, lanes)]
            a, b, *sums = loop.following
        if rest:
            sums = step(sums, a, b, rest)
        padded = [sums[j * rows + i] if i < rows else "zeroinitializer" for j in range(columns) for i in range(places)]
        total = _sum_lanes(text, padded)
        for j in range(columns):
            part = text.shuffle(total, "poison", range(j * places, (j + 1) * places))
            text.store(part, row_c.row([c], j), rows, lanes=places)
        tile.following = [text.let(f"getelementptr i8, ptr {tile.values[0]}, i64 %apart"), text.at(c, rows)]


def _sum_lanes(text: VectorText, vectors: Sequence[str]) -> str:
    """A vector whose lane r is the sum of the lanes of `vectors[r]`."""
    lanes, distance = text.lanes, 1
    while distance < lanes:
        even = [lane for k in range(0, lanes, 2 * distance) for lane in (*range(k, k + distance), *range(lanes + k, lanes + k + distance))]
        odd = [lane + distance for lane in even]
        vectors = [text.add(text.shuffle(x, y, even), text.shuffle(x, y, odd)) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        distance *= 2
    return vectors[0]
