"""Views of arrays that loops do not change: what loops move is linear in what they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from support.bytes_touched import bytes_touched
from support.python_loops import normal, trace_of

import adjit as aj
from adjit.ir.graph import walk
from adjit.ir.interpreter import interpret
from adjit.ir.verifier import Stage, verify
from adjit.passes.loops.hoist_views import hoist_views
from adjit.passes.options import Options, RollingRule
from adjit.passes.pipeline import run_pipeline


def loop(row: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda a: aj.fori_loop(0, len(a), lambda i, s: s + np.sum(np.sin(row(a, i))), 0.0)


def python_loop(row: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda a: sum(np.sum(np.sin(row(a, i)) * np.cos(row(a, i) * i)) for i in range(len(a)))


def while_loop(row: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    def total(a: Any) -> Any:
        def step(state: Any) -> Any:
            return state[0] + 1, state[1] + np.sum(np.sin(row(a, state[0])))
        return aj.while_loop(lambda state: state[0] < len(a), step, (0, 0.0))[1]
    return total


def branch_in_loop(row: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda a: aj.fori_loop(0, len(a), lambda i, s: aj.cond(
        s > 0, lambda: s + np.sum(np.sin(row(a, i))), lambda: s + np.sum(row(a[::2], i // 2))), 0.0)


def loop_in_loop(row: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    return lambda a: aj.fori_loop(0, 2, lambda k, t: t * 0.5 + loop(row)(a), 0.0)


ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "transposed": lambda a, i: a.T[i], "flipped": lambda a, i: a[::-1][i, 2:4], "part": lambda a, i: a[:, 1:][i, ::2],
    "all": lambda a, i: np.flip(a.T, 1)[i],
}
LOOPS = loop, python_loop, while_loop, branch_in_loop, loop_in_loop


def arrays_moved(function: Callable[..., Any], n: int) -> float:
    trace, _ = trace_of(function, (normal(n, n),))
    planned = run_pipeline(trace.graph, Options(rolling=RollingRule(4, 12), cache_bytes=1 << 20), True).final
    return bytes_touched(planned) / (8 * n * n)


def test_loops_move_what_they_read() -> None:
    """Four times the elements: four times the bytes, in value and gradient."""
    for make in LOOPS:
        for name, row in ROWS.items():
            if make is while_loop:      # its derivative repeats iterations, with sums in place of whole arrays
                assert arrays_moved(make(row), 48) < 1.1 * arrays_moved(make(row), 24) < 15, name
                continue
            function = aj.value_and_grad(make(row))
            assert arrays_moved(function, 48) < 1.1 * arrays_moved(function, 24) < 75, (make.__name__, name)


def test_values_keep_every_bit_and_gradients_agree() -> None:
    a = normal(12, 12)
    for make in LOOPS:
        for name, row in ROWS.items():
            trace, arrays = trace_of(make(row), (a,))
            found = hoist_views(trace.graph, Options())
            verify(found, Stage.TRACED)
            if make is not python_loop:
                assert not any(inner.name in ("transpose", "flip") for op in found.ops for region in op.regions for inner in walk(region))
            for wanted, got in zip(interpret(trace.graph, arrays), interpret(found, arrays), strict=True):
                assert wanted.tobytes() == got.tobytes(), (make.__name__, name)
            direction = normal(12, 12, seed=1)
            gradient = aj.compile(aj.grad(make(row)), backend="interpret")(a)
            slope = (make(row)(a + 1e-6 * direction) - make(row)(a - 1e-6 * direction)) / 2e-6
            assert abs(np.sum(gradient * direction) - slope) < 1e-6 * max(1.0, abs(slope)), (make.__name__, name)


def test_what_grows_or_depends_on_the_iteration_stays() -> None:
    def f(a: Any, v: Any) -> Any:
        return aj.fori_loop(0, 5, lambda i, s: s.T @ np.broadcast_to(v, (4, 4)) + np.sin(a)[::-1], a)

    graph = trace_of(f, (normal(4, 4), normal(4)))[0].graph
    assert hoist_views(graph, Options()) is graph
