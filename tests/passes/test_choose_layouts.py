"""Chains of elementwise ops are turned where transposes go: how many are left, and that the meaning stays."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjit.ir import ops
from adjit.ir.builder import GraphBuilder
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.ops.creation import table_attributes
from adjit.ir.types import TensorType
from adjit.ir.verifier import Stage, verify
from adjit.passes.choose_layouts import choose_layouts
from adjit.passes.options import Options
from adjit.runtime.compile_function import compile
from adjit.runtime.transforms import value_and_grad

I64 = np.dtype(np.int64)


def transposed_bytes(graph: Graph) -> int:
    return sum(op.result.type.nbytes for op in graph.ops if op.name == "transpose")


def names(graph: Graph) -> list[str]:
    return [op.name for op in graph.ops]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Whole numbers that are added, repeated, summed, turned and multiplied in any order."""
    rank = draw(st.integers(2, 4))
    shape = tuple(draw(st.lists(st.integers(0, 4), min_size=rank, max_size=rank)))
    builder = GraphBuilder("f")
    with emitting(builder):
        values = [builder.param(TensorType(I64, shape), "x"), builder.param(TensorType(I64, shape[1:]), "y")]
        for _ in range(draw(st.integers(1, 14))):
            values.append(draw_value(draw, values))
        results = draw(st.lists(st.sampled_from(values), min_size=1, max_size=3))
    return builder.build(results)


def draw_value(draw: st.DrawFn, values: list[Value]) -> Value:
    x = draw(st.sampled_from(values[-4:]))
    rank = x.type.rank
    kind = draw(st.sampled_from(("transpose", "transpose", "add", "add", "negative", "sum", "broadcast", "constant", "iota", "table",
                                 "reshape")))
    if kind == "transpose":
        return ops.transpose(x, permutation=tuple(draw(st.permutations(range(rank)))))
    if kind == "add":
        return ops.add(x, draw(st.sampled_from([value for value in values if value.type == x.type])))
    if kind == "sum" and rank:
        axes = tuple(sorted(draw(st.sets(st.integers(0, rank - 1), min_size=1))))
        return ops.reduce_sum(x, axes=axes)
    if kind == "broadcast" and rank < 4:
        axis, size = draw(st.integers(0, rank)), draw(st.integers(0, 3))
        shape = (*x.type.shape[:axis], size, *x.type.shape[axis:])
        return ops.broadcast(x, shape=shape, axes=tuple(i for i in range(rank + 1) if i != axis))
    if kind == "constant":
        return ops.add(x, ops.constant(value=3, dtype=I64, shape=x.type.shape))
    if kind == "table":
        return ops.multiply(x, ops.table(**table_attributes(np.arange(x.type.size).reshape(x.type.shape))))
    if kind == "iota" and rank:
        return ops.multiply(x, ops.iota(dtype=I64, shape=x.type.shape, axis=draw(st.integers(0, rank - 1))))
    if kind == "reshape" and rank > 1:
        return ops.reshape(x, shape=(x.type.shape[0] * x.type.shape[1], *x.type.shape[2:]))
    return ops.negative(x)


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_meaning_stays_and_no_more_is_transposed(graph: Graph) -> None:
    found = choose_layouts(graph, Options())
    verify(found, Stage.OPTIMIZED, after="choose_layouts")
    assert transposed_bytes(found) <= transposed_bytes(graph)
    arrays = [np.arange(p.type.size, dtype=I64).reshape(p.type.shape) * (7 + i) - 11 for i, p in enumerate(graph.params)]
    for expected, got in zip(interpret(graph, arrays), interpret(found, arrays), strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("order", list(itertools.permutations(range(3)))[1:], ids=str)
def test_a_chain_between_two_transposes_is_turned(order: tuple[int, ...]) -> None:
    back = tuple(order.index(axis) for axis in range(3))
    builder = GraphBuilder("f")
    with emitting(builder):
        x, s = builder.param(TensorType(np.dtype("f8"), (2, 3, 4)), "x"), builder.param(TensorType(np.dtype("f8"), (2, 3, 4)), "s")
        inside = ops.tanh(ops.transpose(x, permutation=order))
        scaled = ops.multiply(inside, ops.transpose(s, permutation=order))
        graph = builder.build([ops.transpose(scaled, permutation=back)])
    assert names(choose_layouts(graph, Options())) == ["tanh", "multiply"]


def test_a_chain_with_one_transpose_stays() -> None:
    """Turning it would move the transpose to its other end."""
    builder = GraphBuilder("f")
    with emitting(builder):
        x = builder.param(TensorType(np.dtype("f8"), (2, 3)), "x")
        graph = builder.build([ops.transpose(ops.tanh(x), permutation=(1, 0))])
    assert choose_layouts(graph, Options()) is graph


@cache
def mixture() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(5)
    return tuple(rng.standard_normal(shape) for shape in ((4,), (4, 3), (4, 3, 3), (50, 3)))


def objective(al, mu, factors, x):
    """The likelihood of a mixture: products of a matrix for each of 4 parts with each of 50 rows."""
    centred = x[:, None, :] - mu[None]
    turned = centred + np.einsum("kij,nkj->nki", factors, centred)
    main = al - 0.5 * (turned**2).sum(-1)
    top = main.max(1, keepdims=True)
    return (np.log(np.exp(main - top).sum(1)) + top[:, 0]).sum()


@pytest.mark.parametrize("backend", ["interpret", "numba", "native"])
def test_gradients_of_a_turned_program(backend: str) -> None:
    """As finite differences in a direction; none of the large values of three axes is transposed."""
    arrays = mixture()
    function = compile(lambda *a: value_and_grad(objective, argnums=(0, 1, 2))(*a), backend=backend)
    value, gradients = function(*arrays)
    np.testing.assert_allclose(value, objective(*arrays), rtol=1e-12)
    rng = np.random.default_rng(1)
    directions = [rng.standard_normal(a.shape) for a in arrays[:3]]
    step = 1e-6
    sides = [objective(*(a + sign * step * d for a, d in zip(arrays[:3], directions, strict=True)), arrays[3]) for sign in (1, -1)]
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradients, directions, strict=True))
    np.testing.assert_allclose(slope, (sides[0] - sides[1]) / (2 * step), rtol=1e-6)
    optimized = function.program(function.fun, arrays, {}).pipeline.graphs["optimized"]
    assert {op.result.type.rank for op in optimized.ops if op.name == "transpose"} == {2}
