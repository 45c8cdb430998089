"""Samples of all op records as test cases, and the graphs that tests make of them.

A new op is covered by its record alone: everything here is driven by `DEFINITIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from support.each import for_each, item_like, parametrize_within

import adjit.ir.ops  # noqa: F401  (fills DEFINITIONS)
from adjit.ir.builder import GraphBuilder, trace_graph
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample
from adjit.ir.emitter import emitting
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.ops import add, concatenate, full_like, reshape, view_as_real
from adjit.ir.types import TensorType

Case = tuple[str, OpDefinition, Sample]


def op_cases() -> Iterator[Case]:
    """Yield (id, definition, sample) of every sample of every op."""
    for name, definition in sorted(DEFINITIONS.items()):
        for index, sample in enumerate(definition.samples()):
            yield f"{name}-{index}", definition, sample


PARTS = 6
"""Items that samples are divided among, so that they run side by side."""


def in_parts(arguments: Sequence[str], cases: Sequence[tuple[str, tuple[Any, ...]]],
             ) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of these arguments check named cases, in few items: an item costs more than most cases."""
    def decorate(test: Callable[..., None]) -> Callable[..., None]:
        def item(part: int, **others: Any) -> None:
            for_each(((name, (values,)) for name, values in cases[part::PARTS]),
                     lambda values: test(**dict(zip(arguments, values, strict=True)), **others))

        return pytest.mark.parametrize("part", range(min(PARTS, len(cases))))(item_like(item, test, arguments, also="part"))

    return decorate


def for_each_sample(*, differentiable: bool = False, twice: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of `definition` and `sample` check every sample; on request only samples whose first, or second, derivative is to be
    checked."""
    return in_parts(("definition", "sample"), [
        (name, (definition, sample)) for name, definition, sample in op_cases()
        if (sample.differentiable or not differentiable) and (sample.twice or not twice)])


def for_each_op(*kinds: Kind, where: Callable[[OpDefinition], bool] = lambda definition: True,
                in_one_item: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Make a test of `definition` check every op of these kinds; `in_one_item`: for tests that take almost no time."""
    records = {name: record for name, record in sorted(DEFINITIONS.items()) if record.kind in kinds and where(record)}
    if in_one_item:
        return parametrize_within("definition", records.values(), ids=records)
    return in_parts(("definition",), [(name, (record,)) for name, record in records.items()])


def first_of_each_dtype(samples: Iterable[Sample]) -> list[Sample]:
    """Return the first sample of each combination of dtypes."""
    return list({tuple(array.dtype for array in sample.arrays): sample for sample in reversed(list(samples))}.values())


def type_of(array: np.ndarray) -> TensorType:
    return TensorType(array.dtype, array.shape)


def sample_graph(definition: OpDefinition, sample: Sample) -> Graph:
    """Make the graph of one call of the op: a parameter for every array of the sample. The floats of several results, and the
    parts of complex ones, become one."""
    def call(*values: Value) -> list[Value]:
        results = definition.emit(*values, **sample.attrs)
        if len(results) == 1:
            return list(results)
        floats = [view_as_real(x) if x.type.dtype.kind == "c" else x for x in results if x.type.dtype.kind in "fc"]
        return [concatenate(*(reshape(x, shape=(x.type.size,)) for x in floats), axis=0)]

    return trace_graph("sample", [type_of(array) for array in sample.arrays], call)


def gradient_graph(graph: Graph, wrt: int) -> Graph:
    """Make the graph of the cotangent of parameter `wrt`, for the parameters of `graph` (one result) and the cotangent of its result.

    The reverse walk in its plainest form, independent of the passes.
    """
    builder = GraphBuilder(f"gradient_of_{graph.name}")
    known: dict[Value, Value] = {value: builder.param(value.type) for value in graph.params}
    with emitting(builder):
        for op in graph.ops:
            results = op.definition.emit(*(known[value] for value in op.operands), regions=op.regions, **op.attrs)
            known.update(zip(op.results, results, strict=True))
        (result,) = graph.results
        cotangents: dict[Value, Value] = {result: builder.param(result.type)}
        for op in reversed(graph.ops):
            given = tuple(cotangents.get(result) for result in op.results)
            if given.count(None) == len(given) or op.definition.vjp is None:
                continue
            contributions = op.definition.vjp(
                given if len(given) > 1 else given[0], tuple(known[v] for v in op.operands), tuple(known[v] for v in op.results), op.attrs)
            for operand, contribution in zip(op.operands, contributions, strict=True):
                if isinstance(contribution, Value):     # samples are differentiated where there is a derivative
                    cotangents[operand] = add(cotangents[operand], contribution) if operand in cotangents else contribution
        target = graph.params[wrt]
        return builder.build([cotangents[target] if target in cotangents else full_like(known[target], 0.0)])


def random_like(type: TensorType, generator: np.random.Generator) -> np.ndarray:
    """Normal numbers of a type, complex ones with two independent parts."""
    numbers = np.asarray(generator.normal(size=type.shape))
    return numbers + 1j * generator.normal(size=type.shape) if type.dtype.kind == "c" else numbers


def check_derivative(graph: Graph, arrays: Sequence[np.ndarray], wrt: int, step: float = 1e-6) -> None:
    """Compare the derivative of `graph` in one float64 or complex128 parameter with central differences, projected on random directions.
    Rules pair complex numbers as Re(ct * t)."""
    generator = np.random.default_rng(7)
    (result,) = graph.results
    cotangent = random_like(result.type, generator)
    direction = random_like(type_of(arrays[wrt]), generator)

    def along(distance: float) -> np.ndarray:
        moved = list(arrays)
        moved[wrt] = np.asarray(arrays[wrt] + distance * direction)
        return interpret(graph, moved)[0]

    expected = np.sum(cotangent * (along(step) - along(-step)) / (2 * step)).real
    (found,) = interpret(gradient_graph(graph, wrt), [*arrays, cotangent])
    assert found.shape == arrays[wrt].shape
    assert found.dtype == arrays[wrt].dtype
    np.testing.assert_allclose(np.sum(found * direction).real, expected, rtol=1e-6, atol=1e-7)


def assert_identical(found: np.ndarray, expected: np.ndarray) -> None:
    """Assert equal dtype, shape and numbers; NaN equals NaN, and -0.0 differs from 0.0."""
    expected = np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    np.testing.assert_array_equal(found, expected)
    if found.dtype.kind == "c":
        for part, other in ((found.real, expected.real), (found.imag, expected.imag)):
            assert_identical(part, other)
    elif found.dtype.kind == "f":
        numbers = ~np.isnan(found)
        np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(expected)[numbers])
