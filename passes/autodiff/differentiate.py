"""Expands transforms: `vjp`, `custom_call` and `checkpoint` ops become ordinary ops of one joint graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Op, Value, number_of
from adjit.ir.ops.traits import CALLS, CONTROL_FLOW, EXPANDED
from adjit.passes.autodiff.forward_ad import run_tangents
from adjit.passes.autodiff.reverse_ad import append_copy, pull_back, run_forward, zeros_like
from adjit.passes.options import Options
from adjit.passes.regions import contains, once_a_region


def differentiate(graph: Graph, options: Options) -> Graph:
    """Expand the transforms of `graph`, innermost first, also within regions.

    A `vjp` op becomes the forward half of its region and, with role adjoint, the cotangents in reverse order, only for the values between
    `wrt` and the results that have a cotangent. A `custom_call` on this path brings its own rule. A `checkpoint` is rematerialized, with
    role recompute, by the backward half, which then uses nothing of the first execution.

    Before:
        graph @gradient(%x: f32[2], %y: f32[2], %ct: f32[2]) {
          %out: f32[2], %dx: f32[2] = vjp %x, %y, %ct {cotangents=(0,), wrt=(0,)} [
            graph @f(%x: f32[2], %y: f32[2]) {
              %a: f32[2] = multiply %x, %y
              %b: f32[2] = checkpoint %a [
                graph @inner(%a: f32[2]) {
                  %s: f32[2] = sin %a
                  %t: f32[2] = sin %s
                  return %t
                }
              ]
              return %b
            }
          ]
          return %out, %dx
        }

    After:
        graph @gradient(%x: f32[2], %y: f32[2], %ct: f32[2]) {
          %a: f32[2] = multiply %x, %y
          %s: f32[2] = sin %a
          %t: f32[2] = sin %s
          %again: f32[2] = sin %a  # recompute
          %0: f32[2] = cos %again  # adjoint
          %ds: f32[2] = strong_multiply %ct, %0  # adjoint
          %1: f32[2] = cos %a  # adjoint
          %da: f32[2] = strong_multiply %ds, %1  # adjoint
          %dx: f32[2] = strong_multiply %da, %y  # adjoint
          return %t, %dx
        }
    """
    if not contains(graph, EXPANDED):
        return graph
    return _inline_calls(expand_vjps(graph, saved_dtype=options.saved_dtype))


def expand_vjps(graph: Graph, but_with: frozenset[str] = frozenset(), saved_dtype: np.dtype | None = None) -> Graph:
    """Expand every `vjp`, also within regions, but those whose function has an op named in `but_with`. Custom calls off the path of a
    derivative stay, for the derivatives around them. Loops save floats as `saved_dtype`, if it is given."""
    if not contains(graph, frozenset({"vjp"})):
        return graph
    builder = GraphBuilder(graph.name)
    values = _params(builder, graph)
    expanded = once_a_region(partial(expand_vjps, but_with=but_with, saved_dtype=saved_dtype))
    with emitting(builder):
        for op in graph.ops:
            operands = tuple(values[value] for value in op.operands)
            if op.name == "vjp" and but_with and contains(op.regions[0], but_with):
                values.update(zip(op.results, append_copy(builder, op, operands, op.regions), strict=True))
                continue
            pushed = _push_forward(builder, op, operands)
            if pushed is not None:
                values.update(zip(op.results, pushed, strict=True))
                continue
            regions = tuple(map(expanded, op.regions))
            results = _expand_vjp(builder, op, operands, regions[0], saved_dtype) if op.name == "vjp" else \
                append_copy(builder, op, operands, regions)
            values.update(zip(op.results, results, strict=True))
    return builder.build([values[value] for value in graph.results])


def _expand_vjp(builder: GraphBuilder, op: Op, operands: Sequence[Value], region: Graph, saved_dtype: np.dtype | None
                ) -> tuple[Value, ...]:
    """Append the forward and the backward half of one `vjp` op, whose region holds no other `vjp`; returns the op's results."""
    wrt: tuple[int, ...] = op.attrs["wrt"]
    arguments, given = operands[:len(region.params)], operands[len(region.params):]
    seeds = dict(zip(op.attrs["cotangents"], given, strict=True))
    with builder.at(loc=op.loc, role=Role.ADJOINT):
        forward = run_forward(builder, region, arguments, wrt, seeds, saved_dtype=saved_dtype)
        cotangents = pull_back(builder, forward, seeds)
        pulled = [value if (value := cotangents[index]) is not None else zeros_like(arguments[index]) for index in wrt]
    return (*forward.results, *pulled)


def _push_forward(builder: GraphBuilder, op: Op, operands: Sequence[Value]) -> tuple[Value, ...] | None:
    """Results of a `vjp` of a `vjp` (which is a `jvp`) whose function has loops or branches: forward mode computes them. The inner
    cotangents are zeros then, and so are the inner gradients. None for all other ops."""
    if op.name != "vjp" or [inner.name for inner in op.regions[0].ops] != ["vjp"]:
        return None
    outer, (pullback,) = op.regions[0], op.regions[0].ops
    function = pullback.regions[0]
    count, inputs = len(function.results), len(function.params)
    wrt, seeded = pullback.attrs["wrt"], pullback.attrs["cotangents"]
    producers = {value: made for made in builder.ops for value in made.results}
    zeros = operands[inputs:inputs + len(seeded)]
    is_push = (pullback.operands == outer.params and outer.results == pullback.results
               and op.attrs["wrt"] == tuple(range(inputs, inputs + len(seeded)))
               and op.attrs["cotangents"] == tuple(range(count, count + len(wrt)))
               and all(number_of(producers.get(value)) == 0 for value in zeros))
    if not is_push or not contains(function, CONTROL_FLOW):
        return None
    with builder.at(loc=op.loc, role=Role.ADJOINT):
        tangents = dict(zip(wrt, operands[inputs + len(seeded):], strict=True))
        results, pushed = run_tangents(builder, expand_vjps(function), operands[:inputs], tangents)
        pulled = [zeros_like(operands[index]) for index in wrt]
        return (*results, *pulled, *(zeros_like(results[index]) if (known := pushed[index]) is None else known for index in seeded))


def _inline_calls(graph: Graph) -> Graph:
    """Inline the calls that no derivative expanded: a call means its first region."""
    if not contains(graph, CALLS):
        return graph
    builder = GraphBuilder(graph.name)
    params = _params(builder, graph)
    return builder.build(_inline_into(builder, graph, [params[value] for value in graph.params], None, once_a_region(_inline_calls)))


def _inline_into(builder: GraphBuilder, graph: Graph, arguments: Sequence[Value], role: Role | None,
                 inlined: Callable[[Graph], Graph]) -> tuple[Value, ...]:
    values = dict(zip(graph.params, arguments, strict=True))
    for op in graph.ops:
        operands = tuple(map(values.__getitem__, op.operands))
        if op.name in CALLS:
            within = op.role if op.role is not Role.PRIMAL else role
            results = _inline_into(builder, op.regions[0], operands, within, inlined)
        else:
            results = append_copy(builder, op, operands, tuple(map(inlined, op.regions)), role)
        values.update(zip(op.results, results, strict=True))
    return tuple(values[value] for value in graph.results)


def _params(builder: GraphBuilder, graph: Graph) -> dict[Value, Value]:
    """Parameters with the types, names and roles of those of `graph`."""
    return {value: builder.param(value.type, value.name, role) for value, role in zip(graph.params, graph.param_roles, strict=True)}
