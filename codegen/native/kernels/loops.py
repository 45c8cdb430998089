"""Loops of kernels with reductions; long float sums are summed in blocks (`codegen/llvm/compensated_sums.py`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from adjit.codegen.llvm.compensated_sums import BLOCK_ADDITIONS, MAX_UNCOMPENSATED_BLOCKS, add_block, compensated_total
from adjit.codegen.native.kernels.builder import Index
from adjit.codegen.native.kernels.writer import Accumulators, KernelWriter
from adjit.ir.graph import Value
from adjit.ir.types import is_float

COLUMN_BLOCK_ROWS = 128
"""Rows of a block if only columns are summed: NumPy adds all rows one after the other."""

Iteration = Callable[[Index, Accumulators], None]
"""Body of a loop for one counter; the body replaces the names of the accumulators."""


class LoopWriter(KernelWriter):
    """Writer of loops with accumulators."""

    def repeat(self, start: Index, stop: Index, step: int, accumulators: Accumulators, iteration: Iteration, times: int, *, each: int = 1,
               widths: Mapping[Value, int] | None = None, empty: bool = False) -> Accumulators:
        """Loop over counters from `start` up to `stop`, in blocks if the sums are long. There are at most `times` iterations, and each adds
        `each` times to an accumulator. Returns the accumulators after the loop."""
        text, s = self.text, self.s
        sums = [value for value in accumulators if s.producer[value].name == "reduce_sum" and is_float(value.type.dtype)]
        most = BLOCK_ADDITIONS if any(s.scope[value] != "columns" for value in sums) else COLUMN_BLOCK_ROWS
        block_length = max(most // each, 1)
        if not sums or times <= block_length:
            return self.carry(start, stop, step, accumulators, iteration, widths, empty)
        types = {value: text.element(value.type.dtype, (widths or {}).get(value, self.lanes)) for value in sums}
        zeros = {value: text.literal(0.0, value.type.dtype, (widths or {}).get(value, self.lanes)) for value in sums}
        begin = {value: [zero] * len(accumulators[value]) for value, zero in zeros.items()}
        others = {value: names for value, names in accumulators.items() if value not in begin}
        each_has = 1 if times <= block_length * MAX_UNCOMPENSATED_BLOCKS else 2       # a total, and a compensation term for many blocks
        parts = {value: len(names) if s.scope[value] == "columns" else 1 for value, names in begin.items()}
        carried = [(types[value], zeros[value]) for value in sums for _ in range(each_has * parts[value])]
        with text.for_range(start, stop, step * block_length, [*carried, *self.carried(others, widths)], empty) as loop, self.scope():
            end = text.smaller(str(text.plus(loop.counter, step * block_length)), stop)
            inside = self.rebound(others, loop.values[len(carried):]) | begin
            inside = self.carry(loop.counter, end, step, inside, iteration, widths)
            before, loop.following = iter(loop.values), []
            for value in sums:
                for part in self.parts_of(value, inside[value]):
                    total = [next(before) for _ in range(each_has)]
                    loop.following += add_block(text, types[value], *total, part)
            loop.following += [name for value in others for name in inside[value]]
        last, found = iter(loop.values), dict(accumulators)
        for value in sums:
            totals = [compensated_total(text, types[value], *(next(last) for _ in range(each_has))) for _ in range(parts[value])]
            names = [b if a == zeros[value] else text.let(f"fadd {types[value]} {a}, {b}")
                     for a, b in zip(accumulators[value], totals, strict=False)]
            found[value] = names + accumulators[value][len(names):]
        return found | self.rebound(others, loop.values[len(carried):])

    def parts_of(self, value: Value, names: list[str]) -> list[str]:
        """The partial sums that a block adds: one vector for all accumulators, except for sums of columns, which stay separate."""
        return names if self.s.scope[value] == "columns" else [self.combine_accumulators(self.s.producer[value], names)]

    def carry(self, start: Index, stop: Index, step: int, accumulators: Accumulators, iteration: Iteration,
              widths: Mapping[Value, int] | None = None, empty: bool = False) -> Accumulators:
        """Loop over counters from `start` up to `stop`. Returns the accumulators after the loop."""
        with self.text.for_range(start, stop, step, self.carried(accumulators, widths), empty) as loop, self.scope():
            inside = self.rebound(accumulators, loop.values)
            iteration(loop.counter, inside)
            loop.following = [name for names in inside.values() for name in names]
        return self.rebound(accumulators, loop.values)
