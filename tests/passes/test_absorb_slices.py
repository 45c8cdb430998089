"""Kernels that read slices where they lie, and paddings that are slices of one: values, what is written to memory, where it is not done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.python_loops import normal

import adjit as aj
from adjit.ir.graph import Graph, Op, walk
from adjit.ir.interpreter import interpret
from adjit.ir.parser import parse
from adjit.ir.types import BOOL, C128, F32, F64, I32
from adjit.passes.fusion.absorb_slices import absorb_slices
from adjit.passes.fusion.share_padding import share_padding
from adjit.passes.fusion.share_rolls import MIN_ROLLED_BYTES
from adjit.passes.options import Options


def planned(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Graph]:
    """Result of a compiled function, and its planned graph."""
    compiled = aj.compile(function, backend="native", **options)
    return compiled(*args), compiled.programs()[0].pipeline.final


def sliced_by_kernels(graph: Graph) -> list[Op]:
    return [inner for op in walk(graph) if op.name == "fused" for inner in op.regions[0].ops if inner.name == "slice"]


def copied(graph: Graph) -> list[Op]:
    """Slices that are steps of their own."""
    inside = set(map(id, sliced_by_kernels(graph)))
    return [op for op in walk(graph) if op.name == "slice" and id(op) not in inside]


def check(function: Callable[..., Any], *args: Any, rtol: float = 1e-12) -> Graph:
    got, graph = planned(function, *args)
    np.testing.assert_allclose(got, function(*args), rtol=rtol, atol=rtol)
    return graph


@pytest.mark.parametrize("dtype", [F64, F32, I32, C128, BOOL])
@pytest.mark.parametrize("columns", [16, 31, 64, 67, 200])
def test_neighbours(dtype: np.dtype, columns: int) -> None:
    """Rows of all lengths relative to a vector, elements of all sizes."""
    x = (10 * normal(23, columns + 3)).astype(dtype)

    def neighbours(x: Any) -> Any:
        if dtype == BOOL:
            return x[1:-1, 1:-2] ^ (x[2:, 3:] | x[:-2, :-3])
        return x[1:-1, 1:-2] * x[2:, 3:] - x[:-2, :-3]

    graph = check(neighbours, x, rtol=1e-5 if dtype == F32 else 1e-12)
    if columns * dtype.itemsize >= 64 and dtype != C128:        # the parts of complex numbers are no slices
        assert (len(sliced_by_kernels(graph)), copied(graph)) == (3, [])


def test_sums_of_slices() -> None:
    """Over everything, along rows and down columns; and large ones, of which threads take blocks of rows."""
    for rows, columns in ((20, 33), (300, 250)):
        x, y = normal(rows + 2, columns + 2), normal(rows, columns)
        for function in (lambda x, y: np.sum(x[2:, 1:-1] * y + x[:-2, 2:]), lambda x, y: np.sum(x[2:, 1:-1] * y, axis=0),
                         lambda x, y: np.max(np.exp(x[2:, 1:-1]) * y, axis=1),
                         lambda x, y: x[2:, 1:-1] / np.sum(np.exp(x[2:, 1:-1] - x[:-2, 1:-1]), axis=1, keepdims=True)):
            graph = check(function, x, y)
            assert sliced_by_kernels(graph) != []
            assert copied(graph) == []


def test_more_axes_and_steps() -> None:
    x, y = normal(7, 9, 11, 20), normal(12, 40)
    cases: list[tuple[Callable[..., Any], int]] = [
        (lambda x, y: x[1:6, 2:8:2, 3:9, :] + x[0:5, 1:7:2, 2:8, :], 2), (lambda x, y: x[::3, 1:, 1:, 1:] * x[::3, :-1, :-1, :-1], 2),
        (lambda x, y: x[1:, 1:, :, :] - x[:-1, :-1, :, :], 2), (lambda x, y: y[::2, 3:] + y[1::2, :-3], 2),
        (lambda x, y: y[:, ::2] + y[:, 1::2], 0), (lambda x, y: y[2:, 4:8] + y[:-2, 5:9], 0)]
    for function, count in cases:
        graph = check(function, x, y)
        assert len(sliced_by_kernels(graph)) == count


def test_no_result_lies_where_a_kernel_still_reads() -> None:
    """In loops that carry the array, in arrays that the caller gives away, through reshapes."""
    def jacobi(u: Any) -> Any:
        def sweep(_: Any, u: Any) -> Any:
            inner = 0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])
            return np.pad(inner, 1)
        return aj.fori_loop(0, 7, sweep, u)

    def plain(u: np.ndarray) -> np.ndarray:
        for _ in range(7):
            u = np.pad(0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]), 1)
        return u

    u = normal(20, 33)
    got, graph = planned(jacobi, u)
    np.testing.assert_allclose(got, plain(u), rtol=1e-12, atol=1e-15)
    assert len(sliced_by_kernels(graph)) == 4

    def shifted(u: Any) -> Any:
        flat = np.sin(u)
        table = flat.reshape(24, 40)
        return np.cos(flat) + np.concatenate([table[1:-1, 2:] + table[:-2, 1:-1], np.zeros((22, 2))], axis=1).reshape(-1)[:1].sum()

    wanted = shifted(normal(960))
    got, _ = planned(shifted, normal(960))
    np.testing.assert_allclose(got, wanted, rtol=1e-12)

    def given_away(u: Any) -> Any:
        v = u * 2.0
        return v[1:, 1:] + v[:-1, :-1], v * 1.0

    got, _ = planned(given_away, normal(31, 32))
    for found, expected in zip(got, given_away(normal(31, 32)), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_an_array_written_in_place_does_not_wait_for_a_kernel() -> None:
    """A slice that is read after its array is written over was taken before."""
    def function(u: Any) -> Any:
        u = u * 1.0
        kept = u[1:-1, 1:-1] + 0.0
        for _ in range(3):
            u[1:-1, 1:-1] = u[1:-1, 1:-1] * 0.5 + 0.25 * (u[2:, 1:-1] + u[:-2, 1:-1])
        return u, kept * u[1:-1, 1:-1]

    u = normal(24, 36)
    got, graph = planned(function, u)
    for found, wanted in zip(got, function(u), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14)
    assert len(sliced_by_kernels(graph)) == 8


def heat(nu: Any, source: Any) -> Any:
    u = np.zeros(source.shape)
    u[0, :] = 1.0
    for _ in range(4):
        u[1:-1, 1:-1] += nu * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * u[1:-1, 1:-1]) + source[1:-1, 1:-1]
    return np.sum(u * u)


def test_a_stencil_and_its_gradient_copy_next_to_nothing() -> None:
    """Forward no slice is copied; backward one array is padded for the four neighbours."""
    source = normal(34, 50)
    (value, (slope, field)), graph = planned(aj.value_and_grad(heat, (0, 1)), 0.1, source)
    assert value == pytest.approx(heat(0.1, source), rel=1e-12)
    assert slope == pytest.approx((heat(0.1 + 1e-6, source) - heat(0.1 - 1e-6, source)) / 2e-6, rel=1e-6)
    bump = np.zeros_like(source)
    bump[7, 9] = 1e-6
    assert field[7, 9] == pytest.approx((heat(0.1, source + bump) - heat(0.1, source - bump)) / 2e-6, rel=1e-6)
    names = [op.name for op in graph.ops]
    assert len(sliced_by_kernels(graph)) >= 24
    assert len(copied(graph)) <= 4
    assert names.count("pad") <= 7       # of 24 paddings
    assert names.count("update_slice") <= 5


def test_small_slices_stay_steps() -> None:
    """Kernels of small values share their code."""
    graph = check(lambda x: x[1:, 1:] + x[:-1, :-1], normal(6, 11))
    assert sliced_by_kernels(graph) == []
    assert len(copied(graph)) == 2


def test_a_large_array_is_not_kept_for_a_small_slice() -> None:
    def function(x: Any, w: Any) -> Any:
        y = np.exp(x)
        part = y[:8, :80]
        total = np.sum(y @ w)
        return np.sin(part) * total

    x, w = normal(200, 100), normal(100, 3)
    got, graph = planned(function, x, w)
    np.testing.assert_allclose(got, function(x, w), rtol=1e-12)
    assert len(copied(graph)) == 1


def test_paddings_of_one_array_with_other_values_are_apart() -> None:
    def function(x: Any) -> Any:
        first = np.pad(x, ((0, 2), (1, 1)))
        return first * np.pad(x, ((1, 1), (1, 1))) + np.pad(x, ((1, 1), (0, 2)), constant_values=2.0) \
            - np.pad(x, ((2, 0), (2, 0)), constant_values=2.0)

    graph = check(function, normal(17, 40))
    pads = [op for op in graph.ops if op.name == "pad"]
    assert [op.attrs["value"] for op in pads] == [0.0, 2.0]
    assert [op.result.type.shape for op in pads] == [(20, 42), (20, 44)]


def test_arrays_that_share_memory_in_several_ways() -> None:
    """A value concatenated with itself, and slices that are aliases of one array."""
    def function(x: Any) -> Any:
        y = np.sin(x)
        twice = np.concatenate([y, y])
        return twice[:, 1:] * np.concatenate([y[1:], twice[:9]])[:, :-1] + np.concatenate([y[:1], y[:1], twice[2:]])[:, 1:]

    graph = check(function, normal(8, 40)[:8])
    assert len(sliced_by_kernels(graph)) >= 1


def test_an_operand_in_the_memory_of_a_sliced_array_is_not_overwritten() -> None:
    """The first kernel reads places of an array that it would have written over."""
    graph = parse("""
        graph @f(%x: f64[1360]) {
          %u: f64[1360] = exp %x
          %r: f64[34,40] = reshape %u {shape=(34, 40)}
          %b: f64[32,32] = slice %r {start=(2, 4), step=(1, 1), stop=(34, 36)}
          %s: f64[1024] = slice %u {start=(0,), step=(1,), stop=(1024,)}
          %a: f64[32,32] = reshape %s {shape=(32, 32)}
          %o: f64[32,32] = fused %a, %b {columns=1, in_place=(0, 1), rows=1024, scratch_bytes=0} [
            graph @add_1(%0: f64[32,32], %1: f64[32,32]) {
              %2: f64[32,32] = add %0, %1
              return %2
            }
          ]
          return %o
        }""")
    new = absorb_slices(graph, Options(only_kernels=True))
    (kernel,) = (op for op in new.ops if op.name == "fused")
    assert [value.type.shape for value in kernel.operands] == [(32, 32), (34, 40)]
    assert kernel.attrs["in_place"] == ()


def test_a_multiple_that_is_padded_is_a_multiple_of_what_is_padded() -> None:
    """Of cotangents alone: elsewhere zeros keep their sign."""
    text = """
        graph @f(%x: f64[16,16]) {
          %c: f64[16,16] = constant {dtype=f64, shape=(16, 16), value=-4.0}
          %m: f64[16,16] = multiply %x, %c
          %p: f64[18,16] = pad %m {high=(1, 0), interior=(0, 0), low=(1, 0), value=0.0}ROLE
          %q: f64[18,16] = pad %x {high=(0, 0), interior=(0, 0), low=(2, 0), value=0.0}ROLE
          %s: f64[18,16] = add %p, %q
          return %s
        }"""
    cotangents = share_padding(parse(text.replace("ROLE", "  # f.py:1 in f, adjoint")), Options(only_kernels=True))
    assert [op.name for op in cotangents.ops] == ["pad", "slice", "constant", "multiply", "slice", "add"]
    x = normal(16, 16)
    for got, wanted in zip(interpret(cotangents, [x]), interpret(parse(text.replace("ROLE", "")), [x]), strict=True):
        np.testing.assert_array_equal(got, wanted)
    values = parse(text.replace("ROLE", ""))
    assert share_padding(values, Options(only_kernels=True)) is values


RINGS = [((600,), [(1, 0), (-1, 0), (3, 0)]), ((600,), [(300, 0), (-299, 0), (1, 0)]), ((30, 41), [(1, 0), (-1, 0), (2, 1), (-1, 1)]),
         ((9, 10, 11), [(4, 1), (-4, 1), (1, 2), (-5, 2)]), ((24,), [(1, 0), (-1, 0)])]


@pytest.mark.parametrize(("shape", "shifts"), RINGS)
def test_stencils_on_rings(shape: tuple[int, ...], shifts: list[tuple[int, int]]) -> None:
    """Values and gradients; an array is lengthened once an axis, forward and backward, where it is large."""
    def energy(u: Any) -> Any:
        for _ in range(3):
            u = np.sin(u) + 0.2 * sum(np.roll(u, shift, axis) for shift, axis in shifts)
        return np.sum(u * u)

    u = normal(*shape)
    (value, gradient), graph = planned(aj.value_and_grad(energy), u)
    assert value == pytest.approx(energy(u), rel=1e-12)
    place = tuple(size - 1 for size in shape)
    for spot in ((0,) * len(shape), place, tuple(size // 2 for size in shape)):
        bump = np.zeros(shape)
        bump[spot] = 1e-6
        wanted = (energy(u + bump) - energy(u - bump)) / 2e-6
        assert gradient[spot] == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    names = [op.name for op in walk(graph)]
    if u.nbytes >= MIN_ROLLED_BYTES:
        assert names.count("concatenate") <= (6 if len(shape) > 1 else 9) * len({axis for _, axis in shifts})
        assert names.count("pad") <= 3 * (len(shape) == 1)


def test_a_rolled_array_is_lengthened_at_the_ends_that_are_read() -> None:
    x = normal(64, 16)
    graph = check(lambda x: np.roll(x, 2, 0) * np.roll(x, 1, 0) - np.roll(x, 3, 1), x)
    (long,) = (op for op in graph.ops if op.name == "concatenate" and op.attrs["axis"] == 0)
    assert [value.type.shape for value in long.operands] == [(2, 16), (64, 16)]
