"""Every op that has a NumPy meaning, run as a step of a planned program, gives the bits of the interpreter."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.each import parametrize_within

from adjit.ir.builder import GraphBuilder
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Slot
from adjit.ir.interpreter import interpret
from adjit.ir.types import TensorType
from adjit.runtime.numba.executable import Executable

DEFINED = [d for d in DEFINITIONS.values() if d.kind not in (Kind.REGION, Kind.MEMORY, Kind.CHECK)]


def planned(graph: Graph, space: str) -> Graph:
    """`graph` with every result of every op in a place of its own: in the arena, or where the graph's results go."""
    offset, placed = 0, []
    for op in graph.ops:
        slots = []
        for value in op.results:
            slots.append(Slot("result", graph.results.index(value)) if space == "result" else Slot("arena", offset))
            offset += -(-value.type.nbytes // 64) * 64
        placed.append(replace(op, slots=tuple(slots)))
    return graph.with_ops(placed)


def single(definition: OpDefinition, sample: Sample) -> Graph:
    builder = GraphBuilder(definition.name)
    params = [builder.param(TensorType(array.dtype, array.shape)) for array in sample.arrays]
    with emitting(builder):
        return builder.build(definition.emit(*params, **sample.attrs))


def same_bits(left: object, right: object) -> bool:
    a, b = np.asarray(left), np.asarray(right)
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()


@parametrize_within("space", ["result", "arena"])
@pytest.mark.parametrize("definition", DEFINED, ids=lambda definition: definition.name)
def test_step_equals_interpreter(definition: OpDefinition, space: str) -> None:
    for sample in definition.samples():
        graph = single(definition, sample)
        arrays = [np.array(array, order="C") for array in sample.arrays]
        before = [array.copy() for array in arrays]
        executable = Executable(planned(graph, space), {})
        for _ in range(2):      # the second call uses the memory of the first
            results = executable.run(arrays, arrays)
            for got, expected in zip(results, interpret(graph, arrays), strict=True):
                if definition.kind is Kind.CONTRACTION:
                    np.testing.assert_allclose(got, expected, rtol=1e-5)
                else:
                    assert same_bits(got, expected), sample
                assert isinstance(got, np.ndarray) == bool(expected.ndim)
        assert all(same_bits(a, b) for a, b in zip(arrays, before, strict=True))
