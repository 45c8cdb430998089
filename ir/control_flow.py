"""Emits loops and branches whose regions are written as Python functions over values; outer values that these functions use become
operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import current_emitter, emitting
from adjit.ir.errors import TraceError
from adjit.ir.graph import Graph, Value
from adjit.ir.types import TensorType

Function = Callable[..., Sequence[Value]]


def build_region(name: str, types: Sequence[TensorType], carries: int, function: Function) -> tuple[Graph, list[Value]]:
    """Closed graph of `function` over values of these types, the first `carries` of which are carried, and the outer values for the graph's
    further parameters."""
    parent = current_emitter()
    if not isinstance(parent, GraphBuilder):
        raise TraceError("a loop or a branch is built outside of a graph")
    builder = GraphBuilder(name, parent)
    params = [builder.param(type, role="carried" if index < carries else "input") for index, type in enumerate(types)]
    with emitting(builder), builder.at(parent.location(), parent.role):
        graph = builder.build(function(*params))
    return graph, list(builder.captures)


def add_captures(region: Graph, count: int, captures: Sequence[Value], operands: Sequence[Value]) -> Graph:
    """Copy of `region`, whose parameters from `count` on stand for the outer values `captures`, with a parameter for each of `operands` at
    this position."""
    known = dict(zip(captures, region.params[count:], strict=True))
    params = [known.get(value) or Value(value.type, value.name) for value in operands]
    roles = (*region.param_roles[:count], *("input" for _ in params))
    return Graph(region.name, (*region.params[:count], *params), region.ops, region.results, roles)


def drop_carries(region: Graph, carries: int, chosen: Sequence[int]) -> Graph:
    """Region of a loop in which the carries `chosen` become ordinary parameters, the last ones. A condition has no carried results."""
    kept = [index for index in range(carries) if index not in chosen]
    order = [*kept, *range(carries, len(region.params)), *chosen]
    roles = ["input" if index in chosen else region.param_roles[index] for index in order]
    first = len(region.results) - carries
    yields_carries = "carried" in region.param_roles
    results = (*region.results[:first], *(region.results[first + index] for index in kept)) if yields_carries else region.results
    return Graph(region.name, tuple(region.params[index] for index in order), region.ops, results, tuple(roles))


Step = Callable[[Sequence[Value], Sequence[Value]], tuple[Sequence[Value], Sequence[Value]]]


def emit_scan(function: Step, init: Sequence[Value], slices: Sequence[Value], length: int, reverse: bool = False,
              name: str = "body") -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Emit a `scan` of `function(carried, slices) -> (rows, carried)`; returns the stacked rows and the final carries."""
    count = len(init)

    def body(*values: Value) -> Sequence[Value]:
        rows, carried = function(values[:count], values[count:])
        return (*rows, *carried)

    types = [value.type for value in init] + [value.type.with_shape(value.type.shape[1:]) for value in slices]
    region, captures = build_region(name, types, count, body)
    results = ops.scan.emit(*init, *slices, *captures, regions=(region,), length=length, carries=count, slices=len(slices), reverse=reverse,
                            scratch_bytes=0)
    rows = len(results) - count
    return results[:rows], results[rows:]


def emit_while(condition: Callable[..., Value], body: Function, init: Sequence[Value], checkpointed: tuple[int, ...] = (),
               checkpoints: int = 0) -> tuple[Value, ...]:
    """Emit a `while_loop`; returns its results."""
    types, count = [value.type for value in init], len(init)
    first, wanted = build_region("condition", types, 0, lambda *values: [condition(*values)])
    second, used = build_region("body", types, count, body)
    outer = list(dict.fromkeys((*wanted, *used)))
    return ops.while_loop.emit(*init, *outer, regions=(add_captures(first, count, wanted, outer), add_captures(second, count, used, outer)),
                               carries=count, checkpointed=checkpointed, checkpoints=checkpoints, scratch_bytes=0)


def emit_cond(predicate: Value, on_true: Callable[[], Sequence[Value]], on_false: Callable[[], Sequence[Value]]) -> tuple[Value, ...]:
    """Emit a `cond`; returns its results. An outer value that both branches return is no result of the op."""
    first, wanted = build_region("on_true", (), 0, on_true)
    second, used = build_region("on_false", (), 0, on_false)
    returned = [[outside.get(value) for value in region.results] for region, outside in (
        (first, dict(zip(first.params, wanted, strict=True))), (second, dict(zip(second.params, used, strict=True))))]
    passed = [value if value is other else None for value, other in zip(*returned, strict=True)]
    kept = [index for index, value in enumerate(passed) if value is None]
    if not kept and not first.has_effects and not second.has_effects:
        return tuple(value for value in passed if value is not None)
    first, second = (region.with_ops(region.ops, [region.results[index] for index in kept]) for region in (first, second))
    needed = [_needed_by(region) for region in (first, second)]
    outer = list(dict.fromkeys([outside for region, values, captures in zip((first, second), needed, (wanted, used), strict=True)
                                for param, outside in zip(region.params, captures, strict=True) if param in values]))
    regions = add_captures(first, 0, wanted, outer), add_captures(second, 0, used, outer)
    made = iter(ops.cond.emit(predicate, *outer, scratch_bytes=0, regions=regions))
    return tuple([next(made) if value is None else value for value in passed])


def _needed_by(region: Graph) -> set[Value]:
    """Values that the ops of a region take, or that it returns."""
    return {*region.results, *(value for op in region.ops for value in op.operands)}
