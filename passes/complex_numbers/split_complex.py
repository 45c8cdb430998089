"""Complex numbers become pairs of reals, so that fusion, tiling, memory plan and kernels see reals alone.

Parameters and results stay what they are in memory: real and imaginary parts that alternate. So do the operands and results of regions, and
what is only moved on its way from one to another. `real`, `imag` and `complex` are the borders between both forms; within a kernel they are
permutations of vector lanes.
"""

from __future__ import annotations

from dataclasses import replace

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import UnsupportedError
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.types import is_complex
from adjit.passes.complex_numbers.arithmetic import Pair
from adjit.passes.complex_numbers.products import factors_of, multiply_whole
from adjit.passes.complex_numbers.rules import IN_MEMORY, RULES
from adjit.passes.options import Options
from adjit.passes.regions import once_a_region

BORDERS = frozenset({"real", "imag", "complex"})
"""Ops that kernels run on complex numbers in memory."""


def split_complex(graph: Graph, options: Options) -> Graph:
    """Replace ops of complex numbers by ops of their parts, also within regions. The same graph if nothing is complex.

    Before:
        graph @f(%x: c128[2], %y: c128[2]) {
          %a: c128[2] = add %x, %y
          %b: c128[2] = conj %a
          return %b
        }

    After:
        graph @f(%x: c128[2], %y: c128[2]) {
          %0: f64[2] = real %x
          %1: f64[2] = imag %x
          %2: f64[2] = real %y
          %3: f64[2] = imag %y
          %4: f64[2] = add %0, %2
          %5: f64[2] = add %1, %3
          %6: f64[2] = negative %5
          %b: c128[2] = complex %4, %6
          return %b
        }

    Products of matrices stay whole for backends that have code for them.

    Before:
        graph @f(%x: c128[3,2], %y: c128[3,4]) {
          %a: c128[3,2] = conj %x
          %c: c128[2,4] = matmul %a, %y {transpose_a=true, transpose_b=false}
          return %c
        }

    After:
        graph @f(%x: c128[3,2], %y: c128[3,4]) {
          %0: f64[3,2] = real %x
          %1: f64[3,2] = imag %x
          %2: f64[3,2] = negative %1
          %c: c128[2,4] = complex_matmul %x, %y {conj_a=true, conj_b=false, transpose_a=true, transpose_b=false}
          return %c
        }
    """
    return once_a_region(lambda region: _split(region, options))(graph)


def _split(graph: Graph, options: Options) -> Graph:
    run = once_a_region(lambda region: _split(region, options))
    regions = {op: tuple(map(run, op.regions)) for op in graph.ops if op.regions}
    changed = any(new is not old for op, made in regions.items() for new, old in zip(made, op.regions, strict=True))
    in_memory = (op.name in BORDERS or _is_whole(op)
                 for op in graph.ops if _is_complex(*op.operands, *op.results) and not op.regions)
    if not changed and all(in_memory):
        return graph
    return _Splitter(graph, regions, options).run()


def _is_whole(op: Op) -> bool:
    """True for an op that takes complex numbers as they are in memory."""
    return op.definition.external is not None or op.definition is ops.complex_matmul


def _is_complex(*values: Value) -> bool:
    return any(is_complex(value.type.dtype) for value in values)


class _Splitter:
    """Graph under construction. Of a complex value of the old graph, `pairs` has the parts, `whole` the value in memory, as soon as one or
    the other is needed."""

    def __init__(self, graph: Graph, regions: dict[Op, tuple[Graph, ...]], options: Options):
        self.graph = graph
        self.options = options
        self.regions = regions
        self.builder = GraphBuilder(graph.name)
        self.producers = {value: op for op in graph.ops for value in op.results}
        self.values: dict[Value, Value] = {}
        self.pairs: dict[Value, Pair] = {}

    def run(self) -> Graph:
        graph, builder = self.graph, self.builder
        for value, role in zip(graph.params, graph.param_roles, strict=True):
            self.values[value] = builder.param(value.type, value.name, role)
        with emitting(builder):
            for op in graph.ops:
                with builder.at(loc=op.loc, role=op.role):
                    self.visit(op)
            return builder.build([self.whole(value) for value in graph.results])

    def parts(self, value: Value) -> Pair:
        """Real and imaginary part."""
        known = self.pairs.get(value)
        if known is None:
            whole = self.values[value]
            known = self.pairs[value] = ops.real(whole), ops.imag(whole)
        return known

    def whole(self, value: Value) -> Value:
        """The value in memory."""
        known = self.values.get(value)
        if known is None:
            known = self.values[value] = ops.complex(*self.pairs[value])
            known.name = value.name
        return known

    def visit(self, op: Op) -> None:
        if op.regions or op.definition.region_use is not None or _is_whole(op) or not _is_complex(*op.operands, *op.results):
            results = tuple(Value(value.type, value.name) for value in op.results)
            self.builder.append(replace(op, operands=tuple(map(self.whole, op.operands)), results=results,
                                        regions=self.regions.get(op, op.regions)))
            self.values.update(zip(op.results, results, strict=True))
            return
        moved = IN_MEMORY.get(op.name)
        if moved is not None and all(value in self.values and value not in self.pairs for value in op.operands[:moved[0]]):
            self.values[op.result] = moved[1](op, tuple(map(self.whole, op.operands)))
            return
        if op.name == "matmul" and self.options.complex_products and op.operands[0].type.size and op.operands[1].type.size:
            self.keep(op, multiply_whole(op, *factors_of(op, self.producers), self.whole, self.parts))
            return
        rule = RULES.get(op.name)
        if rule is None:
            raise UnsupportedError(f"{op.name} of complex numbers is not supported", op.loc)
        made = rule(op, [self.parts(value) if _is_complex(value) else self.values[value] for value in op.operands], self.producers)
        self.keep(op, made)

    def keep(self, op: Op, made: Pair | Value) -> None:
        """Keep the result of an op."""
        if isinstance(made, tuple):
            self.pairs[op.result] = made
        else:
            self.values[op.result] = made
