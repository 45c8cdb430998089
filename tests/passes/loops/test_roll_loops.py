"""Loops that tracing unrolled: which are found, in how many ops; and every bit stays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import parametrize_within
from support.python_loops import LOOPS, SHORT_LOOPS, loops_of, normal, random_loop_function, rolled, rolled_scans, trace_of

import adjit as aj
from adjit.ir.graph import Graph, walk
from adjit.ir.interpreter import interpret
from adjit.ir.verifier import Stage, verify
from adjit.passes.loops.lift_differences import lift_differences
from adjit.passes.loops.roll_loops import find_refusals
from adjit.passes.options import Options, RollingRule
from adjit.passes.pipeline import run_pipeline

FOUND = {
    "lorenz": ([(40, 78)], 79), "fill": ([(40, 8)], 12), "fill_backwards_by_columns": ([(40, 4)], 13),
    "fill_at_irregular_places": ([(40, 4)], 13), "fill_and_read": ([(40, 9)], 19), "leapfrog": ([(40, 15)], 20),
    "delays": ([(40, 7)], 10), "gauss_seidel": ([(240, 18)], 39), "riccati_backwards": ([(40, 20)], None),
    "alternating": ([(20, 8)], 10), "first_iteration_is_special": ([(39, 7)], 14), "last_iteration_breaks_out": ([(39, 6)], 12),
    "bias_correction": ([(40, 26)], 33), "windows": ([(40, 6)], 15), "blocks": ([(40, 7)], 11), "accumulated_time": ([(40, 5)], 7),
    "list_of_weights": ([(40, 3)], 49), "list_that_is_stacked": ([(40, 4)], 22), "list_that_is_summed": ([(40, 8), (40, 1)], 17),
    "hidden_markov_model": ([(39, 13)], 29), "short_loop_within": ([(40, 23)], 25), "long_loop_within": ([(12, 5), (20, 7)], 14),
    "shapes_that_shrink": ([], 442), "columns": ([(40, 5)], 10), "random_draws": ([(40, 33)], 40), "triangle_of_pairs": ([(78, 9)], 17),
    "value_of_the_first_iteration": ([(39, 7)], 18), "two_writes_of_parts": ([(40, 15)], 20),
    "two_loops_that_share": ([(40, 4), (40, 6)], 25), "decisions_of_values": ([(40, 26)], 30),
    "plain_weights_that_fade": ([(40, 4)], 8), "plain_masks_and_indices": ([(40, 6)], 11), "plain_matrix_that_grows": ([(40, 8)], 12),
    "plain_state_written_in_place": ([(40, 8)], 13),
}
"""Loops, as iterations and ops of an iteration, and ops of the whole for 40 iterations; None: depends on the rules of np.linalg."""


def check_bits(graph: Graph, found: Graph, arrays: list[np.ndarray]) -> None:
    verify(found, Stage.TRACED)
    for wanted, got in zip(interpret(graph, arrays), interpret(found, arrays), strict=True):
        assert (wanted.dtype, wanted.shape, wanted.tobytes()) == (got.dtype, got.shape, got.tobytes())


@parametrize_within("name", LOOPS)
def test_written_loops(name: str) -> None:
    function, args, _ = LOOPS[name](40)
    trace, arrays = trace_of(function, args)
    found = rolled(trace.graph)
    loops, count = FOUND[name]
    assert loops_of(found) == loops
    assert count is None or sum(1 for _ in walk(found)) == count
    check_bits(trace.graph, found, arrays)


@pytest.mark.share(2)
@pytest.mark.parametrize("part", range(4))
def test_random_loops(part: int, exhaustive: bool) -> None:
    count = 0
    for seed in range(part, 3000 if exhaustive else 64, 4):
        function, args = random_loop_function(seed)
        trace, arrays = trace_of(function, args)
        found = rolled(trace.graph)
        try:
            check_bits(trace.graph, found, arrays)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
        count += bool(loops_of(found))
    assert count >= (450 if exhaustive else 9)


def trace(function: Callable[..., Any], *args: Any) -> tuple[Graph, list[np.ndarray]]:
    traced, arrays = trace_of(function, args)
    return traced.graph, arrays


@parametrize_within("peeled", [0, 1, 2, 3])
def test_first_iterations_may_take_other_operands(peeled: int) -> None:
    def loop(x: Any, w: Any, v: Any) -> Any:
        for i in range(20):
            x = np.tanh((v if i < peeled else w) @ x) + 0.1
        return x

    graph, arrays = trace(loop, normal(4), normal(4, 4), normal(4, 4, seed=1))
    found = rolled(graph)
    (length, _), = loops_of(found)
    assert length in (20 - peeled, 19 - peeled)
    check_bits(graph, found, arrays)


def test_operands_that_change_in_the_midst_make_two_loops() -> None:
    def loop(x: Any, w: Any, v: Any) -> Any:
        for i in range(40):
            x = np.tanh((v if i < 17 else w) @ x) + 0.1
        return x

    graph, arrays = trace(loop, normal(4), normal(4, 4), normal(4, 4, seed=1))
    found = rolled(graph)
    assert len(loops_of(found)) == 2
    check_bits(graph, found, arrays)


def test_attributes_that_change_in_the_midst_make_two_loops() -> None:
    def loop(x: Any) -> Any:
        for i in range(30):
            x = np.sin(x) + np.sum(x, axis=0 if i < 15 else 1, keepdims=False)
        return x

    graph, arrays = trace(loop, normal(4, 4))
    found = rolled(graph)
    assert [length for length, _ in loops_of(found)] in ([15, 15], [14, 15], [15, 14], [14, 14])
    check_bits(graph, found, arrays)


def test_dtype_that_settles_in_the_first_iteration() -> None:
    def loop(x: Any, w: Any) -> Any:
        for _ in range(12):
            x = np.sin(x) * w
        return x

    graph, arrays = trace(loop, normal(4).astype(np.float32), normal(4))
    found = rolled(graph)
    assert loops_of(found) != []
    check_bits(graph, found, arrays)


def test_locations_stay() -> None:
    """Ops of the body, and so its reports and errors, have the lines of the loop."""
    def loop(x: Any) -> Any:
        for _ in range(12):
            x = np.sin(x)
            x = np.exp(-x)
        return x

    graph, _ = trace(loop, normal(4))
    first = loop.__code__.co_firstlineno
    (scan,) = rolled_scans(rolled(graph))
    assert [(op.name, op.loc.line - first) for op in scan.regions[0].ops if op.loc] == [("sin", 2), ("negative", 3), ("exp", 3)]


def test_large_elementwise_bodies_stay_unrolled() -> None:
    def loop(x: Any, y: Any) -> Any:
        for _ in range(12):
            y = y * x + 0.5
        return y

    large, _ = trace(loop, normal(200, 200), normal(200, 200))
    rule = RollingRule(4, 12)
    assert rolled(large) is large
    (reason,) = find_refusals(large, rule)
    assert "elementwise ops on more than 256 kB" in reason
    assert "12 repetitions" in reason
    small, _ = trace(loop, normal(20, 20), normal(20, 20))
    assert len(loops_of(rolled(small))) == 1
    assert find_refusals(rolled(small), rule) == []


def test_arrays_are_copied_into_one_up_to_a_limit() -> None:
    def loop(ws: Any, x: Any) -> Any:
        for w in ws:
            x = np.tanh(x @ w)
        return x

    graph, arrays = trace(loop, [normal(8, 8, seed=i) for i in range(12)], normal(3, 8))
    assert loops_of(rolled(graph)) == [(12, 2)]
    small = RollingRule(4, 12, max_copied_bytes=12 * 512 - 1)
    assert loops_of(rolled(graph, small)) == []
    assert "12 iterations take different arrays of 6144 bytes" in find_refusals(graph, small)[0]
    check_bits(graph, rolled(graph), arrays)


def test_loops_need_no_copies_where_a_longer_period_would() -> None:
    """Ten layers, applied 20 times: a loop of loops, not ten copies of one."""
    def loop(w: Any, x: Any) -> Any:
        for _ in range(20):
            for i in range(10):
                x = np.tanh(x @ w[i])
        return x

    graph, arrays = trace(loop, normal(10, 8, 8), normal(3, 8))
    found = rolled(graph)
    assert sum(1 for _ in walk(found)) < 20
    check_bits(graph, found, arrays)


def test_slices_alone_are_no_loop() -> None:
    def parts(x: Any) -> Any:
        return [x[i] for i in range(40)]

    graph, _ = trace(parts, normal(40))
    assert rolled(graph) is graph


def test_values_at_changing_distances_are_refused() -> None:
    """Elements of a list are made of others in no order."""
    def loop(x: Any) -> Any:
        xs = [x]
        for i in range(60):
            xs.append(np.sin(xs[i - i * i % 7 % (i + 1)]) + 0.1)
        return xs[-1]

    graph, arrays = trace(loop, normal(4))
    check_bits(graph, rolled(graph), arrays)
    assert any("changing distances" in reason for reason in find_refusals(graph, SHORT_LOOPS))


def test_loops_within_regions() -> None:
    """In a function that is differentiated, recomputed, brings its own derivative, or is the body of a loop that the user wrote."""
    def steps(x: Any) -> Any:
        for _ in range(12):
            x = np.sin(x) + 0.5 * x
        return x

    @aj.custom_vjp
    def own(x: Any) -> Any:
        return steps(x)

    own.defvjp(lambda x: (steps(x), x), lambda x, ct: (ct * np.cos(x),))
    x = normal(3)
    for function in (aj.grad(lambda x: np.sum(steps(x))), aj.checkpoint(steps), own,
                     lambda x: aj.scan(lambda c, _: (steps(c), c), x, None, 3), lambda x: aj.fori_loop(0, 3, lambda i, c: steps(c), x),
                     lambda x: aj.cond(x[0] > 0, lambda: steps(x), lambda: x)):
        graph, _ = trace(function, x)
        found = rolled(graph)
        assert loops_of(found), function
        verify(found, Stage.TRACED)


def test_a_loop_of_gradients() -> None:
    """Steps of an optimiser: each iteration differentiates, and the loop holds one `vjp`."""
    def train(w: Any, xs: Any) -> Any:
        for i in range(12):
            w = w - 0.1 * aj.grad(lambda w, x: np.sum(np.tanh(x @ w) ** 2))(w, xs[i])
        return w

    graph, _ = trace(train, normal(4), normal(12, 5, 4))
    found = rolled(graph)
    assert [length for length, _ in loops_of(found)] == [12]
    assert sum(op.name == "vjp" for op in walk(found)) == 1


def differing_regions() -> dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]:
    """Loops whose iterations own regions that differ in numbers and in places."""
    w, xs, y = normal(4), normal(12, 5, 4), normal(12, 4, seed=1)

    def gradient_of_closure(w: Any, xs: Any, y: Any) -> Any:
        for i in range(12):
            w = w - 0.01 * aj.grad(lambda w: np.sum((np.tanh(xs[i] @ w) - y[i, 1:2] * i) ** 2))(w)          # noqa: B023
        return w

    def coordinates(w: Any, xs: Any, y: Any) -> Any:
        w = np.concatenate([w, w, w])
        for i in range(12):
            w = w - 0.1 * aj.grad(lambda w: np.sin(w[i] * y[i, 0]) + w[11 - i] ** 2)(w)                      # noqa: B023
        return w

    def branches(w: Any, xs: Any, y: Any) -> Any:
        for i in range(12):
            w = aj.cond(w[0] > 0.1 * i, lambda: np.sin(w) + y[i], lambda: w * y[i, 0] + i)                   # noqa: B023
        return w

    def nested(w: Any, xs: Any, y: Any) -> Any:
        for i in range(12):
            def loss(w: Any) -> Any:
                s = aj.cond(w[1] > 0, lambda: aj.checkpoint(lambda: np.sum(w * y[i] + i))(), lambda: np.sum(w) * y[i, 2])      # noqa: B023
                return aj.fori_loop(0, 3, lambda k, s: np.sin(s + y[i, k] * w[i % 4]), s)                    # noqa: B023
            w = w - 0.1 * aj.grad(loss)(w)
        return w

    def writes(w: Any, xs: Any, y: Any) -> Any:
        for i in range(12):
            def part(w: Any) -> Any:
                w = w * 1.5
                w[i // 3] = np.sum(y[i]) * w[3 - i // 3]                # noqa: B023
                return w
            w = aj.checkpoint(part)(w) * 0.5
        return w

    def in_gradient(w: Any, xs: Any, y: Any) -> Any:
        return aj.grad(lambda y: np.sum(nested(w, xs, y) ** 2))(y)

    functions = gradient_of_closure, coordinates, branches, nested, writes, in_gradient
    return {function.__name__: (function, (w, xs, y)) for function in functions}


def test_regions_that_differ_in_numbers_and_places() -> None:
    for name, (function, args) in differing_regions().items():
        graph, arrays = trace(function, *args)
        found = rolled(graph)
        assert (12 in [length for length, _ in loops_of(found)]), name
        verify(found, Stage.TRACED)
        plain, same = (run_pipeline(each, Options(), True).graphs["adjoint"] for each in (graph, found))
        for wanted, got in zip(interpret(plain, arrays), interpret(same, arrays), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-14, err_msg=name)
            assert name == "in_gradient" or wanted.tobytes() == got.tobytes(), name


def test_regions_that_differ_otherwise_stay() -> None:
    def loop(w: Any) -> Any:
        for i in range(12):
            w = aj.checkpoint(lambda w: np.sin(w) if i % 5 else np.cos(w) * 2.0)(w)         # noqa: B023
        return w

    graph, arrays = trace(loop, normal(4))
    assert lift_differences(graph, 4) is graph
    check_bits(graph, rolled(graph), arrays)


def test_rows_of_a_list_become_the_array_of_rows() -> None:
    def loop(x: Any, w: Any) -> Any:
        hs = []
        for _ in range(30):
            x = np.tanh(w @ x)
            hs.append(x)
        return np.stack(hs), np.stack(hs[::-1], axis=1), np.concatenate(hs[3:27])

    graph, arrays = trace(loop, normal(4), normal(4, 4))
    found = rolled(graph)
    assert [op.name for op in walk(found)].count("slice") <= 1
    check_bits(graph, found, arrays)


def test_elements_of_a_table_are_read_and_written_alone() -> None:
    """Dynamic programming: places in two axes are one place in the axes joined, not an element of a row that is read and written back."""
    def cheapest(costs: Any) -> Any:
        found = np.full((9, 8), 1e10)
        found[0, 0] = 0.0
        for i in range(1, 9):
            for j in range(1, 8):
                found[i, j] = costs[i - 1, j - 1] + np.minimum(np.minimum(found[i - 1, j], found[i, j - 1]), found[i - 1, j - 1])
        return found

    graph, arrays = trace(cheapest, normal(8, 7) ** 2)
    found = rolled(graph)
    (loop,) = rolled_scans(found)
    names = [op.name for op in loop.regions[0].ops]
    assert (names.count("take"), names.count("scatter_set")) == (3, 1)
    assert max(op.result.type.size for op in loop.regions[0].ops if op.name == "take") == 1
    check_bits(graph, found, arrays)


def test_windows_that_move_along_two_axes_are_read_at_once() -> None:
    """And what fills an array element by element is its rows."""
    def pooled(image: Any) -> Any:
        out = np.zeros((6, 5))
        for i in range(6):
            for j in range(5):
                out[i, j] = np.max(image[2 * i:2 * i + 2, 1, j:j + 3])
        return out

    graph, arrays = trace(pooled, normal(12, 2, 7))
    found = rolled(graph)
    (loop,) = rolled_scans(found)
    assert loop.attrs["carries"] == 0
    assert [op.name for op in found.ops if op.name in ("take", "slice")] == ["take"]
    assert "take" not in [op.name for op in loop.regions[0].ops]
    check_bits(graph, found, arrays)


def test_a_loop_whose_first_iteration_is_shorter_ends_with_an_iteration() -> None:
    """Products of zeros made before the loop are Python's in the first iteration: the loop begins with the second one, not in the midst."""
    def adam(x: Any) -> Any:
        m = v = np.zeros(4)
        for t in range(24):
            g = 2 * x + np.cos(x)
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            x = x - 0.1 * (m / (1 - 0.9 ** (t + 1))) / (np.sqrt(v / (1 - 0.999 ** (t + 1))) + 1e-8)
        return x

    graph, arrays = trace(adam, normal(4))
    found = rolled(graph)
    assert [length for length, _ in loops_of(found)] == [23]
    assert found.ops[-1].name == "scan"
    check_bits(graph, found, arrays)
