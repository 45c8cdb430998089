"""Base of all kernel writers: memory of the values, scopes of known names, and the computation of vectors of values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from adjit.codegen.llvm.builder import Typed
from adjit.codegen.llvm.target import Target
from adjit.codegen.native.kernels.builder import Index, KernelBuilder
from adjit.codegen.native.kernels.plan import LoopPlan, Walk, is_slice
from adjit.codegen.native.kernels.positions import Axis, Term, lane_pattern, scalar_index, vector_index, weighted
from adjit.codegen.native.kernels.scalar_templates import QUOTIENTS_BY_NUMBER, template
from adjit.ir.analysis.iteration_space import row_starts, split_at_rows, split_map
from adjit.ir.analysis.kernel_schedule import KernelSchedule
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value
from adjit.ir.ops.traits import SAME_ELEMENTS
from adjit.ir.types import U32, U64, short_name

SLOW_DIVISION_VECTOR_BYTES = 64
"""Vector size, in bytes, for which division is so slow that it dominates a loop."""
MIN_VECTORS_FOR_INVERSE = 4
"""Vectors of a loop from which divisions by a number become products with its inverse, which itself costs one division."""

Accumulators = dict[Value, list[str]]
"""Partial sums of reductions in registers, by the reduction's result."""


@dataclass(frozen=True, slots=True)
class Position:
    """A vector's first element, `counter + offset`. `count` limits its lanes: the first `count` ones, or those of a mask."""

    counter: Index
    offset: int
    count: int | str | None = None


class KernelWriter:
    """Writer of one step of a kernel."""

    def __init__(self, schedule: KernelSchedule, shared: Mapping[int, int], target: Target, lanes: int):
        self.s = schedule
        self.flat = schedule.columns == 1
        self.text = KernelBuilder(target, lanes)
        self.lanes = lanes
        self.period = 1                          # divisor of all counters of positions
        self.row: Index = 0
        self.block: Index = 0
        self.scopes: list[dict[Hashable, str]] = [{}]
        self.pointers: dict[Value, str] = {}
        self.results: dict[Value, str] = {}
        self.load_arguments(shared)

    def load_arguments(self, shared: Mapping[int, int]) -> None:
        s, text = self.s, self.text
        count = len(s.region.params)

        def place(number: int) -> str:
            return text.load("ptr", text.at("%places", "ptr", number) if number else "%places")

        operands = [place(number) for number in range(count)]
        self.pointers.update(zip(s.region.params, operands, strict=True))
        for index, value in enumerate(s.region.results):
            self.results[value] = operands[shared[index]] if index in shared else place(count + index)
        if s.scratch:
            scratch = place(count + len(s.region.results))
            for value, offset in s.scratch.items():
                self.pointers[value] = text.at(scratch, 1, offset) if offset else scratch
        for value in s.cached:
            self.pointers.setdefault(value, self.results.get(value, ""))

    # -- classification of values

    def is_vector(self, value: Value) -> bool:
        return self.s.level[value] == ("row" if self.flat else "element")

    def is_loaded(self, value: Value) -> bool:
        """True if a computed value is loaded from memory here."""
        return False

    def plan(self, stored: Iterable[Value], reductions: Iterable[Op]) -> LoopPlan:
        return Walk(self.s, self.is_vector, self.is_loaded, self.lanes, self.text.target).plan(stored, reductions)

    # -- scopes of known names

    def find(self, key: Hashable) -> str | None:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    @contextmanager
    def scope(self, names: dict[Hashable, str] | None = None) -> Iterator[None]:
        self.scopes.append({} if names is None else names)
        yield
        self.scopes.pop()

    # -- numbers

    def scalar(self, value: Value) -> str:
        """The name of a number, computed here unless known."""
        key = (value, "scalar")
        name = self.find(key)
        if name is None:
            name = self.scopes[-1][key] = self.compute_scalar(value)
        return name

    def compute_scalar(self, value: Value) -> str:
        text, op = self.text, self.s.producer.get(value)
        if op is None:
            return text.load_element(text.at(self.pointers[value], text.cell(value.type.dtype), self.scalar_position(value)),
                                     value.type.dtype)
        if op.name == "constant":
            return text.literal(op.attrs["value"], value.type.dtype)
        if op.name == "iota":
            return self.converted(str(self.scalar_digits(self.iota_terms(op))), "u64", value, 1)
        names = [self.scalar(operand) for operand in op.operands]
        return names[0] if op.name in SAME_ELEMENTS else text.apply(op, names, 1)

    def converted(self, name: str, source: str, value: Value, width: int) -> str:
        target = short_name(value.type.dtype)
        return self.text.instantiate(template("convert", (source,), target, width, self.text.target), (name,))

    def scalar_position(self, value: Value) -> Index:
        """The flat index of a parameter's element for the current row."""
        place = self.s.extent(value)
        if place in ("scalar", "row"):
            return 0 if place == "scalar" else self.row
        return self.scalar_digits(weighted(split_at_rows(self.s.maps[value], self.s.columns) or self.s.maps[value]))

    def scalar_digits(self, terms: Sequence[Term]) -> Index:
        columns = self.s.columns
        return scalar_index(self.text, self.row, [(size, stride // columns, weight) for size, stride, weight in terms], self.s.rows)

    def iota_terms(self, op: Op) -> list[Term]:
        parts = split_map(self.s.maps[op.result], op.result.type.shape)
        if parts is None or parts[op.attrs["axis"]][0] == 1:
            return []
        size, stride = parts[op.attrs["axis"]]
        return [(size, stride, 1)]

    # -- vectors

    def vector(self, value: Value, position: Position) -> str:
        """The name of a vector. All its operands are known."""
        key = (value, "vector")
        name = self.find(key)
        if name is None:
            name = self.scopes[-1][key] = self.compute_vector(value, position)
        return name

    def compute_vector(self, value: Value, position: Position) -> str:
        op = self.s.producer.get(value)
        if not self.is_vector(value):
            return self.text.splat(self.text.element(value.type.dtype), self.scalar(value))
        if op is not None and op.name == "iota":
            return self.iota(op, position)
        if op is None or is_slice(op) or self.is_loaded(value):
            return self.load_leaf(value, position)
        names = [self.vector(operand, position) for operand in op.operands]
        if op.name in SAME_ELEMENTS:
            return names[0]
        known = (op.name, value.type.dtype, *names)
        result = self.find(known)
        if result is None:
            result = self.scopes[-1][known] = self.divide_by_inverse(op, names) or self.text.apply(op, names, self.lanes)
        return result

    def divide_by_inverse(self, op: Op, names: list[str]) -> str | None:
        """The quotient by a number whose inverse `prepare_inverse` has computed; None if there is no inverse."""
        inverse = self.find((op.operands[-1], "inverse")) if op.name in QUOTIENTS_BY_NUMBER else None
        if inverse is None:
            return None
        type, divisor = short_name(op.result.type.dtype), op.operands[1]
        return self.text.instantiate(template(f"{op.name}_by_number", (type,) * 4, "", self.lanes, self.text.target),
                                (names[0], names[1], inverse, str(self.find((divisor, "zero")))))

    def prepare_inverse(self, op: Op) -> None:
        """Compute the inverse of a number that divides many vectors. A number that is very small, very large or negative gets NaN as its
        inverse."""
        text, divisor = self.text, op.operands[1]
        if self.find((divisor, "inverse")) is not None:
            return
        dtype = divisor.type.dtype
        type, known = text.element(dtype), text.exact_inverse(self.scalar(divisor), dtype)
        self.scopes[-1][divisor, "inverse"] = text.splat(type, known)
        self.scopes[-1][divisor, "zero"] = text.splat(type, text.let(f"fmul {type} {known}, {text.literal(0, dtype)}"))

    def compute(self, plan: LoopPlan, position: Position) -> dict[Value, tuple[str, ...]]:
        """The sinks of a loop at this position, and the factors of products that are only summed. All values are read before any is
        written."""
        for value in plan.leaves:
            self.vector(value, position)
        for op in plan.ops:
            self.vector(op.result, position)
        names: dict[Value, tuple[str, ...]] = {sink: (self.vector(sink, position),) for sink in plan.sinks}
        factors: dict[Value, tuple[str, ...]] = {
            value: (self.vector(op.operands[0], position), self.vector(op.operands[-1], position))
            for value, op in plan.products.items()}
        return names | factors

    def prepare(self, plan: LoopPlan, length: int) -> None:
        """Code before a loop over `length` elements: splats of the numbers that the loop needs as vectors, and inverses of divisors."""
        self.splat_numbers(plan.uniforms)
        divisions = [op for op in plan.ops if op.name in QUOTIENTS_BY_NUMBER]
        slow = self.text.target.vector_bytes == SLOW_DIVISION_VECTOR_BYTES
        if slow and length >= MIN_VECTORS_FOR_INVERSE * self.lanes:
            for op in divisions:
                if not self.is_vector(op.operands[1]):
                    self.prepare_inverse(op)

    def splat_numbers(self, values: Iterable[Value]) -> None:
        for value in values:
            if self.find((value, "vector")) is None:
                self.scopes[-1][value, "vector"] = self.text.splat(self.text.element(value.type.dtype), self.scalar(value))

    def address(self, pointer: str, dtype: np.dtype, position: Position) -> str:
        """The address of the element at the position, relative to `pointer`. Equal addresses are computed once."""
        key = ("address", pointer, position.counter, dtype.itemsize)
        base = self.find(key)
        if base is None:
            base = self.scopes[max(len(self.scopes) - 2, 0)][key] = self.text.at(pointer, self.text.cell(dtype), position.counter)
        return self.text.at(base, self.text.cell(dtype), position.offset)

    def row_pointer(self, pointer: str, dtype: np.dtype) -> str:
        """The address of the current row in an array with one element per position."""
        key = ("row", pointer, self.row, dtype.itemsize)
        name = self.find(key)
        if name is None:
            name = self.scopes[-1][key] = self.text.at(pointer, self.text.cell(dtype), self.text.times(self.row, self.s.columns))
        return name

    def slice_pointer(self, op: Op) -> str:
        """The address of the current row of a slice, in the array that it is taken from."""
        key = ("slice", op.result, self.row)
        name = self.find(key)
        if name is None:
            first, terms = row_starts(op, self.s.columns)
            place = self.text.plus(scalar_index(self.text, self.row, terms, self.s.rows), first)
            name = self.scopes[-1][key] = self.text.at(self.pointers[op.operands[0]], self.text.cell(op.result.type.dtype), place)
        return name

    def block_pointer(self, value: Value) -> str:
        """The address of the current block's row in an array with one row per block."""
        key = ("block", value)
        name = self.find(key)
        if name is None:
            offset = self.text.times(self.block, self.s.columns)
            name = self.scopes[-1][key] = self.text.at(self.pointers[value], self.text.cell(value.type.dtype), offset)
        return name

    def leaf_pointer(self, value: Value) -> str | None:
        """Base address of the value's vectors; None if they need index arithmetic."""
        op, place = self.s.producer.get(value), self.s.extent(value)
        if op is not None and is_slice(op):
            return self.slice_pointer(op)
        if place == "column" or (self.flat and place == "row"):
            return self.pointers[value]
        return self.row_pointer(self.pointers[value], value.type.dtype) if place == "full" else None

    def load_leaf(self, value: Value, position: Position) -> str:
        pointer, dtype = self.leaf_pointer(value), value.type.dtype
        if pointer is not None:
            return self.text.load_elements(self.address(pointer, dtype, position), dtype, position.count)
        return self.load_digits(value, position)

    # -- vectors of elements at computed indices

    def vector_terms(self, terms: Sequence[Term], position: Position) -> tuple[Axis, Index, list[Term], Index]:
        """The axis that the terms run along, the vector's position on the axis, the terms that depend on it, and the sum of the other
        terms."""
        s, text = self.s, self.text
        start = text.plus(position.counter, position.offset)
        if self.flat:
            return Axis(s.rows), start, list(terms), 0
        of_row = [term for term in terms if term[1] % s.columns == 0]
        of_column = [term for term in terms if s.columns % (term[0] * term[1]) == 0]
        if len(of_row) + len(of_column) == len(terms):
            return Axis(s.columns), start, of_column, self.scalar_digits(of_row)
        whole = text.plus(text.times(self.row, s.columns), start)
        return Axis(s.rows * s.columns, s.columns % self.lanes == 0), whole, list(terms), 0

    def load_digits(self, value: Value, position: Position) -> str:
        text, dtype = self.text, value.type.dtype
        parts = split_at_rows(self.s.maps[value], self.s.columns) or self.s.maps[value]
        axis, start, terms, base = self.vector_terms(weighted(parts), position)
        pointer = text.at(self.pointers[value], text.cell(dtype), base)
        if self.flat or isinstance(start, int):
            counter, offset = (start, 0) if isinstance(start, int) else (position.counter, position.offset)
            count = position.count if isinstance(position.count, int) else self.lanes
            known = lane_pattern(text, counter, offset, count, terms, axis.whole, self.period)
            if known is not None:
                return text.load_pattern(text.at(pointer, text.cell(dtype), known[0]), dtype, known[1], position.count)
        if axis.is_run(terms, self.lanes):
            return text.load_elements(text.at(pointer, text.cell(dtype), scalar_index(text, start, terms, axis.whole)), dtype,
                                      position.count)
        if axis.is_one(terms, self.lanes):
            one = text.load_element(text.at(pointer, text.cell(dtype), scalar_index(text, start, terms, axis.whole)), dtype)
            return text.splat(text.element(dtype), one)
        return text.gather_elements(pointer, dtype, vector_index(text, start, terms, axis.whole), position.count)

    def iota(self, op: Op, position: Position) -> str:
        terms = self.iota_terms(op)
        axis, start, terms, base = self.vector_terms(terms, position)
        if not terms:
            return self.text.splat(self.text.element(op.result.type.dtype), self.converted(str(base), "u64", op.result, 1))
        type, indices = vector_index(self.text, start, terms, axis.whole)
        return self.converted(indices, short_name(U32 if "i32" in type else U64), op.result, self.lanes)

    # -- reductions

    def neutral(self, op: Op) -> bool | int | float:
        """Initial value of a reduction. For a sum it is 0.0, so that no sum is -0.0, as in NumPy."""
        dtype = op.result.type.dtype
        assert op.definition.identity is not None
        number: bool | int | float = dtype.type(op.definition.identity(dtype)).item()
        return number

    def start(self, op: Op, copies: int, width: int | None = None) -> list[str]:
        return [self.text.literal(self.neutral(op), op.result.type.dtype, width or self.lanes)] * copies

    def step(self, op: Op, accumulator: str, elements: Sequence[str], position: Position) -> str:
        """The accumulator after one more vector, or after the product of two vectors. Inactive lanes add nothing."""
        combine_accumulators = self.combined(op, accumulator, elements)
        if position.count is None:
            return combine_accumulators
        type, mask = self.text.element(op.result.type.dtype, self.lanes), self.text.mask(position.count)
        return self.text.let(f"select {mask[0]} {mask[1]}, {type} {combine_accumulators}, {type} {accumulator}")

    def combined(self, op: Op, accumulator: str, elements: Sequence[str]) -> str:
        """The accumulator after one more vector, or after the product of two vectors, which is fused with the addition."""
        if len(elements) == 1:
            return self.text.apply(op, (accumulator, *elements), self.lanes)
        name, types = f"sum_with_{self.s.producer[op.operands[0]].name}", (short_name(op.result.type.dtype),) * 3
        return self.text.instantiate(template(name, types, "", self.lanes, self.text.target), (accumulator, *elements))

    def total(self, op: Op, accumulators: Sequence[str]) -> str:
        """All lanes of all accumulators combined into one number, as a tree."""
        return self.text.combine_lanes(op, self.combine_accumulators(op, accumulators))

    def combine_accumulators(self, op: Op, accumulators: Sequence[str]) -> str:
        """All accumulators combined into one, as a tree."""
        names = list(accumulators)
        while len(names) > 1:
            pairs = [self.text.apply(op, pair, self.lanes) for pair in zip(names[::2], names[1::2], strict=False)]
            names = pairs + names[2 * len(pairs):]
        return names[0]

    def carried(self, accumulators: Accumulators, widths: Mapping[Value, int] | None = None) -> list[Typed]:
        width = widths or {}
        return [(self.text.element(value.type.dtype, width.get(value, self.lanes)), name)
                for value, names in accumulators.items() for name in names]

    def rebound(self, accumulators: Accumulators, names: Sequence[str]) -> Accumulators:
        """The same accumulators under the names of a loop's values."""
        rest = iter(names)
        return {value: [next(rest) for _ in old] for value, old in accumulators.items()}

    def vectors(self, length: int, first: int = 0) -> list[Position]:
        """Positions of the vectors of `length` elements, from element `first` on."""
        return [Position(first, offset, None if length - offset >= self.lanes else length - offset)
                for offset in range(0, length, self.lanes)]
