"""Derivatives of op records: against finite differences, once and twice; strong zeros; and the choices at kinks and ties."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.each import parametrize_within
from support.op_cases import check_derivative, for_each_op, for_each_sample, gradient_graph, random_like, sample_graph, type_of

from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.definition import Kind, OpDefinition, Sample
from adjit.ir.interpreter import interpret
from adjit.ir.ops.sampling import edges
from adjit.ir.types import BOOL, F32, F64, I64

NAN, INF = float("nan"), float("inf")


@for_each_sample(differentiable=True)
def test_first_derivative(definition: OpDefinition, sample: Sample) -> None:
    for wrt in sample.differentiable:
        check_derivative(sample_graph(definition, sample), sample.arrays, wrt)


@for_each_sample(differentiable=True, twice=True)
def test_second_derivative(definition: OpDefinition, sample: Sample) -> None:
    """The gradient graph is differentiated again, in every differentiable operand and in the cotangent."""
    graph = sample_graph(definition, sample)
    cotangent = random_like(graph.results[0].type, np.random.default_rng(5))
    for wrt in sample.differentiable:
        for again in (*sample.differentiable, len(sample.arrays)):
            check_derivative(gradient_graph(graph, wrt), [*sample.arrays, cotangent], again)


@for_each_sample(differentiable=True)
def test_rules_are_linear_in_the_cotangent(definition: OpDefinition, sample: Sample) -> None:
    """Transposed, a rule is the forward derivative: it has to be the same for every cotangent, also for 0, which `jvp` takes."""
    graph = sample_graph(definition, sample)
    generator = np.random.default_rng(11)
    type = graph.results[0].type
    for wrt in sample.differentiable:
        forward = gradient_graph(gradient_graph(graph, wrt), len(sample.arrays))
        tangent = random_like(type_of(sample.arrays[wrt]), generator)
        (expected,) = interpret(forward, [*sample.arrays, random_like(type, generator), tangent])
        (found,) = interpret(forward, [*sample.arrays, np.zeros(type.shape, type.dtype), tangent])
        tolerance = 1e-9 if definition.kind is Kind.LINALG else 1e-12
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


PARTS = "complex", "real", "imag", "conj"
"""Ops between complex numbers and their parts, whose derivatives multiply nothing."""


def every_combination(count: int, dtype: np.dtype) -> tuple[np.ndarray, ...]:
    return tuple(np.ascontiguousarray(grid).ravel() for grid in np.meshgrid(*[edges(dtype)] * count, indexing="ij"))


def is_refused(definition: OpDefinition, sample: Sample) -> bool:
    """True for complete bases of tall or wide matrices, which are not functions of the matrix."""
    whole = sample.attrs.get("full", sample.attrs.get("complete", False))
    return bool(whole) and sample.arrays[0].shape[-1] != sample.arrays[0].shape[-2]


def has_derivative(definition: OpDefinition) -> bool:
    return definition.vjp is not None and definition.name not in PARTS


@for_each_op(Kind.ELEMENTWISE, where=has_derivative)
@parametrize_within("dtype", [F32, F64])
def test_a_zero_cotangent_contributes_zero(definition: OpDefinition, dtype: np.dtype) -> None:
    """Whatever the operands are, infinite and NaN ones included; also when differentiated twice."""
    arrays: tuple[np.ndarray, ...]
    attrs: dict[str, Any] = {"dtype": dtype} if definition.name == "convert" else {}
    if definition.name == "select":
        left, right = every_combination(2, dtype)
        arrays, floats = (np.arange(left.size) % 2 == 0, left, right), (1, 2)
    else:
        arrays = every_combination(definition.arity or 1, dtype)
        floats = tuple(range(len(arrays)))
    graph = sample_graph(definition, Sample(arrays, attrs))
    zeros, ones = np.zeros(arrays[0].shape, dtype), np.ones(arrays[0].shape, dtype)
    for wrt in floats:
        gradient = gradient_graph(graph, wrt)
        np.testing.assert_array_equal(interpret(gradient, [*arrays, zeros])[0], zeros)
        for again in floats:
            np.testing.assert_array_equal(interpret(gradient_graph(gradient, again), [*arrays, ones, zeros])[0], zeros)


@for_each_op(Kind.ELEMENTWISE, Kind.REDUCTION, Kind.MOVEMENT, Kind.INDEXING, Kind.CONTRACTION, Kind.WINDOW, Kind.SCAN, Kind.LINALG,
             Kind.EXTERNAL, where=has_derivative,
             in_one_item=True)
def test_cotangents_have_the_types_of_the_operands(definition: OpDefinition) -> None:
    """For every float operand of every sample, in its own dtype."""
    for sample in definition.samples():
        if sample_graph(definition, sample).results[0].type.dtype.kind != "f" or is_refused(definition, sample):
            continue
        graph = sample_graph(definition, sample)
        for wrt, array in enumerate(sample.arrays):
            if array.dtype.kind == "f":
                assert gradient_graph(graph, wrt).results[0].type == type_of(array)


def gradients(definition: OpDefinition, *arrays: Any, ct: Any = None, **attrs: Any) -> list[list[float]]:
    """The cotangents of all float operands, for a cotangent of ones."""
    operands = tuple(np.asarray(array) for array in arrays)
    graph = sample_graph(definition, Sample(operands, attrs))
    cotangent = np.ones(graph.results[0].type.shape) if ct is None else np.asarray(ct, F64)
    return [interpret(gradient_graph(graph, wrt), [*operands, cotangent])[0].tolist()
            for wrt, array in enumerate(operands) if array.dtype.kind == "f"]


# -- the choices that the docs of the records state

def test_extrema_share_ties() -> None:
    a, b = [1.0, 2.0, 3.0, NAN, 1.0], [2.0, 2.0, 1.0, 1.0, NAN]
    assert gradients(ops.maximum, a, b) == [[0, 0.5, 1, 0.5, 0.5], [1, 0.5, 0, 0.5, 0.5]]
    assert gradients(ops.minimum, a, b) == [[1, 0.5, 0, 0.5, 0.5], [0, 0.5, 1, 0.5, 0.5]]
    assert gradients(ops.fmax, a, b) == [[0, 0.5, 1, 0, 1], [1, 0.5, 0, 1, 0]]
    assert gradients(ops.fmin, a, b) == [[1, 0.5, 0, 0, 1], [0, 0.5, 1, 1, 0]]


def test_reduced_extrema_share_ties() -> None:
    x = [[3.0, 1.0, 3.0], [1.0, 2.0, 1.0], [NAN, 1.0, 2.0]]
    assert gradients(ops.reduce_max, x, axes=(1,)) == [[[0.5, 0, 0.5], [0, 1, 0], [1 / 3, 1 / 3, 1 / 3]]]
    assert gradients(ops.reduce_min, x, axes=(1,)) == [[[0, 1, 0], [0.5, 0, 0.5], [1 / 3, 1 / 3, 1 / 3]]]
    assert gradients(ops.reduce_max, [[INF, INF], [-INF, -INF]], axes=(0, 1)) == [[[0.5, 0.5], [0, 0]]]


def test_kinks() -> None:
    assert gradients(ops.abs, [-2.0, -0.0, 0.0, 2.0]) == [[-1, 0, 0, 1]]
    assert gradients(ops.sign, [-2.0, 0.0]) == [[0, 0]]
    assert gradients(ops.relu, [-2.0, -0.0, 0.0, 5e-324, 2.0, INF, -INF, NAN]) == [[0, 0, 0, 1, 1, 1, 0, 1]]
    assert gradients(ops.hypot, [0.0, 3.0], [0.0, 4.0]) == [[0, 0.6], [0, 0.8]]
    assert gradients(ops.arctan2, [0.0, 0.0], [0.0, 2.0]) == [[0, 0.5], [0, 0]]
    assert gradients(ops.arctan2, [1.0, INF, -INF], [-INF, 1.0, INF]) == [[0, 0, 0], [0, 0, 0]]
    assert gradients(ops.sqrt, [0.0, 0.0], ct=[0.0, 1.0]) == [[0, INF]]
    assert gradients(ops.select, np.array([True, False]), [1.0, NAN], [NAN, 1.0]) == [[1, 0], [0, 1]]
    assert gradients(ops.stop_gradient, [1.0]) == [[0]]


def test_power() -> None:
    x, y = [0.0, 0.0, 0.0, 0.0, -2.0, -2.0, 3.0], [0.0, 1.0, 2.0, 0.5, 3.0, -1.0, 0.0]
    along_x, along_y = gradients(ops.power, x, y)
    assert along_x == [0, 1, 0, INF, 12, -0.25, 0]
    np.testing.assert_array_equal(along_y, [0, 0, 0, 0, NAN, NAN, np.log(3.0)])


def test_second_derivative_of_power_where_it_is_delicate() -> None:
    x, y = np.array([0.0, 0.0, 0.0, 0.0, 2.0]), np.array([0.0, 1.0, 2.0, 3.0, 0.0])
    gradient = gradient_graph(sample_graph(ops.power, Sample((x, y))), 0)
    ones = np.ones(5)
    assert interpret(gradient_graph(gradient, 0), [x, y, ones, ones])[0].tolist() == [0, 0, 2, 0, 0]
    mixed = interpret(gradient_graph(gradient, 1), [x, y, ones, ones])[0]
    assert mixed[-1] == 0.5      # d/dy of y * x**(y - 1) at (2, 0): a constant 0 in its place would lose this


def test_logaddexp_of_infinities() -> None:
    a, b = [-INF, -INF, INF, INF, 0.0], [-INF, 0.0, INF, -INF, 0.0]
    assert gradients(ops.logaddexp, a, b) == [[0.5, 0, 0.5, 1, 0.5], [0.5, 1, 0.5, 0, 0.5]]


def test_products_with_zeros() -> None:
    x = [[2.0, 3.0, 4.0], [0.0, 3.0, 4.0], [0.0, 3.0, 0.0], [0.0, 0.0, 0.0]]
    assert gradients(ops.reduce_prod, x, axes=(1,)) == [[[12, 8, 6], [12, 0, 0], [0, 0, 0], [0, 0, 0]]]
    assert gradients(ops.cumprod, [2.0, 0.0, 3.0], axis=0, reverse=False) == [[1 + 0 + 0, 2 + 2 * 3, 0]]
    assert gradients(ops.cumprod, [2.0, 0.0, 3.0], axis=0, reverse=True) == [[0, 3 + 2 * 3, 1 + 0 + 0]]


def test_only_the_update_that_arrives_gets_the_cotangent() -> None:
    base, updates = gradients(ops.scatter_set, np.zeros(4), np.array([1, 2, 1, 1]), np.ones(4), ct=[10.0, 20.0, 30.0, 40.0], axis=0)
    assert base == [10, 0, 0, 40]
    assert updates == [0, 30, 0, 20]


def test_conversions() -> None:
    def graph_of(source: np.dtype, target: np.dtype) -> Any:
        return sample_graph(ops.convert, Sample((np.ones(2, source),), {"dtype": target}))

    (result,) = gradient_graph(graph_of(F64, F32), 0).results
    assert str(result.type) == "f64[2]"
    for source in (I64, BOOL):
        def rule(x: Any, ct: Any) -> list[Any]:
            contributions = ops.convert.vjp(ct, (x,), (), {"dtype": F64}) if ops.convert.vjp else ()
            assert list(contributions) == [None]
            return []
        trace_graph("rule", [type_of(np.ones(2, source)), type_of(np.ones(2))], rule)


def test_matmul_rules_hold_no_transposes() -> None:
    for sample in ops.matmul.samples():
        for wrt in sample.differentiable:
            graph = gradient_graph(sample_graph(ops.matmul, sample), wrt)
            assert {op.name for op in graph.ops} == {"matmul"}
