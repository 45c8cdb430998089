"""Text of kernels on matrices: a block of threads works on a matrix of a stack, with numbers that have the operators of Python."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import FLAT_THREADS, WARP
from adjit.codegen.cuda.text import Combine, KernelText
from adjit.codegen.native.kernels.builder import Index
from adjit.ir.graph import Op
from adjit.ir.types import is_complex, real_dtype


class MatrixText(KernelText):
    """Text of a kernel on the last two axes of the operands; results, and `work` bytes of working memory, are written and read."""

    def __init__(self, op: Op, threads: int = FLAT_THREADS, work: int = 0, dtype: np.dtype | None = None):
        super().__init__(threads)
        self.op, self.number_dtype = op, dtype or op.operands[0].type.dtype
        self.is_complex = is_complex(self.number_dtype)
        self.real = real_dtype(self.number_dtype)
        self.type, self.part = self.element(self.number_dtype), self.element(self.real)
        self.given = [self.pointer("read") for _ in op.operands]
        self.made = [self.pointer("update") for _ in op.results]
        self.work_bytes, self.work = work, self.pointer("update") if work else ""
        self.zero = "zeroinitializer" if self.is_complex else self.literal(0, self.number_dtype)
        self.count, self.thread_number = self.number(), ""

    def get(self, pointer: str, index: Index) -> str:
        return self.read(pointer, self.number_dtype, index)[0]

    def put(self, value: str, pointer: str, index: Index) -> None:
        self.write([value], pointer, self.number_dtype, index)

    def of_parts(self, real: str) -> str:
        """A real number as an element."""
        if not self.is_complex:
            return real
        return self.let(f"insertelement {self.type} zeroinitializer, {self.part} {real}, i32 0")

    def twice(self, real: str) -> str:
        """A real number in each part of an element."""
        if not self.is_complex:
            return real
        return self.let(f"insertelement {self.type} {self.of_parts(real)}, {self.part} {real}, i32 1")

    def real_part(self, value: str) -> str:
        return self.let(f"extractelement {self.type} {value}, i32 0") if self.is_complex else value

    def size_of(self, value: str) -> str:
        """The size by which LAPACK compares elements: the sum of the sizes of the parts."""
        name = f"@llvm.fabs.f{8 * self.real.itemsize}"
        if not self.is_complex:
            return self.call(self.part, name, (self.part, value))
        parts = [self.call(self.part, name, (self.part, self.let(f"extractelement {self.type} {value}, i32 {part}"))) for part in range(2)]
        return self.let(f"fadd {self.part} {parts[0]}, {parts[1]}")

    def conjugated(self, value: str) -> str:
        if not self.is_complex:
            return value
        imaginary = self.let(f"fneg {self.part} {self.let(f'extractelement {self.type} {value}, i32 1')}")
        return self.let(f"insertelement {self.type} {value}, {self.part} {imaginary}, i32 1")

    def less_product(self, value: str, a: str, b: str) -> str:
        return self.applied("subtract", self.number_dtype, value, self.applied("multiply", self.number_dtype, a, b))

    @contextmanager
    def shared_out(self, thread: str, count: Index, first: Index = 0) -> Iterator[str]:
        """Numbers from `first` up to `count`, dealt to the threads of the block; a barrier at the end."""
        with self.for_range(self.plus(thread, first), count, self.threads, empty=True) as loop:
            yield loop.counter
        self.barrier()

    def launched(self, label: str, grid: int, count: int) -> list[Launch]:
        op = self.op
        pointers = [*(Pointer("operand", number, value.type.nbytes) for number, value in enumerate(op.operands)),
                    *(Pointer("result", number, value.type.nbytes) for number, value in enumerate(op.results)),
                    *([Pointer("work", 0, self.work_bytes)] if self.work else [])]
        return [Launch(self.kernel(label), grid, tuple(pointers), (count,))]

    def divided(self, number: str, by: int) -> tuple[str, str]:
        """Quotient and remainder."""
        return self.let(f"udiv i64 {number}, {by}"), self.let(f"urem i64 {number}, {by}")

    def fill_with_nan(self, thread: str, bad: str, block: str) -> None:
        """NaN in all results of the block's matrix, if `bad` holds."""
        with self.where(bad):
            for pointer, value in zip(self.made, self.op.results, strict=True):
                dtype, size = value.type.dtype, value.type.size // math.prod(self.op.operands[0].type.shape[:-2])
                nan = self.literal(math.nan, self.real)
                with self.shared_out(thread, size) as number:
                    self.write([self.twice(nan) if dtype == self.number_dtype else nan], pointer, dtype,
                               self.plus(self.times(block, size), number))

    # -- numbers

    def of(self, name: str) -> Number:
        """An element as a number to compute with."""
        return Number(self, name, self.is_complex)

    def real_of(self, value: str | float) -> Number:
        """A real number, known by its name or its value."""
        return Number(self, value if isinstance(value, str) else self.literal(value, self.real), False)

    def sum_of_block(self, thread: str, count: Index, term: Callable[[str], Number], first: Index = 0) -> Number:
        """The sum of real numbers from `first` up to `count`, in all threads of the block: own ones in order, then those of the threads."""
        def add(a: str, b: str) -> str:
            return self.let(f"fadd {self.part} {a}, {b}")

        return self._of_block(thread, count, term, first, add, 0.0)

    def largest_of_block(self, thread: str, count: Index, term: Callable[[str], Number]) -> Number:
        """The largest of numbers that are not negative; NaN counts as none."""
        def larger(a: str, b: str) -> str:
            return self.select(self.let(f"fcmp ogt {self.part} {b}, {a}"), self.part, b, a)

        return self._of_block(thread, count, term, 0, larger, 0.0)

    def _of_block(self, thread: str, count: Index, term: Callable[[str], Number], first: Index, combine: Combine, start: float) -> Number:
        carried = [(self.part, self.literal(start, self.real))]
        with self.for_range(self.plus(thread, first), count, self.threads, carried, empty=True) as loop:
            loop.following = [combine(loop.values[0], term(loop.counter).name)]
        name = self.over_lanes(combine, loop.values[0], self.real, WARP)
        name = self.over_warps(combine, name, self.real, thread)
        self.barrier()
        return self.real_of(name)

    def power_of_two(self, value: Number) -> Number:
        """The power of two that a positive number is at least as large as; 1 for 0, and for what is not finite or not normal."""
        bits, integer = (0x7F800000, "i32") if self.real.itemsize == 4 else (0x7FF0000000000000, "i64")
        whole = self.let(f"and {integer} {self.convert('bitcast', self.part, value.name, integer)}, {bits}")
        usable = self.both(self.compare("ne", whole, 0, integer), self.compare("ne", whole, bits, integer))
        return self.real_of(self.select(usable, self.part, self.convert("bitcast", integer, whole, self.part), self.literal(1, self.real)))


class Number:
    """A real or complex number of a kernel, by the name of its value, with the arithmetic of NumPy; each operation is rounded by itself."""

    __slots__ = ("is_complex", "name", "text")

    def __init__(self, text: MatrixText, name: str, is_complex: bool):
        self.text, self.name, self.is_complex = text, name, is_complex

    def _with(self, code: str, other: Number | float) -> Number:
        text = self.text
        other = other if isinstance(other, Number) else text.real_of(other)
        if not self.is_complex and not other.is_complex:
            return text.real_of(text.let(f"f{code[:3]} {text.part} {self.name}, {other.name}"))
        if code in ("multiply", "divide") and not other.is_complex:
            return text.of(text.let(f"f{code[:3]} {text.type} {self.name}, {text.twice(other.name)}"))
        if code == "multiply" and not self.is_complex:
            return other * self
        a, b = (number.name if number.is_complex else text.of_parts(number.name) for number in (self, other))
        return text.of(text.applied(code, text.number_dtype, a, b))

    def __add__(self, other: Number | float) -> Number:
        return self._with("add", other)

    def __sub__(self, other: Number | float) -> Number:
        return self._with("subtract", other)

    def __mul__(self, other: Number | float) -> Number:
        return self._with("multiply", other)

    def __truediv__(self, other: Number | float) -> Number:
        return self._with("divide", other)

    def __neg__(self) -> Number:
        type = self.text.type if self.is_complex else self.text.part
        return Number(self.text, self.text.let(f"fneg {type} {self.name}"), self.is_complex)

    def conjugate(self) -> Number:
        return self.text.of(self.text.conjugated(self.name)) if self.is_complex else self

    @property
    def real(self) -> Number:
        return self._part(0)

    @property
    def imag(self) -> Number:
        return self._part(1)

    def _part(self, number: int) -> Number:
        if not self.is_complex:
            return self if number == 0 else self.text.real_of(0.0)
        return self.text.real_of(self.text.let(f"extractelement {self.text.type} {self.name}, i32 {number}"))

    def square(self) -> Number:
        """The square of the absolute value."""
        return self.real * self.real + self.imag * self.imag if self.is_complex else self * self

    def sqrt(self) -> Number:
        return self.text.real_of(self.text.applied("sqrt", self.text.real, self.name))

    def __abs__(self) -> Number:
        """The absolute value; of a complex number without squares that vanish."""
        if self.is_complex:
            a, b = abs(self.real), abs(self.imag)
            is_real = a.over(b)
            large, small = a.where(is_real, b), b.where(is_real, a)
            ratio = small / large.where(large.over(0.0), 1.0)
            return large * (ratio * ratio + 1.0).sqrt()
        return self.text.real_of(self.text.call(self.text.part, f"@llvm.fabs.f{8 * self.text.real.itemsize}", (self.text.part, self.name)))

    def over(self, other: Number | float) -> str:
        """True if it is larger; real numbers alone."""
        return self._compared("ogt", other)

    def is_zero(self) -> str:
        return self._compared("oeq", 0.0)

    def _compared(self, how: str, other: Number | float) -> str:
        name = other.name if isinstance(other, Number) else self.text.literal(other, self.text.real)
        return self.text.let(f"fcmp {how} {self.text.part} {self.name}, {name}")

    def where(self, condition: str, other: Number | float) -> Number:
        """This number if the condition holds, else the other one, which is of the same kind."""
        if not isinstance(other, Number):
            other = self.text.of(self.text.zero) if self.is_complex else self.text.real_of(other)
        type = self.text.type if self.is_complex else self.text.part
        return Number(self.text, self.text.select(condition, type, self.name, other.name), self.is_complex)

    def with_sign_of(self, other: Number) -> Number:
        """The absolute value with the sign of another real number; + for 0 and -0."""
        return abs(self).where(other._compared("oge", 0.0), -abs(self))


class Matrix:
    """A matrix in memory: the number of its first element, and the steps from row to row and from column to column; `conjugated` if the
    memory holds conjugates."""

    def __init__(self, text: MatrixText, pointer: str, base: Index, row: int, column: int, conjugated: bool = False, turned: int = 0):
        self.text, self.pointer, self.base, self.row, self.column, self.conjugated = text, pointer, base, row, column, conjugated
        self.turned = turned                # the size of a square matrix whose rows and columns are counted from the end, else 0

    def place(self, i: Index, j: Index) -> Index:
        text = self.text
        if self.turned:
            i, j = text.sub(self.turned - 1, i), text.sub(self.turned - 1, j)
        return text.plus(self.base, text.plus(text.times(i, self.row), text.times(j, self.column)))

    def get(self, i: Index, j: Index) -> Number:
        value = self.text.of(self.text.get(self.pointer, self.place(i, j)))
        return value.conjugate() if self.conjugated else value

    def put(self, i: Index, j: Index, value: Number) -> None:
        text = self.text
        value = value.conjugate() if self.conjugated else value
        text.put(value.name if value.is_complex == text.is_complex else text.of_parts(value.name), self.pointer, self.place(i, j))
