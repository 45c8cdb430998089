"""Tile of C in registers, a few rows by a few vectors, while k runs: as a kernel that all products share, or inlined in a small product.

    c[i, j] = a[i, k] * b[k, j] + c[i, j]

A partly filled vector has a known mask. Pointers advance by themselves, and one counter ends the loop, so that the code is good without
LLVM's loop strength reduction.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache

from adjit.codegen.gemm.kernels import FIRST, TILE, Kernel, write_kernel
from adjit.codegen.gemm.table import number
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import Strides, VectorBuilder
from adjit.ir.dataclass import dataclass

TILE_BLOCK_STEPS = 32
"""Steps of k after which a tile of few rows adds its sums to its totals; BLAS sums vectors times matrices in blocks as short."""


@dataclass(frozen=True, slots=True)
class TileKind:
    """Key of a tile kernel: its rows, and the active elements of each of its vectors.

    `chains` is the number of independent sums of each element; `blocked` sums take at most `TILE_BLOCK_STEPS` additions each. `added`: a
    later block of k is summed from zero and then added to C; otherwise it continues the sum in C. `conjugates`: as in `Product`; then rows
    and sums are of parts, two by two. `lda`: elements between rows of A, if the
    kernel depends on it: with 16 registers a single vector is multiplied with elements as they are read, and their addresses should be
    simple. With 32 registers that gains nothing, and products of different `lda` share a kernel.
    """

    rows: int
    counts: tuple[int, ...]
    chains: int
    added: bool
    lda: int | None = None
    blocked: bool = False
    conjugates: tuple[bool, bool] | None = None

    @property
    def unit(self) -> int:
        """Rows of the tile for each row of C."""
        return 1 if self.conjugates is None else 2

    @property
    def name(self) -> str:
        marks = f"_chains{self.chains}" * (self.chains > 1) + "_added" * self.added + "_stretched" * self.blocked
        marks += "" if self.lda is None else f"_row{self.lda}"
        if self.conjugates is not None:
            marks += "_complex" + "".join(f"_conj_{name}" for name, conjugate in zip("ab", self.conjugates, strict=True) if conjugate)
        return f"tile_{self.rows}x{'_'.join(map(str, self.counts))}{marks}"


@dataclass(slots=True)
class Tile:
    """A finished tile in registers: vector `values[i, j]` of row i, with `counts[j]` active elements, goes to `address(i, j)`.

    The tile's corner is at `row` and `column` of C, whose pointer is `corner`.
    """

    text: VectorBuilder
    rows: int
    counts: tuple[int, ...]
    corner: str
    ldc: Strides
    row: str
    column: str
    values: dict[tuple[int, int], str] = field(default_factory=dict)
    bases: list[str] = field(default_factory=list)

    def address(self, i: int, j: int) -> str:
        self.bases = self.bases or self.ldc.bases(self.corner, self.rows)
        return self.text.at(self.ldc.row(self.bases, i), self.text.scalar, j * self.text.lanes)

    @property
    def cells(self) -> list[tuple[int, int]]:
        return list(itertools.product(range(self.rows), range(len(self.counts))))

    def fetch(self) -> None:
        """Prefetch the tile's memory in C."""
        for i, j in self.cells:
            self.text.prefetch(self.address(i, j), write=True)

    def store(self) -> None:
        for (i, j), value in self.values.items():
            self.text.store_vector(value, self.address(i, j), self.counts[j])


@cache
def tile_kernel(target: Target, dtype: str, kind: TileKind) -> Kernel:
    """The kernel for tiles of a kind."""
    return write_kernel(target, dtype, kind.name, TILE, lambda text: _write_kernel(text, kind))


def _write_kernel(text: VectorBuilder, kind: TileKind) -> None:
    rows = kind.rows // kind.unit
    later = text.compare("eq", text.let(f"and i64 %part, {FIRST}"), 0)
    lda = row_strides(text, kind, number(text, "lda") if kind.lda is None else kind.lda)
    inner_a, inner_b = (text.strides(number(text, name), 1) for name in ("inner_a", "inner_b"))
    with text.for_range(0, "%tiles", carried=[("ptr", "%a"), ("ptr", "%c"), ("i64", "%row")]) as loop:
        a, c, row = loop.values

        def tile(below: bool = False) -> Tile:
            ldc = number(text, "ldc")
            corner = text.at(c, 1, text.mul(ldc, kind.rows)) if below else c
            return Tile(text, rows, kind.counts, corner, row_strides(text, kind, ldc), row, "%column")

        start = ["zeroinitializer"] * (kind.rows * len(kind.counts))
        if not kind.added and kind.conjugates is None:
            start = _unless_first(text, later, start, tile, lambda old, _: old)
        sums = sum_products(text, kind, (a, "%b"), lda, inner_a, inner_b, "%length", start)
        if kind.conjugates is not None:
            sums = complex_sums(text, sums, len(kind.counts), kind.conjugates)
        if kind.added:
            sums = _unless_first(text, later, sums, tile, text.fadd)
        finished = tile()
        finished.values = dict(zip(finished.cells, sums, strict=True))
        finished.store()
        with text.if_(text.differ("%finish", "null")):
            call_tile_epilogue(text, "%finish", finished, number(text, "ldc"), "%more")
        loop.following = [
            text.at(a, 1, "%apart"), tile(below=True).corner, text.add(row, kind.rows)]


def row_strides(text: VectorBuilder, kind: TileKind, stride: int | str) -> Strides:
    """Rows of A or C, at a known stride or one in a register, which of complex numbers is that of half a row."""
    if kind.unit == 1:
        return text.strides(stride, kind.rows)
    return text.strides(2 * stride if isinstance(stride, int) else text.shl(stride, 1), kind.rows // 2)


def complex_sums(text: VectorBuilder, sums: Sequence[str], width: int, conjugates: tuple[bool, bool]) -> list[str]:
    """Rows of complex numbers, each made of two rows of `width` sums: real parts of A times numbers of B, and imaginary parts times them.

    With the parts a + bi and c + di: ac - bd, ad + bc; and for conjugates what follows from the signs of b and d.
    """
    lanes = range(text.lanes)
    swapped, alternating = [lane ^ 1 for lane in lanes], [lane + lane % 2 * text.lanes for lane in lanes]
    numbers = []
    for start in range(0, len(sums), 2 * width):
        for with_real, with_imag in zip(sums[start:start + width], sums[start + width:start + 2 * width], strict=True):
            others = text.shuffle(text.vector, with_imag, "poison", swapped)
            plus, minus = text.fadd(with_real, others), text.let(f"fsub {text.vector} {with_real}, {others}")
            even, odd = (minus, plus) if conjugates[0] == conjugates[1] else (plus, minus)
            if conjugates[1]:
                odd = text.let(f"fneg {text.vector} {odd}")
            numbers.append(text.shuffle(text.vector, even, odd, alternating))
    return numbers


def call_tile_epilogue(text: VectorBuilder, tile_epilogue: str, tile: Tile, pitch: str, more: str) -> None:
    """Call of the epilogue for a stored tile."""
    text.call("void", tile_epilogue, ("ptr", tile.corner), ("i64", tile.rows), ("i64", sum(tile.counts)), ("i64", pitch), ("i64", tile.row),
              ("i64", tile.column), ("ptr", more))


def _unless_first(text: VectorBuilder, later: str, values: Sequence[str], tile: Callable[[bool], Tile],
                  other: Callable[[str, str], str]) -> list[str]:
    """`values` in the first block of k; in later blocks `other(old element of C, value)`.

    A tile waits for the old elements of C, row by row from a farther cache: so each tile prefetches those of the tile below it.
    """
    with text.if_(later, [(text.vector, value) for value in values]) as chosen:
        old = tile(False)
        chosen.following = [other(text.load_vector(old.address(i, j), old.counts[j]), value)
                            for (i, j), value in zip(old.cells, values, strict=True)]
        tile(True).fetch()
    return list(chosen.values)


def sum_products(text: VectorBuilder, kind: TileKind, corners: tuple[str, str], lda: Strides, inner_a: Strides, inner_b: Strides,
                 length: int | str, start: Sequence[str], unrolled: bool = False) -> list[str]:
    """The cells of a tile after k has run: sums that begin at `start`, over A and B from their `corners` on; a known length may be
    `unrolled`."""
    def read(b: str) -> list[str]:
        return [text.load_vector(text.at(b, text.scalar, j * text.lanes), count) for j, count in enumerate(kind.counts)]

    def step(sums: Sequence[str], a: str, b: str) -> list[str]:
        bases = lda.bases(a, kind.rows // kind.unit)
        vectors: list[str] = []
        found: list[str] = []
        for i in range(kind.rows):
            row = lda.row(bases, i) if kind.unit == 1 else text.at(lda.row(bases, i // 2), text.scalar, i % 2)
            factor = text.broadcast(row)    # loaded here: with all loads before, LLVM spills sums of large tiles
            vectors = vectors or read(b)
            old = sums[i * len(vectors):(i + 1) * len(vectors)]
            found += [text.multiply_add(factor, vector, x) for vector, x in zip(vectors, old, strict=True)]
        return found

    if unrolled:
        assert isinstance(length, int)
        sums = list(start)
        for k in range(length):
            sums = step(sums, inner_a.next(corners[0], k), inner_b.next(corners[1], k))
        return sums
    n, chains = len(start), kind.chains
    sums = [*start, *["zeroinitializer"] * (n * (chains - 1))]
    left = -length if isinstance(length, int) else text.sub(0, length)

    def steps(start: int | str, stop: int | str, a: str, b: str, sums: Sequence[str]) -> list[str]:
        with text.for_range(start, stop, chains, [("ptr", a), ("ptr", b), *((text.vector, x) for x in sums)], exact=True) as loop:
            a, b, *now = loop.values
            following = []
            for k in range(chains):
                following += step(now[k * n:(k + 1) * n], inner_a.next(a, k), inner_b.next(b, k))
            loop.following = [inner_a.next(a, chains), inner_b.next(b, chains), *following]
        a, b, *now = loop.following
        while len(now) > n:
            half = len(now) // 2
            now = [text.fadd(x, y) for x, y in zip(now[:half], now[half:], strict=True)]
        return [a, b, *now]

    if not kind.blocked:
        return steps(left, 0, *corners, sums)[2:]
    with text.for_range(left, 0, TILE_BLOCK_STEPS * chains, [("ptr", corners[0]), ("ptr", corners[1]),
                                                         *((text.vector, x) for x in start)]) as loop:
        stop = text.smaller(text.add(loop.counter, TILE_BLOCK_STEPS * chains), 0)
        a, b, *before = loop.values
        a, b, *parts = steps(loop.counter, stop, a, b, ["zeroinitializer"] * (n * chains))
        loop.following = [a, b, *(text.fadd(x, y) for x, y in zip(before, parts, strict=True))]
    return list(loop.following[2:])
