"""Builder of a step that calls LAPACK and BLAS for each matrix of a stack (`codegen/llvm/external.py`).

LAPACK's matrices lie column by column: to it, a row-major matrix is transposed. Working memory is scratch memory of the thread; its size
follows from LAPACK's formulas, with room for blocks of `BLOCK` columns, and is never asked for at run time. Stacks are divided
among tasks, matrix by matrix, and LAPACK itself runs on one thread.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from adjit.codegen.llvm.blas_threads import one_thread_functions
from adjit.codegen.llvm.builder import Value
from adjit.codegen.llvm.external import BLAS_STATE, external_symbol
from adjit.codegen.llvm.module import Definition
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.arrays.strided_copy import Axis, Move, write_move
from adjit.codegen.native.program_code import StepCode
from adjit.codegen.native.step_builder import StepBuilder, element_bits, element_type, literal, split_iterations
from adjit.ir.graph import Op
from adjit.ir.ops.matrices import BLAS, LAPACK
from adjit.ir.types import is_complex, real_dtype

_OF_COMPLEX = {"orgqr": "ungqr", "orghr": "unghr", "syevd": "heevd"}
"""Names of routines for complex matrices, by those for real ones, without the letter of the dtype."""

BLOCK = 64
"""Columns of a block for which routines get working memory; OpenBLAS and reference LAPACK use 32 or 64."""

OPERATIONS_PER_NS, NS_PER_MATRIX = 10.0, 500.0
"""Estimated speed of LAPACK, and time of the calls for one small matrix."""


class LapackStep(StepBuilder):
    """A builder of the step of `op`, which does `operations` floating-point operations for each matrix."""

    def __init__(self, op: Op, target: Target, operations: float, ns_per_matrix: float = NS_PER_MATRIX):
        super().__init__(target)
        self.op = op
        self.stack = op.operands[0].type.shape[:-2]
        dtype = op.operands[0].type.dtype
        self.is_complex = is_complex(dtype)
        self.precision = real_dtype(dtype)
        self.parts_each = 2 if self.is_complex else 1
        self.size, self.real_size, self.real = dtype.itemsize, self.precision.itemsize, element_type(self.precision)
        operations *= 4 if self.is_complex else 1
        self.work = math.prod(self.stack) * (operations / OPERATIONS_PER_NS * self.real_size / 8 + ns_per_matrix)
        self.one = literal(1.0, self.precision)
        self.split_of_stack = split_iterations((math.prod(self.stack),), self.work)

    @contextmanager
    def each_matrix(self) -> Iterator[list[str]]:
        """The body of the step. Yields pointers to the current matrix of each operand, then of each result."""
        values = (*self.op.operands, *self.op.results)
        self.shared.update(one_thread_functions())
        self._declarations.add(f"declare void @{BLAS_STATE}()")
        with self.step():
            bases = [self.place(number) for number in range(len(values))]
            self.call("void", "@adjit_blas_begin")
            for _, task in self.parts([self.split_of_stack.tasks]):
                with self.iterations(task, (math.prod(self.stack),), self.split_of_stack) as (index,):
                    yield [self.at(base, value.type.nbytes // max(math.prod(self.stack), 1), index)
                           for base, value in zip(bases, values, strict=True)]
            self.call("void", "@adjit_blas_end")

    def finished(self) -> tuple[StepCode, ...]:
        """The step; none if the stack is empty."""
        return (self.code(self.split_of_stack.tasks, self.work),) if math.prod(self.stack) else ()

    # -- calls

    def lapack(self, name: str, *arguments: int | float | str) -> None:
        """Call a routine, by its name without the letter of the dtype. Arguments are integers, letters, numbers, or pointers (`%...`).
        Names of routines for real matrices stand for those for complex ones."""
        self._routine(LAPACK, _OF_COMPLEX.get(name, name) if self.is_complex else name, arguments)

    def blas(self, name: str, *arguments: int | float | str) -> None:
        self._routine(BLAS, name, arguments)

    def _routine(self, module: str, name: str, arguments: Sequence[int | float | str]) -> None:
        passed = [("ptr", self._pointer(argument)) for argument in arguments]
        letter = ("cz" if self.is_complex else "sd")[self.real_size == 8]
        self.call("void", external_symbol(module, letter + name, "void", ["ptr"] * len(passed)), *passed)

    def _pointer(self, argument: int | float | str) -> str:
        """The address of an argument; letters and numbers are constants."""
        if isinstance(argument, str) and argument[0] == "%":
            return argument
        if isinstance(argument, float):
            kind, value = self.real, f"0x{element_bits(argument, np.dtype(np.float64)):016X}"
            if self.is_complex:
                name = f"adjit_complex_{kind}_{value}"
                self.shared[name] = Definition(name, f"@{name} = internal constant {{{kind}, {kind}}} {{{kind} {value}, {kind} 0.0}}")
                return self.use(f"@{name}")
        else:
            kind, value = ("i8", str(ord(argument))) if isinstance(argument, str) else ("i32", str(argument))
        name = f"adjit_{kind}_{value}"
        self.shared[name] = Definition(name, f"@{name} = internal constant {kind} {value}")
        return self.use(f"@{name}")

    @property
    def adjoint(self) -> str:
        """The letter for the conjugate transpose."""
        return "C" if self.is_complex else "T"

    def finite_sum(self, numbers: str, count: int) -> str:
        """True if the sum of the absolute values is finite."""
        passed = [("ptr", self._pointer(count)), ("ptr", numbers), ("ptr", self._pointer(1))]
        letters = (("sc", "dz") if self.is_complex else ("s", "d"))[self.real_size == 8]
        name = external_symbol(BLAS, letters + "asum", self.real, ["ptr"] * 3)
        return self.let(f"fcmp olt {self.real} {self.call(self.real, name, *passed)}, {literal(math.inf, self.precision)}")

    def numbers(self, count: int, size: int = 0) -> str:
        """Scratch memory for `count` elements of the dtype, or of `size` bytes."""
        return self.scratch(max(count, 1) * (size or self.size))

    def reals(self, count: int) -> str:
        """Scratch memory for `count` reals."""
        return self.numbers(count, self.real_size)

    @contextmanager
    def unless_failed(self, info: str, *results: tuple[str, int]) -> Iterator[None]:
        """The block that runs if `info` is 0; else results, each a pointer and a number of reals, become NaN."""
        failed = self.compare("ne", self.load("i32", info), 0, "i32")
        with self.if_(failed):
            for pointer, count in results:
                write_move(self, Move(self.real_size, (Axis(count, 0, 1),), bits=element_bits(math.nan, self.precision)), "", pointer)
        with self.if_(self.not_(failed)):
            yield

    # -- matrices

    def turn(self, source: str, to: str, rows: int, columns: int, source_columns: int = 0, to_rows: int = 0) -> None:
        """Copy a matrix of rows and columns, of which `source` has `source_columns` a row, column by column, `to_rows` a column."""
        source_columns, to_rows = source_columns or columns, to_rows or rows
        parts = self.parts_each
        axes = Axis(columns, parts, parts * to_rows), Axis(rows, parts * source_columns, parts)
        write_move(self, Move(self.real_size, (*axes, Axis(2, 1, 1)) if self.is_complex else axes), source, to)

    def zero(self, pointer: str, count: Value) -> None:
        """Set `count` elements to zero."""
        self.zero_bytes(pointer, self.mul(count, self.size))

    def zero_bytes(self, pointer: str, count: Value) -> None:
        self.call("void", "@llvm.memset.p0.i64", ("ptr", pointer), ("i8", 0), ("i64", count), ("i1", "false"))

    def integers_at(self, source: str, to: str, count: int, add: int, widen: bool) -> None:
        """Copy 32-bit integers to 64-bit ones, or back, with a number added."""
        given, made = ("i32", "i64") if widen else ("i64", "i32")
        with self.for_range(0, count) as loop:
            value = self.load(given, self.at(source, given, loop.counter))
            changed = self.convert("sext" if widen else "trunc", given, value, made)
            self.store(made, self.let(f"add {made} {changed}, {add}"), self.at(to, made, loop.counter))
