"""Ops of complex numbers: what pairs of reals compute against what the records say, and derivatives against finite differences."""

from __future__ import annotations

import numpy as np
from support.complex_cases import complex_cases
from support.each import for_each
from support.op_cases import check_derivative, gradient_graph, random_like, sample_graph

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.definition import OpDefinition, Sample
from adjit.ir.interpreter import interpret
from adjit.ir.types import F64, TensorType
from adjit.passes.complex_numbers.split_complex import BORDERS, split_complex
from adjit.passes.options import Options

OPTIONS = Options()
KINKED = {"reduce_max", "reduce_min", "maximum", "minimum", "fmax", "fmin", "argmax", "argmin", "argsort"}


def test_most_ops_take_complex_numbers() -> None:
    taken = {definition.name for _, definition, _ in complex_cases()}
    assert len(taken) > 60
    assert taken >= {"exp", "matmul", "reduce_prod", "scatter_add", "abs", "power", "concatenate", "argsort"}


def check_pairs(definition: OpDefinition, sample: Sample) -> None:
    """The split graph has no op of complex numbers left, and gives the same numbers."""
    graph = sample_graph(definition, sample)
    split = split_complex(graph, OPTIONS)
    for op in split.ops:
        assert op.definition.alias or op.name in BORDERS or not any(v.type.dtype.kind == "c" for v in (*op.operands, *op.results)), op
    (expected,), (found,) = interpret(graph, sample.arrays), interpret(split, sample.arrays)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "fc":
        eps = np.finfo(expected.dtype).eps
        np.testing.assert_allclose(found, expected, rtol=64 * eps, atol=64 * eps * np.max(np.abs(expected), initial=0))
    else:
        np.testing.assert_array_equal(found, expected)


def test_pairs_of_reals_compute_what_records_say() -> None:
    for_each([(name, (definition, sample)) for name, definition, sample in complex_cases()], check_pairs)


def differentiable() -> list[tuple[str, tuple[OpDefinition, Sample]]]:
    return [(name, (definition, sample)) for name, definition, sample in complex_cases() if sample.differentiable]


def check_first(definition: OpDefinition, sample: Sample) -> None:
    for wrt in sample.differentiable:
        check_derivative(sample_graph(definition, sample), sample.arrays, wrt)


def check_second(definition: OpDefinition, sample: Sample) -> None:
    graph = sample_graph(definition, sample)
    cotangent = random_like(graph.results[0].type, np.random.default_rng(5))
    for wrt in sample.differentiable:
        for again in (*sample.differentiable, len(sample.arrays)):
            check_derivative(gradient_graph(graph, wrt), [*sample.arrays, cotangent], again)


def test_first_derivatives() -> None:
    for_each(differentiable(), check_first)


def test_second_derivatives() -> None:
    for_each([case for case in differentiable() if case[1][1].twice], check_second)


def test_derivatives_as_pairs() -> None:
    """The gradient graph, split, gives the same numbers."""
    def check(definition: OpDefinition, sample: Sample) -> None:
        graph = gradient_graph(sample_graph(definition, sample), sample.differentiable[0])
        arrays = [*sample.arrays, random_like(graph.params[-1].type, np.random.default_rng(5))]
        (expected,), (found,) = interpret(graph, arrays), interpret(split_complex(graph, OPTIONS), arrays)
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)

    for_each(differentiable(), check)


def test_graph_of_reals_is_returned_as_it_is() -> None:

    graph = trace_graph("f", [TensorType(F64, (2,))], lambda x: [ops.exp(x)])
    assert split_complex(graph, OPTIONS) is graph
