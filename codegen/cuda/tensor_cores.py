"""Products of float32 in fewer digits, by tensor cores: warps multiply 16 rows by 8 columns at a time, and add in float32.

A tile lies in shared memory as words: a number that is rounded to 11 digits (tf32), a float32 that is split where it is read (tf32x3), or
two numbers of 8 digits (bf16). A lane of a warp holds neighbouring rows of the left factor, and neighbours along the inner index of the
right one: any order of rows and terms will do that both factors share. So what it reads at a time is in registers as an instruction needs
it, and neighbours in shared memory: words of two rows in the left tile, words along the inner index, a pair, in the right one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from adjit.codegen.cuda.kernel import Launch
from adjit.codegen.cuda.products import Ahead, Factor, ProductWriter
from adjit.codegen.cuda.target import MAX_LOAD_BYTES, WARP
from adjit.codegen.cuda.text import FOUR_FLOATS, SHARED, widest
from adjit.codegen.cuda.writer import Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op
from adjit.ir.types import F32

ROWS, COLUMNS = 16, 8
"""Rows and columns of a product of a warp."""

PAIRS = 8
"""Pairs of words of a row of a tile that lie in shared memory at a time: those of two products of a warp."""

WORD_BYTES = 4


@dataclass(frozen=True, slots=True)
class WarpTiling:
    """Rows and columns of a tile; warps down and across it; groups of warps among which the inner index is divided."""

    tile: int
    down: int
    across: int
    groups: int

    @property
    def members(self) -> int:
        """Threads of a group."""
        return WARP * self.down * self.across

    @property
    def sums(self) -> int:
        """Elements of the result of a thread."""
        return self.tile**2 // self.members

    @property
    def pad(self) -> int:
        """Words from a row of a left tile to the next, in shared memory: lanes that read at a time, 4 in each of 4 rows, are in different
        banks."""
        return self.tile + 8

    @property
    def pad_of_pairs(self) -> int:
        """Pairs from a row of a right tile to the next, in shared memory."""
        return self.tile + 4


class TensorCoreWriter(ProductWriter):
    """Writer of the kernel of one product, or of a batch of products, whose factors have fewer digits."""

    tilings = WarpTiling(128, 2, 4, 1), WarpTiling(64, 2, 2, 1), WarpTiling(32, 1, 1, 4)
    run = 2

    def __init__(self, op: Op, product: Op, epilogue: Graph, memory: Memory, inner: int, precision: str):
        super().__init__(op, product, epilogue, memory, inner)
        self.precision = precision
        self.numbers_of_word = 2 if precision == "bf16" else 1
        self.depth = 2 * PAIRS * self.numbers_of_word
        self.rows_of_warp, self.columns_of_warp = self.tiling.tile // self.tiling.down, self.tiling.tile // self.tiling.across

    @property
    def half(self) -> int:
        return int(2 * PAIRS * self.tiling.pad)

    def factor(self, is_left: bool, *given: Any) -> Factor:
        return _Words(self, is_left, *given)

    def launch(self, label: str, grid: int) -> Launch:
        return super().launch(f"{label}_{self.precision}", grid)

    def words(self, numbers: Sequence[str]) -> list[str]:
        """Numbers as words of a tile."""
        text = self.text
        if self.precision == "tf32":
            return [self._tf32(number) for number in numbers]
        if self.precision == "tf32x3":
            return [text.convert("bitcast", "float", number, "i32") for number in numbers]
        pairs = [text.call("<2 x bfloat>", "@llvm.nvvm.ff2bf16x2.rn", ("float", high), ("float", low))
                 for low, high in zip(numbers[::2], numbers[1::2], strict=True)]
        return [text.convert("bitcast", "<2 x bfloat>", pair, "i32") for pair in pairs]

    def _tf32(self, number: str) -> str:
        return self.text.call("i32", "@llvm.nvvm.f2tf32.rna", ("float", number))

    def _parts(self, word: str) -> tuple[str, ...]:
        """A word as what the tensor cores multiply; for three products, the large part of a number and the rest, NaN for an infinity."""
        if self.precision != "tf32x3":
            return (word,)
        text = self.text
        number = text.convert("bitcast", "i32", word, "float")
        large = self._tf32(number)
        rest = text.let(f"fsub float {number}, {text.convert('bitcast', 'i32', large, 'float')}")
        return large, self._tf32(rest)

    def put_words(self, words: Sequence[str], place: str, offset: int) -> None:
        text, type = self.text, f"<{len(words)} x i32>"
        whole = "poison"
        for lane, word in enumerate(words):
            whole = text.let(f"insertelement {type} {whole}, i32 {word}, i32 {lane}")
        text.do(f"store {type} {whole}, ptr addrspace({SHARED}) {self._word(place, offset)}, align {WORD_BYTES * len(words)}")

    def word_place(self, word: Index) -> str:
        """The address of a word of a tile."""
        return self.text.shared_place(self.start, "i32", word)

    def _word(self, place: str, offset: int) -> str:
        return self.text.let(f"getelementptr inbounds i32, ptr addrspace({SHARED}) {place}, i64 {offset}") if offset else place

    def _pair(self, place: str, offset: int) -> list[tuple[str, ...]]:
        text = self.text
        whole = text.let(f"load <2 x i32>, ptr addrspace({SHARED}) {self._word(place, offset)}, align {2 * WORD_BYTES}")
        return [self._parts(text.let(f"extractelement <2 x i32> {whole}, i32 {lane}")) for lane in range(2)]

    def _lanes(self) -> tuple[Index, Index, str, str]:
        """The first row and column of this warp in its tile; the row, or column, and the number of this lane in a product of the warp."""
        text, t = self.text, self.tiling
        lane = text.let(f"and i64 {self.member}, {WARP - 1}")
        warp: Index = text.lshr(self.member, WARP.bit_length() - 1) if t.members > WARP else 0
        down: Index = text.lshr(str(warp), t.across.bit_length() - 1) if t.down > 1 else 0
        across: Index = text.let(f"and i64 {warp}, {t.across - 1}") if t.across > 1 else 0
        return (text.times(down, self.rows_of_warp), text.times(across, self.columns_of_warp), text.lshr(lane, 2),
                text.let(f"and i64 {lane}, 3"))

    def prepare(self) -> None:
        text, t = self.text, self.tiling
        row, column, line, number = self._lanes()
        self.at_left = text.plus(text.plus(text.times(number, t.pad), row), text.times(line, 2))
        self.at_right = text.times(text.plus(text.plus(text.times(number, t.pad_of_pairs), column), line), 2)

    def _multiplied(self, sums: Sequence[str], tiles: Sequence[Index]) -> list[str]:
        text, t = self.text, self.tiling
        left, right = (self.word_place(text.plus(tile, at)) for tile, at in zip(tiles, (self.at_left, self.at_right), strict=True))
        found, wide = list(sums), 2 * self.columns_of_warp // COLUMNS
        for step in range(PAIRS // 4):
            rows = []
            for at in range(0, self.rows_of_warp, ROWS):
                (a0, a1), (a2, a3) = (self._pair(left, (8 * step + 4 * half) * t.pad + at) for half in range(2))
                rows.append([*zip(a0, a1, a2, a3, strict=True)])
            for j in range(self.columns_of_warp // COLUMNS):
                column = [*zip(*self._pair(right, 2 * (4 * step * t.pad_of_pairs + COLUMNS * j)), strict=True)]
                for i, row in enumerate(rows):
                    own = [2 * i * wide + 2 * j, 2 * i * wide + 2 * j + 1, (2 * i + 1) * wide + 2 * j, (2 * i + 1) * wide + 2 * j + 1]
                    totals = [found[k] for k in own]
                    for a, b in [(row[1], column[0]), (row[0], column[1]), (row[0], column[0])] if len(row) > 1 else [(row[0], column[0])]:
                        totals = self._product_of_warp(a, b, totals)
                    for k, total in zip(own, totals, strict=True):
                        found[k] = total
        return found

    def _product_of_warp(self, a: Sequence[str], b: Sequence[str], totals: Sequence[str]) -> list[str]:
        """Sums with the products of 16 rows and 8 columns. All lanes of the warp have to get here."""
        text = self.text
        shape = "m16n8k16.row.col.bf16" if self.precision == "bf16" else "m16n8k8.row.col.tf32"
        whole = text.call(FOUR_FLOATS, f"@llvm.nvvm.mma.{shape}", *[("i32", word) for word in (*a, *b)],
                          *[("float", total) for total in totals])
        return [text.let(f"extractvalue {FOUR_FLOATS} {whole}, {number}") for number in range(4)]

    def _places(self, first: tuple[Index, Index]) -> tuple[list[str], list[Index]]:
        text = self.text
        row0, column0, line, number = self._lanes()
        down = text.plus(text.plus(first[0], row0), text.times(line, 2))
        across = text.plus(text.plus(first[1], column0), text.times(number, 2))
        return ([str(text.plus(down, at + half)) for at in range(0, self.rows_of_warp, ROWS) for half in range(2)],
                [text.plus(across, at) for at in range(0, self.columns_of_warp, COLUMNS)])


class _Words:
    """One operand of a product, whose rows are those of the left factor, or columns of the right one. A thread takes along vectors of
    numbers where all rows in memory begin at multiples of their size: of one row, or of the same column of a few rows."""

    def __init__(self, writer: TensorCoreWriter, is_left: bool, pointer: str, alignment: int, outer0: Index, outer: str, outer_size: int,
                 transposed: bool, inner: str):
        w, t, text = writer, writer.tiling, writer.text
        self.writer, self.is_left, self.transposed, self.outer, self.inner = w, is_left, transposed, outer, inner
        self.width = width = widest(F32.itemsize, outer_size if transposed else w.inner, alignment)
        self.pairs = 1 if transposed else max(1, width // (2 * w.numbers_of_word))
        self.numbers = 2 * self.pairs * w.numbers_of_word                   # along the inner index
        self.loads = self.numbers if transposed else self.numbers // min(width, self.numbers)
        self.items: list[tuple[Index, str, list[Ahead]]] = []               # the place of the first word; inside; what is loaded
        wide = t.tile // width if transposed else 4
        low, high = text.let(f"and i64 {w.member}, {wide - 1}"), text.lshr(w.member, wide.bit_length() - 1)
        for part in range(t.tile * PAIRS // (width if transposed else self.pairs) // t.members):
            ahead = part * (t.members // wide)
            if transposed:
                along, (of, group) = text.times(low, width), self._of_pair(high, ahead)
            else:
                along, of, group = text.plus(high, ahead % t.tile), low, ahead // t.tile
            k = text.plus(text.times(of, 4), text.times(group, 8 * w.numbers_of_word if w.numbers_of_word > 1 else 2))
            o = str(text.plus(outer0, along))
            is_outer = text.compare("slt", o, outer)
            loads = []
            for load in range(self.loads):
                own = str(text.plus(k, load * (1 if transposed else width)))
                base = text.plus(text.mul(own, outer), o) if transposed else text.plus(text.mul(o, inner), own)
                loads.append(Ahead(w, pointer, own, str(base), is_outer, inner))
            self.items.append((self._place(of, group, along), is_outer, loads))
        self.count = len(self.items) * self.loads * width

    def _of_pair(self, number: str, ahead: int) -> tuple[Index, Index]:
        """The lanes that use pair `number + ahead` of a row, and the product of the warp: 4 of each go to one product."""
        text = self.writer.text
        if ahead or self.writer.tiling.members * self.width < PAIRS * self.writer.tiling.tile:       # `number` is below 4 - ahead % 4
            return text.plus(number, ahead % 4), ahead // 4
        return text.let(f"and i64 {number}, 3"), text.lshr(number, 2)

    def _place(self, of: Index, group: Index, along: Index) -> Index:
        """The place of the first word of a pair."""
        text, t = self.writer.text, self.writer.tiling
        if self.is_left:
            return text.plus(text.times(text.plus(of, text.times(group, 8)), t.pad), along)
        return text.times(text.plus(text.times(text.plus(of, text.times(group, 4)), t.pad_of_pairs), along), 2)

    def load(self, first: Index) -> list[str]:
        w, text = self.writer, self.writer.text
        step = text.mul(first, self.outer) if self.transposed else first
        return [name for _, _, loads in self.items for each in loads for name in each.load(w, first, step, self.width)]

    def store(self, first: Index, names: Sequence[str], tile: Index) -> None:
        w, text = self.writer, self.writer.text
        given = iter(names)
        for first_word, is_outer, loads in self.items:
            own = [each.or_zero(w, first, [next(given) for _ in range(self.width)], is_outer) for each in loads]
            place = w.word_place(text.plus(tile, first_word))
            if not self.transposed:
                self._put_words(w.words([number for group in own for number in group]), place, 1)
                continue
            lines = [w.words(numbers) for numbers in zip(*own, strict=True)]         # two words of each
            self._put_words([line[word] for word in range(2) for line in lines] if self.is_left else
                            [word for line in lines for word in line], place, self.width)

    def _put_words(self, words: Sequence[str], place: str, lines: int) -> None:
        """Store two words, or four, of each of a few neighbouring lines: those of the left factor word by word, those of the right one line
        by line, each of which holds its pairs side by side."""
        w, t = self.writer, self.writer.tiling
        most = min(MAX_LOAD_BYTES // WORD_BYTES, lines if self.is_left else 2 * lines)
        step = 4 * t.pad if self.is_left else 2 * 4 * t.pad_of_pairs        # words from those of a product of a warp to the next four
        if not self.is_left and lines > 1:
            step = most
        for number, start in enumerate(range(0, len(words), most)):
            w.put_words(words[start:start + most], place, number * step)
