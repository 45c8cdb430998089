"""Runs a graph op by op with NumPy: the meaning of every program, against which all backends are tested."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from adjit.ir.errors import IndexingError
from adjit.ir.evaluator import evaluate
from adjit.ir.graph import Graph, Op, Value, last_uses


def interpret(graph: Graph, arrays: Sequence[np.ndarray], on_op: Callable[[Op], None] | None = None) -> tuple[np.ndarray, ...]:
    """The results of `graph` for `arrays`, one a parameter. Values are dropped after their last use; `on_op` is told each op that ran.
    Raises `IndexingError` for an index that is out of range."""
    known: dict[Value, np.ndarray] = dict(zip(graph.params, arrays, strict=True))
    last = last_uses(graph)
    for index, op in enumerate(graph.ops):
        try:
            outs = evaluate(op.definition, [known[v] for v in op.operands], op.attrs, op.regions)
        except IndexError as error:
            raise error if isinstance(error, IndexingError) else IndexingError(f"{op.name}: {error}", op.loc) from None
        known.update(zip(op.results, outs, strict=True))
        if on_op is not None:
            on_op(op)
        for value in {*op.operands, *op.results}:
            if last[value] == index:
                del known[value]
    return tuple(known[value] for value in graph.results)
