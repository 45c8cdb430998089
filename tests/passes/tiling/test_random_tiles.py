"""Random chains of products, transposes, sums and elementwise ops over a batch that lies anywhere: tiles keep their meaning, bit for bit.

The numbers are small whole ones, so that no order of operations rounds.
"""

from __future__ import annotations

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.errors import Role
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.printer import print_graph
from adjit.ir.types import F64, TensorType
from adjit.ir.verifier import Stage, verify
from adjit.passes.options import Options
from adjit.passes.tiling.tile_batch import tile_batch

BATCH = 96


def tensor(*shape: int) -> TensorType:
    return TensorType(F64, shape)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    builder = GraphBuilder("f")
    with emitting(builder):
        parts, inner = draw(st.sampled_from([(3, 4), (2, 16), (8, 2), (1, 5)]))
        data = builder.param(tensor(BATCH, inner), "x")
        matrices = builder.param(tensor(parts, inner, inner), "m")
        chain = [ops.broadcast(data, shape=(BATCH, parts, inner), axes=(0, 2))]
        for number in range(draw(st.integers(4, 14))):
            role = draw(st.sampled_from((Role.PRIMAL, Role.PRIMAL, Role.ADJOINT)))
            with builder.at(role=role):
                chain.append(step(draw, chain, matrices, "matmul" if number in (0, 2) else draw(KINDS)))
        results = draw(st.lists(st.sampled_from(chain[-4:]), max_size=2))
        results.append(ops.reduce_sum(chain[-1], axes=tuple(range(chain[-1].type.rank))))
    return builder.build(results)


KINDS = st.sampled_from(("matmul", "matmul", "transpose", "elementwise", "reduce", "merge", "inner"))


def step(draw: st.DrawFn, chain: list[Value], matrices: Value, kind: str) -> Value:
    value = draw(st.sampled_from(chain[-3:]))
    rank = value.type.rank
    if kind == "matmul" and rank == 3:
        parts, inner = matrices.type.shape[:2]
        batch = value.type.shape.index(BATCH)
        part = next(axis for axis in range(3) if axis != batch and value.type.shape[axis] == parts)
        last = ({0, 1, 2} - {batch, part}).pop()
        if value.type.shape[last] != inner:
            return ops.sign(value)
        turned = draw(st.booleans())
        operand = ops.sign(ops.transpose(value, permutation=(part, batch, last) if turned else (part, last, batch)))
        if turned:
            return ops.matmul(operand, matrices, transpose_a=False, transpose_b=draw(st.booleans()))
        return ops.matmul(matrices, operand, transpose_a=draw(st.booleans()), transpose_b=False)
    if kind == "transpose":
        return ops.transpose(value, permutation=tuple(draw(st.permutations(range(rank)))))
    if kind == "elementwise":
        other = draw(st.sampled_from([other for other in chain if other.type == value.type]))
        return ops.maximum(ops.negative(value), ops.sign(other))
    if kind == "reduce" and rank == 3:
        axis = draw(st.integers(0, 2))
        small = ops.sign(ops.reduce_sum(value, axes=(axis,)))
        axes = tuple(other for other in range(3) if other != axis)
        return ops.add(value, ops.broadcast(small, shape=value.type.shape, axes=axes))
    if kind == "inner" and rank == 3:
        signs = ops.sign(value)
        return ops.add(value, ops.broadcast(ops.reduce_sum(ops.matmul(signs, signs, transpose_a=True, transpose_b=False), axes=(0, 1, 2)),
                                            shape=value.type.shape, axes=()))
    if kind == "merge" and rank == 3:
        before = value.type.shape
        return ops.reshape(ops.negative(ops.reshape(value, shape=(before[0] * before[1], before[2]))), shape=before)
    return ops.sign(value)


@settings(max_examples=150, deadline=None)
@given(graphs(), st.sampled_from([1024, 4096, 16384]))
def test_panels_keep_every_bit(graph: Graph, cache_bytes: int) -> None:
    after = tile_batch(graph, Options(cache_bytes=cache_bytes))
    found = [op for op in after.ops if op.name == "tiled"]
    event("in tiles" if found else "as it was")
    verify(after, Stage.OPTIMIZED, after="tile_batch")
    assert parse(print_graph(after)) == after
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-3, 4, param.type.shape).astype(np.float64) for param in graph.params]
    for expected, got in zip(interpret(graph, arrays), interpret(after, arrays), strict=True):
        np.testing.assert_array_equal(got, expected)
