"""Cost of a graph: floating-point operations, and bytes that its ops read and write."""

from __future__ import annotations

from adjit.ir.dataclass import dataclass
from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op
from adjit.ir.ops.traits import ALIASES, NESTED_PROGRAMS
from adjit.ir.types import is_float


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of one execution of a graph.

    `operations`: floating-point operations; two for each multiply-add of a product, one for each result of an elementwise function and for
    each element that is reduced. `nbytes`: operands and results of every op, each once; values inside a kernel count nothing.
    """

    operations: int = 0
    nbytes: int = 0


def cost_of(graph: Graph) -> Cost:
    """Cost of one execution of a graph.

    >>> from adjit.ir.parser import parse
    >>> cost_of(parse("graph @f(%x: f32[4]) {\\n  %y: f32[4] = exp %x\\n  return %y\\n}"))
    Cost(operations=4, nbytes=32)
    """
    operations = nbytes = 0
    for op in graph.ops:
        if op.name in NESTED_PROGRAMS:        # a `while_loop` counts as one iteration, a `cond` as both of its branches
            trip_count = op.attrs.get(op.definition.runs, 1)
            costs = [cost_of(region) for region in op.regions]
            operations += trip_count * sum(cost.operations for cost in costs)
            nbytes += trip_count * sum(cost.nbytes for cost in costs)
        elif op.name not in ALIASES and op.definition.kind is not Kind.MEMORY:
            operations += sum(_operations(inner) for region in op.regions for inner in region.ops) + _operations(op)
            nbytes += sum(value.type.nbytes for value in (*op.operands, *op.results))
    return Cost(operations, nbytes)


def terms_of(op: Op) -> int:
    """Number of products that are summed for each element of a contraction."""
    terms = op.definition.terms
    if terms is None:
        raise ValueError(f"{op.name} is no contraction")
    return terms([value.type.shape for value in op.operands], op.result.type.shape, op.attrs)


def _operations(op: Op) -> int:
    kind = op.definition.kind
    if not op.results or not op.operands or not is_float(op.operands[0].type.dtype):
        return 0
    if kind is Kind.CONTRACTION:
        return 2 * op.result.type.size * terms_of(op)
    if kind is Kind.ELEMENTWISE:
        return op.result.type.size
    return op.operands[0].type.size if kind is Kind.REDUCTION else 0
