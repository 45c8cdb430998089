"""LLVM text of kernels: memory by address space, numbers of threads and blocks, barriers, shuffles, sums over teams of threads.

The names of NVVM's intrinsics are those that every LLVM from 20 on knows: an older one takes a newer name for somebody else's function,
without a word.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from adjit.codegen.cuda.kernel import NAME, Access, Kernel, named_kernel
from adjit.codegen.cuda.target import MAX_LOAD_BYTES, SM_90, TRIPLE, WARP
from adjit.codegen.native.kernels.builder import Index, KernelBuilder
from adjit.codegen.native.kernels.scalar_templates import template
from adjit.ir.types import is_complex, real_dtype, short_name

DATALAYOUT = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
GLOBAL, SHARED = 1, 3
"""Address spaces."""

SLOT_BYTES = 8
"""Bytes of an element in shared memory, whatever its type."""

FOUR_FLOATS = "{float, float, float, float}"
"""What a lane holds of a product of a warp: two neighbours in two rows."""

Combine = Callable[[str, str], str]


class KernelText(KernelBuilder):
    """Text of one kernel, as each of its threads runs it. Loops stay loops: ptxas would write out those of known length, which takes three
    times as long to compile."""

    loop_mark = ", !llvm.loop !8"

    def __init__(self, threads: int) -> None:
        super().__init__(SM_90, 1)
        self.threads = threads
        self.shared_bytes = 0
        self._access: list[Access] = []
        self._numbers: list[str] = []

    # -- parameters

    def pointer(self, access: Access) -> str:
        """A further parameter: the address of memory that this parameter alone leads to."""
        self._access.append(access)
        return f"%p{len(self._access) - 1}"

    def number(self) -> str:
        """A further parameter: a 64-bit integer."""
        self._numbers.append(f"%n{len(self._numbers)}")
        return self._numbers[-1]

    def kernel(self, label: str) -> Kernel:
        """The kernel whose text ends here."""
        self.ret()
        parameters = [f"ptr addrspace({GLOBAL}) noalias{' readonly' if access == 'read' else ''} %p{i}"
                      for i, access in enumerate(self._access)]
        shared = (f"@{NAME}.shared = internal addrspace({SHARED}) global [{self.shared_bytes} x i8] poison, align 16"
                  if self.shared_bytes else "")
        tables = [definition.text for name, definition in sorted(self.shared.items()) if name != "!0"]
        text = "\n".join(filter(None, (
            f'target triple = "{TRIPLE}"', f'target datalayout = "{DATALAYOUT}"', *sorted(self.declarations), *tables, shared,
            f"define ptx_kernel void @{NAME}({', '.join([*parameters, *(f'i64 {name}' for name in self._numbers)])}) nounwind {{",
            "entry:", *self.lines, "}", self.shared["!0"].text if "!0" in self.shared else "",
            '!7 = !{!"llvm.loop.unroll.disable"}', "!8 = distinct !{!8, !7}", "!9 = !{}",
            "!nvvm.annotations = !{!10}", f'!10 = !{{ptr @{NAME}, !"maxntidx", i32 {self.threads}}}', "")))
        return named_kernel(label, text, self.threads, self.shared_bytes, self._access, len(self._numbers))

    def applied(self, name: str, dtype: np.dtype, *operands: str) -> str:
        """The result of an elementwise op on operands of a dtype; of complex ones, arithmetic alone."""
        if is_complex(dtype):
            return self._of_complex(name, dtype, *operands)
        return self.instantiate(template(name, (short_name(dtype),) * len(operands), "", 1, self.target), operands)

    def _of_complex(self, name: str, dtype: np.dtype, x: str, y: str) -> str:
        """A quotient is that of R. L. Smith, Algorithm 116: Complex division, Communications of the ACM 5 (1962)."""
        type, part = self.element(dtype), self.element(real_dtype(dtype))
        if name in ("add", "subtract"):
            return self.let(f"{'fadd' if name == 'add' else 'fsub'} {type} {x}, {y}")
        a, b, c, d = (self.let(f"extractelement {type} {value}, i32 {number}") for value in (x, y) for number in range(2))

        def arithmetic(code: str, first: str, second: str) -> str:
            return self.let(f"f{code} {part} {first}, {second}")

        if name == "multiply":
            real = arithmetic("sub", arithmetic("mul", a, c), arithmetic("mul", b, d))
            imaginary = arithmetic("add", arithmetic("mul", a, d), arithmetic("mul", b, c))
        else:
            assert name == "divide"
            sizes = [self.call(part, f"@llvm.fabs.f{4 * dtype.itemsize}", (part, value)) for value in (c, d)]
            wide = self.let(f"fcmp oge {part} {sizes[0]}, {sizes[1]}")
            large, small = self.select(wide, part, c, d), self.select(wide, part, d, c)
            first, second = self.select(wide, part, a, b), self.select(wide, part, b, a)
            ratio = arithmetic("div", small, large)
            whole = arithmetic("add", large, arithmetic("mul", small, ratio))
            real = arithmetic("div", arithmetic("add", first, arithmetic("mul", second, ratio)), whole)
            turned = arithmetic("sub", second, arithmetic("mul", first, ratio))         # b - a r, or a - b r
            imaginary = arithmetic("div", self.select(wide, part, turned, self.let(f"fneg {part} {turned}")), whole)
        return self.let(f"insertelement {type} {self.let(f'insertelement {type} poison, {part} {real}, i32 0')}, {part} {imaginary}, i32 1")

    # -- threads

    def thread(self) -> str:
        """The number of the thread in its block."""
        return self._register("tid")

    def block_number(self) -> str:
        return self._register("ctaid")

    def _register(self, name: str) -> str:
        return self.convert("zext", "i32", self.call("i32", f"@llvm.nvvm.read.ptx.sreg.{name}.x"), "i64")

    def barrier(self) -> None:
        """Wait for all threads of the block, and for what they have written."""
        self.call("void", "@llvm.nvvm.barrier0")

    @contextmanager
    def where(self, *conditions: str) -> Iterator[None]:
        """Context for what only the threads do for which all the conditions hold; an empty condition always does."""
        names = [condition for condition in conditions if condition]
        if not names:
            yield
            return
        whole = names[0]
        for name in names[1:]:
            whole = self.both(whole, name)
        with self.if_(whole):
            yield

    def decide(self, handle: str, value: str) -> None:
        """Set the number of a conditional node of the graph that the launch is part of. The function is of NVIDIA's device runtime; the
        driver has it, as XLA relies on, too."""
        self._declarations.add("declare void @cudaGraphSetConditional(i64, i32)")
        self.call("void", "@cudaGraphSetConditional", ("i64", handle), ("i32", value))

    # -- memory

    def place(self, pointer: str, dtype: np.dtype, index: Index, space: int = GLOBAL) -> str:
        """The address of element number `index`."""
        if index in (0, "0"):
            return pointer
        return self.let(f"getelementptr inbounds {self.cell(dtype)}, ptr addrspace({space}) {pointer}, i64 {index}")

    def read(self, pointer: str, dtype: np.dtype, index: Index = 0, width: int = 1, align: int = 0, constant: bool = False) -> list[str]:
        """`width` neighbouring elements; `constant` if the launch writes none of this memory."""
        place, cell = self.place(pointer, dtype, index), self.cell(dtype)
        end = f", align {align or _own_alignment(dtype)}" + (", !invariant.load !9" if constant else "")
        if width == 1:
            return [self._loaded(self.let(f"load {cell}, ptr addrspace({GLOBAL}) {place}{end}"), dtype, 1)]
        whole = self.let(f"load <{width} x {cell}>, ptr addrspace({GLOBAL}) {place}{end}")
        return [self._loaded(self.let(f"extractelement <{width} x {cell}> {whole}, i32 {lane}"), dtype, 1) for lane in range(width)]

    def write(self, values: Sequence[str], pointer: str, dtype: np.dtype, index: Index = 0, align: int = 0) -> None:
        """Store neighbouring elements."""
        cell, count = self.cell(dtype), len(values)
        stored = [self._stored(value, dtype, 1) for value in values]
        place = self.place(pointer, dtype, index)
        whole, type = stored[0], cell
        if count > 1:
            whole, type = "poison", f"<{count} x {cell}>"
            for lane, value in enumerate(stored):
                whole = self.let(f"insertelement {type} {whole}, {cell} {value}, i32 {lane}")
        self.do(f"store {type} {whole}, ptr addrspace({GLOBAL}) {place}, align {align or _own_alignment(dtype)}")

    def reserve_shared(self, nbytes: int) -> int:
        """The first byte of further shared memory."""
        start = -(-self.shared_bytes // MAX_LOAD_BYTES) * MAX_LOAD_BYTES
        self.shared_bytes = start + nbytes
        return start

    def shared_place(self, start: int, element: str, index: Index = 0) -> str:
        """The address of an element of shared memory, from byte `start` on."""
        self.use(f"@{NAME}.shared")
        base = f"@{NAME}.shared"
        if start:
            base = self.let(f"getelementptr inbounds i8, ptr addrspace({SHARED}) {base}, i64 {start}")
        if index in (0, "0"):
            return base
        return self.let(f"getelementptr inbounds {element}, ptr addrspace({SHARED}) {base}, i64 {index}")

    # -- teams of threads

    def exchanged(self, value: str, dtype: np.dtype, distance: int) -> str:
        """The value of the lane whose number differs in one bit. All lanes of the warp have to get here."""
        type, bits = self.element(dtype), 8 * dtype.itemsize
        is_float = dtype.kind == "f"
        word = self.convert("bitcast", type, value, f"i{bits}") if is_float else value
        if dtype == np.bool_ or bits < 32:
            moved = self._exchanged_word(self.convert("zext", type, value, "i32"), distance)
            return self.convert("trunc", "i32", moved, type)
        if bits == 32:
            moved = self._exchanged_word(word, distance)
        else:
            low = self._exchanged_word(self.convert("trunc", "i64", word, "i32"), distance)
            high = self._exchanged_word(self.convert("trunc", "i64", self.lshr(word, 32), "i32"), distance)
            moved = self.let(f"or i64 {self.shl(self.convert('zext', 'i32', high, 'i64'), 32)}, {self.convert('zext', 'i32', low, 'i64')}")
        return self.convert("bitcast", f"i{bits}", moved, type) if is_float else moved

    def _exchanged_word(self, word: str, distance: int) -> str:
        return self.call("i32", "@llvm.nvvm.shfl.sync.bfly.i32", ("i32", -1), ("i32", word), ("i32", distance), ("i32", 31))

    def over_lanes(self, combine: Combine, value: str, dtype: np.dtype, below: int, first: int = 1) -> str:
        """The values of lanes whose numbers differ in the bits from `first` up to `below`, combined: the same bits in all of them."""
        distance = below // 2
        while distance >= first:
            value = combine(value, self.exchanged(value, dtype, distance))
            distance //= 2
        return value

    def over_warps(self, combine: Combine, value: str, dtype: np.dtype, thread: str, lanes: int = 1) -> str:
        """The values of all warps, in the order of the warps, for each of the first `lanes` lanes; the other lanes get those of the lane
        that their number's lowest bits name. Further threads may write the shared memory after a barrier."""
        warps = self.threads // WARP
        if warps == 1:
            return value
        start, cell = self.reserve_shared(warps * lanes * SLOT_BYTES), self.cell(dtype)
        lane = self.let(f"and i64 {thread}, {WARP - 1}")
        with self.where(self.compare("ult", lane, lanes)):
            slot = self.plus(self.times(self.lshr(thread, WARP.bit_length() - 1), lanes), lane)
            self.do(f"store {cell} {self._stored(value, dtype, 1)}, ptr addrspace({SHARED}) {self.shared_place(start, 'i64', slot)}, "
                    f"align {SLOT_BYTES}")
        self.barrier()
        own: Index = 0 if lanes == 1 else self.let(f"and i64 {thread}, {lanes - 1}")
        total = ""
        for warp in range(warps):
            place = self.shared_place(start, "i64", self.plus(own, warp * lanes))
            part = self._loaded(self.let(f"load {cell}, ptr addrspace({SHARED}) {place}, align {SLOT_BYTES}"), dtype, 1)
            total = combine(total, part) if warp else part
        return total


def _own_alignment(dtype: np.dtype) -> int:
    return real_dtype(dtype).itemsize


def widest(itemsize: int, length: int, alignment: int) -> int:
    """Elements of the widest load that `length` elements can be read by, if they begin at a multiple of `alignment` bytes."""
    return math.gcd(max(min(alignment, MAX_LOAD_BYTES) // itemsize, 1), length)
