"""A program run again op by op, by the meaning of its ops in NumPy, with a look at each op: the reference for what it should compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from adjit.ir.definition import Kind
from adjit.ir.graph import Graph, Op, Value, last_uses
from adjit.ir.interpreter import evaluate
from adjit.ir.ops.control_flow import run_control_flow
from adjit.ir.ops.traits import CONTROL_FLOW, TRANSFORMS
from adjit.ir.waiting_effects import no_effects
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options
from adjit.passes.regions import contains
from adjit.runtime.debug.compare import perturbed

if TYPE_CHECKING:
    from adjit.runtime.capture.compiled_operation import Half
    from adjit.runtime.program import Program

Arrays = Sequence[np.ndarray]
Observer = Callable[[Op, Arrays, Arrays], None]


def reference_graph(program: Program | Half) -> Graph:
    """Graph of a program before it was optimized, with the parameters of the program: the user's ops and their adjoints."""
    tensors = getattr(program, "tensors", None)
    if tensors is not None and tensors.operation is not None:       # the forward half of an operation
        graph = tensors.operation.opened(tensors.operation.graph)
    else:
        graphs = program.pipeline.graphs
        graph = graphs["adjoint"] if hasattr(program, "trace") else graphs["traced"]
    return differentiate(graph, Options()) if contains(graph, TRANSFORMS) else graph


def run_op_by_op(graph: Graph, arrays: Arrays, observe: Observer | None = None, checks: bool = False, inexact: bool = False
                 ) -> list[np.ndarray]:
    """Results of a graph. `observe(op, operands, results)` is called after each op, also in each iteration of a loop, before the loop
    itself. Effects are left out: they were seen when the program ran. So are guards, which held then, without `checks`. With `inexact`
    what ops compute is off by a few roundings, as the arguments are: another order of additions, or a fused multiplication and addition,
    rounds each of them otherwise, and what cancels shows it."""
    with no_effects():
        return _run(graph, observe, checks, inexact, *(perturbed(arrays) if inexact else arrays))


def _run(graph: Graph, observe: Observer | None, checks: bool, inexact: bool, *arrays: np.ndarray) -> list[np.ndarray]:
    known: dict[Value, np.ndarray] = dict(zip(graph.params, arrays, strict=True))
    last = last_uses(graph)
    for index, op in enumerate(graph.ops):
        operands = [known[value] for value in op.operands]
        if op.definition.is_check and not checks:
            continue
        if op.name in CONTROL_FLOW:
            results = run_control_flow(op, [partial(_run, region, observe, checks, inexact) for region in op.regions])(*operands)
        else:
            results = evaluate(op.definition, operands, op.attrs, op.regions)
            if inexact and op.definition.kind not in (Kind.CREATION, Kind.MOVEMENT, Kind.INDEXING):
                results = tuple(perturbed(results))
        known.update(zip(op.results, results, strict=True))
        if observe is not None:
            observe(op, operands, results)
        for value in {*op.operands, *op.results}:
            if last[value] == index:
                del known[value]
    return [known[value] for value in graph.results]
