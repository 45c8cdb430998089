"""Vectors of a target in LLVM text: addresses by strides, loads and stores of whole and of partly filled vectors, arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adjit.codegen.gemm.product import BYTES
from adjit.codegen.llvm_text import LLVMText
from adjit.codegen.target import Target
from adjit.ir.dataclass import dataclass

_SCALARS = {"f32": "float", "f64": "double"}
Term = int | str | tuple[int | str, int]
"""A number of elements: known, a value, or either of them times a known number."""


_NEAR = 8
"""Rows that are reached from one pointer: those of odd number by a register each, the others by two, four or eight times such a one."""


@dataclass(frozen=True, slots=True)
class Strides:
    """Rows that are a stride apart. Where it is a register, an address is a pointer and a register times 1, 2, 4 or 8."""

    text: VectorText
    stride: int | str
    odd: Mapping[int, str]

    def bases(self, pointer: str, count: int) -> list[str]:
        """Pointers from which `count` rows can be reached: the first row, and every eighth after it."""
        bases = [pointer]
        if isinstance(self.stride, str):
            for _ in range(_NEAR, count, _NEAR):
                bases.append(self.text.let(f"getelementptr [8 x i8], ptr {bases[-1]}, i64 {self.stride}"))
        return bases

    def row(self, bases: Sequence[str], index: int) -> str:
        """The address of a row."""
        if isinstance(self.stride, int):
            return self.text.at(bases[0], index * self.stride)
        base, index = bases[index // _NEAR], index % _NEAR
        if not index:
            return base
        power = index & -index
        return self.text.let(f"getelementptr [{power} x i8], ptr {base}, i64 {self.odd[index // power]}")

    def next(self, pointer: str, times: int = 1) -> str:
        """The pointer, so many rows on."""
        if isinstance(self.stride, int):
            return self.text.at(pointer, times * self.stride)
        return self.text.let(f"getelementptr [{times} x i8], ptr {pointer}, i64 {self.stride}")


class VectorText(LLVMText):
    """LLVM text about vectors of one dtype, as wide as the target has them."""

    def __init__(self, target: Target, dtype: str) -> None:
        super().__init__()
        self.target, self.dtype = target, dtype
        self.scalar, self.bytes = _SCALARS[dtype], BYTES[dtype]
        self.lanes = target.lanes(self.bytes)
        self.vector = self.vector_of(self.lanes)

    def vector_of(self, lanes: int) -> str:
        return f"<{lanes} x {self.scalar}>"

    def at(self, pointer: str, *terms: Term) -> str:
        """The address that many elements behind `pointer`."""
        for term in terms:
            value, factor = term if isinstance(term, tuple) else (term, 1)
            if isinstance(value, int):
                offset: int | str = value * factor
            else:
                offset = value if factor == 1 else self.let(f"mul nsw i64 {value}, {factor}")
            if offset != 0:
                pointer = self.let(f"getelementptr {self.scalar}, ptr {pointer}, i64 {offset}")
        return pointer

    def strides(self, stride: int | str, count: int) -> Strides:
        """Multiples of a stride, in elements where it is known, in bytes where it is a register; up to `count` of them."""
        if isinstance(stride, int):
            return Strides(self, stride, {})
        odd = {1: stride}
        for times in range(3, min(count, _NEAR), 2):
            odd[times] = self.let(f"add i64 {odd[times - 2]}, {self.let(f'shl i64 {stride}, 1')}")
        return Strides(self, stride, odd)

    def load(self, pointer: str, count: int | None = None, aligned: bool = False, lanes: int | None = None) -> str:
        """The next `lanes` elements; of the first `count` only, where fewer count, the others being 0: nothing behind them is read."""
        lanes = lanes or self.lanes
        vector = self.vector_of(lanes)
        if count in (None, lanes):
            return self.let(f"load {vector}, ptr {pointer}, align {lanes * self.bytes if aligned else self.bytes}")
        assert count is not None
        return self.call(vector, f"llvm.masked.load.{self._suffix(lanes)}.p0", ("ptr", pointer), ("i32", str(self.bytes)),
                         self._mask(count, lanes), (vector, "zeroinitializer"))

    def store(self, value: str, pointer: str, count: int | None = None, aligned: bool = False, lanes: int | None = None) -> None:
        """Write a vector of `lanes`; the first `count` elements only, where fewer count."""
        lanes = lanes or self.lanes
        vector = self.vector_of(lanes)
        if count in (None, lanes):
            self.do(f"store {vector} {value}, ptr {pointer}, align {lanes * self.bytes if aligned else self.bytes}")
            return
        assert count is not None
        if not self.target.avx512:
            self.store_first(value, self.scalar, lanes, pointer, count, self.bytes)
            return
        self.call("void", f"llvm.masked.store.{self._suffix(lanes)}.p0", (vector, value), ("ptr", pointer), ("i32", str(self.bytes)),
                  self._mask(count, lanes))

    def fetch(self, pointer: str) -> None:
        """Have the memory there brought near, to be written."""
        self.call("void", "llvm.prefetch.p0", ("ptr", pointer), ("i32", "1"), ("i32", "3"), ("i32", "1"))

    def splat(self, pointer: str) -> str:
        """The element there, in every lane."""
        element = self.let(f"load {self.scalar}, ptr {pointer}, align {self.bytes}")
        first = self.let(f"insertelement {self.vector} poison, {self.scalar} {element}, i32 0")
        return self.shuffle(first, "poison", [0] * self.lanes)

    def shuffle(self, a: str, b: str, order: Sequence[int], lanes: int | None = None) -> str:
        """Those lanes of `a` and, counted on, of `b`, which have `lanes` each."""
        vector = self.vector_of(lanes or self.lanes)
        places = f"<{', '.join(f'i32 {lane}' for lane in order)}>" if any(order) else "zeroinitializer"
        return self.let(f"shufflevector {vector} {a}, {vector} {b}, <{len(order)} x i32> {places}")

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """`a b + c`, with one rounding where the target has it."""
        if self.target.fma:
            return self.call(self.vector, f"llvm.fma.{self._suffix(self.lanes)}", *((self.vector, x) for x in (a, b, c)))
        return self.add(self.let(f"fmul {self.vector} {a}, {b}"), c)

    def add(self, a: str, b: str) -> str:
        return self.let(f"fadd {self.vector} {a}, {b}")

    def _suffix(self, lanes: int) -> str:
        return f"v{lanes}{self.dtype}"

    def _mask(self, count: int, lanes: int) -> tuple[str, str]:
        return f"<{lanes} x i1>", f"<{', '.join(f'i1 {int(lane < count)}' for lane in range(lanes))}>"
