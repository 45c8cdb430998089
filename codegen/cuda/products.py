"""Products of matrices: tiles in shared memory, a few rows by a few columns a thread, exact float arithmetic.

While a tile is multiplied, the next one is on its way from memory to registers, and goes to the other half of the shared memory. Each
element is a chain of fused multiply-adds in the order of the inner index, or the sum of a few such chains, one for each group of threads,
where there are too few tiles for all multiprocessors. That follows from the sizes, so bits do. The ops of an epilogue follow in registers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Protocol

from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import DEVICE_RULE, MAX_LOAD_BYTES
from adjit.codegen.cuda.text import SHARED, widest
from adjit.codegen.cuda.writer import KernelWriter, Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.analysis.kernel_schedule import schedule_kernel
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.types import is_complex, short_name

ENOUGH_TILES = 132
"""Tiles that keep a card busy: the multiprocessors of an H200."""

DEPTH_BYTES = 64
"""Bytes of a row of inner indices that lie in shared memory at a time."""

VECTOR = 4
"""Neighbouring rows, or columns, of a thread: one load from shared memory of float32."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """Rows and columns of a tile; rows and columns of a thread; groups of threads among which the inner index is divided."""

    tile: int
    own: int
    groups: int

    @property
    def side(self) -> int:
        """Threads along a side of the tile."""
        return self.tile // self.own

    @property
    def members(self) -> int:
        """Threads of a group."""
        return self.side**2

    @property
    def sums(self) -> int:
        """Elements of the result of a thread."""
        return self.own**2

    @property
    def pad(self) -> int:
        """Elements from a row of a tile to the next, in shared memory: neighbours along the inner index are in different banks."""
        return self.tile + VECTOR


class AnyTiling(Protocol):
    """Rows and columns of a tile, groups of threads among which the inner index is divided, threads of a group, sums of a thread."""

    @property
    def tile(self) -> int: ...
    @property
    def groups(self) -> int: ...
    @property
    def members(self) -> int: ...
    @property
    def sums(self) -> int: ...


LARGE, MEDIUM, SMALL = Tiling(128, 8, 1), Tiling(64, 4, 1), Tiling(32, 4, 4)


def choose_tiling(tilings: Sequence[AnyTiling], rows: int, columns: int, batch: int) -> AnyTiling:
    """The first tiles, of those from large to small, of which there are enough; else the last."""
    return next((tiling for tiling in tilings if batch * -(-rows // tiling.tile) * -(-columns // tiling.tile) >= ENOUGH_TILES), tilings[-1])


class ProductWriter(KernelWriter):
    """Writer of the kernel of one product, or of a batch of products. `run` is the number of neighbours in a row of the result that a
    thread has."""

    tilings: Sequence[AnyTiling] = (LARGE, MEDIUM, SMALL)
    run = VECTOR
    tiling: Any

    def __init__(self, op: Op, product: Op, epilogue: Graph, memory: Memory, inner: int):
        *_, rows, columns = product.result.type.shape
        batch = product.result.type.size // (rows * columns)
        self.tiling = t = choose_tiling(self.tilings, rows, columns, batch)
        schedule = schedule_kernel(epilogue, batch * rows, columns, DEVICE_RULE)
        values = [value.type.dtype for value in (*epilogue.params, *epilogue.results)]
        most = widest(max(dtype.itemsize for dtype in values), columns, memory.alignment)
        vector = 1 if any(map(is_complex, values)) else min(self.run, most)
        super().__init__(schedule, memory, t.groups * t.members, vector, 0)
        self.op, self.product, self.type = op, product, product.result.type
        self.rows, self.columns, self.inner, self.batch = rows, columns, inner, batch
        self.dtype = self.type.dtype
        self.depth = DEPTH_BYTES // self.dtype.itemsize if self.dtype.itemsize > 2 else 16
        self.element_type = self.text.element(self.dtype)

    @property
    def half(self) -> int:
        """Elements of a tile in shared memory."""
        return int(self.depth * self.tiling.pad)

    def factor(self, is_left: bool, *given: Any) -> Factor:
        """One operand, by the arguments of `Given`."""
        return Given(self, *given)

    def prepare(self) -> None:
        """Compute what all steps along the inner index need."""
        self.coordinates = self._coordinates()

    def write(self) -> Launch:
        text, product, t = self.text, self.product, self.tiling
        a, b = (self._given(index) for index in range(2))
        params = self.s.region.params[1:]
        self.pointers.update((value, self._given(2 + index)) for index, value in enumerate(params))
        (result,) = self.s.region.results
        target = text.pointer("write")
        self.arguments.append(Pointer("result", 0, result.type.nbytes))
        rows, columns, inner = (self.number(size) for size in (self.rows, self.columns, self.inner))
        tiles_m, tiles_n = -(-self.rows // t.tile), -(-self.columns // t.tile)
        self.define("kernel")

        thread, block = text.thread(), text.block_number()
        across, down = self.number(tiles_n), self.number(tiles_m)
        rest = text.let(f"udiv i64 {block}, {across}")
        matrix = text.let(f"udiv i64 {rest}, {down}")
        row0 = text.times(text.let(f"urem i64 {rest}, {down}"), t.tile)
        column0 = text.times(text.let(f"urem i64 {block}, {across}"), t.tile)
        self.member = text.let(f"and i64 {thread}, {t.members - 1}") if t.groups > 1 else thread
        self.group: Index = text.lshr(thread, t.members.bit_length() - 1) if t.groups > 1 else 0
        transposed = product.attrs["transpose_a"], not product.attrs["transpose_b"]
        given = [self.factor(True, self._moved(a, text.mul(matrix, text.mul(rows, inner))), self.memory.operands[0], row0, rows, self.rows,
                             transposed[0], inner),
                 self.factor(False, self._moved(b, text.mul(matrix, text.mul(inner, columns))), self.memory.operands[1], column0, columns,
                             self.columns, transposed[1], inner)]
        half = self.half
        self.start = text.reserve_shared(4 * half * t.groups * self.dtype.itemsize)
        own = text.times(self.group, 4 * half)

        def tiles(buffer: Index) -> list[Index]:
            return [text.plus(text.plus(own, buffer), half * number) for number in range(2)]

        def load(chunk: Index) -> list[str]:
            first = text.plus(chunk, text.times(self.group, self.depth))
            return [name for each in given for name in each.load(first)]

        def store(chunk: Index, names: Sequence[str], buffer: Index) -> None:
            first = text.plus(chunk, text.times(self.group, self.depth))
            split = given[0].count
            for each, tile, own_names in zip(given, tiles(buffer), (names[:split], names[split:]), strict=True):
                each.store(first, own_names, tile)

        self.prepare()
        store(0, load(0), 0)
        text.barrier()
        zero = (self.element_type, text.literal(0, self.dtype))
        chunk = t.groups * self.depth
        with text.for_range(0, inner, chunk, [*[zero] * t.sums, ("i64", "0")]) as loop:
            next = text.add(loop.counter, chunk)
            goes_on = text.compare("slt", next, inner)
            with text.if_(goes_on, [zero] * (given[0].count + given[1].count)) as ahead:
                ahead.following = load(next)
            *sums, buffer = loop.values
            sums = self._multiplied(sums, tiles(buffer))
            other = text.sub(2 * half, buffer)
            with text.where(goes_on):
                store(next, ahead.values, other)
            text.barrier()
            loop.following = [*sums, other]
        totals = list(loop.values[:-1])
        if t.groups == 1:
            self._store_all(result, target, totals, (row0, column0), matrix, (rows, columns))
            return self.launch("product", self.batch * tiles_m * tiles_n)
        with text.where(text.compare("ne", self.group, 0)):
            first = text.times(text.plus(self.group, -1), t.sums * t.members)
            place = self._shared(text.plus(first, self.member))
            for number, name in enumerate(totals):
                self._put_shared([name], place, number * t.members)
        text.barrier()
        with text.where(text.compare("eq", self.group, 0)):
            place = self._shared(self.member)
            for group in range(t.groups - 1):
                for number, name in enumerate(totals):
                    (part,) = self._get_shared(1, place, (group * t.sums + number) * t.members)
                    totals[number] = text.let(f"{'fadd' if self.dtype.kind == 'f' else 'add'} {self.element_type} {name}, {part}")
            self._store_all(result, target, totals, (row0, column0), matrix, (rows, columns))
        return self.launch("product", self.batch * tiles_m * tiles_n)

    def _given(self, index: int) -> str:
        pointer = self.text.pointer("read")
        self.constants.add(pointer)
        self.arguments.append(Pointer("operand", index, self.op.operands[index].type.nbytes))
        return pointer

    def _moved(self, pointer: str, elements: str) -> str:
        moved = self.text.place(pointer, self.dtype, elements)
        self.constants.add(moved)
        return moved

    def _own(self, coordinate: str) -> list[Index]:
        """The first of each vector of rows, or columns, of this thread in its tile: vectors of neighbouring threads lie side by side."""
        first = self.text.times(coordinate, VECTOR)
        return [self.text.plus(first, group * self.tiling.side * VECTOR) for group in range(self.tiling.own // VECTOR)]

    def _coordinates(self) -> tuple[str, str]:
        side = self.tiling.side
        return self.text.lshr(self.member, side.bit_length() - 1), self.text.let(f"and i64 {self.member}, {side - 1}")

    def _multiplied(self, sums: Sequence[str], tiles: Sequence[Index]) -> list[str]:
        """The sums with the products of both tiles."""
        text, own = self.text, self.tiling.own
        places = [[self._shared(text.plus(tile, start)) for start in self._own(coordinate)]
                  for tile, coordinate in zip(tiles, self.coordinates, strict=True)]
        found = list(sums)
        for k in range(self.depth):
            left, right = ([name for start in starts for name in self._get_shared(VECTOR, start, k * self.tiling.pad)]
                           for starts in places)
            for i, x in enumerate(left):
                for j, y in enumerate(right):
                    found[i * own + j] = self._sum_with_product(x, y, found[i * own + j])
        return found

    def _sum_with_product(self, x: str, y: str, total: str) -> str:
        text, element = self.text, self.element_type
        if self.dtype.kind == "f":
            return text.call(element, f"@llvm.fma.{short_name(self.dtype)}", (element, x), (element, y), (element, total))
        return text.let(f"add {element} {text.let(f'mul {element} {x}, {y}')}, {total}")

    def _shared(self, index: Index) -> str:
        """The address of an element of shared memory."""
        return self.text.shared_place(self.start, self.element_type, index)

    def _at(self, place: str, offset: int) -> str:
        """The address of an element a known number of elements behind another one: part of the instruction that uses it."""
        if not offset:
            return place
        return self.text.let(f"getelementptr inbounds {self.element_type}, ptr addrspace({SHARED}) {place}, i64 {offset}")

    def _get_shared(self, count: int, place: str, offset: int) -> list[str]:
        text, element = self.text, self.element_type
        place = self._at(place, offset)
        if count == 1:
            return [text.let(f"load {element}, ptr addrspace({SHARED}) {place}, align {self.dtype.itemsize}")]
        vector = f"<{count} x {element}>"
        whole = text.let(f"load {vector}, ptr addrspace({SHARED}) {place}, align {math.gcd(MAX_LOAD_BYTES, count * self.dtype.itemsize)}")
        return [text.let(f"extractelement {vector} {whole}, i32 {lane}") for lane in range(count)]

    def _put_shared(self, names: Sequence[str], place: str, offset: int = 0) -> None:
        text, element, count = self.text, self.element_type, len(names)
        type, whole = element, names[0]
        if count > 1:
            type, whole = f"<{count} x {element}>", "poison"
            for lane, name in enumerate(names):
                whole = text.let(f"insertelement {type} {whole}, {element} {name}, i32 {lane}")
        place = self._at(place, offset)
        text.do(f"store {type} {whole}, ptr addrspace({SHARED}) {place}, align {math.gcd(MAX_LOAD_BYTES, count * self.dtype.itemsize)}")

    def _store_all(self, result: Value, target: str, totals: Sequence[str], first: tuple[Index, Index], matrix: str,
                   sizes: tuple[str, str]) -> None:
        """Compute the epilogue of this thread's elements, and store what comes out."""
        text, rows_of, starts = self.text, *self._places(first)
        (rows, columns), base, own = sizes, text.mul(matrix, sizes[0]), self.run * len(starts)
        for i, row in enumerate(rows_of):
            is_row = text.compare("slt", row, rows)
            start = text.let(f"mul nsw i64 {text.plus(base, row)}, {columns}")
            for j in range(0, own, self.vector):
                column = str(text.plus(starts[j // self.run], j % self.run))
                with text.where(is_row, text.compare("slt", column, columns)), self.scope():
                    place = text.let(f"add nsw i64 {start}, {column}")
                    self.row, self.starts, self.row_starts = row, [column], [place]
                    product = self.s.region.params[0]
                    self.scopes[-1].update(((product, at if self.is_element(product) else None), totals[i * own + j + at])
                                           for at in range(self.vector))
                    names = [self.need(result, at) for at in range(self.vector)]
                    text.write(names, target, result.type.dtype, place, self.width_alignment(result.type.dtype))

    def _places(self, first: tuple[Index, Index]) -> tuple[list[str], list[Index]]:
        """The rows of this thread, and the first of each run of its columns; `first` are those of the tile."""
        text = self.text
        down, across = ([text.plus(start, place) for place in self._own(coordinate)]
                        for start, coordinate in zip(first, self.coordinates, strict=True))
        return [str(text.plus(row, at)) for row in down for at in range(VECTOR)], across


class Factor(Protocol):
    """One operand of a product: `count` elements are on their way with each thread."""

    count: int

    def load(self, first: Index) -> list[str]:
        """The elements that this thread takes along, for inner indices from `first` on, and any others in place of those outside."""

    def store(self, first: Index, names: Sequence[str], tile: Index) -> None:
        """Put them into shared memory, and 0 in place of those outside: what is waited for is used here, not where it is loaded."""


class Given:
    """One operand of a product: where its tiles are, and what of them each thread takes along. Neighbouring threads read neighbouring
    elements, vectors of them where all rows begin at multiples of their size; what lies outside of the matrix is 0."""

    def __init__(self, writer: ProductWriter, pointer: str, alignment: int, outer0: Index, outer: str, outer_size: int, transposed: bool,
                 inner: str):
        w, t, text = writer, writer.tiling, writer.text
        self.writer, self.transposed, self.outer = w, transposed, outer
        self.count = t.tile * w.depth // t.members
        row = outer_size if transposed else w.inner
        self.width = min(widest(w.dtype.itemsize, row, alignment), VECTOR, self.count)
        wide = (t.tile if transposed else w.depth) // self.width            # vectors of a row of the tile in memory
        self.at: list[tuple[Index, str, Ahead]] = []                        # the place in the tile; inside; what is loaded
        low, high = text.let(f"and i64 {w.member}, {wide - 1}"), text.lshr(w.member, wide.bit_length() - 1)
        low = str(text.times(low, self.width))
        for part in range(self.count // self.width):
            line = str(text.plus(high, part * (t.members // wide)))
            k, along = (line, low) if transposed else (low, line)
            o = str(text.plus(outer0, along))
            base = text.plus(text.mul(k, outer), o) if transposed else text.plus(text.mul(o, inner), k)
            is_outer = text.compare("slt", o, outer)
            self.at.append((text.plus(text.times(k, t.pad), along), is_outer, Ahead(w, pointer, k, str(base), is_outer, inner)))

    def load(self, first: Index) -> list[str]:
        w, text = self.writer, self.writer.text
        step = text.mul(first, self.outer) if self.transposed else first
        return [name for _, _, ahead in self.at for name in ahead.load(w, first, step, self.width)]

    def store(self, first: Index, names: Sequence[str], tile: Index) -> None:
        w, text, width = self.writer, self.writer.text, self.width
        for number, (at, is_outer, ahead) in enumerate(self.at):
            own = ahead.or_zero(w, first, names[number * width:(number + 1) * width], is_outer)
            place = w._shared(text.plus(at, tile))
            if self.transposed:
                w._put_shared(own, place)
                continue
            for offset, name in enumerate(own):
                w._put_shared([name], place, offset * w.tiling.pad)


class Ahead:
    """Neighbours in memory that a thread loads in each step, at inner indices from `k` on. Those that are outside of the matrix are others,
    from where it begins or this thread's first ones, until `or_zero`: so a step adds one number to the address."""

    def __init__(self, writer: ProductWriter, pointer: str, k: str, base: str, is_outer: str, inner: str):
        text = writer.text
        place = text.select(text.both(is_outer, text.compare("slt", k, inner)), "i64", base, 0)
        self.pointer = text.place(pointer, writer.dtype, place)
        writer.constants.add(self.pointer)
        self.below = text.sub(inner, k)

    def load(self, writer: ProductWriter, first: Index, step: Index, width: int) -> list[str]:
        text, dtype = writer.text, writer.dtype
        step = text.select(text.compare("slt", first, self.below), "i64", step, 0)
        return writer.load(self.pointer, dtype, step, width, width * dtype.itemsize)

    def or_zero(self, writer: ProductWriter, first: Index, names: Sequence[str], is_outer: str) -> list[str]:
        """What was loaded, and 0 in place of elements outside of the matrix."""
        text = writer.text
        inside, zero = text.both(is_outer, text.compare("slt", first, self.below)), text.literal(0, writer.dtype)
        return [text.select(inside, writer.element_type, name, zero) for name in names]
