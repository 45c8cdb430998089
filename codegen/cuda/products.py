"""Products of matrices: tiles in shared memory, a few rows by a few columns a thread, exact float arithmetic.

Each element is a chain of fused multiply-adds in the order of the inner index, so its bits depend on nothing but the numbers. The ops of an
epilogue follow in registers.
"""

from __future__ import annotations

import math

from adjit.codegen.cuda.arrays.movement import fill
from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import DEVICE_RULE
from adjit.codegen.cuda.text import SHARED
from adjit.codegen.cuda.writer import KernelWriter, Memory
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.analysis.kernel_schedule import schedule_kernel
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.types import short_name

TILE, DEPTH, THREADS = 64, 16, 256
"""Rows and columns of a tile, inner indices that lie in shared memory at a time, threads of a block."""

OWN = 4
"""Rows, and columns, of a thread."""

PAD = TILE + 4
"""Elements from a row of a tile to the next, in shared memory: neighbours along the inner index are in different banks."""


def lower_matmul(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a product."""
    return _lower(op, op, Graph("product", (op.result,), (), (op.result,)), memory)


def lower_matmul_epilogue(op: Op, memory: Memory) -> list[Launch]:
    """The launches of a product whose elements further ops change before they are stored."""
    (region,) = op.regions
    product = next(inner for inner in region.ops if inner.name == "matmul")
    rest = Graph(region.name, (product.result, *region.params[2:]), tuple(inner for inner in region.ops if inner is not product),
                 region.results)
    return _lower(op, product, rest, memory)


def _lower(op: Op, product: Op, epilogue: Graph, memory: Memory) -> list[Launch]:
    type = product.result.type
    if type.dtype.kind not in "fiu" or type.is_half:
        raise UnsupportedError(f"products of {short_name(type.dtype)} have no code for the device 'cuda' yet", op.loc,
                               hint="omit device= to compile for the CPU")
    inner = product.operands[0].type.shape[-2 if product.attrs["transpose_a"] else -1]
    if not type.size or not inner:
        return fill(op, 0, memory)
    return [ProductWriter(op, product, epilogue, memory, inner).write()]


class ProductWriter(KernelWriter):
    """Writer of the kernel of one product, or of a batch of products."""

    def __init__(self, op: Op, product: Op, epilogue: Graph, memory: Memory, inner: int):
        *_, rows, columns = product.result.type.shape
        batch = product.result.type.size // (rows * columns)
        super().__init__(schedule_kernel(epilogue, batch * rows, columns, DEVICE_RULE), memory, THREADS, 1, 0)
        self.op, self.product, self.type = op, product, product.result.type
        self.rows, self.columns, self.inner, self.batch = rows, columns, inner, batch

    def write(self) -> Launch:
        text, product = self.text, self.product
        transposed = product.attrs["transpose_a"], product.attrs["transpose_b"]
        a, b = (self._given(index) for index in range(2))
        params = self.s.region.params[1:]
        self.pointers.update((value, self._given(2 + index)) for index, value in enumerate(params))
        (result,) = self.s.region.results
        target = text.pointer("write")
        self.arguments.append(Pointer("result", 0, result.type.nbytes))
        rows, columns, inner = (self.number(size) for size in (self.rows, self.columns, self.inner))
        tiles_m, tiles_n = -(-self.rows // TILE), -(-self.columns // TILE)
        self.define("kernel")

        thread, block = text.thread(), text.block_number()
        across, down = self.number(tiles_n), self.number(tiles_m)
        rest = text.let(f"udiv i64 {block}, {across}")
        matrix = text.let(f"udiv i64 {rest}, {down}")
        row0 = text.shl(text.let(f"urem i64 {rest}, {down}"), TILE.bit_length() - 1)
        column0 = text.shl(text.let(f"urem i64 {block}, {across}"), TILE.bit_length() - 1)
        a = self._moved(a, text.mul(matrix, text.mul(rows, inner)))
        b = self._moved(b, text.mul(matrix, text.mul(inner, columns)))

        element, size = text.element(self.type.dtype), self.type.dtype.itemsize
        tiles = [text.reserve_shared(DEPTH * PAD * size) for _ in range(2)]
        own_row = text.times(text.lshr(thread, 4), OWN)
        own_column = text.times(text.let(f"and i64 {thread}, 15"), OWN)
        with text.for_range(0, inner, DEPTH, [(element, text.literal(0, self.type.dtype))] * OWN**2) as loop:
            self._stage(a, tiles[0], thread, row0, rows, transposed[0], loop.counter, inner)
            self._stage(b, tiles[1], thread, column0, columns, not transposed[1], loop.counter, inner)
            text.barrier()
            sums = list(loop.values)
            for k in range(DEPTH):
                left, right = (self._vector(tile, own, k) for tile, own in zip(tiles, (own_row, own_column), strict=True))
                for i, x in enumerate(left):
                    for j, y in enumerate(right):
                        sums[i * OWN + j] = self._sum_with_product(element, x, y, sums[i * OWN + j])
            text.barrier()
            loop.following = sums
        first_row, first_column = text.plus(row0, own_row), text.plus(column0, own_column)
        base = text.mul(matrix, rows)
        for i in range(OWN):
            row = text.plus(first_row, i)
            for j in range(OWN):
                column = text.plus(first_column, j)
                inside = text.both(text.compare("slt", row, rows), text.compare("slt", column, columns))
                with text.where(inside), self.scope():
                    self._store(result, target, loop.values[i * OWN + j], str(row), str(column), base, columns)
        return self.launch("product", self.batch * tiles_m * tiles_n)

    def _given(self, index: int) -> str:
        pointer = self.text.pointer("read")
        self.constants.add(pointer)
        self.arguments.append(Pointer("operand", index, self.op.operands[index].type.nbytes))
        return pointer

    def _moved(self, pointer: str, elements: str) -> str:
        moved = self.text.place(pointer, self.type.dtype, elements)
        self.constants.add(moved)
        return moved

    def _sum_with_product(self, element: str, x: str, y: str, total: str) -> str:
        text = self.text
        if self.type.dtype.kind == "f":
            return text.call(element, f"@llvm.fma.{short_name(self.type.dtype)}", (element, x), (element, y), (element, total))
        return text.let(f"add {element} {text.let(f'mul {element} {x}, {y}')}, {total}")

    def _stage(self, pointer: str, tile: int, thread: str, outer0: str, outer: str, transposed: bool, inner0: str, inner: str) -> None:
        """Put a tile into shared memory, with the inner index first. Neighbouring threads read neighbouring elements; what lies outside of
        the matrix is 0."""
        text, dtype = self.text, self.type.dtype
        element, size = text.element(dtype), dtype.itemsize
        wide = (TILE if transposed else DEPTH).bit_length() - 1
        for part in range(TILE * DEPTH // THREADS):
            number = text.plus(thread, part * THREADS)
            high, low = text.lshr(number, wide), text.let(f"and i64 {number}, {(1 << wide) - 1}")
            along_inner, along_outer = (high, low) if transposed else (low, high)
            o, k = text.plus(outer0, along_outer), text.plus(inner0, along_inner)
            inside = text.both(text.compare("slt", o, outer), text.compare("slt", k, inner))
            place = text.plus(text.mul(k, outer), o) if transposed else text.plus(text.mul(o, inner), k)
            (value,) = self.load(pointer, dtype, text.select(inside, "i64", place, 0))
            value = text.select(inside, element, value, text.literal(0, dtype))
            slot = text.shared_place(tile, element, text.plus(text.times(along_inner, PAD), along_outer))
            text.do(f"store {element} {value}, ptr addrspace({SHARED}) {slot}, align {size}")

    def _vector(self, tile: int, own: Index, k: int) -> list[str]:
        """Elements of this thread's rows, or columns, for an inner index."""
        text, dtype = self.text, self.type.dtype
        vector = f"<{OWN} x {text.element(dtype)}>"
        place = text.shared_place(tile, text.element(dtype), text.plus(own, k * PAD))
        whole = text.let(f"load {vector}, ptr addrspace({SHARED}) {place}, align {math.gcd(16, OWN * dtype.itemsize)}")
        return [text.let(f"extractelement {vector} {whole}, i32 {lane}") for lane in range(OWN)]

    def _store(self, result: Value, target: str, name: str, row: str, column: str, base: str, columns: str) -> None:
        """Compute the epilogue of one element, and store what comes out."""
        text = self.text
        place = text.let(f"add nsw i64 {text.let(f'mul nsw i64 {text.plus(base, row)}, {columns}')}, {column}")
        self.row, self.starts, self.row_starts = row, [column], [place]
        self.scopes[-1][self.s.region.params[0], 0] = name
        name = name if result is self.s.region.params[0] else self.need(result, 0)
        text.write([name], target, result.type.dtype, place)

