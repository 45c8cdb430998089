"""Batching rule of each op, from its samples: a batch gives what a loop over the examples gives, for every choice of batched operands."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.op_cases import assert_identical, for_each_sample, sample_graph

from adjit.ir.batching import batch_region, batched_results, rule_of
from adjit.ir.builder import trace_graph
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample, define
from adjit.ir.errors import IndexingError
from adjit.ir.interpreter import interpret
from adjit.ir.ops import scatter_add, scatter_set, take
from adjit.ir.types import F64, I64, TensorType

SIZE = 3
SUMS_IN_ANOTHER_ORDER = {"matmul", "convolution", "convolution_kernel_gradient"}
"""Ops that NumPy's matmul computes here, whose sums depend on the shapes of the factors."""


def batch_like(array: np.ndarray) -> np.ndarray:
    """A batch of arrays like this one, the same elements in other places: indices stay in range, and edges are there."""
    flat = np.ascontiguousarray(array).reshape(-1)
    return np.stack([flat, flat[::-1], np.roll(flat, 1)]).reshape(SIZE, *array.shape)


@for_each_sample()
def test_batch_is_a_loop_over_the_examples(definition: OpDefinition, sample: Sample) -> None:
    if definition.name in ("lu_inverse", "lu_solve"):       # operands in other places are no factors
        return
    graph = sample_graph(definition, sample)
    for flags in itertools.product((False, True), repeat=len(sample.arrays)):
        if not any(flags) or definition.kind is Kind.CREATION:
            continue
        given = [batch_like(array) if flag else array for array, flag in zip(sample.arrays, flags, strict=True)]
        batched = batch_region(graph, flags, SIZE)
        assert batched_results(batched, graph) == [True]
        (found,) = interpret(batched, given)
        for example in range(SIZE):
            (expected,) = interpret(graph, [array[example, ...] if flag else array for array, flag in zip(given, flags, strict=True)])
            if definition.name in SUMS_IN_ANOTHER_ORDER or definition.kind is Kind.LINALG:
                tolerance = 1e-5 if expected.dtype == np.float32 else 1e-13
                np.testing.assert_allclose(found[example], expected, rtol=tolerance, atol=tolerance)
            else:
                assert_identical(found[example, ...], expected)


def test_right_hand_sides_for_one_matrix_are_columns() -> None:
    attrs = {"lower": True, "transpose": False, "unit": False}
    graph = trace_graph("systems", [TensorType(F64, (4, 4)), TensorType(F64, (4, 2))],
                        lambda a, b: [DEFINITIONS["triangular_solve"](a, b, **attrs)])
    (system,) = (op for op in batch_region(graph, (False, True), 5).ops if op.name == "triangular_solve")
    assert [value.type.shape for value in system.operands] == [(4, 4), (4, 10)]


def test_shared_matrix_is_not_repeated() -> None:
    """All examples are rows, or columns, of one product."""
    for flags, shapes in (((True, False), ((4, 3), (3, 2))), ((False, True), ((4, 3), (3, 2))), ((False, True), ((4, 3), (3, 1)))):
        graph = trace_graph("product", [TensorType(F64, shape) for shape in shapes],
                            lambda a, b: [DEFINITIONS["matmul"](a, b, transpose_a=False, transpose_b=False)])
        batched = batch_region(graph, flags, 100)
        assert "broadcast" not in {op.name for op in batched.ops}
        (product,) = (op for op in batched.ops if op.name == "matmul")
        assert product.operands[0].type.rank == 2


@pytest.mark.parametrize("shared", ["nothing", "x"])
def test_index_has_to_fit_its_own_example(shared: str) -> None:
    """Index 3 is out of range for an example of 3 elements, though there are 6 in all."""
    x, indices = np.arange(6.0).reshape(2, 3), np.array([[3], [0]], I64)
    base, at, update = TensorType(F64, (3,)), TensorType(I64, (1,)), TensorType(F64, (1,))
    cases = [(trace_graph("take", [base, at], lambda x, i: [take(x, i, axis=0)]), ())]
    for op in (scatter_add, scatter_set):
        cases.append((trace_graph(op.name, [base, at, update], lambda x, i, y, op=op: [op(x, i, y, axis=0)]), (np.ones(1),)))
    for graph, others in cases:
        flags = [shared == "nothing", True, *[False] * len(others)]
        whole = shared == "x" and graph.ops[0].name == "take"     # the index is looked up as it is
        message = "index 3 is out of bounds for axis 0 with size 3" if whole else "one of several indices is out of range for its axis"
        with pytest.raises(IndexingError, match=message):
            interpret(batch_region(graph, flags, 2), [x if flags[0] else x[0], indices, *others])


def test_every_op_has_a_rule_or_says_that_it_has_none() -> None:
    without = {name for name, definition in DEFINITIONS.items() if definition.kind is not Kind.CREATION and rule_of(definition) is None}
    assert without == {"callback", "effect", "effects_end", "guard", "tiled", "fused", "matmul_epilogue", "free", "panels"}
    with pytest.raises(ValueError, match="state their `batch`"):
        define("moved", Kind.MOVEMENT, doc="Moves.", infer=lambda x: x, evaluate=lambda x: x, samples=list, vjp=None)
