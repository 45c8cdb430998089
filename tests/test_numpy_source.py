"""Graphs as Python functions over NumPy, against the interpreter."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from op_cases import for_each_sample, sample_graph
from random_programs import random_program

from adjit.codegen.numpy_source import NumpyFunction, compile_graph
from adjit.ir.definition import OpDefinition, Sample
from adjit.ir.graph import Graph
from adjit.ir.interpreter import interpret


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> tuple[NumpyFunction, tuple[np.ndarray, ...]]:
    """The function of a graph and what it gives, checked for everything that holds of all results."""
    function = compile_graph(graph)
    before = [array.copy() for array in arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        results = function.run(*arrays)
        again = function.run(*arrays)
    assert isinstance(results, tuple)
    assert len(results) == len(function.fresh) == len(graph.results)
    for array, old in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, old)
    for index, (result, value) in enumerate(zip(results, graph.results, strict=True)):
        assert type(result) is np.ndarray
        assert (result.dtype, result.shape) == (value.type.dtype, value.type.shape)
        if function.fresh[index]:
            assert result.flags.writeable
            others = (*arrays, *again, *results[:index], *results[index + 1:])
            assert not any(np.shares_memory(result, other) for other in others)
    return function, results


@for_each_sample()
def test_samples(definition: OpDefinition, sample: Sample) -> None:
    graph = sample_graph(definition, sample)
    _, (found,) = run(graph, sample.arrays)
    (expected,) = interpret(graph, sample.arrays)
    np.testing.assert_array_equal(found, expected)


@settings(max_examples=400, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 1 << 64).map(Random), st.integers(1, 14), st.booleans())
def test_random_programs(choose: Random, size: int, wild: bool) -> None:
    program = random_program(choose, size, wild)
    _, results = run(program.graph, program.arrays)
    program.check(results, "")
