"""Work that waits for no other iteration leaves loops: which ops stay in them, and that values and derivatives stay."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from support.python_loops import LOOPS, normal, rolled, rolled_scans, trace_of

import adjit as aj
from adjit.ir.graph import Graph, walk
from adjit.ir.interpreter import interpret
from adjit.ir.verifier import Stage, verify
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.loops.batch_loops import MAX_BATCHED_BYTES, MAX_ITERATION_BYTES, batch_loops
from adjit.passes.options import Options


def batched(function: Callable[..., Any], *args: Any) -> tuple[Graph, Graph, list[np.ndarray]]:
    """Graph of a function with rolled loops, the same batched, and arrays for its parameters; both give the same."""
    trace, arrays = trace_of(function, args)
    before = rolled(trace.graph)
    after = batch_loops(before, Options())
    verify(after, Stage.TRACED)
    check_equal(before, after, arrays)
    return before, after, arrays


def check_equal(before: Graph, after: Graph, arrays: Sequence[np.ndarray]) -> None:
    results = [interpret(differentiate(graph, Options()), arrays) for graph in (before, after)]
    for wanted, got in zip(*results, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12 * np.max(np.abs(wanted), initial=0), equal_nan=True)


def bodies(graph: Graph) -> list[list[str]]:
    """Names of the ops of each loop that are not free."""
    return [[op.name for op in loop.regions[0].ops if op.name not in ("constant", "reshape", "broadcast")]
            for loop in walk(graph) if loop.name == "scan"]


def convolution(image: Any, kernel: Any) -> Any:
    out = np.zeros((10, 9))
    for i in range(10):
        for j in range(9):
            out[i, j] = np.sum(image[i:i + 3, j:j + 2] * kernel)
    return out


def test_a_convolution_by_loops_has_no_loop() -> None:
    image, kernel = normal(12, 10), normal(3, 2)
    _, after, _ = batched(convolution, image, kernel)
    assert bodies(after) == []
    assert len(after.ops) <= 15
    compiled = aj.compile(convolution)
    np.testing.assert_allclose(compiled(image, kernel), convolution(image, kernel), rtol=1e-13)


def test_gradient_of_a_convolution_by_loops_has_no_loop() -> None:
    """Its cotangents are added to one array, by one op."""
    trace, arrays = trace_of(aj.grad(lambda image, kernel: np.sum(convolution(image, kernel) ** 2), argnums=(0, 1)),
                             (normal(12, 10), normal(3, 2)))
    graph = differentiate(batch_loops(rolled(trace.graph), Options()), Options())
    names = [op.name for op in walk(graph)]
    assert "scan" not in names
    assert names.count("scatter_add") == 1
    check_equal(trace.graph, graph, arrays)


def test_what_is_carried_stays() -> None:
    def energy(points: Any, scale: Any) -> Any:
        total = 0.0
        for i in range(12):
            difference = points[i] - points[i + 1]
            total = total + 1.0 / (np.sum(difference * difference) * np.exp(scale) + 1.0)
        return total

    before, after, _ = batched(energy, normal(13, 3), 0.3)
    assert [len(names) > 5 for names in bodies(before)] == [True]
    assert bodies(after) == [["add"]]


def test_constants_of_a_recurrence_are_computed_once() -> None:
    """The exponential of the transition matrix, forward; its derivative follows the loop."""
    function, args, _ = LOOPS["hidden_markov_model"](12)
    _, after, _ = batched(function, *args)
    (names,) = bodies(after)
    assert names.count("exp") == 1
    assert names.count("matmul") == 1


def test_recurrences_stay_as_they_are() -> None:
    for name in ("lorenz", "leapfrog", "delays", "short_loop_within"):
        function, args, _ = LOOPS[name](12)
        graph = rolled(trace_of(function, args)[0].graph)
        assert rolled_scans(graph)
        assert batch_loops(graph, Options()) is graph


@pytest.mark.parametrize(("length", "size", "leaves"), [(8, MAX_ITERATION_BYTES // 8, True), (8, MAX_ITERATION_BYTES // 8 + 1, False),
                                                        (MAX_BATCHED_BYTES // 64 + 1, 8, False)])
def test_only_small_values_leave_a_loop(length: int, size: int, leaves: bool) -> None:
    def last(rows: Any) -> Any:
        return aj.scan(lambda carry, row: (np.sin(carry + np.exp(row)), None), np.zeros(size), rows)[0]

    before, after, _ = batched(last, normal(length, size))
    assert (after is before) is not leaves
    assert ("exp" in bodies(after)[0]) is not leaves


def test_a_memory_budget_keeps_loops() -> None:
    graph = trace_of(lambda rows: aj.scan(lambda _, row: (_, np.exp(row)), 0.0, rows)[1], (normal(9, 2),))[0].graph
    assert batch_loops(graph, Options(memory_budget=0.5)) is graph
    assert bodies(batch_loops(graph, Options())) == []


def test_loops_of_every_kind() -> None:
    """Reversed, with rows that are slices, carried values, and results of both; in loops, branches and transforms; of one iteration."""
    def body(carry: Any, row: Any) -> Any:
        x, y = row
        inner = aj.scan(lambda c, v: (c + np.exp(v), (c, v * v)), carry[0], x)
        return (carry[0] * 0.5 + np.sin(y), carry[1] + 1.0), (x, y * 2.0, carry[0], inner[1], carry[1] + np.cos(y))

    def function(x: Any, y: Any, flag: Any) -> Any:
        found = aj.scan(body, (y[0], 0.0), (x, y), reverse=True)
        one = aj.scan(lambda c, v: (c + np.exp(v), v), 0.0, y[:1])
        branch = aj.cond(flag, lambda: aj.scan(lambda c, v: (c, np.exp(v)), 0.0, y)[1], lambda: y)
        slope = aj.grad(lambda z: np.sum(aj.scan(lambda c, v: (c + np.exp(v), c), 0.0, z)[1] ** 2))(y)
        return found, one, branch, slope

    before, after, _ = batched(function, normal(5, 4), normal(5), True)
    assert sum("exp" in names for names in bodies(after)) < sum("exp" in names for names in bodies(before))


def test_ops_that_may_end_the_program_or_call_python_stay() -> None:
    calls = []

    def host(x: np.ndarray) -> np.ndarray:
        calls.append(float(x))
        return x * 2.0

    def function(rows: Any) -> Any:
        return aj.scan(lambda c, row: (c, aj.pure_callback(host, row, row) + np.exp(row)), 0.0, rows)[1]

    rows = normal(9)
    np.testing.assert_allclose(aj.compile(function)(rows), rows * 2.0 + np.exp(rows))
    assert calls == rows.tolist()


def test_indices_out_of_range_are_found_in_batches() -> None:
    def function(table: Any, places: Any) -> Any:
        return aj.scan(lambda c, place: (c + table[place], None), 0.0, places)[0]

    compiled = aj.compile(function)
    assert compiled(np.arange(5.0), np.arange(4)) == 6.0
    with pytest.raises(IndexError, match="index 7 is out of bounds for axis 0 with size 5"):
        compiled(np.arange(5.0), np.array([0, 1, 7, 2]))


def test_few_instructions_on_numbers_stay_where_their_slices_are_fewer_bytes() -> None:
    """The products of a recursive filter would be written to memory, twice as many as samples."""
    def function(x: Any, b: Any, a: Any) -> Any:
        def step(z: Any, samples: Any) -> Any:
            found = []
            for k in range(4):
                y = z + b[0] * samples[k]
                z = b[1] * samples[k] - a * y
                found.append(y)
            return z, np.stack(found)

        return aj.scan(step, np.zeros(()), np.reshape(x, (-1, 4)))[1]

    trace, arrays = trace_of(function, (normal(32), normal(2), np.array(0.5)))
    after = batch_loops(trace.graph, Options())
    check_equal(trace.graph, after, arrays)
    assert bodies(after)[0].count("multiply") == 12


def test_one_product_for_each_slice_leaves_the_loop() -> None:
    def function(x: Any, w: Any) -> Any:
        return aj.scan(lambda z, sample: (0.5 * z + w * sample, z), np.zeros(()), x)[1]

    _, after, _ = batched(function, normal(32), np.array(0.5))
    assert bodies(after)[0].count("multiply") == 1
