"""Kernels read slices where they lie: a slice that only kernels read is never written."""

from __future__ import annotations

import math
from dataclasses import replace
from operator import is_

from adjit.ir.analysis.aliases import alias_offset, concatenation_offsets
from adjit.ir.analysis.iteration_space import contiguous_run, infer_maps, map_extent
from adjit.ir.analysis.kernel_schedule import KernelRule, schedule_kernel
from adjit.ir.graph import Graph, Op, Value, last_uses, needed_ops, producers, readers
from adjit.ir.ops.traits import FREE_IN_KERNELS
from adjit.passes.options import Options

MIN_SLICE_BYTES = 512
"""Bytes of a slice from which a kernel reads it where it lies: kernels of smaller values share their code, whatever they read."""

MIN_RUN_BYTES = 16
"""Bytes that lie together in a slice. Rows of 3 elements or of 1000: a stencil of five slices takes a third of the time of copies."""


def absorb_slices(graph: Graph, options: Options) -> Graph:
    """Give kernels the arrays of which they read slices, and have them take the slices.

    A kernel of one column gets rows as long as what lies together. An array that would be kept for a slice of less than half of it is not
    taken, unless it is kept anyway.

    Before:
        graph @f(%u: f64[34,40]) {
          %0: f64[32,32] = slice %u {start=(0, 4), step=(1, 1), stop=(32, 36)}
          %1: f64[32,32] = slice %u {start=(2, 4), step=(1, 1), stop=(34, 36)}
          %2: f64[32,32] = fused %0, %1 {columns=1, in_place=(0, 1), rows=1024, scratch_bytes=0} [
            graph @add_1(%0: f64[32,32], %1: f64[32,32]) {
              %2: f64[32,32] = add %0, %1
              return %2
            }
          ]
          return %2
        }

    After:
        graph @f(%u: f64[34,40]) {
          %0: f64[32,32] = fused %u {columns=32, in_place=(), rows=32, scratch_bytes=0} [
            graph @add_1(%u: f64[34,40]) {
              %1: f64[32,32] = slice %u {start=(0, 4), step=(1, 1), stop=(32, 36)}
              %2: f64[32,32] = slice %u {start=(2, 4), step=(1, 1), stop=(34, 36)}
              %3: f64[32,32] = add %1, %2
              return %3
            }
          ]
          return %0
        }
    """
    if not options.only_kernels or not any(op.name == "slice" for op in graph.ops):
        return graph
    absorber = _Absorber(graph, options.kernels)
    ops = [absorber.absorbed(index, op) if op.name == "fused" else op for index, op in enumerate(graph.ops)]
    return graph if all(map(is_, ops, graph.ops)) else graph.with_ops(needed_ops(ops, graph.results))


class _Absorber:
    """What is known of a graph: who makes and who reads each value, and which values share memory."""

    def __init__(self, graph: Graph, rule: KernelRule):
        self.rule = rule
        self.producer, self.readers, self.last = producers(graph), readers(graph.ops), last_uses(graph)
        self.results = set(graph.results)
        self.fixed = {value for value, role in zip(graph.params, graph.param_roles, strict=True) if role == "input"}
        self.memory: dict[Value, Value] = {}
        for op in graph.ops:
            if alias_offset(op) is not None or concatenation_offsets(op) is not None:
                for value in map(self.memory_of, op.operands):
                    if value is not self.memory_of(op.result):
                        self.memory[value] = self.memory_of(op.result)

    def memory_of(self, value: Value) -> Value:
        """The value that stands for all that may lie in one memory with `value`."""
        while value in self.memory:
            value = self.memory[value]
        return value

    def absorbed(self, index: int, op: Op) -> Op:
        """A kernel that takes what slices it can; the same object if there are none."""
        (region,), rows, columns = op.regions, op.attrs["rows"], op.attrs["columns"]
        found = {number: made for number, value in enumerate(op.operands) if (made := self.producer.get(value)) is not None
                 and self.may_absorb(made, index) and value.type.size == rows * columns}
        if columns == 1 and found:
            columns = math.gcd(*map(contiguous_run, found.values()))
            if columns * min(made.result.type.dtype.itemsize for made in found.values()) < MIN_RUN_BYTES:
                return op
        found = {number: made for number, made in found.items() if contiguous_run(made) % columns == 0}
        if not found:
            return op
        rows = rows * op.attrs["columns"] // columns
        taken, params, slices = {}, [], []
        for number, (value, param) in enumerate(zip(op.operands, region.params, strict=True)):
            base = found[number].operands[0] if number in found else value
            key = (base, number in found) if number in found else (base, number)
            if key not in taken:
                taken[key] = Value(base.type, base.name) if number in found else param
                params.append(key[0])
            if number in found:
                slices.append(found[number].with_operands((taken[key],), (param,)))
        kernel = Graph(region.name, tuple(taken.values()), (*slices, *region.ops), region.results)
        if any(extent not in ("full", "scalar") for extent in _extents(kernel, rows, columns)) and columns != op.attrs["columns"]:
            return op
        schedule = schedule_kernel(kernel, rows, columns, self.rule)
        bases = {self.memory_of(made.operands[0]) for made in found.values()}
        in_place = tuple(number for number in schedule.in_place
                         if self.memory_of(params[number]) not in bases and params.count(params[number]) == 1)
        attrs = {"rows": rows, "columns": columns, "in_place": in_place, "scratch_bytes": schedule.scratch_bytes}
        return replace(op, operands=tuple(params), attrs=attrs, regions=(kernel,))

    def may_absorb(self, op: Op, index: int) -> bool:
        """True if the kernel at `index` may read a slice where it lies. What is sliced should not wait for that in memory, nor be copied
        before it is written over."""
        if op.name != "slice" or alias_offset(op) is not None or op.result.type.nbytes < MIN_SLICE_BYTES:
            return False
        if op.result in self.results or any(reader.name != "fused" for reader in self.readers[op.result]):
            return False        # it is written anyway
        (base,) = op.operands
        return base in self.fixed or self.last[base] >= index or (
            2 * op.result.type.size >= base.type.size and all(reader.name == "slice" for reader in self.readers[base]))


def _extents(kernel: Graph, rows: int, columns: int) -> list[str]:
    """Extents of what a kernel computes."""
    maps = infer_maps(kernel, rows * columns, rows)
    return [map_extent(maps[op.result], rows, columns) for op in kernel.ops if op.name not in FREE_IN_KERNELS]
