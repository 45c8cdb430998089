"""The kernel of a tile made of dot products, for few rows times B transposed: lanes run along k, and are summed at last in a fixed tree."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from adjit.codegen.gemm.plan import Plan
from adjit.codegen.gemm.tile import PARAMETERS
from adjit.codegen.gemm.vectors import VectorText


def emit_dot_products(text: VectorText, plan: Plan, rows: int, columns: int) -> str:
    """The name of the kernel for `rows` rows of A times `columns` rows of B as it lies; written when it is first asked for."""
    name = f"dots_{rows}x{columns}"
    if name in text.functions:
        return name
    text.functions[name] = ""
    p, lanes = plan.product, plan.lanes

    def step(sums: Sequence[str], a: str, b: str, count: int) -> list[str]:
        xs = [text.load(text.at(a, i * p.row_a), count) for i in range(rows)]
        ys = [text.load(text.at(b, j * p.row_b), count) for j in range(columns)]
        return [text.multiply_add(x, y, c) for (x, y), c in zip(itertools.product(xs, ys), sums, strict=True)]

    with text.function(name, PARAMETERS):
        a, b, sums = "%a", "%b", ["zeroinitializer"] * (rows * columns)
        whole, rest = p.inner // lanes * lanes, p.inner % lanes
        if whole:
            with text.loop(0, whole, lanes, [("ptr", a), ("ptr", b), *((text.vector, x) for x in sums)]) as loop:
                a, b, *sums = loop.values
                loop.following = [text.at(a, lanes), text.at(b, lanes), *step(sums, a, b, lanes)]
            a, b, *sums = loop.following
        if rest:
            sums = step(sums, a, b, rest)
        places = lanes // rows      # columns of a full tile: lane i * places + j gets the sum of row i and column j
        padded = [sums[i * columns + j] if j < columns else "zeroinitializer" for i in range(rows) for j in range(places)]
        total = _sum_lanes(text, padded)
        for i in range(rows):
            part = text.shuffle(total, "poison", range(i * places, (i + 1) * places))
            text.store(part, text.at("%c", i * p.row_c), columns, lanes=places)
    return name


def _sum_lanes(text: VectorText, vectors: Sequence[str]) -> str:
    """A vector whose lane r is the sum of the lanes of `vectors[r]`."""
    lanes, distance = text.lanes, 1
    while distance < lanes:
        even = [lane for k in range(0, lanes, 2 * distance) for lane in (*range(k, k + distance), *range(lanes + k, lanes + k + distance))]
        odd = [lane + distance for lane in even]
        vectors = [text.add(text.shuffle(x, y, even), text.shuffle(x, y, odd)) for x, y in zip(vectors[::2], vectors[1::2], strict=True)]
        distance *= 2
    return vectors[0]
