"""Vectors of a target in LLVM text: addresses by strides, loads and stores of whole and of partly filled vectors, arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from adjit.codegen.gemm.product import BYTES
from adjit.codegen.llvm_text import LLVMText
from adjit.codegen.target import Target

_SCALARS = {"f32": "float", "f64": "double"}
Term = int | str | tuple[int | str, int]
"""A number of elements: known, a value, or either of them times a known number."""


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

    def load(self, pointer: str, count: int | None = None, aligned: bool = False) -> str:
        """The next `lanes` elements; of the first `count` only, where fewer count, the others being 0: nothing behind them is read."""
        if count in (None, self.lanes):
            return self.let(f"load {self.vector}, ptr {pointer}, align {self.lanes * self.bytes if aligned else self.bytes}")
        assert count is not None
        return self.call(self.vector, f"llvm.masked.load.{self._suffix(self.lanes)}.p0", ("ptr", pointer), ("i32", str(self.bytes)),
                         self._mask(count, self.lanes), (self.vector, "zeroinitializer"))

    def store(self, value: str, pointer: str, count: int | None = None, aligned: bool = False, lanes: int | None = None) -> None:
        """Write a vector of `lanes`; the first `count` elements only, where fewer count."""
        lanes = lanes or self.lanes
        vector = self.vector_of(lanes)
        if count in (None, lanes):
            self.do(f"store {vector} {value}, ptr {pointer}, align {lanes * self.bytes if aligned else self.bytes}")
            return
        assert count is not None
        self.call("void", f"llvm.masked.store.{self._suffix(lanes)}.p0", (vector, value), ("ptr", pointer), ("i32", str(self.bytes)),
                  self._mask(count, lanes))

    def splat(self, pointer: str) -> str:
        """The element there, in every lane."""
        element = self.let(f"load {self.scalar}, ptr {pointer}, align {self.bytes}")
        first = self.let(f"insertelement {self.vector} poison, {self.scalar} {element}, i32 0")
        return self.shuffle(first, "poison", [0] * self.lanes)

    def shuffle(self, a: str, b: str, order: Sequence[int]) -> str:
        lanes = ", ".join(f"i32 {lane}" for lane in order)
        return self.let(f"shufflevector {self.vector} {a}, {self.vector} {b}, <{len(order)} x i32> <{lanes}>")

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
