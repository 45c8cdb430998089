"""Simplifies a graph by rules that keep every bit of every result; the few exceptions are named in the modules of the rules."""

from __future__ import annotations

from adjit.ir.graph import Graph
from adjit.passes.options import Options
from adjit.passes.simplify.algebra import ALGEBRA
from adjit.passes.simplify.complex_numbers import COMPLEX
from adjit.passes.simplify.constants import CONSTANTS
from adjit.passes.simplify.movement import MOVEMENT
from adjit.passes.simplify.padding import PADDING
from adjit.passes.simplify.products import PRODUCTS
from adjit.passes.simplify.reductions import REDUCTIONS
from adjit.passes.simplify.rewrite import merge, rewrite
from adjit.passes.simplify.windows import WINDOWS

RULES = merge(CONSTANTS, COMPLEX, ALGEBRA, MOVEMENT, PADDING, PRODUCTS, REDUCTIONS, WINDOWS)


def simplify(graph: Graph, options: Options) -> Graph:
    """Apply the rules of `constants`, `algebra`, `movement`, `padding`, `products`, `reductions` and `windows` to all ops in one walk.

    Ops that a rule leaves unused are dropped by `eliminate_dead_code`.

    Before:
        graph @f(%x: f32[2,3]) {
          %one: f32[2,3] = constant {dtype=f32, shape=(2, 3), value=1.0}
          %a: f32[2,3] = multiply %x, %one
          %b: f32[3,2] = transpose %a {permutation=(1, 0)}
          %c: f32[2,3] = transpose %b {permutation=(1, 0)}
          %d: f32[2,3] = negative %c
          return %d
        }

    After:
        graph @f(%x: f32[2,3]) {
          %one: f32[2,3] = constant {dtype=f32, shape=(2, 3), value=1.0}
          %b: f32[3,2] = transpose %x {permutation=(1, 0)}
          %d: f32[2,3] = negative %x
          return %d
        }
    """
    return rewrite(graph, RULES)
