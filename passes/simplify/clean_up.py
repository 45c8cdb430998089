"""The passes that make a graph of a derivative small, one after the other: for graphs that do not go through the pipeline, or not yet."""

from __future__ import annotations

from adjit.ir.graph import Graph
from adjit.passes.options import Options
from adjit.passes.simplify.common_subexpressions import eliminate_common_subexpressions
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.simplify import simplify

_PASSES = (simplify, eliminate_common_subexpressions, simplify, eliminate_dead_code)


def clean_up(graph: Graph, options: Options) -> Graph:
    """The graph without what does nothing, or is done twice."""
    for step in _PASSES:
        graph = step(graph, options)
    return graph
