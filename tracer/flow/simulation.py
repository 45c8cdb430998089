"""Simulation: what the rest of a call does as far as the flow graph knows it, computed by the recorded blocks, without Python.

A loop of a thousand rounds is known after a few. Where the call would go from there is a matter of numbers: NumPy runs the blocks of the
rounds in a tenth of the time that Python takes to trace them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.ops.traits import EXPANDED
from adjit.ir.waiting_effects import no_effects
from adjit.tracer.flow.flow_graph import Block, FlowGraph, Key

MAX_OPS = 300_000
"""Most ops that a simulation runs: a second."""


class Reached(NamedTuple):
    """The last point that Python comes by, and its state; `steps` is the number of points before. `ends`: it is the result of the function,
    else its outcome has not been seen, or leads to what has not been seen."""

    key: Key
    state: tuple[np.ndarray, ...]
    steps: int
    ends: bool


class Simulation:
    """Runs the blocks of a flow graph. `expand` expands the transforms in a graph."""

    def __init__(self, graph: FlowGraph, expand: Callable[[Graph], Graph]):
        self._graph, self._expand = graph, expand
        self._prepared: dict[int, tuple[Block, Graph, list[int], list[np.ndarray]]] = {}

    def run(self, key: Key, state: Sequence[np.ndarray]) -> Reached | None:
        """Go on from a point with this state as far as the way is known; None where this takes too long. Effects are dropped."""
        with no_effects():
            return self._run_blocks(key, state)

    def _run_blocks(self, key: Key, state: Sequence[np.ndarray]) -> Reached | None:
        graph, left = self._graph, MAX_OPS
        now = tuple(state)
        at, arrays, steps = key, now, 0
        while True:
            blocks = graph.blocks.get(key)
            if key not in graph.between and key not in graph.checked:
                at, arrays, steps = key, now, steps + 1
                if not blocks:
                    return Reached(at, arrays, steps, True)
            block = None if blocks is None else blocks.get(bool(now[-1]))
            if block is None:
                return Reached(at, arrays, steps, False)
            left -= len(block.ops) + 1
            if left < 0:
                return None
            key, now = block.end, self._run(block, now)

    def _run(self, block: Block, state: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        known = self._prepared.get(id(block))
        if known is None or known[0] is not block:
            params: dict[Value, int] = {}
            for place, value in enumerate(block.inputs):
                params.setdefault(value, place)
            captured = {value: np.asarray(array) for value, array in block.captured.items() if value not in params}
            graph = Graph("block", (*params, *captured), block.ops, block.outputs)
            if any(op.name in EXPANDED or op.regions for op in block.ops):
                graph = self._expand(graph)
            known = self._prepared[id(block)] = block, graph, list(params.values()), list(captured.values())
        _, graph, places, captured_arrays = known
        return interpret(graph, [*(state[place] for place in places), *captured_arrays])
