"""Sums over rows of what shared values scale: they are the sum of the rows, scaled, and need no loop after that which gives the scale.

Before, with %c that the loop before this one gives:
    %a: f32[rows,8] = broadcast %c
    %b: f32[rows,8] = multiply %a, %x
    %s: f32[8] = reduce_sum %b
After:
    %t: f32[8] = reduce_sum %x
    %s: f32[8] = multiply %c, %t

In gradients alone, where such sums add up what two ways through a function give: so does that of the mean in a batch normalisation. A sum
of differences would lose digits if it were the difference of two sums.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from adjit.ir import ops
from adjit.ir.definition import OpDefinition
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, needed_ops, producers
from adjit.ir.types import TensorType
from adjit.passes.panels.row_axes import RowGraphs, Rows

_LINEAR = frozenset({"add", "subtract", "negative"})
_SCALING = frozenset({"multiply", "strong_multiply"})


def with_linear_sums(graphs: RowGraphs) -> Graph:
    """The first of the graphs, in which sums over rows are taken apart where that saves a loop. What no result needs is left out."""
    found = _LinearSums(graphs.graphs[0], graphs.rows)
    for op in needed_ops(found.graph.ops, found.graph.results):
        found.visit(op)
    made = found.made
    return graphs.graphs[0].with_ops(needed_ops(made, found.graph.results))


class _LinearSums:
    """The ops made so far. `level` has the loops that have to run before a value is known, or, of rows, before the loop that computes
    them."""

    def __init__(self, graph: Graph, rows: Mapping[Value, Rows]) -> None:
        self.graph, self.rows, self.producer = graph, rows, producers(graph)
        self.level: dict[Value, int] = dict.fromkeys(graph.params, 0)
        self.made: list[Op] = []

    def visit(self, op: Op) -> None:
        """Append an op, or what it is taken apart to."""
        if op.name == "reduce_sum" and op.role is Role.ADJOINT and op.operands[0] in self.rows and op.result not in self.rows:
            before = len(self.made)
            total = self._sum(op.operands[0], op, {}) if self.level[op.operands[0]] else None
            if total is not None:
                op = Op(ops.reshape, (total,), op.results, {"shape": op.result.type.shape}, loc=op.loc, role=op.role)
            else:
                del self.made[before:]
        self._append(op)

    def _append(self, op: Op) -> None:
        adds_up = any(value in self.rows for value in op.operands) and not any(value in self.rows for value in op.results)
        level = max((self.level[value] for value in op.operands), default=0) + adds_up
        self.level.update((value, level) for value in op.results)
        self.made.append(op)

    def _sum(self, value: Value, op: Op, known: dict[Value, Value]) -> Value | None:
        """The sum of a value as `op` takes it, from sums of rows of earlier loops than those that `op` adds up; None if there is none."""
        if value in known:
            return known[value]
        made = self.producer.get(value)
        total = None
        if self.level[value] < self.level[op.operands[0]]:
            total = self._emit(op.definition, (value,), op.result.type, op.attrs, op)
        elif made is not None and made.name in _LINEAR:
            terms = [self._sum(operand, op, known) for operand in made.operands]
            if None not in terms:
                total = self._emit(made.definition, [term for term in terms if term is not None], op.result.type, made.attrs, op)
        elif made is not None and made.name in _SCALING:
            total = self._scaled(made, op, known)
        if total is not None:
            known[value] = total
        return total

    def _scaled(self, product: Op, op: Op, known: dict[Value, Value]) -> Value | None:
        """The sum of a product of rows and of what they share, which is the same along the axes of the sum."""
        for number, operand in enumerate(product.operands):
            made, axes = self.producer.get(operand), op.attrs["axes"]
            if made is None or made.name != "broadcast" or made.operands[0] in self.rows:
                continue
            shared = made.operands[0]
            kept = [index for index, length in enumerate(shared.type.shape) if length != 1]
            along = [made.attrs["axes"][index] for index in kept]
            total = self._sum(product.operands[1 - number], op, known) if not set(along) & set(axes) else None
            if total is None:
                continue
            squeezed = shared.type.with_shape(tuple(shared.type.shape[index] for index in kept))
            if squeezed != shared.type:
                shared = self._emit(ops.reshape, (shared,), squeezed, {"shape": squeezed.shape}, op)
            shape = op.result.type.shape
            if shared.type.shape != shape:
                attrs = {"shape": shape, "axes": tuple(axis - sum(other < axis for other in axes) for axis in along)}
                shared = self._emit(ops.broadcast, (shared,), op.result.type, attrs, op)
            factors = (shared, total) if not number else (total, shared)
            return self._emit(product.definition, factors, op.result.type, product.attrs, op)
        return None

    def _emit(self, definition: OpDefinition, operands: Sequence[Value], type: TensorType, attrs: Mapping[str, Any], op: Op) -> Value:
        result = Value(type)
        self._append(Op(definition, tuple(operands), (result,), dict(attrs), loc=op.loc, role=op.role))
        return result
