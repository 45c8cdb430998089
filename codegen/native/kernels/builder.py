"""LLVM text of kernels: vectors of every dtype, full and partly filled; loops and branches with carried values; inlined functions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from adjit.codegen.llvm.builder import Typed
from adjit.codegen.llvm.builder import Value as BuilderValue
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.llvm.vectors import Count, VectorBuilder
from adjit.codegen.native.kernels.scalar_templates import BLOCK, MIN_EXACT_QUOTIENT, NUMBER, OPERANDS, Template, template_of
from adjit.codegen.vector_math.llvm_printer import element_literal, llvm_type
from adjit.ir.graph import Op
from adjit.ir.lazy_module import LazyModule
from adjit.ir.types import is_complex, is_half, real_dtype, short_name

if TYPE_CHECKING:
    from adjit.codegen.vector_math import half
else:
    half = LazyModule("adjit.codegen.vector_math.half")

Index = str | int
"""A number of elements: a value or a known number."""


class KernelBuilder(VectorBuilder):
    """Builder of one step, with vectors of `lanes` elements for every dtype. `shared`: functions and tables that the text refers to."""

    def __init__(self, target: Target, lanes: int) -> None:
        super().__init__(target, lanes=lanes)
        self.shared: dict[str, Definition] = {}

    # -- types and numbers

    def element(self, dtype: np.dtype, width: int = 1) -> str:
        """The LLVM type of values in registers: i1 for bool. A complex number is two lanes."""
        if is_complex(dtype):
            return f"<{2 * width} x {llvm_type(short_name(real_dtype(dtype)))}>"
        scalar = "i16" if is_half(dtype) else llvm_type(short_name(dtype))
        return scalar if width == 1 else f"<{width} x {scalar}>"

    def cell(self, dtype: np.dtype, width: int = 1) -> str:
        """The LLVM type of values in memory: i8 for bool."""
        return self.element(np.dtype(np.uint8) if dtype == np.bool_ else dtype, width)

    def literal(self, number: bool | int | float, dtype: np.dtype, width: int = 1) -> str:
        text = str(half.number_bits(number, dtype)) if is_half(dtype) else element_literal(dtype.type(number).item(), short_name(dtype))
        return text if width == 1 else f"splat ({self.element(dtype)} {text})"

    # -- memory

    def load_element(self, pointer: str, dtype: np.dtype) -> str:
        return self._loaded(self.load(self.cell(dtype), pointer, align=real_dtype(dtype).itemsize), dtype, 1)

    def store_element(self, value: str, pointer: str, dtype: np.dtype) -> None:
        self.store(self.cell(dtype), self._stored(value, dtype, 1), pointer, align=real_dtype(dtype).itemsize)

    def load_elements(self, pointer: str, dtype: np.dtype, count: Count = None) -> str:
        """Load a vector of elements. With `count`, only the first `count` are read, and the other lanes are 1, which is harmless to every
        function."""
        filler = "" if count is None else self._harmless(dtype)
        if is_complex(dtype):
            part = self.element(real_dtype(dtype))
            return self.load_vector(pointer, self._of_parts(count), part, lanes=2 * self.lanes, filler=filler)
        return self._loaded(self.load_vector(pointer, count, self.cell(dtype), filler=filler), dtype, self.lanes)

    def store_elements(self, value: str, pointer: str, dtype: np.dtype, count: Count = None) -> None:
        if is_complex(dtype):
            self.store_vector(value, pointer, self._of_parts(count), self.element(real_dtype(dtype)), lanes=2 * self.lanes)
        else:
            self.store_vector(self._stored(value, dtype, self.lanes), pointer, count, self.cell(dtype))

    def _of_parts(self, count: Count) -> Count:
        """Active lanes of the parts of complex numbers."""
        if isinstance(count, str):
            return self.shuffle(f"<{self.lanes} x i1>", count, "poison", [lane // 2 for lane in range(2 * self.lanes)])
        return None if count is None else 2 * count

    def splat(self, element: str, value: BuilderValue, lanes: int = 0) -> str:
        """The scalar in every lane; of a complex number, its parts in turn."""
        if not element.startswith("<"):
            return super().splat(element, value, lanes)
        return self.shuffle(element, str(value), "poison", [0, 1] * (lanes or self.lanes))

    def gather_elements(self, pointer: str, dtype: np.dtype, indices: Typed, count: Count = None) -> str:
        """The elements at `indices`."""
        if is_complex(dtype):
            part, type = self.element(real_dtype(dtype)), indices[0]
            twice = self.let(f"shl {type} {indices[1]}, splat ({type.split()[-1][:-1]} 1)")
            real, imag = (self.gather(place, (type, twice), count, part, self._harmless(real_dtype(dtype)))
                          for place in (pointer, self.at(pointer, part, 1)))
            lanes = [lane // 2 + (lane % 2) * self.lanes for lane in range(2 * self.lanes)]
            return self.shuffle(self.element(real_dtype(dtype), self.lanes), real, imag, lanes)
        return self._loaded(self.gather(pointer, indices, count, self.cell(dtype), self._harmless(dtype)), dtype, self.lanes)

    def load_pattern(self, pointer: str, dtype: np.dtype, pattern: Sequence[int], count: int | str | None = None) -> str:
        """The elements at the known offsets `pattern`."""
        most = max(pattern)
        if most == 0:
            return self.splat(self.element(dtype), self.load_element(pointer, dtype))
        if list(pattern) == list(range(len(pattern))):
            return self.load_elements(pointer, dtype, count)
        if most >= self.lanes:
            places = [*pattern, *[0] * (self.lanes - len(pattern))]
            integer = "i32" if most < 1 << 31 else "i64"
            indices = f"<{', '.join(f'{integer} {place}' for place in places)}>"
            return self.gather_elements(pointer, dtype, (f"<{self.lanes} x {integer}>", indices), count)
        run = self.load_elements(pointer, dtype, None if most == self.lanes - 1 else most + 1)
        type, lanes = self.element(dtype, self.lanes), [*pattern, *[0] * (self.lanes - len(pattern))]
        if is_complex(dtype):
            lanes = [2 * lane + part for lane in lanes for part in (0, 1)]
        return self.shuffle(type, run, "poison", lanes)

    def _harmless(self, dtype: np.dtype) -> str:
        if is_complex(dtype):
            return self.literal(1, real_dtype(dtype), 2 * self.lanes)
        return "splat (i8 1)" if dtype == np.bool_ else self.literal(1, dtype, self.lanes)

    def _loaded(self, name: str, dtype: np.dtype, width: int) -> str:
        if dtype != np.bool_:
            return name
        cells = self.cell(dtype, width)
        return self.let(f"icmp ne {cells} {name}, {'0' if width == 1 else 'zeroinitializer'}")

    def _stored(self, value: str, dtype: np.dtype, width: int) -> str:
        return self.let(f"zext {self.element(dtype, width)} {value} to {self.cell(dtype, width)}") if dtype == np.bool_ else value

    # -- functions

    def apply(self, op: Op, operands: Sequence[str], width: int) -> str:
        """The result of an elementwise op, or of one step of a reduction."""
        return self.instantiate(template_of(op, width, self.target, not operands[-1].startswith("%")), operands)

    def instantiate(self, template: Template, operands: Sequence[str]) -> str:
        text, result, number = template.text, template.result, str(self.fresh())
        for mark, operand in zip(OPERANDS, operands, strict=False):
            text, result = text.replace(mark, operand), result.replace(mark, operand)
        if text:
            self.lines.append(text.replace(NUMBER, number).replace(BLOCK, self.block))
        if template.last_block:
            self.block = template.last_block.replace(NUMBER, number)
        self._declarations |= template.declarations
        if template.shared:
            self.shared.update(template.shared)
            self.uses.update([f"@{name}" for name in template.shared])
        return result.replace(NUMBER, number)

    def exact_inverse(self, divisor: str, dtype: np.dtype) -> str:
        """The inverse of a number, with which `quotient_by_number` divides; NaN if the number is very small, very large or negative."""
        type, least = self.element(dtype), MIN_EXACT_QUOTIENT[dtype.itemsize * 8] ** 2
        large = self.let(f"fcmp oge {type} {divisor}, {self.literal(least, dtype)}")
        small = self.let(f"fcmp ole {type} {divisor}, {self.literal(1 / least, dtype)}")
        inverse = self.let(f"fdiv {type} {self.literal(1, dtype)}, {divisor}")
        return self.let(f"select i1 {self.both(large, small)}, {type} {inverse}, {type} {self.literal(math.nan, dtype)}")

    def combine_lanes(self, op: Op, vector: str) -> str:
        """All lanes combined into one, by halves."""
        dtype = op.result.type.dtype
        type, lanes = self.element(dtype, self.lanes), self.lanes
        half = lanes // 2
        while half:
            upper = self.shuffle(type, vector, "poison", [*range(half, 2 * half), *[-1] * (lanes - half)])
            vector = self.apply(op, (vector, upper), lanes)
            half //= 2
        return self.let(f"extractelement {type} {vector}, i64 0")
