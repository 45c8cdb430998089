"""Base of the writers of fused kernels: memory of the values, scopes of known names, and the computation of values, one a thread."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from adjit.codegen.cuda.kernel import Launch, Pointer
from adjit.codegen.cuda.target import MAX_LOAD_BYTES
from adjit.codegen.cuda.text import KernelText
from adjit.codegen.native.kernels.builder import Index
from adjit.codegen.native.kernels.plan import is_slice
from adjit.codegen.native.kernels.positions import Term, scalar_index, weighted
from adjit.codegen.native.kernels.scalar_templates import QUOTIENTS_BY_NUMBER, template
from adjit.ir.analysis.iteration_space import row_starts, split_at_rows, split_map
from adjit.ir.analysis.kernel_schedule import KernelSchedule
from adjit.ir.dataclass import dataclass
from adjit.ir.graph import Op, Value
from adjit.ir.memory_sizes import aligned
from adjit.ir.ops.traits import SAME_ELEMENTS
from adjit.ir.types import is_complex, short_name

Element = int | None
"""Number of an element of this thread; None: a number that all threads of a team share."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the operands and results of a fused op: results that lie in the memory of an operand, and the bytes of which each address
    is known to be a multiple."""

    shared: Mapping[int, int]
    operands: Sequence[int]
    results: Sequence[int]

    @property
    def alignment(self) -> int:
        """Bytes of which every address is a multiple."""
        return math.gcd(MAX_LOAD_BYTES, *self.operands, *self.results)


class KernelWriter:
    """Writer of one kernel of a fused op. `blocks` is the number of blocks that leave partial sums."""

    def __init__(self, schedule: KernelSchedule, memory: Memory, threads: int, vector: int, blocks: int):
        self.s, self.memory, self.vector, self.blocks = schedule, memory, vector, blocks
        self.flat = schedule.columns == 1
        self.text = KernelText(threads)
        self.scopes: list[dict[Hashable, str]] = [{}]
        self.row: Index = 0
        self.starts: list[Index] = []           # the first element of each vector of this thread, in its row
        self.row_starts: list[Index] = []       # the same, among all positions
        self.pointers: dict[Value, str] = {}
        self.results: dict[Value, str] = {}
        self.constants: set[str] = set()        # pointers to memory that the launch does not write
        self.arguments: list[Pointer] = []
        self.numbers: list[int] = []

    # -- parameters

    def bind(self, partials: str) -> None:
        """Declare the parameters; the kernel reads or writes the partial sums."""
        s = self.s
        taken = {operand: result for result, operand in self.memory.shared.items()}     # one pointer for both
        read = {value for op in s.region.ops for value in op.operands} | set(s.region.results)
        for index, value in enumerate(s.region.params):
            if index in taken:
                pointer = self.text.pointer("update")
                self.arguments.append(Pointer("result", taken[index], value.type.nbytes))
            elif value in read:
                pointer = self.text.pointer("read")
                self.constants.add(pointer)
                self.arguments.append(Pointer("operand", index, value.type.nbytes))
            else:
                continue
            self.pointers[value] = pointer
        for index, value in enumerate(s.region.results):
            if index in self.memory.shared:
                self.results.setdefault(value, self.pointers[s.region.params[self.memory.shared[index]]])
            elif value not in self.results:
                self.results[value] = self.text.pointer("write")
                self.arguments.append(Pointer("result", index, value.type.nbytes))
        start = 0
        for value in s.partials:
            self.pointers[value] = self.text.pointer("read" if partials == "read" else "write")
            self.arguments.append(Pointer("scratch", start, self.blocks * value.type.nbytes))
            start += aligned(self.blocks * value.type.nbytes)
        assert start <= s.scratch_bytes

    def launch(self, label: str, grid: int) -> Launch:
        return Launch(self.text.kernel(label), grid, tuple(self.arguments), tuple(self.numbers))

    def number(self, value: int) -> str:
        """A number that the launch passes: equal kernels of all sizes are one piece of code."""
        self.numbers.append(value)
        return self.text.number()

    # -- scopes of known names

    def find(self, key: Hashable) -> str | None:
        for scope in reversed(self.scopes):
            if key in scope:
                return scope[key]
        return None

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        yield
        self.scopes.pop()

    # -- values

    def is_element(self, value: Value) -> bool:
        """True if each position has a value of its own."""
        return self.s.level[value] == ("row" if self.flat else "element")

    def need(self, value: Value, at: Element = None) -> str:
        """The name of a value, computed here unless known."""
        at = at if self.is_element(value) else None
        name = self.find((value, at))
        if name is None:
            name = self.scopes[-1][value, at] = self.compute(value, at)
        return name

    def compute(self, value: Value, at: Element) -> str:
        op = self.s.producer.get(value)
        if op is None or is_slice(op):
            return self.leaf(value, at)
        if op.name == "constant":
            return self.text.literal(op.attrs["value"], value.type.dtype)
        if op.name == "iota":
            return self.iota(op, at)
        if op.name in SAME_ELEMENTS:
            return self.need(op.operands[0], at)
        names = [self.need(operand, at) for operand in op.operands]
        inverse = self.find((op.operands[-1], "inverse")) if op.name in QUOTIENTS_BY_NUMBER else None
        if inverse is not None:
            kind, zero = (short_name(value.type.dtype),) * 4, str(self.find((op.operands[-1], "zero")))
            return self.text.instantiate(template(f"{op.name}_by_number", kind, "", 1, self.text.target), (*names, inverse, zero))
        return self.text.apply(op, names, 1)

    def define(self, level: str, stage: int = -1) -> None:
        """Compute the numbers of a level that are known before `stage`; all of them if it is negative."""
        for op in self.s.region.ops:
            value = op.result
            if self.s.level[value] == level and value not in self.s.scope and (stage < 0 or self.s.stage.get(value, 0) == stage):
                self.need(value)

    # -- elements in memory

    def load(self, pointer: str, dtype: np.dtype, index: Index, width: int = 1, align: int = 0) -> list[str]:
        return self.text.read(pointer, dtype, index, width, align, pointer in self.constants)

    def leaf(self, value: Value, at: Element) -> str:
        s, dtype, extent = self.s, value.type.dtype, self.s.extent(value)
        op = s.producer.get(value)
        if op is not None:
            return self.load(self.pointers[op.operands[0]], dtype, self.slice_element(op, at))[0]
        pointer = self.pointers[value]
        if at is None:
            index = 0 if extent == "scalar" else self.row if extent == "row" else self.digits(value, None)
            return self.load(pointer, dtype, index)[0]
        if extent == "other":
            return self.load(pointer, dtype, self.digits(value, at))[0]
        group, lane = divmod(at, self.vector)
        start = self.starts[group] if extent == "column" or self.flat else self.row_starts[group]
        names = self.load(pointer, dtype, start, self.vector, self.width_alignment(dtype))
        for other, name in enumerate(names):
            self.scopes[-1][value, group * self.vector + other] = name
        return names[lane]

    def slice_element(self, op: Op, at: Element) -> Index:
        """The place of an element of a slice, in the array that it is taken from."""
        first, terms = row_starts(op, self.s.columns)
        if self.flat:
            return self.text.plus(scalar_index(self.text, self.element(at), terms, self.s.rows), first)
        key = (op.result, "start")
        start = self.find(key)
        if start is None:
            start = self.scopes[-1][key] = str(self.text.plus(scalar_index(self.text, self.row, terms, self.s.rows), first))
        return self.text.plus(start, self.element(at))

    def width_alignment(self, dtype: np.dtype) -> int:
        """Bytes of which the address of a vector of elements is a multiple."""
        return math.gcd(dtype.itemsize * self.vector, self.memory.alignment) if self.vector > 1 or is_complex(dtype) else 0

    def element(self, at: Element) -> Index:
        """The position of an element in its row."""
        assert at is not None
        group, lane = divmod(at, self.vector)
        return self.text.plus(self.starts[group], lane)

    def digits(self, value: Value, at: Element) -> Index:
        """The place of the element of a value for a position, from digits of the position."""
        return self.weighted_digits(weighted(split_at_rows(self.s.maps[value], self.s.columns) or self.s.maps[value]), at)

    def weighted_digits(self, terms: Sequence[Term], at: Element) -> Index:
        s, text = self.s, self.text
        total: Index = 0
        for size, stride, weight in terms:
            if self.flat:
                position, step, whole = self.element(at), stride, s.rows
            elif stride % s.columns == 0:
                position, step, whole = self.row, stride // s.columns, s.rows
            elif s.columns % (size * stride) == 0:
                position, step, whole = self.element(at), stride, s.columns
            else:
                position, step, whole = text.plus(text.times(self.row, s.columns), self.element(at)), stride, s.rows * s.columns
            total = text.plus(total, scalar_index(text, position, [(size, step, weight)], whole))
        return total

    def iota(self, op: Op, at: Element) -> str:
        dtype = op.result.type.dtype
        parts = split_map(self.s.maps[op.result], op.result.type.shape)
        size, stride = parts[op.attrs["axis"]] if parts else (1, 0)
        if size == 1:
            return self.text.literal(0, dtype)
        name = str(self.weighted_digits([(size, stride, 1)], at))
        return self.text.instantiate(template("convert", ("u64",), short_name(dtype), 1, self.text.target), (name,))

    # -- reductions

    def neutral(self, op: Op) -> str:
        dtype = op.result.type.dtype
        assert op.definition.identity is not None
        return self.text.literal(dtype.type(op.definition.identity(dtype)).item(), dtype)

    def combined(self, op: Op, a: str, b: str) -> str:
        return self.text.apply(op, (a, b), 1)

    def tree(self, op: Op, names: Sequence[str]) -> str:
        """Values of one thread combined: short chains."""
        names = list(names)
        while len(names) > 1:
            pairs = [self.combined(op, *pair) for pair in zip(names[::2], names[1::2], strict=False)]
            names = pairs + names[2 * len(pairs):]
        return names[0]
