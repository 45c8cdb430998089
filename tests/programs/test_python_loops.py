"""Python loops, compiled: values in every bit as unrolled, gradients, second derivatives; with everything else that programs do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import for_each
from support.python_loops import LOOPS, SHORT_LOOPS, loops_of, normal, random_loop_function, rolled, trace_of

import adjit as aj
from adjit.ir.graph import Graph, walk
from adjit.ir.interpreter import interpret
from adjit.passes.autodiff.differentiate import differentiate
from adjit.passes.options import Options, RollingRule
from adjit.passes.pipeline import run_pipeline
from adjit.runtime.compile_graph import compile_graph
from adjit.runtime.inputs import Inputs
from adjit.runtime.machine import core_cache_bytes

NATIVE = Options(None, True, core_cache_bytes())


@pytest.fixture
def short_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile with loops rolled however short they are."""
    monkeypatch.setattr("adjit.runtime.compile_options.RollingRule", lambda: SHORT_LOOPS)


def run(graph: Graph, arrays: Sequence[np.ndarray], options: Options = NATIVE) -> list[np.ndarray]:
    made = compile_graph(graph, "native", options, 1, False)
    return [np.asarray(array) for array in made.executable.run(Inputs(graph, list(map(str, arrays))).prepare(arrays, arrays), arrays)]


def check_gradients(function: Callable[..., Any], args: Sequence[Any], argnums: Sequence[int], rtol: float) -> None:
    trace, arrays = trace_of(aj.value_and_grad(function, argnums=tuple(argnums)), args)
    graph = rolled(trace.graph)
    assert loops_of(graph)
    for got, wanted in zip(run(graph, arrays), interpret(differentiate(trace.graph, Options()), arrays), strict=True):
        scale = np.max(np.abs(wanted), initial=0) + 1e-300
        np.testing.assert_allclose(got / scale, wanted / scale, rtol=0, atol=rtol, equal_nan=True)


def test_gradients_of_written_loops(exhaustive: bool) -> None:
    names = [name for name in LOOPS if name not in ("shapes_that_shrink", "decisions_of_values")][::1 if exhaustive else 2]
    for_each({name: LOOPS[name](40 if exhaustive else 12) for name in names},
             lambda function, args, argnums: check_gradients(function, args, argnums, 1e-13), share=2)


def test_gradients_of_random_loops(exhaustive: bool) -> None:
    def check(seed: int) -> None:
        function, args = random_loop_function(seed)
        if not loops_of(rolled(trace_of(function, args)[0].graph)):
            return

        def loss(x: Any, w: Any, a: Any) -> Any:
            out, buffer, b = function(x, w, a)
            return np.sum(out * out) + np.sum(buffer) + b[0]

        check_gradients(loss, args, (0, 1, 2), 1e-12)

    for_each({f"seed {seed}": seed for seed in range(5000, 5400 if exhaustive else 5008)}, check)


def test_values_have_every_bit_of_the_unrolled_program() -> None:
    """Both native: nothing but sums that move is computed otherwise. Products and sums of slices move out of loops."""
    def check(name: str) -> None:
        function, args, _ = LOOPS[name](12)
        trace, arrays = trace_of(function, args)
        for got, wanted in zip(run(rolled(trace.graph), arrays), run(trace.graph, arrays), strict=True):
            assert got.tobytes() == wanted.tobytes()

    names = ("lorenz", "fill_and_read", "leapfrog", "delays", "gauss_seidel", "alternating", "bias_correction", "random_draws",
             "two_writes_of_parts", "list_that_is_stacked", "decisions_of_values")
    for_each({name: (name,) for name in names}, check, share=2)


def test_second_derivatives(short_loops: None) -> None:
    for name in ("leapfrog", "fill_and_read"):
        function, args, _ = LOOPS[name](8)
        x, rest = np.asarray(args[0], float), args[1:]
        v = normal(*x.shape)

        def norm(x: Any) -> Any:
            return np.sum(aj.grad(lambda x: function(x, *rest))(x) ** 2)          # noqa: B023

        for second in (lambda x: aj.hvp(lambda x: function(x, *rest), (x,), (v,)), aj.grad(norm)):       # noqa: B023
            trace, arrays = trace_of(second, [x])
            graph = rolled(trace.graph)
            assert loops_of(graph)
            for got, wanted in zip(run(graph, arrays), interpret(differentiate(trace.graph, Options()), arrays), strict=True):
                np.testing.assert_allclose(got, wanted, rtol=1e-12, atol=1e-12)


def simulate(x: Any, w: Any) -> Any:
    rows = []
    for i in range(20):
        x = np.tanh(w @ x) + 0.01 * i
        rows.append(x)
    return x, np.stack(rows)


X, W = normal(4), normal(4, 4)


def expected() -> tuple[np.ndarray, np.ndarray]:
    found: tuple[np.ndarray, np.ndarray] = simulate(X, W)
    return found


@pytest.mark.parametrize("backend", ["native", "numba", "interpret"])
def test_backends(backend: str, short_loops: None) -> None:
    compiled = aj.compile(simulate, backend=backend)
    for _ in range(3):
        for got, wanted in zip(compiled(X, W), expected(), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-14)
    assert "Python loops: 20 x" in compiled.explain(X, W)
    gradient = aj.compile(aj.grad(lambda x, w: np.sum(simulate(x, w)[1]), argnums=(0, 1)), backend=backend)
    for got, wanted in zip(gradient(X, W), aj.grad(lambda x, w: np.sum(simulate(x, w)[1]), argnums=(0, 1))(X, W), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_donated_parameter_that_the_loop_writes(short_loops: None) -> None:
    def f(buffer: Any, x: Any) -> Any:
        buffer = buffer * 1.0
        for i in range(20):
            x = np.sin(x) + 0.1
            buffer[i] = x
        return buffer

    compiled = aj.compile(f, donate="buffer")
    buffer = np.zeros((22, 3))
    wanted = f(buffer.copy(), normal(3))
    np.testing.assert_allclose(compiled(buffer, normal(3)), wanted, rtol=1e-15)


def test_tensors_and_their_gradients(short_loops: None) -> None:
    """Results of compiled functions with gradients; captured tensors that the loop reads; a training step."""
    w = aj.tensor(0.3 * W, requires_grad=True)
    compiled = aj.compile(lambda x: simulate(x, w)[1].sum())
    x = aj.tensor(X)
    for _ in range(2):
        w.grad = None
        compiled(x).backward()
        _, wanted = aj.grad(lambda x, w: np.sum(simulate(x, w)[1]), argnums=(0, 1))(X, 0.3 * W)
        np.testing.assert_allclose(w.grad.numpy(), wanted, rtol=1e-12)

    optimizer = aj.optim.SGD([w], lr=1e-3)

    @aj.compile
    def step() -> Any:
        optimizer.zero_grad()
        loss = (simulate(x, w)[1] ** 2).sum()
        loss.backward()
        optimizer.step()
        return loss

    losses = [float(step()) for _ in range(4)]
    assert losses == sorted(losses, reverse=True)


def test_transforms_within_and_around(short_loops: None) -> None:
    def own(x: Any) -> Any:
        return simulate(x, W)[0]

    def loss(x: Any) -> Any:
        return np.sum(own(x) ** 2)

    kept = aj.checkpoint(own)
    wanted = aj.grad(loss)(X)
    for function in (loss, lambda x: np.sum(kept(x) ** 2)):
        np.testing.assert_allclose(aj.compile(aj.grad(function))(X), wanted, rtol=1e-12)
    by_scan = aj.compile(aj.grad(lambda x: np.sum(aj.scan(lambda c, _: (own(c), c), x, None, 2)[0] ** 2)))
    by_hand = aj.grad(lambda x: np.sum(own(own(x)) ** 2))
    np.testing.assert_allclose(by_scan(X), by_hand(X), rtol=1e-12)


def test_export(short_loops: None, tmp_path: Path) -> None:
    compiled = aj.compile(simulate)
    compiled.export(tmp_path / "loop.adjit", X, W)
    for got, wanted in zip(aj.load(tmp_path / "loop.adjit")(X, W), expected(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-14)


def test_threads(short_loops: None) -> None:
    """The same bits in several threads at once, and on any number of threads."""
    compiled = aj.compile(simulate)
    wanted = [array.tobytes() for array in compiled(X, W)]
    found: list[list[bytes]] = []
    workers = [threading.Thread(target=lambda: found.extend([array.tobytes() for array in compiled(X, W)] for _ in range(50)))
               for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(found) == 200
    assert all(one == wanted for one in found)
    assert [array.tobytes() for array in aj.compile(simulate, threads=3)(X, W)] == wanted


def test_index_errors_name_the_line_within(short_loops: None) -> None:
    def f(x: Any, index: Any) -> Any:
        total = 0.0
        for i in range(20):
            total = total + np.take(x, index[i])
        return total

    compiled = aj.compile(f)
    good = np.arange(20) % 7
    np.testing.assert_allclose(compiled(np.arange(7.0), good), f(np.arange(7.0), good))
    bad = good.copy()
    bad[13] = 9
    with pytest.raises(IndexError, match=f":{f.__code__.co_firstlineno + 3} in f"):
        compiled(np.arange(7.0), bad)


def test_memory_by_line_names_lines_within(short_loops: None) -> None:
    compiled = aj.compile(aj.grad(lambda x, w: np.sum(simulate(x, w)[1])))
    assert f":{simulate.__code__.co_firstlineno + 3}" in str(compiled.memory(X, W))


def test_loops_stay_unrolled_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    def f(x: Any) -> Any:
        for _ in range(400):
            x = np.sin(x) * 0.5 + x
        return x

    assert "Python loops: 400 x" in aj.compile(f, backend="interpret").explain(X)
    assert "Python loops" not in aj.compile(f, backend="interpret", roll_loops=False).explain(X)
    monkeypatch.setenv("ADJIT_ROLL_LOOPS", "0")
    assert "Python loops" not in aj.compile(f, backend="interpret").explain(X)
    assert "Python loops: 400 x" in aj.compile(roll_loops=True, backend="interpret")(f).explain(X)
    for backend in ("native", "interpret"):
        unrolled, rolled_one = (aj.compile(f, backend=backend, roll_loops=rolls)(X) for rolls in (False, True))
        np.testing.assert_array_equal(unrolled, rolled_one)
    with pytest.raises(TypeError, match=r"roll_loops= takes True, False or None, got 1"):
        aj.compile(f, roll_loops=1)


def test_explain_says_why_not(short_loops: None) -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = x * x + 0.5
        return x

    report = aj.compile(f, backend="interpret").explain(normal(200, 200))
    assert "are not rolled: elementwise ops on more than 256 kB" in report
    assert f":{f.__code__.co_firstlineno + 2} in f" in report


def test_short_programs_stay_as_they_are() -> None:
    trace, _ = trace_of(simulate, (X, W))
    assert rolled(trace.graph, RollingRule()) is trace.graph


def test_weight_gradients_of_vectors_are_one_product() -> None:
    """`w @ h` of a vector: the outer products of all iterations are one product behind the loop."""
    def f(w: Any, v: Any, x: Any) -> Any:
        h = np.zeros(5)
        for i in range(12):
            h = np.tanh(w @ h + x[i] @ v)
        return np.sum(h ** 2)

    args = normal(5, 5), normal(3, 5), normal(12, 3)
    trace, arrays = trace_of(aj.grad(f, argnums=(0, 1)), args)
    graph = run_pipeline(rolled(trace.graph), Options(), True).graphs["optimized"]
    backward = [op for op in graph.ops if op.name == "scan"][1]
    assert sum(op.name == "matmul" for op in walk(backward.regions[0])) == 1        # that of the cotangent
    assert not any(len(value.type.shape) == 2 for value in backward.results[-backward.attrs["carries"]:])
    for got, wanted in zip(run(rolled(trace.graph), arrays), run(trace.graph, arrays), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-13, atol=1e-15)
