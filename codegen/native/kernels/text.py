"""LLVM text of kernels: vectors of every dtype, whole and partly filled; loops and branches that carry values; functions put in place."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from adjit.codegen.llvm_text import LLVMText, Loop, Typed
from adjit.codegen.native.kernels.scalar_templates import BLOCK, NUMBER, OPERANDS, Template, template_of
from adjit.codegen.native.step_code import SIGNATURE
from adjit.codegen.target import Target
from adjit.codegen.vector_math.llvm_printer import element_literal, llvm_type
from adjit.ir.graph import Op
from adjit.ir.types import short_name

Index = str | int
"""A number of elements, as a name or known."""


class KernelText(LLVMText):
    """The body of one step, with vectors of `lanes` elements, whatever their dtype. `shared`: what the text calls and reads."""

    def __init__(self, target: Target, lanes: int) -> None:
        super().__init__()
        self.target, self.lanes = target, lanes
        self.shared: dict[str, str] = {}
        self.block = "entry"

    def body(self, name: str, attributes: str = "nounwind") -> str:
        """All that was written, as the function of a step."""
        return "\n".join([f"define internal i64 @{name}({SIGNATURE}) {attributes} {{", "entry:", *self._lines, "  ret i64 0", "}"])

    def lines_as_function(self, parameters: str) -> str:
        """All that was written, as a function without a name."""
        return "\n".join([f"({parameters}) noinline nounwind {{", "entry:", *self._lines, "  ret void", "}"])

    def clear(self) -> None:
        """Begin another function."""
        self._lines, self.block = [], "entry"

    # -- types and numbers

    def element(self, dtype: np.dtype, width: int = 1) -> str:
        """The type of values: i1 for bool."""
        scalar = llvm_type(short_name(dtype))
        return scalar if width == 1 else f"<{width} x {scalar}>"

    def cell(self, dtype: np.dtype, width: int = 1) -> str:
        """The type in memory: i8 for bool."""
        return self.element(np.dtype(np.uint8) if dtype == np.bool_ else dtype, width)

    def literal(self, number: bool | int | float, dtype: np.dtype, width: int = 1) -> str:
        text = element_literal(dtype.type(number).item(), short_name(dtype))
        return text if width == 1 else f"splat ({self.element(dtype)} {text})"

    def mask(self, count: int | str) -> Typed:
        """The first `count` lanes; a name is a mask already."""
        if isinstance(count, str):
            return f"<{self.lanes} x i1>", count
        return f"<{self.lanes} x i1>", f"<{', '.join(f'i1 {int(lane < count)}' for lane in range(self.lanes))}>"

    # -- index arithmetic

    def add(self, a: Index, b: Index) -> Index:
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if b == 0:
            return a
        return b if a == 0 else self.let(f"add nsw i64 {a}, {b}")

    def multiply(self, a: Index, factor: int) -> Index:
        if isinstance(a, int):
            return a * factor
        return a if factor == 1 else self.let(f"mul nsw i64 {a}, {factor}")

    def at(self, pointer: str, dtype: np.dtype, index: Index) -> str:
        """The address `index` elements behind `pointer`."""
        return pointer if index == 0 else self.let(f"getelementptr {self.cell(dtype)}, ptr {pointer}, i64 {index}")

    # -- memory

    def load(self, pointer: str, dtype: np.dtype) -> str:
        return self._loaded(self.let(f"load {self.cell(dtype)}, ptr {pointer}, align {dtype.itemsize}"), dtype, 1)

    def store(self, value: str, pointer: str, dtype: np.dtype) -> None:
        self.do(f"store {self.cell(dtype)} {self._stored(value, dtype, 1)}, ptr {pointer}, align {dtype.itemsize}")

    def load_vector(self, pointer: str, dtype: np.dtype, count: int | str | None = None) -> str:
        """The next elements; of the first `count` only, the others being 1, which is harmless to every function."""
        vector = self.cell(dtype, self.lanes)
        if count is None:
            name = self.let(f"load {vector}, ptr {pointer}, align {dtype.itemsize}")
        else:
            name = self.call(vector, f"llvm.masked.load.{self._suffix(dtype)}.p0", ("ptr", pointer), ("i32", str(dtype.itemsize)),
                             self.mask(count), (vector, self._harmless(dtype)))
        return self._loaded(name, dtype, self.lanes)

    def store_vector(self, value: str, pointer: str, dtype: np.dtype, count: int | str | None = None) -> None:
        vector, value = self.cell(dtype, self.lanes), self._stored(value, dtype, self.lanes)
        if count is None:
            self.do(f"store {vector} {value}, ptr {pointer}, align {dtype.itemsize}")
        elif isinstance(count, int) and not self.target.avx512:
            self.store_first(value, self.cell(dtype), self.lanes, pointer, count, dtype.itemsize)
        else:
            self.call("void", f"llvm.masked.store.{self._suffix(dtype)}.p0", (vector, value), ("ptr", pointer),
                      ("i32", str(dtype.itemsize)), self.mask(count))

    def prefetch(self, pointer: str, bytes_ahead: int, write: bool) -> None:
        """Have what lies there brought nearer; it may lie outside of all memory."""
        place = self.let(f"getelementptr i8, ptr {pointer}, i64 {bytes_ahead}")
        self.call("void", "llvm.prefetch.p0", ("ptr", place), ("i32", str(int(write))), ("i32", "3"), ("i32", "1"))

    def gather(self, pointer: str, dtype: np.dtype, indices: Typed, count: int | str | None = None) -> str:
        """The elements at these positions."""
        vector, pointers = self.cell(dtype, self.lanes), f"<{self.lanes} x ptr>"
        places = self.let(f"getelementptr {self.cell(dtype)}, ptr {pointer}, {indices[0]} {indices[1]}")
        name = self.call(vector, f"llvm.masked.gather.{self._suffix(dtype)}.v{self.lanes}p0", (pointers, places),
                         ("i32", str(dtype.itemsize)), self.mask(self.lanes if count is None else count), (vector, self._harmless(dtype)))
        return self._loaded(name, dtype, self.lanes)

    def load_pattern(self, pointer: str, dtype: np.dtype, pattern: Sequence[int], count: int | str | None = None) -> str:
        """The elements at these known distances."""
        most = max(pattern)
        if most == 0:
            return self.splat(self.load(pointer, dtype), self.element(dtype))
        if list(pattern) == list(range(len(pattern))):
            return self.load_vector(pointer, dtype, count)
        if most >= self.lanes:
            places = [*pattern, *[0] * (self.lanes - len(pattern))]
            integer = "i32" if most < 1 << 31 else "i64"
            indices = f"<{', '.join(f'{integer} {place}' for place in places)}>"
            return self.gather(pointer, dtype, (f"<{self.lanes} x {integer}>", indices), count)
        run = self.load_vector(pointer, dtype, None if most == self.lanes - 1 else most + 1)
        type = self.element(dtype, self.lanes)
        order = ", ".join(f"i32 {place}" for place in [*pattern, *[0] * (self.lanes - len(pattern))])
        return self.let(f"shufflevector {type} {run}, {type} poison, <{self.lanes} x i32> <{order}>")

    def splat(self, value: str, type: str) -> str:
        """The scalar in every lane."""
        if not value.startswith("%"):
            return f"splat ({type} {value})"
        vector = f"<{self.lanes} x {type}>"
        first = self.let(f"insertelement {vector} poison, {type} {value}, i64 0")
        return self.let(f"shufflevector {vector} {first}, {vector} poison, <{self.lanes} x i32> zeroinitializer")

    def _harmless(self, dtype: np.dtype) -> str:
        return "splat (i8 1)" if dtype == np.bool_ else self.literal(1, dtype, self.lanes)

    def _suffix(self, dtype: np.dtype) -> str:
        return f"v{self.lanes}{short_name(dtype) if dtype.kind == 'f' else self.cell(dtype)}"

    def _loaded(self, name: str, dtype: np.dtype, width: int) -> str:
        if dtype != np.bool_:
            return name
        cells = self.cell(dtype, width)
        return self.let(f"icmp ne {cells} {name}, {'0' if width == 1 else 'zeroinitializer'}")

    def _stored(self, value: str, dtype: np.dtype, width: int) -> str:
        return self.let(f"zext {self.element(dtype, width)} {value} to {self.cell(dtype, width)}") if dtype == np.bool_ else value

    # -- functions

    def apply(self, op: Op, operands: Sequence[str], width: int) -> str:
        """What an elementwise op, or one step of a reduction, makes of these."""
        return self.put_in(template_of(op, width, self.target), operands)

    def put_in(self, template: Template, operands: Sequence[str]) -> str:
        text, result, number = template.text, template.result, str(self.fresh())
        for mark, operand in zip(OPERANDS, operands, strict=False):
            text, result = text.replace(mark, operand), result.replace(mark, operand)
        if text:
            self._lines.append(text.replace(NUMBER, number).replace(BLOCK, self.block))
        if template.last_block:
            self.block = template.last_block.replace(NUMBER, number)
        self._declarations |= template.declarations
        self.shared.update(template.shared)
        return result.replace(NUMBER, number)

    def combine_lanes(self, op: Op, vector: str) -> str:
        """All lanes in one, by halves."""
        dtype = op.result.type.dtype
        type, lanes = self.element(dtype, self.lanes), self.lanes
        half = lanes // 2
        while half:
            order = ", ".join(f"i32 {lane}" for lane in range(half, 2 * half)) + ", i32 poison" * (lanes - half)
            upper = self.let(f"shufflevector {type} {vector}, {type} poison, <{lanes} x i32> <{order}>")
            vector = self.apply(op, (vector, upper), lanes)
            half //= 2
        return self.let(f"extractelement {type} {vector}, i64 0")

    # -- control flow

    def label(self, name: str) -> None:
        super().label(name)
        self.block = name

    @contextmanager
    def loop(self, start: Index, stop: Index, step: Index = 1, carried: Sequence[Typed] = (), empty: bool = False,
             exact: bool = False) -> Iterator[Loop]:
        """As `LLVMText.loop`, but that `empty` loops carry too; afterwards `values` are the last."""
        if empty:
            runs = self.let(f"icmp slt i64 {start}, {stop}")
            with self.branch(runs, carried) as chosen, self.loop(start, stop, step, carried, exact=exact) as loop:
                yield loop
                chosen.following = loop.following
            loop.values = chosen.values
        else:
            with super().loop(start, stop, step, carried, exact=exact) as loop:
                yield loop
            loop.values = tuple(loop.following)

    @contextmanager
    def branch(self, condition: str, carried: Sequence[Typed] = ()) -> Iterator[Loop]:
        """What is written inside is done where the condition holds; the carried values are those that it sets, else the given ones."""
        number, before = self.fresh(), self.block
        chosen = Loop("", tuple(first for _, first in carried))
        self.do(f"br i1 {condition}, label %then{number}, label %join{number}")
        self.label(f"then{number}")
        yield chosen
        inside = self.block
        self.do(f"br label %join{number}")
        self.label(f"join{number}")
        chosen.values = tuple(
            [self.let(f"phi {type} [{first}, %{before}], [{following}, %{inside}]")
             for (type, first), following in zip(carried, chosen.following, strict=True)])
