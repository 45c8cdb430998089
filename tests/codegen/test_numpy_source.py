"""Graphs as Python functions over NumPy, against the interpreter."""

from __future__ import annotations

import tracemalloc
import warnings
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.op_cases import for_each_sample, sample_graph, type_of
from support.random_derivatives import gradient, random_function
from support.random_programs import random_program

from adjit.codegen.numpy import graph_function
from adjit.codegen.numpy.chunks import KernelCompiler, is_slow
from adjit.codegen.numpy.graph_function import NumpyFunction, compile_graph
from adjit.codegen.numpy.op_functions import broadcasting
from adjit.ir import ops
from adjit.ir.builder import trace_graph
from adjit.ir.definition import DEFINITIONS, Kind, OpDefinition, Sample
from adjit.ir.graph import Graph, Value
from adjit.ir.interpreter import interpret
from adjit.ir.types import F32, F64, I64, TensorType
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options

RANDOM = st.integers(0, 1 << 64).map(Random)
GENERATOR = np.random.default_rng(3)


def run(graph: Graph, arrays: Sequence[np.ndarray]) -> tuple[NumpyFunction, tuple[np.ndarray, ...]]:
    """The function of a graph and what it gives, checked for everything that holds of all results."""
    function = compile_graph(graph)
    before = [array.copy() for array in arrays]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("error")
        results = function.run(*arrays)
        again = function.run(*arrays)
        alone = function.run_single(*arrays) if len(results) == 1 else None
    if alone is not None:
        assert type(alone) is np.ndarray
        np.testing.assert_array_equal(alone, results[0])
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
        of = function.views[index]
        if of is not None:
            assert not function.fresh[index]
            others = (*arrays[:of], *arrays[of + 1:], *results[:index], *results[index + 1:])
            assert not any(np.shares_memory(result, other) for other in others)
    return function, results


def graph_of(function: Callable[..., Sequence[Value]], *arrays: np.ndarray) -> Graph:
    return trace_graph("f", [type_of(array) for array in arrays], function)


def check(function: Callable[..., Sequence[Value]], *arrays: np.ndarray) -> NumpyFunction:
    """The function of a graph, after its results were found to be those of the interpreter."""
    graph = graph_of(function, *arrays)
    made, results = run(graph, arrays)
    for found, expected in zip(results, interpret(graph, arrays), strict=True):
        compare(graph, found, expected)
    return made


def compare(graph: Graph, found: np.ndarray, expected: np.ndarray) -> None:
    """Raise unless arrays are equal: to the bit, or closely with functions that NumPy lacks, which are kernels, and with sums of windows,
    which are programs."""
    if any(op.name.startswith(("convolution", "window_sum")) for op in graph.ops):
        largest = np.max(np.abs(expected), initial=0.0)
        np.testing.assert_allclose(found, expected, rtol=0, atol=16 * np.finfo(found.dtype).eps * largest)
    elif any(map(is_slow, graph.ops)) and found.dtype.kind == "f":
        np.testing.assert_allclose(found, expected, rtol=8 * np.finfo(found.dtype).eps, atol=8 * np.finfo(found.dtype).tiny)
    else:
        np.testing.assert_array_equal(found, expected)


def numbers(*shape: int, dtype: np.dtype = F32) -> np.ndarray:
    return np.asarray(GENERATOR.normal(size=shape)).astype(dtype)


def repeated(x: Value, shape: tuple[int, ...], *axes: int) -> Value:
    return ops.broadcast(x, shape=shape, axes=axes)


def lines(function: NumpyFunction) -> list[str]:
    """The lines between `def` and `return`."""
    return [line.strip() for line in function.text.splitlines()[1:-1]]


# -- every op, and programs of many


@for_each_sample()
def test_samples(definition: OpDefinition, sample: Sample) -> None:
    check(lambda *values: definition.emit(*values, **sample.attrs), *sample.arrays)


@for_each_sample()
def test_samples_between_other_ops(definition: OpDefinition, sample: Sample) -> None:
    """Operands that are made and die within the function, and may be overwritten; a result that is used again."""
    def function(*values: Value) -> list[Value]:
        made = [ops.select(ops.equal(value, value), value, value) for value in values]
        result, *_ = definition.emit(*made, **sample.attrs)
        return [result, ops.maximum(result, ops.full_like(result, 1))]

    def strong_zeros_are_positive(array: np.ndarray) -> np.ndarray:
        return np.where(array == 0, np.abs(array), array) if "strong" in definition.name else array

    graph = graph_of(function, *sample.arrays)
    _, results = run(graph, sample.arrays)
    for found, expected in zip(results, interpret(graph, sample.arrays), strict=True):
        compare(graph, strong_zeros_are_positive(found), strong_zeros_are_positive(expected))


@for_each_sample()
def test_samples_of_arrays_in_another_order(definition: OpDefinition, sample: Sample) -> None:
    """Reversed in memory, with gaps; sums in another order are the interpreter's affair too."""
    def spread(array: np.ndarray) -> np.ndarray:
        wide = np.zeros([2 * size for size in array.shape[::-1]], array.dtype)
        view = wide[(*(slice(None, None, 2) for _ in array.shape), ...)].T
        view[...] = array
        return view

    graph = sample_graph(definition, sample)
    arrays = [spread(array) for array in sample.arrays]
    _, results = run(graph, arrays)
    for found, expected in zip(results, interpret(graph, arrays), strict=True):
        if definition.kind is Kind.CONTRACTION and not definition.name.startswith("convolution"):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        else:
            compare(graph, found, expected)


def programs(count: int) -> settings:
    return settings(max_examples=count, deadline=None, derandomize=True, database=None)


@programs(300)
@given(RANDOM, st.integers(1, 14), st.booleans())
def test_random_programs(choose: Random, size: int, wild: bool) -> None:
    program = random_program(choose, size, wild)
    _, results = run(program.graph, program.arrays)
    program.check(results, "of the NumPy function")


@programs(150)
@given(RANDOM, st.integers(1, 8))
def test_random_derivatives(choose: Random, size: int) -> None:
    function = random_function(choose, size)
    graph = differentiate(gradient(function), Options())
    arrays = (*function.arrays, function.cotangent)
    _, results = run(graph, arrays)
    for found, expected in zip(results, interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9 * np.max(np.abs(expected), initial=1.0))


def test_an_op_of_which_nothing_is_known_is_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record without NumPy function: its meaning is called, and its result is not taken for fresh."""
    unknown = OpDefinition(
        "unknown", Kind.MOVEMENT, "x, reversed.", infer=lambda x, *, by: x, evaluate=lambda x, *, by: x[::by], vjp=None,
        batch=None, samples=lambda: iter(()), attributes={"by": int}, arity=1)
    monkeypatch.setitem(DEFINITIONS, "unknown", unknown)
    made = check(lambda x: [ops.negative(unknown(x, by=-1)), unknown(x, by=-1)], numbers(5))
    assert made.fresh == (True, False)


def test_ops_with_regions_are_refused() -> None:
    region = graph_of(lambda x: [ops.exp(x)], numbers(3))
    graph = graph_of(lambda x: ops.checkpoint.emit(x, regions=(region,)), numbers(3))
    with pytest.raises(ValueError, match="checkpoint"):
        compile_graph(graph)


# -- broadcasting


def test_an_affine_map_is_two_calls() -> None:
    made = check(lambda x, w, b: [ops.add(ops.multiply(x, w), repeated(b, (5, 3), 1))], numbers(5, 3), numbers(5, 3), numbers(3))
    assert lines(made) == ["v0 = multiply(a0, a1)", "add(v0, a2, v0)"]
    assert made.fresh == (True,)


def test_columns_are_reshaped_once() -> None:
    made = check(lambda x, c: [ops.add(ops.multiply(x, repeated(c, (5, 3), 0)), repeated(c, (5, 3), 0))], numbers(5, 3), numbers(5))
    assert made.text.count("reshape") == 2
    assert len(lines([check(lambda x, c: [ops.multiply(x, repeated(c, (5, 3), 0))], numbers(5, 3), numbers(5))][0])) == 2


def test_of_reshapes_in_a_row_the_last_is_left() -> None:
    def function(x: Value) -> list[Value]:
        total = ops.reshape(ops.reshape(ops.reduce_sum(x, axes=(1,)), shape=(5, 1)), shape=(5,))
        return [ops.subtract(x, repeated(total, (5, 3), 0))]

    def before_another_op(x: Value) -> list[Value]:
        """The operand is a repeated array: the reshape is within the line."""
        return [ops.reshape(ops.exp(ops.reshape(repeated(x, (1, 4), 1), shape=(4, 1))), shape=(2, 2)),
                ops.reshape(ops.cumsum(repeated(x, (1, 4), 1), axis=1, reverse=False), shape=(2, 2))]

    assert check(function, numbers(5, 3)).text.count("reshape") == 1
    check(before_another_op, numbers(4))


@pytest.mark.parametrize(("start", "stop", "shape"), [((1, 0), (2, 3), (3,)), ((0, 2), (2, 3), (2,)), ((1, 1), (2, 2), ())])
def test_an_index_is_one_call(start: tuple[int, ...], stop: tuple[int, ...], shape: tuple[int, ...]) -> None:
    x = np.arange(6.0).reshape(2, 3)
    for array in (x, np.asfortranarray(x)):
        function = check(lambda x: [ops.reshape(ops.slice(x, start=start, stop=stop, step=(1, 1)), shape=shape)], array)
        assert "reshape" not in function.text
    longer = check(lambda x: [ops.reshape(part := ops.slice(x, start=start, stop=stop, step=(1, 1)), shape=shape), ops.exp(part)], x)
    assert "reshape" in longer.text       # the slice itself is needed
    assert "reshape" in check(lambda x: [ops.reshape(ops.slice(x, start=start, stop=stop, step=(1, 1)), shape=(1, 1, *shape, 1))], x).text


@pytest.mark.parametrize("take", [
    lambda x: ops.transpose(x, permutation=(1, 0)), lambda x: ops.reshape(x, shape=(6,)), ops.exp,
    lambda x: ops.slice(x, start=(0, 1), stop=(2, 3), step=(1, 1))])
def test_the_only_result_of_one_call_takes_no_call_in_python(take: Callable[[Value], Value]) -> None:
    function = check(lambda x: [take(x)], np.arange(6.0).reshape(2, 3))
    assert not hasattr(function.run_single, "__code__")


def test_constants_are_no_arrays_of_the_shape() -> None:
    made = check(lambda x: [ops.subtract(ops.full_like(x, 1.0), x)], numbers(4, 4))
    assert lines(made) == ["v0 = subtract(k1, a0)"]


def test_what_is_repeated_is_computed_once() -> None:
    """The backward pass of a mean: one product of scalars, and one array filled."""
    def function(ct: Value) -> list[Value]:
        whole = repeated(ct, (4, 5))
        return [ops.strong_multiply(whole, ops.full_like(whole, 0.05))]

    made = check(function, numbers())
    assert lines(made) == ["v0 = a0 * k0"]
    assert made.fresh == (True,)


@pytest.mark.parametrize(("shape", "whole", "axes"), [
    ((), (2, 3), ()), ((3,), (2, 3), (1,)), ((2,), (2, 3), (0,)), ((3,), (2, 3, 4), (1,)), ((2, 4), (2, 3, 4), (0, 2)),
    ((3,), (1, 3), (1,)), ((3,), (3, 1), (0,)), ((), (1, 1), ()), ((1,), (1, 4), (0,)), ((0,), (2, 0), (1,)),
    ((3,), (0, 3), (1,)), ((2, 3), (2, 3), (0, 1))])
def test_broadcasts_before_every_kind_of_op(shape: tuple[int, ...], whole: tuple[int, ...], axes: tuple[int, ...]) -> None:
    def function(x: Value, y: Value) -> list[Value]:
        wide, small = repeated(x, whole, *axes), repeated(ops.negative(x), whole, *axes)
        rank = len(whole)
        index = ops.constant(value=0, dtype=I64, shape=(0,))
        return [
            wide, small, ops.add(wide, y), ops.multiply(wide, small), ops.exp(wide), ops.power(ops.abs(wide), small),
            ops.logaddexp(y, wide), ops.select(ops.less(wide, y), wide, small), ops.reduce_sum(wide, axes=(0,)),
            ops.reduce_max(wide, axes=()), ops.reshape(wide, shape=(*whole, 1)),
            ops.transpose(small, permutation=tuple(reversed(range(rank)))),
            ops.slice(wide, start=(0,) * rank, stop=whole, step=(2,) * rank), ops.concatenate(wide, y, axis=0), ops.flip(wide, axes=(0,)),
            ops.take(wide, index, axis=0), ops.update_slice(wide, small, start=(0,) * rank, step=(1,) * rank),
            ops.pad(wide, low=(1,) * rank, high=(0,) * rank, interior=(1,) * rank, value=2.0), ops.cumsum(wide, axis=0, reverse=False),
            ops.convert(wide, dtype=F64), ops.strong_multiply(wide, y), ops.strong_multiply(y, wide), ops.strong_divide(wide, wide),
            repeated(wide, (2, *whole), *range(1, rank + 1)), repeated(small, (*whole, 2), *range(rank)), ops.stop_gradient(small)]

    check(function, numbers(*shape), numbers(*whole))


def test_products_of_repeated_matrices() -> None:
    def function(x: Value, b: Value) -> list[Value]:
        wide = repeated(b, (3, 4), 1)
        return [ops.matmul(x, wide, transpose_a=False, transpose_b=True), ops.matmul(wide, x, transpose_a=True, transpose_b=False)]

    graph = graph_of(function, numbers(3, 4), numbers(4))
    arrays = numbers(3, 4), numbers(4)
    for found, expected in zip(run(graph, arrays)[1], interpret(graph, arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_large_repeated_result_is_a_view() -> None:
    made = check(lambda x: [repeated(x, (1000, 1000))], numbers())
    (view,) = made.run(np.float32(2))
    assert (view.shape, view.strides) == ((1000, 1000), (0, 0))
    assert made.fresh == (False,)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("flags", [(a, b) for a in (False, True) for b in (False, True)])
def test_products_have_the_bits_of_the_interpreter(rank: int, flags: tuple[bool, bool]) -> None:
    for rows, inner, columns in ((1, 1, 1), (1, 7, 5), (6, 1, 5), (5, 7, 1), (16, 33, 12), (64, 64, 64)):
        a, b = ((inner, rows) if flags[0] else (rows, inner)), ((columns, inner) if flags[1] else (inner, columns))
        batch = (2,) * (rank - 2)
        check(lambda x, y: [ops.matmul(x, y, transpose_a=flags[0], transpose_b=flags[1])], numbers(*batch, *a), numbers(*batch, *b))


# -- weak parameters


def updated(p: Value, g: Value, rate: Value) -> list[Value]:
    step = repeated(ops.convert(rate, dtype=p.type.dtype), p.type.shape)
    return [ops.subtract(p, ops.multiply(g, step))]


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("shape", [(), (3, 4), (0, 2)])
@pytest.mark.parametrize("rate", [0.1, 1e-40, 1e300, float("nan"), 0.0])
def test_a_weak_parameter_goes_into_the_call(dtype: np.dtype, shape: tuple[int, ...], rate: float) -> None:
    p, g = numbers(*shape, dtype=dtype), numbers(*shape, dtype=dtype)
    graph = trace_graph("f", [type_of(p), type_of(g), TensorType(F64, ())], updated)
    made = compile_graph(graph, frozenset({2}))
    assert len(lines(made)) == 2
    assert "a2)" in lines(made)[0] or "* a2" in lines(made)[0]
    with np.errstate(all="ignore"):
        (found,) = made.run(p, g, rate)
    (expected,) = interpret(graph, [p, g, np.array(rate)])
    assert type(found) is np.ndarray
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, expected)


def test_weak_parameters_among_themselves_and_where_arrays_are_needed() -> None:
    """Python would raise on a division by zero, and would not round to float32."""
    def function(x: Value, a: Value, b: Value) -> list[Value]:
        narrow = ops.convert(a, dtype=F32)
        wide = repeated(narrow, (2, 3))
        return [
            ops.divide(a, b), ops.multiply(narrow, ops.convert(b, dtype=F32)), ops.convert(narrow, dtype=F64), ops.exp(wide), a, narrow,
            wide, ops.reduce_sum(wide, axes=(0,)), ops.select(ops.less(x, wide), wide, x), ops.power(ops.abs(x), wide),
            ops.strong_multiply(wide, x), ops.strong_divide(wide, ops.convert(wide, dtype=F32)), ops.reshape(a, shape=(1, 1)),
            ops.convert(a, dtype=I64), ops.less(a, b), ops.maximum(wide, x), ops.arctan2(x, wide), ops.cumsum(wide, axis=0, reverse=False),
            ops.concatenate(x, wide, axis=0), ops.flip(wide, axes=(1,)), ops.negative(wide), ops.full_like(a, 3.0), ops.sigmoid(narrow),
            ops.reduce_sum(a, axes=()), ops.take(x, ops.convert(b, dtype=I64), axis=0)]

    x, a, b = numbers(2, 3), 1.1, 0.0
    graph = trace_graph("f", [type_of(x), TensorType(F64, ()), TensorType(F64, ())], function)
    made = compile_graph(graph, frozenset({1, 2}))
    with np.errstate(all="ignore"):
        found = made.run(x, a, b)
    for index, (one, other) in enumerate(zip(found, interpret(graph, [x, np.array(a), np.array(b)]), strict=True)):
        assert type(one) is np.ndarray
        assert (one.dtype, one.shape) == (other.dtype, other.shape), index
        np.testing.assert_array_equal(one, other, err_msg=str(index))


# -- strong products

SPECIAL = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, 1e30, 1e-30, 1e-45], F32)


@pytest.mark.parametrize("name", ["strong_multiply", "strong_divide", "strong_product"])
@pytest.mark.parametrize("constant", [None, 0.0, 2.0, float("inf"), float("nan")])
@pytest.mark.parametrize("count", [1, 500])
def test_strong_products_of_special_numbers(name: str, constant: float | None, count: int) -> None:
    left, right = (np.repeat(array, count, 0) for array in np.meshgrid(SPECIAL, SPECIAL))

    def function(x: Value, y: Value, s: Value) -> list[Value]:
        other = y if constant is None else ops.full_like(y, constant)
        alone = s if constant is None else ops.full_like(s, constant)
        return [DEFINITIONS[name](x, other), DEFINITIONS[name](other, x), DEFINITIONS[name](s, alone),
                DEFINITIONS[name](repeated(s, x.type.shape), other)]

    for number in (0.0, 3.0):
        check(function, left, right, np.array(number, F32))


def test_a_finite_strong_product_takes_one_check() -> None:
    made = check(lambda ct, x: [ops.strong_multiply(ct, x)], numbers(4), numbers(4))
    assert lines(made)[:2] == ["v0 = multiply(a0, a1)", "if not is_finite(vdot(v0, v0)):"]
    assert lines(check(lambda ct: [ops.strong_multiply(ct, ops.full_like(ct, 2.0))], numbers(4))) == ["v0 = multiply(a0, k1)"]


def several_strong_products(x: Value, y: Value, z: Value) -> list[Value]:
    first = ops.strong_multiply(x, y)
    second = ops.strong_divide(ops.negative(first), z)
    total = ops.add(ops.reduce_sum(second, axes=(0,)), ops.reduce_sum(ops.strong_product(x, z), axes=(0,)))
    return [ops.strong_multiply(repeated(total, x.type.shape), y), ops.less(first, z)]


def test_several_strong_products_are_tested_by_what_becomes_of_them() -> None:
    made = check(several_strong_products, *(numbers(4) for _ in range(3)))
    assert made.text.count("is_finite") == 1
    assert lines(made)[-1].startswith("return k")


def test_several_strong_products_of_special_numbers() -> None:
    """One combination at a time: another one must not give them away."""
    numbers_of_each = [np.array([number], F32) for number in SPECIAL]
    made = compile_graph(graph_of(several_strong_products, *numbers_of_each[:3]))
    with np.errstate(all="ignore"):
        for x in numbers_of_each:
            for y in numbers_of_each:
                for z in numbers_of_each:
                    graph = graph_of(several_strong_products, x, y, z)
                    for found, expected in zip(made.run(x, y, z), interpret(graph, [x, y, z]), strict=True):
                        np.testing.assert_array_equal(found, expected, err_msg=f"{x} {y} {z}")


def test_a_strong_product_that_no_result_tells_of_is_tested_by_itself() -> None:
    """The extremum hides what the product gives."""
    def function(x: Value, y: Value) -> list[Value]:
        first, second = ops.strong_multiply(x, y), ops.strong_multiply(y, x)
        return [ops.fmax(first, ops.negative(ops.full_like(x, 1.0))), ops.fmin(second, x)]

    x, y = np.array([0.0, 2.0], F32), np.array([np.inf, 3.0], F32)
    assert check(function, x, y).text.count("is_finite") == 2


# -- memory


def test_memory_is_shared_only_where_fresh_says_so() -> None:
    def function(x: Value, y: Value) -> list[Value]:
        total = ops.add(x, y)
        return [x, ops.transpose(x, permutation=(1, 0)), total, ops.reshape(total, shape=(12,)), ops.negative(y), ops.convert(y, dtype=F32),
                ops.multiply(x, y), ops.iota(dtype=I64, shape=(3,), axis=0), ops.full_like(x, 2.0)]

    assert check(function, numbers(3, 4), numbers(3, 4)).fresh == (False, False, False, False, True, False, True, False, True)


def test_a_result_given_twice_is_not_fresh() -> None:
    def function(x: Value) -> list[Value]:
        made = ops.exp(x)
        return [made, made]

    assert check(function, numbers(3)).fresh == (False, False)


def test_the_memory_of_a_dead_value_is_used_again() -> None:
    def chain(x: Value) -> list[Value]:
        for op in (ops.exp, ops.negative, ops.tanh, ops.square, ops.sqrt):
            x = op(x)
        return [ops.multiply(x, x)]

    assert peak(chain, np.ones(1 << 17)) == 1


def test_nothing_is_overwritten_that_is_used_later() -> None:
    """Through a view, as an operand of the same op, or as a result."""
    def function(x: Value, i: Value) -> list[Value]:
        a = ops.exp(x)
        part = ops.slice(a, start=(0, 0), stop=(1, 4), step=(1, 1))
        b = ops.negative(a)
        c = ops.update_slice(b, part, start=(1, 0), step=(1, 1))
        d = ops.scatter_add(c, i, ops.exp(c), axis=0)
        e = ops.exp(x)
        f = ops.update_slice(e, e, start=(0, 0), step=(1, 1))
        return [part, c, d, f]

    check(function, numbers(3, 4), np.array([2, 0, 1], I64))


def test_values_are_released_after_their_last_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums of arrays that are made one after the other: two of them are there at once, where NumPy makes them."""
    monkeypatch.setattr(KernelCompiler, "compile_program", None)

    def function(x: Value) -> list[Value]:
        total = ops.reduce_sum(x, axes=(0,))
        for number in range(6):
            made = ops.add(x, ops.full_like(x, float(number)))
            total = ops.add(total, ops.reduce_sum(ops.matmul(made, made, transpose_a=False, transpose_b=False), axes=(0,)))
        return [total]

    assert peak(function, np.ones((512, 512))) == 2


def peak(function: Callable[..., Sequence[Value]], x: np.ndarray) -> int:
    """How many arrays like `x` a function has at once, rounded."""
    made = check(function, x)
    tracemalloc.start()
    try:
        made.run(x)
        return round(tracemalloc.get_traced_memory()[1] / x.nbytes)
    finally:
        tracemalloc.stop()


def test_the_cotangent_of_an_embedding_is_not_copied() -> None:
    """Rows are added into zeros that the system hands out untouched."""
    indices = np.array([5, 1, 5, 0], I64)

    def function(ct: Value, i: Value) -> list[Value]:
        return [ops.scatter_add(ops.constant(value=0.0, dtype=F64, shape=(1000, ct.type.shape[1])), i, ct, axis=0)]

    for width in (3, 200):
        made = check(function, numbers(4, width, dtype=F64), indices)
        assert lines(made)[0].startswith("v0 = zeros")
        assert made.fresh == (True,)


@pytest.mark.parametrize("index", [3, -1])
def test_indices_out_of_range(index: int) -> None:
    x, i, row = numbers(3, 4), np.array([0, index], I64), numbers(2, 4)
    wide = np.full((2, 4), index, I64)
    cases: list[tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = [
        (lambda x, i: ops.take(x, i, axis=0), (x, i)), (lambda x, i, r: ops.scatter_add(x, i, r, axis=0), (x, i, row)),
        (lambda x, i, r: ops.scatter_set(x, i, r, axis=0), (x, i, row)), (lambda x, i: ops.take_along_axis(x, i, axis=0), (x, wide)),
        (lambda x, i, r: ops.scatter_add_along_axis(x, i, r, axis=0), (x, wide, row))]
    for function, arrays in cases:
        made = compile_graph(graph_of(lambda *values, function=function: [function(*values)], *arrays))
        with pytest.raises(IndexError, match=f"index {index - 3 if index < 0 else index} is out of bounds for axis 0 with size 3"):
            made.run(*arrays)


# -- texts


def test_graphs_of_one_structure_share_a_text() -> None:
    def function(x: Value, b: Value) -> list[Value]:
        rows, columns = x.type.shape
        moved = ops.reshape(ops.add(x, repeated(b, (rows, columns), 1)), shape=(columns, rows))
        return [ops.reduce_sum(moved, axes=(1,)), ops.multiply(moved, ops.full_like(moved, float(rows)))]

    graph_function._compiled.cache_clear()
    texts = {check(function, numbers(rows, 3), numbers(3)).text for rows in (2, 4, 7)}
    assert len(texts) == 1
    assert graph_function._compiled.cache_info().misses == 1


def test_no_results_and_no_params() -> None:
    assert check(lambda x: [], numbers(3)).fresh == ()
    assert check(lambda: [ops.iota(dtype=I64, shape=(2, 3), axis=0), ops.constant(value=1.5, dtype=F32, shape=())]).fresh == (True, True)


def test_ops_that_nothing_needs_are_left_out() -> None:
    def function(x: Value) -> list[Value]:
        ops.exp(x)
        return [ops.negative(x)]

    assert lines(check(function, numbers(3))) == ["v0 = negative(a0)"]


def test_rows_that_are_repeated_are_copied_once() -> None:
    """NumPy's reshape would copy the view, and nothing show that the result is new memory."""
    made = check(lambda x: [ops.reshape(ops.broadcast(x, shape=(4, 2, 300), axes=(0, 2)), shape=(4, 600))], numbers(4, 300))
    assert made.fresh == (True,)
    assert not any(line.startswith("v0 = k") for line in lines(made))


@pytest.mark.parametrize("array", [
    np.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3).T, np.array(3.0), np.zeros((0, 3)), np.float32(2),
    np.arange(12.0).reshape(2, 6)[:, ::2], np.arange(3.0).reshape(1, 3)])
def test_broadcast_views_are_those_of_numpy(array: np.ndarray) -> None:
    shape = (4, 5, *np.shape(array)) if np.shape(array)[:1] != (1,) else (5, 7, 3)
    view, expected = broadcasting(np.shape(array), array.dtype, shape)(array), np.broadcast_to(array, shape)
    np.testing.assert_array_equal(view, expected)
    assert (view.strides, view.dtype, view.flags.writeable) == (expected.strides, expected.dtype, False)
    assert np.shares_memory(view, array) or not view.size or type(array) is not np.ndarray
