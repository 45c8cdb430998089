"""Vectors in LLVM text: full and masked ones, lane permutations, and addresses by strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from adjit.codegen.llvm.builder import BYTES, Builder, Typed, Value
from adjit.codegen.llvm.target import Target
from adjit.ir.dataclass import dataclass

_SCALARS = {"f32": "float", "f64": "double"}
_SHORT = {"float": "f32", "double": "f64"}

_NEAR = 8
"""Rows that are addressed from one pointer: each odd row needs a register; the others are two, four or eight times such a register."""

Count = int | str | None
"""Active lanes of a vector: the first `n` lanes, the lanes of a mask, or all lanes."""


@dataclass(frozen=True, slots=True)
class Strides:
    """Rows at a constant stride. If the stride is a register, an address is a pointer plus a register times 1, 2, 4 or 8."""

    text: VectorBuilder
    stride: int | str
    odd: Mapping[int, str]

    def bases(self, pointer: str, count: int) -> list[str]:
        """Pointers from which `count` rows are addressed: the first row, and every eighth row after it."""
        bases = [pointer]
        if isinstance(self.stride, str):
            for _ in range(_NEAR, count, _NEAR):
                bases.append(self.text.let(f"getelementptr [8 x i8], ptr {bases[-1]}, i64 {self.stride}"))
        return bases

    def row(self, bases: Sequence[str], index: int) -> str:
        """The address of a row."""
        if isinstance(self.stride, int):
            return self.text.at(bases[0], self.text.scalar, index * self.stride)
        base, index = bases[index // _NEAR], index % _NEAR
        if not index:
            return base
        power = index & -index
        return self.text.let(f"getelementptr [{power} x i8], ptr {base}, i64 {self.odd[index // power]}")

    def next(self, pointer: str, times: int = 1) -> str:
        """The pointer moved by `times` rows."""
        if isinstance(self.stride, int):
            return self.text.at(pointer, self.text.scalar, times * self.stride)
        return self.text.let(f"getelementptr [{times} x i8], ptr {pointer}, i64 {self.stride}")


class VectorBuilder(Builder):
    """A builder for a target. By default a vector has `lanes` elements of type `scalar`; the arguments `element` and `lanes` ask for
    another dtype (then as many as fill the target's vector) or another number of lanes."""

    def __init__(self, target: Target, dtype: str = "", lanes: int = 1) -> None:
        super().__init__()
        self.target, self.dtype, self.lanes = target, dtype, lanes
        self.scalar, self.bytes = "i8", 1
        if dtype:
            self.scalar = _SCALARS[dtype]
            self.bytes = BYTES[self.scalar]
            self.lanes = target.lanes(self.bytes)
        self.vector = f"<{self.lanes} x {self.scalar}>"

    def vector_of(self, lanes: int, element: str = "") -> str:
        return f"<{lanes} x {element or self.scalar}>"

    def suffix(self, lanes: int = 0, element: str = "") -> str:
        """Suffix for a vector type in the names of LLVM's intrinsics."""
        element = element or self.scalar
        return f"v{lanes or self.lanes}{_SHORT.get(element, element)}"

    def mask(self, count: Count, lanes: int = 0) -> Typed:
        """A mask of the first `count` lanes. A string is a mask already, and returned as it is."""
        lanes = lanes or self.lanes
        if isinstance(count, str):
            return f"<{lanes} x i1>", count
        many = lanes if count is None else count
        return f"<{lanes} x i1>", f"<{', '.join(['i1 1' if lane < many else 'i1 0' for lane in range(lanes)])}>"

    def first_lanes(self, count: str, lanes: int) -> str:
        """A mask of the first lanes, as many as a register says: at most all."""
        bits = self.sub(self.shl(1, count), 1)
        return self.let(f"bitcast i{lanes} {self.convert('trunc', 'i64', bits, f'i{lanes}')} to <{lanes} x i1>")

    # -- memory

    def load_vector(self, pointer: str, count: Count = None, element: str = "", *, lanes: int = 0, aligned: bool = False,
                    filler: str = "zeroinitializer") -> str:
        """Load a vector. Only active lanes are read; the inactive lanes are those of `filler`."""
        lanes, element = lanes or self.lanes, element or self.scalar
        vector, size = f"<{lanes} x {element}>", BYTES[element]
        if count is None or count == lanes:
            return self.let(f"load {vector}, ptr {pointer}, align {lanes * size if aligned else size}")
        return self.call(vector, f"@llvm.masked.load.{self.suffix(lanes, element)}.p0", ("ptr", pointer), ("i32", size),
                         self.mask(count, lanes), (vector, filler))

    def store_vector(self, value: str, pointer: str, count: Count = None, element: str = "", *, lanes: int = 0,
                     aligned: bool = False) -> None:
        """Store a vector; only active lanes are written."""
        lanes, element = lanes or self.lanes, element or self.scalar
        vector, size = f"<{lanes} x {element}>", BYTES[element]
        if count is None or count == lanes:
            self.do(f"store {vector} {value}, ptr {pointer}, align {lanes * size if aligned else size}")
        elif isinstance(count, int) and not self.target.avx512:
            self.store_first(value, element, lanes, pointer, count, size)
        else:
            self.call("void", f"@llvm.masked.store.{self.suffix(lanes, element)}.p0", (vector, value), ("ptr", pointer), ("i32", size),
                      self.mask(count, lanes))

    def store_first(self, value: str, element: str, lanes: int, pointer: str, count: int, align: int) -> None:
        """Store the first `count` lanes in pieces of 4, 2 and 1 elements or the like. Before AVX-512, a masked store takes 6 ns on
        processors of one maker, where the pieces take 1 ns, and is no faster on others.
        """
        vector, done = f"<{lanes} x {element}>", 0
        while done < count:
            length = 1 << (count - done).bit_length() - 1
            place = self.at(pointer, element, done)
            if length == 1:
                piece, kind = self.let(f"extractelement {vector} {value}, i32 {done}"), element
            else:
                piece, kind = self.shuffle(vector, value, "poison", range(done, done + length)), f"<{length} x {element}>"
            self.do(f"store {kind} {piece}, ptr {place}, align {align}")
            done += length

    def gather(self, pointer: str, indices: Typed, count: Count = None, element: str = "", filler: str = "zeroinitializer") -> str:
        """The elements at `indices` from `pointer` on."""
        element = element or self.scalar
        vector, places = f"<{self.lanes} x {element}>", self.let(f"getelementptr {element}, ptr {pointer}, {indices[0]} {indices[1]}")
        return self.call(vector, f"@llvm.masked.gather.{self.suffix(0, element)}.v{self.lanes}p0", (f"<{self.lanes} x ptr>", places),
                         ("i32", BYTES[element]), self.mask(count), (vector, filler))

    # -- lanes

    def splat(self, element: str, value: Value, lanes: int = 0) -> str:
        """The scalar in every lane."""
        if isinstance(value, int) or value[0] != "%":
            return f"splat ({element} {value})"
        lanes = lanes or self.lanes
        first = self.let(f"insertelement <{lanes} x {element}> poison, {element} {value}, i32 0")
        return self.let(f"shufflevector <{lanes} x {element}> {first}, <{lanes} x {element}> poison, <{lanes} x i32> zeroinitializer")

    def broadcast(self, pointer: str) -> str:
        """The element at `pointer`, in every lane."""
        return self.splat(self.scalar, self.let(f"load {self.scalar}, ptr {pointer}, align {self.bytes}"))

    def shuffle(self, type: str, a: str, b: str, order: Sequence[int]) -> str:
        """Lanes selected from two vectors of `type`; indices of `b`'s lanes follow those of `a`; -1 is an undefined lane."""
        lanes = f"<{', '.join([f'i32 {lane}' if lane >= 0 else 'i32 poison' for lane in order])}>" if any(order) else "zeroinitializer"
        return self.let(f"shufflevector {type} {a}, {type} {b}, <{len(order)} x i32> {lanes}")

    # -- arithmetic

    def multiply_add(self, a: str, b: str, c: str) -> str:
        """`a b + c`, fused (rounded once) if the target has FMA."""
        if self.target.fma:
            return self.call(self.vector, f"@llvm.fma.{self.suffix()}", (self.vector, a), (self.vector, b), (self.vector, c))
        return self.fadd(self.let(f"fmul {self.vector} {a}, {b}"), c)

    def fadd(self, a: str, b: str) -> str:
        return self.let(f"fadd {self.vector} {a}, {b}")

    def strides(self, stride: int | str, count: int) -> Strides:
        """Multiples of a stride, up to `count` of them. A known stride counts elements, a register counts bytes."""
        if isinstance(stride, int):
            return Strides(self, stride, {})
        odd = {1: stride}
        for times in range(3, min(count, _NEAR), 2):
            odd[times] = self.add(odd[times - 2], self.shl(stride, 1))
        return Strides(self, stride, odd)
