"""The kernel of one tile: a few rows by a few vectors of C in registers, while k runs.

    c[i, j] = a[i, k] * b[k, j] + c[i, j]

Rows are reached by known displacements from one pointer, whichever way A lies; a vector that is not full has a known mask.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import field

from adjit.codegen.gemm.plan import UNROLLED, Plan
from adjit.codegen.gemm.vectors import VectorText
from adjit.ir.dataclass import dataclass

PARAMETERS = "ptr noalias %a, ptr noalias %b, ptr noalias %c, i64 %length, i1 %first, i1 %last, i64 %row, i64 %column"
"""Of every kernel: the tile's corner in A, B (or its panel) and C; the length of this part of k, and whether it is the first or last;
and where in the whole C the tile is, which only an epilogue asks for."""


@dataclass(slots=True)
class Tile:
    """A finished tile in registers: vector `values[i, j]` of row i, of which `counts[j]` elements count, goes to `place(i, j)`.

    The tile's corner is at row `%row` and column `%column` of C.
    """

    text: VectorText
    plan: Plan
    rows: int
    counts: tuple[int, ...]
    values: dict[tuple[int, int], str] = field(default_factory=dict)

    def place(self, i: int, j: int) -> str:
        return self.text.at("%c", i * self.plan.product.row_c + j * self.plan.lanes)

    def store(self) -> None:
        for (i, j), value in self.values.items():
            self.text.store(value, self.place(i, j), self.counts[j])


Epilogue = Callable[[Tile], None]
"""What becomes of a finished tile; `Tile.store`, or something computed from it before."""

Prologue = Callable[[VectorText, str], str]
"""What is computed from a vector of B where it is read."""


def emit_tile(text: VectorText, plan: Plan, rows: int, counts: tuple[int, ...], prologue: Prologue | None, epilogue: Epilogue) -> str:
    """The name of the kernel for tiles of `rows` by `counts`; written when it is first asked for."""
    name = f"tile_{rows}x{'_'.join(map(str, counts))}"
    if name in text.functions:
        return name
    text.functions[name] = ""
    cells = list(itertools.product(range(rows), range(len(counts))))
    tile = Tile(text, plan, rows, counts)
    several = len(plan.parts) > 1
    with text.function(name, PARAMETERS):
        start = ["zeroinitializer"] * len(cells)
        if several and plan.chained:
            start = _unless_first(tile, cells, start, lambda i, j, _: text.load(tile.place(i, j), counts[j]))
        step = _Step(text, plan, rows, counts, cells, prologue)
        sums = _unrolled(step, start) if plan.product.inner * len(cells) <= UNROLLED and not several else _loop(step, start)
        if several and not plan.chained:
            sums = _unless_first(tile, cells, sums, lambda i, j, x: text.add(text.load(tile.place(i, j), counts[j]), x))
        tile.values = dict(zip(cells, sums, strict=True))
        if several and epilogue is not Tile.store:
            text.do("br i1 %last, label %finish, label %keep")
            text.label("keep")
            tile.store()
            text.do("ret void")
            text.label("finish")
        epilogue(tile)
    return name


def _unless_first(tile: Tile, cells: Sequence[tuple[int, int]], values: Sequence[str], other: Callable[[int, int, str], str]) -> list[str]:
    """`values` in the first part of k, in the following ones what `other` makes of the cell and its value."""
    text = tile.text
    before, more, after = (f"{part}{text.fresh()}" for part in ("before", "more", "after"))
    text.do(f"br label %{before}")
    text.label(before)
    text.do(f"br i1 %first, label %{after}, label %{more}")
    text.label(more)
    others = [other(i, j, value) for (i, j), value in zip(cells, values, strict=True)]
    text.do(f"br label %{after}")
    text.label(after)
    return [text.let(f"phi {text.vector} [{x}, %{before}], [{y}, %{more}]") for x, y in zip(values, others, strict=True)]


@dataclass(frozen=True, slots=True)
class _Step:
    """One or several k of a tile."""

    text: VectorText
    plan: Plan
    rows: int
    counts: tuple[int, ...]
    cells: Sequence[tuple[int, int]]
    prologue: Prologue | None

    @property
    def a_row(self) -> int:
        return 1 if self.plan.product.transpose_a else self.plan.product.row_a

    @property
    def a_inner(self) -> int:
        if self.plan.a == "copied":
            return self.rows
        return self.plan.product.row_a if self.plan.product.transpose_a else 1

    @property
    def b_inner(self) -> int:
        return self.plan.product.row_b if self.plan.b == "in place" else self.plan.panel_columns

    def add(self, sums: Sequence[str], a: str, b: str, k: int) -> list[str]:
        """The sums with the products of the k-th column of A and row of B behind these pointers."""
        text = self.text
        vectors = []
        for j, count in enumerate(self.counts):
            place = text.at(b, k * self.b_inner + j * self.plan.lanes)
            if self.plan.b == "in place":
                vector = text.load(place, count)
                vectors.append(vector if self.prologue is None else self.prologue(text, vector))
            else:
                vectors.append(text.load(place, aligned=True))
        factors = [text.splat(text.at(a, i * self.a_row + k * self.a_inner)) for i in range(self.rows)]
        return [text.multiply_add(factors[i], vectors[j], x) for (i, j), x in zip(self.cells, sums, strict=True)]


def _unrolled(step: _Step, sums: Sequence[str]) -> list[str]:
    for k in range(step.plan.product.inner):
        sums = step.add(sums, "%a", "%b", k)
    return list(sums)


def _loop(step: _Step, start: list[str]) -> list[str]:
    text, n, chains = step.text, len(start), step.plan.chains
    sums = start + ["zeroinitializer"] * (n * (chains - 1))
    with text.loop(0, "%length", chains, [("ptr", "%a"), ("ptr", "%b"), *((text.vector, x) for x in sums)]) as loop:
        a, b, *now = loop.values
        following = []
        for k in range(chains):
            following += step.add(now[k * n:(k + 1) * n], a, b, k)
        loop.following = [text.at(a, chains * step.a_inner), text.at(b, chains * step.b_inner), *following]
    sums = list(loop.following[2:])
    while len(sums) > n:
        half = len(sums) // 2
        sums = [text.add(x, y) for x, y in zip(sums[:half], sums[half:], strict=True)]
    return sums
