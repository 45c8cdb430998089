"""Batching: a graph for one example becomes the graph for a batch of them (`adjit.vmap`).

The batch axis of a batched value is its first one. So a value is batched if it has one dimension more than the value of the graph for one
example that it stands for, and rules need no flags. A rule, `OpDefinition.batch`, gives `rule(op, operands, size)`: the results of `op` for
operands of which at least one is batched. Ops of shared values alone are copied as they are.

Where examples go different ways (`cond`, `while_loop`), ops of the way that an example does not take may fail for it, or never end. There
it gets the operands of an example that takes this way (`take_part`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from adjit.ir.builder import GraphBuilder
from adjit.ir.definition import DEFINITIONS, BatchingRule, Kind, OpDefinition, RegionUse
from adjit.ir.emitter import current_emitter, emitting
from adjit.ir.errors import TraceError
from adjit.ir.graph import Graph, Op, Value, has_effects
from adjit.ir.thread_context import thread

# -- helpers of rules


def is_batched(value: Value, example: Value) -> bool:
    """True if `value` is a batch of values like `example`."""
    return value.type.rank > example.type.rank


def spread(value: Value, example: Value, size: int) -> Value:
    """`value` with the batch axis: the same for all examples, if it had none."""
    if is_batched(value, example):
        return value
    shape = value.type.shape
    return DEFINITIONS["broadcast"](value, shape=(size, *shape), axes=tuple(range(1, len(shape) + 1)))


def spread_all(op: Op, operands: Sequence[Value], size: int) -> list[Value]:
    """Operands of `op`, each with the batch axis."""
    return [spread(value, example, size) for value, example in zip(operands, op.operands, strict=True)]


def batched_operands(op: Op, operands: Sequence[Value]) -> list[bool]:
    """For each operand, whether it is batched."""
    return [is_batched(value, example) for value, example in zip(operands, op.operands, strict=True)]


def emit_again(op: Op, operands: Sequence[Value], regions: tuple[Graph, ...] | None = None, **attrs: Any) -> tuple[Value, ...]:
    """Emit `op` on other operands, with some attributes or the regions replaced."""
    return current_emitter().emit(op.definition, operands, {**op.attrs, **attrs}, op.regions if regions is None else regions)


def move_axis(value: Value, source: int, target: int) -> Value:
    """`value` with the axis `source` at the place `target`."""
    if source == target:
        return value
    order = [axis for axis in range(value.type.rank) if axis != source]
    order.insert(target, source)
    return DEFINITIONS["transpose"](value, permutation=tuple(order))


def reshaped(value: Value, shape: Sequence[int]) -> Value:
    """`value` in this shape."""
    return value if value.type.shape == tuple(shape) else DEFINITIONS["reshape"](value, shape=tuple(shape))


def choose(mask: Value, yes: Value, no: Value) -> Value:
    """`yes` for the examples for which `mask`, a batch of bools, is true, else `no`; both are batched."""
    shape = yes.type.shape
    spread_mask = mask if len(shape) == 1 else DEFINITIONS["broadcast"](mask, shape=shape, axes=(0,))
    return DEFINITIONS["select"](spread_mask, yes, no)


# -- rules of kinds


def batch_alike(op: Op, operands: Sequence[Value], size: int) -> tuple[Value, ...]:
    """Rule of ops that keep leading axes apart: elementwise ops, windows, which slide over the last axes, and matrix ops."""
    return emit_again(op, spread_all(op, operands, size))


def batch_axes(op: Op, operands: Sequence[Value], size: int) -> tuple[Value, ...]:
    """Rule of ops along the dimensions `axes`."""
    return emit_again(op, operands, axes=tuple(axis + 1 for axis in op.attrs["axes"]))


def batch_axis(op: Op, operands: Sequence[Value], size: int) -> tuple[Value, ...]:
    """Rule of ops along the dimension `axis`, whose other dimensions go along with each other."""
    return emit_again(op, spread_all(op, operands, size), axis=op.attrs["axis"] + 1)


BY_KIND: dict[Kind, BatchingRule] = {Kind.ELEMENTWISE: batch_alike, Kind.WINDOW: batch_alike, Kind.REDUCTION: batch_axes,
                                     Kind.SCAN: batch_axis, Kind.EXTERNAL: batch_alike, Kind.LINALG: batch_alike}
"""Rules of the kinds whose records need not state one."""


def rule_of(definition: OpDefinition) -> BatchingRule | None:
    """Batching rule of an op; None if examples have to run one after the other."""
    return BY_KIND[definition.kind] if definition.batch == "kind" else definition.batch


def batch_in_turn(op: Op, operands: Sequence[Value], size: int) -> tuple[Value, ...]:
    """Results of an op without a rule: a `scan` over the examples."""
    flags = batched_operands(op, operands)
    builder = GraphBuilder(f"{IN_TURN}{op.name}")
    params = [builder.param(value.type, value.name) for value in op.operands]
    with emitting(builder), builder.at(loc=op.loc, role=op.role):
        graph = builder.build(emit_again(op, params))
    order = sorted(range(len(flags)), key=lambda index: not flags[index])       # slices before what all examples share
    body = Graph(graph.name, tuple(graph.params[index] for index in order), graph.ops, graph.results)
    return DEFINITIONS["scan"].emit(*(operands[index] for index in order), regions=(body,), length=size, carries=0, slices=sum(flags),
                                    reverse=False, scratch_bytes=0)


IN_TURN = "one_after_the_other_"
"""Beginning of the names of the loops that stand for ops without a rule."""

# -- graphs


def inline_batched(graph: Graph, operands: Sequence[Value], size: int) -> list[Value]:
    """Append the ops of `graph` to the builder in force, for a batch of `size` examples where operands are batched; returns the results, of
    which some may not be."""
    builder = current_emitter()
    if not isinstance(builder, GraphBuilder):
        raise TraceError("a batched graph is appended outside of a graph")
    known = dict(zip(graph.params, operands, strict=True))
    with _remembered_regions():
        for op in graph.ops:
            given = [known[value] for value in op.operands]
            with builder.at(loc=op.loc, role=op.role):
                if not any(map(is_batched, given, op.operands)):
                    results = emit_again(op, given)
                else:
                    in_turn = op.name in ("cond", "while_loop") and has_effects(op)     # examples that go another way are not seen
                    results = tuple((batch_in_turn if in_turn else rule_of(op.definition) or batch_in_turn)(op, given, size))
            known.update(zip(op.results, results, strict=True))
    return [known[value] for value in graph.results]


@contextmanager
def _remembered_regions() -> Iterator[dict[Any, Any]]:
    """Remember the regions that `batch_region` makes until the outermost graph is done: calls of one function share theirs, and rules of
    loops ask several times which values become batched."""
    context = thread.context
    outermost = context.batched_regions is None
    try:
        known = context.batched_regions = {} if context.batched_regions is None else context.batched_regions
        yield known
    finally:
        if outermost:
            context.batched_regions = None


def batch_region(graph: Graph, flags: Sequence[bool], size: int, force: Sequence[bool] = ()) -> Graph:
    """Copy of a region whose parameters are batched where `flags` says so, and results where they have to be, or where `force` says so."""
    with _remembered_regions() as known:
        key = id(graph), tuple(flags), size, tuple(force)
        if key not in known:
            region = batch_region(graph, flags, size) if force else _batched(graph, flags, size, ())
            spreads = any(wanted and not found for wanted, found in zip(force, batched_results(region, graph), strict=False))
            known[key] = graph, _batched(graph, flags, size, force) if spreads else region     # the graph keeps its identity its own
        made: Graph = known[key][1]
        return made


def _batched(graph: Graph, flags: Sequence[bool], size: int, force: Sequence[bool]) -> Graph:
    builder = GraphBuilder(graph.name)
    params = [builder.param(value.type.with_shape((size, *value.type.shape)) if flag else value.type, value.name, role)
              for value, flag, role in zip(graph.params, flags, graph.param_roles, strict=True)]
    with emitting(builder):
        results = inline_batched(graph, params, size)
        if force:
            results = [spread(value, example, size) if wanted else value
                       for value, example, wanted in zip(results, graph.results, force, strict=True)]
        return builder.build(results)


def batched_results(region: Graph, graph: Graph) -> list[bool]:
    """For each result of a copy of `graph` that `batch_region` made, whether it is batched."""
    return list(map(is_batched, region.results, graph.results))


def batch_call(op: Op, operands: Sequence[Value], size: int) -> tuple[Value, ...]:
    """Rule of an op that runs its only region once, on its operands."""
    return emit_again(op, operands, (batch_region(op.regions[0], batched_operands(op, operands), size),))


# -- examples that go different ways


def may_stop(ops: Iterable[Op]) -> bool:
    """True if one of these ops may, on operands that nobody meant for it, stop the program, never end, or call the host."""
    return any(op.definition.kind in (Kind.INDEXING, Kind.CHECK) or op.definition.region_use is RegionUse.HOST or op.name == "while_loop"
               or any(may_stop(region.ops) for region in op.regions) for op in ops)


def needs_own_operands(graph: Graph) -> bool:
    """True if `graph` should not run on the operands of an example that does not take it: an op may stop the program, never end, call the
    host, or sum products, where a NaN times a cotangent of 0 is a NaN."""
    return may_stop(graph.ops) or any(op.definition.kind is Kind.CONTRACTION or any(map(needs_own_operands, op.regions))
                                      for op in graph.ops)


def take_part(mask: Value, values: Sequence[Value], examples: Sequence[Value]) -> list[Value]:
    """`values`, with those of the first example for which `mask` is true in place of those for which it is false."""
    if not mask.type.size:
        return list(values)
    first = DEFINITIONS["argmax"](mask, axis=0)
    return [choose(mask, value, spread(DEFINITIONS["take"](value, first, axis=0), example, value.type.shape[0]))
            if is_batched(value, example) else value for value, example in zip(values, examples, strict=True)]


def any_example(mask: Value) -> Value:
    """Whether `mask`, a batch of bools, is true for an example."""
    return DEFINITIONS["reduce_or"](mask, axes=(0,))


# -- regions made of batched ones


def rebuilt(graph: Graph, body: Callable[..., Sequence[Value]]) -> Graph:
    """Region of `body(*values)`, with parameters like those of `graph`."""
    builder = GraphBuilder(graph.name)
    params = [builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)]
    with emitting(builder):
        return builder.build(body(*params))


def with_summed_results(region: Graph, graph: Graph, flags: Sequence[bool], size: int) -> Graph:
    """`region`, a batched copy of `graph`, with its results batched for which `flags` says so, and the others summed over the examples."""
    def body(*values: Value) -> Sequence[Value]:
        builder = current_emitter()
        assert isinstance(builder, GraphBuilder)
        results = builder.inline(region, values)
        return [spread(value, example, size) if flag else
                DEFINITIONS["reduce_sum"](value, axes=(0,)) if is_batched(value, example) else value
                for value, example, flag in zip(results, graph.results, flags, strict=False)]

    return rebuilt(region, body)
