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
def dot_kernel(target: Target, dtype: str, rows: int, columns: int, inner: int, along: bool) -> Kernel:
    """The kernel for tiles of `rows` rows of A times `columns` rows of B as it lies; of `inner` it knows what is left behind whole vectors,
    and whether there are such. It goes from tile to tile down C; or `along` C, where A and B have changed places in its parameters.
    """
    lanes = VectorText(target, dtype).lanes
    whole, rest = inner >= lanes, inner % lanes
    name = f"dots_{rows}x{columns}{'' if whole else '_short'}{f'_rest{rest}' if rest else ''}{'_along' if along else ''}"
    return write_kernel(target, dtype, name, TILE, lambda text: _write(text, rows, columns, whole, rest, along))


def _write(text: VectorText, rows: int, columns: int, whole: bool, rest: int, along: bool) -> None:
    lanes = text.lanes
    names = ("inner_b", "row_a", "column_c") if along else ("row_a", "inner_b", "row_c")
    row_a, row_b, row_c = (text.strides(number(text, name), count) for name, count in zip(names, (rows, columns, rows), strict=True))
    left = text.let(f"sub i64 {rest}, %length")
    places = lanes // rows      # columns of a full tile: lane i * places + j gets the sum of row i and column j

    def step(sums: Sequence[str], a: str, b: str, count: int) -> list[str]:
        from_a, from_b = row_a.bases(a, rows), row_b.bases(b, columns)
        xs = [text.load(row_a.row(from_a, i), count) for i in range(rows)]
        ys = [text.load(row_b.row(from_b, j), count) for j in range(columns)]
        return [text.multiply_add(x, y, c) for (x, y), c in zip(itertools.product(xs, ys), sums, strict=True)]

    with text.loop(0, "%tiles", carried=[("ptr", "%a"), ("ptr", "%c")]) as tile:
        moving, c = tile.values
        a, b = ("%b", moving) if along else (moving, "%b")
        sums = ["zeroinitializer"] * (rows * columns)
        if whole:
            with text.loop(left, 0, lanes, [("ptr", a), ("ptr", b), *((text.vector, x) for x in sums)], exact=True) as loop:
                a, b, *sums = loop.values
                loop.following = [text.at(a, lanes), text.at(b, lanes), *step(sums, a, b, lanes)]
            a, b, *sums = loop.following
        if rest:
            sums = step(sums, a, b, rest)
        padded = [sums[i * columns + j] if j < columns else "zeroinitializer" for i in range(rows) for j in range(places)]
        total = _sum_lanes(text, padded)
        for i in range(rows):
            part = text.shuffle(total, "poison", range(i * places, (i + 1) * places))
            text.store(part, row_c.row([c], i), columns, lanes=places)
        below = text.at(c, columns) if along else row_c.next(c, rows)
        tile.following = [text.let(f"getelementptr i8, ptr {moving}, i64 %apart"), below]


def _sum_lanes(text: VectorText, vectors: Sequence[str]) -> str:
    """A vector whose lane r is the sum of the lanes of `vectors[r]`."""
    lanes, distance = text.lanes, 1
    while distance < lanes:
        even = [lane for k in range(0, lanes, 2 * distance) for lane in (*range(k, k + distance), *range(lanes + k, lanes + k + distance))]
        odd = [lane + distance for lane in even]
        vectors = [text.add(text.shuffle(x, y, even), text.shuffle(x, y, odd)) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        distance *= 2
    return vectors[0]
