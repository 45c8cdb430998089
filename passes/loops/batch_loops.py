"""Work of a loop that does not wait for other iterations is done for all iterations at once, before the loop is differentiated."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace

from adjit.ir.batching import inline_batched, rule_of, spread
from adjit.ir.builder import GraphBuilder
from adjit.ir.definition import Kind
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Op, Value, is_kept, needed_ops
from adjit.ir.ops.traits import CHEAP, KERNELS, NESTED_PROGRAMS, TRANSFORMS
from adjit.passes.autodiff.reverse_ad import append_copy
from adjit.passes.options import Options
from adjit.passes.regions import in_regions

OWN_REGIONS = (NESTED_PROGRAMS | TRANSFORMS) - KERNELS
FREE = Kind.MOVEMENT, Kind.CREATION

MAX_ITERATION_BYTES = 1 << 10
"""Bytes of a value in one iteration up to which the call of its kernel takes longer than its elements."""

MAX_BATCHED_BYTES = 256 << 10
"""Bytes of a value of all iterations that are written to memory where one iteration would keep it in registers."""


def batch_loops(graph: Graph, options: Options) -> Graph:
    """Compute what depends on no carried value for all iterations at once, by the batching rules of the ops.

    A loop that carries nothing disappears, if it has no effects. Only small values are batched: what an iteration computes of large ones
    stays in the cache.

    Before:
        graph @f(%x: f64[9,4], %w: f64[4], %s: f64[]) {
          %last: f64[] = scan %s, %x, %w {carries=1, length=9, reverse=false, scratch_bytes=0, slices=1} [
            graph @body(%s: f64[] carried, %x: f64[4], %w: f64[4]) {
              %p: f64[4] = multiply %x, %w
              %d: f64[] = reduce_sum %p {axes=(0,)}
              %n: f64[] = add %s, %d
              return %n
            }
          ]
          return %last
        }

    After:
        graph @f(%x: f64[9,4], %w: f64[4], %s: f64[]) {
          %0: f64[9,4] = broadcast %w {axes=(1,), shape=(9, 4)}
          %1: f64[9,4] = multiply %x, %0
          %2: f64[9] = reduce_sum %1 {axes=(1,)}
          %last: f64[] = scan %s, %2 {carries=1, length=9, reverse=false, scratch_bytes=0, slices=1} [
            graph @body(%s: f64[] carried, %d: f64[]) {
              %n: f64[] = add %s, %d
              return %n
            }
          ]
          return %last
        }
    """
    graph = in_regions(graph, lambda region: batch_loops(region, options), OWN_REGIONS)
    if options.memory_budget is not None or not any(op.name == "scan" for op in graph.ops):
        return graph
    builder = GraphBuilder(graph.name)
    values = {value: builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)}
    changed = False
    with emitting(builder):
        for op in graph.ops:
            operands = tuple(values[value] for value in op.operands)
            independent = _independent_ops(op) if op.name == "scan" else []
            changed = changed or bool(independent)
            results = _distribute(builder, op, operands, independent) if independent else append_copy(builder, op, operands, op.regions)
            values.update(zip(op.results, results, strict=True))
        new = builder.build([values[value] for value in graph.results])
    return new.with_ops(needed_ops(new.ops, new.results)) if changed else graph


def _independent_ops(op: Op) -> list[Op]:
    """Ops of a loop's body that are computed before the loop, in order; all of them where nothing is carried."""
    (body,), carries, length = op.regions, op.attrs["carries"], op.attrs["length"]
    if length < 2:
        return []
    waiting = set(body.params[:carries])
    varying = set(body.params[carries:carries + op.attrs["slices"]])
    found = []
    for inner in body.ops:
        if waiting.isdisjoint(inner.operands) and _can_batch(inner, length, varying):
            found.append(inner)
            if not varying.isdisjoint(inner.operands):
                varying.update(inner.results)
        else:
            waiting.update(inner.results)
    if not carries and len(found) == len(body.ops):
        return found
    found = needed_ops(found, [value for inner in found if inner.definition.kind not in FREE for value in inner.results])
    return [] if _is_cheaper_inside(found, body, carries) else found


def _is_cheaper_inside(found: list[Op], body: Graph, carries: int) -> bool:
    """True for a few instructions on numbers, which stay in registers, whose results would be more bytes in memory than the slices that
    they are made of: the products of a recursive filter take 2.2 times as long before the loop as in it."""
    for inner in found:
        if (inner.name not in CHEAP and inner.definition.kind not in FREE) or any(value.type.size > 1 for value in inner.results):
            return False
    made = {value for inner in found for value in inner.results}
    others = [inner for inner in body.ops if made.isdisjoint(inner.results)]
    read = {value for inner in others for value in inner.operands}.union(body.results)
    replaced = {value for inner in found for value in inner.operands}.intersection(body.params[carries:]) - read
    return sum(value.type.nbytes for value in made & read) > sum(value.type.nbytes for value in replaced)


def _can_batch(op: Op, length: int, varying: AbstractSet[Value]) -> bool:
    if op.definition.is_kept or op.definition.region_use is not None or (op.operands and rule_of(op.definition) is None):
        return False
    if op.definition.kind is Kind.INDEXING and (op.name != "take" or op.operands[0] in varying):
        return False        # an index out of range would be told of another axis
    sizes = [value.type.nbytes for value in op.results] if any(value in varying for value in op.operands) else [0]
    return max(sizes) <= min(MAX_ITERATION_BYTES, MAX_BATCHED_BYTES // length)


def _distribute(builder: GraphBuilder, op: Op, operands: tuple[Value, ...], independent: list[Op]) -> list[Value]:
    """Append the independent ops of a loop, batched, and the loop of the others; returns the results."""
    (body,), carries, length = op.regions, op.attrs["carries"], op.attrs["length"]
    made = {value for inner in independent for value in inner.results}
    others = [inner for inner in body.ops if made.isdisjoint(inner.results)]
    read = [value for value in dict.fromkeys((*(value for inner in others for value in inner.operands), *body.results)) if value in made]
    batch = Graph(body.name, body.params[carries:], tuple(independent), tuple(read), body.param_roles[carries:])
    known = dict(zip(body.params, operands, strict=True))
    with builder.at(op.loc, op.role):
        known.update(zip(read, inline_batched(batch, operands[carries:], length), strict=True))
        rows, finals = body.results[:len(body.results) - carries], body.results[len(body.results) - carries:]
        carried = body.params[:carries]
        stacked = {value: spread(known[value], value, length) for value in rows if value in known and value not in carried}
    left = [index for index, value in enumerate(rows) if value not in stacked]
    results = [*left, *range(len(rows), len(op.results))]
    if results or any(map(is_kept, others)):
        used = {value for inner in others for value in inner.operands}.union(finals, (rows[index] for index in left))
        inputs = [value for value in (*body.params[carries:], *read) if value in used]
        flags = [value.type != known[value].type for value in inputs]
        sliced = [value for value, flag in zip(inputs, flags, strict=True) if flag]
        params = (*carried, *sliced, *(value for value, flag in zip(inputs, flags, strict=True) if not flag))
        region = Graph(body.name, params, tuple(others), (*(rows[index] for index in left), *finals),
                       (*("carried",) * carries, *("input",) * (len(params) - carries)))
        loop = replace(op, operands=tuple(known[value] for value in params), results=tuple(op.results[index] for index in results),
                       regions=(region,), attrs={**op.attrs, "slices": len(sliced)})
        found = dict(zip(results, append_copy(builder, loop, loop.operands, loop.regions), strict=True))
    else:
        found = {}
    return [found[index] if index in found else stacked[rows[index]] for index in range(len(op.results))]
