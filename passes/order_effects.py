"""Orders effects by data: each takes a token and gives the next one, also through loops and branches.

So no later pass has to know of effects: a token is a value, loops carry it, and the last one is read by an op that stays (`effects_end`).
"""

from __future__ import annotations

from dataclasses import replace

from adjit.ir import ops
from adjit.ir.graph import Graph, Op, Value
from adjit.ir.ops.callback import encode_types
from adjit.ir.ops.effect import TOKEN
from adjit.passes.options import Options
from adjit.passes.regions import contains

UNORDERED = frozenset({ops.effect.name})


def order_effects(graph: Graph, options: Options) -> Graph:
    """Make effects callbacks that take a token and give one. Derivatives are expanded by now: regions are those of loops and branches.

    Before:
        graph @f(%h: i64[2], %x: f32[]) {
          effect %h, %x {function="print"}
          %n: f32[] = scan %x, %h {carries=1, length=3, reverse=false, scratch_bytes=0, slices=0} [
            graph @body(%x: f32[] carried, %h: i64[2]) {
              effect %h, %x {function="print"}
              %y: f32[] = sin %x
              return %y
            }
          ]
          return %n
        }

    After:
        graph @f(%h: i64[2], %x: f32[]) {
          %0: i64[] = constant {dtype=i64, shape=(), value=0}
          %1: i64[] = callback %h, %x, %0 {function="print", results=(("i64", ()),)}
          %n: f32[], %2: i64[] = scan %x, %1, %h {carries=2, length=3, reverse=false, scratch_bytes=0, slices=0} [
            graph @body(%x: f32[] carried, %0: i64[] carried, %h: i64[2]) {
              %1: i64[] = callback %h, %x, %0 {function="print", results=(("i64", ()),)}
              %y: f32[] = sin %x
              return %y, %1
            }
          ]
          effects_end %2
          return %n
        }
    """
    if not contains(graph, UNORDERED):
        return graph
    first = Op(ops.constant, (), (Value(TOKEN),), {"dtype": TOKEN.dtype, "shape": (), "value": 0})
    made, last = _ordered(graph, first.result)
    return graph.with_ops([first, *made, _end(last)])


def _end(token: Value) -> Op:
    return Op(ops.effects_end, (token,), ())


def _ordered(graph: Graph, token: Value) -> tuple[list[Op], Value]:
    """The ops of a graph, whose effects take tokens from `token` on, and the last token."""
    made: list[Op] = []
    for op in graph.ops:
        if op.name not in UNORDERED and not any(contains(region, UNORDERED) for region in op.regions):
            made.append(op)
            continue
        after = Value(TOKEN)
        if op.name in UNORDERED:
            attrs = {**op.attrs, "results": encode_types((TOKEN,))}
            made.append(Op(ops.callback, (*op.operands, token), (after,), attrs, (), op.loc, op.role))
        elif op.name == "cond":
            made.append(replace(op, operands=(*op.operands, token), results=(*op.results, after),
                                regions=tuple(_region(region, len(region.params), "input") for region in op.regions)))
        else:
            carries = op.attrs["carries"]
            regions = tuple(_region(region, carries, "carried" if number == len(op.regions) - 1 else "input", is_condition=number == 0 and
                                    op.name == "while_loop") for number, region in enumerate(op.regions))
            made.append(replace(op, operands=(*op.operands[:carries], token, *op.operands[carries:]), results=(*op.results, after),
                                regions=regions, attrs={**op.attrs, "carries": carries + 1}))
        token = after
    return made, token


def _region(graph: Graph, place: int, role: str, is_condition: bool = False) -> Graph:
    """A region that takes a token at parameter `place`, and gives one as its last result. A condition gives none."""
    token = Value(TOKEN)
    made, last = _ordered(graph, token)
    if is_condition and last is not token:
        made.append(_end(last))
    return Graph(graph.name, (*graph.params[:place], token, *graph.params[place:]), tuple(made),
                 graph.results if is_condition else (*graph.results, last), (*graph.param_roles[:place], role, *graph.param_roles[place:]))
