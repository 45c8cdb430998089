"""Drops `stop_gradient` and `vary` ops, which only differentiation reads."""

from __future__ import annotations

from adjit.ir.graph import Graph, Op, Value
from adjit.passes.options import Options
from adjit.passes.simplify.rewrite import Rewriter, RuleTable, rewrite

RULES = RuleTable(of_complex=True)


@RULES.rule("stop_gradient", "vary")
def use_the_operand(op: Op, graph: Rewriter) -> Value | None:
    return op.operands[0]


def remove_stop_gradients(graph: Graph, options: Options) -> Graph:
    """Replace `stop_gradient(x)` by `x`, and `vary(x, table)` too.

    Before:
        graph @f(%x: f32[3]) {
          %a: f32[3] = stop_gradient %x
          %b: f32[3] = multiply %a, %x
          return %b
        }

    After:
        graph @f(%x: f32[3]) {
          %b: f32[3] = multiply %x, %x
          return %b
        }
    """
    return rewrite(graph, RULES)
