"""The passes that make a graph of a derivative small, one after the other: for graphs that do not go through the pipeline, or not yet."""

from __future__ import annotations

from adjit.ir.graph import Graph
from adjit.passes.options import Options
from adjit.passes.simplify.common_subexpressions import eliminate_common_subexpressions
from adjit.passes.simplify.dead_code import eliminate_dead_code
from adjit.passes.simplify.simplify import simplify


def clean_up(graph: Graph, options: Options) -> Graph:
    """The graph without what does nothing, or is done twice."""
    merged = eliminate_common_subexpressions(simplify(graph, options), options)
    return eliminate_dead_code(merged if merged is graph else simplify(merged, options), options)
