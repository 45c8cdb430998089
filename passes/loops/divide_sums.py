"""Sums that a loop of a derivative accumulates become sums of a few parts, so that the iterations of different parts need not wait for each
other.

The derivative of a loop that carries nothing adds up the cotangents of what all iterations share. Only these sums would keep its iterations
on one thread.
"""

from __future__ import annotations

from collections.abc import Sequence

from adjit.ir import ops
from adjit.ir.analysis.cost import cost_of
from adjit.ir.builder import GraphBuilder
from adjit.ir.control_flow import emit_scan
from adjit.ir.emitter import emitting
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, readers
from adjit.ir.ops.traits import HOST_CALLS
from adjit.passes.autodiff.reverse_ad import append_copy
from adjit.passes.autodiff.reverse_control_flow import emit_region
from adjit.passes.options import Options
from adjit.passes.regions import contains

MAX_PARTS = 64
"""Parts of a sum: as many tasks as steps have at most."""

MIN_ITERATIONS = 16
MIN_OPERATIONS = 100_000
"""Operations of a loop from which it is worth several threads: some 20 us of elementary functions. A loop within it counts for
`ASSUMED_TRIPS` iterations."""

ASSUMED_TRIPS = 64
MAX_PART_BYTES = 1 << 14
"""Bytes of the sums: those of all parts are written and read once more, 1 MiB at most."""


def divide_sums(graph: Graph, options: Options) -> Graph:
    """Divide loops of derivatives that carry nothing but sums into a loop over parts, each a loop that begins with zeros. The sums of the
    parts are added in order: the bits follow from the shapes.

    Before:
        graph @f(%s: i64[64], %x: f32[17,64,64]) {
          %y: f32[17,64,64], %last: i64[64] = scan %s, %x {carries=1, length=17, reverse=false, scratch_bytes=0, slices=1} [  # adjoint
            graph @body(%s: i64[64] carried, %x: f32[64,64]) {
              %y: f32[64,64] = matmul %x, %x {transpose_a=false, transpose_b=false}
              %n: i64[64] = argmax %y {axis=1}
              %t: i64[64] = add %s, %n
              return %y, %t
            }
          ]
          return %y, %last
        }

    After:
        graph @f(%s: i64[64], %x: f32[17,64,64]) {
          %0: f32[16,64,64] = slice %x {start=(0, 0, 0), step=(1, 1, 1), stop=(16, 64, 64)}  # adjoint
          %1: f32[8,2,64,64] = reshape %0 {shape=(8, 2, 64, 64)}  # adjoint
          %2: f32[8,2,64,64], %3: i64[8,64] = scan %1 {carries=0, length=8, reverse=false, scratch_bytes=0, slices=1} [  # adjoint
            graph @body(%0: f32[2,64,64]) {
              %1: i64[64] = constant {dtype=i64, shape=(64,), value=0}  # adjoint
              %2: f32[2,64,64], %3: i64[64] = scan %1, %0 {carries=1, length=2, reverse=false, scratch_bytes=0, slices=1} [  # adjoint
                graph @body(%0: i64[64] carried, %1: f32[64,64]) {
                  %y: f32[64,64] = matmul %1, %1 {transpose_a=false, transpose_b=false}
                  %n: i64[64] = argmax %y {axis=1}
                  %t: i64[64] = add %0, %n
                  return %y, %t
                }
              ]
              return %2, %3
            }
          ]
          %4: i64[64] = reduce_sum %3 {axes=(0,)}  # adjoint
          %5: i64[64] = add %s, %4  # adjoint
          %6: f32[16,64,64] = reshape %2 {shape=(16, 64, 64)}  # adjoint
          %7: f32[1,64,64] = slice %x {start=(16, 0, 0), step=(1, 1, 1), stop=(17, 64, 64)}  # adjoint
          %8: f32[1,64,64], %9: i64[64] = scan %5, %7 {carries=1, length=1, reverse=false, scratch_bytes=0, slices=1} [  # adjoint
            graph @body(%0: i64[64] carried, %1: f32[64,64]) {
              %y: f32[64,64] = matmul %1, %1 {transpose_a=false, transpose_b=false}
              %n: i64[64] = argmax %y {axis=1}
              %t: i64[64] = add %0, %n
              return %y, %t
            }
          ]
          %10: f32[17,64,64] = concatenate %6, %8 {axis=0}  # adjoint
          return %10, %9
        }
    """
    if options.cache_bytes is None or not any(_is_divided(op) for op in graph.ops):
        return graph
    builder = GraphBuilder(graph.name)
    values = {value: builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)}
    with emitting(builder):
        for op in graph.ops:
            operands = tuple(values[value] for value in op.operands)
            if _is_divided(op):
                with builder.at(op.loc, op.role):
                    results: Sequence[Value] = _divide(op, operands)
            else:
                results = append_copy(builder, op, operands, op.regions)
            values.update(zip(op.results, results, strict=True))
        return builder.build([values[value] for value in graph.results])


def _is_divided(op: Op) -> bool:
    if op.name != "scan" or op.role is not Role.ADJOINT or not op.attrs["carries"] or op.attrs["length"] < MIN_ITERATIONS:
        return False
    (body,), carries = op.regions, op.attrs["carries"]
    if sum(value.type.nbytes for value in body.params[:carries]) > MAX_PART_BYTES or contains(body, HOST_CALLS):
        return False
    trips = ASSUMED_TRIPS if contains(body, frozenset({"while_loop"})) else 1
    return cost_of(body).operations * op.attrs["length"] * trips >= MIN_OPERATIONS and _adds_only(body, carries)


def _adds_only(body: Graph, carries: int) -> bool:
    """True if every carried value is the one before and something added to it, and is read by these additions alone."""
    read = readers(body.ops)
    rows = len(body.results) - carries
    for value, last in zip(body.params[:carries], body.results[rows:], strict=True):
        while value is not last:
            found = read.get(value, [])
            if len(found) != 1 or found[0].name != "add" or found[0].operands.count(value) != 1 or value in body.results:
                return False
            value = found[0].result
        if body.results.count(last) != 1 or read.get(last):
            return False
    return True


def _divide(op: Op, operands: Sequence[Value]) -> list[Value]:
    """Append the loop over parts, and a loop over the iterations that are left; returns the results."""
    (body,), carries, slices, length, reverse = op.regions, *(op.attrs[name] for name in ("carries", "slices", "length", "reverse"))
    init, sliced, fixed = operands[:carries], operands[carries:carries + slices], operands[carries + slices:]
    rows = len(body.results) - carries
    size = max(2, -(-length // MAX_PARTS))
    parts = length // size

    def part(_: Sequence[Value], given: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        zeros = [ops.constant(value=value.type.dtype.type(0).item(), dtype=value.type.dtype, shape=value.type.shape) for value in init]
        found, sums = _run(body, zeros, given, fixed, size, reverse, rows)
        return (*found, *sums), ()

    whole = parts * size
    given = [ops.reshape(_slices(value, 0, whole), shape=(parts, size, *value.type.shape[1:])) for value in sliced]
    results, _ = emit_scan(part, (), given, parts, reverse, body.name)
    totals = [ops.add(first, ops.reduce_sum(sums, axes=(0,))) for first, sums in zip(init, results[rows:], strict=True)]
    stacked = [ops.reshape(value, shape=(whole, *value.type.shape[2:])) for value in results[:rows]]
    if whole == length:
        return [*stacked, *totals]
    left, totals = _run(body, totals, [_slices(value, whole, length) for value in sliced], fixed, length - whole, reverse, rows)
    return [*(ops.concatenate(first, last, axis=0) for first, last in zip(stacked, left, strict=True)), *totals]


def _run(body: Graph, init: Sequence[Value], sliced: Sequence[Value], fixed: Sequence[Value], length: int, reverse: bool, rows: int
         ) -> tuple[list[Value], list[Value]]:
    """Append the loop for some of its iterations; returns its rows and sums."""
    def step(carried: Sequence[Value], given: Sequence[Value]) -> tuple[Sequence[Value], Sequence[Value]]:
        results = emit_region(body, (*carried, *given, *fixed))
        return results[:rows], results[rows:]

    found, sums = emit_scan(step, init, sliced, length, reverse, body.name)
    return list(found), list(sums)


def _slices(value: Value, start: int, stop: int) -> Value:
    shape = value.type.shape
    if stop - start == shape[0]:
        return value
    zeros = (0,) * (len(shape) - 1)
    return ops.slice(value, start=(start, *zeros), stop=(stop, *shape[1:]), step=(1,) * len(shape))
